"""ROUGE-L of Google's `rouge_score` package, the one behind Hugging Face `evaluate` (Lin 2004).

    rouge("the cat sat", ["the cat", "a dog"], kind="rougeL")     -> 0.8

F-measure, maximum over the references. Lower case; everything but a-z and 0-9 separates tokens, so
text in another script has none and scores 0. Lsum takes the union of the longest common
subsequences over lines.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial

from harness.scorers.base import best_score, common_subsequence_length, need, published

scorer = published("google-research rouge_score")


@cache
def _f_measure_of(kind: str, stem: bool) -> Callable[[str, str], float]:
    """A function (prediction, reference) -> F-measure of ROUGE.

    "rougeL" without stems is computed here, as the package's own scorer imports nltk, which is
    slow.

    Args:
        kind: "rouge1", "rouge2", "rougeL" or "rougeLsum".
        stem: Whether words are cut to their stems.
    """
    if kind == "rougeL" and not stem:
        return partial(_rouge_l, need("rouge_score.tokenize").tokenize)
    score = need("rouge_score.rouge_scorer").RougeScorer([kind], use_stemmer=stem).score
    return lambda prediction, reference: float(score(reference, prediction)[kind].fmeasure)


def _rouge_l(tokenize: Callable[[str, None], list[str]], prediction: str, reference: str) -> float:
    """F1 of the longest common subsequence of tokens; 0.0 where no token is common.

    Args:
        tokenize: The package's tokenizer, called as (text, None).
        prediction: The reply.
        reference: The reference.
    """
    tokens = tokenize(prediction, None)
    gold_tokens = tokenize(reference, None)
    n_common = common_subsequence_length(tokens, gold_tokens)
    if not n_common:
        return 0.0
    precision = n_common / len(tokens)
    recall = n_common / len(gold_tokens)
    return 2 * precision * recall / (precision + recall)


def rouge(prediction: str, references: Sequence[str], *, kind: str, stem: bool = False) -> float:
    """F-measure of ROUGE, best over the references.

    Args:
        prediction: The reply.
        references: The accepted answers.
        kind: "rouge1", "rouge2", "rougeL" or "rougeLsum".
        stem: Whether words are cut to their stems (Porter).
    """
    return best_score(_f_measure_of(kind, stem), prediction, references)


for _name, _summary, _options in (
    ("rouge1", "ROUGE-1", {"kind": "rouge1"}),
    ("rouge2", "ROUGE-2", {"kind": "rouge2"}),
    ("rougeL", "ROUGE-L", {"kind": "rougeL"}),
    ("rougeL_stem", "ROUGE-L, Porter stemmer", {"kind": "rougeL", "stem": True}),
    ("rougeLsum", "ROUGE-L over lines", {"kind": "rougeLsum"}),
    ("rougeLsum_stem", "ROUGE-L over lines, Porter stemmer", {"kind": "rougeLsum", "stem": True}),
):
    scorer(f"rouge_score.{_name}", _summary, packages=("rouge_score",))(partial(rouge, **_options))
