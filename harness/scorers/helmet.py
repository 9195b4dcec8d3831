"""HELMET's scores of short answers (Yen et al., ICLR 2025; `calculate_metrics` and
`default_post_process` of its repository).

    f1("Answer: Paris", ["Paris"])                     -> 1.0   (the whole reply gives 0.667, the parsed one 1.0)
    f1("no, it was not", ["no"])                       -> 0.0   (yes, no and noanswer match only themselves)
    parsed("It is so.\\nanswer: Paris\\nOr Rome")        -> "Paris"

Each score is taken of the whole reply and of the answer parsed out of it, and the larger one counts.
With `.first_line`, the reply ends at its first line break, where generation stops in HELMET's
configuration of questions with retrieved passages (`stop_new_line`).
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

from harness.scorers.base import best, need, published
from harness.scorers.flashrag import acc
from harness.scorers.hotpotqa import answer_overlap, em

_IDS = re.compile(r"\d+(?:\s*>\s*\d+)*")
scorer = published("princeton-nlp/HELMET utils.py and data.py")

_Metric = Callable[[str, Sequence[str]], float]
_PREFIX = "answer:"
_ANSWER = re.compile(f"{_PREFIX}(.*)", re.IGNORECASE)


def parsed(reply: str) -> str:
    r"""The answer that HELMET reads in a reply: the rest of the line after the first "Answer:".

    Without that the first line. "It is so.\nanswer: Paris\nOr Rome" -> "Paris"
    """
    found = _ANSWER.search(reply)
    line = reply.partition("\n")[0]
    if found is not None:
        line = found.group(1)
    line = line.strip()
    if re.match(_PREFIX, line, re.IGNORECASE):
        line = line[len(_PREFIX) :]
    return line.strip()


@cache
def _rouge_scorer(kind: str) -> Callable[[str, str], tuple[float, float, float]]:
    """Google's ROUGE with its stemmer, as a function of (reference, prediction).

    Args:
        kind: "rougeL" or "rougeLsum".

    Returns:
        The function, which returns (precision, recall, F1).
    """
    score = need("rouge_score.rouge_scorer").RougeScorer([kind], use_stemmer=True).score
    return lambda reference, prediction: score(reference, prediction)[kind]


def _rouge(prediction: str, references: Sequence[str], *, kind: str, part: int) -> float:
    """ROUGE with the stemmer, best over the references.

    Args:
        prediction: The reply.
        references: The accepted answers.
        kind: "rougeL" or "rougeLsum".
        part: 1 for recall, 2 for F1.
    """
    score = _rouge_scorer(kind)
    return best(lambda text, gold: float(score(gold, text)[part]), prediction, references)


def of_reply(prediction: str, references: Sequence[str], *, metric: _Metric) -> float:
    """The larger of two scores: that of the whole reply and that of the answer `parsed` out of it.

    Args:
        prediction: The reply.
        references: The accepted answers.
        metric: Scores a text against the references.
    """
    return max(metric(prediction, references), metric(parsed(prediction), references))


def of_first_line(prediction: str, references: Sequence[str], *, metric: _Metric) -> float:
    """`of_reply` for the reply up to its first line break.

    Args:
        prediction: The reply.
        references: The accepted answers.
        metric: Scores a text against the references.
    """
    return of_reply(prediction.partition("\n")[0], references, metric=metric)


def ranking(reply: str) -> list[str]:
    """The ids of the longest ranking in a reply, each once: "ID: [3] > 1 > 3 > 2" -> ["3", "1",
    "2"].

    [] where no number is in the reply.
    """
    text = re.sub(r"[\[\]:]", "", reply).lower().replace("id", "")
    longest = max(_IDS.findall(text), key=len, default="")
    ids = [part.strip() for part in longest.split(">")]
    return list(dict.fromkeys(filter(str.isdigit, ids)))


def _gain(grades: Sequence[int]) -> float:
    """The discounted sum of grades (DCG), best place first, as trec_eval computes it.

    [3, 1] -> 3 / log2(2) + 1 / log2(3); grades below 0 count as 0.
    """
    total = 0.0
    for place, grade in enumerate(grades, start=1):
        total += max(grade, 0) / math.log2(place + 1)
    return total


@scorer("helmet.ndcg_10", "NDCG of the first ten ids of the longest ranking in the reply")
def ndcg_10(prediction: str, _references: Sequence[str], *, labels: Mapping[str, int]) -> float:
    """The discounted gain of the first ten ids in the reply over the best possible one (NDCG@10).

    Args:
        prediction: The reply, a ranking of ids.
        labels: Id of a passage -> its grade; where all are 0 the score is 0.0.
    """
    ideal = _gain(sorted(labels.values(), reverse=True)[:10])
    if ideal == 0:
        return 0.0
    return _gain([labels.get(name, 0) for name in ranking(prediction)[:10]]) / ideal


@scorer("helmet.choice", "the right letter, or the letter with its option in the reply")
def choice(prediction: str, references: Sequence[str], *, gold_label: int) -> float:
    """1.0 where the reply chooses the right option, else 0.0.

    It does where the whole reply, or the parsed one, is the right letter or "A. option", and where
    "A. option" stands anywhere in the reply.

    Args:
        prediction: The reply.
        references: The first is the text of the right option.
        gold_label: The right option's number, from 1.
    """
    letter = "ABCD"[gold_label - 1]
    full = f"{letter}. {references[0]}"
    if full.lower() in prediction.lower():
        return 1.0
    return of_reply(prediction, [letter, full], metric=em)


_METRICS: dict[str, tuple[str, _Metric, tuple[str, ...]]] = {
    "exact_match": ("exact match", em, ()),
    "f1": ("token F1 with the yes/no rule", partial(answer_overlap, part="f1"), ()),
    "substring_exact_match": ("a reference is contained in the text", acc, ()),
}
for _kind in ("rougeL", "rougeLsum"):
    for _name, _part in (("recall", 1), ("f1", 2)):
        _METRICS[f"{_kind}_{_name}"] = (
            f"{_kind} {_name}, Porter stemmer",
            partial(_rouge, kind=_kind, part=_part),
            ("rouge_score",),
        )
for _name, (_summary, _metric, _packages) in _METRICS.items():
    scorer(f"helmet.{_name}", f"{_summary}; whole or parsed", packages=_packages)(
        partial(of_reply, metric=_metric)
    )
    scorer(f"helmet.{_name}.first_line", f"{_summary}; up to a line break", packages=_packages)(
        partial(of_first_line, metric=_metric)
    )
