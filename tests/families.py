"""Presets that are one implementation: what holds for one of them on every data set is shown for the others on one."""

from __future__ import annotations

from harness import presets

__all__ = ["cells"]

ONE = "pocket/musique"


def cells(datasets: list[str]) -> list[tuple[str, str]]:
    """(preset, data set): the first preset of each implementation and view on all of `datasets`, the others on ONE."""
    seen: set[tuple[str, str]] = set()
    found: list[tuple[str, str]] = []
    for name in presets.names("methods"):
        values = {k: v for _, layer in presets.read("methods", name) for k, v in layer.items()}
        family = (values["implementation"], values.get("view", "document"))
        found += [(name, dataset) for dataset in datasets if family not in seen or dataset == ONE]
        seen.add(family)
    return found
