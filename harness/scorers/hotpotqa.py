"""HotpotQA answers and supporting facts (Yang et al. 2018; hotpot_evaluate_v1.py: update_answer,
update_sp, and both together in eval).

    hotpotqa.f1: "yes, he was", ["yes"]                -> 0.0   (yes / no / noanswer must be matched whole)
    hotpotqa.sp_f1: [["A", 0]], [["A", 0], ["B", 1]]   -> 0.667
    hotpotqa.joint_f1: as sp_f1, answer="he was", gold_answer="he"  -> 0.5   (precisions and recalls are multiplied)

The joint scores need predicted facts, which no method here gives: they are for predictions of one's
own (harness.scorers.score). The published code knows one reference per question; of several, the
best counts, each figure on its own.
"""

from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple

from harness.scorers.base import best_score, fact_set, published, set_overlap
from harness.scorers.squad import exact, yes_no_overlap

scorer = published("hotpotqa/hotpot hotpot_evaluate_v1.py")

Facts = Sequence[Sequence[object]]  # [title, sentence index] each
OverlapPart = Literal["f1", "precision", "recall"]
_FactPart = Literal["em", "f1", "precision", "recall"]


@scorer("hotpotqa.em", "exact match")
def em(prediction: str, references: Sequence[str]) -> float:
    """1.0 where the normalised answer equals a normalised reference, else 0.0."""
    return best_score(exact, prediction, references)


def answer_overlap(prediction: str, references: Sequence[str], *, part: OverlapPart) -> float:
    """The overlap of the words of a reply and a gold answer, 0..1, the best over the references.

    A text that reads yes, no or noanswer matches only itself.

    Args:
        prediction: The reply.
        references: The accepted answers.
        part: "f1", "precision" or "recall".
    """
    return best_score(partial(_overlap_with_reference, part=part), prediction, references)


def _overlap_with_reference(prediction: str, reference: str, *, part: OverlapPart) -> float:
    """One figure of the overlap of a reply's words with those of one accepted answer.

    Args:
        prediction: The reply.
        reference: The accepted answer.
        part: "f1", "precision" or "recall".
    """
    return float(getattr(yes_no_overlap(prediction, reference), part))


def fact_overlap(prediction: Facts, references: Facts, *, part: _FactPart) -> float:
    """The overlap of two sets of supporting facts, 0..1.

    Args:
        prediction: The predicted facts, [title, index of the sentence] each.
        references: The gold facts, in the same form.
        part: "em", "f1", "precision" or "recall".
    """
    overlap = set_overlap(fact_set(prediction), fact_set(references))
    return float(getattr(overlap, part))


scorer("hotpotqa.sp_em", "exact match of supporting facts", "facts")(
    partial(fact_overlap, part="em")
)


class _NamedPart(NamedTuple):
    """A part of an overlap: how names of scorers end, the field, and the word in summaries."""

    name: str
    field: OverlapPart
    word: str


_NAMED_PARTS = (
    _NamedPart("f1", "f1", "F1"),
    _NamedPart("prec", "precision", "precision"),
    _NamedPart("recall", "recall", "recall"),
)
for _part in _NAMED_PARTS:
    scorer(f"hotpotqa.{_part.name}", f"token {_part.word} with the yes/no rule")(
        partial(answer_overlap, part=_part.field)
    )
    scorer(f"hotpotqa.sp_{_part.name}", f"{_part.word} of supporting facts", "facts")(
        partial(fact_overlap, part=_part.field)
    )


def joint_overlap(
    prediction: Facts, references: Facts, *, answer: str, gold_answer: str, part: _FactPart
) -> float:
    """The score of an answer and its supporting facts together, 0..1.

    Precision and recall are those of the words times those of the facts; F1 is made of these
    products, and em is 1.0 where both are exact.

    Args:
        prediction: The predicted facts, [title, index of the sentence] each.
        references: The gold facts, in the same form.
        answer: The predicted answer.
        gold_answer: The gold one.
        part: "em", "f1", "precision" or "recall".
    """
    fact_overlaps = set_overlap(fact_set(prediction), fact_set(references))
    if part == "em":
        return exact(answer, gold_answer) * fact_overlaps.em
    word_overlap = yes_no_overlap(answer, gold_answer)
    precision = word_overlap.precision * fact_overlaps.precision
    recall = word_overlap.recall * fact_overlaps.recall
    if part == "precision":
        return precision
    if part == "recall":
        return recall
    if precision + recall == 0:
        return 0.0
    return 2 * precision * recall / (precision + recall)


scorer("hotpotqa.joint_em", "exact match of answer and supporting facts", "facts")(
    partial(joint_overlap, part="em")
)
for _part in _NAMED_PARTS:
    _summary = f"{_part.word} of answer and supporting facts"
    scorer(f"hotpotqa.joint_{_part.name}", _summary, "facts")(
        partial(joint_overlap, part=_part.field)
    )
