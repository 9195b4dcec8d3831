"""Methods that gave almost the same text to all questions.

    one_text(run)        OneText(n_same=50, n_answered=50)        "yes" to all of them

Such a method may score well where most gold answers are that text, and shows nothing of its reading.
"""

from collections import Counter
from typing import NamedTuple

from harness.storage.run_folder import StoredRun

_MIN_SHARE = 0.9
"""Of the answers: so many with one text are almost all."""
_FEWEST_ANSWERS = 10
"""Of fewer answers, most may have one text in any case."""


class OneText(NamedTuple):
    """How many answers have the same text, and how many answers there are."""

    n_same: int
    n_answered: int


def one_text(run: StoredRun) -> OneText | None:
    """How many questions a run answered with one text; None where these are less than 90 % of its
    answers, or the text is empty.

    Records are read until so many texts differ that it cannot be 90 %, mostly a tenth of them.
    """
    n_answered = int(run.columns.answered.sum())
    if n_answered < _FEWEST_ANSWERS:
        return None
    most_others = (1 - _MIN_SHARE) * n_answered
    counts: Counter[str] = Counter()
    for record in run.records_with_texts:
        if record.error is not None:
            continue
        counts[record.prediction.strip()] += 1
        n_others = counts.total() - max(counts.values())
        if n_others > most_others:
            return None
    [(text, n_same)] = counts.most_common(1)
    if not text:
        return None
    return OneText(n_same, n_answered)
