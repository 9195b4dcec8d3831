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
from typing import Literal, NamedTuple, Protocol

from harness.scorers.base import best_score, need, published
from harness.scorers.flashrag import acc
from harness.scorers.hotpotqa import answer_overlap, em

_RANKED_IDS = re.compile(r"\d+(?:\s*>\s*\d+)*")
scorer = published("princeton-nlp/HELMET utils.py and data.py")

_Metric = Callable[[str, Sequence[str]], float]
_RougeKind = Literal["rougeL", "rougeLsum"]
_RougePart = Literal["recall", "fmeasure"]
_PREFIX = "answer:"
_ANSWER = re.compile(f"{_PREFIX}(.*)", re.IGNORECASE)


def parsed_answer(reply: str) -> str:
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


class _RougeScore(Protocol):
    """A score as Google's package returns it; `fmeasure` is F1."""

    precision: float
    recall: float
    fmeasure: float


@cache
def _rouge_with_stemmer(kind: _RougeKind) -> Callable[[str, str], _RougeScore]:
    """A function (reference, prediction) -> score, which is Google's ROUGE with its stemmer."""
    score = need("rouge_score.rouge_scorer").RougeScorer([kind], use_stemmer=True).score
    return lambda reference, prediction: score(reference, prediction)[kind]


def _rouge_with_reference(
    prediction: str, reference: str, *, kind: _RougeKind, part: _RougePart
) -> float:
    """Recall or F1 of ROUGE with the stemmer, of a text beside one reference.

    Args:
        prediction: The reply.
        reference: An accepted answer.
        kind: "rougeL" or "rougeLsum".
        part: "recall", or "fmeasure" for F1.
    """
    return float(getattr(_rouge_with_stemmer(kind)(reference, prediction), part))


def _rouge(
    prediction: str, references: Sequence[str], *, kind: _RougeKind, part: _RougePart
) -> float:
    """Recall or F1 of ROUGE with the stemmer, best over the references.

    Args:
        prediction: The reply.
        references: The accepted answers.
        kind: "rougeL" or "rougeLsum".
        part: "recall", or "fmeasure" for F1.
    """
    score_pair = partial(_rouge_with_reference, kind=kind, part=part)
    return best_score(score_pair, prediction, references)


def score_of_reply_or_parsed(
    prediction: str, references: Sequence[str], *, metric: _Metric
) -> float:
    """The larger of two scores: of the whole reply, and of the answer that is parsed out of it.

    Args:
        prediction: The reply.
        references: The accepted answers.
        metric: Scores a text against the references.
    """
    return max(metric(prediction, references), metric(parsed_answer(prediction), references))


def score_of_first_line(prediction: str, references: Sequence[str], *, metric: _Metric) -> float:
    """`score_of_reply_or_parsed` for the reply up to its first line break.

    Args:
        prediction: The reply.
        references: The accepted answers.
        metric: Scores a text against the references.
    """
    return score_of_reply_or_parsed(prediction.partition("\n")[0], references, metric=metric)


def ranked_ids(reply: str) -> list[str]:
    """The ids of the longest ranking in a reply, each once: "ID: [3] > 1 > 3 > 2" -> ["3", "1",
    "2"].

    [] where no number is in the reply.
    """
    text = re.sub(r"[\[\]:]", "", reply).lower().replace("id", "")
    longest = max(_RANKED_IDS.findall(text), key=len, default="")
    ids = [part.strip() for part in longest.split(">")]
    return list(dict.fromkeys(filter(str.isdigit, ids)))


def _discounted_gain(grades: Sequence[int]) -> float:
    """The discounted sum of grades (DCG), best place first, as trec_eval computes it.

    [3, 1] -> 3 / log2(2) + 1 / log2(3); grades below 0 count as 0.
    """
    sum_of_gains = 0.0
    for place, grade in enumerate(grades, start=1):
        sum_of_gains += max(grade, 0) / math.log2(place + 1)
    return sum_of_gains


@scorer("helmet.ndcg_10", "NDCG of the first ten ids of the longest ranking in the reply")
def ndcg_10(prediction: str, _references: Sequence[str], *, labels: Mapping[str, int]) -> float:
    """The discounted gain of the first ten ids in the reply over the best possible one (NDCG@10).

    Args:
        prediction: The reply, a ranking of ids.
        labels: Id of a passage -> its grade; where all are 0 the score is 0.0.
    """
    ideal_gain = _discounted_gain(sorted(labels.values(), reverse=True)[:10])
    if ideal_gain == 0:
        return 0.0
    grades = [labels.get(passage_id, 0) for passage_id in ranked_ids(prediction)[:10]]
    return _discounted_gain(grades) / ideal_gain


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
    letter_and_option = f"{letter}. {references[0]}"
    if letter_and_option.lower() in prediction.lower():
        return 1.0
    return score_of_reply_or_parsed(prediction, [letter, letter_and_option], metric=em)


class _NamedMetric(NamedTuple):
    """A metric of HELMET, of which two scorers are registered.

    Attributes:
        summary: What it measures, a line.
        metric: Scores a text against its references.
        packages: What must be importable.
    """

    summary: str
    metric: _Metric
    packages: tuple[str, ...] = ()

    def register(self, name: str) -> None:
        """Register helmet.NAME and helmet.NAME.first_line."""
        register_whole = scorer(
            f"helmet.{name}", f"{self.summary}; whole or parsed", packages=self.packages
        )
        register_whole(partial(score_of_reply_or_parsed, metric=self.metric))
        register_first_line = scorer(
            f"helmet.{name}.first_line",
            f"{self.summary}; up to a line break",
            packages=self.packages,
        )
        register_first_line(partial(score_of_first_line, metric=self.metric))


_NamedMetric("exact match", em).register("exact_match")
_NamedMetric("token F1 with the yes/no rule", partial(answer_overlap, part="f1")).register("f1")
_NamedMetric("a reference is contained in the text", acc).register("substring_exact_match")
_ROUGE_KINDS: tuple[_RougeKind, ...] = ("rougeL", "rougeLsum")
for _kind in _ROUGE_KINDS:
    _recall = partial(_rouge, kind=_kind, part="recall")
    _f1 = partial(_rouge, kind=_kind, part="fmeasure")
    for _name, _metric in (("recall", _recall), ("f1", _f1)):
        _NamedMetric(f"{_kind} {_name}, Porter stemmer", _metric, ("rouge_score",)).register(
            f"{_kind}_{_name}"
        )
