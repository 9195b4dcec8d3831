"""LightRAG (Guo et al. 2024, arXiv 2410.05779): a graph of described entities and relations,
searched on two levels.

    index     each chunk ──► (name, type, description), (name, name, description, keywords, strength)
    question  ──► "Velindra" (low-level keywords)    ──► similar entities  ──► their relations and chunks
              ──► "authorship" (high-level keywords) ──► similar relations ──► their entities and chunks

Entities, relations and chunks of both levels are read. Source: docs/methods/retrieval.md#lightrag.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import model_validator

from harness.method import Index, Indexes, MethodConfig, Tools, Traits
from harness.method.settings import index_setting, setting
from harness.prompts import Prompt, feed, prompt_tokens
from harness.types import Answer, Document, Question, Shown, Step
from methods import reading
from methods.chunks import overlapping_chunks, shown_spans
from methods.extraction import ExtractingMethod, keep_each
from methods.retrieval import best_first
from methods.retry import Retry, ask_parsed, fit_lines, require_room
from methods.self_route import REFUSAL
from methods.values import strings_in, values_in

EXTRACT = Prompt(
    "extract",
    "List the entities of the text below, of the types organization, person, geo and event, and "
    "the pairs of them that are clearly related, with a number for how strongly.\n\n"
    "Text:\n"
    "{text}\n\n"
    "The text ends here. Reply with a JSON list alone, in this form:\n"
    '[["entity", "name", "type", "what it is and does"],\n'
    '["relation", "name", "other name", "how they are related", "keywords of the '
    'relation", 5]]',
)
MORE = Prompt(
    "extract the rest",
    "Many are missing. Reply with the missing ones alone, in the same form.",
    first=False,
)
JOIN = Prompt(
    "join descriptions",
    "Join these descriptions of {name} into one, in the third person, that has all they say and "
    "settles what they contradict each other in.\n\n"
    "{texts}\n\n"
    "The descriptions end here. Joined description:",
)
KEYWORDS = Prompt(
    "keywords",
    "List the keywords of a question: high-level ones, its concepts and themes, and low-level "
    "ones, its entities and details.\n\n"
    "Question: {question}\n\n"
    'Reply with JSON alone: {"high": ["keyword"], "low": ["keyword"]}',
)
GRAPH = Prompt(
    "entities and relations",
    "Entities (name | description | type | rank):\n{entities}\n\nRelations (name | name | "
    "description | keywords | "
    "weight | rank):\n{relations}\n\nSources:",
    first=False,
)
SEPARATOR = "<SEP>"  # as in the released code, between descriptions of one name
JOIN_TOKENS = 500  # likewise: descriptions of as many are joined by the model, into as many at most
_NUMBER = re.compile(r"[-+]?[0-9]*\.?[0-9]+")
LEVELS = {"hybrid": ("high", "low"), "local": ("low",), "global": ("high",)}  # of keywords


Names = tuple[str, ...]
"""The name of an entity, or the two names of a relation, sorted."""


@dataclass(frozen=True)
class _Mention:
    """What one chunk says of an entity or a relation.

    Attributes:
        text: A description.
        label: The type of an entity, the keywords of a relation.
        weight: The strength of a relation; 0 for an entity.
        chunk: The number of the chunk.
    """

    text: str
    label: str
    weight: float
    chunk: int


@dataclass(frozen=True)
class Item:
    """An entity, or a relation of two entities.

    Attributes:
        names: The name of the entity, or the two names that the relation joins.
        text: Its description.
        label: The type of an entity, the keywords of a relation.
        weight: The strength of a relation, summed over its mentions; 0 for an entity.
        chunks: The numbers of the chunks that mention it.
    """

    names: Names
    text: str
    label: str
    weight: float
    chunks: list[int]

    @property
    def is_relation(self) -> bool:
        """Whether it is a relation of two entities."""
        return len(self.names) > 1

    def to_row(self) -> list[object]:
        """The item as an index stores it: [[name, ...], text, label, weight, [chunk, ...]]."""
        return [list(self.names), self.text, self.label, self.weight, self.chunks]

    @classmethod
    def from_row(cls, row: tuple[list[str], str, str, float, list[int]]) -> Item:
        """The item of a row that `to_row` made: (names, text, label, weight, chunks)."""
        names, text, label, weight, chunks = row
        return cls(tuple(names), text, label, weight, list(chunks))

    def shown_row(self, rank: int) -> str:
        """The item as a line of the prompt: "ADA | BO | They met. | travel | 7 | 3".

        Args:
            rank: The last field: how many relations the entity has, or both entities of the
                relation.
        """
        fields = [*self.names, self.text, self.label]
        if self.is_relation:
            fields.append(f"{self.weight:g}")
        return " | ".join([*fields, str(rank)])


class Record(NamedTuple):
    """What the model writes of an entity or a relation.

    Attributes:
        names: The name of the entity, or the two names that a relation joins, in capitals.
        text: Its description.
        label: The type of an entity, the keywords of a relation.
        weight: 0 for an entity; of a relation without one 1, as in the released code.
    """

    names: list[str]
    text: str
    label: str
    weight: float


def _mentions_by_names(by_chunk: Sequence[Sequence[Record]]) -> dict[Names, list[_Mention]]:
    """Names of an entity or relation, sorted -> its mentions in the order of the chunks.

        [[Record(["BO", "ADA"], "They met.", "travel", 7)]]
            -> {("ADA", "BO"): [_Mention("They met.", "travel", 7, chunk=0)]}

    Args:
        by_chunk: For each chunk what the model wrote of it.
    """
    mentions: dict[Names, list[_Mention]] = defaultdict(list)
    for number, records in enumerate(by_chunk):
        for names, text, label, weight in records:
            mentions[tuple(sorted(names))].append(_Mention(text, label, weight, number))
    return mentions


def _text_for_vector(item: Item) -> str:
    """The text that is encoded for an item: name and description of an entity; keywords, names and
    description of a relation; without spaces between these."""
    if item.is_relation:
        return f"{item.label}{''.join(item.names)}{item.text}"
    return item.names[0] + item.text


def _unlisted_entities(items: Sequence[Item]) -> list[Item]:
    """Entities that only relations name, each with the description and chunks of the first of
    these."""
    listed = {item.names[0] for item in items if not item.is_relation}
    unlisted: dict[str, Item] = {}
    for item in reversed(items):
        for name in item.names:
            if name not in listed:
                unlisted[name] = Item((name,), item.text, "UNKNOWN", 0.0, item.chunks)
    return list(unlisted.values())


class DescribedGraphConfig(MethodConfig):
    """Settings of the graph, which GraphRAG has too."""

    # Graph: a change builds a new index.
    segment_tokens: int = index_setting(1200, gt=0, help="Tokens of a chunk.")
    overlap: int = index_setting(100, ge=0, help="Tokens that a chunk shares with the next one.")
    gleanings: int = index_setting(
        1, ge=0, le=1, help="How often the model is asked for what it left out."
    )
    reply_tokens: int = index_setting(2048, gt=0, help="Most tokens of each list that is written.")

    @model_validator(mode="after")
    def _check_overlap(self) -> DescribedGraphConfig:
        """Raise ValueError where chunks would overlap by as many tokens as they have."""
        if self.overlap >= self.segment_tokens:
            raise ValueError("overlap should be smaller than segment_tokens")
        return self


class LightRAG(ExtractingMethod):
    """Entities and relations by keywords of two levels, with the chunks that they come from."""

    class Config(DescribedGraphConfig):
        """Settings of this method."""

        # Search
        mode: Literal["hybrid", "local", "global"] = setting(
            "hybrid",
            help=(
                'The keywords that count: "local" low-level, "global" high-level, "hybrid" both.'
            ),
        )
        k: int = setting(60, gt=0, help="Entities and relations found.")
        least: float = setting(
            0.2, ge=-1, le=1, help="Least cosine of an entity or relation that is found."
        )
        budget: int = setting(4000, gt=0, help="Tokens of each list that is shown.")

    summary = (
        "a graph of described entities and relations, found by keywords of two levels (LightRAG)"
    )
    traits = Traits(draws=False)
    own_prompts: ClassVar[Sequence[Prompt]] = (EXTRACT, MORE, JOIN, KEYWORDS, GRAPH)

    def index(self, document: Document, tools: Tools) -> Index:
        """The index of a document.

        Returns:
            "chunks": [start, end] of each in characters; "items": a row of each entity and relation
                (`Item.to_row`); "vectors": those of the items that can be found, which are the
                first ones [items, width].
        """
        config = self.config
        spans = overlapping_chunks(
            document.text, config.segment_tokens, config.overlap, tools.model("builder")
        )
        chunks = [document.text[start:end].strip() for start, end in spans]
        by_chunk = keep_each(
            lambda number: self._extract(chunks[number], tools), len(chunks), "chunk", tools
        )
        mentions = _mentions_by_names(by_chunk)
        items = tools.map(lambda names: self._item(names, mentions[names], tools), list(mentions))
        vectors = tools.encoder().encode([_text_for_vector(item) for item in items], "passage")
        # Entities that relations alone name are shown beside these, but not found.
        every = [*items, *_unlisted_entities(items)]
        return {
            "chunks": [list(span) for span in spans],
            "items": [item.to_row() for item in every],
            "vectors": vectors,
        }

    def _extract(self, chunk: str, tools: Tools) -> list[Record]:
        """Ask the builder for the entities and relations of a chunk, in one conversation: first at
        once, then as often as `gleanings` says for those that it left out.

        Args:
            chunk: The text of the chunk.
            tools: The engine's tools.

        Raises:
            WindowExceeded: The requests do not fit the window.
        """
        model = tools.model("builder")
        turns = [EXTRACT.with_replacements(self.config).fill(text=[chunk])]
        turns += [MORE.with_replacements(self.config).fill()] * self.config.gleanings
        used = sum(prompt_tokens(turn, model) for turn in turns)
        require_room(used + len(turns), model, None)
        room_for_reply = (model.window - used) // len(turns)
        records: list[Record] = []
        with model.session() as s:
            for turn in turns:
                feed(s, turn)
                written = s.write(min(self.config.reply_tokens, room_for_reply))
                found = records_in(written.text)
                if found is None:
                    s.count_reply(written)
                records += found or []
        return records

    def _item(self, names: Names, mentions: Sequence[_Mention], tools: Tools) -> Item:
        """One entity or relation, put together from all its mentions.

        An entity gets its most frequent type, a relation all its keywords and the sum of its
        weights.

        Args:
            names: The name of the entity, or the two names of the relation.
            mentions: What the chunks say of it.
            tools: The engine's tools.
        """
        labels = [mention.label for mention in mentions]
        label = SEPARATOR.join(sorted(set(labels)))
        if len(names) == 1:
            label = Counter(labels).most_common(1)[0][0]
        return Item(
            names=names,
            text=self._description(names, mentions, tools),
            label=label,
            weight=sum(mention.weight for mention in mentions),
            chunks=list(dict.fromkeys(mention.chunk for mention in mentions)),
        )

    def _description(self, names: Names, mentions: Sequence[_Mention], tools: Tools) -> str:
        """All distinct descriptions of an entity or a relation, joined by the model where they are
        long, else by SEPARATOR.

        Args:
            names: The name of the entity, or the two names of the relation.
            mentions: What the chunks say of it.
            tools: The engine's tools; they store what the model writes.
        """
        model = tools.model("builder")
        distinct = sorted({mention.text for mention in mentions})
        text = SEPARATOR.join(distinct)
        if model.count(text) < JOIN_TOKENS:
            return text
        name = " and ".join(names)

        def ask_joined() -> str:
            """Ask the model to join the descriptions, as many as fit."""
            prompt = JOIN.with_replacements(self.config)
            turn, _ = fit_lines(
                lambda count: prompt.fill(name=name, texts="\n".join(distinct[:count])),
                len(distinct),
                model.window - JOIN_TOKENS,
                model,
            )
            response = ask_parsed(model, turn, JOIN_TOKENS, str.strip, Retry(retries=0))
            return response.text.strip()

        joined: str = tools.keep(f"description of {name}", ask_joined)
        return joined

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Ask for keywords of the question, find entities and relations by them, and answer from
        these with their chunks.

        The answer is REFUSAL where the reply has no keywords, or nothing is found in a mode of one
        level.
        """
        (document,) = documents
        (index,) = indexes
        config = self.config
        search = _Search(index, document, config, tools)
        with tools.phase("search"):
            pieces = KEYWORDS.with_replacements(config).fill(
                question=[reading.question_text(question)]
            )
            response = ask_parsed(
                tools.model("searcher"), pieces, 512, keywords_in, Retry(retries=0)
            )
            found = search.find_all(response.found or {})
        step = Step(
            "keywords", tokens=response.tokens, flops=tools.meter.flops(), note=response.text
        )
        # As in the released code: by both levels the model is asked also where nothing is found.
        asks_anyway = config.mode == "hybrid"
        if response.found is None or not (found.entities or asks_anyway):
            return Answer(REFUSAL, (), "nothing found", (step,))
        return self._read(question, search, found, step)

    def _read(self, question: Question, search: _Search, found: _Found, step: Step) -> Answer:
        """Answer from what was found, as much of it as the window holds.

        Where not all fits, entities and relations get a third of the room each, and the chunks the
        rest.

        Args:
            question: The question.
            search: The search in the document.
            found: What was found.
            step: The step of the search; the answer's steps begin with it.
        """
        tools = search.tools
        model = tools.model()
        request = reading.Reading(tools.task, config=self.config)
        room = reading.room_for_text(question, tools, model, request)
        texts = [search.chunks[i] for i in found.chunks]
        shown_texts = [search.written(found), *texts]
        if reading.how_many_fit(shown_texts, room, model) < len(shown_texts):
            found = _Found(
                search.first(found.entities, search.rows, room // 3),
                search.first(found.relations, search.rows, room // 3),
                found.chunks,
            )
        graph = search.written(found)
        text, count = reading.ask_fitting(question, [graph, *texts], tools, request)
        read = found.chunks[: max(0, count - 1)]  # the first text that is shown is the graph
        places = shown_spans(search.document, [search.spans[i] for i in read])
        flops = tools.meter.flops()
        steps = [step]
        for chunk, place in zip(read, places, strict=True):
            tokens = model.count(search.chunks[chunk])
            steps.append(Step("read", chunk, tokens=tokens, flops=flops, shown=place))
        shown: tuple[Shown, ...] = ()
        if count:
            shown = (search.shown_graph(graph, found), *places)
        reason = (
            f"{len(found.entities)} entities, {len(found.relations)} relations, "
            f"{len(read)} of {len(texts)} chunks"
        )
        return Answer(text, shown, reason, tuple(steps))


@dataclass(frozen=True)
class _Found:
    """Numbers of entities, relations and chunks, the best first."""

    entities: list[int]
    relations: list[int]
    chunks: list[int]


class _Search:
    """Finds entities, relations and chunks by keywords."""

    def __init__(
        self, index: Index, document: Document, config: LightRAG.Config, tools: Tools
    ) -> None:
        """Keep the parts of the index, and compute what every search needs.

        spans, chunks: places and texts of the chunks. items, vectors: entities and relations, and
        the vectors of the first ones. texts, rows: the description of each item, and its line in a
        prompt.
        """
        self.document = document
        self.config = config
        self.tools = tools
        self.spans = [(int(start), int(end)) for start, end in index["chunks"]]
        self.chunks = [document.text[start:end].strip() for start, end in self.spans]
        self.items = [Item.from_row(row) for row in index["items"]]
        self.vectors = index["vectors"]
        self.texts = [item.text for item in self.items]
        self._entities = self._numbers_of_entities()
        self._joined = self._neighbours()
        self._ranks = [self._rank(item) for item in self.items]
        self.rows = [
            item.shown_row(rank) for item, rank in zip(self.items, self._ranks, strict=True)
        ]

    def _numbers_of_entities(self) -> dict[str, int]:
        """Name -> the number of the entity among all items."""
        numbers: dict[str, int] = {}
        for i, item in enumerate(self.items):
            if not item.is_relation:
                numbers[item.names[0]] = i
        return numbers

    def _neighbours(self) -> list[list[int]]:
        """For each item the numbers of the items that it is joined to.

        Of an entity these are its relations, of a relation its two entities.
        """
        joined: list[list[int]] = [[] for _ in self.items]
        for i, item in enumerate(self.items):
            if not item.is_relation:
                continue
            for name in item.names:
                entity = self._entities[name]
                joined[i].append(entity)
                joined[entity].append(i)
        return joined

    def _rank(self, item: Item) -> int:
        """How many relations an entity has; of a relation, the sum of its two entities'."""
        return sum(len(self._joined[self._entities[name]]) for name in item.names)

    def find_all(self, keywords: Mapping[str, Sequence[str]]) -> _Found:
        """All that the keywords of a question find, each item and chunk once.

        The setting `mode` says which levels of keywords count.

        Args:
            keywords: "low" and "high" -> the keywords of this level.
        """
        entities: list[int] = []
        relations: list[int] = []
        chunks: list[int] = []
        for level in LEVELS[self.config.mode]:
            words = keywords.get(level, [])
            found = self._find(level, words)
            entities += found.entities
            relations += found.relations
            chunks += found.chunks
        return _Found(_distinct(entities), _distinct(relations), _distinct(chunks))

    def _find(self, level: str, words: Sequence[str]) -> _Found:
        """What the keywords of one level, "low" or "high", find."""
        if level == "low":
            return self._find_low(words)
        return self._find_high(words)

    def _find_low(self, words: Sequence[str]) -> _Found:
        """Find entities by low-level keywords, with their relations and chunks.

        Of an entity's chunks those come first that more of its neighbours share.
        """
        entities = self._nearest(words, relations=False)
        relations: list[int] = []
        chunks: list[int] = []
        for entity in entities:
            relations += self._joined[entity]
            chunks += self._shared_chunks_first(entity)
        return _Found(entities, self._best_relations(relations), self.first(chunks, self.chunks))

    def _find_high(self, words: Sequence[str]) -> _Found:
        """Find relations by high-level keywords, with their entities and chunks, as many of each as
        a list of the prompt holds."""
        relations = self._best_relations(self._nearest(words, relations=True))
        entities: list[int] = []
        chunks: list[int] = []
        for relation in relations:
            entities += self._joined[relation]
            chunks += self.items[relation].chunks
        return _Found(self.first(entities, self.texts), relations, self.first(chunks, self.chunks))

    def _nearest(self, words: Sequence[str], relations: bool) -> list[int]:
        """The numbers of the entities, or relations, most similar to keywords, the best first.

        Args:
            words: The keywords, encoded as one text.
            relations: True for relations, False for entities.

        Returns:
            `k` at most, each of a cosine of `least` or more.
        """
        candidates: list[int] = []
        for i, item in enumerate(self.items[: len(self.vectors)]):
            if item.is_relation == relations:
                candidates.append(i)
        if not words or not candidates:
            return []
        vectors = np.asarray(self.vectors)[candidates]
        (query,) = self.tools.encoder().encode([", ".join(words)], "query")
        scores = vectors @ query / (np.linalg.norm(vectors, axis=1) * np.linalg.norm(query))
        best = best_first(scores)[: self.config.k]
        return [candidates[i] for i in best if scores[i] >= self.config.least]

    def _best_relations(self, relations: list[int]) -> list[int]:
        """The numbers of relations, those of a high rank first, as many as one list of the prompt
        holds."""

        def high_rank_first(relation: int) -> tuple[int, float]:
            """A sort key: a high rank first, of the same rank a high weight."""
            return -self._ranks[relation], -self.items[relation].weight

        return self.first(sorted(relations, key=high_rank_first), self.texts)

    def _shared_chunks_first(self, entity: int) -> list[int]:
        """The chunks of an entity, those first that more of its neighbouring entities have, too."""
        shared: Counter[int] = Counter()
        for relation in self._joined[entity]:
            for neighbour in self._joined[relation]:
                if neighbour != entity:
                    shared.update(set(self.items[neighbour].chunks))
        return sorted(self.items[entity].chunks, key=lambda chunk: -shared[chunk])

    def first(
        self, numbers: Sequence[int], texts: Sequence[str], budget: int | None = None
    ) -> list[int]:
        """The first numbers, each once, whose texts fit into a budget together.

        Args:
            numbers: Places in `texts`, the best first.
            texts: The texts that would be shown.
            budget: Most tokens; None for the budget of a list.
        """
        distinct = _distinct(numbers)
        limit = self.config.budget
        if budget is not None:
            limit = budget
        shown = [texts[i] for i in distinct]
        return distinct[: reading.how_many_fit(shown, limit, self.tools.model(), "")]

    def written(self, found: _Found) -> str:
        """The part of the prompt that lists the entities and relations that were found."""
        entities = "\n".join(self.rows[i] for i in found.entities)
        relations = "\n".join(self.rows[i] for i in found.relations)
        return "".join(
            GRAPH.with_replacements(self.config).fill(entities=entities, relations=relations)
        )

    def shown_graph(self, graph: str, found: _Found) -> Shown:
        """The list of entities and relations as an Answer says what the reader saw.

        Args:
            graph: The text of the list.
            found: The entities and relations in it, whose chunks become its sources.
        """
        sources: set[tuple[str, int, int]] = set()
        for number in [*found.entities, *found.relations]:
            for chunk in self.items[number].chunks:
                sources.add((self.document.id, *self.spans[chunk]))
        return Shown("generated", self.document.id, text=graph, sources=tuple(sorted(sources)))


def _distinct(numbers: Sequence[int]) -> list[int]:
    """The numbers in order, each once."""
    return list(dict.fromkeys(numbers))


def records_in(reply: str) -> list[Record] | None:
    """The entities and relations that a reply lists.

        '["entity", "Toren", "person", "A writer."]'
            -> [Record(["TOREN"], "A writer.", "PERSON", 0.0)]

    Returns:
        A record of each; [] for an empty list, None for a reply without any.
    """
    values = values_in(reply)
    records: list[Record] = []
    for value in values:
        if isinstance(value, list) and value and None not in value:
            record = _record(value)
            if record is not None:
                records.append(record)
    if not records and [] not in values:
        return None
    return records


def _record(value: list[object]) -> Record | None:
    """The record of one list of a reply; None where it is neither an entity nor a relation.

    ["relation", "Ada", "Bo", "They met.", "travel", 7]
        -> Record(["ADA", "BO"], "They met.", "travel", 7.0)
    """
    kind, *parts = [str(part).strip() for part in value]
    if kind == "entity" and len(parts) >= 3 and parts[0]:
        name, label, text = parts[:3]
        return Record([name.upper()], text, label.upper(), 0.0)
    if kind == "relation" and len(parts) >= 4 and parts[0] and parts[1]:
        first, second, text, keywords = parts[:4]
        return Record([first.upper(), second.upper()], text, keywords, _strength(parts[-1]))
    return None


def _strength(text: str) -> float:
    """The strength of a relation: "7" and '"7"' -> 7.0; 1 for what is no number, as in the released
    code."""
    plain = text.strip('"').strip("'")
    if _NUMBER.fullmatch(plain):
        return float(plain)
    return 1.0


def keywords_in(reply: str) -> dict[str, list[str]] | None:
    """The keywords of a reply's first object with "high" or "low"; None where it has none.

    '{"high": ["trade"], "low": ["Ada", "mill"]}' -> {"high": ["trade"], "low": ["Ada", "mill"]}
    """
    for value in values_in(reply):
        if not isinstance(value, dict) or not {"high", "low"} & {*value}:
            continue
        keywords: dict[str, list[str]] = {}
        for level, words in value.items():
            if isinstance(words, list):
                keywords[level] = list(strings_in(words))
        return keywords
    return None
