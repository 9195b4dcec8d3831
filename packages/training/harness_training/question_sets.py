"""Training questions of several data sets, merged, with every evaluation question kept out.

    merged = load_questions_apart([QuestionSet(training, evaluation), ...], max_rows=10_000, tell)
    for key, question, documents in merged.items("question", 10_000): ...

Evaluation questions are refused in four ways: a split or file that is not a training one by its
name raises an error, and so does one with an id that is known to be of an evaluation split; a row
whose id names another split is left out, and so is one that an evaluation split of the same data
set has too, by its id or its text. Items have no gold answers.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

from harness.config.schema import DatasetConfig, ModelConfig
from harness.datasets.archives import is_archive
from harness.datasets.base import Dataset
from harness.datasets.few_shot import ROW_NUMBER_ID
from harness.datasets.files import read_first_key
from harness.datasets.load_once import load_once
from harness.datasets.loading import load
from harness.datasets.retrieved import load_questions
from harness.errors import DataError, HarnessError, UserError
from harness.types import Document, Example, Question
from harness.words import words
from harness_training.example_files import Item

_TRAINING_NAME = re.compile(r"train", re.IGNORECASE)
_OTHER_SPLIT_NAME = re.compile(r"dev|test|valid|eval", re.IGNORECASE)
_SPLIT_KEYS = {"train", "dev", "test", "validation"}
"""Keys of a file that holds several splits, as ASQA's does."""
_ID_OF_OTHER_SPLIT = re.compile(r"(test|dev|valid|validation|val|eval)[_-]\d+", re.IGNORECASE)
_MAX_SHARE_REFUSED = 0.2  # of a data set's questions; with more, the file is not what it says it is


@dataclass(frozen=True)
class QuestionSet:
    """A data set's training questions, and the evaluation questions that must not be among them."""

    training: DatasetConfig
    evaluation: tuple[DatasetConfig, ...] = ()


@dataclass(frozen=True)
class Labels:
    """Where labels come from.

    Args:
        teacher: The model that labels.
        sets: The data sets that it labels.
        parallel: Items at a time.
    """

    teacher: ModelConfig
    sets: tuple[QuestionSet, ...]
    parallel: int = 1

    @property
    def names(self) -> str:
        """The names of the data sets, with commas between them."""
        return ", ".join(question_set.training.name for question_set in self.sets)


def is_training_name(name: str) -> bool:
    """Whether a file's name says that it holds a training split, and no other one:
    "hotpot_train.json" does, "train_dev.json" does not."""
    return bool(_TRAINING_NAME.search(name)) and not _OTHER_SPLIT_NAME.search(name)


def check_training(config: DatasetConfig) -> None:
    """Raise UserError if a data set would be read from another split than a training one, by its
    setting `split` or by its file's name. A file may have any name if it holds several splits, as
    its first key says."""
    if config.split != "train":
        raise UserError(
            f"'{config.name}' would be read from its split '{config.split}', and adapters are "
            "trained on training splits only; leave dataset.split out"
        )
    if config.data is None:
        return
    path = Path(config.data)
    if not path.is_file() or is_archive(path.name) or is_training_name(path.name):
        return
    if read_first_key(path) not in _SPLIT_KEYS:
        raise UserError(
            f"'{path.name}' is no training file by its name ('train', and no 'dev' or 'test'), and "
            "adapters are trained on training splits only; name the training file of "
            f"'{config.name}' with --data"
        )


@cache
def _hashed_evaluation_ids() -> frozenset[str]:
    """The first 12 hex digits of the sha256 of ids of evaluation questions (HotpotQA, MuSiQue,
    2WikiMultihopQA and ASQA, dev)."""
    file = resources.files("harness_training") / "evaluation_ids.txt"
    return frozenset(file.read_text("utf-8").split())


def refuse_evaluation(question_ids: Iterable[str], name: str, source: str) -> None:
    """Raise UserError where one of the questions is of a known evaluation split, by its id, of
    which the project has hashes. Ids that are only a row's number are passed over.

    Args:
        question_ids: The ids of the questions.
        name: The data set, for the message.
        source: The file, for the message.
    """
    for question_id in question_ids:
        if ROW_NUMBER_ID.fullmatch(question_id):
            continue
        if hashlib.sha256(question_id.encode()).hexdigest()[:12] in _hashed_evaluation_ids():
            raise UserError(
                f"'{source}' has evaluation questions of '{name}' (id {question_id}), and adapters are "
                "trained on training splits only; name its training split"
            )


def _load_evaluation_questions(config: DatasetConfig) -> list[tuple[str, str]]:
    """Load (id, text) of the evaluation questions of a data set; a file that is not in the preset's
    format may be in FlashRAG's, which the format "retrieved" reads."""
    if config.format == "retrieved":  # its questions alone: they come without documents here
        config = config.model_copy(update={"options": {}})
        return [(row.id, row.question) for row in load_questions(config)]
    try:
        return [(e.question.id, e.question.text) for e in load(config).examples]
    except DataError:
        if config.data is None:
            raise
        config_for_flashrag = config.model_copy(update={"format": "retrieved"})
        with contextlib.suppress(HarnessError):
            return _load_evaluation_questions(config_for_flashrag)
        raise  # the error of the preset's format


