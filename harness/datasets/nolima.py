"""NoLiMa (Modarressi et al., ICML 2025): one sentence in pages of books, asked for in other words.

    needlesets/needle_set.json, a list of
        {"id": "0401", "needle": "Actually, {CHAR} lives next to {1}.", "character_set": ["Ann", "Bo"],
         "questions": {"onehop": "Which character has been to {2}?", "twohop": ".."},
         "tests": {"T14": {"input_args": ["the mill", "Kelford"]}}}
    haystack/rand_shuffle/rand_book_1.txt, ..

The layout of amodaresi/NoLiMa as the authors' program reads it (evaluation/run_tests.py,
data/book_haystack.py of adobe-research/NoLiMa). Each test is asked in each book at each depth: the
sentence stands at the first line break after the depth, in `tokens` tokens of the book around it.
The names are drawn as there; books are numbered in the order of their names, where theirs is that
of the file system. A needle without {CHAR} has `gold_answers` in its test.
"""

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, StrictInt
from tokenizers import Tokenizer

from harness.config.schema import DatasetConfig, canonical
from harness.config.yaml_tree import Tree, build
from harness.datasets.base import Dataset
from harness.datasets.files import json_value
from harness.datasets.row_places import RowPlace
from harness.datasets.rows import RowError, StrictRow
from harness.errors import ConfigError, DataError
from harness.storage.hub_download import DATASETS, download, resolve
from harness.types import Document, Example, Gold, Question, Support

CHARACTER = "{CHAR}"
_LETTERS_OF_A_TOKEN = 4  # where no tokenizer is named


