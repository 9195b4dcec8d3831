"""A search over a graph made by hand: its index, its steps, and a run folder with the index in a
cache.

level 3            6                       6 -> 4 .70   6 -> 5 .30
level 2        4       5                   4 -> 0 .60   4 -> 1 .36   4 -> 2 .04
chunks       0   1   2   3                 5 -> 1 .50   5 -> 2 .50

steps: 6 (start), 4, 1, 5, 2, 3 (by similarity alone), and behind the stop 0
"""

import numpy as np

from harness.storage.index_cache import CacheEntry, IndexCache, key_digest
from harness.storage.run_folder import read_run
from harness.storage.serialize import dump
from reports.search_graph import parse_graph
from tests.reports.build import record, span, write_run
from tests.reports.build import step as plain_step

EDGES = [
    (6, 4, 0.7),
    (6, 5, 0.3),
    (4, 0, 0.6),
    (4, 1, 0.36),
    (4, 2, 0.04),
    (5, 1, 0.5),
    (5, 2, 0.5),
]
TEXT = [
    "zero",
    "one",
    "two",
    "three",
    "points of zero and one",
    "points of one and two",
    "all of it",
]
LEVEL = [1, 1, 1, 1, 2, 2, 3]
SPAN = [[0, 5], [5, 9], [9, 13], [13, 19], None, None, None]
KEY = {"method": "tests.made:Graph", "document": "d0"}


def index(**changes):
    higher, lower, weight = (np.asarray(column) for column in zip(*EDGES, strict=True))
    return {
        "text": TEXT,
        "level": LEVEL,
        "span": SPAN,
        "higher": higher,
        "lower": lower,
        "weight": weight,
        **changes,
    }


def made():
    """The graph of tests/reports/searches.py."""
    return parse_graph(index())


def step(action, node, **changes):
    """The step of an action on a node of the graph above; chunks are spans of document d0."""
    if node is None:
        return plain_step(action, node, level=None) | changes
    place = SPAN[node]
    shown = span("d0", *place) if place else {**span("d0", 0, 0, TEXT[node]), "kind": "generated"}
    return plain_step(action, node, level=LEVEL[node], shown=shown) | changes


def steps():
    parts = {"attention": 0.25, "similarity": 0.5}
    return [
        step("start", 6, p_yes=0.1),
        *(step("visit", node, scores=parts, p_yes=0.2) for node in (4, 1, 5, 2, 3)),
        step("study", 0, scores=parts, p_yes=0.9, answer="a later answer"),
    ]


def keep(root, value=None, key=None):
    """Put an index into the cache below `root`; returns its digest."""
    key = KEY if key is None else key
    cache = IndexCache(root, lambda _: None)
    cache.put(cache.folder(key), key, CacheEntry(*dump(index() if value is None else value)))
    return key_digest(key)


def searched(root, key, **changes):
    """A run of one question q0 on document d0 with the steps above; other names are fields of its
    record."""
    line = {"document_id": "d0", "key": key, "status": "built", "usage": {}} | changes.pop(
        "line", {}
    )
    parts = {
        name: changes.pop(name) for name in ("settings", "manifest", "hash8") if name in changes
    }
    one = record(0, 0.5, **{"steps": steps(), "prediction": "an answer", **changes})
    return read_run(write_run(root, [one], documents=[line], **parts))


def folder_of(root, digest):
    """Where the cache below `root` keeps an entry."""
    return next(root.glob(f"*/*/{digest}"))
