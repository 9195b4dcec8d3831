"""IRCoT: queries, passages and requests of its loop, with the same replies."""

from __future__ import annotations

import difflib
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from bench.parity import Found, import_theirs, stand_in
from bench.parity.rows import Rows
from bench.parity.search_tools import Case, cases, ids_of, passages_in, run_ours, search
from harness.config.layers import Choices
from harness.config.resolve import resolve_method
from harness.engine.completed_method import make_method
from harness.llm.scripted import Rule

PROGRAM = "StonyBrookNLP/ircot"
METHODS = "`ircot-reasoning` (HotpotQA's paragraphs; made-up replies of a sentence each)"
QUERIES = "queries, white space as single spaces"
FOUND = "passages of each search, in order"
READ = "passages in each request"
SO_FAR = "reasoning so far in each request"
ANSWERS = "answers (questions)"
REASONS: dict[str, str] = {}
QUESTIONS = 60
K, MOST = 6, 15


@dataclass
class Server:
    """Stands in for the retriever's server and for the model."""

    case: Case
    replies: list[str]
    queries: list[str] = field(default_factory=list)
    found: list[list[str]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def post(self, _url: str, params: dict[str, Any]) -> Any:
        """The passages of a query."""
        hits = search(self.case, params["query_text"], params["max_hits_count"])
        self.queries.append(params["query_text"])
        self.found.append(ids_of(hits))
        retrieval: list[dict[str, str]] = []
        for hit in hits:
            row = {"title": hit.title, "paragraph_text": hit.text, "corpus_name": "rows"}
            retrieval.append(row)
        return SimpleNamespace(ok=True, json=lambda: {"retrieval": retrieval})

    def generate_text_sequence(self, prompt: str) -> list[tuple[str, float]]:
        """The next reply."""
        self.requests.append(prompt)
        return [(self.replies.pop(0), 0.0)]


@dataclass
class State:
    """Stands in for the state that its participants hand on."""

    data: Any
    next: str = ""

    def copy(self) -> State:
        """The same state, as nothing goes back to an earlier one."""
        return self


class Data(dict[str, Any]):
    """What is known of a question. answer: of the last participant."""

    answer = ""

    def add_answer(self, step: Any) -> None:
        """Keep the answer."""
        self.answer = step.answer


def _one_sentence(text: str) -> Any:
    """Stands in for spaCy: a made-up reply is one sentence."""
    sentences: list[Any] = []
    if text:
        sentences.append(SimpleNamespace(text=text))
    return SimpleNamespace(sents=sentences)


def _ratio(first: str, second: str) -> float:
    """Stands in for rapidfuzz: how alike two texts are, of 100."""
    return 100 * difflib.SequenceMatcher(None, first, second).ratio()


def _title_of(title: str, _text: str) -> str:
    """Stands in for the id of a paragraph, which nothing reads here."""
    return title


def run_theirs(module: Any, case: Case, replies: Sequence[str]) -> tuple[Server, str]:
    """Retrieve and reason in turn, as its configurations of IRCoT for reading do."""
    server = Server(case, list(replies))
    module.safe_post_request = server.post
    module.LLMClientGenerator = mock.Mock(return_value=server)
    retrieve = module.RetrieveAndResetParagraphsParticipant(
        retrieval_type="bm25",
        retriever_host="host",
        retriever_port=1,
        retrieval_count=K,
        query_source="question_or_last_generated_sentence",
        cumulate_titles=True,
        document_type="title_paragraph_text",
        source_corpus_name="rows",
        global_max_num_paras=MOST,
        next_model="reason",
        end_state="end",
    )
    reason = module.StepByStepCOTGenParticipant(
        gen_model="llm_api",
        answer_extractor_regex=".* answer is:? (.*)\\.?",
        terminal_return_type="answer",
        max_num_sentences=10,
        next_model="retrieve",
        end_state="end",
    )
    reason.spacy_object = _one_sentence
    data = Data(question=case.question.text, titles=[], paras=[], metadata={})
    state = State(data, "retrieve")
    while state.next != "end":
        state = {"retrieve": retrieve, "reason": reason}[state.next].query(state)
    return server, data.answer


def made_up_replies(case: Case, dice: random.Random) -> list[str]:
    """Sentences of a reasoning, the last one with an answer; some only conclude."""
    replies: list[str] = []
    for title in dice.sample(case.titles, dice.randint(0, 5)):
        kinds = (
            f"{title} is what the question is about.",
            f"Who is {title}, and where does it stand?",
            f"So it is {title}.",
            f"Therefore, {title} is it.",
            f"In {title} there are 3 + 4 = 7 of them.",
        )
        replies.append(dice.choice(kinds))
    return [*replies, f"So the answer is: {dice.choice(case.titles)}."]


def compare(code: Path, rows: Rows, found: Found) -> None:
    """Compare queries, passages and requests of each question."""
    stand_in("rapidfuzz", "spacy", "dill", "commaqa.inference.prompt_reader")
    stand_in("commaqa.inference.model_search", "commaqa.models.gpt3generator")
    stand_in("commaqa.models.llm_client_generator", "commaqa.inference.dataset_readers")
    sys.modules["commaqa.inference.model_search"].ParticipantModel = object  # type: ignore[attr-defined]
    module = import_theirs(code, "commaqa.inference.ircot")
    module.fuzz.ratio = _ratio
    module.get_pid_for_title_paragraph_text = _title_of
    method = make_method(resolve_method(Choices(method="ircot-reasoning")).value, {})
    dice = random.Random(20261129)
    for case in cases(rows, QUESTIONS):
        replies = made_up_replies(case, dice)
        server, answer = run_theirs(module, case, replies)
        ours = run_ours(method, case, [*replies, Rule(reply="none")])
        found.each(QUERIES, map(_plain, server.queries), map(_plain, ours.queries))
        found.each(FOUND, server.found, ours.found)
        read = [passages_in(request, case) for request in ours.requests]
        found.each(READ, [passages_in(request, case) for request in server.requests], read)
        found.each(SO_FAR, map(_their_reasoning, server.requests), map(_reasoning, ours.requests))
        found.add(ANSWERS, answer, ours.answer)


def _plain(text: str) -> str:
    """A text with single spaces."""
    return " ".join(text.split())


def _their_reasoning(request: str) -> str:
    """The reasoning so far in a request of theirs."""
    return request.rpartition("\nA:")[2].strip()


def _reasoning(request: str) -> str:
    """The reasoning so far in a request of ours; "" where there is none."""
    _, _, text = request.rpartition("Reasoning so far: ")
    reasoning = text.split("\n\n")[0]
    return reasoning.removeprefix("(none)")
