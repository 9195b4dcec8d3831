"""Iter-RetGen, Self-Ask: queries and passages of FlashRAG's pipelines, with the same replies."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.parity import Found, import_theirs
from bench.parity.rows import Rows
from bench.parity.search_tools import Case, cases, ids_of, passages_in, run_ours, search
from harness.config.layers import Choices
from harness.config.resolve import resolve_method
from harness.engine.completed_method import make_method
from harness.types import SearchHit

PROGRAM = "RUC-NLPIR/FlashRAG"
METHODS = "`iter-retgen`, `self-ask` (HotpotQA's paragraphs; made-up replies)"
QUERIES = "Iter-RetGen: queries"
WORDS = "Iter-RetGen: words of queries"
FOUND = "Iter-RetGen: passages of each search, in order"
READ = "Iter-RetGen: passages in each request"
ASKED = "Self-Ask: follow-up questions that are searched for, up to two"
ASKED_FOUND = "Self-Ask: passages of each follow-up question, in order"
MORE = "Self-Ask: follow-up questions that are searched for, three to five (questions)"
REASONS = {
    QUERIES: "its query is the question before the reply, ours the reply before the question; kept: "
    "BM25 sees no order",
    MORE: "its limit of five counts intermediate answers too; kept: ours counts follow-up questions",
}
QUESTIONS = 60
K = 5


@dataclass
class Stub:
    """Stands in for FlashRAG's generator, retriever and prompt, and keeps what they are asked."""

    case: Case
    replies: list[str]
    queries: list[str] = field(default_factory=list)
    found: list[list[str]] = field(default_factory=list)
    read: list[list[str]] = field(default_factory=list)

    def generate(self, prompts: Any, **_: Any) -> list[str]:
        """The next reply."""
        del prompts
        return [self.replies.pop(0)]

    def search(self, query: str) -> list[dict[str, str]]:
        """The passages of a query."""
        hits = search(self.case, query, K)
        self.queries.append(query)
        self.found.append(ids_of(hits))
        return list(map(_document, hits))

    def batch_search(self, queries: Sequence[str]) -> list[list[dict[str, str]]]:
        """The passages of each query."""
        return list(map(self.search, queries))

    def get_string(self, retrieval_result: Sequence[dict[str, str]], **_: Any) -> str:
        """A prompt."""
        self.read.append([document["id"] for document in retrieval_result])
        return "prompt"


def _document(hit: SearchHit) -> dict[str, str]:
    """A passage as FlashRAG's retrievers give it."""
    return {"id": hit.id, "contents": hit.titled_text}


def run_theirs(kind: Any, case: Case, replies: Sequence[str], **settings: Any) -> Stub:
    """Ask one of FlashRAG's pipelines a question."""
    from flashrag.dataset.dataset import Dataset

    stub = Stub(case, list(replies))
    pipeline = kind.__new__(kind)
    values = {"generator": stub, "retriever": stub, "prompt_template": stub}
    values |= {"save_retrieval_cache": False, **settings}
    for name, value in values.items():
        setattr(pipeline, name, value)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        rows = Dataset(data=[{"question": case.question.text, "output": {}}])
        pipeline.run(rows, do_eval=False, pred_process_fun=None)
    return stub


def compare(code: Path, rows: Rows, found: Found) -> None:
    """Compare both pipelines on each question."""
    package = import_theirs(code, "flashrag.pipeline")
    dice = random.Random(20261129)
    for case in cases(rows, QUESTIONS):
        _compare_iterations(package.IterativePipeline, case, dice, found)
        _compare_follow_ups(package.SelfAskPipeline, case, dice.randint(0, 2), dice, found)
        _compare_follow_ups(package.SelfAskPipeline, case, dice.randint(3, 5), dice, found)


def _compare_iterations(kind: Any, case: Case, dice: random.Random, found: Found) -> None:
    """Compare Iter-RetGen with two to four iterations."""
    count = dice.randint(2, 4)
    titles = dice.sample(case.titles, count)
    replies = [f"It is about {title}. So the answer is: {title}." for title in titles]
    theirs = run_theirs(kind, case, replies, iter_num=count)
    sets = {"method.iterations": count}
    method = make_method(resolve_method(Choices(method="iter-retgen", sets=sets)).value, {})
    ours = run_ours(method, case, replies)
    found.each(QUERIES, theirs.queries, ours.queries)
    found.each(WORDS, map(_sorted_words, theirs.queries), map(_sorted_words, ours.queries))
    found.each(FOUND, theirs.found, ours.found)
    read = [passages_in(request, case) for request in ours.requests]
    found.each(READ, map(sorted, theirs.read), map(sorted, read))


def _sorted_words(text: str) -> list[str]:
    """The words of a text in alphabetical order."""
    return sorted(text.split())


def _compare_follow_ups(
    kind: Any, case: Case, count: int, dice: random.Random, found: Found
) -> None:
    """Compare Self-Ask with so many follow-up questions. Theirs searches for the question first."""
    replies: list[str] = []
    for title in dice.sample(case.titles, count):
        replies += [f"Follow up: Who or what is {title}?", f"It is {title}."]
    replies.append("So the final answer is: yes")
    marked = list(replies)
    for number in range(1, len(replies), 2):
        marked[number] = f"Intermediate answer: {replies[number]}"
    theirs = run_theirs(kind, case, marked, single_hop=True, max_iter=5, P_INS="")
    ours = run_ours(
        make_method(resolve_method(Choices(method="self-ask")).value, {}), case, replies
    )
    asked = theirs.queries[1:]
    if count > 2:
        found.add(MORE, asked, ours.queries)
        return
    found.each(ASKED, asked, ours.queries)
    found.each(ASKED_FOUND, theirs.found[1:], ours.found)
