"""Presets that are one implementation: what holds for one of them on every data set is shown for the others on one."""

from harness.config import presets

__all__ = ["cells"]

ONE = "pocket/musique"
# On every data set: between them they use every kind of view and reading, with and without an index.
QUICK = {"full-context", "bm25", "sbert", "closed-book", "oracle-evidence"}
EVERYWHERE = {"pecan", *QUICK}


def cells(datasets, *, every=True, everywhere=EVERYWHERE):
    """(preset, data set): `everywhere` on all of `datasets`, all others on ONE, and the first preset of each other
    implementation on one more, taken in turn. every=False: of the others only those first presets, and only there."""
    known: set[tuple[str, str]] = set()
    found: list[tuple[str, str]] = []
    more = [dataset for dataset in datasets if dataset != ONE]
    for name in presets.names("methods"):
        values = {k: v for _, layer in presets.read("methods", name) for k, v in layer.items()}
        family = (values["implementation"], values.get("view", "document"))
        on = datasets if name in everywhere else [ONE] if every else []
        if family not in known and name not in everywhere:
            on = [ONE] * every + [more[len(known) % len(more)]]
        known.add(family)
        found += [(name, dataset) for dataset in datasets if dataset in on]
    return found
