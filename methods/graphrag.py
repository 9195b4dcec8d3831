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
from methods.communities import Community, find_communities, finest_community_of_nodes
from methods.extraction import make_each_and_store
from methods.lightrag import (
    EXTRACT,
    EXTRACT_REST,
    JOIN_DESCRIPTIONS,
    DescribedGraphConfig,
    Item,
    LightRAG,
)
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
SHUFFLE_SEED = 86  # the seed by which the released code mixes reports
BETWEEN_TEXTS = "\n\n"


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
    batch_number: int

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
        paragraphs = [value.get("summary")]
        if isinstance(findings, list):
            paragraphs += map(_finding_text, findings)
        text = "\n".join(str(paragraph).strip() for paragraph in paragraphs if paragraph)
        if title and text:
            return WrittenReport(title=title, text=text, rating=_as_number(value.get("rating")))
    return None


def _finding_text(finding: object) -> str:
    """The text of a finding; of an object with a summary and an explanation, "summary:
    explanation"."""
    if isinstance(finding, dict):
        return ": ".join(map(str, finding.values()))
    return str(finding)


def _as_number(value: object) -> float:
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
        for point in filter(_has_description, value["points"]):
            score = int(_as_number(point.get("score")))
            points.append(WrittenPoint(str(point["description"]), score))
        return points
    return None


