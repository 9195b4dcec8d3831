"""Solved examples before a question (few-shot), from training rows and never from the rows that are
asked.

    examples = load_solved_examples(config)   None without dataset.shots
    examples.text_for(question)               "\\n\\nExamples:\\n\\nQuestion: ...\\nAnswer: ...\\n"

dataset.shots            how many, 0 for none
dataset.shots_from       a split of the data set, or a file of rows in its format; a file that is not there is looked
                         for beside dataset.data, in that folder or archive, or on the hub
dataset.shots_by         seed: the same ones for every question; similarity: those whose questions are nearest by BM25
                         (Okapi), the nearest last; question: drawn anew for each question by its hash, as HELMET does
dataset.shots_passages   each example begins with its passages
dataset.shots_ids        these, in this order, and no others

A row that is asked too, by its id or by its question without case and punctuation, is left out. By
"question", only the question itself is left out: PopQA's examples are its other questions (HELMET,
data.py, `load_qa`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rank_bm25 import BM25Okapi

from harness.config.schema import DatasetConfig, canonical_json, json_sha256
from harness.datasets import load_once
from harness.datasets.archives import is_archive
from harness.datasets.base import Dataset
from harness.errors import UserError
from harness.method.tools import EXAMPLES_HEADING
from harness.stats.rng import Dice
from harness.types import Example, Question
from harness.words import words

_EXAMPLE_TEMPLATE = "Question: {question}\nAnswer: {answer}\n"
DRAW_KEY = "draw_key"
"""In Gold.extra: what identifies a question for a draw by question; without it, its words."""
# Ids that only number the rows, "12" or "q_12": a training row may have one of them too.
ROW_NUMBER_ID = re.compile(r"(?:[A-Za-z]+[_-])?\d{1,7}")
_loaded_by_config: dict[str, SolvedExamples] = {}


def draw_key(example: Example) -> str:
    """What identifies a question for a draw by question: the value that its row names, else its
    text.
    """
    return str(example.gold.extra.get(DRAW_KEY, example.question.text))


def _question_words(example: Example) -> list[str]:
    """The words of an example's question, in small letters."""
    return words(example.question.text)


