"""The memory that a search moved in: entities, relations and segments, read from the index cache and known by its keys.

segments[k] = (start, end) in the text that the method was handed; places[e]: the segments entity e stands in.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_KEYS = ("names", "mentions", "places", "edges", "segments")
_LISTED = 12  # lines of a kind that are printed; --json has all of them


@dataclass(frozen=True)
class Memory:
    """names[e], mentions[e] and places[e] of entity e; edges: (entity, entity, relation); segments: spans."""

    names: tuple[str, ...]
    mentions: tuple[tuple[str, ...], ...]
    places: tuple[tuple[int, ...], ...]
    edges: tuple[tuple[int, int, str], ...]
    segments: tuple[tuple[int, int], ...]

    def edge(self, number: int) -> str:
        """An edge as text: "entity ; relation ; entity"."""
        a, b, text = self.edges[number]
        return f"{self.names[a]} ; {text} ; {self.names[b]}"


@dataclass(frozen=True)
class Walked:
    """What a search did in a memory.

    asked: entities that the question names; reached: entity -> step; read: segment -> step;
    evident: segments that overlap a supporting part, None where the data set's marks are not at hand.
    """

    asked: tuple[int, ...]
    reached: Mapping[int, int]
    read: Mapping[int, int]
    evident: tuple[int, ...] | None

    @property
    def held(self) -> tuple[int, ...]:
        """Entities named or reached, in this order."""
        return (*self.asked, *(e for e in self.reached if e not in self.asked))


def parse_memory(index: Any) -> Memory | None:
    """The memory in an index with names, mentions, places, edges and segments, all valid; None for any other index."""
    if not isinstance(index, Mapping) or not all(isinstance(index.get(name), list) for name in _KEYS):
        return None
    try:
        made = Memory(
            tuple(str(name) for name in index["names"]),
            tuple(tuple(map(str, told)) for told in index["mentions"]),
            tuple(tuple(map(int, where)) for where in index["places"]),
            tuple((int(a), int(b), str(text)) for a, b, text in index["edges"]),
            tuple((int(a), int(b)) for a, b in index["segments"]),
        )
    except (TypeError, ValueError):
        return None
    entities, segments = range(len(made.names)), range(len(made.segments))
    whole = len(made.mentions) == len(made.places) == len(made.names)
    whole &= all(a in entities and b in entities for a, b, _ in made.edges)
    return made if whole and all(k in segments for where in made.places for k in where) else None


def search_in_memory(
    memory: Memory, record: Mapping[str, Any], question: str, evident: frozenset[int] | None = None
) -> Walked:
    """What a record's steps visited in a memory: a step that shows text a segment, another one an entity.

    question: its text, "" where it is not at hand; evident: see Walked.
    """
    reached: dict[int, int] = {}
    read: dict[int, int] = {}
    for number, step in enumerate(record["steps"]):
        node = step["node"]
        if node is None:
            continue
        if step["shown"]:
            read.setdefault(node, number)
        elif 0 <= node < len(memory.names):
            reached.setdefault(node, number)
    patterns = ["|".join(re.escape(m) for m in mentions if m) for mentions in memory.mentions]
    named = [p and re.search(rf"(?<!\w)(?:{p})(?!\w)", question, re.IGNORECASE) for p in patterns]
    asked = tuple(e for e, found in enumerate(named) if found)
    return Walked(asked, reached, read, None if evident is None else tuple(sorted(evident)))


def memory_lines(memory: Memory, walk: Walked) -> list[str]:
    """For people: the evidence first, then entities with their segments, then the relations that lead on from them."""
    counts = f"{len(memory.segments)} segments, {len(memory.names)} entities, {len(memory.edges)} relations"
    evidence, entities = [], []
    for k in walk.evident or ():
        read = f"read at step {walk.read[k]}" if k in walk.read else "never read"
        names = [name for name, places in zip(memory.names, memory.places, strict=True) if k in places]
        evidence.append(f"segment {k}, {read}: {', '.join(names) or 'no entity stands in it'}")
    for e in walk.held:
        how = "in the question" if e in walk.asked else f"reached at step {walk.reached[e]}"
        where = memory.places[e]
        segments = f"segment{'s' * (len(where) != 1)} {', '.join(map(str, where)) or 'none'}"
        entities.append(f"{e} {memory.names[e]}, {how}: {segments}")
    found = [f"memory     {counts}", *_headed_lines("evidence", evidence), *_headed_lines("entities", entities)]
    held = set(walk.held)
    near = [n for n, (a, b, _) in enumerate(memory.edges) if a in held or b in held]
    return found + _headed_lines("relations", [memory.edge(n) for n in near])


def _headed_lines(head: str, texts: list[str]) -> list[str]:
    kept = texts[:_LISTED] + ([f"and {len(texts) - _LISTED} more (--json has all)"] if len(texts) > _LISTED else [])
    return [f"{head if not n else '':<10} {row}" for n, row in enumerate(kept)]


def memory_json(memory: Memory, walk: Walked) -> dict[str, Any]:
    """Memory and search as JSON values, for --json."""
    return {
        "segments": [list(span) for span in memory.segments],
        "entities": [
            {
                "name": name,
                "mentions": list(memory.mentions[e]),
                "segments": list(memory.places[e]),
                "in_question": e in walk.asked,
                "reached": walk.reached.get(e),
            }
            for e, name in enumerate(memory.names)
        ],
        "relations": [memory.edge(n) for n in range(len(memory.edges))],
        "evidence": None if walk.evident is None else list(walk.evident),
        "read": {str(k): step for k, step in walk.read.items()},
    }
