"""Find the attention heads of a model that point at evidence, and write them as a list
(docs/methods/attention.md#head-lists).

    python -m bench.heads qrhead --model NAME --dataset hotpotqa --data train.json --out heads.yaml

score(head) = mean over questions of the sum of the head's scores of the supporting passages   (QRHead, section 3)

Questions whose passages do not fit the window or of which none is marked are left out and counted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from harness.config.layers import Choices
from harness.config.registry import method_class
from harness.config.resolve import resolve_method
from harness.config.yaml_tree import parse_assignments
from harness.cost.flops import ModelShape
from harness.cost.meter import Meter
from harness.engine.plan import PlannedRun, plan_choices
from harness.engine.tools import EngineTools, Models
from harness.errors import HarnessError, UserError, WindowExceeded
from harness.llm.backend import check_greedy
from harness.method.abilities import ScoresHeads
from harness.types import Document, Example, Support


@dataclass(frozen=True)
class HeadScores:
    """The result of `find_heads`.

    Attributes:
        scores: Means over the questions [layers, heads].
        questions: Their number.
        left_out: Questions that could not be used.
        shape: Sizes of the model; None where they are unknown.
    """

    scores: np.ndarray
    questions: int
    left_out: int
    shape: ModelShape | None

    def best(self, top: int) -> list[tuple[int, int]]:
        """The `top` heads (layer, head) with the highest scores, best first."""
        order = np.argsort(-self.scores, axis=None, kind="stable")[:top]
        layers, heads = np.unravel_index(order, self.scores.shape)
        return list(zip(layers.tolist(), heads.tolist(), strict=True))

    def sizes(self) -> dict[str, int]:
        """Sizes of the model, by their names in config.json."""
        if self.shape is None:
            return {}
        return {
            "hidden_size": self.shape.width,
            "num_hidden_layers": self.shape.layers,
            "num_attention_heads": self.shape.heads,
            "num_key_value_heads": self.shape.kv_heads,
            "vocab_size": self.shape.vocab,
        }


def find_heads(plan: PlannedRun) -> HeadScores:
    """Score all heads of the plan's reader: the mean over the questions that can be used, which have
    supporting passages that fit the window. Raises UserError if there is no such question."""
    models = Models(plan, say)
    tools = EngineTools(models, Meter(), plan.task, lambda *_: None)
    examples = plan.dataset.examples
    sum_of_scores = np.zeros(())  # becomes [layers, heads] with the first question
    n_used = 0
    for number, example in enumerate(examples, 1):
        scores = _scores_of_question(plan, example, tools)
        if scores is None:
            continue
        sum_of_scores = sum_of_scores + scores
        n_used += 1
        if number % 10 == 0:
            say(f"{number} of {len(examples)} questions")
    if not n_used:
        raise UserError(
            f"no question of '{plan.dataset.name}' has marked passages that fit the window of "
            f"'{plan.config.model.name}' together; name another data set or a larger model.window"
        )
    return HeadScores(
        scores=sum_of_scores / n_used,
        questions=n_used,
        left_out=len(examples) - n_used,
        shape=models.model("reader").shape,
    )


def _scores_of_question(
    plan: PlannedRun, example: Example, tools: EngineTools
) -> np.ndarray | None:
    """The scores of all heads in one question, [layers, heads]: summed over its supporting
    passages. None where it has none, or its passages do not fit the window.

    Args:
        plan: The plan, with the method and the documents.
        example: The question.
        tools: What the method asks the model with.
    """
    documents = [plan.dataset.documents[name] for name in example.question.document_ids]
    passages = _passages(documents, example.gold.supporting)
    supporting = np.array([passage.is_supporting for passage in passages], dtype=bool)
    if not supporting.any():
        return None
    texts = [passage.text for passage in passages]
    try:
        scores = plan.method.head_scores(example.question, texts, tools)
    except WindowExceeded:
        return None
    return np.asarray(scores[supporting].sum(0))


@dataclass(frozen=True)
class _Passage:
    """A passage of a question's documents.

    Args:
        text: Its text.
        is_supporting: Whether a supporting span lies in it, at least in part.
    """

    text: str
    is_supporting: bool


def _passages(documents: list[Document], supporting: tuple[Support, ...]) -> list[_Passage]:
    """All passages of some documents, in order, each with whether a supporting span overlaps it.

    Args:
        documents: The documents.
        supporting: The supporting spans.
    """
    passages: list[_Passage] = []
    for document in documents:
        supporting_spans = [
            (support.start, support.end)
            for support in supporting
            if support.document_id == document.id
        ]
        for passage in document.passages:
            overlaps_supporting_span = any(
                start < passage.end and end > passage.start for start, end in supporting_spans
            )
            text = document.text[passage.start : passage.end]
            passages.append(_Passage(text, overlaps_supporting_span))
    return passages


def say(text: str) -> None:
    """Print a line of progress on stderr."""
    print(text, file=sys.stderr, flush=True)


def planned(options: argparse.Namespace) -> PlannedRun:
    """Plan a run of the method with all heads in its list. Raises UserError for a method without a
    list of heads."""
    settings = {**parse_assignments(options.sets, "--set "), "sample_seed": options.seed}
    choices = Choices(
        options.method,
        options.dataset,
        data=options.data,
        model=options.model,
        sample=options.sample,
        seed=options.seed,
        sets=settings,
    )
    method = method_class(resolve_method(choices).value.implementation)
    if not isinstance(method, ScoresHeads):
        raise UserError(
            f"'{options.method}' uses no list of attention heads; name a method that does, such as "
            "qrhead"
        )
    all_heads = {**settings, f"method.{method.heads_field}": "all"}
    plan = plan_choices(replace(choices, sets=all_heads))
    check_greedy(plan.config.model, "a model whose heads are ranked")
    return plan


def write_heads(plan: PlannedRun, found: HeadScores, top: int, out: Path) -> None:
    """Write the best heads as a list, and print them.

    Args:
        plan: The plan, which is named in the file.
        found: The scores of all heads.
        top: How many heads.
        out: The file.
    """
    config = plan.config
    best = found.best(top)
    names = [f"{layer}-{head}" for layer, head in best]
    source = f"bench.heads {config.method.name}, {found.questions} questions, seed "
    values = {
        "source": f"{source}{config.sample_seed}",
        "found_on": config.dataset.name,
        "model": {
            "name": config.model.name,
            **found.sizes(),
            "weights": plan.identities["reader"].get("weights"),
        },
        "heads": names,
        "scores": [round(float(found.scores[head]), 6) for head in best],
    }
    lines = [f"{key}: {json.dumps(value)}\n" for key, value in values.items()]
    out.write_text("".join(lines), encoding="utf-8")
    print(f"{out}: {', '.join(names)}  ({found.questions} questions, {found.left_out} left out)")


def main(arguments: Sequence[str] | None = None) -> None:
    """Find heads as the command line says; ends with code 2 for a mistake."""
    parser = argparse.ArgumentParser(prog="python -m bench.heads", description=__doc__)
    parser.add_argument("method", help="a method that ranks by attention heads (qrhead)")
    parser.add_argument("--model", required=True, help="model whose heads are scored")
    parser.add_argument("--dataset", required=True, help="data set with supporting passages")
    parser.add_argument("--data", help="its rows, if not from the hub")
    parser.add_argument("--out", required=True, type=Path, help="file to write")
    parser.add_argument("--sample", type=int, default=128, help="questions, drawn by the seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--top", type=int, default=16, help="heads of the list")
    parser.add_argument("--set", dest="sets", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args(arguments)
    try:
        plan = planned(options)
        write_heads(plan, find_heads(plan), options.top, options.out)
    except (HarnessError, OSError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
