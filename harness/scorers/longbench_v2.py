"""LongBench v2's accuracy (Bai et al. 2025; pred and result of its repository).

    accuracy("The correct answer is (B).", ["Toren"], gold_label=2)     -> 1.0
    accuracy("B", ["Toren"], gold_label=2)                              -> 0.0   (the sentence must be there)

Asterisks go; of the sentences in the reply the first one counts, one with a bracket before one
without. Everything else is wrong. The leaderboard's "compensated" figure, 0.25 for a reply without
the sentence, is not computed.
"""

import re
from collections.abc import Sequence
from functools import partial
from operator import eq

from harness.scorers.base import only_of_group, published

scorer = published("THUDM/LongBench pred.py, result.py")

_ANSWER_FORMS = (
    re.compile(r"The correct answer is \(([A-D])\)"),
    re.compile(r"The correct answer is ([A-D])"),
)


@scorer("longbench_v2.accuracy", "the reply says 'The correct answer is (X)' with the right letter")
def accuracy(prediction: str, _references: Sequence[str], *, gold_label: int) -> float:
    """1.0 if the reply says "The correct answer is (X)" with the right X, else 0.0.

    A sentence with brackets around the letter counts before one without; asterisks are left out.

    Args:
        prediction: The reply.
        gold_label: The number of the right option, 1 for A.
    """
    reply = prediction.replace("*", "")
    right_letter = "ABCD"[gold_label - 1]
    for form in _ANSWER_FORMS:
        sentence = form.search(reply)
        if sentence is not None:
            return float(sentence.group(1) == right_letter)
    return 0.0


for _level in ("easy", "hard"):
    scorer(f"longbench_v2.accuracy.{_level}", f"accuracy of the {_level} questions")(
        only_of_group(accuracy, "level", partial(eq, _level))
    )
for _length in ("short", "medium", "long"):
    scorer(f"longbench_v2.accuracy.{_length}", f"accuracy of questions on {_length} texts")(
        only_of_group(accuracy, "length_class", partial(eq, _length))
    )
