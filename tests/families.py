"""Presets that are one implementation: what holds for one of them is not shown again for the
others."""

from harness.config import presets

__all__ = ["first_presets"]


def first_presets(datasets):
    """(preset, data set): the first preset of each implementation and view, and one of the data
    sets in turn.

    Without pocket/musique, on which tests/test_smoke.py has every preset.
    """
    known: set[tuple[str, str]] = set()
    others = [dataset for dataset in datasets if dataset != "pocket/musique"]
    for name in presets.names("methods"):
        if name == "mem0":  # its package is not a dependency (packages/memory/tests)
            continue
        values = {k: v for _, layer in presets.read("methods", name) for k, v in layer.items()}
        family = (values["implementation"], values.get("view", "document"))
        if family not in known:
            yield name, others[len(known) % len(others)]
        known.add(family)
