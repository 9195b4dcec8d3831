"""Identify the user's own code, whose authors raise no version.

    own_code(Lead)      {"lead": "<sha256 of lead.py>", "util": ..., "words.txt": ...}; {} for a method of this project

Shipped methods have an index_version that is raised, and prompts that are hashed. A user's method,
parser or scorer is edited and run again, so these are hashed: the files of its class and of its
bases; every module that these import, also inside a function, but for Python's own and installed
packages; files that the source names by a literal and does not open to write ("words.txt",
Path(__file__).parent / "data" / "words.txt"), or that glob("*.txt") finds below its folder. Names
made at run time are not seen.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import marshal
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, Protocol, TypeAlias

from harness.errors import UserError
from harness.storage.file_hash import file_hash

_PROJECT = Path(__file__).resolve().parents[2]
_SHIPPED = tuple(
    _PROJECT / name for name in ("configs", "harness", "methods", "packages", "pocket", "reports")
)
_IMPORT_FUNCTIONS = {"import_module", "__import__"}
_INSTALLED_FOLDERS = {"site-packages", "dist-packages"}
_WRITING_MODES = re.compile(r"[wax]b?t?\+?|rb?\+")  # modes of open
_GLOB_FUNCTIONS = {"glob", "iglob", "rglob"}
Code: TypeAlias = type | Callable[..., object]
"""A class or a function."""


class _FoundModule(NamedTuple):
    """A module as the import system finds it; None where there is no spec, or no file."""

    spec: ModuleSpec | None
    file: Path | None


class _FirstHash(NamedTuple):
    """A file as it was when it was first hashed.

    Attributes:
        spec: The import spec of the module that is or names the file; None where that was not
            loaded yet.
        sha256: The file's hash then.
    """

    spec: ModuleSpec | None
    sha256: str


_first_hashes: dict[tuple[str, Path], _FirstHash] = {}
"""By (module, file)."""


def own_code(root: Code | str, parameters: Iterable[object] = ()) -> dict[str, str]:
    """Hash the user's own code, so that an edited class or function is another one.

        own_code(Lead) -> {"lead": "<sha256 of lead.py>", "util": "...", "words.txt": "..."}

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


def _code_hashes(root: Code | str) -> dict[str, str]:
    """Hash a class with its bases, a function or a module (by its name), and all that it uses.

    Returns:
        Module or file name -> sha256; {} for code of this project.
    """
    if isinstance(root, str):
        collected = _CodeHashes(root)
        collected.add_module(root)
        return collected.hashes
    collected = _CodeHashes(root.__module__)
    if isinstance(root, type):
        for base in root.__mro__:
            collected.add(base)
    else:
        collected.add(root)
    return collected.hashes


