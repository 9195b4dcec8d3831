"""The base of every scorer: its registration, its error, its sheet, and the import of optional
packages.

scorer = published("hotpotqa/hotpot hotpot_evaluate_v1.py")     the origin of a file's scorers
@scorer("hotpotqa.f1", "token F1 with the yes/no rule")         registers f(prediction, references, *, extra) -> float
ScoreError      the score is undefined for these inputs; `score_answer` turns it into 0.0 and a flag
need("jieba")   the imported module, or one sentence with the line that installs it
only_of_group        a scorer for one group of questions
set_overlap     sets of supporting facts compared: exact match, precision, recall and F1
"""

import importlib
import importlib.util
import inspect
import random
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Literal, NamedTuple, TypeVar

from harness.errors import CannotRun, HarnessError

Kind = Literal[
    "answer",
    "short_answers",
    "shown",
    "searches",
    "indices",
    "facts",
    "paragraphs",
    "corpus",
    "retrieval",
    "text",
]
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Scorer:
    """A registered scorer.

    Its kind says what it is given, and so where it can be used; only the first four judge the
    answers of a run:

    answer          a text and its accepted answers
    short_answers   a text and, for each sub-question, its accepted answers (Gold.extra["short_answers"])
    shown           what the reader saw and Gold.supporting
    searches        the searches of a question (harness.types.RecordedSearch) and Gold.supporting
    indices         predicted and gold paragraph numbers
    facts           predicted and gold [title, sentence number]
    paragraphs      predicted and gold paragraph texts
    corpus          a list of texts, and a list of the accepted answers of each
    retrieval       for each question a list of texts, and a list of accepted answers
    text            one text, no references; the value is a text

    Attributes:
        function: The function, or "module:function" of one that is not this project's.
        origin: The repository and file that it equals.
        summary: What it measures, a line.
        kind: As above.
        version: Raise it whenever the same inputs give another value: tables and comparisons go by
            it.
        packages: What must be importable.
        maximum: The best possible value (1, or 100 for percent).
        needs_answers: Whether it has no value where no accepted answer is known (kind "answer").
        why_none: Why a question has no value, where the scorer has a reason of its own.
        corpus: Of a scorer of answers, the scorer of kind corpus whose value follows from sums over
            the answers.
        counts: (prediction, references) -> the numbers of one answer that are summed.
        score_of_sums: The sums of these numbers over all answers -> the value.
    """

    function: Callable[..., Any] | str
    origin: str
    summary: str
    kind: Kind = "answer"
    version: str = "1"
    packages: tuple[str, ...] = ()
    maximum: float = 1.0
    needs_answers: bool = True
    why_none: str = ""
    corpus: str = ""
    counts: Callable[..., Sequence[int]] | None = None
    score_of_sums: Callable[..., float] | None = None


REGISTERED_SCORERS: dict[str, Scorer] = {}


def published(origin: str) -> Callable[..., Callable[[F], F]]:
    """Return a decorator that registers scorers which equal the published code at `origin`.

        scorer = published("hotpotqa/hotpot hotpot_evaluate_v1.py")
        @scorer("hotpotqa.f1", "token F1 with the yes/no rule")

    Args:
        origin: The repository and the file.
    """

    def scorer(name: str, summary: str, kind: Kind = "answer", **fields: Any) -> Callable[[F], F]:
        """Return a decorator that registers a function as the scorer `name`, which equals the
        published code at `origin`.

        Args:
            name: The name to register.
            summary: What it measures, a line.
            kind: What it takes, see `Scorer`.
            **fields: Further fields of `Scorer`.
        """

        def register(function: F) -> F:
            """Add the function to REGISTERED_SCORERS as the scorer `name`; return it unchanged."""
            REGISTERED_SCORERS[name] = Scorer(function, origin, summary, kind, **fields)
            return function

        return register

    return scorer


def only_of_group(
    metric: Callable[..., Any], key: str, is_in_group: Callable[[Any], bool]
) -> Callable[..., Any]:
    """Make a scorer that scores only the questions of a group, so that its mean is the group's.

        only_of_group(match, "type", partial(eq, "multi-session"))    gives other types no score

    Args:
        metric: A scorer.
        key: The name in Gold.extra whose value says where a question belongs.
        is_in_group: Whether such a value is of the group; it gets None for a question without one.

    Returns:
        The scorer, which takes the keyword arguments of `metric` and `key`.
    """
    signature = inspect.signature(metric)
    metric_parameters = signature.parameters
    parameters = list(metric_parameters.values())
    if key not in metric_parameters:
        parameters.append(inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=None))

    def score_in_group(prediction: str, references: Sequence[str], **extra: Any) -> float | None:
        """The metric for a question of the group; None for any other. `extra` has the value of
        `key`.
        """
        if not is_in_group(extra.get(key)):
            return None
        metric_inputs = {name: value for name, value in extra.items() if name in metric_parameters}
        value: float | None = metric(prediction, references, **metric_inputs)
        return value

    # By the signature it is found out which of Gold.extra a scorer takes.
    score_in_group.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return score_in_group


