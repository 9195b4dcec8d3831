"""What kind a question is, in the data set's own words, and samples that keep the shares of each
kind.

question_kinds({"hops": 2, "type": "bridge", "level": "hard"})   -> {"hops": "2", "type": "bridge", "level": "hard"}
answer_kind(["Ada Lovelace"])                           -> "text"
random_sample(dataset, dataset_format, 100, seed)       -> the data set with about 100 questions; see there
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from harness.datasets.base import Dataset
from harness.stats.question_clusters import question_labels
from harness.types import Example

KINDS = ("hops", "type", "level")
_LOOKAHEAD = 8  # documents with several questions, from which the next one of a sample is chosen
_SIGNIFICANT = 0.05  # p-value below which the first rows are not like the rest
_RESAMPLES = 999
_SHARED_DOCUMENTS = ""  # the stratum of documents with several questions


def question_kinds(extra: Mapping[str, object]) -> dict[str, str]:
    """What kind a question is by its Gold.extra, in its data set's words: name -> kind.

        {"hops": 2, "type": "bridge", "evidence": [...]} -> {"hops": "2", "type": "bridge"}

    HotpotQA, MuSiQue and 2WikiMultihopQA have hops and type, HotpotQA a level; QuALITY's level is
    hard or easy (its `difficult`); Qasper's types are the kinds of its annotators' answers,
    "abstractive/extractive" where they differ.
    """
    kind_by_name: dict[str, str] = {}
    for name in KINDS:
        if extra.get(name) not in (None, ""):
            kind_by_name[name] = str(extra[name])
    difficult = extra.get("difficult")
    if difficult:
        kind_by_name["level"] = "hard"
    elif difficult is not None:
        kind_by_name["level"] = "easy"
    types = extra.get("types")
    if isinstance(types, list | tuple) and types:
        kind_by_name["type"] = "/".join(sorted(set(map(str, types))))
    return kind_by_name


def answer_kind(answers: Sequence[str]) -> str:
    """The kind of the first gold answer: "yes/no", "unanswerable", "number" or "text".

    "unanswerable" also where there is none; "number" for an answer with a digit in it.
    """
    if not answers:
        return "unanswerable"
    first_answer = answers[0].strip(" .").lower()
    if first_answer == "unanswerable":
        return "unanswerable"
    if first_answer in ("yes", "no"):
        return "yes/no"
    if re.search(r"\d", first_answer):
        return "number"
    return "text"


def count_kinds(examples: Iterable[Example]) -> Counter[tuple[str, str]]:
    """Count the questions of each (name, kind): {("hops", "2"): 1252, ...}."""
    counts = Counter[tuple[str, str]]()
    for example in examples:
        counts.update(question_kinds(example.gold.extra).items())
    return counts


def first_rows_warning(dataset: Dataset, limit: int) -> str | None:
    """A warning if the first questions have other shares of a kind than all questions; else None.

    Args:
        dataset: The data set with the first questions; it has the counts of kinds among all.
        limit: How many questions were asked for; the warning names it.
    """
    were_counted = dataset.n_all_questions > 0
    if not were_counted or len(dataset.examples) >= dataset.n_all_questions:
        return None
    for name in dict.fromkeys(name for name, _ in dataset.kind_counts):
        counts = _KindCounts.of_name(name, dataset)
        first_counts = list(counts.first.values())
        all_counts = list(counts.all.values())
        if _p_value(first_counts, all_counts) < _SIGNIFICANT:
            return (
                f"the first {counts.n_first} questions are not like the rest "
                f"({counts.largest_difference()}); --sample {limit} draws from all"
            )
    return None


@dataclass(frozen=True)
class _KindCounts:
    """The kinds of one name among the first questions and among all.

    Attributes:
        name: The name, "hops".
        first: Kind -> how many of the first questions are of it.
        all: Kind -> how many of all are.
        n_first: The number of the first questions.
        n_all: The number of all questions.
    """

    name: str
    first: dict[str, int]
    all: dict[str, int]
    n_first: int
    n_all: int

    @classmethod
    def of_name(cls, name: str, dataset: Dataset) -> "_KindCounts":
        """Count the kinds of one name among the first questions and among all.

        Args:
            name: The name, "hops".
            dataset: The data set with the first questions; it has the counts among all.
        """
        all_counts = {}
        for (kind_name, kind), count in dataset.kind_counts.items():
            if kind_name == name:
                all_counts[kind] = count
        counts_of_first = count_kinds(dataset.examples)
        first_counts = {kind: counts_of_first[name, kind] for kind in all_counts}
        return cls(name, first_counts, all_counts, len(dataset.examples), dataset.n_all_questions)

    def largest_difference(self) -> str:
        """The kind whose share of the first questions differs most from its share of all.

        "hops 2 is 90% of them, 52% of all 2417", where "them" are the first questions.
        """
        kind = max(self.all, key=self._difference_of_shares)
        share_of_first = self.first[kind] / self.n_first
        share_of_all = self.all[kind] / self.n_all
        return (
            f"{self.name} {kind} is {share_of_first:.0%} of them, {share_of_all:.0%} of all "
            f"{self.n_all}"
        )

    def _difference_of_shares(self, kind: str) -> float:
        """How far the share of a kind among the first questions is from its share of all."""
        return abs(self.first[kind] / self.n_first - self.all[kind] / self.n_all)


def _p_value(sample_counts: Sequence[int], all_counts: Sequence[int]) -> float:
    """How likely random samples of all questions differ from them as much as a sample does, 0 to
    1.

    The statistic is the likelihood ratio G = sum of o ln(o / e) over the kinds, o observed and e
    expected. Samples are drawn without replacement from a fixed seed, as the table of chi-square
    fails for few questions.

    Args:
        sample_counts: The number of questions of each kind in the sample.
        all_counts: The number of each kind among all questions.
    """
    counts = np.array(all_counts)
    sample_size = sum(sample_counts)
    expected = counts * sample_size / counts.sum()
    generator = np.random.default_rng(0)
    random_counts = generator.multivariate_hypergeometric(counts, sample_size, size=_RESAMPLES)
    observed = np.vstack([sample_counts, random_counts])  # [1 + _RESAMPLES, kinds]
    log_ratios = np.log(np.maximum(observed, 1) / np.maximum(expected, 1e-9))
    statistics = (observed * log_ratios).sum(axis=1)
    statistic_of_sample = statistics[0]
    is_as_different = statistics >= statistic_of_sample - 1e-9
    return float(is_as_different.mean())


class _RankedUnit(NamedTuple):
    """Questions that are drawn together, and when they are drawn.

    Attributes:
        rank: From 0 to 1: the place of the unit in its stratum, as a share of the stratum's size.
        stratum: The name of the stratum, which decides between equal ranks.
        indices: The indices of the questions in the data set.
    """

    rank: float
    stratum: str
    indices: list[int]


def random_sample(dataset: Dataset, dataset_format: str, n_questions: int, seed: int) -> Dataset:
    """The data set with about `n_questions` random questions, in the order of the data set.

    Kinds keep their shares: the order within a kind is random, and the kinds take turns by their
    size. Questions that share a document (where `dataset_format` joins such questions) are drawn
    together, so there may be some more; of the next few such documents, the one comes first that
    brings the shares nearest to those of all. The order depends on `seed` and on all questions, not
    on `n_questions`: 100 questions contain the 50 of the same seed.

    Args:
        dataset: All questions.
        dataset_format: Its format, which says whether a shared document joins questions.
        n_questions: How many questions to draw.
        seed: Another seed draws other questions.
    """
    examples = dataset.examples
    ranked_units: list[_RankedUnit] = []
    # A stratum is a kind of questions, or all groups of questions that share a document.
    for stratum, units in sorted(_units_by_stratum(examples, dataset_format).items()):
        random.Random(f"{seed} {stratum}").shuffle(units)
        ordered_units = units
        if stratum == _SHARED_DOCUMENTS:
            ordered_units = _balanced_order(units, examples)
        for place, indices in enumerate(ordered_units):
            rank = (place + 0.5) / len(ordered_units)
            ranked_units.append(_RankedUnit(rank, stratum, indices))
    chosen: set[int] = set()
    for unit in sorted(ranked_units):  # by rank, then by stratum
        if len(chosen) >= n_questions:
            break
        chosen.update(unit.indices)
    return replace(dataset, examples=tuple(examples[index] for index in sorted(chosen)))


def _units_by_stratum(
    examples: Sequence[Example], dataset_format: str
) -> dict[str, list[list[int]]]:
    """Group the units of sampling by stratum: {"[('hops', '2')]": [[0], [3]], "": [[1, 2]]}.

    A unit is the indices of examples that are drawn together, as they share a document. Its stratum
    is _SHARED_DOCUMENTS, or for a unit of one question the question's kind, written as text.

    Args:
        examples: All examples.
        dataset_format: The data set's format, which says whether a shared document joins questions.
    """
    questions = [example.question for example in examples]
    ids = [question.id for question in questions]
    document_ids = [question.document_ids for question in questions]
    unit_by_cluster: dict[str, list[int]] = defaultdict(list)
    for index, cluster in enumerate(question_labels(dataset_format, ids, document_ids)):
        unit_by_cluster[cluster].append(index)
    units_by_stratum: dict[str, list[list[int]]] = defaultdict(list)
    for unit in unit_by_cluster.values():
        stratum = _SHARED_DOCUMENTS
        if len(unit) == 1:
            (index,) = unit
            stratum = str(sorted(question_kinds(examples[index].gold.extra).items()))
        units_by_stratum[stratum].append(unit)
    return units_by_stratum


class _CountedUnit(NamedTuple):
    """Indices of examples that share a document, and how many there are of each kind."""

    indices: list[int]
    kind_counts: Counter[tuple[str, str]]


class _BalancedSample:
    """A sample that grows by units, and how far its shares of kinds are from those of all examples.

    Attributes:
        kind_counts: (name, kind) -> the number of examples in the sample.
        n_examples: The number of examples in the sample.
    """

    def __init__(self, units: Sequence[_CountedUnit]) -> None:
        """Begin with an empty sample of these units."""
        self.kind_counts = Counter[tuple[str, str]]()
        self.n_examples = 0
        self._kind_counts_of_all = Counter[tuple[str, str]]()
        self._n_all_examples = 0
        for unit in units:
            self._kind_counts_of_all += unit.kind_counts
            self._n_all_examples += len(unit.indices)

    def distance_with(self, unit: _CountedUnit) -> float:
        """How far the sample would be from the shares of kinds of all examples with one more unit.

        The sum over the kinds of the squared difference between the number of examples with this
        unit, and the number that would be in proportion to all examples.
        """
        n_with_unit = self.n_examples + len(unit.indices)
        squares = 0.0
        for kind, count_of_all in self._kind_counts_of_all.items():
            count_with_unit = self.kind_counts[kind] + unit.kind_counts[kind]
            count_in_proportion = n_with_unit * count_of_all / self._n_all_examples
            squares += (count_with_unit - count_in_proportion) ** 2
        return squares

    def add(self, unit: _CountedUnit) -> None:
        """Add a unit to the sample."""
        self.kind_counts += unit.kind_counts
        self.n_examples += len(unit.indices)


def _balanced_order(units: Sequence[list[int]], examples: Sequence[Example]) -> list[list[int]]:
    """The units in an order of which every beginning has nearly the shares of kinds of all.

    Greedy: of the next _LOOKAHEAD units, the one that brings the shares nearest comes first.

    Args:
        units: The indices of examples that share a document, for each document, in random order.
        examples: All examples.
    """
    remaining: list[_CountedUnit] = []
    for indices in units:
        examples_of_unit = [examples[index] for index in indices]
        remaining.append(_CountedUnit(indices, count_kinds(examples_of_unit)))
    sample = _BalancedSample(remaining)
    order = []
    while remaining:
        nearest = min(remaining[:_LOOKAHEAD], key=sample.distance_with)
        remaining.remove(nearest)
        sample.add(nearest)
        order.append(nearest.indices)
    return order