class _CodeHashes:
    """Collects the hashes of code and of all that it uses.

    Attributes:
        hashes: Module or file name -> sha256.
    """

    def __init__(self, root: str) -> None:
        """Begin with no hashes.

        Args:
            root: The name of the user's module; its top package is hashed even where it is
                installed.
        """
        self.hashes: dict[str, str] = {}
        self._top_package = root.partition(".")[0]
        self._hashed_without_file: set[int] = set()  # id() of classes and functions

    def add(self, code: Code | ModuleType) -> None:
        """Put the hashes of a loaded class, function or module and of all that it uses into
        `hashes`.

        The file of its module is hashed; where there is none (a notebook), its compiled code.
        """
        if isinstance(code, ModuleType):
            self.add_module(code.__name__)
            return
        module = code.__module__
        if _find_module(module).file is not None:
            self.add_module(module)
            return
        is_new = id(code) not in self._hashed_without_file
        if is_new and not _is_of_python(module):
            self._hashed_without_file.add(id(code))
            self._add_without_file(module, code)

    def add_module(self, name: str) -> None:
        """Put the hashes of a module's file, of the files that it names and of the modules that it
        imports into `hashes`.

        Modules of Python, of other packages and of this project are left out, as is one without a
        file.

        Args:
            name: The module's full name, as "lead.util".
        """
        spec, path = _find_module(name)
        if name in self.hashes or path is None:
            return
        if self._is_not_users_code(name, path):
            return
        self._add_file(name, name, spec, path)
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):  # it holds compiled code
            return
        for file in _named_files(tree, path):
            self._add_file(name, file.name, spec, file)
        package = name
        if path.name != "__init__.py":
            package = name.rpartition(".")[0]
        for imported in _imported_modules(tree, package):
            self.add_module(imported)

    def _is_not_users_code(self, name: str, path: Path) -> bool:
        """Whether a module is Python's own, of an installed package, or of this project.

        The root's own package counts as the user's, also where it is installed.

        Args:
            name: The module's full name.
            path: Its file.
        """
        if _is_of_python(name):
            return True
        is_users = name.partition(".")[0] == self._top_package
        if not is_users and _INSTALLED_FOLDERS & set(path.parts):
            return True
        return any(path.is_relative_to(folder) for folder in _SHIPPED)

    def _add_file(self, module: str, label: str, spec: ModuleSpec | None, path: Path) -> None:
        """Put the hash of a file into `hashes`.

        Args:
            module: The name of the module that the file is, or that names it.
            label: The key under which the hash is stored: "lead.util". If a file with another hash
                has that key, it is followed by eight digits of the hash: "lead.util 9f3c0a12".
            spec: The import spec of the module.
            path: The file.

        Raises:
            UserError: The file changed since Python imported the module.
        """
        current_hash = file_hash(path)
        _check_is_as_imported(module, spec, path, current_hash)
        if self.hashes.get(label, current_hash) != current_hash:
            label = f"{label} {current_hash[:8]}"
        self.hashes[label] = current_hash

    def _add_without_file(self, module: str, code: Code) -> None:
        """Hash a class or function typed into a notebook, and what it uses.

        The hash goes into `hashes[module]`, joined with the hash that may stand there.
        """
        members: list[tuple[str, object]] = [(getattr(code, "__name__", ""), code)]
        if isinstance(code, type):
            members = sorted(vars(code).items())
        hasher = hashlib.sha256()
        for name, value in members:
            self._add_member(module, name, value, hasher)
        hash_before = self.hashes.get(module, "")
        joined_hashes = hash_before + hasher.hexdigest()
        self.hashes[module] = hashlib.sha256(joined_hashes.encode()).hexdigest()

    def _add_member(self, module: str, name: str, value: object, hasher: _Hasher) -> None:
        """Add a function, or one attribute of a class, that is typed into a notebook to `hasher`.

        A function or method is added as its compiled code, "__init__" too. A class of the same
        module is not added to `hasher` but hashed by itself (`add`), and so are classes, functions
        and modules that the function uses. Of other values those with a name like "__doc__" are
        left out, and so is a class that stands as "__class__".

        Args:
            module: The module of the function or class.
            name: The name of the function or attribute.
            value: The function, or the value of the attribute.
            hasher: It is updated with the compiled code or the value.
        """
        function = _unwrapped_function(value)
        if isinstance(value, type) and value.__module__ == module and name != "__class__":
            self.add(value)
        elif isinstance(function, FunctionType):
            _add_code(function, hasher)
            self._add_globals_used(function, hasher)
        elif not name.startswith("__"):
            hasher.update(name.encode() + _marshalled(value))

    def _add_globals_used(self, function: FunctionType, hasher: _Hasher) -> None:
        """Hash the global names that a function uses.

        Classes, functions and modules go into `hashes`, other values into `hasher`.
        """
        names_used: set[str] = set()
        for code in _code_objects(function.__code__):
            names_used.update(code.co_names)
        for name in sorted(names_used & set(function.__globals__)):
            value = function.__globals__[name]
            if isinstance(value, type | FunctionType | ModuleType):
                self.add(value)
            else:
                hasher.update(name.encode() + _marshalled(value))


class _Hasher(Protocol):
    """A hashlib object, to which bytes are added."""

    def update(self, data: bytes, /) -> None:
        """Add bytes."""


def _is_of_python(module: str) -> bool:
    """Whether a module belongs to Python's standard library."""
    return module.partition(".")[0] in sys.stdlib_module_names


