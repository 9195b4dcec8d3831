"""2WikiMultihopQA (Ho et al. 2020; 2wikimultihop_evaluate_v1.1.py): HotpotQA's answer rules, best
over answer aliases.

sp_f1([["a", 0]], [["A", 0]])   -> 1.0   (titles are compared in lower case)
"""

from functools import partial

from harness.scorers.base import SetOverlap, fact_set, published, set_overlap
from harness.scorers.hotpotqa import Facts, answer_overlap, em

scorer = published("Alab-NII/2wikimultihop 2wikimultihop_evaluate_v1.1.py")
scorer("2wikimultihopqa.f1", "token F1 with the yes/no rule")(partial(answer_overlap, part="f1"))
scorer("2wikimultihopqa.em", "exact match")(em)


def sp_overlap(prediction: Facts, gold: Facts) -> SetOverlap:
    """The overlap of two sets of supporting facts, with titles in lower case.

    Args:
        prediction: The predicted facts, [title, index of the sentence] each.
        gold: The gold facts, in the same form.
    """
    return set_overlap(_facts_with_lower_titles(prediction), _facts_with_lower_titles(gold))


def _facts_with_lower_titles(listed_facts: Facts) -> set[tuple[str, int]]:
    """Supporting facts as a set with titles in lower case: [["Ada", 0]] -> {("ada", 0)}."""
    return {(title.lower(), index) for title, index in fact_set(listed_facts)}


@scorer("2wikimultihopqa.sp_em", "exact match of supporting facts, titles in lower case", "facts")
def sp_em(prediction: Facts, references: Facts) -> float:
    """1.0 where the sets of supporting facts are equal, titles in lower case, else 0.0."""
    return sp_overlap(prediction, references).em


@scorer("2wikimultihopqa.sp_f1", "F1 of supporting facts, titles in lower case", "facts")
def sp_f1(prediction: Facts, references: Facts) -> float:
    """F1 of the sets of supporting facts, titles in lower case."""
    return sp_overlap(prediction, references).f1
