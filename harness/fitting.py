"""Which presets a model could serve: what a refused pair is told to try instead.

fitting({"sampling"})      ["bm25", "full-context", "memwalker", ...]: one preset of each implementation
"""

from __future__ import annotations

from collections.abc import Collection

from harness import presets, registry
from harness.errors import HarnessError
from harness.method import Method

__all__ = ["fitting"]


def fitting(capabilities: Collection[str]) -> list[str]:
    """The first preset of every implementation whose roles need no more than `capabilities`, by name.

    Presets on the supporting passages alone are left out, and those whose files or code cannot be read.
    """
    found: dict[str, str] = {}
    for name in presets.names("methods"):
        try:
            values = {k: v for _, layer in presets.read("methods", name) for k, v in layer.items()}
            implementation = str(values.get("implementation"))
            if implementation in found or values.get("view", "document") == "evidence":
                continue
            method: type[Method] = registry.load(implementation, Method)
        except HarnessError:
            continue  # `harness validate` tells what is wrong with it; here it is merely no help
        if all(need <= set(capabilities) for need in method.needs.values()):
            found[implementation] = name
    return sorted(found.values())
