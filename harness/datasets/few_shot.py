"""Solved examples before a question (few-shot), from training rows and never from the rows that are
asked.

    shots = shots_of(config)         None without dataset.shots
    shots.text(question)             "\\n\\nExamples:\\n\\nQuestion: ...\\nAnswer: ...\\n", behind the instruction

dataset.shots        how many, 0 for none
dataset.shots_from   a split of the data set, or a file of rows in its format
dataset.shots_by     seed: the same ones for every question; similarity: those whose questions are nearest by BM25
                     (Okapi), the nearest last
dataset.shots_ids    these, in this order, and no others

A row that is asked too, by its id or by its question without case and punctuation, is left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.config.schema import DatasetConfig, canonical, digest
from harness.errors import UserError
from harness.method.tools import SHOTS
from harness.stats.rng import Dice
from harness.types import Example, Question
from harness.words import words

SHOT = "Question: {question}\nAnswer: {answer}\n"
COUNTER = re.compile(
    r"(?:[A-Za-z]+[_-])?\d{1,7}"
)  # ids that only count: a training row may have one of them too
_shots_by_config: dict[str, Shots] = {}


class Shots:
    """Solved examples for questions. config: how many, chosen how; pool: training rows that the run
    does not ask."""

    def __init__(self, config: DatasetConfig, pool: Sequence[Example]) -> None:
        from rank_bm25 import BM25Okapi

        self._count, self._similar = (
            config.shots,
            config.shots_by == "similarity" and not config.shots_ids,
        )
        by_id = {example.question.id: example for example in pool}
        if missing := [id_ for id_ in config.shots_ids if id_ not in by_id]:
            named = f"dataset.shots_ids: '{missing[0]}'"
            raise UserError(f"{named} is no training row of '{config.name}', or is asked itself")
        drawn_ids = Dice("shots", config.shots_seed).shuffled(sorted(by_id))[: self._count]
        self._pool = [
            by_id[id_] for id_ in (by_id if self._similar else config.shots_ids or drawn_ids)
        ]
        self._index = (
            BM25Okapi([words(e.question.text) for e in self._pool]) if self._similar else None
        )
        self.identity = (
            digest([canonical(_shot_text(e, config)) for e in self._pool])[:16]
            if self._similar
            else ""
        )
        self._config = config
        self._nearest: dict[
            str, list[Example]
        ] = {}  # by question: a method asks for its task several times

    def text(self, question: Question | None = None) -> str:
        """The examples for a question as text; "" without a question if they are chosen by
        similarity to it."""
        examples = self._pool
        if self._index is not None:
            if question is None:
                return ""
            if question.text not in self._nearest:
                scores = self._index.get_scores(words(question.text))
                nearest = np.argsort(-scores, kind="stable")[: self._count]
                self._nearest[question.text] = [self._pool[i] for i in reversed(nearest)]
            examples = self._nearest[question.text]
        return SHOTS + "\n".join(_shot_text(example, self._config) for example in examples)


def shots_of(config: DatasetConfig) -> Shots | None:
    """The solved examples that `config` asks for, None without dataset.shots; loaded once in a
    process.

    Raises UserError for settings that do not fit and where too few rows are left, and as
    harness.datasets.load does.
    """
    if not config.shots:
        for name in ("shots_from", "shots_by", "shots_ids", "shots_seed"):
            if getattr(config, name) != DatasetConfig.model_fields[name].default:
                raise UserError(
                    f"dataset.{name} says which solved examples are shown; set dataset.shots=N too"
                )
        return None
    key = canonical(config.model_dump(mode="json"))
    if key not in _shots_by_config:
        _shots_by_config[key] = Shots(config, _training_rows(config))
    return _shots_by_config[key]


def _training_rows(config: DatasetConfig) -> list[Example]:
    """Load training rows, without those that the run asks (same id or question). Raises UserError
    for too few."""
    from harness.datasets.load_once import load_once

    if config.shots_ids and len(config.shots_ids) != config.shots:
        raise UserError(
            f"dataset.shots={config.shots}, but dataset.shots_ids names {len(config.shots_ids)}"
        )
    without_shots = config.model_copy(update={"shots": 0, "shots_ids": ()})
    file = Path(config.shots_from).expanduser()
    if file.suffix and not file.exists():
        raise UserError(f"dataset.shots_from: there is no file '{file}'")
    source = {"data": str(file)} if file.exists() else {"split": config.shots_from}
    rows, asked = (
        load_once(without_shots.model_copy(update=source), None),
        load_once(without_shots, None),
    )
    ids = {
        example.question.id
        for example in asked.examples
        if not COUNTER.fullmatch(example.question.id)
    }
    texts = {tuple(words(example.question.text)) for example in asked.examples}
    unasked = [
        example
        for example in rows.examples
        if example.gold.answers
        and example.question.id not in ids
        and tuple(words(example.question.text)) not in texts
    ]
    if len(unasked) < config.shots:
        raise UserError(
            f"dataset.shots={config.shots}: of the {len(rows.examples)} rows of {rows.source} "
            f"{len(unasked)} are not "
            "asked themselves; name training rows: dataset.shots_from=FILE"
        )
    return unasked


def _shot_text(example: Example, config: DatasetConfig) -> str:
    """A solved example as the prompt shows it: question, lettered options, first gold answer behind
    its prefix."""
    options = "".join(
        f"\n({chr(ord('A') + n)}) {text}" for n, text in enumerate(example.question.options or ())
    )
    answer = " ".join(filter(None, [config.answer_prefix, example.gold.answers[0]]))
    return SHOT.format(question=example.question.text + options, answer=answer)