class SolvedExamples:
    """Solved examples for questions: the same for all, or those of each question.

    Attributes:
        pool_hash: A hash of all examples that a question may get, 16 hexadecimal digits; "" where
            all questions share the examples.
    """

    def __init__(
        self,
        config: DatasetConfig,
        training_rows: Sequence[Example],
        text_by_document_id: Mapping[str, str],
        draw_key_by_question_id: Mapping[str, str],
    ) -> None:
        """Choose the examples that all questions share, or prepare the choice for each question
        (by similarity or by question), which needs the hash of all rows to choose from.

        Args:
            config: Says how many examples a question gets, and how they are chosen.
            training_rows: The rows that may be shown.
            text_by_document_id: Of the documents of these rows.
            draw_key_by_question_id: Of the questions that are asked; see `draw_key`.

        Raises:
            UserError: No training row has an id of dataset.shots_ids.
        """
        self._config = config
        self._text_by_document_id = text_by_document_id
        self._draw_key_by_question_id = draw_key_by_question_id
        # By question id and text, kept as a method asks for its task several times.
        self._chosen_by_question: dict[tuple[str, str], list[Example]] = {}
        row_by_id: dict[str, Example] = {}
        for row in training_rows:
            row_by_id[row.question.id] = row
        # The rows to choose from; those that are shown where all questions share the examples.
        self._pool = list(row_by_id.values())
        self._bm25: BM25Okapi | None = None  # over the questions of the pool
        self.pool_hash = ""
        if config.shots_ids:
            self._pool = self._rows_of_shots_ids(row_by_id)
        elif config.shots_by == "seed":
            self._pool = self._draw_by_seed(row_by_id)
        else:  # by similarity or by question: each question has its own
            self.pool_hash = self._hash_of_pool()
            if config.shots_by == "similarity":
                self._bm25 = BM25Okapi(list(map(_question_words, self._pool)))

    @property
    def are_shared(self) -> bool:
        """Whether all questions get the same examples."""
        return not self.pool_hash

    def _rows_of_shots_ids(self, row_by_id: Mapping[str, Example]) -> list[Example]:
        """The training rows that dataset.shots_ids names, in its order.

        Args:
            row_by_id: The training rows that may be shown, by their ids.

        Raises:
            UserError: A row that is named is none of them.
        """
        rows = []
        for row_id in self._config.shots_ids:
            if row_id not in row_by_id:
                problem = f"is no training row of '{self._config.name}', or is asked itself"
                raise UserError(f"dataset.shots_ids: '{row_id}' {problem}")
            rows.append(row_by_id[row_id])
        return rows

    def _draw_by_seed(self, row_by_id: Mapping[str, Example]) -> list[Example]:
        """Draw dataset.shots training rows by dataset.shots_seed, the same for all questions.

        Args:
            row_by_id: The training rows that may be shown, by their ids.
        """
        shuffled_ids = Dice("shots", self._config.shots_seed).shuffled(sorted(row_by_id))
        return [row_by_id[row_id] for row_id in shuffled_ids[: self._config.shots]]

    def _hash_of_pool(self) -> str:
        """A hash of the texts of all rows of the pool, in 16 hexadecimal digits."""
        texts = map(self._example_text, self._pool)
        return json_sha256(list(map(canonical_json, texts)))[:16]

    def text_for_all(self) -> str:
        """The examples that all questions share as text, with their heading; "" where each question
        has its own.
        """
        if not self.are_shared:
            return ""
        return self._text_of_examples(self._pool)

    def text_for(self, question: Question) -> str:
        """The solved examples for a question as text, with their heading.

        Where each question has its own, they are chosen at its first call and kept.
        """
        if self.are_shared:
            return self.text_for_all()
        key = (question.id, question.text)
        if key not in self._chosen_by_question:
            self._chosen_by_question[key] = self._choose_for(question)
        return self._text_of_examples(self._chosen_by_question[key])

    def _text_of_examples(self, examples: Iterable[Example]) -> str:
        """Solved examples as the prompt shows them: a heading, then each example."""
        return EXAMPLES_HEADING + "\n".join(map(self._example_text, examples))

    def _choose_for(self, question: Question) -> list[Example]:
        """Choose the examples of a question, where each question has its own.

        By BM25, or by the hash of its draw key; a question that is not in the data set has its text
        as draw key.
        """
        if self._bm25 is not None:
            return self._most_similar(self._bm25, question.text)
        key = self._draw_key_by_question_id.get(question.id, question.text)
        return self._draw_by_hash(key)

    def _most_similar(self, bm25: BM25Okapi, question_text: str) -> list[Example]:
        """The rows of the pool whose questions are nearest to a question by BM25, the nearest last.

        Args:
            bm25: BM25 over the questions of the pool.
            question_text: The words of the question.
        """
        scores = bm25.get_scores(words(question_text))
        nearest_indices = np.argsort(-scores, kind="stable")[: self._config.shots]
        return [self._pool[index] for index in reversed(nearest_indices)]

    def _draw_by_hash(self, key: str) -> list[Example]:
        """Draw examples for a question by the hash of its draw key, as HELMET does.

        The first rows of different questions, other than this one, in a random order (`datasets`
        shuffles by numpy's generator).

        Args:
            key: The question's draw key.
        """
        other_rows = [row for row in self._pool if draw_key(row) != key]
        seed = int(hashlib.sha256(key.encode()).hexdigest(), 16) % 2**31
        first_row_by_key: dict[str, Example] = {}
        for index in np.random.default_rng(seed).permutation(len(other_rows)):
            row = other_rows[index]
            first_row_by_key.setdefault(draw_key(row), row)
        return list(first_row_by_key.values())[: self._config.shots]

    def _example_text(self, example: Example) -> str:
        r"""A solved example as the prompt shows it: "Question: Who?\n(A) Ada\n(B) Bo\nAnswer:
        Ada\n".

        With the passages before it where dataset.shots_passages is set, and the answer prefix
        before the answer, which is the first gold answer.
        """
        question = example.question.text
        for number, option in enumerate(example.question.options or ()):
            letter = chr(ord("A") + number)
            question += f"\n({letter}) {option}"
        prefix_and_answer = [self._config.answer_prefix, example.gold.answers[0]]
        answer = " ".join(filter(None, prefix_and_answer))
        text = _EXAMPLE_TEMPLATE.format(question=question, answer=answer)
        if not self._config.shots_passages:
            return text
        passages = [self._text_by_document_id[id_] for id_ in example.question.document_ids]
        return "\n\n".join([*passages, text])


def load_solved_examples(config: DatasetConfig) -> SolvedExamples | None:
    """Load the solved examples that a config asks for; None without dataset.shots.

    They are loaded once in a process. Raises UserError for settings that do not fit and where too
    few rows are left, and what harness.datasets.load raises.
    """
    if not config.shots:
        _refuse_settings_of_shots(config)
        return None
    # A relative path means another file in another folder.
    absolute_path = str(Path(config.data or "").absolute())
    key = canonical_json([config.model_dump(mode="json"), absolute_path])
    if key not in _loaded_by_config:
        _loaded_by_config[key] = _load_and_prepare(config)
    return _loaded_by_config[key]


def _refuse_settings_of_shots(config: DatasetConfig) -> None:
    """Raise UserError for a setting that says which examples are shown, where none are shown.

    Not where dataset.shots=0 was said by the user.
    """
    user_set_shots = "shots" in config.model_fields_set
    if user_set_shots:
        return
    for name in ("shots_from", "shots_by", "shots_ids", "shots_seed", "shots_passages"):
        if getattr(config, name) != DatasetConfig.model_fields[name].default:
            raise UserError(
                f"dataset.{name} says which solved examples are shown; set dataset.shots=N too"
            )


