"""Solved examples before a question (few-shot), from training rows and never from the rows that are
asked.

    shots = shots_of(config)         None without dataset.shots
    shots.text(question)             "\\n\\nExamples:\\n\\nQuestion: ...\\nAnswer: ...\\n", after the instruction

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

import numpy as np
from rank_bm25 import BM25Okapi

from harness.config.schema import DatasetConfig, canonical, digest
from harness.datasets import load_once
from harness.datasets.archives import is_archive
from harness.datasets.base import Dataset
from harness.errors import UserError
from harness.method.tools import SHOTS
from harness.stats.rng import Dice
from harness.types import Example, Question
from harness.words import words

SHOT = "Question: {question}\nAnswer: {answer}\n"
DRAW_KEY = "draw_key"
"""In Gold.extra: what identifies a question for a draw by question; without it, its words."""
# Ids that only count: a training row may have one of them too.
COUNTER = re.compile(r"(?:[A-Za-z]+[_-])?\d{1,7}")
_shots_by_config: dict[str, Shots] = {}


def draw_key(example: Example) -> str:
    """What identifies a question for a draw by question: the value that its row names, else its
    text.
    """
    return str(example.gold.extra.get(DRAW_KEY, example.question.text))


def _question_words(example: Example) -> list[str]:
    """The words of an example's question, in small letters."""
    return words(example.question.text)


class Shots:
    """Solved examples for questions.

    texts: the documents of the examples, by id; asked_keys: the draw key of each question that is
    asked, by its id.
    """

    def __init__(
        self,
        config: DatasetConfig,
        pool: Sequence[Example],
        texts: Mapping[str, str],
        asked_keys: Mapping[str, str],
    ) -> None:
        """Choose the examples, or prepare their choice for each question.

        `_pool` are the rows to choose from, or the chosen ones where all questions share them;
        `identity` is a hash of the pool, "" where they share them. `_index` is BM25 over the pool,
        where examples are chosen by similarity.
        Args:
            config: Says how many examples a question gets, and how they are chosen.
            pool: Training rows that may be shown.
            texts: Document id -> text, of the documents of these rows.
            asked_keys: Question id -> draw key, of the questions that are asked.

        Raises:
            UserError: An id of dataset.shots_ids that the pool does not have.
        """
        self._config = config
        self._texts = texts
        self._asked_keys = asked_keys
        self._index: BM25Okapi | None = None
        self.identity = ""
        # By question id and text: a method asks for its task several times.
        self._chosen: dict[tuple[str, str], list[Example]] = {}
        by_id: dict[str, Example] = {}
        for example in pool:
            by_id[example.question.id] = example
        if config.shots_ids:
            self._pool = self._named(by_id)
        elif config.shots_by == "similarity":
            self._pool = list(by_id.values())
            self._index = BM25Okapi(list(map(_question_words, self._pool)))
            self.identity = self._hash_of_pool()
        elif config.shots_by == "question":
            self._pool = list(by_id.values())
            self.identity = self._hash_of_pool()
        else:
            drawn = Dice("shots", config.shots_seed).shuffled(sorted(by_id))
            self._pool = [by_id[id_] for id_ in drawn[: config.shots]]

    def _named(self, by_id: Mapping[str, Example]) -> list[Example]:
        """The examples that dataset.shots_ids names, in its order.

        Raises UserError for one that is not there.
        """
        named = []
        for id_ in self._config.shots_ids:
            if id_ not in by_id:
                problem = f"is no training row of '{self._config.name}', or is asked itself"
                raise UserError(f"dataset.shots_ids: '{id_}' {problem}")
            named.append(by_id[id_])
        return named

    def _hash_of_pool(self) -> str:
        """A hash of all examples that a question may get, in 16 hexadecimal digits."""
        texts = map(self._shot_text, self._pool)
        return digest(list(map(canonical, texts)))[:16]

    def text(self, question: Question | None = None) -> str:
        """The solved examples for a question as text, with their heading.

        Args:
            question: The question; None: the examples that all questions share, "" where each
                question has its own.
        """
        if not self.identity:
            return self._listed(self._pool)
        if question is None:
            return ""
        key = (question.id, question.text)
        if key not in self._chosen:
            self._chosen[key] = self._chosen_for(question)
        return self._listed(self._chosen[key])

    def _listed(self, examples: Iterable[Example]) -> str:
        """Solved examples as the prompt shows them: a heading, then each example."""
        return SHOTS + "\n".join(map(self._shot_text, examples))

    def _chosen_for(self, question: Question) -> list[Example]:
        """Choose the examples of a question, where each question has its own."""
        if self._index is not None:
            return self._most_similar(self._index, question.text)
        return self._drawn_by_hash(self._asked_keys.get(question.id, question.text))

    def _most_similar(self, index: BM25Okapi, question: str) -> list[Example]:
        """The examples whose questions are nearest to a question by BM25, the nearest last.

        Args:
            index: BM25 over the questions of the pool.
            question: The text of the question.
        """
        scores = index.get_scores(words(question))
        nearest = np.argsort(-scores, kind="stable")[: self._config.shots]
        return [self._pool[i] for i in reversed(nearest)]

    def _drawn_by_hash(self, key: str) -> list[Example]:
        """Draw examples for a question by the hash of its draw key, as HELMET does.

        The first rows of different questions, other than this one, in a random order (`datasets`
        shuffles by numpy's generator).

        Args:
            key: The question's draw key.
        """
        others = [example for example in self._pool if draw_key(example) != key]
        seed = int(hashlib.sha256(key.encode()).hexdigest(), 16) % 2**31
        drawn: dict[str, Example] = {}
        for number in np.random.default_rng(seed).permutation(len(others)):
            drawn.setdefault(draw_key(others[number]), others[number])
        return list(drawn.values())[: self._config.shots]

    def _shot_text(self, example: Example) -> str:
        r"""A solved example as the prompt shows it: "Question: Who?\n(A) Ada\n(B) Bo\nAnswer:
        Ada\n".

        With the passages before it where dataset.shots_passages is set, and the answer prefix
        before the answer, which is the first gold answer.
        """
        question = example.question.text
        for number, option in enumerate(example.question.options or ()):
            question += f"\n({chr(ord('A') + number)}) {option}"
        parts = [self._config.answer_prefix, example.gold.answers[0]]
        answer = " ".join(filter(None, parts))
        shot = SHOT.format(question=question, answer=answer)
        if not self._config.shots_passages:
            return shot
        passages = map(self._texts.__getitem__, example.question.document_ids)
        return "\n\n".join([*passages, shot])


