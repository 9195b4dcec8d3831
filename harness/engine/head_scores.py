"""Scores of a model's attention heads over rows with marked evidence
(docs/methods/attention.md#head-lists).

score(head) = mean over questions of the sum of the head's scores of the supporting passages   (QRHead, section 3)
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from harness.cost.meter import Meter
from harness.engine.plan import Plan
from harness.engine.tools import EngineTools, Models
from harness.errors import UserError, WindowExceeded
from harness.types import Document, Support


@dataclass(frozen=True)
class HeadScores:
    """The result of `find_heads`.

    scores [layers, heads]: means over `questions` questions; left_out: questions that could not be
    used; sizes: of the model, by their names in config.json.
    """

    scores: np.ndarray
    questions: int
    left_out: int
    sizes: dict[str, int]

    def best(self, top: int) -> list[tuple[int, int]]:
        """The `top` heads (layer, head) with the highest scores, best first."""
        order = np.argsort(-self.scores, axis=None, kind="stable")[:top]
        return [
            (int(a), int(b))
            for a, b in zip(*np.unravel_index(order, self.scores.shape), strict=True)
        ]


def find_heads(plan: Plan, say: Callable[[str], None]) -> HeadScores:
    """Score all heads of the plan's reader; `say` prints progress. Raises UserError if no question
    can be used."""
    models = Models(plan, say)
    tools = EngineTools(models, Meter(), plan.task, lambda *_: None)
    total, used = np.zeros(()), 0
    for number, example in enumerate(plan.dataset.examples, 1):
        documents = [plan.dataset.documents[name] for name in example.question.document_ids]
        texts, gold = _passages(documents, example.gold.supporting)
        if not any(gold):
            continue
        try:
            scores = plan.method.head_scores(example.question, texts, tools)
        except WindowExceeded:
            continue
        total, used = total + scores[np.array(gold)].sum(0), used + 1
        if not number % 10:
            say(f"{number} of {len(plan.dataset.examples)} questions")
    if not used:
        raise UserError(
            f"no question of '{plan.dataset.name}' has marked passages that fit the window of "
            f"'{plan.config.model.name}' together; name another data set or a larger model.window"
        )
    shape, names = (
        models.model("reader").shape,
        {"hidden_size": "width", "num_hidden_layers": "layers"},
    )
    names |= {
        "num_attention_heads": "heads",
        "num_key_value_heads": "kv_heads",
        "vocab_size": "vocab",
    }
    sizes = {} if shape is None else {name: getattr(shape, field) for name, field in names.items()}
    return HeadScores(total / used, used, len(plan.dataset.examples) - used, sizes)


def _passages(
    documents: list[Document], supporting: tuple[Support, ...]
) -> tuple[list[str], list[bool]]:
    """The texts of all passages of the documents, and for each whether it holds supporting text."""
    texts, gold = [], []
    for document in documents:
        marks = [(s.start, s.end) for s in supporting if s.document_id == document.id]
        for passage in document.passages:
            texts.append(document.text[passage.start : passage.end])
            gold.append(any(a < passage.end and b > passage.start for a, b in marks))
    return texts, gold
