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
from typing import NamedTuple

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
        first, second, text = self.edges[edge]
        return f"{self.names[first]} ; {text} ; {self.names[second]}"

    def edges_leading_on(self, entities: Collection[int]) -> list[int]:
        """The numbers of the edges from one of the entities to another one that is not among
        them."""
        edges_to_others: list[int] = []
        for number, (first, second, _) in enumerate(self.edges):
            if (first in entities) != (second in entities):
                edges_to_others.append(number)
        return edges_to_others

    def segments_of(self, entities: Iterable[int]) -> list[int]:
        """The numbers of the segments that name any of the entities, in document order."""
        segments: set[int] = set()
        for entity in entities:
            segments.update(self.places[entity])
        return sorted(segments)

    def entities_named_in(self, text: str) -> list[int]:
        """The numbers of the entities with a mention in `text`; a mention inside a longer one does
        not count: what is found is blanked out, the longest mentions first.

        Case matters for an acronym alone: "us" does not name the entity "US".
        """
        text_in_small_letters = _lower_same_length(text)
        entities: set[int] = set()
        for mention, entity in self._longest_mentions_first():
            acronym_in_capitals = acronym(mention)  # "" where the mention is none
            if acronym_in_capitals:
                name = acronym_in_capitals
                text_to_search = text
            else:
                name = _lower_same_length(mention)
                text_to_search = text_in_small_letters
            for position in find_whole_words(name, text_to_search):
                entities.add(entity)
                end = position + len(name)
                text = _blank_out(text, position, end)
                text_in_small_letters = _blank_out(text_in_small_letters, position, end)
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
    small_letter = letter.lower()
    if len(small_letter) > 1:
        return letter
    return small_letter


def _blank_out(text: str, start: int, end: int) -> str:
    """The text with text[start:end] replaced by as many characters that no name has."""
    return text[:start] + "\0" * (end - start) + text[end:]


# Pronouns, question words and the like, and what contractions leave of words ("they're", "I'd"):
# never names by themselves.
_FUNCTION_WORDS_AS_TEXT = (
    "i me my mine myself you your yours yourself yourselves he him his himself she her hers "
    "herself it its itself we us our ours ourselves they them their theirs themselves this that "
    "these those there here one someone somebody everyone everybody nobody who whom whose which "
    "what when where why how a an the and or of in on at by to from with for as m re ve ll d"
)
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS_AS_TEXT.split())
_ARTICLES = ("the", "a", "an")
_POSSESSIVE = re.compile(r"['’]s(?!\w)")
_BETWEEN_WORDS = re.compile(r"[\W_]+")

