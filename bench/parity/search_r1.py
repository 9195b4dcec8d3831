"""Search-R1: every request of its loop, queries and passages, with the same replies."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from bench.parity import Found, import_theirs, stand_in
from bench.parity.rows import Rows
from bench.parity.search_tools import Case, cases, ids_of, run_ours, search
from harness.config.layers import Choices
from harness.config.resolve import resolve_method, resolve_model
from harness.engine.completed_method import make_method
from harness.llm.model_info import find_or_download
from harness.method import Method

PROGRAM = "PeterGriffinJin/Search-R1"
METHODS = "`search-r1-released` (HotpotQA's paragraphs; made-up replies, SmolLM2's tokens)"
REQUESTS = "requests: the prompt with the reply so far"
QUERIES = "queries"
PASSAGES = "passages of each search, in order"
BROKEN = "requests after a reply with a query and an answer, or tags that do not match"
REASONS = {
    BROKEN: "it reads the first pair of tags of a part, ours the query that the part ends with; kept",
}
QUESTIONS = 60
LONG = 1_000_000


@dataclass
class Batch:
    """Stands in for verl's DataProto: tensors by name."""

    batch: dict[str, torch.Tensor]
    meta_info: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, tensors: dict[str, torch.Tensor]) -> Batch:
        return cls(tensors)


@dataclass
class Actor:
    """Stands in for the model: gives the replies in order, and keeps the requests."""

    tokenizer: Any
    replies: list[str]
    requests: list[str] = field(default_factory=list)

    def generate_sequences(self, request: Batch) -> Batch:
        (tokens,) = request.batch["input_ids"]
        read = tokens[tokens != self.tokenizer.pad_token_id]
        self.requests.append(self.tokenizer.decode(read))
        reply = self.tokenizer(self.replies.pop(0), return_tensors="pt")
        return Batch({"responses": reply["input_ids"]})


@dataclass
class Theirs:
    """The released loop with a stand-in for its model and search."""

    module: Any
    tokenizer: Any
    case: Case
    queries: list[str] = field(default_factory=list)
    found: list[list[str]] = field(default_factory=list)

    def requests(self, prompt: str, replies: Sequence[str]) -> list[str]:
        """All requests for a question."""
        config = self.module.GenerationConfig(
            max_turns=4,
            max_start_length=LONG,
            max_prompt_length=LONG,
            max_response_length=LONG,
            max_obs_length=LONG,
            num_gpus=1,
        )
        actor = Actor(self.tokenizer, list(replies))
        loop = self.module.LLMGenerationManager(self.tokenizer, actor, config)
        loop._batch_search = self.search
        tokens = self.tokenizer(prompt, return_tensors="pt")["input_ids"]
        mask = torch.ones_like(tokens)
        positions = loop.tensor_fn.create_position_ids(mask)
        names = ("input_ids", "attention_mask", "position_ids")
        given = dict(zip(names, (tokens, mask, positions), strict=True))
        loop.run_llm_loop(Batch(given), tokens)
        return actor.requests

    def search(self, queries: Sequence[str]) -> dict[str, Any]:
        """What its server replies."""
        result: list[list[Any]] = []
        for query in queries:
            hits = search(self.case, query, 3)
            self.queries.append(query)
            self.found.append(ids_of(hits))
            result.append([{"document": {"contents": hit.titled_text}} for hit in hits])
        return {"result": result}


def made_up_replies(case: Case, dice: random.Random) -> list[str]:
    """Parts of a reply: queries, parts without tags, and perhaps an answer."""
    replies: list[str] = []
    for _ in range(dice.randint(0, 4)):
        query = " ".join(dice.choices(case.question.text.split(), k=3))
        title = dice.choice(case.titles)
        kinds = (
            f"<think>about {title}</think>\n<search>{query}</search> and more",
            f"<search> {title} </search>\n\n",
            f"I reason about {title}.",
        )
        replies.append(dice.choice(kinds))
    replies.append("<think>done</think> <answer> yes </answer> and more")
    return replies


def broken_replies(case: Case, dice: random.Random) -> list[str]:
    """Parts with tags in a wrong order, then an answer."""
    title = dice.choice(case.titles)
    kinds = (
        f"<search>{title} <search>{case.question.text}</search>",
        f"{title}</search> then",
        f"<answer>{title}</answer> <search>{title}</search>",
        f"<answer>{title} <search>{title}</search>",
    )
    return [dice.choice(kinds), "<answer>yes</answer>"]


def compare(code: Path, rows: Rows, found: Found) -> None:
    """Compare made-up replies to each question, then those whose tags are broken."""
    stand_in("verl", "verl.utils", "verl.utils.tracking")
    module = import_theirs(code, "search_r1.llm_agent.generation")
    module.DataProto = Batch
    folder = find_or_download(resolve_model(Choices(model="smollm2-135m")).value).folder
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"pad_token": "<|pad|>"})
    method = make_method(resolve_method(Choices(method="search-r1-released")).value, {})
    dice = random.Random(20261129)
    for case in cases(rows, QUESTIONS):
        theirs = Theirs(module, tokenizer, case)
        _compare_case(method, theirs, made_up_replies(case, dice), REQUESTS, found)
        theirs = Theirs(module, tokenizer, case)
        _compare_case(method, theirs, broken_replies(case, dice), BROKEN, found)


def _compare_case(
    method: Method, theirs: Theirs, replies: Sequence[str], stage: str, found: Found
) -> None:
    """Compare a question's requests, queries and passages."""
    ours = run_ours(method, theirs.case, replies)
    prompt = ours.requests[0]
    sent = theirs.requests(prompt, replies)
    expected = [prompt]
    for request in ours.requests[1:]:
        reply = request.removeprefix(f"{prompt}\n")
        expected.append(prompt + reply)
    for theirs_sent, ours_sent in zip_longest(sent, expected):
        found.add(stage, theirs_sent, ours_sent)
    if stage == REQUESTS:
        found.each(QUERIES, theirs.queries, ours.queries)
        found.each(PASSAGES, theirs.found, ours.found)
