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
from methods.extraction import ExtractingMethod, make_each_and_store
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
EXTRACT_REST = Prompt(
    "extract the rest",
    "Many are missing. Reply with the missing ones alone, in the same form.",
    first=False,
)
JOIN_DESCRIPTIONS = Prompt(
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
ENTITIES_AND_RELATIONS = Prompt(
    "entities and relations",
    "Entities (name | description | type | rank):\n{entities}\n\nRelations (name | name | "
    "description | keywords | "
    "weight | rank):\n{relations}\n\nSources:",
    first=False,
)
BETWEEN_DESCRIPTIONS = "<SEP>"  # as in the released code, between descriptions of one name
JOIN_TOKENS = 500  # likewise: descriptions of as many are joined by the model, into as many at most
KEYWORD_TOKENS = 512  # most tokens of the reply that lists keywords
_NUMBER = re.compile(r"[-+]?[0-9]*\.?[0-9]+")
KeywordLevel = Literal["high", "low"]
KEYWORD_LEVELS_OF_MODE: dict[str, tuple[KeywordLevel, ...]] = {
    "hybrid": ("high", "low"),
    "local": ("low",),
    "global": ("high",),
}  # of keywords


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

    def shown_row(self, relation_count: int) -> str:
        """The item as a line of the prompt: "ADA | BO | They met. | travel | 7 | 3".

        Args:
            relation_count: The last field: how many relations the entity has, or both entities of
                the relation.
        """
        fields = [*self.names, self.text, self.label]
        if self.is_relation:
            fields.append(f"{self.weight:g}")
        return " | ".join([*fields, str(relation_count)])


class ExtractedItem(NamedTuple):
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


def _mentions_by_names(
    items_of_chunks: Sequence[Sequence[ExtractedItem]],
) -> dict[Names, list[_Mention]]:
    """Names of an entity or relation, sorted -> its mentions in the order of the chunks.

        [[ExtractedItem(["BO", "ADA"], "They met.", "travel", 7)]]
            -> {("ADA", "BO"): [_Mention("They met.", "travel", 7, chunk=0)]}

    Args:
        items_of_chunks: For each chunk what the model wrote of it.
    """
    mentions: dict[Names, list[_Mention]] = defaultdict(list)
    for chunk_number, items in enumerate(items_of_chunks):
        for names, text, label, weight in items:
            mentions[tuple(sorted(names))].append(
                _Mention(text=text, label=label, weight=weight, chunk=chunk_number)
            )
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
    for item in reversed(items):  # so that the first relation has the last word
        for name in item.names:
            if name not in listed:
                unlisted[name] = Item(
                    names=(name,), text=item.text, label="UNKNOWN", weight=0.0, chunks=item.chunks
                )
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
    own_prompts: ClassVar[Sequence[Prompt]] = (
        EXTRACT,
        EXTRACT_REST,
        JOIN_DESCRIPTIONS,
        KEYWORDS,
        ENTITIES_AND_RELATIONS,
    )

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
        extracted_by_chunk = make_each_and_store(
            lambda number: self._ask_for_items(chunks[number], tools), len(chunks), "chunk", tools
        )
        mentions = _mentions_by_names(extracted_by_chunk)
        items = tools.map(
            lambda names: self._join_mentions(names, mentions[names], tools), list(mentions)
        )
        vectors = tools.encoder().encode([_text_for_vector(item) for item in items], "passage")
        # Entities that relations alone name are shown beside these, but not found.
        all_items = [*items, *_unlisted_entities(items)]
        return {
            "chunks": [list(span) for span in spans],
            "items": [item.to_row() for item in all_items],
            "vectors": vectors,
        }

    def _ask_for_items(self, chunk: str, tools: Tools) -> list[ExtractedItem]:
        """Ask the builder for the entities and relations of a chunk, in one conversation: first at
        once, then as often as `gleanings` says for those that it left out.

        A reply without any is counted as one that could not be read. The replies share what the
        window leaves.

        Args:
            chunk: The text of the chunk.
            tools: The engine's tools.

        Raises:
            WindowExceeded: The requests do not fit the window.
        """
        model = tools.model("builder")
        turns = [EXTRACT.with_replacements(self.config).fill(text=[chunk])]
        turns += [EXTRACT_REST.with_replacements(self.config).fill()] * self.config.gleanings
        tokens_of_turns = sum(prompt_tokens(turn, model) for turn in turns)
        least_reply_tokens = len(turns)  # a token for each reply
        require_room(tokens_of_turns + least_reply_tokens, model, window=None)
        max_tokens_per_reply = (model.window - tokens_of_turns) // len(turns)
        items: list[ExtractedItem] = []
        with model.session() as session:
            for turn in turns:
                feed(session, turn)
                written = session.write(min(self.config.reply_tokens, max_tokens_per_reply))
                items_of_reply = items_in(written.text)
                if items_of_reply is None:
                    session.count_reply(written)
                items += items_of_reply or []
        return items

    def _join_mentions(self, names: Names, mentions: Sequence[_Mention], tools: Tools) -> Item:
        """One entity or relation, put together from all its mentions.

        An entity gets its most frequent type, a relation all its keywords and the sum of its
        weights.

        Args:
            names: The name of the entity, or the two names of the relation.
            mentions: What the chunks say of it.
            tools: The engine's tools.
        """
        labels = [mention.label for mention in mentions]
        label = BETWEEN_DESCRIPTIONS.join(sorted(set(labels)))
        if len(names) == 1:
            label = Counter(labels).most_common(1)[0][0]
        return Item(
            names=names,
            text=self._join_descriptions(names, mentions, tools),
            label=label,
            weight=sum(mention.weight for mention in mentions),
            chunks=list(dict.fromkeys(mention.chunk for mention in mentions)),
        )

    def _join_descriptions(self, names: Names, mentions: Sequence[_Mention], tools: Tools) -> str:
        """All distinct descriptions of an entity or a relation, joined by the model where they are
        long, else by BETWEEN_DESCRIPTIONS.

        Args:
            names: The name of the entity, or the two names of the relation.
            mentions: What the chunks say of it.
            tools: The engine's tools; they store what the model writes.
        """
        model = tools.model("builder")
        distinct_descriptions = sorted({mention.text for mention in mentions})
        text = BETWEEN_DESCRIPTIONS.join(distinct_descriptions)
        if model.count(text) < JOIN_TOKENS:
            return text
        name = " and ".join(names)

        def ask_to_join() -> str:
            """Ask the model to join the descriptions, as many as fit."""
            prompt = JOIN_DESCRIPTIONS.with_replacements(self.config)
            request, _ = fit_lines(
                lambda n_descriptions: prompt.fill(
                    name=name, texts="\n".join(distinct_descriptions[:n_descriptions])
                ),
                len(distinct_descriptions),
                model.window - JOIN_TOKENS,
                model,
            )
            response = ask_parsed(model, request, JOIN_TOKENS, str.strip, Retry(retries=0))
            return response.text.strip()

        joined: str = tools.keep(f"description of {name}", ask_to_join)
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
            request = KEYWORDS.with_replacements(config).fill(
                question=[reading.question_text(question)]
            )
            response = ask_parsed(
                tools.model("searcher"), request, KEYWORD_TOKENS, keywords_in, Retry(retries=0)
            )
            found = search.find_by_all_keywords(response.parsed or {})
        step = Step(
            "keywords", tokens=response.prompt_tokens, flops=tools.meter.flops(), note=response.text
        )
        # As in the released code: by both levels the model is asked also where nothing is found.
        asks_anyway = config.mode == "hybrid"
        if response.parsed is None or not (found.entities or asks_anyway):
            return Answer(REFUSAL, (), "nothing found", (step,))
        return self._answer_from_found(question, search, found, step)

    def _answer_from_found(
        self, question: Question, search: _Search, found: _FoundNumbers, step: Step
    ) -> Answer:
        """Answer from what was found, as much of it as the window holds.

        Args:
            question: The question.
            search: The search in the document.
            found: What was found.
            step: The step of the search; the answer's steps begin with it.
        """
        tools = search.tools
        model = tools.model()
        request = reading.Reading(tools.task, config=self.config)
        max_tokens = reading.room_for_text(question, tools, model, request)
        found = search.shorten_lists(found, max_tokens)
        chunk_texts = [search.chunks[chunk] for chunk in found.chunks]
        graph_text = search.prompt_part(found)
        text, shown_count = reading.ask_fitting(
            question, [graph_text, *chunk_texts], tools, request
        )
        n_shown_chunks = max(0, shown_count - 1)  # the first text that is shown is the graph
        shown_chunks = found.chunks[:n_shown_chunks]
        spans = shown_spans(search.document, [search.spans[chunk] for chunk in shown_chunks])
        flops = tools.meter.flops()
        steps = [step]
        for chunk, span in zip(shown_chunks, spans, strict=True):
            tokens = model.count(search.chunks[chunk])
            steps.append(Step("read", chunk, tokens=tokens, flops=flops, shown=span))
        shown: tuple[Shown, ...] = ()
        if shown_count:
            shown = (search.shown_graph(graph_text, found), *spans)
        reason = (
            f"{len(found.entities)} entities, {len(found.relations)} relations, "
            f"{len(shown_chunks)} of {len(chunk_texts)} chunks"
        )
        return Answer(text, shown, reason, tuple(steps))


@dataclass(frozen=True)
class _FoundNumbers:
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
        the vectors of the first ones. texts, prompt_lines: the description of each item, and its
        line in a prompt.
        """
        self.document = document
        self.config = config
        self.tools = tools
        self.spans = [(int(start), int(end)) for start, end in index["chunks"]]
        self.chunks = [document.text[start:end].strip() for start, end in self.spans]
        self.items = [Item.from_row(row) for row in index["items"]]
        self.vectors = index["vectors"]
        self.texts = [item.text for item in self.items]
        self._number_of_entity = self._numbers_of_entities()
        self._neighbours = self._find_neighbours()
        self._relation_counts = [self._relation_count(item) for item in self.items]
        self.prompt_lines = [
            item.shown_row(count)
            for item, count in zip(self.items, self._relation_counts, strict=True)
        ]

    def _numbers_of_entities(self) -> dict[str, int]:
        """Name -> the number of the entity among all items."""
        numbers: dict[str, int] = {}
        for number, item in enumerate(self.items):
            if not item.is_relation:
                numbers[item.names[0]] = number
        return numbers

    def _find_neighbours(self) -> list[list[int]]:
        """For each item the numbers of the items that it is joined to.

        Of an entity these are its relations, of a relation its two entities.
        """
        neighbours: list[list[int]] = [[] for _ in self.items]
        for number, item in enumerate(self.items):
            if not item.is_relation:
                continue
            for name in item.names:
                entity = self._number_of_entity[name]
                neighbours[number].append(entity)
                neighbours[entity].append(number)
        return neighbours

    def _relation_count(self, item: Item) -> int:
        """How many relations an entity has; of a relation, the sum of its two entities'."""
        return sum(len(self._neighbours[self._number_of_entity[name]]) for name in item.names)

    def find_by_all_keywords(self, keywords: Mapping[str, Sequence[str]]) -> _FoundNumbers:
        """All that the keywords of a question find, each item and chunk once.

        The setting `mode` says which levels of keywords count.

        Args:
            keywords: "low" and "high" -> the keywords of this level.
        """
        entities: list[int] = []
        relations: list[int] = []
        chunks: list[int] = []
        for level in KEYWORD_LEVELS_OF_MODE[self.config.mode]:
            words = keywords.get(level, [])
            found = self._find_at_level(level, words)
            entities += found.entities
            relations += found.relations
            chunks += found.chunks
        return _FoundNumbers(
            entities=_distinct(entities), relations=_distinct(relations), chunks=_distinct(chunks)
        )

    def _find_at_level(self, level: KeywordLevel, words: Sequence[str]) -> _FoundNumbers:
        """What the keywords of one level, "low" or "high", find."""
        if level == "low":
            return self._find_low(words)
        return self._find_high(words)

    def _find_low(self, words: Sequence[str]) -> _FoundNumbers:
        """Find entities by low-level keywords, with their relations and chunks.

        Of an entity's chunks those come first that more of its neighbours share.
        """
        entities = self._nearest_items(words, relations=False)
        relations: list[int] = []
        chunks: list[int] = []
        for entity in entities:
            relations += self._neighbours[entity]
            chunks += self._shared_chunks_first(entity)
        return _FoundNumbers(
            entities=entities,
            relations=self._best_relations(relations),
            chunks=self.first_that_fit(chunks, self.chunks),
        )

    def _find_high(self, words: Sequence[str]) -> _FoundNumbers:
        """Find relations by high-level keywords, with their entities and chunks, as many of each as
        a list of the prompt holds."""
        relations = self._best_relations(self._nearest_items(words, relations=True))
        entities: list[int] = []
        chunks: list[int] = []
        for relation in relations:
            entities += self._neighbours[relation]
            chunks += self.items[relation].chunks
        return _FoundNumbers(
            entities=self.first_that_fit(entities, self.texts),
            relations=relations,
            chunks=self.first_that_fit(chunks, self.chunks),
        )

    def _nearest_items(self, words: Sequence[str], *, relations: bool) -> list[int]:
        """The numbers of the entities, or relations, most similar to keywords, the best first.

        Only the first items have a vector; the others are not found.

        Args:
            words: The keywords, encoded as one text.
            relations: True for relations, False for entities.

        Returns:
            `k` at most, each of a cosine of `least` or more.
        """
        candidates: list[int] = []
        for number, item in enumerate(self.items[: len(self.vectors)]):
            if item.is_relation == relations:
                candidates.append(number)
        if not words or not candidates:
            return []
        vectors = np.asarray(self.vectors)[candidates]
        (keyword_vector,) = self.tools.encoder().encode([", ".join(words)], "query")
        lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(keyword_vector)
        cosines = vectors @ keyword_vector / lengths
        best = best_first(cosines)[: self.config.k]
        return [candidates[i] for i in best if cosines[i] >= self.config.least]

    def _best_relations(self, relations: list[int]) -> list[int]:
        """The numbers of relations, those of a high rank first, as many as one list of the prompt
        holds."""

        def high_rank_first(relation: int) -> tuple[int, float]:
            """A sort key: a high rank first, of the same rank a high weight."""
            return -self._relation_counts[relation], -self.items[relation].weight

        return self.first_that_fit(sorted(relations, key=high_rank_first), self.texts)

    def _shared_chunks_first(self, entity: int) -> list[int]:
        """The chunks of an entity, those first that more of its neighbouring entities have, too."""
        shared: Counter[int] = Counter()
        for relation in self._neighbours[entity]:
            for neighbour in self._neighbours[relation]:
                if neighbour != entity:
                    shared.update(set(self.items[neighbour].chunks))
        return sorted(self.items[entity].chunks, key=lambda chunk: -shared[chunk])

    def first_that_fit(
        self, numbers: Sequence[int], texts: Sequence[str], max_tokens: int | None = None
    ) -> list[int]:
        """The first numbers, each once, whose texts fit into a budget together.

        Args:
            numbers: Places in `texts`, the best first.
            texts: The texts that would be shown.
            max_tokens: Most tokens of these texts; None for the budget of a list.
        """
        distinct_numbers = _distinct(numbers)
        if max_tokens is None:
            max_tokens = self.config.budget
        shown = [texts[number] for number in distinct_numbers]
        n_fitting = reading.how_many_fit(shown, max_tokens, self.tools.model(), separator="")
        return distinct_numbers[:n_fitting]

    def shorten_lists(self, found: _FoundNumbers, max_tokens: int) -> _FoundNumbers:
        """What was found, as it is where all fits a number of tokens; else with as many entities,
        and as many relations, as fit a third of these, so that chunks have the rest.

        Args:
            found: What was found.
            max_tokens: Most tokens of all texts that are shown.
        """
        chunk_texts = [self.chunks[chunk] for chunk in found.chunks]
        shown_texts = [self.prompt_part(found), *chunk_texts]
        if reading.how_many_fit(shown_texts, max_tokens, self.tools.model()) == len(shown_texts):
            return found
        third = max_tokens // 3
        return _FoundNumbers(
            entities=self.first_that_fit(found.entities, self.prompt_lines, third),
            relations=self.first_that_fit(found.relations, self.prompt_lines, third),
            chunks=found.chunks,
        )

    def prompt_part(self, found: _FoundNumbers) -> str:
        """The part of the prompt that lists the entities and relations that were found."""
        entities = "\n".join(self.prompt_lines[number] for number in found.entities)
        relations = "\n".join(self.prompt_lines[number] for number in found.relations)
        return "".join(
            ENTITIES_AND_RELATIONS.with_replacements(self.config).fill(
                entities=entities, relations=relations
            )
        )

    def shown_graph(self, graph: str, found: _FoundNumbers) -> Shown:
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


def items_in(reply: str) -> list[ExtractedItem] | None:
    """The entities and relations that a reply lists.

        '["entity", "Toren", "person", "A writer."]'
            -> [ExtractedItem(["TOREN"], "A writer.", "PERSON", 0.0)]

    Returns:
        A record of each; [] for an empty list, None for a reply without any.
    """
    values = values_in(reply)
    items: list[ExtractedItem] = []
    for value in values:
        if not isinstance(value, list):
            continue
        is_complete = bool(value) and None not in value  # None: a word without quotes
        if is_complete:
            item = _extracted_item(value)
            if item is not None:
                items.append(item)
    if not items and [] not in values:
        return None
    return items


def _extracted_item(reply_list: list[object]) -> ExtractedItem | None:
    """The entity or relation in one list of a reply; None where it is neither an entity nor a
    relation.

    ["relation", "Ada", "Bo", "They met.", "travel", 7]
        -> ExtractedItem(["ADA", "BO"], "They met.", "travel", 7.0)
    """
    kind, *parts = [str(part).strip() for part in reply_list]
    if kind == "entity" and len(parts) >= 3 and parts[0]:
        name, label, text = parts[:3]
        return ExtractedItem(names=[name.upper()], text=text, label=label.upper(), weight=0.0)
    if kind == "relation" and len(parts) >= 4 and parts[0] and parts[1]:
        first, second, text, keywords = parts[:4]
        return ExtractedItem(
            names=[first.upper(), second.upper()],
            text=text,
            label=keywords,
            weight=_strength(parts[-1]),
        )
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
