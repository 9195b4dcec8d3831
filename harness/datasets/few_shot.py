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
from rank_bm25 import BM25Okapi

from harness.config.schema import DatasetConfig, canonical, digest
from harness.datasets import load_once
from harness.datasets.base import Dataset
from harness.errors import UserError
from harness.method.tools import SHOTS
from harness.stats.rng import Dice
from harness.types import Example, Question
from harness.words import words

SHOT = "Question: {question}\nAnswer: {answer}\n"
# Ids that only count: a training row may have one of them too.
COUNTER = re.compile(r"(?:[A-Za-z]+[_-])?\d{1,7}")
_shots_by_config: dict[str, Shots] = {}


class Shots:
    """Solved examples for questions."""

    def __init__(self, config: DatasetConfig, pool: Sequence[Example]) -> None:
        """config: how many, chosen how; pool: training rows that the run does not ask. Raises
        UserError for an unknown id."""
        self._config = config
        self._index: BM25Okapi | None = None
        self.identity = ""
        # By question: a method asks for its task several times.
        self._nearest: dict[str, list[Example]] = {}
        by_id = {example.question.id: example for example in pool}
        missing = [id_ for id_ in config.shots_ids if id_ not in by_id]
        if missing:
            named = f"dataset.shots_ids: '{missing[0]}'"
            raise UserError(f"{named} is no training row of '{config.name}', or is asked itself")
        if config.shots_ids:
            self._pool = [by_id[id_] for id_ in config.shots_ids]
        elif config.shots_by == "similarity":
            self._pool = list(by_id.values())
            self._index = BM25Okapi([words(example.question.text) for example in self._pool])
            texts = [_shot_text(example, config) for example in self._pool]
            self.identity = digest(list(map(canonical, texts)))[:16]
        else:
            drawn = Dice("shots", config.shots_seed).shuffled(sorted(by_id))
            self._pool = [by_id[id_] for id_ in drawn[: config.shots]]

    def text(self, question: Question | None = None) -> str:
        """The examples for a question as text; "" without a question if they are chosen by
        similarity to it."""
        examples = self._pool
        if self._index is not None:
            if question is None:
                return ""
            examples = self._most_similar(self._index, question.text)
        return SHOTS + "\n".join(_shot_text(example, self._config) for example in examples)

    def _most_similar(self, index: BM25Okapi, question: str) -> list[Example]:
        """The examples whose questions are nearest, the nearest last."""
        if question not in self._nearest:
            scores = index.get_scores(words(question))
            nearest = np.argsort(-scores, kind="stable")[: self._config.shots]
            self._nearest[question] = [self._pool[i] for i in reversed(nearest)]
        return self._nearest[question]


def shots_of(config: DatasetConfig) -> Shots | None:
    """The solved examples that `config` asks for, None without dataset.shots; loaded once in a
    process.

    Raises UserError for settings that do not fit and where too few rows are left, and as
    harness.datasets.load does.
    """
    if not config.shots:
        _refuse_settings_of_shots(config)
        return None
    key = canonical(config.model_dump(mode="json"))
    if key not in _shots_by_config:
        _shots_by_config[key] = Shots(config, _training_rows(config))
    return _shots_by_config[key]


def _refuse_settings_of_shots(config: DatasetConfig) -> None:
    """Raise UserError for a setting that says which examples are shown, where none are."""
    for name in ("shots_from", "shots_by", "shots_ids", "shots_seed"):
        if getattr(config, name) != DatasetConfig.model_fields[name].default:
            raise UserError(
                f"dataset.{name} says which solved examples are shown; set dataset.shots=N too"
            )


def _training_rows(config: DatasetConfig) -> list[Example]:
    """Load training rows, without those that the run asks (same id or question). Raises UserError
    for too few."""
    if config.shots_ids and len(config.shots_ids) != config.shots:
        raise UserError(
            f"dataset.shots={config.shots}, but dataset.shots_ids names {len(config.shots_ids)}"
        )
    without_shots = config.model_copy(update={"shots": 0, "shots_ids": ()})
    source = _training_source(config)
    training = load_once.load_once(without_shots.model_copy(update=source), None)
    unasked = _unasked(training, load_once.load_once(without_shots, None))
    if len(unasked) < config.shots:
        raise UserError(
            f"dataset.shots={config.shots}: of the {len(training.examples)} rows of "
            f"{training.source} {len(unasked)} are not asked themselves; name training rows: "
            "dataset.shots_from=FILE"
        )
    return unasked


def _training_source(config: DatasetConfig) -> dict[str, str]:
    """The settings of the data set that holds the training rows: a file, else another split. Raises
    UserError for a file that is not there."""
    file = Path(config.shots_from).expanduser()
    if file.exists():
        return {"data": str(file)}
    if file.suffix:
        raise UserError(f"dataset.shots_from: there is no file '{file}'")
    return {"split": config.shots_from}


def _unasked(training: Dataset, asked: Dataset) -> list[Example]:
    """The training rows with an answer whose id and question are not among those `asked`."""
    asked_ids = {example.question.id for example in asked.examples}
    telling_ids = {id_ for id_ in asked_ids if not COUNTER.fullmatch(id_)}
    texts = {tuple(words(example.question.text)) for example in asked.examples}
    unasked = []
    for example in training.examples:
        same = example.question.id in telling_ids or tuple(words(example.question.text)) in texts
        if example.gold.answers and not same:
            unasked.append(example)
    return unasked


def _shot_text(example: Example, config: DatasetConfig) -> str:
    """A solved example as the prompt shows it: question, lettered options, first gold answer after
    its prefix."""
    question = example.question.text
    for number, option in enumerate(example.question.options or ()):
        question += f"\n({chr(ord('A') + number)}) {option}"
    parts = [config.answer_prefix, example.gold.answers[0]]
    answer = " ".join(part for part in parts if part)
    return SHOT.format(question=question, answer=answer)
