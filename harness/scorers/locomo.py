"""LoCoMo's score of answers (Maharana et al., ACL 2024; eval_question_answering and
get_cat_5_answer of its repository).

f1("mills, and a barn", ["a barn, the mill"], category=1)          -> 1.0   (each gold part by its best part)
f1("She painted mills", ["painting mills"], category=4)            -> 0.8   (token F1 of stems)
f1("(a)", [..], category=5, options=["Not mentioned ..", "May"])   -> 1.0   (declined)

References of category 3 end before their first ";", as the data set's parser cuts them.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from functools import cache, partial
from operator import eq
from typing import Any

from harness.scorers.base import need, only_of_group, published

scorer = published("snap-research/locomo task_eval/evaluation.py, task_eval/evaluate_gpts.py")

ADVERSARIAL = 5
MULTI_HOP = 1
_ARTICLES = re.compile(r"\b(a|an|the|and)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_DECLINING_REPLY = re.compile("no information available|not mentioned")
_GROUP_OF_CATEGORY = {
    1: "multi_hop",
    2: "temporal",
    3: "open_domain",
    4: "single_hop",
    5: "adversarial",
}


@cache
def _stemmer() -> Any:
    """NLTK's Porter stemmer. Raises CannotRun where NLTK is not installed."""
    return need("nltk.stem.porter").PorterStemmer()


def _stems(text: str) -> list[str]:
    """The stems of a text's words, without punctuation, articles and "and".

    "She painted the mills." -> ["she", "paint", "mill"]
    """
    bare = text.lower().translate(_NO_PUNCTUATION)
    words = _ARTICLES.sub(" ", bare).split()
    return list(map(_stemmer().stem, words))


def _token_f1(prediction: str, reference: str) -> float:
    """F1 of the stems of two texts, each counted as often as it stands in both; 0.0 without
    any.
    """
    predicted_stems = _stems(prediction)
    gold_stems = _stems(reference)
    n_common = (Counter(predicted_stems) & Counter(gold_stems)).total()
    if n_common == 0:
        return 0.0
    precision = n_common / len(predicted_stems)
    recall = n_common / len(gold_stems)
    return 2 * precision * recall / (precision + recall)


def _f1_of_parts(prediction: str, reference: str) -> float:
    """F1 of a list: the best F1 of each part of the reference, between commas, with a part of the
    prediction, averaged over the reference's parts.
    """
    predicted_parts = prediction.split(",")
    gold_parts = reference.split(",")
    sum_of_f1 = 0.0
    for gold_part in gold_parts:
        sum_of_f1 += max(_token_f1(part, gold_part) for part in predicted_parts)
    return sum_of_f1 / len(gold_parts)


def _chosen_text(prediction: str, options: Sequence[str]) -> str:
    """The text of the option that a reply chooses: "(a)" -> the first, "b" -> the second.

    As in the published code, any other reply of one or three characters chooses the second too. A
    reply of another length is returned itself, in small letters.
    """
    reply = prediction.strip().lower()
    first_option, second_option = options
    if reply in ("a", "(a)"):
        return first_option
    if len(reply) in (1, 3):
        return second_option
    return reply


@scorer(
    "locomo.f1",
    "F1 of stems, multi-hop by parts between commas; adversarial ones are to be declined",
    packages=("nltk",),
)
def f1(
    prediction: str,
    references: Sequence[str],
    *,
    category: int,
    options: Sequence[str] = (),
) -> float:
    """Score one answer, 0 to 1: F1 of stems, for category 1 by parts between commas.

    In category 5 the question has no answer: 1.0 where the reply, or the option that it chooses,
    says so.

    Args:
        prediction: The reply.
        references: The first is the gold answer.
        category: 1 to 5.
        options: In category 5, the texts of the options (a) and (b).
    """
    if category == ADVERSARIAL:
        chosen = _chosen_text(prediction, options).lower()
        return float(_DECLINING_REPLY.search(chosen) is not None)
    if category == MULTI_HOP:
        return _f1_of_parts(prediction, references[0])
    return _token_f1(prediction, references[0])


for _category, _name in _GROUP_OF_CATEGORY.items():
    _register = scorer(f"locomo.f1.{_name}", f"locomo.f1, {_name} questions", packages=("nltk",))
    _register(only_of_group(f1, "category", partial(eq, _category)))
