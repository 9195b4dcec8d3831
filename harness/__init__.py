"""A fair comparison of long-document question answering methods: quality and cost, from question to
table.

    import harness
    run = harness.run("pecan", "musique", data="dev.jsonl", model="./Llama-3.1-8B-Instruct", limit=20)
    run.records                   a pandas.DataFrame with a row a question
    run.compare(other)            the paired difference

Everything is imported at its first use, so `import harness` is cheap.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.api.results import Run, Runs, load_run
    from harness.api.run_request import RunRequest
    from harness.api.running import run
    from harness.api.stored_runs import compare, judge, score
    from harness.storage.run_folder import read_run

    __version__: str

__all__ = [
    "Run",
    "RunRequest",
    "Runs",
    "__version__",
    "compare",
    "judge",
    "load_run",
    "read_run",
    "run",
    "score",
]

_OWN_PACKAGES = ("configs", "methods", "pocket", "reports")


class _OwnPackages:
    """An import finder for this project's packages beside harness/, found before others of the same
    names (_OWN_PACKAGES)."""

    project_folder = Path(__file__).parents[1]

    @classmethod
    def find_spec(
        cls, name: str, _path: object = None, _target: object = None
    ) -> ModuleSpec | None:
        """Find one of this project's packages beside harness/, as importlib asks every finder.

        Returns None for any other name (see _OWN_PACKAGES), which other finders then look for.

        Args:
            name: The package's name.
            _path: Not used.
            _target: Not used.
        """
        if name not in _OWN_PACKAGES:
            return None
        return PathFinder.find_spec(name, cls._possible_folders(name))

    @classmethod
    def _possible_folders(cls, name: str) -> list[str]:
        """The folders that may hold the folder of package `name`: the one that also has harness/,
        and, as in a clone, its packages/NAME.
        """
        folder_of_clone = cls.project_folder / "packages" / name
        return [str(folder.resolve()) for folder in (cls.project_folder, folder_of_clone)]

    @classmethod
    def install(cls) -> None:
        """Put this finder before that of sys.path.

        Raises ImportError where a foreign package with the name of one of ours is loaded.
        """
        for name in _OWN_PACKAGES:
            loaded_file = getattr(sys.modules.get(name), "__file__", None)
            if not loaded_file:
                continue
            folder_of_package = str(Path(loaded_file).parents[1].resolve())
            if folder_of_package not in cls._possible_folders(name):
                raise ImportError(
                    f"harness has a package '{name}' too; import harness before {loaded_file}, or "
                    "rename that one"
                )
        sys.meta_path.insert(0, cls)


_OwnPackages.install()
# OpenMP reads it when torch is loaded. Its threads wait by spinning otherwise: four questions of
# HotpotQA with SmolLM2-135M took 325 CPU seconds beside other work, 29 with this; 89 and 41 for
# eight on a quiet machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


_MODULES_OF_NAMES = {
    "run": "harness.api.running",
    "RunRequest": "harness.api.run_request",
    "compare": "harness.api.stored_runs",
    "judge": "harness.api.stored_runs",
    "score": "harness.api.stored_runs",
}
"""Name of this package -> the module that has it, for those that harness.api.results lacks."""


def __getattr__(name: str) -> Any:
    """Import a name of this package when it is first read, so that `import harness` stays quick."""
    if name == "__version__":
        return import_module("harness.types").VERSION
    if name in __all__:
        return getattr(import_module(_MODULES_OF_NAMES.get(name, "harness.api.results")), name)
    raise AttributeError(f"module 'harness' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The names of this package, also of those that are not imported yet."""
    return sorted({*globals(), *__all__})
