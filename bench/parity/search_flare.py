"""FLARE: queries, passages and sentences of its loop, with the same replies and probabilities."""

from __future__ import annotations

import json
import math
import random
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from bench.parity import Found, import_theirs, stand_in
from bench.parity.rows import Rows
from bench.parity.search_tools import Case, cases, ids_of, passages_in, run_ours, search
from harness.config.layers import Choices
from harness.config.resolve import resolve_method
from harness.engine.completed_method import make_method
from harness.llm.scripted import ScriptedSession

PROGRAM = "jzbjyb/FLARE"
METHODS = (
    "`flare` (HotpotQA's paragraphs; made-up sentences without abbreviations, words as tokens)"
)
QUERIES = "queries, white space as single spaces"
FOUND = "passages of each search, in order"
READ = "passages in each request"
SO_FAR = "text so far in each request"
REASONS: dict[str, str] = {}
QUESTIONS = 40
TOKEN = re.compile(r"\s*\S+|\s+")
TITLE_END = " <end of title> "
"""Stands for the line break, as its prompt has a passage on one line."""
LEVELS = (0.95, 0.7, 0.2)
"""Probabilities of a word: sure, so low that its sentence is searched for, and masked."""


@dataclass
class Stub:
    """Stands in for its retriever and its model, and keeps what they are asked."""

    case: Case
    module: Any
    replies: list[str]
    levels: dict[str, float]
    queries: list[str] = field(default_factory=list)
    found: list[list[str]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def retrieve(self, queries: Sequence[str], topk: int, **_: Any) -> tuple[Any, Any]:
        """Ids and texts [queries, topk] of the passages."""
        (query,) = queries
        hits = search(self.case, query, topk)
        self.queries.append(query)
        self.found.append(ids_of(hits))
        texts = [hit.titled_text.replace("\n", TITLE_END) for hit in hits]
        return np.array([ids_of(hits)]), np.array([texts])

    def complete(self, prompts: Sequence[Any], params: Any, **_: Any) -> list[Any]:
        """The next reply to the only prompt, up to the stop."""
        (prompt,) = prompts
        text = prompt.format(use_ctx=True)[0]
        self.requests.append(text)
        reply = self.replies.pop(0).partition(params["stop"])[0]
        tokens: list[str] = []
        places: list[int] = []
        for match in TOKEN.finditer(reply):
            tokens.append(match.group())
            places.append(len(text) + match.start())
        finish = "length"
        if not self.replies:
            finish = "stop"
        made = self.module.ApiReturn(
            prompt=text,
            text=reply,
            tokens=tokens,
            probs=probabilities_of(reply, self.levels),
            offsets=places,
            finish_reason=finish,
        )
        return [made]


def probabilities_of(text: str, levels: dict[str, float]) -> list[float]:
    """How likely each token of a text is. levels: of its words."""
    return [levels[token.strip()] for token in TOKEN.findall(text)]


def run_theirs(module: Any, settings: dict[str, Any], stub: Stub) -> str:
    """Answer a question by its loop; returns the text."""
    agent = module.QueryAgent(retrieval_kwargs={**settings, "retriever": stub})
    agent.complete = stub.complete
    prompt = module.CtxPrompt(case=f"Question: {stub.case.question.text}\nAnswer:")
    prompt.question = stub.case.question.text
    outputs, *_ = agent.ret_prompt([prompt])
    return str(outputs[0])


def made_up(case: Case, dice: random.Random) -> tuple[list[str], dict[str, float]]:
    """Replies of a sentence each and how likely each word is; a sentence that is unsure of a word is
    followed by itself, written again."""
    levels: dict[str, float] = {}
    replies: list[str] = []
    titles = list(filter(_has_no_full_stop, case.titles))
    sentences = [
        f" {title} is what we look for." for title in dice.sample(titles, min(3, len(titles)))
    ]
    for sentence in [*sentences, " So the answer is: yes."]:
        for word in sentence.split():
            (level,) = dice.choices(LEVELS, weights=(8, 1, 1))
            levels.setdefault(word, level)
        replies.append(sentence)
        if min(probabilities_of(sentence, levels)) < LEVELS[0]:
            replies.append(sentence)
    return replies, levels


def _has_no_full_stop(title: str) -> bool:
    """Whether a title has no full stop."""
    return "." not in title


def compare(code: Path, rows: Rows, found: Found) -> None:
    """Compare queries, passages and requests of each question."""
    stand_in(
        "spacy",
        "tiktoken",
        "openai",
        "beir",
        "tenacity",
        "src.retriever",
        "src.datasets",
        "src.utils",
    )
    sys.modules["tenacity"].retry = mock.Mock(return_value=_as_it_is)  # type: ignore[attr-defined]
    module = import_theirs(code, "src.openai_api")
    settings = json.loads((code / "configs" / "2wikihop_flare_config.json").read_text())
    method = make_method(resolve_method(Choices(method="flare")).value, {})
    dice = random.Random(20261129)
    for case in cases(rows, QUESTIONS):
        replies, levels = made_up(case, dice)
        stub = Stub(case, module, _with_looks_ahead(replies, levels), levels)
        run_theirs(module, settings, stub)

        def score(_session: Any, text: str, known: dict[str, float] = levels) -> list[float]:
            return list(map(math.log, probabilities_of(text, known)))

        with mock.patch.object(ScriptedSession, "_score", score):
            ours = run_ours(method, case, replies)
        found.each(QUERIES, map(_plain, stub.queries), map(_plain, ours.queries))
        found.each(FOUND, stub.found, ours.found)
        _compare_requests(case, stub.requests, ours.requests, found)


def _as_it_is(function: Any) -> Any:
    """Stands in for what tries a request again."""
    return function


def _with_looks_ahead(replies: Sequence[str], levels: dict[str, float]) -> list[str]:
    """The replies for its loop, which writes each sentence a second time also where it is sure."""
    made: list[str] = []
    for number, reply in enumerate(replies):
        is_repeated = number > 0 and replies[number - 1] == reply
        sure = min(probabilities_of(reply, levels)) >= LEVELS[0]
        made.append(reply)
        if sure and not is_repeated:
            made.append(reply)
    return made


def _compare_requests(case: Case, theirs: Sequence[str], ours: Sequence[str], found: Found) -> None:
    """Compare what the first request for each sentence and the one after a search hold."""
    theirs_seen = _held(theirs, case, "\nAnswer:")
    ours_seen = _held(ours, case, "So far:")
    for one, other in zip(theirs_seen, ours_seen, strict=True):
        found.add(SO_FAR, one[0], other[0])
        found.add(READ, one[1], other[1])


def _held(requests: Sequence[str], case: Case, mark: str) -> list[tuple[str, list[str]]]:
    """The text so far and the passages of requests, each different one once."""
    held: list[tuple[str, list[str]]] = []
    for request in requests:
        so_far = _plain(request.rpartition(mark)[2].partition("\n\nWrite")[0])
        passages = passages_in(request.replace(TITLE_END, "\n"), case)
        each = (so_far.removeprefix("(nothing)"), passages)
        if not held or held[-1] != each:
            held.append(each)
    return held


def _plain(text: str) -> str:
    """A text with single spaces."""
    return " ".join(text.split())
