"""Declining as an answer of its own, where a data set marks questions without an answer; this project reads replies.

declines("The paper does not say.", ["Unanswerable"], types=["none", "none"])    -> 1.0    declined rightly
answers("The paper does not say.", ["BERT"], types=["extractive"])               -> 0.0    declined wrongly

A question is to be declined where the row says so (LongMemEval: `declined`) or all its annotators do (Qasper: `types`,
all "none"). Where annotators differ both are right, and it has neither score.
"""

import re
from collections.abc import Sequence

from harness.scorers.base import published

scorer = published("this project")

DECLINES = re.compile(
    r"(\bnot|n't|\bnever|\bno(?!,))\b[^.]{0,40}\b"  # "No, it is known for ..." is an answer
    r"(mention|information|enough|provide|specif|record|say|said|know|state|contain)"
    r"|(cannot|can't|could not|couldn't|unable to)\s+(be\s+)?(answer|determine|find|tell|know)"
    r"|unanswerable|insufficient",
    re.IGNORECASE,
)


def _to_be_declined(declined: bool | None, types: Sequence[str] | None) -> bool | None:
    """Whether a question has no answer, by its row's marks; None where there are none, or annotators differ."""
    if declined is not None or not types:
        return declined
    marks = {kind == "none" for kind in types}
    return marks.pop() if len(marks) == 1 else None


@scorer("abstention.declines", "of questions without an answer: the reply declines")
def declines(
    prediction: str, _references: Sequence[str], *, declined: bool | None = None, types: Sequence[str] | None = None
) -> float | None:
    """1.0 where the reply to a question without an answer declines, else 0.0; None for other questions.

    declined, types: marks of the row (Gold.extra); see the module.
    """
    return float(bool(DECLINES.search(prediction))) if _to_be_declined(declined, types) else None


@scorer("abstention.answers", "of questions with an answer: the reply does not decline")
def answers(
    prediction: str, _references: Sequence[str], *, declined: bool | None = None, types: Sequence[str] | None = None
) -> float | None:
    """0.0 where the reply to a question with an answer declines or is empty, else 1.0; None for other questions.

    declined, types: marks of the row (Gold.extra); see the module.
    """
    if _to_be_declined(declined, types) is not False:
        return None
    return float(bool(prediction.strip()) and not DECLINES.search(prediction))