def _has_description(point: object) -> bool:
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
    own_prompts: ClassVar[Sequence[Prompt]] = (
        EXTRACT,
        EXTRACT_REST,
        JOIN_DESCRIPTIONS,
        REPORT,
        MAP,
        CONTEXT,
    )

    def index(self, document: Document, tools: Tools) -> Index:
        """LightRAG's index, and "reports": a row of each community that has one
        (`Report.to_row`)."""
        index = super().index(document, tools)
        graph = DescribedGraph.from_index(index)
        config = self.config
        communities_found = find_communities(
            graph.edges(), config.community_size, config.largest_component
        )
        reports = make_each_and_store(
            lambda number: self._write_report(communities_found[number], graph, tools),
            len(communities_found),
            "report",
            tools,
        )
        return {**index, "reports": list(filter(None, reports))}

    def _write_report(
        self, community: Community, graph: DescribedGraph, tools: Tools
    ) -> list[object] | None:
        """Write the report on a community from as many lines about it as fit.

        The report may have `report_tokens`, but at most a third of the builder's window; the lines
        may have `report_input` tokens, or what the window leaves.

        Args:
            community: The community.
            graph: The graph, with descriptions of its entities and of the relations between them.
            tools: The engine's tools.

        Returns:
            The report as the index stores it (`Report.to_row`); None where the model writes none.
        """
        config = self.config
        model = tools.model("builder")
        lines = graph.prompt_lines(community)
        prompt = REPORT.with_replacements(config)
        max_report_tokens = min(config.report_tokens, model.window // 3)
        tokens_without_lines = prompt_tokens(prompt.fill(lines=[""]), model)
        max_request_tokens = min(
            config.report_input + tokens_without_lines, model.window - max_report_tokens
        )
        request, _ = fit_lines(
            lambda n_lines: prompt.fill(lines=["\n".join(lines[:n_lines])]),
            len(lines),
            max_request_tokens,
            model,
        )
        response = ask_parsed(model, request, max_report_tokens, report_in, Retry(retries=0))
        if response.parsed is None:
            return None
        written = response.parsed
        return Report(
            community=community, title=written.title, text=written.text, rating=written.rating
        ).to_row()

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Answer from all reports (mode "global"), or from what is near the question's entities
        ("local")."""
        (document,) = documents
        (index,) = indexes
        graph = DescribedGraph.from_index(index)
        spans = [(int(start), int(end)) for start, end in index["chunks"]]
        reports = finest_reports(list(map(Report.from_row, index["reports"])), self.config.level)
        search = _Search(document, spans, graph, reports, self.config, tools)
        if self.config.mode == "global":
            return search.answer_globally(question)
        return search.answer_locally(question, index["vectors"])


def _most_matches_first(matching_report: tuple[int, Report]) -> tuple[int, float]:
    """A sort key for (how many entities match, report): many matches first, then a high rating."""
    n_matches, report = matching_report
    return -n_matches, -report.rating


def _report_texts(reports: Sequence[Report]) -> list[str]:
    """The whole text of each report, title included."""
    return [report.whole_text for report in reports]


def finest_reports(reports: Sequence[Report], level: int) -> list[Report]:
    """The reports on the finest communities of `level` or coarser that have one, each once.

    Args:
        reports: All reports.
        level: The finest level that counts; 0 is the coarsest.
    """
    report_of_node = finest_community_of_nodes([report.community for report in reports], level)
    return [reports[number] for number in sorted(set(report_of_node.values()))]


class DescribedGraph:
    """Entities and relations: what stands in prompts of them, and who is related to whom."""

    def __init__(self, items: Sequence[Item]) -> None:
        """Keep the items, with the numbers of those that are relations, and of entities by name.

        Args:
            items: Entities and relations; an item's number is its place here.
        """
        self.items = items
        self.number_of_entity: dict[str, int] = {}  # name -> the number of the entity
        self.relations: list[int] = []
        for number, item in enumerate(items):
            if item.is_relation:
                self.relations.append(number)
            else:
                self.number_of_entity[item.names[0]] = number

    @classmethod
    def from_index(cls, index: Index) -> DescribedGraph:
        """The graph of the entities and relations in an index of LightRAG."""
        return cls(list(map(Item.from_row, index["items"])))

    @property
    def entities(self) -> list[int]:
        """The numbers of all entities, which are their places among the items."""
        return list(self.number_of_entity.values())

    @cached_property
    def relation_counts(self) -> Counter[int]:
        """Entity -> how many relations it has."""
        relation_counts: Counter[int] = Counter()
        for relation in self.relations:
            relation_counts.update(self.entities_of_relation(relation))
        return relation_counts

    def entities_of_relation(self, relation: int) -> list[int]:
        """The numbers of the two entities of a relation, given the relation's number."""
        return [self.number_of_entity[name] for name in self.items[relation].names]

    def relations_of_both_entities(self, relation: int) -> int:
        """How many relations both entities of a relation have together, the larger the more
        central."""
        return sum(self.relation_counts[entity] for entity in self.entities_of_relation(relation))

    def prompt_line(self, number: int) -> str:
        """The entity or the relation of this number as a line of a prompt: "TOREN | A writer. |
        PERSON | 3".

        Its last field is the entity's number of relations, or both entities' of a relation.
        """
        item = self.items[number]
        rank = self.relation_counts[number]
        if item.is_relation:
            rank = self.relations_of_both_entities(number)
        return item.shown_row(rank)

    def edges(self) -> Iterator[tuple[int, int, float]]:
        """(number of an entity, of another one, weight) of each relation of two entities."""
        for relation in self.relations:
            first, second = self.entities_of_relation(relation)
            if first != second:
                yield first, second, self.items[relation].weight

    def prompt_lines(self, community: Community) -> list[str]:
        """The lines of a prompt about a community: each of its relations after its two entities,
        those of well-connected entities first; then its other entities. Nothing stands twice.

        A relation is the community's if both of its entities are.
        """
        community_entities = set(community.nodes)
        relations = [
            relation
            for relation in self.relations
            if community_entities.issuperset(self.entities_of_relation(relation))
        ]
        relations.sort(key=self.relations_of_both_entities, reverse=True)
        numbers: dict[int, None] = {}  # of entities and relations, as an ordered set
        for relation in relations:
            numbers.update(dict.fromkeys([*self.entities_of_relation(relation), relation]))
        numbers.update(dict.fromkeys(community.nodes))
        return [self.prompt_line(number) for number in numbers]


class _LocalContext(NamedTuple):
    """What a prompt of a local search shows: reports, and the numbers of entities, relations and
    chunks, each the best first."""

    reports: list[Report]
    entities: list[int]
    relations: list[int]
    chunks: list[int]


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

        Where no report has a point, the answer is REFUSAL. As sources count all reports of the
        batches whose points are shown.
        """
        tools = self.tools
        with tools.phase("search"):
            batches = self._make_batches(question)
            points_and_steps = tools.map(
                lambda number: self._ask_for_points(question, batches[number], number),
                range(len(batches)),
            )
        points: list[Point] = []
        steps: list[Step] = []
        for points_of_batch, step in points_and_steps:
            points += points_of_batch
            steps.append(step)
        points.sort(key=lambda point: -point.score)
        if not points:
            return Answer(REFUSAL, (), "no report helps", tuple(steps))
        scored_texts = [point.scored_text for point in points]
        texts = scored_texts[
            : reading.how_many_fit(scored_texts, self.config.budget, tools.model())
        ]
        request = reading.Reading(tools.task, config=self.config)
        text, shown_count = reading.ask_fitting(question, texts, tools, request)
        batches_shown = {point.batch_number for point in points[:shown_count]}
        reports_behind_points: list[Report] = []
        for number in sorted(batches_shown):
            reports_behind_points += batches[number]
        shown = self._shown(BETWEEN_TEXTS.join(texts[:shown_count]), reports_behind_points)
        reason = f"{shown_count} of {len(points)} points of {len(batches)} batches"
        return Answer(text, (shown,), reason, tuple(steps))

    def _make_batches(self, question: Question) -> list[list[Report]]:
        """All reports, mixed by a fixed seed, in batches of as many as one request holds.

        A request holds the budget of tokens, or what the window leaves beside the question and the
        reply.
        """
        model = self.tools.model("searcher")
        tokens_without_reports = (
            prompt_tokens(self._map_request(question, []), model) + self.config.point_tokens
        )
        max_report_tokens = min(self.config.budget, model.window - tokens_without_reports)
        shuffled_reports = list(self.reports)
        random.Random(SHUFFLE_SEED).shuffle(shuffled_reports)
        batches: list[list[Report]] = []
        batch_tokens = max_report_tokens  # as of a full batch, so that the first report begins one
        for report in shuffled_reports:
            tokens = model.count(report.whole_text + BETWEEN_TEXTS)
            if batch_tokens + tokens > max_report_tokens:
                batches.append([])
                batch_tokens = 0
            batches[-1].append(report)
            batch_tokens += tokens
        return batches

    def _map_request(self, question: Question, reports: Sequence[Report]) -> Pieces:
        """The request for the points that some reports make on a question."""
        texts: list[str] = []
        for report in reports:
            texts += [report.whole_text, BETWEEN_TEXTS]
        return MAP.with_replacements(self.config).fill(
            reports=texts, question=[reading.question_text(question)]
        )

    def _ask_for_points(
        self, question: Question, batch: Sequence[Report], batch_number: int
    ) -> tuple[list[Point], Step]:
        """Ask for the points that a batch of reports makes on the question.

        Args:
            question: The question.
            batch: Reports that fit one request.
            batch_number: The number of the batch.

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
        for text, score in response.parsed or ():
            if score > 0:
                points.append(Point(text, score, batch_number))
        shown = self._shown(BETWEEN_TEXTS.join(_report_texts(batch)), batch)
        step = Step(
            "points", batch_number, tokens=response.prompt_tokens, note=response.text, shown=shown
        )
        return points, step

    def answer_locally(self, question: Question, vectors: np.ndarray) -> Answer:
        """Answer from what lies around the entities most similar to the question.

        The prompt shows first the context, a text of reports, entities and relations, and then as
        many of the chunks around these entities as fit.

        Args:
            question: The question.
            vectors: The vectors of the entities and relations [items, width].
        """
        tools = self.tools
        with tools.phase("search"):
            nearest_entities = self._nearest_entities(question, vectors)
        steps = [
            Step("entities", flops=tools.meter.flops(), note=self._entity_names(nearest_entities))
        ]
        found = self._what_fits_around(nearest_entities)
        context = self._context(found.reports, found.entities, found.relations)
        request = reading.Reading(tools.task, config=self.config)
        offered_texts = [context, *self._stripped_texts_of(found.chunks)]
        text, n_shown_texts = reading.ask_fitting(question, offered_texts, tools, request)
        context_is_shown = n_shown_texts > 0
        n_shown_chunks = max(0, n_shown_texts - 1)  # without the context
        shown_chunks = found.chunks[:n_shown_chunks]
        shown_chunk_spans = shown_spans(self.document, self._spans_of(shown_chunks))
        flops_so_far = tools.meter.flops()
        for chunk, span in zip(shown_chunks, shown_chunk_spans, strict=True):
            steps.append(Step("read", chunk, flops=flops_so_far, shown=span))
        shown: tuple[Shown, ...] = ()
        if context_is_shown:
            item_numbers = [*found.entities, *found.relations]
            shown_context = self._shown(context, found.reports, item_numbers)
            shown = (shown_context, *shown_chunk_spans)
        reason = (
            f"{len(found.entities)} entities, {len(found.relations)} relations, "
            f"{len(found.reports)} reports, {len(shown_chunks)} of {len(found.chunks)} chunks"
        )
        return Answer(text, shown, reason, tuple(steps))

    def _stripped_texts_of(self, chunks: Sequence[int]) -> list[str]:
        """The texts of some chunks, given by number, without white space at their ends."""
        texts = texts_at(self.document.text, self._spans_of(chunks))
        return [text.strip() for text in texts]

    def _what_fits_around(self, nearest_entities: Sequence[int]) -> _LocalContext:
        """What a prompt shows around some entities: chunks, reports, and a list of entities and
        relations, each within its share of the `budget` of tokens.

        The shares are `chunk_share` and `report_share`; the list has what they leave.
        """
        config = self.config
        chunk_tokens = int(config.budget * config.chunk_share)
        report_tokens = int(config.budget * config.report_share)
        list_tokens = int(config.budget * (1 - config.chunk_share - config.report_share))
        reports = self._reports_that_fit(nearest_entities, report_tokens)
        entities, relations = self._entities_and_relations_that_fit(nearest_entities, list_tokens)
        return _LocalContext(
            reports=reports,
            entities=entities,
            relations=relations,
            chunks=self._chunks_that_fit(nearest_entities, chunk_tokens),
        )

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
            reports=BETWEEN_TEXTS.join(_report_texts(reports)),
            entities="\n".join(map(self.graph.prompt_line, entities)),
            relations="\n".join(map(self.graph.prompt_line, relations)),
        )
        return "".join(pieces)

    def _entity_names(self, entities: Sequence[int]) -> str:
        """The names of entities, given by their numbers, with commas between them."""
        return ", ".join(self.graph.items[entity].names[0] for entity in entities)

    def _spans_of(self, chunks: Sequence[int]) -> list[Span]:
        """The spans of chunks, given by their numbers."""
        return [self.spans[chunk] for chunk in chunks]

    def _nearest_entities(self, question: Question, vectors: np.ndarray) -> list[int]:
        """The numbers of the `k` entities most similar to the question, the best first.

        Args:
            question: The question.
            vectors: Row i is the vector of entity or relation i, [items, width]. Entities with
                higher numbers have none: only relations name them.
        """
        entities_with_vector = np.array(self.graph.entities, dtype=int)
        entities_with_vector = entities_with_vector[entities_with_vector < len(vectors)]
        if not len(entities_with_vector):
            return []
        scores = similarity_to(question.text, np.asarray(vectors)[entities_with_vector], self.tools)
        nearest: list[int] = entities_with_vector[best_first(scores)][: self.config.k].tolist()
        return nearest

    def _reports_that_fit(self, entities: Sequence[int], max_tokens: int) -> list[Report]:
        """The reports on communities of some entities that fit a budget of tokens.

        Those on communities with the most of these entities come first, of these the best rated.
        """
        entity_set = set(entities)
        matching: list[tuple[int, Report]] = []
        for report in self.reports:
            n_matches = len(entity_set.intersection(report.community.nodes))
            if n_matches:
                matching.append((n_matches, report))
        matching.sort(key=_most_matches_first)
        reports = [report for _, report in matching]
        n_fitting = reading.how_many_fit(_report_texts(reports), max_tokens, self.tools.model())
        return reports[:n_fitting]

    def _entities_and_relations_that_fit(
        self, entities: Sequence[int], max_tokens: int
    ) -> tuple[list[int], list[int]]:
        """The numbers of entities and of their relations, as many of each as a budget of tokens
        holds.

        The lines of the entities are counted first; those of relations get the tokens that are left.
        """
        model = self.tools.model()
        entity_lines = list(map(self.graph.prompt_line, entities))
        n_shown = reading.how_many_fit(entity_lines, max_tokens, model, separator="\n")
        shown_entities = list(entities[:n_shown])
        used_tokens = model.count("\n".join(entity_lines[:n_shown]))
        relations = self._relations_of(shown_entities)
        relation_lines = list(map(self.graph.prompt_line, relations))
        n_relations = reading.how_many_fit(
            relation_lines, max_tokens - used_tokens, model, separator="\n"
        )
        return shown_entities, relations[:n_relations]

    def _relations_of(self, entities: Sequence[int]) -> list[int]:
        """The numbers of the relations of some entities: all between two of these, then those to
        others, at most `relations_each` for each entity.

        In both groups the relations of well-connected entities come first.
        """
        entity_set = set(entities)
        between_entities: list[int] = []
        to_others: list[int] = []
        for relation in self.graph.relations:
            ends = set(self.graph.entities_of_relation(relation))
            if ends <= entity_set:
                between_entities.append(relation)
            elif ends & entity_set:
                to_others.append(relation)
        between_entities.sort(key=self.graph.relations_of_both_entities, reverse=True)
        to_others.sort(key=self.graph.relations_of_both_entities, reverse=True)
        return between_entities + to_others[: self.config.relations_each * len(entities)]

    def _chunks_that_fit(self, entities: Sequence[int], max_tokens: int) -> list[int]:
        """The numbers of the chunks that name some entities, as many as a budget of tokens holds.

        They stand in the order of the entities; of one entity, those in which more of its relations
        are come first.
        """
        chunks: dict[int, None] = {}  # as an ordered set: each chunk once
        for entity in entities:
            relations_in_chunk: Counter[int] = Counter()
            for relation in self.graph.relations:
                if entity in self.graph.entities_of_relation(relation):
                    relations_in_chunk.update(self.graph.items[relation].chunks)
            chunks_of_entity = sorted(
                self.graph.items[entity].chunks, key=lambda chunk: -relations_in_chunk[chunk]
            )
            chunks.update(dict.fromkeys(chunks_of_entity))
        chunks_in_order = list(chunks)
        texts = texts_at(self.document.text, self._spans_of(chunks_in_order))
        return chunks_in_order[: reading.how_many_fit(texts, max_tokens, self.tools.model())]

    def _shown(
        self, text: str, reports: Sequence[Report], item_numbers: Sequence[int] = ()
    ) -> Shown:
        """A text made of reports and items, in the form in which an Answer says what the reader
        saw.

        Args:
            text: The text.
            reports: The reports in it.
            item_numbers: The numbers of entities and relations in it.

        Returns:
            The text, with the chunks that the reports and items come from as its sources.
        """
        numbers = set(item_numbers)
        for report in reports:
            numbers.update(report.community.nodes)
        sources: set[tuple[str, int, int]] = set()
        for number in numbers:
            for span in self._spans_of(self.graph.items[number].chunks):
                sources.add((self.document.id, *span))
        return Shown("generated", self.document.id, text=text, sources=tuple(sorted(sources)))
