"""Short names of code, and when it may be imported: "pecan" is imported when a run is planned, not
before.

load("pecan", Method)                    -> the class that configs/registry.yaml names "pecan"
load("mine:Method", Method)              -> the user's own class
targets("backends")                      -> {"hf": "harness.llm.load:Transformers", ...} from configs/registry.yaml
short_name("methods.pecan:Pecan")        -> "pecan"; what has no short name stays as it is
trust("mine:parse_row")                  the user named it: it may be imported from now on
check_trusted("mine:parse_row")          raises UserError unless it may
register_target(Mine)                    a class or function of this process: harness.run(Mine, ...)

Importing a module executes it, so a target is imported only where the user chose it: on the command
line, in Python, in a preset or --config file, as a module of the folder HARNESS_CONFIGS, or by
installing a package with entry points. A run folder, a bundle or a run.yaml cannot choose one
(docs/security.md).
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import configs
from harness.config import plugins
from harness.config.yaml_tree import mapping_at, read_yaml
from harness.errors import CannotRun, UnknownName, UserError, close_matches

if TYPE_CHECKING:
    from harness.method import Method

# A folder of the user's own presets and the modules they name.
CONFIGS_VARIABLE = "HARNESS_CONFIGS"

PRESET_KINDS = ("methods", "datasets", "models", "encoders", "suites", "profiles")
ENTRY_POINT_GROUPS = {
    "methods": "harness.methods",
    "datasets": "harness.datasets",
    "scorers": "harness.scorers",
}

# Texts with a colon that the user chose; what is no "module:name" is never looked up.
_trusted_targets: set[str] = set()
# Target -> what `register_target` was given.
_objects_by_target: dict[str, object] = {}


def trust(*values: Any) -> None:
    """Allow the import of every "module:name" that these values name; only for the user's own.

    Args:
        values: Texts, or settings of any depth that hold texts.
    """
    for value in values:
        if isinstance(value, str) and ":" in value:
            _trusted_targets.add(value)
        elif isinstance(value, dict):
            trust(*value.values())
        elif isinstance(value, list | tuple):
            trust(*value)


def register_target(value: Any) -> str:
    """Make a class or function of this process known to `load`, and trust it.

    Returns its target: "module:name".
    """
    target = f"{value.__module__}:{value.__name__}"
    _objects_by_target[target] = value
    trust(target)
    return target


def check_trusted(target: str) -> None:
    """Raise UserError unless the user or an installed package chose the code "module:name"."""
    module, _, _ = target.partition(":")
    user_folder = os.environ.get(CONFIGS_VARIABLE)
    if user_folder and module.isidentifier():
        is_in_user_folder = (Path(user_folder) / f"{module}.py").is_file()
        if is_in_user_folder:
            return
    if target in _trusted_targets:
        return
    for group in ENTRY_POINT_GROUPS.values():
        if target in plugins.targets(group).values():
            return
    raise UserError(
        f"'{target}' is code that nobody chose, so it is not imported; name it yourself with "
        f"--set or --scorers, or put its module into the folder {CONFIGS_VARIABLE} (docs/security.md)"
    )


@functools.cache
def targets(section: str) -> dict[str, str]:
    """The code that a section of configs/registry.yaml, or an installed package, names; nothing is
    imported.

    targets("backends") -> {"hf": "harness.llm.load:Transformers", ...}
    """
    own_section = mapping_at(_read_registry(), section)
    own_targets = {name: str(target) for name, target in own_section.items()}
    return plugins.targets(f"harness.{section}") | own_targets


def methods_listed_first() -> list[str]:
    """The names of the methods that a list of methods begins with."""
    names = _read_registry()["begin_with"]
    assert isinstance(names, list)  # our own file
    return names


def _read_registry() -> dict[str, object]:
    """Read and parse configs/registry.yaml."""
    return read_yaml(Path(configs.__path__[0]) / "registry.yaml")


def short_name(target: str) -> str:
    """The short name of a method's class: "methods.pecan:Pecan" -> "pecan".

    A class without one stays as it is; older run folders hold the class.
    """
    for name, known_target in targets("methods").items():
        if known_target == target:
            return name
    return target


def model_hooks(package: str) -> Any | None:
    """Import the module that checks the files of a package with a model; None where it names
    none.
    """
    module = targets("packages").get(package)
    if module is None:
        return None
    return importlib.import_module(module)


def load(target: str, base: type | None = None, section: str = "methods") -> Any:
    """Import the code that a short name or "module:name" names.

    Args:
        target: "pecan", or "mine:Method".
        base: The class that it must be a subclass of; None for any code.
        section: The section of the registry with the short names.

    Raises:
        UserError: A malformed target, or one that the user did not choose.
        UnknownName: No such module or name.
        CannotRun: The module needs a package that is not installed.
    """
    target_by_short_name = targets(section)
    full_target = target_by_short_name.get(target, target)
    module_name, colon, name = full_target.partition(":")
    is_well_formed = module_name != "" and colon != "" and name.isidentifier()
    if not is_well_formed:
        kind = section.removesuffix("s")
        where_to_look = "your own code is of the form module:name"
        raise UnknownName(kind, target, target_by_short_name, where_to_look)
    if target not in target_by_short_name:
        check_trusted(target)
    loaded = import_target(full_target)
    if base is None:
        return loaded
    if not isinstance(loaded, type) or not issubclass(loaded, base):
        raise UserError(f"'{target}' is not a subclass of {base.__module__}.{base.__name__}")
    return loaded


def method_class(implementation: str) -> type[Method]:
    """Import a method's class by its short name or "module:Class". Raises UserError."""
    from harness.method import Method

    cls: type[Method] = load(implementation, Method)
    return cls


