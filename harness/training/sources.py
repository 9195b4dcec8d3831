"""A data set's questions and documents as items to label, and the models that label them.

    for key, question, documents in items(dataset, "question", most=10_000): ...

Gold answers are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from harness.cost.meter import Meter
from harness.method import Task
from harness.models import LanguageModel, MeteredModel

if TYPE_CHECKING:
    from harness.datasets.base import Dataset
    from harness.training.data import Item


def items(dataset: Dataset, per: Literal["question", "document"], most: int) -> Iterator[Item]:
    """The first `most` questions with their documents, or those questions' documents, each text once."""
    seen: set[str] = set()
    for example in dataset.examples[:most]:
        question = example.question
        documents = [dataset.documents[i] for i in question.document_ids]
        if per == "question":
            yield question.id, question, documents
            continue
        for document in documents:
            if document.text not in seen:
                seen.add(document.text)
                yield document.id, None, [document]


@dataclass
class Models:
    """Implements harness.method.Labelling; a model is loaded at its first use."""

    task: Task
    load_teacher: Callable[[], LanguageModel]
    load_base: Callable[[], LanguageModel]
    meter: Meter = field(default_factory=Meter)
    _loaded: dict[str, LanguageModel] = field(default_factory=dict)

    def teacher(self) -> MeteredModel:
        """The model whose replies are the labels."""
        return self._metered("teacher", self.load_teacher)

    def base(self) -> MeteredModel:
        """The model that is trained, with the adapters of the tasks before."""
        return self._metered("refiner", self.load_base)

    def _metered(self, role: str, load: Callable[[], LanguageModel]) -> MeteredModel:
        if role not in self._loaded:
            self._loaded[role] = load()
        return MeteredModel(self._loaded[role], self.meter, role)
