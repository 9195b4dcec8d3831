"""BABILong's accuracy (Kuratov et al., NeurIPS 2024; compare_answers of its repository).

accuracy("The most recent location of Mary is mill.", ["mill"], labels=["mill", "barn"])   -> 1.0
accuracy("It is the mill or the barn", ["mill"], labels=["mill", "barn"])                  -> 0.0
accuracy("milk and apple", ["apple,milk"], labels=["apple", "milk", "nothing"])            -> 1.0
"""

from collections.abc import Sequence

from harness.scorers.base import published

scorer = published("booydar/babilong babilong/metrics.py")
_SENTENCE_ENDS = (".", "<context>", "<example>")


@scorer("babilong.accuracy", "the first sentence names the right label of the task, and no other")
def accuracy(prediction: str, references: Sequence[str], *, labels: Sequence[str]) -> float:
    """1.0 where the first sentence of the reply has the same labels as the gold answer, else 0.0.

    ("milk and apple", ["apple,milk"], labels=["apple", "milk", "nothing"]) -> 1.0

    Args:
        prediction: The reply.
        references: The first is the gold answer, labels with commas between them.
        labels: The labels of the task that the question does not name, in lower case.
    """
    first_sentence = prediction.lower()
    for end in _SENTENCE_ENDS:
        first_sentence = first_sentence.partition(end)[0]
    named_labels = {label for label in labels if label in first_sentence}
    gold_labels = set(references[0].lower().split(","))
    return float(named_labels == gold_labels)