def import_target(target: str) -> Any:
    """Import what "module:name" names; modules may lie in the folder HARNESS_CONFIGS.

    The caller checks whether it may be imported. The folder is also added to sys.path.

    Raises:
        UserError: The module does not exist, or raises.
        CannotRun: It needs a package that is not installed.
        UnknownName: It has no such name.
    """
    if target in _objects_by_target:
        return _objects_by_target[target]
    module_name, _, name = target.partition(":")
    user_folder = os.environ.get(CONFIGS_VARIABLE)
    if user_folder and os.path.abspath(user_folder) not in sys.path:
        # Modules may lie beside the user's own presets; last, so that they shadow nothing.
        sys.path.append(os.path.abspath(user_folder))
    try:
        module = importlib.import_module(module_name)
    except Exception as import_error:  # a module of the user's own raises anything
        user_error = _import_error(target, import_error)
        if user_error is None:
            raise  # a bug of this project
        raise user_error from import_error
    if not hasattr(module, name):
        public_names = [each for each in vars(module) if not each.startswith("_")]
        file = getattr(module, "__file__", "built in")
        suggested = close_matches(name, public_names) or public_names
        raise UnknownName(f"name in module '{module_name}' ({file})", name, suggested)
    return getattr(module, name)


def _import_error(target: str, error: Exception) -> UserError | CannotRun | None:
    """Make the user's error for a module that could not be imported;
    None for a bug of this project.

    Args:
        target: What was to be imported, "module:name".
        error: What importing raised.
    """
    module_name, _, _ = target.partition(":")
    top_package, _, _ = module_name.partition(".")
    missing_module = ""
    if isinstance(error, ModuleNotFoundError):
        missing_module = str(error.name or "")
    # The module itself, or a package that it is in.
    is_target_missing = missing_module and f"{module_name}.".startswith(f"{missing_module}.")
    if is_target_missing:
        return UserError(
            f"no module '{module_name}' (named by '{target}'); put {top_package}.py into the "
            f"folder {CONFIGS_VARIABLE}, or install its package"
        )
    is_other_package_missing = missing_module and "." not in missing_module
    if is_other_package_missing:
        return CannotRun(
            f"'{target}' needs the package '{missing_module}'; install it with: pip install "
            f"{missing_module}"
        )
    is_of_this_project = top_package in ("harness", "methods")
    if is_of_this_project:
        return None
    where = _innermost_module_line(error)
    return UserError(f"'{target}' cannot be imported: {where}{type(error).__name__}: {error}")


def _innermost_module_line(error: Exception) -> str:
    """The innermost line outside of any function that an error came through, to begin a sentence:
    "/own/mine.py, line 3: "; "" for none.
    """
    where = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.name == "<module>":
            where = f"{frame.filename}, line {frame.lineno}: "
    return where