class ScoreError(HarnessError):
    """A score is undefined: inputs of the wrong shape, a missing extra, or the published code
    raises for them."""


@dataclass(frozen=True, slots=True)
class ScoreSheet:
    """The scores of one answer, by scorer. `flags` says why one is 0.0 or absent; no flag means a
    plain score."""

    scores: dict[str, float] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)
    # Scorer -> numbers to sum up for `corpus_score`.
    counts: dict[str, list[int]] = field(default_factory=dict)


def install_sentence(package: str) -> str:
    """The sentence for a missing package: "rouge_score" -> "the package 'rouge-score' is not
    installed; run: pip install rouge-score".

    Args:
        package: The name it is imported by.
    """
    name = package.replace("_", "-")
    return f"the package '{name}' is not installed; run: pip install {name}"


def is_installed(package: str) -> bool:
    """Whether `package` can be imported; it is looked for and not imported."""
    return importlib.util.find_spec(package) is not None


def need(module: str) -> ModuleType:
    """Import and return a module; the state of Python's random numbers stays as it is.

    Args:
        module: "package" or "package.part".

    Raises:
        CannotRun: The package is not installed; the message has the line that installs it.
    """
    random_state = random.getstate()
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name != package:  # something the package itself needs: not ours to explain away
            raise
        raise CannotRun(install_sentence(package)) from error
    finally:
        # A package that rouge-score needs (rich) draws a number as it is imported, while methods
        # may be drawing.
        random.setstate(random_state)


def best_score(
    score_pair: Callable[[str, str], float], prediction: str, references: Sequence[str]
) -> float:
    """The best score of a prediction over its references; 0.0 without any.

    Args:
        score_pair: Scores (prediction, reference).
        prediction: The reply.
        references: The accepted answers.
    """
    return max((score_pair(prediction, reference) for reference in references), default=0.0)


def common_subsequence_length(a: Sequence[str], b: Sequence[str]) -> int:
    """The length of the longest common subsequence of two texts or lists of words.

    ("abcd", "xbyd") -> 2, "bd"
    """
    # lengths_by_prefix[j]: the length for the part of `a` that was seen and the first j of `b`.
    lengths_by_prefix = [0] * (len(b) + 1)
    for left in a:
        lengths_without_left = lengths_by_prefix
        lengths_by_prefix = [0]
        for j, right in enumerate(b):
            if left == right:
                lengths_by_prefix.append(lengths_without_left[j] + 1)
            else:
                lengths_by_prefix.append(max(lengths_without_left[j + 1], lengths_by_prefix[j]))
    return lengths_by_prefix[-1]


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean. Raises ScoreError for no values at all, where the published scripts
    divide by zero.
    """
    if not values:
        raise ScoreError("there is nothing to average: give at least one item")
    return sum(values) / len(values)


class SetOverlap(NamedTuple):
    """Exact match (0 or 1), precision, recall and F1 of a predicted set."""

    em: float
    precision: float
    recall: float
    f1: float


def set_overlap(predicted: Collection[Hashable], gold: Collection[Hashable]) -> SetOverlap:
    """Compare two sets by exact match, precision, recall and F1.

    ({"a", "b"}, {"b"}) -> SetOverlap(0.0, 0.5, 1.0, 0.67). For two empty sets em is 1 and the rest
    0, as HotpotQA's script counts it.
    """
    predicted, gold = set(predicted), set(gold)
    exact_match = float(predicted == gold)
    n_common = len(predicted & gold)
    if not n_common:
        return SetOverlap(exact_match, precision=0.0, recall=0.0, f1=0.0)
    precision = n_common / len(predicted)
    recall = n_common / len(gold)
    f1 = 2 * precision * recall / (precision + recall)
    return SetOverlap(exact_match, precision, recall, f1)


def fact_set(listed_facts: Iterable[Sequence[Any]]) -> set[tuple[str, int]]:
    """Turn a list of supporting facts into a set of pairs: [["Ada", 0]] -> {("Ada", 0)}.

    Args:
        listed_facts: [title, index of the sentence] of each fact.

    Raises:
        ScoreError: An item has another shape.
    """
    pairs: set[tuple[str, int]] = set()
    for fact in listed_facts:
        if isinstance(fact, str) or len(fact) != 2:
            raise ScoreError(f"a supporting fact must be [title, sentence index], got {fact!r}")
        pairs.add((fact[0], fact[1]))
    return pairs
