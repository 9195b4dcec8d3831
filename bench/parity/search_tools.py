"""What the pairs of searching methods share: questions with the documents that are searched, and what a
method of this project sends and finds when a model gives it certain replies.

    run = run_ours(method, case, replies)
    run.requests      the context of each request, run.queries, run.found: ids of each search's passages

The other program searches by `search(case, query, k)`, so that both have the same search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any
from unittest import mock

from bench.parity.rows import Rows
from harness.cost.meter import Meter
from harness.engine.searching import Searcher
from harness.llm.scripted import Rule, ScriptedSession
from harness.types import Document, Question, SearchHit
from tests.methods.conftest import FakeTools

WINDOW = 1_000_000
LARGE = 1_000
"""More passages than a question has."""


@dataclass(frozen=True)
class Case:
    """A question with its documents and their titles."""

    question: Question
    documents: list[Document]
    titles: list[str]


@dataclass(frozen=True)
class Run:
    """What a method sent and found."""

    requests: list[str]
    queries: list[str]
    found: list[list[str]]
    answer: str


def cases(rows: Rows, count: int) -> list[Case]:
    """The first questions of HotpotQA."""
    dataset = rows.dataset(limit=count)
    made: list[Case] = []
    for example in dataset.examples:
        documents = list(map(dataset.documents.__getitem__, example.question.document_ids))
        titles: list[str] = []
        for document in documents:
            titles.extend(map(attrgetter("title"), document.passages))
        made.append(Case(example.question, documents, titles))
    return made


def search(case: Case, query: str, k: int) -> list[SearchHit]:
    """The passages that our method finds for a query."""
    return Searcher(None, case.documents).search(query, k, Meter("search"))


def run_ours(method: Any, case: Case, replies: Sequence[str | Rule]) -> Run:
    """Ask a method a question.

    Args:
        method: The method.
        case: The question.
        replies: Of the model, in order; or rules.

    Returns:
        What it did; a reply that is continued stands at the end of its request.
    """
    rules: list[Rule] = []
    for reply in replies:
        if isinstance(reply, str):
            reply = Rule(reply=reply, once=True)
        rules.append(reply)
    tools: Any = FakeTools(rules, window=WINDOW)
    tools.documents = case.documents
    with mock.patch.object(ScriptedSession, "can_begin_replies", False):
        answer = method.answer(case.question, case.documents, [{}], tools)
    queries: list[str] = []
    found: list[list[str]] = []
    for each in tools.meter.searches:
        queries.append(each.query)
        found.append(ids_of(each.hits))
    requests = [prompt.removeprefix("\n[user]") for prompt in tools.reader.prompts]
    return Run(requests, queries, found, answer.text)


def ids_of(hits: Sequence[SearchHit]) -> list[str]:
    """The ids of passages."""
    return [hit.id for hit in hits]


def passages_in(request: str, case: Case) -> list[str]:
    """The ids of the passages that stand in a request, title first, in their order there."""
    places: dict[str, int] = {}
    for hit in search(case, request, LARGE):
        place = request.find(hit.titled_text)
        if place >= 0:
            places[hit.id] = place
    return sorted(places, key=places.__getitem__)
