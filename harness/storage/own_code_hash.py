"""Identify the user's own code, whose authors raise no version.

    own_code(Lead)      {"lead": "<sha256 of lead.py>", "util": ..., "words.txt": ...}; {} for a method of this project

Shipped methods have an index_version that is raised, and prompts that are hashed. A user's method,
parser or scorer is edited and run again, so these are hashed: the files of its class and of its
bases; every module that these import, also inside a function, but for Python's own and installed
packages; files that the source names by a literal and does not open to write ("words.txt",
Path(__file__).parent / "data" / "words.txt"), or that glob("*.txt") finds below its folder. Names
made at run time are not seen.
"""

import ast
import hashlib
import importlib.util
import inspect
import itertools
import marshal
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from harness.errors import UserError
from harness.storage.file_hash import file_hash

_PROJECT = Path(__file__).resolve().parents[2]
_SHIPPED = tuple(
    _PROJECT / name for name in ("configs", "harness", "methods", "packages", "pocket", "reports")
)
_IMPORTERS = {"import_module", "__import__"}
_INSTALLED = {"site-packages", "dist-packages"}
_WRITES = re.compile(r"[wax]b?t?\+?|rb?\+")  # modes of open
_imported: dict[
    tuple[str, str], tuple[ModuleSpec | None, str]
] = {}  # (module, file) -> as it was when first hashed


def own_code(
    root: type | Callable[..., Any] | str, parameters: Iterable[Any] = ()
) -> dict[str, str]:
    """Hash the user's own code.

    Nothing is imported. Code typed into a notebook has no file: its compiled code is hashed, with
    the functions and constants that it uses.

    Args:
        root: A class, a function, or a module's name.
        parameters: Values of its settings: files that they name are hashed too.

    Returns:
        Module or file name -> sha256, sorted; {} for code of this project, whatever files its
        parameters name.

    Raises:
        UserError: A file changed after this process imported it.
    """
    hashes = _code_hashes(root)
    if not hashes:
        return {}
    for value in parameters:
        if isinstance(value, str) and Path(value).is_file():
            file = Path(value)
            hashes[file.name] = file_hash(file)
    return dict(sorted(hashes.items()))


def _code_hashes(root: type | Callable[..., Any] | str) -> dict[str, str]:
    """Module or file name -> sha256 of the code of a class with its bases, a function or a module,
    and of what it uses."""
    if isinstance(root, str):
        collected = _CodeHashes(root)
        collected.add_module(root)
        return collected.hashes
    collected = _CodeHashes(root.__module__)
    parts: tuple[Any, ...] = (root,)
    if isinstance(root, type):
        parts = root.__mro__
    for part in parts:
        collected.add(part)
    return collected.hashes


class _CodeHashes:
    """Collects `hashes`: module or file name -> sha256. root: the user's module, hashed even if it
    is installed."""

    def __init__(self, root: str) -> None:
        self.hashes: dict[str, str] = {}
        self._top = root.partition(".")[0]
        self._without_file: set[int] = set()

    def add(self, part: Any) -> None:
        """Hash a loaded class, function or module with all that it uses."""
        name = part.__name__ if isinstance(part, ModuleType) else part.__module__
        if isinstance(part, ModuleType) or _spec_and_file(name)[1] is not None:
            self.add_module(name)
        elif (
            id(part) not in self._without_file
            and name.partition(".")[0] not in sys.stdlib_module_names
        ):
            self._without_file.add(id(part))
            self._add_without_file(name, part)

    def add_module(self, name: str) -> None:
        """Hash a module's file, the files that it names and what it imports."""
        spec, path = _spec_and_file(name)
        top = name.partition(".")[0]
        if name in self.hashes or path is None or top in sys.stdlib_module_names:
            return
        if (top != self._top and _INSTALLED & set(path.parts)) or any(
            path.is_relative_to(f) for f in _SHIPPED
        ):
            return
        self._add_file(name, name, spec, path)
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):  # compiled code
            return
        for file in _named_files(tree, path):
            self._add_file(name, file.name, spec, file)
        for imported in _imports(
            tree, name if path.name == "__init__.py" else name.rpartition(".")[0]
        ):
            self.add_module(imported)

    def _add_file(self, module: str, label: str, spec: ModuleSpec | None, path: Path) -> None:
        """Hash a file that is or is named by `module`, as `label`. Raises UserError if it changed
        since the import."""
        now, loaded = file_hash(path), module in sys.modules
        old_spec, old_hash = _imported.get((module, str(path)), (None, now))
        # A module that was reloaded has another spec; of one that was not loaded yet none is kept.
        _imported[module, str(path)] = (spec if loaded else None, now)
        if loaded and old_hash != now and (old_spec is None or old_spec is spec):
            _imported[module, str(path)] = (spec, old_hash)
            raise UserError(
                f"{path.name} has changed since Python imported '{module}'; restart Python, or "
                "reload it"
            )
        self.hashes[label if self.hashes.get(label, now) == now else f"{label} {now[:8]}"] = now

    def _add_without_file(self, module: str, part: Any) -> None:
        """Hash `part`, a class or function typed into a notebook, and what it uses, under the name
        `module`."""
        digest = hashlib.sha256()
        for name, value in (
            sorted(vars(part).items()) if isinstance(part, type) else [(part.__name__, part)]
        ):
            function = inspect.unwrap(
                getattr(value, "fget", None) or getattr(value, "__func__", value)
            )
            if isinstance(value, type) and value.__module__ == module and name != "__class__":
                self.add(value)
            elif isinstance(function, FunctionType):
                for code in _code_objects(function.__code__):
                    constants = tuple(c for c in code.co_consts if not isinstance(c, CodeType))
                    digest.update(
                        code.co_code + _marshalled((constants, code.co_names, code.co_varnames))
                    )
                digest.update(_marshalled((function.__defaults__, function.__kwdefaults__)))
                self._add_globals_used(function, digest)
            elif not name.startswith("__"):
                digest.update(name.encode() + _marshalled(value))
        self.hashes[module] = hashlib.sha256(
            (self.hashes.get(module, "") + digest.hexdigest()).encode()
        ).hexdigest()

    def _add_globals_used(self, function: FunctionType, digest: Any) -> None:
        """Hash the globals that a function uses: code as by `add`, values into `digest`, a hashlib
        object."""
        used = {name for code in _code_objects(function.__code__) for name in code.co_names}
        for name in sorted(used & set(function.__globals__)):
            value = function.__globals__[name]
            if isinstance(value, type | FunctionType | ModuleType):
                self.add(value)
            else:
                digest.update(name.encode() + _marshalled(value))


