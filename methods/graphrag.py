"""GraphRAG (Edge et al. 2024, arXiv 2404.16130; code microsoft/graphrag): reports on the communities
of a graph of described entities and relations.

    index     LightRAG's graph (its extraction is GraphRAG's) ──► communities, and communities in them
              ──► a report on each: title, summary, findings, importance
    local     question ──► the most similar entities ──► reports on their communities, their
              relations, their chunks ──► answer
    global    every batch of reports ──► points with a score for the question ──► the best points ──► answer

Source: docs/methods/retrieval.md#graphrag.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from harness.method import Index, Indexes, Tools, Traits
from harness.method.settings import index_setting, setting
from harness.prompts import Pieces, Prompt, prompt_tokens
from harness.types import Answer, Document, Question, Shown, Step
from methods import reading
from methods.chunks import Span, shown_spans, texts_at
from methods.communities import Community, communities, deepest
from methods.extraction import keep_each
from methods.lightrag import EXTRACT, JOIN, MORE, DescribedGraphConfig, Item, LightRAG
from methods.retrieval import best_first, similarity_to
from methods.retry import Retry, ask_parsed, fit_lines
from methods.self_route import REFUSAL
from methods.values import values_in

REPORT = Prompt(
    "report on a community",
    "Write a report on a group of entities and how they are related.\n\nEntities and "
    "relations:\n{lines}\n\nThe list ends here. Reply with JSON alone: a title that names its main "
    "entities, a summary, how important the group is (0 to 10), and five to ten findings, each a "
    'paragraph that the list supports:\n{"title": "...", "summary": "...", "rating": 5, "findings": '
    '["...", "..."]}',
)
MAP = Prompt(
    "points of reports",
    "Below are reports on groups of entities. List the points in them that help to answer a "
    "question, each with a score for how much it helps (0: not at all, 100: it answers the "
    "question). Add nothing that the reports do not say.\n\nReports:\n{reports}\n\nThe reports end "
    "here.\n\nQuestion: {question}\n\nReply with JSON alone, with an empty list where nothing "
    'helps:\n{"points": [{"description": "...", "score": 50}]}',
)
CONTEXT = Prompt(
    "reports and relations",
    "Reports:\n{reports}\n\nEntities:\n{entities}\n\nRelations:\n{relations}\n\nSources:",
    first=False,
)
SHUFFLE = 86  # the seed by which the released code mixes reports
JOINT = "\n\n"


@dataclass(frozen=True)
class Report:
    """A report on a community.

    Attributes:
        community: What it is about.
        title: Its first line.
        text: Summary and findings.
        rating: How important the model finds it, 0 to 10.
    """

    community: Community
    title: str
    text: str
    rating: float

    @property
    def whole_text(self) -> str:
        """The report as prompts show it."""
        return f"# {self.title}\n{self.text}"

    def to_row(self) -> list[object]:
        """The report as an index stores it: [level, [node, ...], title, text, rating]."""
        community = self.community
        return [community.level, list(community.nodes), self.title, self.text, self.rating]

    @classmethod
    def from_row(cls, row: tuple[int, list[int], str, str, float]) -> Report:
        """The report of a row that `to_row` made: (level, nodes, title, text, rating)."""
        level, nodes, title, text, rating = row
        return cls(Community(level, tuple(nodes)), title, text, rating)


@dataclass(frozen=True)
class Point:
    """What a batch of reports says that helps, and how much, 1 to 100."""

    text: str
    score: int
    batch: int

    @property
    def scored_text(self) -> str:
        """The point as the prompt shows it: "(importance 80) Toren was born in Kelford."."""
        return f"(importance {self.score}) {self.text}"


class WrittenReport(NamedTuple):
    """A report as a model wrote it.

    Attributes:
        title: Its title.
        text: Its summary and findings, a line each.
        rating: How important it is, as the model says; 0 where it says nothing.
    """

    title: str
    text: str
    rating: float


class WrittenPoint(NamedTuple):
    """A point as a model wrote it.

    Attributes:
        text: What it says.
        score: How much it helps, as the model says; 0 where it says nothing.
    """

    text: str
    score: int


def report_in(reply: str) -> WrittenReport | None:
    r"""The report in a reply; None where it has no title or no text.

    '{"title": "Brem", "summary": "A town.", "rating": 5, "findings": ["It is old."]}'
        -> WrittenReport("Brem", "A town.\nIt is old.", 5.0)
    """
    for value in values_in(reply):
        if not isinstance(value, dict):
            continue
        title = str(value.get("title") or "").strip()
        findings = value.get("findings")
        parts = [value.get("summary")]
        if isinstance(findings, list):
            parts += map(_finding, findings)
        text = "\n".join(str(part).strip() for part in parts if part)
        if title and text:
            return WrittenReport(title, text, _number(value.get("rating")))
    return None


def _finding(finding: object) -> str:
    """The text of a finding; of an object with a summary and an explanation, "summary:
    explanation"."""
    if isinstance(finding, dict):
        return ": ".join(map(str, finding.values()))
    return str(finding)


