"""Search-o1: its script's loop, every request and query, with the same replies."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from bench.parity import Found, import_theirs, stand_in
from bench.parity.rows import Rows
from bench.parity.search_tools import Case, cases, passages_in, run_ours, search
from harness.config.layers import Choices
from harness.config.resolve import resolve_method
from harness.engine.completed_method import make_method
from harness.method import Method
from harness.types import SearchHit

PROGRAM = "sunnynexus/Search-o1"
METHODS = "`search-o1` (HotpotQA's paragraphs as pages of the web; made-up replies)"
SO_FAR = "reply so far in each request that goes on"
STEPS = "steps of the reasoning shown with what was found, before a refused search"
READ = "passages shown with them"
QUERIES = "queries"
LINES = "reply so far after a reading of two lines"
REASONS = {
    LINES: "it joins the lines of what helps without a space; kept: ours leaves them as they are",
}
QUESTIONS = 15
K = 10
BEGIN, END = "<|begin_search_query|>", "<|end_search_query|>"
NO_MORE = {
    "\nThe maximum search limit is exceeded. You are not allowed to search.\n": (
        "The limit of searches is reached; no more search is possible."
    ),
    "\nYou have searched this query. Please refer to previous results.\n": (
        "This query was searched for before; see what was found then."
    ),
}
"""Sentences of the script -> ours, as prompts are this project's."""


@dataclass
class Stub:
    """Stands in for vLLM and for the search of the web, and keeps what they are asked."""

    case: Case
    replies: list[str]
    requests: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)

    def generate(self, prompts: Sequence[str], **_: Any) -> list[Any]:
        """The next reply to the only prompt."""
        (prompt,) = prompts
        self.requests.append(prompt)
        output = SimpleNamespace(text=self.replies.pop(0))
        return [SimpleNamespace(outputs=[output])]

    def search(self, query: str, *_: Any, **__: Any) -> list[dict[str, str]]:
        """The pages of a query."""
        self.queries.append(query)
        return list(map(_page, search(self.case, query, K)))

    def pages(self, urls: Sequence[str], **_: Any) -> dict[str, str]:
        """Nothing, as each page is its snippet."""
        return dict.fromkeys(urls, "")


def _page(hit: SearchHit) -> dict[str, str]:
    """A passage as a page of the web."""
    return {"url": hit.id, "title": hit.title, "snippet": hit.text}


def _same(found: Any) -> Any:
    """Pages as the search gave them."""
    return found


def _no_context(*_: Any, **__: Any) -> tuple[bool, str]:
    """Stands in for the cut around a snippet."""
    return True, ""


def _plain(messages: Sequence[dict[str, str]], **_: Any) -> str:
    """Stands in for a chat template."""
    return messages[0]["content"]


@contextlib.contextmanager
def _script_folder(question: str) -> Iterator[None]:
    """A folder to run the script in, with the question as its data set."""
    before = Path.cwd()
    words = ["x", "--dataset_name", "hotpotqa", "--split", "test", "--model_path", "model"]
    words += ["--bing_subscription_key", "none"]
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(sys, "argv", words):
        data = Path(folder) / "data" / "QA_Datasets"
        data.mkdir(parents=True)
        (data / "hotpotqa.json").write_text(json.dumps([{"Question": question}]))
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def run_theirs(module: Any, case: Case, replies: Sequence[str]) -> Stub:
    """Run the script on one question."""
    stub = Stub(case, list(replies))
    module.LLM = mock.Mock(return_value=stub)
    module.bing_web_search = stub.search
    module.extract_relevant_info = _same
    module.fetch_page_content = stub.pages
    module.extract_snippet_with_context = _no_context
    module.run_evaluation = mock.Mock()
    module.AutoTokenizer.from_pretrained.return_value.apply_chat_template = _plain
    with _script_folder(case.question.text), contextlib.redirect_stdout(io.StringIO()):
        module.main()
    return stub