def _check_is_as_imported(
    module: str, spec: ModuleSpec | None, path: Path, current_hash: str
) -> None:
    """Raise UserError where a loaded module's file is no longer what Python imported.

    Also remembers the file's hash for the next call. A module that was reloaded (it has another
    spec) starts anew; for a module that is not loaded any content is accepted.

    Args:
        module: The module's name.
        spec: Its import spec now.
        path: A file that it is or names.
        current_hash: The hash of the file now.
    """
    is_loaded = module in sys.modules
    first_hash = _first_hashes.get((module, path), _FirstHash(spec=None, sha256=current_hash))
    is_same_import = first_hash.spec is None or first_hash.spec is spec
    has_changed = first_hash.sha256 != current_hash
    if is_loaded and is_same_import and has_changed:
        # With this spec, so that a reload, which has another one, starts anew.
        _first_hashes[module, path] = _FirstHash(spec, first_hash.sha256)
        raise UserError(
            f"{path.name} has changed since Python imported '{module}'; restart Python, or reload it"
        )
    spec_when_loaded = None
    if is_loaded:
        spec_when_loaded = spec
    _first_hashes[module, path] = _FirstHash(spec_when_loaded, current_hash)


def _unwrapped_function(value: object) -> object:
    """Find the function in a property, a static or class method, or a decorated function.

    Any other value is returned as it is.
    """
    inner: Any = getattr(value, "fget", None) or getattr(value, "__func__", value)
    return inspect.unwrap(inner)


def _add_code(function: FunctionType, hasher: _Hasher) -> None:
    """Update `hasher` with the compiled code of a function, of
    functions inside it, and its defaults.
    """
    for code in _code_objects(function.__code__):
        constants = tuple(each for each in code.co_consts if not isinstance(each, CodeType))
        constants_and_names = _marshalled((constants, code.co_names, code.co_varnames))
        hasher.update(code.co_code + constants_and_names)
    hasher.update(_marshalled((function.__defaults__, function.__kwdefaults__)))