def _number(value: object) -> float:
    """A value of a reply as a number, also from text: "7" -> 7.0; 0 for anything else."""
    if not isinstance(value, str | int | float):
        return 0.0
    try:
        return float(value)
    except ValueError:
        return 0.0


def points_in(reply: str) -> list[WrittenPoint] | None:
    """The points of a reply, those without a text left out; None where it has no list of points.

    '{"points": [{"description": "Toren wrote it.", "score": 80}]}'
        -> [WrittenPoint("Toren wrote it.", 80)]
    """
    for value in values_in(reply):
        if not isinstance(value, dict) or not isinstance(value.get("points"), list):
            continue
        points: list[WrittenPoint] = []
        for point in filter(_is_described, value["points"]):
            score = int(_number(point.get("score")))
            points.append(WrittenPoint(str(point["description"]), score))
        return points
    return None


def _is_described(point: object) -> bool:
    """Whether a value of a reply's list of points is an object with a "description"."""
    return isinstance(point, dict) and bool(point.get("description"))


class GraphRAG(LightRAG):
    """Reports on communities of entities, read as a whole or around the question's entities."""

    class Config(DescribedGraphConfig):
        """Settings of this method."""

        community_size: int = index_setting(
            10, gt=1, help="Entities of a community; a larger one has communities in it."
        )
        largest_component: bool = index_setting(
            True, help="Whether entities outside the graph's largest component have no community."
        )
        report_tokens: int = index_setting(2000, gt=0, help="Most tokens of a report.")
        report_input: int = index_setting(
            8000, gt=0, help="Most tokens of the list that a report is about."
        )
        # Search
        mode: Literal["local", "global"] = setting(
            "local", help='"local": around the most similar entities; "global": all reports.'
        )
        level: int = setting(2, ge=0, help="Finest level of communities that count.")
        k: int = setting(20, gt=0, help="local: entities found.")
        relations_each: int = setting(
            10, gt=0, help="local: relations to entities that were not found, for each found one."
        )
        budget: int = setting(12_000, gt=0, help="Tokens of a request's reports, lists and chunks.")
        chunk_share: float = setting(0.5, ge=0, le=1, help="local: share of chunks.")
        report_share: float = setting(0.15, ge=0, le=1, help="local: share of reports.")
        point_tokens: int = setting(1000, gt=0, help="global: most tokens of a batch's points.")

    summary = "reports on communities of described entities and relations (GraphRAG)"
    traits = Traits(draws=False)
    own_prompts: ClassVar[Sequence[Prompt]] = (EXTRACT, MORE, JOIN, REPORT, MAP, CONTEXT)

    def index(self, document: Document, tools: Tools) -> Index:
        """LightRAG's index, and "reports": a row of each community that has one
        (`Report.to_row`)."""
        index = super().index(document, tools)
        graph = DescribedGraph.from_index(index)
        config = self.config
        found = communities(graph.edges(), config.community_size, config.largest_component)
        reports = keep_each(
            lambda number: self._report(found[number], graph, tools), len(found), "report", tools
        )
        return {**index, "reports": list(filter(None, reports))}

    def _report(
        self, community: Community, graph: DescribedGraph, tools: Tools
    ) -> list[object] | None:
        """Write the report on a community from as many lines about it as fit.

        Args:
            community: The numbers of its entities.
            graph: The graph, with descriptions of these and of the relations between them.
            tools: The engine's tools.

        Returns:
            The report as the index stores it (`Report.to_row`); None where the model writes none.
        """
        config = self.config
        model = tools.model("builder")
        lines = graph.lines(community)
        prompt = REPORT.with_replacements(config)
        most = min(config.report_tokens, model.window // 3)
        frame = prompt_tokens(prompt.fill(lines=[""]), model)
        room = min(config.report_input + frame, model.window - most)
        pieces, _ = fit_lines(
            lambda count: prompt.fill(lines=["\n".join(lines[:count])]), len(lines), room, model
        )
        response = ask_parsed(model, pieces, most, report_in, Retry(retries=0))
        if response.found is None:
            return None
        written = response.found
        return Report(community, written.title, written.text, written.rating).to_row()

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Answer from all reports (mode "global"), or from what is near the question's entities
        ("local")."""
        (document,) = documents
        (index,) = indexes
        graph = DescribedGraph.from_index(index)
        spans = [(int(start), int(end)) for start, end in index["chunks"]]
        reports = finest(list(map(Report.from_row, index["reports"])), self.config.level)
        search = _Search(document, spans, graph, reports, self.config, tools)
        if self.config.mode == "global":
            return search.answer_globally(question)
        return search.answer_locally(question, index["vectors"])


def _most_matches_first(match: tuple[int, Report]) -> tuple[int, float]:
    """A sort key for (how many entities match, report): many matches first, then a high rating."""
    matches, report = match
    return -matches, -report.rating


def _texts(reports: Sequence[Report]) -> list[str]:
    """The whole text of each report, title included."""
    return [report.whole_text for report in reports]


def finest(reports: Sequence[Report], level: int) -> list[Report]:
    """The reports on the finest communities of `level` or coarser that have one, each once.

    Args:
        reports: All reports.
        level: The finest level that counts; 0 is the coarsest.
    """
    numbers = deepest([report.community for report in reports], level)
    return [reports[number] for number in sorted(set(numbers.values()))]


class DescribedGraph:
    """Entities and relations: what stands in prompts of them, and who is related to whom."""

    def __init__(self, items: Sequence[Item]) -> None:
        """Keep the items, with the numbers of those that are relations, and of entities by name.

        Args:
            items: Entities and relations; an item's number is its place here.
        """
        self.items = items
        self.numbers: dict[str, int] = {}  # name -> the number of the entity
        self.relations: list[int] = []
        for number, item in enumerate(items):
            if item.is_relation:
                self.relations.append(number)
            else:
                self.numbers[item.names[0]] = number

    @classmethod
    def from_index(cls, index: Index) -> DescribedGraph:
        """The graph of the entities and relations in an index of LightRAG."""
        return cls(list(map(Item.from_row, index["items"])))

    @property
    def entities(self) -> list[int]:
        """The numbers of all entities, which are their places among the items."""
        return list(self.numbers.values())

    @cached_property
    def degrees(self) -> Counter[int]:
        """Entity -> how many relations it has."""
        counted: Counter[int] = Counter()
        for relation in self.relations:
            counted.update(self.ends(relation))
        return counted

    def ends(self, relation: int) -> list[int]:
        """The numbers of the two entities of a relation, given the relation's number."""
        return [self.numbers[name] for name in self.items[relation].names]

    def rank(self, relation: int) -> int:
        """How many relations both entities of a relation have together, the larger the more
        central."""
        return sum(self.degrees[end] for end in self.ends(relation))

    def row(self, number: int) -> str:
        """The entity or the relation of this number as a line of a prompt: "TOREN | A writer. |
        PERSON | 3".

        Its last field is the entity's number of relations, or both entities' of a relation.
        """
        item = self.items[number]
        rank = self.degrees[number]
        if item.is_relation:
            rank = self.rank(number)
        return item.shown_row(rank)

    def edges(self) -> Iterator[tuple[int, int, float]]:
        """(number of an entity, of another one, weight) of each relation of two entities."""
        for relation in self.relations:
            first, second = self.ends(relation)
            if first != second:
                yield first, second, self.items[relation].weight

    def lines(self, community: Community) -> list[str]:
        """The lines of a prompt about a community: each of its relations after its two entities,
        those of well-connected entities first; then its other entities. Nothing stands twice."""
        inside = set(community.nodes)
        relations = [n for n in self.relations if inside.issuperset(self.ends(n))]
        relations.sort(key=self.rank, reverse=True)
        numbers: dict[int, None] = {}
        for relation in relations:
            numbers.update(dict.fromkeys([*self.ends(relation), relation]))
        numbers.update(dict.fromkeys(community.nodes))
        return [self.row(number) for number in numbers]


@dataclass(frozen=True)
class _Search:
    """A question's search in one document."""

    document: Document
    spans: Sequence[Span]
    graph: DescribedGraph
    reports: Sequence[Report]
    config: GraphRAG.Config
    tools: Tools

    def answer_globally(self, question: Question) -> Answer:
        """Collect points from all batches of reports, and answer from the best that fit.

        Where no report has a point, the answer is REFUSAL.
        """
        tools = self.tools
        with tools.phase("search"):
            batches = self._batches(question)
            found = tools.map(
                lambda number: self._points(question, batches[number], number), range(len(batches))
            )
        points: list[Point] = []
        steps: list[Step] = []
        for of_batch, step in found:
            points += of_batch
            steps.append(step)
        points.sort(key=lambda point: -point.score)
        if not points:
            return Answer(REFUSAL, (), "no report helps", tuple(steps))
        scored = [point.scored_text for point in points]
        texts = scored[: reading.how_many_fit(scored, self.config.budget, tools.model())]
        request = reading.Reading(tools.task, config=self.config)
        text, count = reading.ask_fitting(question, texts, tools, request)
        used = {point.batch for point in points[:count]}
        reports: list[Report] = []
        for number in sorted(used):
            reports += batches[number]
        shown = self._shown(JOINT.join(texts[:count]), reports)
        reason = f"{count} of {len(points)} points of {len(batches)} batches"
        return Answer(text, (shown,), reason, tuple(steps))

    def _batches(self, question: Question) -> list[list[Report]]:
        """All reports, mixed by a fixed seed, in batches of as many as one request holds.

        A request holds the budget of tokens, or what the window leaves beside the question and the
        reply.
        """
        model = self.tools.model("searcher")
        bare = prompt_tokens(self._map_request(question, []), model) + self.config.point_tokens
        room = min(self.config.budget, model.window - bare)
        mixed = list(self.reports)
        random.Random(SHUFFLE).shuffle(mixed)
        batches: list[list[Report]] = []
        used = room  # as of a full batch, so that the first report begins one
        for report in mixed:
            tokens = model.count(report.whole_text + JOINT)
            if used + tokens > room:
                batches.append([])
                used = 0
            batches[-1].append(report)
            used += tokens
        return batches

    def _map_request(self, question: Question, reports: Sequence[Report]) -> Pieces:
        """The request for the points that some reports make on a question."""
        texts: list[str] = []
        for report in reports:
            texts += [report.whole_text, JOINT]
        return MAP.with_replacements(self.config).fill(
            reports=texts, question=[reading.question_text(question)]
        )

    def _points(
        self, question: Question, batch: Sequence[Report], number: int
    ) -> tuple[list[Point], Step]:
        """Ask for the points that a batch of reports makes on the question.

        Args:
            question: The question.
            batch: Reports that fit one request.
            number: The number of the batch.

        Returns:
            The points that the model scores above 0, and the step "points" of the request.
        """
        response = ask_parsed(
            self.tools.model("searcher"),
            self._map_request(question, batch),
            self.config.point_tokens,
            points_in,
            Retry(retries=0),
        )
        points: list[Point] = []
        for text, score in response.found or ():
            if score > 0:
                points.append(Point(text, score, number))
        shown = self._shown(JOINT.join(_texts(batch)), batch)
        step = Step("points", number, tokens=response.tokens, note=response.text, shown=shown)
        return points, step

    def answer_locally(self, question: Question, vectors: np.ndarray) -> Answer:
        """Answer from the reports, relations and chunks around the entities most similar to the
        question.

        Args:
            question: The question.
            vectors: The vectors of the entities and relations [items, width].
        """
        tools = self.tools
        config = self.config
        with tools.phase("search"):
            found = self._nearest(question, vectors)
        step = Step("entities", flops=tools.meter.flops(), note=self._names(found))
        budget = config.budget
        rest = 1 - config.chunk_share - config.report_share
        reports = self._reports_of(found, int(budget * config.report_share))
        entities, relations = self._rows_of(found, int(budget * rest))
        chunks = self._chunks_of(found, int(budget * config.chunk_share))
        context = self._context(reports, entities, relations)
        request = reading.Reading(tools.task, config=config)
        texts = list(map(str.strip, texts_at(self.document.text, self._spans_of(chunks))))
        text, count = reading.ask_fitting(question, [context, *texts], tools, request)
        read = chunks[: max(0, count - 1)]  # the first text that is shown is the context
        places = shown_spans(self.document, self._spans_of(read))
        steps = [step]
        for chunk, place in zip(read, places, strict=True):
            steps.append(Step("read", chunk, flops=tools.meter.flops(), shown=place))
        shown: tuple[Shown, ...] = ()
        if count:
            shown = (self._shown(context, reports, [*entities, *relations]), *places)
        reason = (
            f"{len(entities)} entities, {len(relations)} relations, {len(reports)} reports, "
            f"{len(read)} of {len(chunks)} chunks"
        )
        return Answer(text, shown, reason, tuple(steps))

    def _context(
        self, reports: Sequence[Report], entities: Sequence[int], relations: Sequence[int]
    ) -> str:
        """The part of the prompt before the chunks: reports, and lines of entities and relations.

        Args:
            reports: The reports.
            entities: The numbers of the entities.
            relations: The numbers of the relations.
        """
        pieces = CONTEXT.with_replacements(self.config).fill(
            reports=JOINT.join(_texts(reports)),
            entities="\n".join(map(self.graph.row, entities)),
            relations="\n".join(map(self.graph.row, relations)),
        )
        return "".join(pieces)

    def _names(self, entities: Sequence[int]) -> str:
        """The names of entities, given by their numbers, with commas between them."""
        return ", ".join(self.graph.items[entity].names[0] for entity in entities)

    def _spans_of(self, chunks: Sequence[int]) -> list[Span]:
        """The spans of chunks, given by their numbers."""
        return [self.spans[chunk] for chunk in chunks]

    def _nearest(self, question: Question, vectors: np.ndarray) -> list[int]:
        """The numbers of the `k` entities most similar to the question, the best first.

        Args:
            question: The question.
            vectors: Row i is the vector of entity or relation i, [items, width]. Entities with
                higher numbers have none: only relations name them.
        """
        candidates = np.array(self.graph.entities, dtype=int)
        candidates = candidates[candidates < len(vectors)]
        if not len(candidates):
            return []
        scores = similarity_to(question.text, np.asarray(vectors)[candidates], self.tools)
        best: list[int] = candidates[best_first(scores)][: self.config.k].tolist()
        return best

    def _reports_of(self, entities: Sequence[int], budget: int) -> list[Report]:
        """The reports on communities of some entities that fit a budget of tokens.

        Those on communities with the most of these entities come first, of these the best rated.
        """
        inside = set(entities)
        matching: list[tuple[int, Report]] = []
        for report in self.reports:
            matches = len(inside.intersection(report.community.nodes))
            if matches:
                matching.append((matches, report))
        matching.sort(key=_most_matches_first)
        reports = [report for _, report in matching]
        count = reading.how_many_fit(_texts(reports), budget, self.tools.model())
        return reports[:count]

    def _rows_of(self, entities: Sequence[int], budget: int) -> tuple[list[int], list[int]]:
        """The numbers of entities and of their relations, as many of each as a budget of tokens
        holds.

        Relations between these entities come first, then those to others; in both groups those of
        well-connected entities come first.
        """
        model = self.tools.model()
        rows = list(map(self.graph.row, entities))
        n_shown = reading.how_many_fit(rows, budget, model, "\n")
        shown = list(entities[:n_shown])
        used = model.count("\n".join(rows[:n_shown]))
        inside = set(shown)
        between: list[int] = []
        outward: list[int] = []
        for relation in self.graph.relations:
            ends = inside.intersection(self.graph.ends(relation))
            if len(ends) == len(set(self.graph.ends(relation))):
                between.append(relation)
            elif ends:
                outward.append(relation)
        between.sort(key=self.graph.rank, reverse=True)
        outward.sort(key=self.graph.rank, reverse=True)
        ordered = between + outward[: self.config.relations_each * n_shown]
        texts = list(map(self.graph.row, ordered))
        n_relations = reading.how_many_fit(texts, budget - used, model, "\n")
        return shown, ordered[:n_relations]

    def _chunks_of(self, entities: Sequence[int], budget: int) -> list[int]:
        """The numbers of the chunks that name some entities, as many as a budget of tokens holds.

        They stand in the order of the entities; of one entity, those in which more of its relations
        are come first.
        """
        chunks: dict[int, None] = {}
        for entity in entities:
            counted: Counter[int] = Counter()
            for relation in self.graph.relations:
                if entity in self.graph.ends(relation):
                    counted.update(self.graph.items[relation].chunks)
            own = sorted(self.graph.items[entity].chunks, key=lambda chunk: -counted[chunk])
            chunks.update(dict.fromkeys(own))
        ordered = list(chunks)
        texts = texts_at(self.document.text, self._spans_of(ordered))
        return ordered[: reading.how_many_fit(texts, budget, self.tools.model())]

    def _shown(self, text: str, reports: Sequence[Report], items: Sequence[int] = ()) -> Shown:
        """A text made of reports and items, in the form in which an Answer says what the reader
        saw.

        Args:
            text: The text.
            reports: The reports in it.
            items: The numbers of entities and relations in it.

        Returns:
            The text, with the chunks that the reports and items come from as its sources.
        """
        numbers = set(items)
        for report in reports:
            numbers.update(report.community.nodes)
        sources: set[tuple[str, int, int]] = set()
        for number in numbers:
            for span in self._spans_of(self.graph.items[number].chunks):
                sources.add((self.document.id, *span))
        return Shown("generated", self.document.id, text=text, sources=tuple(sorted(sources)))
