"""ALCE's correctness on ASQA and QAMPARI (Gao et al. 2023; eval.py, compute_str_em and
compute_qampari_f1): which short answers the text contains, and how well it lists them.

    str_em("Handler wrote it", [["Daniel Handler", "Handler"], ["Lemony Snicket"]])   -> 0.5
    str_hit(...)                                                                      -> 0.0   (all of them, or nothing)

    qampari_f1("Ada [1], Cy [2].", [["Ada"], ["Bo"]])                                 -> 0.5

With `.uncited`, and for QAMPARI, citations such as [1] are taken out first, as HELMET's
eval_alce.py does. References: one list of accepted short answers per sub-question. ALCE prints percent; here 0..1.
"""

import re
from collections.abc import Sequence
from functools import partial

from harness.scorers.base import mean, published
from harness.scorers.flashrag import acc
from harness.scorers.squad import normalize_answer

scorer = published("princeton-nlp/ALCE eval.py")


@scorer("alce.str_em", "share of sub-questions answered in the text", "short_answers")
def str_em(prediction: str, references: Sequence[Sequence[str]]) -> float:
    """The share of sub-questions of which an accepted answer stands in the reply (STR-EM).

    Args:
        prediction: The reply.
        references: The accepted answers of each sub-question.

    Raises:
        ScoreError: There is no sub-question.
    """
    return mean([acc(prediction, answers) for answers in references])


@scorer("alce.str_hit", "all sub-questions answered in the text", "short_answers")
def str_hit(prediction: str, references: Sequence[Sequence[str]]) -> float:
    """1.0 where every sub-question has an accepted answer in the reply, else 0.0.

    Args:
        prediction: The reply.
        references: The accepted answers of each sub-question.
    """
    return float(str_em(prediction, references) == 1.0)


def without_citations(text: str) -> str:
    """A text on one line without citations: "Ada [1][2]. |" -> "Ada.".

    ALCE's remove_citations: it deletes every " |" and "]" as well, also outside of citations.
    """
    line = re.sub(r"\n+", " ", text)
    line = re.sub(r" \[\d+", "", line)
    line = re.sub(r"\[\d+", "", line)
    line = line.replace(" |", "")
    return line.replace("]", "")


@scorer("alce.str_em.uncited", "alce.str_em of the text without citations", "short_answers")
def str_em_uncited(prediction: str, references: Sequence[Sequence[str]]) -> float:
    """`str_em` of the reply without its citations, "[1]".

    Args:
        prediction: The reply.
        references: The accepted answers of each sub-question.
    """
    return str_em(without_citations(prediction), references)


def qampari_f1(
    prediction: str, references: Sequence[Sequence[str]], *, enough: int | None = None
) -> float:
    """F1, 0 to 1, of the answers that a reply lists between commas; citations are taken out first.

    Precision is over the listed answers, recall over the references; both go by normalised texts.

    ("Ada [1], Cy [2].", [["Ada"], ["Bo"]]) -> 0.5

    Args:
        prediction: The reply, "Ada, Bo."
        references: The accepted texts of each answer.
        enough: So many found answers are a recall of 1; None: all.
    """
    parts = without_citations(prediction).rstrip().rstrip(".").rstrip(",").split(",")
    listed_answers = list(filter(None, map(normalize_answer, parts)))
    all_accepted: set[str] = set()
    n_found_references = 0
    for answers in references:
        accepted = set(map(normalize_answer, answers))
        all_accepted |= accepted
        if not accepted.isdisjoint(listed_answers):
            n_found_references += 1
    right_answers = [answer for answer in listed_answers if answer in all_accepted]
    if not right_answers:
        return 0.0
    n_needed = min(enough or len(references), len(references))
    precision = len(right_answers) / len(listed_answers)
    recall = min(n_found_references, n_needed) / n_needed
    return 2 * precision * recall / (precision + recall)


scorer("alce.qampari_f1", "F1 of the listed answers", "short_answers")(qampari_f1)
scorer("alce.qampari_f1_top5", "F1 of the listed answers, five are enough", "short_answers")(
    partial(qampari_f1, enough=5)
)
