"""ALCE's correctness on ASQA (Gao et al. 2023; eval.py, compute_str_em): which short answers the
text contains.

    str_em("Handler wrote it", [["Daniel Handler", "Handler"], ["Lemony Snicket"]])   -> 0.5
    str_hit(...)                                                                      -> 0.0   (all of them, or nothing)

References: one list of accepted short answers per sub-question. ALCE prints percent; here 0..1.
"""

from collections.abc import Sequence

from harness.scorers.base import mean, published
from harness.scorers.squad import normalize_answer

scorer = published("princeton-nlp/ALCE eval.py")


@scorer("alce.str_em", "share of sub-questions answered in the text", "short_answers")
def str_em(prediction: str, references: Sequence[Sequence[str]]) -> float:
    """Share of sub-questions answered in the prediction; ScoreError for none. references: accepted
    answers of each."""
    text = normalize_answer(prediction)
    return mean(
        [
            float(any(normalize_answer(answer) in text for answer in answers))
            for answers in references
        ]
    )


@scorer("alce.str_hit", "all sub-questions answered in the text", "short_answers")
def str_hit(prediction: str, references: Sequence[Sequence[str]]) -> float:
    """1.0 where every sub-question has a short answer inside the prediction, else 0.0."""
    return float(str_em(prediction, references) == 1.0)