def made_up_replies(case: Case, dice: random.Random) -> list[str]:
    """Parts of a reasoning that end with a query, each followed by what helps; then an answer."""
    replies: list[str] = []
    asked: list[str] = []
    for number in range(dice.randint(0, 12)):
        query = dice.choice(case.titles)
        lines = [f"I think of {title}." for title in dice.sample(case.titles, 3)]
        separator = dice.choice(["\n", "\n\n"])
        replies.append(f"{separator.join(lines)}\n{BEGIN}{query}{END}")
        if query not in asked and len(asked) < K:
            asked.append(query)
            helps = f"Some thought.\n**Final Information**\n\n{query} is number {number}."
            kinds = (helps, "Nothing of use.")
            replies.append(dice.choice(kinds))
    return [*replies, "Thus it is \\boxed{yes}."]


def compare(code: Path, rows: Rows, found: Found) -> None:
    """Compare both kinds of requests and the queries of each question."""
    stand_in("vllm", "bing_search", "lcb_runner", "lcb_runner.evaluation")
    stand_in("utils", "utils.math_equivalence")
    module = import_theirs(code / "scripts", "run_search_o1")
    module.AutoTokenizer = mock.MagicMock()
    method = make_method(resolve_method(Choices(method="search-o1")).value, {})
    dice = random.Random(20261129)
    for case in cases(rows, QUESTIONS):
        replies = made_up_replies(case, dice)
        theirs = run_theirs(module, case, replies)
        ours = run_ours(method, case, replies)
        found.each(QUERIES, theirs.queries, ours.queries)
        _compare_requests(case, theirs.requests, ours.requests, found)
        found.add(LINES, *_after_two_lines(module, method, case))


def _after_two_lines(module: Any, method: Method, case: Case) -> tuple[str, str]:
    """The reply so far of both after one search, where what helps has two lines."""
    query = f"{BEGIN}{case.titles[0]}{END}"
    replies = [query, "\n**Final Information**\nOne.\nTwo.", "\\boxed{yes}"]
    theirs = run_theirs(module, case, replies).requests
    ours = run_ours(method, case, replies).requests
    return theirs[-1].removeprefix(theirs[0]), ours[-1].removeprefix(f"{ours[0]}\n")


def _compare_requests(case: Case, theirs: Sequence[str], ours: Sequence[str], found: Found) -> None:
    """Compare the requests of a question, in order."""
    for sent, our_sent in zip(theirs, ours, strict=True):
        if sent.startswith(theirs[0]):
            reply = sent.removeprefix(theirs[0])
            for sentence, our_sentence in NO_MORE.items():
                reply = reply.replace(sentence, our_sentence)
            our_reply = our_sent.removeprefix(ours[0]).removeprefix("\n")
            found.add(SO_FAR, reply, our_reply)
        else:
            steps = _between(sent, "- **Previous Reasoning Steps:**  \n", "\n\n- **Current")
            our_steps = _between(our_sent, "Reasoning so far:\n", "\n\nQuery: ")
            if not _has_refusal(our_sent):
                found.add(STEPS, _without_numbers(steps), _without_numbers(our_steps))
            found.add(READ, passages_in(json_text(sent), case), passages_in(our_sent, case))


def _has_refusal(request: str) -> bool:
    """Whether a search was refused before; the script's sentence takes three lines, ours one."""
    return any(sentence in request for sentence in NO_MORE.values())


def json_text(request: str) -> str:
    """A request with the titles and texts of its JSON as plain text."""
    plain = request.replace('\\"', '"').replace("\\n", "\n")
    return plain.replace('",\n  "snippet": "', "\n")


def _between(text: str, start: str, end: str) -> str:
    """The text between two marks; "" without the first one."""
    return text.partition(start)[2].partition(end)[0]


def _without_numbers(steps: str) -> list[str]:
    """Steps without their numbers: theirs counts empty lines."""
    kept: list[str] = []
    for step in steps.split("\n"):
        text = re.sub(r"^Step \d+: ?", "", step)
        if text.strip():
            kept.append(text)
    return kept
