"""LightRAG (Guo et al. 2024, arXiv 2410.05779): a graph of described entities and relations,
searched on two levels.

    index     each chunk ──► (name, type, description), (name, name, description, keywords, strength)
    question  ──► "Velindra" (low-level keywords)    ──► similar entities  ──► their relations and chunks
              ──► "authorship" (high-level keywords) ──► similar relations ──► their entities and chunks

Entities, relations and chunks of both levels are read. Source: docs/methods/retrieval.md#lightrag.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Literal

import numpy as np
from pydantic import model_validator

from harness.method import Index, Indexes, MethodConfig, Tools, Traits
from harness.method.settings import index_setting, setting
from harness.prompts import Pieces, Prompt, feed, prompt_tokens
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
    "the pairs of them that "
    "are clearly related, with a number for how strongly.\n\nText:\n{text}\n\nThe text ends here. "
    "Reply with a JSON "
    'list alone, in this form:\n[["entity", "name", "type", "what it is and does"],\n'
    '["relation", "name", "other name", "how they are related", "keywords of the relation", 5]]',
)
MORE = Prompt(
    "extract the rest",
    "Many are missing. Reply with the missing ones alone, in the same form.",
    first=False,
)
JOIN = Prompt(
    "join descriptions",
    "Join these descriptions of {name} into one, in the third person, that has all they say and "
    "settles what they "
    "contradict each other in.\n\n{texts}\n\nThe descriptions end here. Joined description:",
)
KEYWORDS = Prompt(
    "keywords",
    "List the keywords of a question: high-level ones, its concepts and themes, and low-level "
    "ones, its entities and "
    'details.\n\nQuestion: {question}\n\nReply with JSON alone: {"high": ["keyword"], "low": ["keyword"]}',
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
LEVELS = {"hybrid": ("high", "low"), "local": ("low",), "global": ("high",)}  # of keywords


class LightRAG(ExtractingMethod):
    """Entities and relations by keywords of two levels, with the chunks that they come from."""

    class Config(MethodConfig):
        """Settings of this method."""

        # Graph: a change builds a new index.
        segment_tokens: int = index_setting(1200, gt=0, help="Tokens of a chunk.")
        overlap: int = index_setting(
            100, ge=0, help="Tokens that a chunk shares with the next one."
        )
        gleanings: int = index_setting(
            1, ge=0, le=1, help="How often the model is asked for what it left out."
        )
        reply_tokens: int = index_setting(
            2048, gt=0, help="Most tokens of each list that is written."
        )
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

        @model_validator(mode="after")
        def _check_overlap(self) -> "LightRAG.Config":
            if self.overlap >= self.segment_tokens:
                raise ValueError("overlap should be smaller than segment_tokens")
            return self

    summary = (
        "a graph of described entities and relations, found by keywords of two levels (LightRAG)"
    )
    traits = Traits(draws=False)
    own_prompts = (EXTRACT, MORE, JOIN, KEYWORDS, GRAPH)

    def index(self, document: Document, tools: Tools) -> Index:
        """The index.

        "chunks": as [start, end] in characters; "items": of each entity and relation its names, one
        or two, its description, its type or keywords, its weight and its chunks; "vectors": of the
        items that can be found.
        """
        model, config = tools.model("builder"), self.config
        spans = overlapping_chunks(document.text, config.segment_tokens, config.overlap, model)
        more, join = [MORE.of(config).fill()] * config.gleanings, JOIN.of(config)

        def records(number: int) -> list[list[Any]]:
            turns = [
                EXTRACT.of(config).fill(text=[document.text[slice(*spans[number])].strip()]),
                *more,
            ]
            used, chunk_records = (
                sum(prompt_tokens(turn, model) for turn in turns),
                list[list[Any]](),
            )
            require_room(used + len(turns), model, None)
            with model.session() as s:
                for turn in turns:
                    feed(s, turn)
                    written = s.write(min(config.reply_tokens, (model.window - used) // len(turns)))
                    if (new := records_in(written.text)) is None:
                        s.count_reply(written)
                    chunk_records += new or []
            return chunk_records

        said: dict[tuple[str, ...], list[Any]] = defaultdict(
            list
        )  # of an entity, or of the two of a relation
        for number, chunk_records in enumerate(keep_each(records, len(spans), "chunk", tools)):
            for names, *fields in chunk_records:
                said[tuple(sorted(names))].append([*fields, number])

        def item(names: tuple[str, ...]) -> list[Any]:
            texts, labels, weights, chunks = zip(*said[names], strict=True)
            distinct, name = sorted(set(texts)), " and ".join(names)
            text, label = SEPARATOR.join(distinct), SEPARATOR.join(sorted(set(labels)))

            def joined() -> str:
                def filled(count: int) -> Pieces:
                    return join.fill(name=name, texts="\n".join(distinct[:count]))

                turn, _ = fit_lines(filled, len(distinct), model.window - JOIN_TOKENS, model)
                return ask_parsed(
                    model, turn, JOIN_TOKENS, str.strip, Retry(retries=0)
                ).text.strip()

            if model.count(text) >= JOIN_TOKENS:
                text = tools.keep(f"description of {name}", joined)
            if len(names) == 1:
                label = Counter(labels).most_common(1)[0][0]
            return [list(names), text, label, sum(weights), list(dict.fromkeys(chunks))]

        items = tools.map(item, list(said))
        keys = [
            f"{label}{''.join(names)}{text}" if names[1:] else names[0] + text
            for names, text, label, *_ in items
        ]
        unlisted = {
            n: [[n], i[1], "UNKNOWN", 0.0, i[4]]
            for i in reversed(items)
            for n in i[0]
            if (n,) not in said
        }
        items += unlisted.values()  # named by relations alone: shown beside these, but not found
        return {
            "chunks": [list(s) for s in spans],
            "items": items,
            "vectors": tools.encoder().encode(keys, "passage"),
        }

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Find entities and relations by the question's keywords, read them with their chunks."""
        (document,), (index,) = documents, indexes
        model = tools.model()
        config = self.config
        search = _Search(index, document, config, tools)
        with tools.phase("search"):
            pieces = KEYWORDS.of(config).fill(question=[reading.question_text(question)])
            response = ask_parsed(
                tools.model("searcher"), pieces, 512, keywords_in, Retry(retries=0)
            )
            found = [
                search.find(level, (response.found or {}).get(level, []))
                for level in LEVELS[config.mode]
            ]
        step = Step(
            "keywords", tokens=response.tokens, flops=tools.meter.flops(), note=response.text
        )
        nodes, edges, chunks = (
            list(dict.fromkeys(chain(*parts))) for parts in zip(*found, strict=True)
        )
        # As in the released code: by both levels the model is asked also where nothing is found.
        if response.found is None or not (nodes or config.mode == "hybrid"):
            return Answer(REFUSAL, (), "nothing found", (step,))
        request = reading.Reading(tools.task, config=config)
        room = reading.room_for_text(question, tools, model, request)
        texts = [search.chunks[i] for i in chunks]
        if reading.how_many_fit([search.written(nodes, edges), *texts], room, model) <= len(texts):
            nodes, edges = (search.first(part, search.rows, room // 3) for part in (nodes, edges))
        graph = search.written(nodes, edges)
        text, count = reading.ask_fitting(question, [graph, *texts], tools, request)
        spans = [(int(a), int(b)) for a, b in index["chunks"]]
        chunks, flops = chunks[: max(0, count - 1)], tools.meter.flops()
        shown = shown_spans(document, [spans[i] for i in chunks])
        read = [
            Step("read", i, tokens=model.count(search.chunks[i]), flops=flops, shown=place)
            for i, place in zip(chunks, shown, strict=True)
        ]
        sources = sorted(
            {(document.id, *spans[chunk]) for i in [*nodes, *edges] for chunk in search.items[i][4]}
        )
        written = Shown("generated", document.id, text=graph, sources=tuple(sources))
        reason = (
            f"{len(nodes)} entities, {len(edges)} relations, {len(chunks)} of {len(texts)} chunks"
        )
        return Answer(text, (written, *shown) if count else (), reason, (step, *read))


class _Search:
    """What the keywords of a level find: numbers of entities, relations and chunks."""

    def __init__(
        self, index: Index, document: Document, config: LightRAG.Config, tools: Tools
    ) -> None:
        self.items, self.vectors = index["items"], index["vectors"]
        self.config, self.tools = config, tools
        self.texts = [i[1] for i in self.items]
        self.chunks = [document.text[a:b].strip() for a, b in index["chunks"]]
        number = {names[0]: i for i, (names, *_) in enumerate(self.items) if not names[1:]}
        self.joined: list[list[int]] = [
            [] for _ in self.items
        ]  # an entity's relations, a relation's two entities
        for i, (names, *_) in enumerate(self.items):
            for entity in [number[name] for name in names if names[1:]]:
                self.joined[i].append(entity)
                self.joined[entity].append(i)
        # How many relations an entity has, or both entities of a relation together.
        self.rank = [
            sum(len(self.joined[number[name]]) for name in names) for names, *_ in self.items
        ]
        fields = [
            (*names, text, label, *([f"{w:g}"] if names[1:] else []))
            for names, text, label, w, _ in self.items
        ]
        self.rows = [
            " | ".join([*row, str(rank)]) for row, rank in zip(fields, self.rank, strict=True)
        ]

    def find(self, level: str, words: Sequence[str]) -> tuple[list[int], list[int], list[int]]:
        """The nearest relations with their entities and chunks, or by "low" the nearest entities
        with theirs.

        Near are the `k` most similar ones of a cosine of `least` or more. Relations are in the
        order of rank, then weight; of an entity's chunks those come first that more of its
        neighbours share.
        """
        low, tools, nearest = level == "low", self.tools, list[int]()
        those = [
            i
            for i, item in enumerate(self.items[: len(self.vectors)])
            if (len(item[0]) == 1) == low
        ]
        if words and those:
            vectors = np.asarray(self.vectors)[those]
            (query,) = tools.encoder().encode([", ".join(words)], "query")
            scores = vectors @ query / (np.linalg.norm(vectors, axis=1) * np.linalg.norm(query))
            nearest = [
                those[i]
                for i in best_first(scores)[: self.config.k]
                if scores[i] >= self.config.least
            ]
        edges = [i for node in nearest for i in self.joined[node]] if low else nearest
        edges = self.first(
            sorted(edges, key=lambda i: (-self.rank[i], -self.items[i][3])), self.texts
        )
        nodes = (
            nearest
            if low
            else self.first([node for i in edges for node in self.joined[i]], self.texts)
        )
        chunks: list[int] = []
        for i in nearest if low else edges:
            neighbours = [
                self.items[other][4]
                for edge in self.joined[i]
                for other in self.joined[edge]
                if other != i
            ]
            chunks += sorted(
                self.items[i][4],
                key=lambda place: -sum(place in other for other in neighbours) if low else 0,
            )
        return nodes, edges, self.first(chunks, self.chunks)

    def first(
        self, numbers: Iterable[int], texts: Sequence[str], budget: int | None = None
    ) -> list[int]:
        """The first of `numbers`, each once, whose texts stay within a budget of tokens, by default
        that of a list."""
        numbers = list(dict.fromkeys(numbers))
        limit = self.config.budget if budget is None else budget
        return numbers[
            : reading.how_many_fit([texts[i] for i in numbers], limit, self.tools.model(), "")
        ]

    def written(self, nodes: Iterable[int], edges: Iterable[int]) -> str:
        """These entities and relations as the prompt shows them."""
        entities, relations = ("\n".join(self.rows[i] for i in items) for items in (nodes, edges))
        return "".join(GRAPH.of(self.config).fill(entities=entities, relations=relations))


def records_in(reply: str) -> list[list[Any]] | None:
    """[names, description, type or keywords, weight] of each entity and relation in a reply; names
    in capitals.

    The weight of an entity is 0, that of a relation without one 1, as in the released code. [] for
    an empty list, None for a reply without any.
    """
    records, values = [], values_in(reply)
    for value in [v for v in values if isinstance(v, list) and v and None not in v]:
        kind, *parts = [str(part).strip() for part in value]
        names = [name.upper() for name in parts[: 1 if kind == "entity" else 2]]
        if kind == "entity" and len(parts) >= 3 and all(names):
            records.append([names, parts[2], parts[1].upper(), 0.0])
        elif kind == "relation" and len(parts) >= 4 and all(names):
            records.append(
                [
                    names,
                    parts[2],
                    parts[3],
                    float(value[-1]) if isinstance(value[-1], int | float) else 1.0,
                ]
            )
    return records if records or [] in values else None


def keywords_in(reply: str) -> dict[str, list[str]] | None:
    """The keywords "high" and "low" of a reply, None where it has neither."""
    for value in values_in(reply):
        if isinstance(value, dict) and {"high", "low"} & {*value}:
            return {
                level: [*strings_in(words)]
                for level, words in value.items()
                if isinstance(words, list)
            }
    return None
