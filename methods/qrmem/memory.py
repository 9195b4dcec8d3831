"""The dual-structure memory (QRMeM, figure 2): segments as they are written, and a graph that leads to them.

entity ── relation ── entity          entities are linked to the segments they stand in
  │                     │
segment 0   segment 2   segment 5     only segments are read for an answer
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from harness.method import Index
from methods.qrmem.merge import acronym, places


def _nothing() -> np.ndarray:
    return np.zeros((0, 0), np.float32)


@dataclass
class Memory:
    """segments[k] = (start, end) in the document; edges: (entity, entity, relation); questions: the pool.

    edge_vectors [edges, width] and segment_vectors [segments, width] are the encoder's; notes say what did not go as
    usual while it was built.
    """

    segments: list[tuple[int, int]]
    names: list[str] = field(default_factory=list)
    mentions: list[list[str]] = field(default_factory=list)
    places: list[list[int]] = field(default_factory=list)
    edges: list[tuple[int, int, str]] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    document_summary: str = ""
    notes: list[str] = field(default_factory=list)
    edge_vectors: np.ndarray = field(default_factory=_nothing)
    segment_vectors: np.ndarray = field(default_factory=_nothing)

    def to_index(self) -> Index:
        """The memory in the form that the cache stores."""
        arrays = {"edge_vectors": self.edge_vectors, "segment_vectors": self.segment_vectors}
        return {**asdict(self), **arrays}

    @classmethod
    def from_index(cls, index: Index) -> Memory:
        """The inverse of `to_index`; the cache turns tuples into lists."""
        values: dict[str, Any] = dict(index)
        values["segments"] = [(a, b) for a, b in values["segments"]]
        values["edges"] = [(a, b, text) for a, b, text in values["edges"]]
        return cls(**values)

    def edge_text(self, edge: int) -> str:
        """ "entity ; relation ; entity" (docs/methods/qrmem.md#qrmem-similarity)."""
        a, b, text = self.edges[edge]
        return f"{self.names[a]} ; {text} ; {self.names[b]}"

    def frontier(self, entities: Collection[int]) -> list[int]:
        """Edges from one of the entities to another entity: the candidates of a first-order step."""
        return [i for i, (a, b, _) in enumerate(self.edges) if (a in entities) != (b in entities)]

    def segments_of(self, entities: Iterable[int]) -> list[int]:
        """The segments that name any of the entities, in document order."""
        return sorted({k for entity in entities for k in self.places[entity]})

    def named_in(self, text: str) -> list[int]:
        """Entities with a mention in `text`; a mention inside a longer one is none.

        Case matters for an acronym alone: "us" does not name the entity "US".
        """
        small, entities = _small(text), []
        known = [(m, i) for i, mentions in enumerate(self.mentions) for m in mentions]
        for mention, entity in sorted(known, key=lambda pair: (-len(pair[0]), pair[1])):
            exact = acronym(mention)
            for at in places(exact or _small(mention), text if exact else small):
                entities.append(entity)
                end = at + len(exact or mention)
                text, small = (t[:at] + "\0" * (end - at) + t[end:] for t in (text, small))
        return sorted(set(entities))


def _small(text: str) -> str:
    """`text` in small letters, as long as before: a letter whose small form is longer stays as it is."""
    return "".join(small if len(small := c.lower()) == 1 else c for c in text)
