"""What kind a question is, in the data set's own words, and samples that keep the shares of each kind.

kinds({"hops": 2, "type": "bridge", "level": "hard"})   -> {"hops": "2", "type": "bridge", "level": "hard"}
answer_kind(["Ada Lovelace"])                           -> "text"
drawn(dataset, form, 100, seed)                         -> the data set with 100 questions, about; see there
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.datasets.base import Dataset
from harness.stats.clusters import question_labels
from harness.types import Example

KINDS = ("hops", "type", "level")
_FAR = 2.6  # standard errors: a share this far from that of all questions is one in a hundred


def kinds(extra: Mapping[str, Any]) -> dict[str, str]:
    """The official names of a question's kind; extra: `Gold.extra`.

    HotpotQA, MuSiQue and 2WikiMultihopQA have hops and type, HotpotQA a level; QuALITY's level is hard or easy (its
    `difficult`); Qasper's types are the kinds of its annotators' answers, "abstractive/extractive" where they differ.
    """
    found = {name: str(extra[name]) for name in KINDS if extra.get(name) not in (None, "")}
    if extra.get("difficult") is not None:
        found["level"] = "hard" if extra["difficult"] else "easy"
    if extra.get("types"):
        found["type"] = "/".join(sorted(set(map(str, extra["types"]))))
    return found


def answer_kind(answers: Sequence[str]) -> str:
    """yes/no, unanswerable, number (one with a digit, dates too) or text: the first gold answer's."""
    first = answers[0].strip(" .").lower() if answers else "unanswerable"
    if first in ("yes", "no", "unanswerable"):
        return "unanswerable" if first == "unanswerable" else "yes/no"
    return "number" if re.search(r"\d", first) else "text"


def counted(examples: Iterable[Example]) -> Counter[tuple[str, str]]:
    """Questions by (name, kind): {("hops", "2"): 1252, ...}."""
    return Counter(item for example in examples for item in kinds(example.gold.extra).items())


def unlike(dataset: Dataset, limit: int) -> str | None:
    """A sentence where the first `limit` questions of a data set have other shares of a kind than all; else None."""
    total, first = dataset.rows, len(dataset.examples)
    if not total or first >= total:
        return None
    here = counted(dataset.examples)
    for (name, kind), count in dataset.kinds.items():
        share = count / total
        if abs(here[name, kind] / first - share) > _FAR * (share * (1 - share) / first) ** 0.5:
            shares = f"{name} {kind} is {here[name, kind] / first:.0%} of them, {share:.0%} of all {total}"
            return f"the first {first} questions are not like the rest ({shares}); --sample {limit} draws from all"
    return None


def drawn(dataset: Dataset, form: str, number: int, seed: int) -> Dataset:
    """The data set with the first `number` questions of a random order, in the order of the data set.

    Kinds keep their shares: the order within a kind is random, and the kinds take turns by their size. Questions that
    share a document (form: the data set's format; stats/clusters.py) are drawn together, so there may be some more. The
    order depends on `seed` and on all questions, not on `number`: 100 questions contain the 50 of the same seed.
    """
    examples = dataset.examples
    questions = [example.question for example in examples]
    labels = question_labels(form, [q.id for q in questions], [q.document_ids for q in questions])
    units: dict[str, list[int]] = defaultdict(list)
    for place, label in enumerate(labels):
        units[label].append(place)
    strata: dict[str, list[list[int]]] = defaultdict(list)
    for unit in units.values():
        alone = len(unit) == 1
        strata[str(sorted(kinds(examples[unit[0]].gold.extra).items())) if alone else ""].append(unit)
    ranked: list[tuple[float, str, list[int]]] = []
    for name, stratum in sorted(strata.items()):
        random.Random(f"{seed} {name}").shuffle(stratum)
        ranked += [((i + 0.5) / len(stratum), name, unit) for i, unit in enumerate(stratum)]
    chosen: set[int] = set()
    for _, _, unit in sorted(ranked):
        if len(chosen) >= number:
            break
        chosen.update(unit)
    return replace(dataset, examples=tuple(examples[place] for place in sorted(chosen)))
