"""LightRAG (Guo et al. 2024, arXiv 2410.05779): a graph of described entities and relations, searched on two levels.

    index     each chunk ──► (name, type, description), (name, name, description, keywords, strength)
    question  ──► "Velindra" (low-level keywords)    ──► similar entities  ──► their relations and chunks
              ──► "authorship" (high-level keywords) ──► similar relations ──► their entities and chunks

Entities, relations and chunks of both levels are read. Source: docs/methods/retrieval.md#lightrag.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from harness.method import Index, Indexes, MethodConfig, Needs, Tools
from harness.models import MeteredModel
from harness.prompts import Prompt, feed, prompt_tokens
from harness.types import Answer, Document, Question, Shown, Step
from methods import reading
from methods.chunks import shown_spans
from methods.retrieval import best_first
from methods.retry import Retry, ask_parsed, fit_lines, require_room
from methods.self_route import REFUSAL
from methods.values import strings_in, values_in

EXTRACT = Prompt(
    "extract",
    "List the entities of the text below, of the types organization, person, geo and event, and the pairs of them that "
    "are clearly related, with a number for how strongly.\n\nText:\n{text}\n\nThe text ends here. Reply with a JSON "
    'list alone, in this form:\n[["entity", "name", "type", "what it is and does"],\n'
    '["relation", "name", "other name", "how they are related", "keywords of the relation", 5]]',
)
MORE = Prompt("extract the rest", "Many are missing. Reply with the missing ones alone, in the same form.", first=False)
JOIN = Prompt(
    "join descriptions",
    "Join these descriptions of {name} into one, in the third person, that has all they say and settles what they "
    "contradict each other in.\n\n{texts}\n\nThe descriptions end here. Joined description:",
)
KEYWORDS = Prompt(
    "keywords",
    "List the keywords of a question: high-level ones, its concepts and themes, and low-level ones, its entities and "
    'details.\n\nQuestion: {question}\n\nReply with JSON alone: {"high": ["keyword"], "low": ["keyword"]}',
)
GRAPH = Prompt(
    "entities and relations",
    "Entities (name | description | type | rank):\n{entities}\n\nRelations (name | name | description | keywords | "
    "weight | rank):\n{relations}\n\nSources:",
    first=False,
)
SEPARATOR = "<SEP>"  # as in the released code, between descriptions of one name
JOIN_TOKENS = 500  # likewise: descriptions of as many are joined by the model, into as many at most


class LightRAG(reading.ReadingMethod):
    """Entities and relations by keywords of two levels, with the chunks that they come from."""

    class Config(MethodConfig):
        """segment_tokens, overlap: of a chunk, and shared with the next; gleanings: times that the model is asked for
        what it left out; reply_tokens: of each list; mode: the keywords that count ("local": low-level, "global":
        high-level); k: entities and relations found; least: their cosine; budget: tokens of each list that is shown.
        """

        segment_tokens: int = Field(default=1200, gt=0)
        overlap: int = Field(default=100, ge=0)
        gleanings: int = Field(default=1, ge=0, le=1)
        reply_tokens: int = Field(default=2048, gt=0)
        mode: Literal["hybrid", "local", "global"] = "hybrid"
        k: int = Field(default=60, gt=0)
        least: float = Field(default=0.2, ge=-1, le=1)
        budget: int = Field(default=4000, gt=0)

        @model_validator(mode="after")
        def _check_overlap(self) -> "LightRAG.Config":
            if self.overlap >= self.segment_tokens:
                raise ValueError("overlap should be smaller than segment_tokens")
            return self

    summary = "a graph of described entities and relations, found by keywords of two levels (LightRAG)"
    draws = False
    needs: ClassVar[Needs] = {"reader": frozenset(), "searcher": frozenset(), "builder": frozenset()}
    encoders = ("encoder",)
    scope = "document"
    index_roles = ("builder", "encoder")
    index_fields = ("segment_tokens", "overlap", "gleanings", "reply_tokens")
    own_prompts = (EXTRACT, MORE, JOIN, KEYWORDS, GRAPH)

    def index(self, document: Document, tools: Tools) -> Index:
        """The index.

        "chunks": as [start, end] in characters; "items": of each entity and relation its names, one or two, its
        description, its type or keywords, its weight and its chunks; "vectors": of the items that can be found.
        """
        model, config, encode = tools.model("builder"), self.config, tools.encoder().encode
        offsets = model.offsets(document.text)
        starts = range(0, len(offsets), config.segment_tokens - config.overlap)
        spans = [(offsets[i][0], offsets[i : i + config.segment_tokens][-1][1]) for i in starts]

        def records(number: int) -> list[list[Any]]:
            text = document.text[slice(*spans[number])].strip()
            found: list[list[Any]] = tools.keep(f"chunk {number}", lambda: self._extract(text, model))
            tools.progress(number + 1, len(spans), "chunks read")
            return found

        said: dict[tuple[str, ...], list[Any]] = defaultdict(list)  # of an entity, or of the two of a relation
        for number, found in enumerate(tools.map(records, range(len(spans)))):
            for names, *fields in found:
                said[tuple(sorted(names))].append([*fields, number])

        def item(names: tuple[str, ...]) -> list[Any]:
            texts, labels, weights, chunks = zip(*said[names], strict=True)
            distinct, name = sorted(set(texts)), " and ".join(names)
            text, label = SEPARATOR.join(distinct), SEPARATOR.join(sorted(set(labels)))
            if model.count(text) >= JOIN_TOKENS:
                text = tools.keep(f"description of {name}", lambda: self._join(name, distinct, model))
            if len(names) == 1:
                label = Counter(labels).most_common(1)[0][0]
            return [list(names), text, label, sum(weights), list(dict.fromkeys(chunks))]

        items = tools.map(item, list(said))
        keys = [f"{label}{''.join(names)}{text}" if names[1:] else names[0] + text for names, text, label, *_ in items]
        unlisted = {n: [[n], i[1], "UNKNOWN", 0.0, i[4]] for i in reversed(items) for n in i[0] if (n,) not in said}
        items += unlisted.values()  # named by relations alone: shown beside these, but not found
        return {"chunks": [list(span) for span in spans], "items": items, "vectors": encode(keys, "passage")}

    def _extract(self, text: str, model: MeteredModel) -> list[list[Any]]:
        """The records of a chunk, those of later turns included. Raises WindowExceeded without room for replies."""
        turns = [EXTRACT.of(self.config).fill(text=[text]), *[MORE.of(self.config).fill()] * self.config.gleanings]
        used = sum(prompt_tokens(turn, model) for turn in turns)
        require_room(used + len(turns), model, None)
        found: list[list[Any]] = []
        with model.session() as s:
            for turn in turns:
                feed(s, turn)
                written = s.write(min(self.config.reply_tokens, (model.window - used) // len(turns)))
                records = records_in(written.text)
                if records is None:
                    s.unread(written)
                found += records or []
        return found

    def _join(self, name: str, texts: Sequence[str], model: MeteredModel) -> str:
        """One description of `name`, which the model writes from as many of the `texts` as fit."""
        prompt, room = JOIN.of(self.config), model.window - JOIN_TOKENS
        pieces, _ = fit_lines(lambda n: prompt.fill(name=name, texts="\n".join(texts[:n])), len(texts), room, model)
        return ask_parsed(model, pieces, JOIN_TOKENS, str.strip, Retry(retries=0)).text.strip()

    def answer(self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools) -> Answer:
        """Find entities and relations by the question's keywords, read them with their chunks."""
        (document,), (index,) = documents, indexes
        model, mode = tools.model(), self.config.mode
        with tools.phase("search"):
            pieces = KEYWORDS.of(self.config).fill(question=[reading.question_text(question)])
            response = ask_parsed(tools.model("searcher"), pieces, 512, keywords_in, Retry(retries=0))
            words, search = response.found or {"high": [], "low": []}, _Search(index, document, self.config, tools)
            levels = [search.high(words["high"])] if mode != "local" else []
            levels += [search.low(words["low"])] if mode != "global" else []
        step = Step("keywords", tokens=response.tokens, flops=tools.meter.flops(), note=response.text)
        nodes, edges, chunks = (list(dict.fromkeys(chain(*parts))) for parts in zip(*levels, strict=True))
        # As in the released code: by both levels the model is asked also where nothing is found.
        if response.found is None or not (nodes or mode == "hybrid"):
            return Answer(REFUSAL, (), "nothing found", (step,))
        request = reading.Reading(tools.task, config=self.config)
        room = reading.room_for_text(question, tools, model, request)
        texts = [search.chunks[i] for i in chunks]
        graph = search.written(nodes, edges)
        if reading.how_many_fit([graph, *texts], room, model) <= len(texts):
            nodes, edges = search.first(nodes, search.row, room // 3), search.first(edges, search.row, room // 3)
            graph = search.written(nodes, edges)
        text, count = reading.ask_fitting(question, [graph, *texts], tools, request)
        spans = [(int(a), int(b)) for a, b in index["chunks"]]
        chunks, flops = chunks[: max(0, count - 1)], tools.meter.flops()
        shown = shown_spans(document, [spans[i] for i in chunks])
        read = [
            Step("read", i, tokens=model.count(search.chunks[i]), flops=flops, shown=place)
            for i, place in zip(chunks, shown, strict=True)
        ]
        sources = sorted({(document.id, *spans[chunk]) for i in [*nodes, *edges] for chunk in search.items[i][4]})
        written = Shown("generated", document.id, text=graph, sources=tuple(sources))
        reason = f"{len(nodes)} entities, {len(edges)} relations, {len(chunks)} of {len(texts)} chunks"
        return Answer(text, (written, *shown) if count else (), reason, (step, *read))


class _Search:
    """What the keywords of a level find: numbers of entities, relations and chunks."""

    def __init__(self, index: Index, document: Document, config: LightRAG.Config, tools: Tools) -> None:
        self.items, self.vectors, self.config, self.tools = index["items"], index["vectors"], config, tools
        self.chunks = [document.text[a:b].strip() for a, b in index["chunks"]]
        self.pairs = [i for i, item in enumerate(self.items) if len(item[0]) == 2]
        self.node = {item[0][0]: i for i, item in enumerate(self.items) if len(item[0]) == 1}
        self.degree = Counter(name for i in self.pairs for name in self.items[i][0])

    def low(self, words: Sequence[str]) -> tuple[list[int], list[int], list[int]]:
        """The nearest entities, their relations, and their chunks: those first that more of their neighbours share."""
        nodes = self._nearest(words, 1)
        edges: list[int] = []
        chunks: list[int] = []
        for (name,), *_, places in (self.items[node] for node in nodes):
            own = [i for i in self.pairs if name in self.items[i][0]]
            ends = [self.items[i][0] for i in own]
            others = [self.items[self.node[b if a == name else a]][4] for a, b in ends]
            edges += own
            chunks += sorted(places, key=lambda place: -sum(place in other for other in others))
        return nodes, self._heaviest(dict.fromkeys(edges)), self.first(dict.fromkeys(chunks), self.chunks.__getitem__)

    def high(self, words: Sequence[str]) -> tuple[list[int], list[int], list[int]]:
        """The nearest relations, the entities that they join, and their chunks."""
        edges = self._heaviest(self._nearest(words, 2))
        nodes = dict.fromkeys(self.node[name] for i in edges for name in self.items[i][0])
        chunks = dict.fromkeys(chunk for i in edges for chunk in self.items[i][4])
        return self.first(nodes, self._text), edges, self.first(chunks, self.chunks.__getitem__)

    def _nearest(self, words: Sequence[str], names: int) -> list[int]:
        """The `k` most similar items of so many names, of a cosine of `least` or more; none without words."""
        places = [i for i, item in enumerate(self.items[: len(self.vectors)]) if len(item[0]) == names]
        if not words or not places:
            return []
        (query,), vectors = self.tools.encoder().encode([", ".join(words)], "query"), np.asarray(self.vectors)[places]
        scores = vectors @ query / (np.linalg.norm(vectors, axis=1) * np.linalg.norm(query))
        return [places[i] for i in best_first(scores)[: self.config.k] if scores[i] >= self.config.least]

    def _heaviest(self, edges: Iterable[int]) -> list[int]:
        """The relations by rank, then weight, within the budget."""
        return self.first(sorted(edges, key=lambda i: (-self._rank(i), -self.items[i][3])), self._text)

    def first(self, numbers: Iterable[int], text: Callable[[int], str], budget: int | None = None) -> list[int]:
        """The first of `numbers` whose texts stay within a budget of tokens, by default that of a list."""
        numbers, limit = list(numbers), self.config.budget if budget is None else budget
        ends = accumulate(self.tools.model().count(text(number)) for number in numbers)
        return [number for number, end in zip(numbers, ends, strict=True) if end <= limit]

    def _text(self, item: int) -> str:
        return str(self.items[item][1])

    def _rank(self, item: int) -> int:
        """How many relations the entity has, or both entities of the relation together."""
        return sum(self.degree[name] for name in self.items[item][0])

    def written(self, nodes: Iterable[int], edges: Iterable[int]) -> str:
        """These entities and relations as the prompt shows them."""
        entities, relations = ("\n".join(map(self.row, items)) for items in (nodes, edges))
        return "".join(GRAPH.of(self.config).fill(entities=entities, relations=relations))

    def row(self, item: int) -> str:
        """The line of an entity or a relation."""
        names, text, label, weight, _ = self.items[item]
        return " | ".join([*names, text, label, *([f"{weight:g}"] if names[1:] else []), str(self._rank(item))])


def records_in(reply: str) -> list[list[Any]] | None:
    """[names, description, type or keywords, weight] of each entity and relation in a reply; names in capitals.

    The weight of an entity is 0, that of a relation without one 1, as in the released code. [] for an empty list, None
    for a reply without any.
    """
    found, values = [], values_in(reply)
    for value in [v for v in values if isinstance(v, list) and v and None not in v]:
        kind, *parts = [str(part).strip() for part in value]
        names = [name.upper() for name in parts[: 1 if kind == "entity" else 2]]
        if kind == "entity" and len(parts) >= 3 and all(names):
            found.append([names, parts[2], parts[1].upper(), 0.0])
        elif kind == "relation" and len(parts) >= 4 and all(names):
            found.append([names, parts[2], parts[3], float(value[-1]) if isinstance(value[-1], int | float) else 1.0])
    return found if found or [] in values else None


def keywords_in(reply: str) -> dict[str, list[str]] | None:
    """The keywords "high" and "low" of a reply, None where it has neither."""
    for value in values_in(reply):
        if isinstance(value, dict) and {"high", "low"} & {*value}:
            lists = {level: value.get(level) for level in ("high", "low")}
            return {level: list(strings_in(found)) if isinstance(found, list) else [] for level, found in lists.items()}
    return None
