"""NoLiMa's score (Modarressi et al., ICML 2025; the metric "contains" of evaluation/async_evaluate.py).

contains("It is Ann.", ["Ann"])      -> 1.0
"""

from collections.abc import Sequence

from harness.scorers.base import published

scorer = published("adobe-research/NoLiMa evaluation/async_evaluate.py")


@scorer("nolima.contains", "the answer stands in the reply, as written")
def contains(prediction: str, references: Sequence[str]) -> float:
    """1.0 where a reference stands in the reply, its case as written, else 0.0."""
    return float(any(reference in prediction for reference in references if reference))
