"""Real rows that pairs compare on: the folder HARNESS_TEST_DATA, as the tests and `make demo-real` use it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from bench.parity import Stage, stage
from harness.config.resolve import part
from harness.cost.meter import Meter
from harness.datasets import Dataset, load
from harness.llm.load import load_model
from harness.method import Task
from harness.models import LanguageModel, MeteredModel
from harness.scorers import score_record
from methods.reading import ask
from tests.methods.conftest import FakeTools

FILES = {
    "hotpotqa": "hotpotqa/hotpot_dev_distractor_sample.json",
    "musique": "musique/musique_ans_v1.0_dev_sample.jsonl",
    "longbench/hotpotqa": "longbench/hotpotqa.jsonl",
}


class Rows:
    """Data sets and SmolLM2, loaded once."""

    folder = Path(os.environ.get("HARNESS_TEST_DATA", ".")) / "data"

    def dataset(self, name: str, limit: int) -> Dataset:
        """The first rows of a data set. Raises DataError where HARNESS_TEST_DATA does not hold it."""
        return load(part("datasets", dataset=name, data=str(self.folder / FILES[name])), limit)

    def texts(self, name: str, limit: int) -> list[tuple[str, str]]:
        """(question, its documents' text) of the first rows."""
        rows = self.dataset(name, limit)
        joined = ("\n\n".join(rows.documents[d].text for d in e.question.document_ids) for e in rows.examples)
        return [(e.question.text, text) for e, text in zip(rows.examples, joined, strict=True)]

    @cached_property
    def smollm2(self) -> LanguageModel:
        """SmolLM2-135M as it was published, float32 on the CPU."""
        return load_model(part("models", model="smollm2-135m-base", sets={"model.dtype": "float32"}))

    def tools(self, encoder: Any = None) -> FakeTools:
        """What a method gets to answer HotpotQA's questions with SmolLM2 in every role."""
        tools = FakeTools(similarity=encoder, reader=self.reader, builder=self.reader)
        config = part("datasets", dataset="hotpotqa")
        tools.task = Task(instruction=config.instruction, max_answer_tokens=config.max_answer_tokens)
        return tools

    def read(self, texts: Sequence[str]) -> list[str]:
        """The answers to the first questions of HotpotQA, each from its text."""
        tools, examples = self.tools(), self.dataset("hotpotqa", len(texts)).examples
        pairs = zip(examples, texts, strict=True)
        return [ask(e.question, [text] if text else [], tools, tools.model()) for e, text in pairs]

    def answers(self, what: str, theirs: Sequence[str], ours: Sequence[str], settled: str = "") -> Stage:
        """What a difference changes: the answers to the first questions of HotpotQA, and their F1."""
        gold = [e.gold for e in self.dataset("hotpotqa", len(ours)).examples]
        scored = [
            [score_record(["hotpotqa.f1"], a, (), g).scores["hotpotqa.f1"] for a, g in zip(found, gold, strict=True)]
            for found in (theirs, ours)
        ]
        means = [100 * sum(scores) / len(scores) for scores in scored]
        told = f"F1 {means[0]:.1f} with theirs, {means[1]:.1f} with ours"
        return stage(f"{what}: answers of SmolLM2 (questions)", theirs, ours, told, settled)

    @cached_property
    def reader(self) -> LanguageModel:
        """SmolLM2-135M with the adapter that reads, in bfloat16."""
        return load_model(part("models", model="smollm2-135m"))

    @property
    def metered(self) -> MeteredModel:
        """The same, as a method gets it."""
        return MeteredModel(self.smollm2, Meter("index"), "builder")
