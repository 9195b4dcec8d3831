"""Identify the code of the user's own methods, whose authors raise no version.

    own_code(Lead)      {"lead": "<sha256 of lead.py>"}        {} for a method of this project
    versions(names)     {"umap-learn": "0.5.7"}                of installed packages

Shipped methods have an index_version that is raised, and prompts that are hashed. A method of the user's is edited and
run again, so the files of its class and of its bases are hashed instead. Modules that these import are not
hashed: after a change of one, raise index_version or remove the cache.
"""

from __future__ import annotations

import hashlib
import inspect
import marshal
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from harness.storage.file_hash import file_hash

_PROJECT = Path(__file__).resolve().parents[2]
_SHIPPED = tuple(_PROJECT / name for name in ("harness", "methods"))


def own_code(cls: type) -> dict[str, str]:
    """Module -> sha256 of its file, for those of `cls` and its bases that are no part of this project or of Python.

    Of a class that was typed in, in a notebook, the compiled code of its functions is hashed.
    """
    hashes: dict[str, str] = {}
    for name in sorted({c.__module__ for c in cls.__mro__} - sys.stdlib_module_names):
        path = _file(name)
        if path is None:
            hashes[name] = _compiled([c for c in cls.__mro__ if c.__module__ == name])
        elif not any(path.is_relative_to(folder) for folder in _SHIPPED):
            hashes[name] = file_hash(path)
    return hashes


def _compiled(classes: Iterable[type]) -> str:
    """sha256 over the functions of classes without a file, those of nested classes (Config) included."""
    digest = hashlib.sha256()
    for cls in classes:
        for name, value in sorted(vars(cls).items()):
            function = getattr(value, "__func__", value)
            if isinstance(value, type) and value.__module__ == cls.__module__ and name != "__class__":
                digest.update(_compiled([value]).encode())
            elif (code := getattr(function, "__code__", None)) is not None:
                digest.update(marshal.dumps(code.replace(co_filename="", co_firstlineno=0, co_linetable=b"")))
            elif isinstance(value, str | int | float | bool | tuple) and not name.startswith("__"):
                digest.update(f"{name}={value!r}".encode())
    return digest.hexdigest()


def _file(module: str) -> Path | None:
    try:
        source = inspect.getsourcefile(sys.modules[module])
    except (KeyError, TypeError):
        return None
    return Path(source).resolve() if source and Path(source).is_file() else None


def versions(names: Iterable[str]) -> dict[str, str]:
    """Package -> its installed version, "not installed" for one that is missing."""
    by_name = {}
    for name in sorted(names):
        try:
            by_name[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            by_name[name] = "not installed"
    return by_name