class Options(BaseModel):
    """The options of NoLiMa."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    needles: Literal["needle_set", "needle_set_hard", "needle_set_ONLYDirect"] = Field(
        default="needle_set", description="the file of tests in needlesets/"
    )
    tokens: StrictInt = Field(
        default=1000, ge=50, description="length of the text without the sentence"
    )
    tokenizer: str | None = Field(
        default=None, description="folder of the tokenizer that counts; null: characters / 4"
    )
    depths: StrictInt = Field(default=26, ge=2, description="places of the sentence in each book")
    seed: StrictInt = Field(default=42, description="draws the names; the authors' by default")


class _Test(StrictRow):
    input_args: list[str]
    gold_answers: list[str] | str | None = None


class _Needle(StrictRow):
    id: str
    needle: str
    questions: dict[str, str]
    tests: dict[str, _Test]
    character_set: list[str] | None = None


@dataclass(frozen=True)
class _Asked:
    """A sentence and a question on it; the name that fills {CHAR} is drawn later.

    Attributes:
        name: Of the test.
        kind: "onehop" or another.
        sentence: The sentence that is put into a book.
        question: The question.
        characters: The names to draw from.
        answers: The accepted answers where no name is drawn.
        seed: Of the draws, without the book's number.
    """

    name: str
    kind: str
    sentence: str
    question: str
    characters: tuple[str, ...]
    answers: tuple[str, ...]
    seed: int


@dataclass(frozen=True)
class _Placed:
    """A text with its question."""

    document: Document
    example: Example


@dataclass(frozen=True)
class _Book:
    """A book and its tokens.

    Attributes:
        name: Of its file.
        text: The text.
        ends: The character after each token.
        breaks: The numbers of the tokens with a line break, and 0.
    """

    name: str
    text: str
    ends: Sequence[int]
    breaks: Sequence[int]

    def before(self, token: int) -> int:
        """Where a token starts."""
        if token == 0:
            return 0
        return self.ends[token - 1]

    def around(self, depth: float, tokens: int) -> tuple[str, str]:
        """The text before and after a sentence at a depth (0 to 1). Raises DataError for a book that
        is too short."""
        place = None
        for token in self.breaks:
            if token / (tokens + 1) >= depth:
                place = token
                break
        if place is None:
            raise self._too_short(tokens)
        start = place - round(tokens * depth)
        end = start + tokens
        if end > len(self.ends):
            raise self._too_short(tokens)
        before = self.text[self.before(start) : self.ends[place]]
        after = self.text[self.ends[place] : self.before(end)]
        return before[: max(before.rfind("\n"), 0)], after

    def _too_short(self, tokens: int) -> DataError:
        """The error for a book with fewer tokens than are asked for."""
        problem = f"the book has {len(self.ends)} tokens, too few for dataset.tokens={tokens}"
        return DataError(self.name, None, None, problem)


def _ends_of_tokens(text: str, tokenizer: str | None) -> list[int]:
    """The character after each token of a text.

    Args:
        text: The text.
        tokenizer: The folder of a tokenizer; None: every few letters are a token.

    Raises:
        ConfigError: The folder has no tokenizer.
    """
    if tokenizer is None:
        return [*range(_LETTERS_OF_A_TOKEN, len(text), _LETTERS_OF_A_TOKEN), len(text)]
    try:
        loaded = Tokenizer.from_file(str(Path(tokenizer).expanduser() / "tokenizer.json"))
    except Exception as error:  # tokenizers raises plain Exception
        problem = f"'{tokenizer}' has no tokenizer.json that can be read"
        raise ConfigError([f"dataset.tokenizer: {problem}"]) from error
    return [end for _, end in loaded.encode(text, add_special_tokens=False).offsets]


def _read_book(path: Path, tokenizer: str | None) -> _Book:
    """Read a book.

    Its `breaks` are the numbers of the tokens with a line break, and 0.

    Args:
        path: The file.
        tokenizer: The folder of a tokenizer; None: every few letters are a token.
    """
    text = path.read_text(encoding="utf-8")
    ends = _ends_of_tokens(text, tokenizer)
    breaks = [0]
    start = 0
    for token, end in enumerate(ends):
        if "\n" in text[start:end]:
            breaks.append(token)
        start = end
    return _Book(path.name, text, ends, breaks)


def _filled(text: str, arguments: Sequence[str]) -> str:
    """A text with {1}, {2}, .. replaced."""
    for number, argument in enumerate(arguments, start=1):
        text = text.replace(f"{{{number}}}", argument)
    return text


def _listed(answers: list[str] | str | None) -> tuple[str, ...]:
    """The answers as a tuple, from a list, a single text or None."""
    if answers is None:
        return ()
    if isinstance(answers, str):
        return (answers,)
    return tuple(answers)


def _tests_of(needle: _Needle, seed: int) -> Iterator[_Asked]:
    """The tests of a needle with each of its questions. Raises RowError."""
    drawn_from: tuple[str, ...] = ()
    if CHARACTER in needle.needle:
        drawn_from = tuple(needle.character_set or ())
        if not drawn_from:
            raise RowError("character_set", "is missing, though the needle has {CHAR}")
    if not needle.id[:4].isdigit():
        raise RowError("id", f"should begin with four digits, is '{needle.id}'")
    for kind, question in needle.questions.items():
        for number, test in needle.tests.items():
            if not drawn_from and not test.gold_answers:
                raise RowError(f"tests.{number}.gold_answers", "is missing")
            yield _Asked(
                name=f"{needle.id}_{number}_{kind}",
                kind=kind,
                sentence=_filled(needle.needle, test.input_args),
                question=_filled(question, test.input_args),
                characters=drawn_from,
                answers=_listed(test.gold_answers),
                seed=seed + int(needle.id[:4]),
            )


def _read_tests(path: Path, seed: int) -> list[_Asked]:
    """All tests of a file. Raises DataError."""
    rows = json_value(path)
    if not isinstance(rows, list):
        raise DataError(path.name, None, None, "should be a list of needles")
    tests: list[_Asked] = []
    for number, raw in enumerate(rows, start=1):
        try:
            tests.extend(_tests_of(_Needle.read(raw), seed))
        except RowError as error:
            raise RowPlace(path.name, row=number).error(error.field, error.problem) from None
    return tests


def _placed(asked: _Asked, book: _Book, number: int, options: Options) -> Iterator[_Placed]:
    """Yield a test at each depth of a book.

    Args:
        asked: The test: the sentence to find, and the question.
        book: The book.
        number: Of the book, from 0.
        options: How long the text is, and how many depths there are.
    """
    dice = np.random.RandomState(asked.seed + number)
    for step, percent in enumerate(np.linspace(0, 100, options.depths)):
        sentence, question, answers = asked.sentence, asked.question, asked.answers
        if asked.characters:
            drawn = str(dice.choice(asked.characters))
            sentence = sentence.replace(CHARACTER, drawn)
            question = question.replace(CHARACTER, drawn)
            answers = (drawn,)
        name = f"{asked.name}-{number}-{step}"
        before, after = book.around(float(percent) / 100, options.tokens)
        text = f"{before} {sentence}\n{after}"
        start = len(before) + 1
        support = Support(name, start, start + len(sentence))
        gold = Gold(answers, (support,), {"type": asked.kind})
        yield _Placed(Document(name, text), Example(Question(f"{name}-q", question, (name,)), gold))


@dataclass(frozen=True)
class _Files:
    """The files of a release: its tests and its books, by name; source and revision: said in the
    `Dataset`."""

    needles: Path
    books: list[Path]
    source: str
    revision: str | None = None


def _is_book(name: str) -> bool:
    """Whether a path of the release is one of the shuffled books."""
    path = PurePosixPath(name)
    return path.parent.name == "rand_shuffle" and path.suffix == ".txt"


def _find_files(config: DatasetConfig, options: Options) -> _Files:
    """The files in `config.data`, else on the hub. Raises DataError, CannotRun, ConfigError."""
    needles = f"needlesets/{options.needles}.json"
    if config.data is None:
        if config.hub is None:
            raise ConfigError([f"dataset '{config.name}': name its folder with --data"])
        commit, listed = resolve(DATASETS, config.hub, config.revision)
        books = sorted(filter(_is_book, listed))
        found = [download(DATASETS, config.hub, commit, name) for name in (needles, *books)]
        return _Files(found[0], found[1:], config.hub, commit)
    folder = Path(config.data).expanduser()
    books_here = sorted(folder.glob("haystack/rand_shuffle/*.txt"))
    if not (folder / needles).is_file() or not books_here:
        problem = f"should hold {needles} and haystack/rand_shuffle/*.txt, as the hub's repository"
        raise DataError(str(config.data), None, None, problem)
    return _Files(folder / needles, books_here, folder.name)


def _placed_in(
    books: Sequence[Path], tests: Sequence[_Asked], options: Options
) -> Iterator[_Placed]:
    """All tests at all depths of all books, a book after the other."""
    for number, path in enumerate(books):
        book = _read_book(path, options.tokenizer)
        for asked in tests:
            yield from _placed(asked, book, number, options)


def load(config: DatasetConfig, limit: int | None = None) -> Dataset:
    """Make the texts of all tests; keep the first `limit`. The fingerprint is that of the files and
    options.

    Raises ConfigError for options, DataError for files, CannotRun for the hub.
    """
    options = build(Options, Tree([("", config.options)]), "dataset")
    files = _find_files(config, options)
    hashed = hashlib.sha256(canonical(["nolima 1", options.model_dump()]).encode())
    for path in (files.needles, *files.books):
        hashed.update(path.read_bytes())
    tests = _read_tests(files.needles, options.seed)
    made = _placed_in(files.books, tests, options)
    kept = list(itertools.islice(made, limit))
    return Dataset(
        config.name,
        tuple(placed.example for placed in kept),
        {placed.document.id: placed.document for placed in kept},
        hashed.hexdigest(),
        f"{files.source} ({options.needles}, {options.tokens} tokens)",
        files.revision,
        rows=len(tests) * len(files.books) * options.depths,
    )
