"""Declining as an answer of its own, where a data set marks questions without an answer; this
project reads replies.

declines("The paper does not say.", ["Unanswerable"], types=["none", "none"])    -> 1.0    declined rightly
answers("The paper does not say.", ["BERT"], types=["extractive"])               -> 0.0    declined wrongly

A question is to be declined where the row says so (`declined` of LongMemEval and MuSiQue-Full,
`answer_type` of made-up papers) or all its annotators do (`types` of Qasper; else the gold answers,
"unanswerable" in LongBench's Qasper). Where annotators differ both are right, and it has neither
score.
"""

import re
from collections.abc import Sequence

from harness.scorers.base import published

scorer = published("this project")

_NEGATION = r"(?:\bnot|n't|\bnever)\b"
_INFORMATION = r"(?:information|details?|context)"
DECLINING_REPLY = re.compile(
    rf"{_NEGATION}(?:\W+\w+){{0,4}}?\W+(?:mention\w*|specif\w+|provided?|recorded|say|said|state[sd]?|known?|contain)\b"
    rf"|(?:{_NEGATION}[^.]{{0,40}}|\bno\s+(?:\w+\s+){{0,2}}|insufficient\s+)\b(?:{_INFORMATION}|mention)\b"
    rf"|\b{_INFORMATION}\b[^.]{{0,40}}{_NEGATION}\s+(?:enough|sufficient|available)"
    r"|(?:\bno|n't\b[^.]{0,20}\bany|not\b[^.]{0,20}\ba)\s+records?\s+(?:of|that|about)\b"  # not "no record label"
    r"|(?:cannot|can't|could not|couldn't|unable to)\s+(?:be\s+)?"
    r"(?:answer|determin|known?\b|tell\s+(?:from|if|wh|how)|f(?:i|ou)nd\b(?:[^.]{0,40}\b(?:answer|text|paper)|\W*$))"
    r"|unanswerable|^\W*(?:unknown|n/a)\W*$",
    re.IGNORECASE,
)


def _should_decline(
    declined: bool | None, types: Sequence[str], references: Sequence[str]
) -> bool | None:
    """Whether a question has no answer, so that a reply should decline; None where annotators
    differ.

    Args:
        declined: What the row says itself; None where it says nothing.
        types: The kind of answer of each annotator, "none" for no answer; "" is passed over.
        references: The gold answers, looked at where there are no types: "unanswerable" is none.
    """
    if declined is not None:
        return declined
    says_no_answer = {kind == "none" for kind in types if kind}
    if not says_no_answer:
        says_no_answer = {
            reference.strip(" .").lower() == "unanswerable" for reference in references
        }
    if len(says_no_answer) != 1:
        return None
    return says_no_answer.pop()


@scorer(
    "abstention.declines",
    "of questions without an answer: the reply declines",
    version="3",
    needs_answers=False,
)
def declines(
    prediction: str,
    references: Sequence[str],
    *,
    declined: bool | None = None,
    types: Sequence[str] = (),
    answer_type: str = "",
) -> float | None:
    """1.0 where the reply to a question without an answer declines, else 0.0.

    None for a question that has an answer, or of which annotators differ.

    Args:
        prediction: The reply.
        references: The accepted answers.
        declined: Whether the row says that the question has no answer; None where it does not say
            so.
        types: The kind of answer of each annotator, "none" for no answer.
        answer_type: The kind of answer, where there is one annotator.
    """
    to_decline = _should_decline(declined, [*types, answer_type], references)
    if not to_decline:
        return None
    return float(bool(DECLINING_REPLY.search(prediction)))


@scorer(
    "abstention.answers",
    "of questions with an answer: the reply does not decline",
    version="3",
    needs_answers=False,
)
def answers(
    prediction: str,
    references: Sequence[str],
    *,
    declined: bool | None = None,
    types: Sequence[str] = (),
    answer_type: str = "",
) -> float | None:
    """0.0 where the reply to a question with an answer declines or is empty, else 1.0.

    None for a question without an answer, or of which annotators differ.

    Args:
        prediction: The reply.
        references: The accepted answers.
        declined: Whether the row says that the question has no answer; None where it does not say
            so.
        types: The kind of answer of each annotator, "none" for no answer.
        answer_type: The kind of answer, where there is one annotator.
    """
    if _should_decline(declined, [*types, answer_type], references) is not False:
        return None
    return float(bool(prediction.strip()) and not DECLINING_REPLY.search(prediction))