@dataclass(frozen=True)
class TrainingQuestions:
    """Training questions of several data sets, without evaluation questions.

    Args:
        examples: Data set -> its questions.
        documents: Data set -> id -> document.
        digests: Data set -> hash of its rows, 16 hex digits.
    """

    examples: Mapping[str, Sequence[Example]]
    documents: Mapping[str, Mapping[str, Document]]
    digests: Mapping[str, str]

    def items(self, per: Literal["question", "document"], max_rows: int) -> Iterator[Item]:
        """Yield what a teacher labels, an item of each data set in turn.

        Args:
            per: "question": each question with its documents. "document": each document of those
                questions, each text once.
            max_rows: Most questions of each data set.
        """
        yielded_texts: set[str] = set()
        for name, question in self._in_turn(max_rows):
            documents = [self.documents[name][i] for i in question.document_ids]
            if per == "question":
                yield Item(f"{name}/{question.id}", question=question, documents=documents)
                continue
            for document in documents:
                if document.text not in yielded_texts:
                    yielded_texts.add(document.text)
                    yield Item(f"{name}/{document.id}", question=None, documents=[document])

    def _in_turn(self, max_rows: int) -> Iterator[tuple[str, Question]]:
        """Yield (data set, question) of the first `max_rows` questions of each set: the first of
        each set, then the second of each, and so on."""
        for number in range(max_rows):
            any_set_has_more = False
            for name, examples in self.examples.items():
                if number < len(examples):
                    any_set_has_more = True
                    yield name, examples[number].question
            if not any_set_has_more:
                return


@dataclass
class _EvaluationQuestions:
    """Evaluation questions: their ids but for counters, and the words of their texts."""

    ids: set[str] = field(default_factory=set)
    texts: set[tuple[str, ...]] = field(default_factory=set)

    @classmethod
    def of(cls, configs: Iterable[DatasetConfig]) -> _EvaluationQuestions:
        """Load the evaluation questions of some data sets. An id that is only a counter does not
        count."""
        evaluation = cls()
        for config in configs:
            for question_id, text in _load_evaluation_questions(config):
                evaluation.texts.add(tuple(words(text)))
                if not ROW_NUMBER_ID.fullmatch(question_id):
                    evaluation.ids.add(question_id)
        return evaluation

    def holds(self, example: Example) -> bool:
        """Whether a question is one of these by id or text, or of another split by its id."""
        question = example.question
        if _ID_OF_OTHER_SPLIT.fullmatch(question.id) or question.id in self.ids:
            return True
        return tuple(words(question.text)) in self.texts


def load_questions_apart(
    sets: Sequence[QuestionSet], max_rows: int, tell: Callable[[str], None]
) -> TrainingQuestions:
    """Load training questions of several data sets, without evaluation questions; with their
    documents and the first digits of each data set's fingerprint. Says how many were left out, and
    warns where there are no evaluation questions to compare with.

    Args:
        sets: The data sets, each with its evaluation questions.
        max_rows: Most rows that are read of each.
        tell: Called with a sentence on what was left out.

    Raises:
        UserError: A set is not a training split by its name, or consists of evaluation questions to
            more than a fifth.
        HarnessError: What harness.datasets.load raises.
    """
    examples: dict[str, list[Example]] = {}
    documents: dict[str, Mapping[str, Document]] = {}
    digests: dict[str, str] = {}
    for question_set in sets:
        name = question_set.training.name
        check_training(question_set.training)  # raises for another split
        dataset = load_once(question_set.training, max_rows)
        question_ids = [example.question.id for example in dataset.examples]
        refuse_evaluation(question_ids, name, dataset.source)
        evaluation_questions = _EvaluationQuestions.of(question_set.evaluation)
        examples[name] = [
            example for example in dataset.examples if not evaluation_questions.holds(example)
        ]
        documents[name] = dataset.documents
        digests[name] = dataset.fingerprint[:16]
        n_left_out = len(dataset) - len(examples[name])
        _check_and_say_left_out(name, dataset, n_left_out, tell)
        if not evaluation_questions.texts:
            tell(
                f"warning: {name}: there are no evaluation questions to compare with; name them "
                "with --exclude FILE, so that none of them is trained on"
            )
    return TrainingQuestions(examples, documents, digests)


def _check_and_say_left_out(
    name: str, dataset: Dataset, n_left_out: int, tell: Callable[[str], None]
) -> None:
    """Say how many questions of a data set are left out, if any, as evaluation questions.

    Args:
        name: The name of the data set.
        dataset: All its questions.
        n_left_out: How many of them are left out.
        tell: Called with the sentence.

    Raises:
        UserError: More than a fifth are left out, so the file is no training split.
    """
    if n_left_out > _MAX_SHARE_REFUSED * len(dataset):
        raise UserError(
            f"{n_left_out} of {len(dataset)} questions of '{name}' ({dataset.source}) are "
            "evaluation questions by their id or text; name its training split"
        )
    if n_left_out:
        tell(
            f"{name}: {n_left_out} of {len(dataset)} questions are evaluation questions too, and "
            "left out"
        )