def _code_objects(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_objects(constant)


def _marshalled(value: Any) -> bytes:
    """The bytes of a constant or a container of constants; b"" for other objects."""
    with suppress(ValueError):
        return marshal.dumps(value)
    return b""


def _spec_and_file(name: str) -> tuple[ModuleSpec | None, Path | None]:
    """Find a module's import spec and its file (None: none), without importing it."""
    if (module := sys.modules.get(name)) is not None:
        file = getattr(module, "__file__", None)
        return getattr(module, "__spec__", None), Path(file).resolve() if file and Path(
            file
        ).is_file() else None
    parent = name.rpartition(".")[0]
    try:
        if not parent:
            spec = importlib.util.find_spec(name)
        else:
            package = _spec_and_file(parent)[0]
            folders = package.submodule_search_locations if package else None
            spec = PathFinder.find_spec(name, list(folders)) if folders else None
    except (ImportError, ValueError):
        return None, None
    path = Path(spec.origin).resolve() if spec and spec.origin else None
    return spec, path if path and path.is_file() else None


def _imports(tree: ast.AST, package: str) -> Iterator[str]:
    """Yield the names of modules that `tree` imports, also by import_module("x"). package: for
    relative imports."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = (
                package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            )
            base = ".".join([*above, *filter(None, [node.module])])
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Call) and node.args:
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            names = (
                [str(getattr(node.args[0], "value", "")).lstrip(".")]
                if called in _IMPORTERS
                else []
            )
        for name in filter(None, names):
            yield from itertools.accumulate(name.split("."), "{}.{}".format)


def _named_files(tree: ast.AST, module: Path) -> Iterator[Path]:
    """Yield files that string literals name: beside the file `module`, in the working directory, or
    by full path."""
    written: set[str] = set()
    named: list[list[str]] = []
    for node in ast.walk(tree):
        words = _string_literals(ast.iter_child_nodes(node))
        # folder / "data" / "words.txt".
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            words = _string_literals(ast.walk(node))[::-1]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in (
            "glob",
            "iglob",
            "rglob",
        ):
            patterns = [
                word
                for word in _string_literals(ast.walk(node))
                if "*" in word and not word.startswith("/")
            ]
            files = [
                path
                for pattern in patterns
                for path in module.parent.rglob(pattern)
                if path.is_file()
            ]
            yield from sorted(path.resolve() for path in files if "__pycache__" not in path.parts)
        elif isinstance(node, ast.Call) and any(_WRITES.fullmatch(word) for word in words[1:]):
            written.add(words[0])
        named += [
            words,
            *([word] for word in words),
        ]  # os.path.join("data", "words.txt"), and "words.txt" alone
    for words in named:
        for folder in (module.parent, Path.cwd()) if words and words[0] not in written else ():
            with suppress(OSError):  # a text that is too long for a name
                if (path := folder / os.path.join(*words)).is_file():
                    yield path.resolve()


def _string_literals(nodes: Iterable[ast.AST]) -> list[str]:
    """The string constants among syntax nodes."""
    return [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
