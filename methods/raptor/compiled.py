"""Keep what numba compiles for UMAP, so that the next process does not compile it again.

UMAP asks numba to compile some ten functions at their first call, 10 s on a CPU core, and does not store them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

_OF_UMAP = ("umap", "pynndescent")


def keep_for_umap(home: Path) -> None:
    """Store UMAP's compiled functions below `home`, or where NUMBA_CACHE_DIR says. Call it after importing umap."""
    keep([module for name, module in sys.modules.items() if name.partition(".")[0] in _OF_UMAP], home)


def keep(modules: Iterable[Any], home: Path) -> None:
    """Store the compiled functions of `modules`; nothing where the folder cannot be written."""
    from numba.core.dispatcher import Dispatcher

    config: Any = import_module("numba").config
    before = config.CACHE_DIR
    # numba's own key has its version and the CPU, but not how far it optimises.
    folder = Path(before) if before else (home / f"numba-opt{int(config.OPT)}").absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    if not os.access(folder, os.W_OK):
        return
    config.CACHE_DIR = str(folder)
    try:
        for value in [value for module in modules for value in vars(module).values()]:
            if isinstance(value, Dispatcher):
                value.enable_caching()
    finally:
        config.CACHE_DIR = before
