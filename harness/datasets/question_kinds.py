"""What kind a question is, in the data set's own words, and samples that keep the shares of each
kind.

kinds({"hops": 2, "type": "bridge", "level": "hard"})   -> {"hops": "2", "type": "bridge", "level": "hard"}
answer_kind(["Ada Lovelace"])                           -> "text"
random_sample(dataset, dataset_format, 100, seed)       -> the data set with about 100 questions; see there
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.datasets.base import Dataset
from harness.stats.question_clusters import question_labels
from harness.types import Example

KINDS = ("hops", "type", "level")
_LOOKAHEAD = 8  # documents with several questions among which the next one of a sample is chosen
_SIGNIFICANT = 0.05  # p-value below which the first rows are not like the rest
_RESAMPLES = 999


def kinds(extra: Mapping[str, Any]) -> dict[str, str]:
    """What kind a question is, in its data set's words: {"hops": "2", "type": "bridge"}. extra:
    Gold.extra.

    HotpotQA, MuSiQue and 2WikiMultihopQA have hops and type, HotpotQA a level; QuALITY's level is
    hard or easy (its `difficult`); Qasper's types are the kinds of its annotators' answers,
    "abstractive/extractive" where they differ.
    """
    kind_by_name = {name: str(extra[name]) for name in KINDS if extra.get(name) not in (None, "")}
    if extra.get("difficult") is not None:
        kind_by_name["level"] = "hard" if extra["difficult"] else "easy"
    if extra.get("types"):
        kind_by_name["type"] = "/".join(sorted(set(map(str, extra["types"]))))
    return kind_by_name


def answer_kind(answers: Sequence[str]) -> str:
    """The kind of the first gold answer: "yes/no", "unanswerable" (or none), "number" (with a
    digit) or "text"."""
    first = answers[0].strip(" .").lower() if answers else "unanswerable"
    if first in ("yes", "no", "unanswerable"):
        return "unanswerable" if first == "unanswerable" else "yes/no"
    return "number" if re.search(r"\d", first) else "text"


def count_kinds(examples: Iterable[Example]) -> Counter[tuple[str, str]]:
    """Count the questions of each (name, kind): {("hops", "2"): 1252, ...}."""
    return Counter(item for example in examples for item in kinds(example.gold.extra).items())


def first_rows_warning(dataset: Dataset, limit: int) -> str | None:
    """A warning if the first `limit` questions have other shares of a kind than all questions; else
    None."""
    total, n = dataset.rows, len(dataset.examples)
    if not total or n >= total:
        return None
    counts = count_kinds(dataset.examples)
    for name in dict.fromkeys(name for name, _ in dataset.kinds):
        all_counts = {
            kind: count for (kind_name, kind), count in dataset.kinds.items() if kind_name == name
        }
        first = {kind: counts[name, kind] for kind in all_counts}
        if _p_value(list(first.values()), list(all_counts.values())) < _SIGNIFICANT:
            kind = max(all_counts, key=lambda k: abs(first[k] / n - all_counts[k] / total))
            shares = f"{name} {kind} is {first[kind] / n:.0%} of them, {all_counts[kind] / total:.0%} of all {total}"
            return f"the first {n} questions are not like the rest ({shares}); --sample {limit} draws from all"
    return None


def _p_value(sample_counts: Sequence[int], all_counts: Sequence[int]) -> float:
    """The p-value of a sample's counts by kind against random samples from all questions
    (`all_counts`).

    The statistic is the likelihood ratio G = sum of o ln(o / e) over the kinds, observed and
    expected. Samples are drawn without replacement from a fixed seed, as the table of chi-square
    fails for few questions.
    """
    import numpy as np

    counts, sample_size = np.array(all_counts), sum(sample_counts)
    expected = counts * sample_size / counts.sum()
    draws = np.random.default_rng(0).multivariate_hypergeometric(
        counts, sample_size, size=_RESAMPLES
    )
    observed = np.vstack([sample_counts, draws])
    statistics = (observed * np.log(np.maximum(observed, 1) / np.maximum(expected, 1e-9))).sum(
        axis=1
    )
    return float((statistics >= statistics[0] - 1e-9).mean())


def random_sample(dataset: Dataset, dataset_format: str, number: int, seed: int) -> Dataset:
    """The data set with `number` random questions (the first of a random order), in the order of
    the data set.

    Kinds keep their shares: the order within a kind is random, and the kinds take turns by their
    size. Questions that share a document (by dataset_format; stats/question_clusters.py) are drawn
    together, so there may be some more; of the next few such documents, the one comes first that
    brings the shares nearest to those of all. The order depends on `seed` and on all questions, not
    on `number`: 100 questions contain the 50 of the same seed.
    """
    examples = dataset.examples
    questions = [example.question for example in examples]
    labels = question_labels(
        dataset_format, [q.id for q in questions], [q.document_ids for q in questions]
    )
    units: dict[str, list[int]] = defaultdict(list)
    for index, label in enumerate(labels):
        units[label].append(index)
    strata: dict[str, list[list[int]]] = defaultdict(list)
    for unit in units.values():
        alone = len(unit) == 1
        strata[str(sorted(kinds(examples[unit[0]].gold.extra).items())) if alone else ""].append(
            unit
        )
    ranked: list[tuple[float, str, list[int]]] = []
    for name, stratum in sorted(strata.items()):
        random.Random(f"{seed} {name}").shuffle(stratum)
        if not name:
            stratum = _balanced_order(stratum, examples)
        ranked += [((i + 0.5) / len(stratum), name, unit) for i, unit in enumerate(stratum)]
    chosen: set[int] = set()
    for _, _, unit in sorted(ranked):
        if len(chosen) >= number:
            break
        chosen.update(unit)
    return replace(dataset, examples=tuple(examples[index] for index in sorted(chosen)))


def _balanced_order(units: Sequence[list[int]], examples: Sequence[Example]) -> list[list[int]]:
    """Reorder `units`, the indices of examples that share a document, to keep shares of kinds near
    those of all.

    Greedy: of the next _LOOKAHEAD units, the one that brings the shares nearest comes first.
    """
    remaining = [(unit, count_kinds(examples[index] for index in unit)) for unit in units]
    total = sum((unit_counts for _, unit_counts in remaining), Counter[tuple[str, str]]())
    number = sum(map(len, units))
    so_far, size, order = Counter[tuple[str, str]](), 0, []

    def distance(at: int) -> float:
        """How far the shares of kinds would be from those of all if the unit remaining[at] came
        next."""
        unit, unit_kinds = remaining[at]
        return sum(
            (so_far[k] + unit_kinds[k] - (size + len(unit)) * n / number) ** 2
            for k, n in total.items()
        )

    while remaining:
        unit, unit_kinds = remaining.pop(min(range(min(_LOOKAHEAD, len(remaining))), key=distance))
        so_far, size = so_far + unit_kinds, size + len(unit)
        order.append(unit)
    return order
