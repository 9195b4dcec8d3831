"""The dual-structure memory (QRMeM, figure 2): segments as they are written, and a graph that leads
to them.

entity ── relation ── entity          entities are linked to the segments they stand in
  │                     │
segment 0   segment 2   segment 5     only segments are read for an answer

Graphs of segments become one (QRMeM 2.1, "Global Graph Combination";
docs/methods/qrmem.md#qrmem-merge).

Names are one entity when they are the same words ("the Toren", "Toren's", "TOREN"), or when one is
part of the other ("Ranieri", "Claudio Ranieri") and of no other entity: what could be two is
neither. Dates and numbers have no parts. A word in capitals that would be a function word in small
letters keeps them: "US" is not "us", "WHO" not "who". An entity keeps all its mentions and the
segments in which any of them stands.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from harness.method import Index
from methods.qrmem.replies import Triple


def _no_vectors() -> np.ndarray:
    """An empty array [0, 0], for a memory whose vectors are not made yet."""
    return np.zeros((0, 0), np.float32)


@dataclass
class Memory:
    """The memory of a document for a question.

    Attributes:
        segments: (start, end) of each in the document.
        names: The name of each entity.
        mentions: For each entity all ways in which it is written.
        places: For each entity the segments that it is in, in order.
        edges: (entity, entity, relation) of each.
        questions: The pool of questions.
        document_summary: A summary of the whole document.
        notes: Sentences about what did not go as usual while it was built.
        edge_vectors: The encoder's, [edges, width].
        segment_vectors: The encoder's, [segments, width].
    """

    segments: list[tuple[int, int]]
    names: list[str] = field(default_factory=list)
    mentions: list[list[str]] = field(default_factory=list)
    places: list[list[int]] = field(default_factory=list)
    edges: list[tuple[int, int, str]] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    document_summary: str = ""
    notes: list[str] = field(default_factory=list)
    edge_vectors: np.ndarray = field(default_factory=_no_vectors)
    segment_vectors: np.ndarray = field(default_factory=_no_vectors)

    def to_index(self) -> Index:
        """The memory as an index: field name -> its value; the vectors are not copied, as `asdict`
        would."""
        arrays = {"edge_vectors": self.edge_vectors, "segment_vectors": self.segment_vectors}
        return {**asdict(self), **arrays}

    @classmethod
    def from_index(cls, index: Index) -> Memory:
        """The memory of an index that `to_index` made; the cache turns tuples into lists."""
        segments = [(start, end) for start, end in index["segments"]]
        edges = [(first, second, text) for first, second, text in index["edges"]]
        values = dict(index)
        values["segments"] = segments
        values["edges"] = edges
        return cls(**values)

    def edge_text(self, edge: int) -> str:
        """An edge, given by its number, as "entity ; relation ; entity"
        (docs/methods/qrmem.md#qrmem-similarity)."""
        a, b, text = self.edges[edge]
        return f"{self.names[a]} ; {text} ; {self.names[b]}"

    def frontier(self, entities: Collection[int]) -> list[int]:
        """The numbers of the edges from one of the entities to another one that is not among
        them."""
        edges: list[int] = []
        for number, (a, b, _) in enumerate(self.edges):
            if (a in entities) != (b in entities):
                edges.append(number)
        return edges

    def segments_of(self, entities: Iterable[int]) -> list[int]:
        """The numbers of the segments that name any of the entities, in document order."""
        segments: set[int] = set()
        for entity in entities:
            segments.update(self.places[entity])
        return sorted(segments)

    def named_in(self, text: str) -> list[int]:
        """The numbers of the entities with a mention in `text`; a mention inside a longer one does
        not count.

        Case matters for an acronym alone: "us" does not name the entity "US".
        """
        small = _lower_same_length(text)
        entities: set[int] = set()
        for mention, entity in self._longest_mentions_first():
            exact = acronym(mention)
            name = exact
            searched = text
            if not exact:
                name = _lower_same_length(mention)
                searched = small
            for at in find_all(name, searched):
                entities.add(entity)
                end = at + len(exact or mention)
                text = _blanked(text, at, end)
                small = _blanked(small, at, end)
        return sorted(entities)

    def _longest_mentions_first(self) -> list[tuple[str, int]]:
        """(mention, number of its entity) of each mention of each entity, the longest first."""
        pairs: list[tuple[str, int]] = []
        for entity, mentions in enumerate(self.mentions):
            pairs += [(mention, entity) for mention in mentions]
        return sorted(pairs, key=_long_mention_first)


def _long_mention_first(pair: tuple[str, int]) -> tuple[int, int]:
    """A sort key for (mention, entity): the longer mention first, then the lower number."""
    mention, entity = pair
    return -len(mention), entity


def _lower_same_length(text: str) -> str:
    """A text in small letters, as long as before: a letter whose small form is longer stays as it
    is."""
    return "".join(map(_lower_letter, text))


def _lower_letter(letter: str) -> str:
    """The letter in lower case where that is a single letter, so that offsets stay."""
    small = letter.lower()
    if len(small) > 1:
        return letter
    return small


def _blanked(text: str, start: int, end: int) -> str:
    """The text with text[start:end] replaced by as many characters that no name has."""
    return text[:start] + "\0" * (end - start) + text[end:]


# Pronouns, question words and the like, and what contractions leave of words ("they're", "I'd"):
# never names by themselves.
_FUNCTION_WORDS = (
    "i me my mine myself you your yours yourself yourselves he him his himself she her hers "
    "herself it its itself we us our ours ourselves they them their theirs themselves this that "
    "these those there here one someone somebody everyone everybody nobody who whom whose which "
    "what when where why how a an the and or of in on at by to from with for as m re ve ll d"
)
FUNCTION = frozenset(_FUNCTION_WORDS.split())
_ARTICLES = ("the", "a", "an")
_POSSESSIVE = re.compile(r"['’]s(?!\w)")
_NO_WORD = re.compile(r"[\W_]+")

Form = tuple[str, ...]


@dataclass
class SubGraph:
    """The graph of one segment: its entities as they are written there, and relations between
    them."""

    names: list[str] = field(default_factory=list)
    relations: list[Triple] = field(default_factory=list)


@dataclass
class Entities:
    """The entities of all segments.

    Attributes:
        names: The name of each entity.
        mentions: For each entity all ways in which it is written.
        places: For each entity the segments that it is in, in order.
        of: Normal form of a name -> the number of its entity.
    """

    names: list[str] = field(default_factory=list)
    mentions: list[list[str]] = field(default_factory=list)
    places: list[list[int]] = field(default_factory=list)
    of: dict[Form, int] = field(default_factory=dict)


def acronym(name: str) -> str:
    """The single word of capitals that a name is, an article before it aside; "" where it is none.

    "the US" -> "US"        "Toren" -> ""
    """
    without_possessive = _POSSESSIVE.sub("", name)
    words = _NO_WORD.sub(" ", without_possessive).split()
    if len(words) == 2 and words[0].casefold() in _ARTICLES:
        words = words[1:]
    if len(words) != 1:
        return ""
    (word,) = words
    if len(word) > 1 and word.isupper():
        return word
    return ""


def name_key(name: str) -> Form:
    """The words that a name is compared by: small letters, no article before it, no possessive, no
    marks.

        "the Mill's" -> ("mill",)

    An acronym that would be a function word in small letters keeps its capitals: ("US",).
    """
    word = acronym(name)
    if word.casefold() in FUNCTION:
        return (word,)
    without_possessive = _POSSESSIVE.sub("", name.casefold())
    parts = tuple(_NO_WORD.sub(" ", without_possessive).split())
    if len(parts) > 1 and parts[0] in _ARTICLES:
        return parts[1:]
    return parts


def find_all(name: str, text: str) -> Iterator[int]:
    """Yield the positions of `name` in `text`, in the same letters and not inside a longer word.

    "Ann", "Ann met Anna and Ann." -> 0, 17
    """
    if not name:
        return
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        goes_on_before = at > 0 and _is_one_word(text[at - 1], name[0])
        goes_on_after = end < len(text) and _is_one_word(name[-1], text[end])
        if not goes_on_before and not goes_on_after:
            yield at
        at = text.find(name, at + 1)


def _is_one_word(first: str, second: str) -> bool:
    """Whether two neighbouring characters are in one word of a script with spaces."""
    return _is_spaced_script(first) and _is_spaced_script(second)


def occurs(name: str, text: str) -> bool:
    """Whether `name` stands anywhere in `text` as it is written."""
    return next(find_all(name, text), None) is not None


def _is_spaced_script(character: str) -> bool:
    """Whether a character is a letter or digit of a script that parts words by spaces; those of
    Chinese and Japanese are not."""
    return character.isalnum() and character < "\u2e80"


def merge_entities(graphs: Sequence[SubGraph], segments: Sequence[str]) -> Entities:
    """Find out which names of all segments are one entity; entities stand in the order of their
    first mention.

    Args:
        graphs: The graph of each segment.
        segments: The text of each segment.
    """
    surfaces: dict[Form, dict[str, None]] = {}
    listed: dict[Form, set[int]] = {}
    for k, graph in enumerate(graphs):
        for name in graph.names:
            form = name_key(name)
            if form:
                surfaces.setdefault(form, {})[name] = None
                listed.setdefault(form, set()).add(k)
    clusters = _same_entity_clusters(list(surfaces))
    cluster_of: dict[Form, int] = {}
    for number, forms in enumerate(clusters):
        for form in forms:
            cluster_of[form] = number
    entities = Entities()
    for form in surfaces:
        first = clusters[cluster_of[form]][0]
        if first not in entities.of:
            forms = clusters[cluster_of[form]]
            _add_entity(entities, forms, surfaces, listed, segments)
    return entities


def _add_entity(
    entities: Entities,
    forms: Sequence[Form],
    surfaces: dict[Form, dict[str, None]],
    listed: dict[Form, set[int]],
    segments: Sequence[str],
) -> None:
    """Add to `entities` the entity that some forms of a name stand for.

    Args:
        entities: All entities so far; is changed.
        forms: The normal forms of the entity's names, the longest first.
        surfaces: Form -> how it is written, as the keys of a dict.
        listed: Form -> the segments whose graphs name it.
        segments: The texts; one that has any mention is a place of the entity, too.
    """
    number = len(entities.names)
    mentions: list[str] = []
    places: set[int] = set()
    for form in forms:
        entities.of[form] = number
        mentions += surfaces[form]
        places |= listed[form]
    for k, text in enumerate(segments):
        if k not in places and any(occurs(mention, text) for mention in mentions):
            places.add(k)
    entities.names.append(mentions[0])
    entities.mentions.append(mentions)
    entities.places.append(sorted(places))


def _same_entity_clusters(forms: Sequence[Form]) -> list[list[Form]]:
    """Group forms that are one entity, the longest of each first.

        ("claudio", "ranieri"), ("ranieri",) -> one group of both

    A form that is a part of longer ones joins them if these are one entity, else it is its own.
    """
    clusters: list[list[Form]] = []
    inside: dict[Form, set[int]] = {}  # a part of a longer name -> the entities it could stand for
    for form in sorted(forms, key=len, reverse=True):
        longer = inside.get(form, set())
        if len(longer) == 1:
            (number,) = longer
            clusters[number].append(form)
        else:
            number = len(clusters)
            clusters.append([form])
        for part in _parts_of_name(form):
            inside.setdefault(part, set()).add(number)
    return clusters


def _parts_of_name(form: Form) -> Iterator[Form]:
    """Yield all shorter runs of words in a name: ("a", "b") -> ("a",), ("b",); dates and numbers
    have none."""
    if any(word.isdigit() for word in form):
        return
    for start in range(len(form)):
        for end in range(start + 1, len(form) + 1):
            if end - start < len(form):
                yield form[start:end]


def merge_relations(
    graphs: Sequence[SubGraph], entities: Entities
) -> dict[tuple[int, int], list[tuple[int, str]]]:
    """Collect the relations of each pair of entities from the graphs of all segments.

    Relations of an entity with itself, as there may be after merging names, are left out.

    Args:
        graphs: The graph of each segment.
        entities: The entities of all graphs.

    Returns:
        (entity, entity) in order of first mention -> [(segment, its relation text)], a segment's
        texts joined.
    """
    relations: dict[tuple[int, int], dict[int, list[str]]] = {}
    for k, graph in enumerate(graphs):
        for first, second, text in graph.relations:
            a = entities.of[name_key(first)]
            b = entities.of[name_key(second)]
            if a == b:
                continue
            pair = (a, b)
            if (b, a) in relations:
                pair = (b, a)
            texts = relations.setdefault(pair, {}).setdefault(k, [])
            if text not in texts:
                texts.append(text)
    merged: dict[tuple[int, int], list[tuple[int, str]]] = {}
    for pair, by_segment in relations.items():
        merged[pair] = [(k, " ".join(texts)) for k, texts in by_segment.items()]
    return merged