NameKey = tuple[str, ...]


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
        entity_of_key: Normal form of a name -> the number of its entity.
    """

    names: list[str] = field(default_factory=list)
    mentions: list[list[str]] = field(default_factory=list)
    places: list[list[int]] = field(default_factory=list)
    entity_of_key: dict[NameKey, int] = field(default_factory=dict)


def acronym(name: str) -> str:
    """The single word of capitals that a name is, an article before it aside; "" where it is none.

    "the US" -> "US"        "Toren" -> ""
    """
    without_possessive = _POSSESSIVE.sub("", name)
    name_words = _BETWEEN_WORDS.sub(" ", without_possessive).split()
    if len(name_words) == 2 and name_words[0].casefold() in _ARTICLES:
        name_words = name_words[1:]
    if len(name_words) != 1:
        return ""
    (word,) = name_words
    if len(word) > 1 and word.isupper():
        return word
    return ""


def name_key(name: str) -> NameKey:
    """The words that a name is compared by: small letters, no article before it, no possessive, no
    marks.

        "the Mill's" -> ("mill",)

    An acronym that would be a function word in small letters keeps its capitals: ("US",).
    """
    capitals = acronym(name)
    if capitals.casefold() in FUNCTION_WORDS:
        return (capitals,)
    without_possessive = _POSSESSIVE.sub("", name.casefold())
    name_words = tuple(_BETWEEN_WORDS.sub(" ", without_possessive).split())
    if len(name_words) > 1 and name_words[0] in _ARTICLES:
        return name_words[1:]
    return name_words


def find_whole_words(name: str, text: str) -> Iterator[int]:
    """Yield the positions of `name` in `text`, in the same letters and not inside a longer word.

    "Ann", "Ann met Anna and Ann." -> 0, 17
    """
    if not name:
        return
    position = text.find(name)
    while position >= 0:
        end = position + len(name)
        goes_on_before = position > 0 and _stand_in_one_word(text[position - 1], name[0])
        goes_on_after = end < len(text) and _stand_in_one_word(name[-1], text[end])
        if not goes_on_before and not goes_on_after:
            yield position
        position = text.find(name, position + 1)


def _stand_in_one_word(first: str, second: str) -> bool:
    """Whether two neighbouring characters are in one word of a script with spaces."""
    return _is_letter_of_spaced_script(first) and _is_letter_of_spaced_script(second)


def stands_in(name: str, text: str) -> bool:
    """Whether `name` stands anywhere in `text` as it is written."""
    return next(find_whole_words(name, text), None) is not None


def _is_letter_of_spaced_script(character: str) -> bool:
    """Whether a character is a letter or digit of a script that parts words by spaces; those of
    Chinese and Japanese are not."""
    return character.isalnum() and character < "\u2e80"


def join_names_to_entities(graphs: Sequence[SubGraph], segments: Sequence[str]) -> Entities:
    """Find out which names of all segments are one entity; entities stand in the order of their
    first mention.

    Names are compared by their keys: "the Mill's" and "Mill" have the key ("mill",), and different
    keys may be one entity, as ("claudio", "ranieri") and ("ranieri",). A name without a word has
    no key and is left out.

    Args:
        graphs: The graph of each segment.
        segments: The text of each segment.
    """
    spellings_of_key: dict[NameKey, dict[str, None]] = {}  # each dict is an ordered set
    segments_of_key: dict[NameKey, set[int]] = {}
    for segment, graph in enumerate(graphs):
        for name in graph.names:
            key = name_key(name)
            if key:
                spellings_of_key.setdefault(key, {})[name] = None
                segments_of_key.setdefault(key, set()).add(segment)
    clusters = _cluster_keys_of_one_entity(list(spellings_of_key))
    cluster_of_key: dict[NameKey, int] = {}
    for cluster_number, keys in enumerate(clusters):
        for key in keys:
            cluster_of_key[key] = cluster_number
    entities = Entities()
    for key in spellings_of_key:
        keys = clusters[cluster_of_key[key]]
        is_new_entity = keys[0] not in entities.entity_of_key
        if is_new_entity:  # with it all keys of its cluster get the entity
            _add_entity(entities, keys, spellings_of_key, segments_of_key, segments)
    return entities


def _add_entity(
    entities: Entities,
    keys: Sequence[NameKey],
    spellings_of_key: dict[NameKey, dict[str, None]],
    segments_of_key: dict[NameKey, set[int]],
    segments: Sequence[str],
) -> None:
    """Add to `entities` the entity that some keys of names stand for.

    Args:
        entities: All entities so far; is changed.
        keys: The words that the entity's names are compared by, the longest name first.
        spellings_of_key: Key -> how names with it are written, as the keys of a dict.
        segments_of_key: Key -> the segments whose graphs have a name with it.
        segments: The texts; the entity is also in each segment with any of its names.
    """
    entity = len(entities.names)
    mentions: list[str] = []
    places: set[int] = set()
    for key in keys:
        entities.entity_of_key[key] = entity
        mentions += spellings_of_key[key]
        places |= segments_of_key[key]
    for segment, text in enumerate(segments):
        if segment not in places and any(stands_in(mention, text) for mention in mentions):
            places.add(segment)
    entities.names.append(mentions[0])
    entities.mentions.append(mentions)
    entities.places.append(sorted(places))


def _cluster_keys_of_one_entity(keys: Sequence[NameKey]) -> list[list[NameKey]]:
    """Group the keys of names that are one entity, the longest of each first.

        ("claudio", "ranieri"), ("ranieri",) -> one group of both

    A key that is a part of longer ones joins their group if these are one entity, else it is its
    own.
    """
    clusters: list[list[NameKey]] = []
    # A part of a longer name -> the clusters whose entities it could stand for.
    clusters_of_part: dict[NameKey, set[int]] = {}
    for key in sorted(keys, key=len, reverse=True):
        clusters_with_longer = clusters_of_part.get(key, set())
        if len(clusters_with_longer) == 1:
            (cluster,) = clusters_with_longer
            clusters[cluster].append(key)
        else:
            cluster = len(clusters)
            clusters.append([key])
        for part in _parts_of_name(key):
            clusters_of_part.setdefault(part, set()).add(cluster)
    return clusters


def _parts_of_name(key: NameKey) -> Iterator[NameKey]:
    """Yield all shorter runs of words in a name: ("a", "b") -> ("a",), ("b",); dates and numbers
    have none."""
    if any(word.isdigit() for word in key):
        return
    for start in range(len(key)):
        for end in range(start + 1, len(key) + 1):
            if end - start < len(key):
                yield key[start:end]


class SegmentRelation(NamedTuple):
    """How two entities are related in one segment: the segment's number, and the relation."""

    segment: int
    text: str


def collect_relations(
    graphs: Sequence[SubGraph], entities: Entities
) -> dict[tuple[int, int], list[SegmentRelation]]:
    """Collect the relations of each pair of entities from the graphs of all segments.

        {(0, 2): [SegmentRelation(5, "Ann met Bo. Ann left Bo.")]}

    Relations of an entity with itself, as there may be after merging names, are left out; so is a
    text that the segment has for the pair already.

    Args:
        graphs: The graph of each segment.
        entities: The entities of all graphs.

    Returns:
        (entity, entity) in order of first mention -> the relation in each segment that has one,
        a segment's texts joined.
    """
    texts_of_pair: dict[tuple[int, int], dict[int, list[str]]] = {}  # by segment
    for segment, graph in enumerate(graphs):
        for first_name, second_name, text in graph.relations:
            first_entity = entities.entity_of_key[name_key(first_name)]
            second_entity = entities.entity_of_key[name_key(second_name)]
            if first_entity == second_entity:
                continue
            pair = (first_entity, second_entity)
            pair_in_other_order = (second_entity, first_entity)
            if pair_in_other_order in texts_of_pair:
                pair = pair_in_other_order
            texts = texts_of_pair.setdefault(pair, {}).setdefault(segment, [])
            if text not in texts:
                texts.append(text)
    relations: dict[tuple[int, int], list[SegmentRelation]] = {}
    for pair, texts_of_segment in texts_of_pair.items():
        relations[pair] = []
        for segment, texts in texts_of_segment.items():
            relations[pair].append(SegmentRelation(segment, " ".join(texts)))
    return relations
