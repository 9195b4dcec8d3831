"""RULER's scores (Hsieh et al. 2024; scripts/eval/synthetic of its repository).

share_found("It is 12 and 13.", ["12", "14"])     -> 0.5   (share of the answers in the reply, whatever their case)
any_found("It is 12 and 13.", ["12", "14"])     -> 1.0
"""

from collections.abc import Sequence

from harness.scorers.base import published

scorer = published("NVIDIA/RULER scripts/eval/synthetic/constants.py")


@scorer("ruler.string_match_all", "share of the answers that stand in the reply")
def share_found(prediction: str, references: Sequence[str]) -> float:
    """The share of the answers that stand in the reply, case ignored (RULER's tasks other than
    QA).
    """
    return sum(answer.lower() in prediction.lower() for answer in references) / len(references)


@scorer("ruler.string_match_part", "one of the answers stands in the reply")
def any_found(prediction: str, references: Sequence[str]) -> float:
    """1.0 where one of the answers stands in the reply, case ignored, else 0.0 (RULER's QA
    tasks).
    """
    return float(any(answer.lower() in prediction.lower() for answer in references))