def _code_objects(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object, then those of the functions inside it at any depth."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_objects(constant)


def _marshalled(value: Any) -> bytes:
    """The bytes of a constant, or of a container of constants, to be hashed; b"" for other
    objects.
    """
    with suppress(ValueError):
        return marshal.dumps(value)
    return b""


def _find_module(module: str) -> _FoundModule:
    """Find a module's import spec and its file, without importing it; None for what it has not."""
    loaded = sys.modules.get(module)
    if loaded is not None:
        spec = getattr(loaded, "__spec__", None)
        return _FoundModule(spec, _existing_file(getattr(loaded, "__file__", None)))
    try:
        spec = _find_spec(module)
    except (ImportError, ValueError):
        return _FoundModule(spec=None, file=None)
    if spec is None:
        return _FoundModule(spec=None, file=None)
    return _FoundModule(spec, _existing_file(spec.origin))


def _find_spec(module: str) -> ModuleSpec | None:
    """Find the import spec of a module that is not loaded, without importing its packages; None
    where there is none. Raises ImportError, ValueError.
    """
    parent = module.rpartition(".")[0]
    if not parent:
        return importlib.util.find_spec(module)
    package = _find_module(parent).spec
    if package is None or not package.submodule_search_locations:
        return None
    return PathFinder.find_spec(module, list(package.submodule_search_locations))


def _existing_file(path: str | None) -> Path | None:
    """The full path of a file; None where there is no such file, or no path."""
    if not path or not Path(path).is_file():
        return None
    return Path(path).resolve()


def _imported_modules(tree: ast.AST, package: str) -> Iterator[str]:
    """Yield the names of modules that a syntax tree imports, each after its packages.

    "import a.b"             -> "a", "a.b"
    "from .util import fold" -> "lead", "lead.util", "lead", "lead.util", "lead.util.fold"

    Args:
        tree: The syntax tree of a module.
        package: The package that relative imports begin with: "lead".
    """
    for node in ast.walk(tree):
        for name in _modules_imported_by(node, package):
            yield from _with_packages(name)


def _with_packages(module: str) -> Iterator[str]:
    """Yield the packages that a module is in, then the module: "a.b.c" -> "a", "a.b", "a.b.c"."""
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        yield ".".join(parts[:count])


def _modules_imported_by(node: ast.AST, package: str) -> list[str]:
    """The modules that one syntax node imports, or may import; [] for a node that imports nothing.

    "import a.b, c"              -> ["a.b", "c"]
    "from a import b"            -> ["a", "a.b"]    b may be a module or a name in a
    'import_module("plugins.x")' -> ["plugins.x"]

    Args:
        node: Any syntax node of a module.
        package: The package that relative imports begin with.
    """
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        base = _module_imported_from(node, package)
        names = [base]
        names += [f"{base}.{alias.name}" for alias in node.names]
    elif isinstance(node, ast.Call) and _name_of_call(node) in _IMPORT_FUNCTIONS:
        first_argument = node.args[:1]  # [] for a call without arguments
        names = [str(getattr(each, "value", "")).lstrip(".") for each in first_argument]
    return [name for name in names if name]


def _module_imported_from(node: ast.ImportFrom, package: str) -> str:
    """The full name of the module behind "from", for a module in `package`.

    "from .util import fold" in "lead" -> "lead.util"
    "from .. import fold" in "lead.a"  -> "lead"
    """
    parts: list[str] = []
    if node.level:
        above = package.split(".")
        parts += above[: len(above) - node.level + 1]
    if node.module:
        parts.append(node.module)
    return ".".join(parts)


def _name_of_call(node: ast.Call) -> str:
    """The name of what is called, without the object before it: "glob" for folder.glob(...)."""
    name: str = getattr(node.func, "attr", getattr(node.func, "id", ""))
    return name


def _named_files(tree: ast.AST, module: Path) -> Iterator[Path]:
    """Yield the existing files that the string literals of a module name, to be hashed with it.

    Files that the module opens to write are left out. Names are also joined: "data", "words.txt" in
    os.path.join("data", "words.txt") or folder / "data" / "words.txt" is data/words.txt.

    Args:
        tree: The syntax tree of the module.
        module: Its file. A name is looked up beside it, in the working directory, or as a full
            path; a pattern of glob() below its folder.
    """
    written_files: set[str] = set()
    paths_in_parts: list[list[str]] = []
    for node in ast.walk(tree):
        literals = _string_literals(ast.iter_child_nodes(node))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            # folder / "data" / "words.txt", of which ast.walk gives the last part first
            literals = _string_literals(ast.walk(node))[::-1]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _GLOB_FUNCTIONS:
            yield from _matching_files(node, module.parent)
        elif isinstance(node, ast.Call) and _has_writing_mode(literals):
            written_files.add(literals[0])  # open("out.txt", "w")
        paths_in_parts.append(literals)  # os.path.join("data", "words.txt")
        paths_in_parts += [[literal] for literal in literals]  # "words.txt" alone
    for parts in paths_in_parts:
        if parts and parts[0] not in written_files:
            yield from _files_called(parts, [module.parent, Path.cwd()])


def _has_writing_mode(literals: Sequence[str]) -> bool:
    """Whether the strings in a call open a file to write it: ["out.txt", "w"]."""
    return any(_WRITING_MODES.fullmatch(literal) for literal in literals[1:])


def _matching_files(call: ast.Call, folder: Path) -> list[Path]:
    """The files below `folder` that fit a pattern in a call such as folder.glob("*.txt"),
    sorted.
    """
    files: list[Path] = []
    for pattern in _string_literals(ast.walk(call)):
        if "*" in pattern and not pattern.startswith("/"):
            files += [path for path in folder.rglob(pattern) if path.is_file()]
    return sorted(path.resolve() for path in files if "__pycache__" not in path.parts)


def _files_called(parts: Sequence[str], folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the files that a relative path names in several folders, where there are such files.

    Args:
        parts: The parts of the path: ["data", "words.txt"].
        folders: Where it is looked up.
    """
    for folder in folders:
        with suppress(OSError):  # a text that is too long for a name
            path = folder / os.path.join(*parts)
            if path.is_file():
                yield path.resolve()


def _string_literals(nodes: Iterable[ast.AST]) -> list[str]:
    """The string constants among syntax nodes, in their order."""
    constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
    return [value for value in constants if isinstance(value, str)]