def shots_of(config: DatasetConfig) -> Shots | None:
    """The solved examples that a config asks for, None without dataset.shots.

    They are loaded once in a process. Raises UserError for settings that do not fit and where too
    few rows are left, and what harness.datasets.load raises.
    """
    if not config.shots:
        _refuse_settings_of_shots(config)
        return None
    # A relative path means another file in another folder.
    place = str(Path(config.data or "").absolute())
    key = canonical([config.model_dump(mode="json"), place])
    if key not in _shots_by_config:
        _shots_by_config[key] = _load_shots(config)
    return _shots_by_config[key]


def _refuse_settings_of_shots(config: DatasetConfig) -> None:
    """Raise UserError for a setting that says which examples are shown, where none are shown.

    Not where dataset.shots=0 was said by the user.
    """
    if "shots" in config.model_fields_set:
        return
    for name in ("shots_from", "shots_by", "shots_ids", "shots_seed", "shots_passages"):
        if getattr(config, name) != DatasetConfig.model_fields[name].default:
            raise UserError(
                f"dataset.{name} says which solved examples are shown; set dataset.shots=N too"
            )


def _load_shots(config: DatasetConfig) -> Shots:
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
    training = load_once.load_once(_training_config(without_shots), None)
    asked = load_once.load_once(without_shots, None)
    asked_keys: dict[str, str] = {}
    for example in asked.examples:
        asked_keys[example.question.id] = draw_key(example)
    texts: dict[str, str] = {}
    for id_, document in training.documents.items():
        texts[id_] = document.text
    pool = _unasked(training, asked)
    available = len(pool)
    if config.shots_by == "question":
        pool = [example for example in training.examples if example.gold.answers]
        keys = set(map(draw_key, pool))
        available = len(keys)
        if not keys.isdisjoint(asked_keys.values()):
            available -= 1  # a question that is itself among the examples is not shown
    if available < config.shots:
        raise UserError(
            f"dataset.shots={config.shots}: of the {len(training.examples)} rows of "
            f"{training.source} {available} are not asked themselves; name training rows: "
            "dataset.shots_from=FILE"
        )
    return Shots(config, pool, texts, asked_keys)


def _training_config(config: DatasetConfig) -> DatasetConfig:
    """The config of the data set that holds the training rows.

    Its rows are those of the file dataset.shots_from; of the file of that name beside the rows that
    are asked; or of the split of that name. Raises UserError for a file that is not there.
    """
    file = Path(config.shots_from).expanduser()
    if file.exists():
        return config.model_copy(update={"data": str(file)})
    if not file.suffix:
        return config.model_copy(update={"split": config.shots_from})
    data = Path(config.data or "").expanduser()
    if config.data is None or data.is_dir() or is_archive(data.name):
        options = {**config.options, "files": (file.name,)}
        return config.model_copy(update={"options": options})
    beside = data.parent / file.name
    if not beside.exists():
        raise UserError(
            f"dataset.shots_from: there is no file '{file}', and none of that name beside "
            f"'{config.data}'; put it there, or ask without examples: dataset.shots=0"
        )
    return config.model_copy(update={"data": str(beside)})


def _unasked(training: Dataset, asked: Dataset) -> list[Example]:
    """The training rows with an answer whose question is not asked, by its text or its id.

    Ids that only number the rows ("12", "q_12") are not compared: every file has them.

    Args:
        training: The rows to choose from.
        asked: The questions that the run asks.
    """
    asked_ids: set[str] = set()
    asked_texts: set[tuple[str, ...]] = set()
    for example in asked.examples:
        asked_texts.add(tuple(_question_words(example)))
        if not COUNTER.fullmatch(example.question.id):
            asked_ids.add(example.question.id)
    unasked = []
    for example in training.examples:
        has_asked_id = example.question.id in asked_ids
        has_asked_text = tuple(_question_words(example)) in asked_texts
        if example.gold.answers and not has_asked_id and not has_asked_text:
            unasked.append(example)
    return unasked
