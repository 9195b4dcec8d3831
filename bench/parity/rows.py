"""Real rows that pairs compare on: the folder HARNESS_TEST_DATA, as the tests and `make demo-real` use it."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path

from harness.config.resolve import part
from harness.cost.meter import Meter
from harness.datasets import Dataset, load
from harness.llm.load import load_model
from harness.models import LanguageModel, MeteredModel

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

    @property
    def metered(self) -> MeteredModel:
        """The same, as a method gets it."""
        return MeteredModel(self.smollm2, Meter("index"), "builder")
