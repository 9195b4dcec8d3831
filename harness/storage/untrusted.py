"""Read what this process did not write: files of models, caches and runs, and the names in them.

open(path, "rb", opener=regular_only)   a regular file; a pipe or a device raises OSError at once, so nothing waits
read_plain(path)                   its bytes, at most HARNESS_MAX_LINE_MIB MiB
read_object(path)                  the JSON object in it
parse_yaml(text, loader)           the values of a YAML text
package_folder(name)               where an installed package lies; nothing is imported

Whatever cannot be used raises OSError or ValueError with the reason; callers say whose file it is and what to do.
"""

import errno
import importlib.util
import json
import os
import stat
from pathlib import Path
from typing import Any

from harness.errors import CannotRun
from harness.storage.input_limits import limit, nesting_problem, too_deep, yaml_problem

_SETTINGS = (".json", ".jinja", ".txt", ".model")


def regular_only(path: str, flags: int) -> int:
    """An opener for `open` that refuses all but regular files; links are followed. Raises OSError."""
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "it is no regular file", path)


def check_files(folder: Path) -> None:
    """Check a model's folder before libraries open its files. Raises CannotRun for a pipe or device, or a huge file.

    Weights may have any size; settings and vocabularies at most HARNESS_MAX_LINE_MIB MiB each.
    """
    try:
        for path in sorted(folder.iterdir()):
            if path.exists() and not path.is_file() and (path.suffix in _SETTINGS or not path.is_dir()):
                raise CannotRun(f"'{path}' is no regular file; copy the model's folder again")
            if path.suffix in _SETTINGS and path.is_file() and path.stat().st_size > limit("LINE_MIB") << 20:
                raise CannotRun(f"'{path}' is longer than {limit('LINE_MIB')} MiB; copy the model's folder again")
    except OSError as e:
        raise CannotRun(f"the folder '{folder}' cannot be read ({e.strerror})") from e


def read_plain(path: Path, max_bytes: int | None = None) -> bytes:
    """Read a regular file. Raises OSError, and ValueError beyond `max_bytes` (default: HARNESS_MAX_LINE_MIB)."""
    max_bytes = limit("LINE_MIB") << 20 if max_bytes is None else max_bytes
    with open(path, "rb", opener=regular_only) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(min(size, max_bytes) + 1)  # Python sets as many bytes aside as it is asked to read
    if len(data) > max_bytes:
        raise ValueError(f"{path.name} is longer than {max_bytes >> 20} MiB")
    return data


def parse_json(data: bytes) -> Any:
    """A JSON value. Raises ValueError, also for one that is nested too deeply."""
    try:
        value = json.loads(data)
    except RecursionError:
        raise ValueError(nesting_problem()) from None
    if too_deep(value, data.count(b"[") + data.count(b"{")):
        raise ValueError(nesting_problem())
    return value


def as_object(data: bytes) -> dict[str, Any]:
    """The JSON object in `data`. Raises ValueError."""
    value = parse_json(data)
    if not isinstance(value, dict):
        raise ValueError("it holds no JSON object")
    return value


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a regular file. Raises OSError, ValueError."""
    return as_object(read_plain(path))


def parse_yaml(text: str | bytes, loader: Any = None) -> Any:
    """The values of a YAML text, by PyYAML's safe loader or one made from it. Raises ValueError, yaml.YAMLError.

    A tag may name a type that the text is none of: `!!float "x"`, `!!timestamp 1`.
    """
    import yaml

    if problem := yaml_problem(text):
        raise ValueError(problem)
    try:
        return yaml.load(text, Loader=loader or getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # C: ten times as fast
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (TypeError, AttributeError, LookupError, ValueError, OverflowError) as error:
        raise ValueError(f"a value is not of the type that its tag names ({error})") from None


def package_folder(name: str) -> Path | None:
    """The folder of an installed package, None for other names, also dotted ones: finding "a.b" would import a."""
    module = name.replace("-", "_")
    try:
        spec = importlib.util.find_spec(module) if module.isidentifier() else None
    except ValueError:  # "__main__"
        return None
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(folders[0]) if folders else None
