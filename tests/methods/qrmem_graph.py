"""A hand-made QRMeM memory of four segments, and the replies that walk it."""

import numpy as np

from harness.llm.scripted import Rule
from harness.types import Question
from methods.qrmem.memory import Memory

SEGMENTS = [
    "Velindra is by Toren.",
    "Toren comes from Kelford.",
    "Kelford lies on the Une.",
    "Mira likes Toren much.",
]
TEXT = " ".join(SEGMENTS)
SPANS = [(TEXT.index(s), TEXT.index(s) + len(s)) for s in SEGMENTS]
QUESTION = Question("q", "On which river lies the birthplace of the author of Velindra?", ("d",))
NAMES = ["Velindra", "Toren", "Kelford", "Une", "Mira"]
PLACES = [[0], [0, 1, 3], [1, 2], [2], [3]]
EDGES = [
    (0, 1, "Toren is its author"),
    (1, 2, "his birthplace"),
    (3, 2, "the river it lies on"),
    (4, 1, "likes him"),
]


class Overlap:
    """Similarity: words of the query, each counted once, that the passage has."""

    def __init__(self):
        self.texts, self.queries = [], []

    def encode(self, texts, kind):
        start = len(self.texts)
        self.texts += [t.lower().replace("?", " ").replace(".", " ").split() for t in texts]
        self.queries += texts if kind == "query" else []
        return np.arange(start, len(self.texts), dtype=np.float32)[:, None]

    def similarity(self, query, passages):
        asked = set(self.texts[int(query[0])])
        return np.array([float(len(asked & set(self.texts[int(p[0])]))) for p in passages])


def memory(encoder, edges=EDGES, names=NAMES, places=PLACES, segments=SEGMENTS):
    found = Memory(SPANS[: len(segments)], names, [[n] for n in names], places, edges)
    found.edge_vectors = encoder.encode([found.edge_text(i) for i in range(len(edges))], "passage")
    found.segment_vectors = encoder.encode(segments, "passage")
    return found


def no(reason):
    return f"Reasoning: {reason}\nAction: -1"


def yes(answer):
    return f"Reasoning: it says so.\nAction: -2\nAnswer: {answer}"


def choose(*replies):
    return [Rule(when="Choose the entities", reply=r, once=True) for r in replies]
