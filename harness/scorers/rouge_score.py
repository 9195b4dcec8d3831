"""ROUGE-L of Google's `rouge_score` package, the one behind Hugging Face `evaluate` (Lin 2004).

    rouge("the cat sat", ["the cat", "a dog"], kind="rougeL")     -> 0.8

F-measure, maximum over the references. Lower case; everything but a-z and 0-9 separates tokens, so text in another
script has none and scores 0. Lsum takes the union of the longest common subsequences over lines.
"""

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from harness.scorers.base import need, published

scorer = published("google-research rouge_score")


@cache
def _scorer(kind: str, stem: bool) -> Any:
    return need("rouge_score.rouge_scorer").RougeScorer([kind], use_stemmer=stem)


def rouge(prediction: str, references: Sequence[str], *, kind: str, stem: bool = False) -> float:
    """F-measure of ROUGE, best over the references. kind: "rougeL" or "rougeLsum"; stem: use the Porter stemmer."""
    if not references:
        return 0.0
    return float(_scorer(kind, stem).score_multi(references, prediction)[kind].fmeasure)


for _name, _summary, _given in (
    ("rougeL", "ROUGE-L", {"kind": "rougeL"}),
    ("rougeL_stem", "ROUGE-L, Porter stemmer", {"kind": "rougeL", "stem": True}),
    ("rougeLsum", "ROUGE-L over lines", {"kind": "rougeLsum"}),
    ("rougeLsum_stem", "ROUGE-L over lines, Porter stemmer", {"kind": "rougeLsum", "stem": True}),
):
    scorer(f"rouge_score.{_name}", _summary, packages=("rouge_score",))(partial(rouge, **_given))
