"""Presets that a model could serve: the suggestion in the message about an unfit pair.

fitting({"sampling"})      ["bm25", "full-context", "memwalker", ...]: one preset of each implementation

Of an implementation that trains adapters, the first preset that runs without them.
"""

from __future__ import annotations

from collections.abc import Collection

from harness.config import presets, registry
from harness.config.yaml_tree import Tree
from harness.errors import HarnessError
from harness.method import Method


def fitting(capabilities: Collection[str]) -> list[str]:
    """The first preset of every implementation whose roles need no more than `capabilities`, by name.

    Presets on the supporting passages alone are left out, those that need trained adapters, and those whose files,
    parameters or code cannot be read.
    """
    by_implementation: dict[str, str] = {}
    for name in presets.names("methods"):
        try:
            tree = Tree()
            for origin, layer in presets.read("methods", name):
                tree.merge(layer, origin)
            implementation = str(tree.values.get("implementation"))
            if implementation in by_implementation or tree.values.get("view", "document") == "evidence":
                continue
            cls: type[Method] = registry.load(implementation, Method)
            method = cls(cls.Config(**tree.values.get("params", {})))
        except (HarnessError, ValueError):
            continue  # `harness validate` reports the mistake; here the preset is skipped
        trained = any(use.needed for uses in method.adapters().values() for use in uses.values())
        if not trained and all(need <= set(capabilities) for need in method.needs.values()):
            by_implementation[implementation] = name
    return sorted(by_implementation.values())
