"""The score of OOLONG-Pairs (Zhang et al. 2025, section 3: F1 of the listed pairs).

f1("(1, 2)\\n(4, 3)", ["(1, 2)\\n(3, 4)\\n(5, 6)"])   -> 0.8   (both of two are right, one of three is missing)
f1("There are no pairs.", ["no pairs"])              -> 1.0
"""

import re
from collections.abc import Sequence

from harness.scorers.base import published

scorer = published("arXiv:2512.24601")

_PAIR = re.compile(r"\(\s*(\d+)\s*,\s*(\d+)\s*\)")


def _pairs(text: str) -> set[tuple[int, int]]:
    """The pairs of whole numbers in a text, the lower number first: "(1, 2) (4, 3)" -> {(1, 2),
    (3, 4)}.
    """
    pairs = set()
    for first, second in _PAIR.findall(text):
        low, high = sorted((int(first), int(second)))
        pairs.add((low, high))
    return pairs


@scorer("oolong_pairs.f1", "F1 of the pairs (1, 2) in the reply and those of the answer")
def f1(prediction: str, references: Sequence[str]) -> float:
    r"""F1 of the pairs that a reply lists, in whichever order a pair is written; 1.0 where neither
    the reply nor the answer has one.

    ("(1, 2)\n(4, 3)", ["(1, 2)\n(3, 4)\n(5, 6)"]) -> 0.8
    """
    listed_pairs, gold_pairs = _pairs(prediction), _pairs(references[0])
    if not listed_pairs and not gold_pairs:
        return 1.0
    return 2 * len(listed_pairs & gold_pairs) / (len(listed_pairs) + len(gold_pairs))
