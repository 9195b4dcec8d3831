"""Real rows that pairs compare on: the folder HARNESS_TEST_DATA, as the tests and `make demo-real`
use it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from statistics import mean
from typing import Any

from bench.parity import Found
from harness.config.layers import Choices
from harness.config.resolve import resolve_dataset, resolve_encoder, resolve_model
from harness.cost.meter import Meter
from harness.datasets import Dataset, load
from harness.embed.load import load_encoder
from harness.llm.backend import load_model
from harness.method import Task
from harness.models import LanguageModel, MeteredModel
from harness.scorers import score
from methods.reading import ask
from tests.methods.conftest import FakeTools

QUESTIONS = 20
FILES = {
    "hotpotqa": "hotpotqa/hotpot_dev_distractor_sample.json",
    "musique": "musique/musique_ans_v1.0_dev_sample.jsonl",
    "longbench/hotpotqa": "longbench/hotpotqa.jsonl",
}


class Rows:
    """Data sets and models, loaded once."""

    folder = Path(os.environ.get("HARNESS_TEST_DATA", ".")) / "data"

    def dataset(self, name: str = "hotpotqa", limit: int = QUESTIONS) -> Dataset:
        """The first rows of a data set. Raises DataError where HARNESS_TEST_DATA does not hold
        it."""
        return load(
            resolve_dataset(Choices(dataset=name, data=str(self.folder / FILES[name]))).value, limit
        )

    def texts(self, name: str = "hotpotqa", limit: int = QUESTIONS) -> list[tuple[str, str]]:
        """(question, its document's text) of the first rows."""
        rows = self.dataset(name, limit)
        return [
            (e.question.text, rows.documents[e.question.document_ids[0]].text)
            for e in rows.examples
        ]

    @cached_property
    def smollm2(self) -> LanguageModel:
        """SmolLM2-135M as it was published, float32 on the CPU."""
        return load_model(
            resolve_model(Choices(model="smollm2-135m", sets={"model.dtype": "float32"})).value
        )

    @property
    def metered(self) -> MeteredModel:
        """SmolLM2-135M as a method gets it, metered."""
        return MeteredModel(self.smollm2, Meter("index"), "builder")

    @cached_property
    def encoder(self) -> Any:
        """MiniLM, the sentence encoder."""
        return load_encoder(
            resolve_encoder(Choices(sets={"encoder": "minilm"})).value, Meter("search"), "encoder"
        )

    @cached_property
    def reader(self) -> LanguageModel:
        """SmolLM2-135M with the adapter that reads, in bfloat16."""
        return load_model(resolve_model(Choices(model="smollm2-135m-reader")).value)

    def tools(self) -> FakeTools:
        """What a method gets to answer HotpotQA's questions with SmolLM2 in every role."""
        tools = FakeTools(similarity=self.encoder, reader=self.reader, builder=self.reader)
        config = resolve_dataset(Choices(dataset="hotpotqa")).value
        tools.task = Task(
            instruction=config.instruction, max_answer_tokens=config.max_answer_tokens
        )
        return tools

    def read(self, texts: Sequence[str]) -> list[str]:
        """The answers to the first questions of HotpotQA, each from its text."""
        return [self._reply(number, text) for number, text in enumerate(texts)]

    @cache  # noqa: B019 - one Rows a process
    def _reply(self, number: int, text: str) -> str:
        """SmolLM2's reply to the question of this number over a text; without one where the text is
        empty."""
        tools = self.tools()
        question = self.dataset().examples[number].question
        return ask(question, [text] if text else [], tools, tools.model())

    def answers(self, found: Found, name: str, theirs: Sequence[str], ours: Sequence[str]) -> None:
        """Store at stage `name` how many answers to HotpotQA's first questions are equal, and the
        F1 of both."""
        gold = [e.gold.answers for e in self.dataset(limit=len(ours)).examples]
        f1 = [
            100
            * mean(
                score("hotpotqa.f1", answer, golds)
                for answer, golds in zip(answers, gold, strict=True)
            )
            for answers in (theirs, ours)
        ]
        equal = sum(a == b for a, b in zip(theirs, ours, strict=True))
        found[name].answers = f"{equal} of {len(gold)}; F1 {f1[0]:.1f} / {f1[1]:.1f}"