def _load_and_prepare(config: DatasetConfig) -> SolvedExamples:
    """Load the training rows, and prepare the choice of examples from them.

    Rows that the run asks itself (same id or question) are left out, but for a draw by question.

    Args:
        config: The data set's config, with its settings of shots.

    Raises:
        UserError: Too few rows are left, or dataset.shots_ids does not name as many as wanted.
    """
    if config.shots_ids and len(config.shots_ids) != config.shots:
        raise UserError(
            f"dataset.shots={config.shots}, but dataset.shots_ids names {len(config.shots_ids)}"
        )
    without_shots = config.model_copy(update={"shots": 0, "shots_ids": ()})
    training_dataset = load_once.load_once(_training_config(without_shots), limit=None)
    asked_dataset = load_once.load_once(without_shots, limit=None)
    draw_key_by_question_id: dict[str, str] = {}
    for example in asked_dataset.examples:
        draw_key_by_question_id[example.question.id] = draw_key(example)
    text_by_document_id: dict[str, str] = {}
    for document_id, document in training_dataset.documents.items():
        text_by_document_id[document_id] = document.text
    if config.shots_by == "question":
        usable = _rows_for_draw_by_question(
            training_dataset, asked_keys=draw_key_by_question_id.values()
        )
    else:
        rows_not_asked = _rows_not_asked(training_dataset, asked_dataset)
        usable = _UsableRows(rows_not_asked, n_available=len(rows_not_asked))
    if usable.n_available < config.shots:
        raise UserError(
            f"dataset.shots={config.shots}: of the {len(training_dataset.examples)} rows of "
            f"{training_dataset.source} {usable.n_available} are not asked themselves; name "
            "training rows: dataset.shots_from=FILE"
        )
    return SolvedExamples(config, usable.rows, text_by_document_id, draw_key_by_question_id)


class _UsableRows(NamedTuple):
    """The training rows that may be shown.

    Attributes:
        rows: The rows.
        n_available: How many different ones any question can be shown.
    """

    rows: list[Example]
    n_available: int


def _rows_for_draw_by_question(training_dataset: Dataset, asked_keys: Iterable[str]) -> _UsableRows:
    """The training rows with an answer. Rows that are asked themselves stay: only the question
    itself is never shown, which leaves one example less for it.

    Args:
        training_dataset: The rows to choose from.
        asked_keys: The draw keys of the questions that the run asks (see `draw_key`); rows with
            equal keys are the same question.
    """
    rows = [row for row in training_dataset.examples if row.gold.answers]
    training_keys = set(map(draw_key, rows))
    n_available = len(training_keys)
    some_are_asked = not training_keys.isdisjoint(asked_keys)
    if some_are_asked:
        n_available -= 1
    return _UsableRows(rows, n_available)


def _training_config(config: DatasetConfig) -> DatasetConfig:
    """The config of the data set that holds the training rows.

    Its rows are those of the file dataset.shots_from; of the file of that name beside the rows that
    are asked; or of the split of that name. Raises UserError for a file that is not there.
    """
    file = Path(config.shots_from).expanduser()
    if file.exists():
        return config.model_copy(update={"data": str(file)})
    is_name_of_split = not file.suffix
    if is_name_of_split:
        return config.model_copy(update={"split": config.shots_from})
    data = Path(config.data or "").expanduser()
    holds_several_files = config.data is None or data.is_dir() or is_archive(data.name)
    if holds_several_files:
        options = {**config.options, "files": (file.name,)}
        return config.model_copy(update={"options": options})
    file_beside_data = data.parent / file.name
    if not file_beside_data.exists():
        raise UserError(
            f"dataset.shots_from: there is no file '{file}', and none of that name beside "
            f"'{config.data}'; put it there, or ask without examples: dataset.shots=0"
        )
    return config.model_copy(update={"data": str(file_beside_data)})


def _rows_not_asked(training_dataset: Dataset, asked_dataset: Dataset) -> list[Example]:
    """The training rows with an answer whose question is not asked, by its text or its id.

    Ids that only number the rows ("12", "q_12") are not compared: every file has them.

    Args:
        training_dataset: The rows to choose from.
        asked_dataset: The questions that the run asks.
    """
    asked_ids: set[str] = set()
    asked_texts: set[tuple[str, ...]] = set()
    for example in asked_dataset.examples:
        asked_texts.add(tuple(_question_words(example)))
        if not ROW_NUMBER_ID.fullmatch(example.question.id):
            asked_ids.add(example.question.id)
    rows = []
    for row in training_dataset.examples:
        is_asked_by_id = row.question.id in asked_ids
        is_asked_by_text = tuple(_question_words(row)) in asked_texts
        is_asked = is_asked_by_id or is_asked_by_text
        if row.gold.answers and not is_asked:
            rows.append(row)
    return rows
