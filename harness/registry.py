"""Names are strings until used: "methods.pecan:Pecan" is imported when a run is planned, not before.

load("methods.pecan:Pecan", Method)      -> the class
additions("harness.methods")             -> {"their-method": "their_package:Theirs"} from installed packages
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from typing import Any

from harness.errors import CannotRun, UnknownName, UserError, close_matches

__all__ = ["ENV", "GROUPS", "additions", "load"]

# A folder of the user's own presets and the modules they name.
ENV = "HARNESS_CONFIGS"

GROUPS = {"methods": "harness.methods", "datasets": "harness.datasets", "scorers": "harness.scorers"}


def load(target: str, base: type | None = None) -> Any:
    """Import "module:name"; with `base`, the result must be a subclass of it.

    Raises UserError for a malformed target, UnknownName for a module or name that does not exist, CannotRun for a
    package the module needs and that is not installed.
    """
    module_name, colon, name = target.partition(":")
    if not colon or not module_name or not name.isidentifier():
        raise UserError(f"'{target}' is not of the form module:Class")
    own = os.environ.get(ENV)
    if own and os.path.abspath(own) not in sys.path:
        # Modules may lie beside the user's own presets; last, so that they shadow nothing.
        sys.path.append(os.path.abspath(own))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as e:
        missing = e.name or ""
        if module_name == missing or module_name.startswith(missing + "."):
            raise UserError(f"no module '{module_name}' (named by '{target}'); is its package installed?") from e
        raise CannotRun(f"'{target}' needs the package '{missing}'; install it with: pip install {missing}") from e
    if not hasattr(module, name):
        public = [n for n in vars(module) if not n.startswith("_")]
        raise UnknownName(f"name in module '{module_name}'", name, close_matches(name, public) or public)
    found = getattr(module, name)
    if base is not None and not (isinstance(found, type) and issubclass(found, base)):
        raise UserError(f"'{target}' is not a subclass of {base.__module__}.{base.__name__}")
    return found


@functools.cache
def additions(group: str) -> dict[str, str]:
    """Name -> "module:attribute" that installed packages add under an entry-point group; nothing is imported."""
    from importlib.metadata import entry_points

    return {entry.name: entry.value for entry in entry_points(group=group)}
