"""A score of LongMemEval's answers without a judge; the published score is a judge's
(configs/judges/longmemeval.yaml).

match("You moved there in May, so 3 months.", ["3 months"], type="temporal-reasoning")     -> 1.0
match("You did not mention a car.", ["..."], type="multi-session", declined=True)          -> 1.0
match("Try the Sony lenses.", ["The user would ..."], type="single-session-preference")    -> None: a rubric
"""

from collections.abc import Sequence
from functools import partial
from operator import eq

from harness.scorers.abstention import DECLINING_REPLY
from harness.scorers.base import only_of_group, published
from harness.scorers.flashrag import acc
from harness.scorers.squad import normalize_answer

scorer = published("this project")
# Of "match": 2 compares an answer such as "$" whole; 3 has what declines in abstention.py.
VERSION = "3"

RUBRIC = "single-session-preference"
_TYPES = (
    "single-session-user",
    "single-session-assistant",
    "multi-session",
    "temporal-reasoning",
    "knowledge-update",
)


@scorer(
    "longmemeval.match",
    "the answer stands in the reply, or the reply declines where it should; no rubrics",
    version=VERSION,
)
def match(
    prediction: str,
    references: Sequence[str],
    *,
    type: str | None = None,  # noqa: A002 - the name in Gold.extra, as kinds of questions have it
    declined: bool = False,
) -> float | None:
    """1.0 where an accepted answer, normalised, stands in the normalised reply, else 0.0.

    An answer of which normalising leaves nothing ("A", "$") is to be the whole reply.

    Args:
        prediction: The reply.
        references: The accepted answers.
        type: The kind of question; None is returned for the one that has a rubric instead of an
            answer, "single-session-preference".
        declined: Whether the question cannot be answered: then a reply is right that says that
            something is not known or mentioned.
    """
    if declined:
        return float(DECLINING_REPLY.search(prediction) is not None)
    if type == RUBRIC:
        return None
    if any(prediction.strip() == answer.strip() for answer in references):
        return 1.0
    answers_with_words = [answer for answer in references if normalize_answer(answer)]
    return acc(prediction, answers_with_words)


for _type in _TYPES:
    matched = only_of_group(match, "type", partial(eq, _type))
    scorer(f"longmemeval.match.{_type}", f"the same of {_type} questions", version=VERSION)(matched)
scorer("longmemeval.match.abstention", "the same of questions to be declined", version=VERSION)(
    only_of_group(match, "declined", bool)
)
