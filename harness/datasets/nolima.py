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

from harness.config.schema import DatasetConfig, canonical_json
from harness.config.yaml_tree import Tree, validate_tree
from harness.datasets.base import Dataset
from harness.datasets.files import read_json_value
from harness.datasets.row_places import RowPlace
from harness.datasets.rows import RowError, StrictRow
from harness.errors import ConfigError, DataError
from harness.storage.hub_download import DATASETS, download, pin_repo
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
        name: The name of the test, "0401_T14_onehop".
        kind: "onehop" or another.
        sentence: The sentence that is put into a book.
        question: The question.
        characters: The names to draw from.
        answers: The accepted answers where no name is drawn.
        seed: Seeds the draws of names, together with the book's number.
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
        name: The name of its file.
        text: The text.
        ends: The character after each token.
        breaks: The numbers of the tokens with a line break, and 0.
    """

    name: str
    text: str
    ends: Sequence[int]
    breaks: Sequence[int]

    def before(self, token: int) -> int:
        """The index of the character at which a token starts.

        Args:
            token: The token's number, from 0.
        """
        if token == 0:
            return 0
        return self.ends[token - 1]

    def around(self, depth: float, tokens: int) -> tuple[str, str]:
        """The text that stands before and after a sentence that is put into the book.

        The sentence stands at the first line break after its depth.

        Args:
            depth: How far into the text it stands, 0 to 1.
            tokens: The number of tokens of the book around it.

        Raises:
            DataError: The book is too short.
        """
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
        """Make the error for a book with fewer tokens than are asked for."""
        problem = f"the book has {len(self.ends)} tokens, too few for dataset.tokens={tokens}"
        return DataError(self.name, None, None, problem)


def _ends_of_tokens(text: str, tokenizer: str | None) -> list[int]:
    """The index of the character after each token of a text.

    Without a tokenizer: "abcdefghij" -> [4, 8, 10]

    Args:
        text: The text.
        tokenizer: The folder of a tokenizer; None: four characters are a token.

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
    """Read a book and divide it into tokens.

    Args:
        path: The file.
        tokenizer: The folder of a tokenizer; None: four characters are a token.

    Raises:
        ConfigError: The folder has no tokenizer.
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
    """Fill in the arguments of a text: ("next to {1}", ["the mill"]) -> "next to the mill"."""
    for number, argument in enumerate(arguments, start=1):
        text = text.replace(f"{{{number}}}", argument)
    return text


def _listed(answers: list[str] | str | None) -> tuple[str, ...]:
    """The answers as a tuple: ["a", "b"] -> ("a", "b"), "a" -> ("a",), None -> ()."""
    if answers is None:
        return ()
    if isinstance(answers, str):
        return (answers,)
    return tuple(answers)


def _tests_of(needle: _Needle, seed: int) -> Iterator[_Asked]:
    """Yield each test of a needle with each of its questions.

    Args:
        needle: A row of the file of tests.
        seed: The option `seed`; each test adds the number of its needle.

    Raises:
        RowError: A field is missing or malformed.
    """
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
    """Read all tests of a file of needles.

    Args:
        path: The file.
        seed: The option `seed`, which draws the names.

    Raises:
        DataError: The file or a row of it is malformed.
    """
    rows = read_json_value(path)
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
        number: The book's number, from 0, which also seeds the draws of names.
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
    """Whether a path of the release is a shuffled book, as "haystack/rand_shuffle/a.txt" is."""
    path = PurePosixPath(name)
    return path.parent.name == "rand_shuffle" and path.suffix == ".txt"


def _find_files(config: DatasetConfig, options: Options) -> _Files:
    """Find the file of tests and the books, in the folder `config.data` or else on the hub.

    Also downloads them from the hub.

    Args:
        config: Names the folder or the data set on the hub.
        options: Name the file of tests.

    Raises:
        ConfigError: The config names neither.
        DataError: The folder does not hold them.
        CannotRun: The hub cannot be reached, or does not have them.
    """
    needles = f"needlesets/{options.needles}.json"
    if config.data is None:
        if config.hub is None:
            raise ConfigError([f"dataset '{config.name}': name its folder with --data"])
        commit, listed = pin_repo(DATASETS, config.hub, config.revision)
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
    """Yield all tests at all depths of all books, one book after the other.

    Args:
        books: The files of the books, which are read when their turn comes.
        tests: The tests.
        options: How long the texts are, and how many depths there are.
    """
    for number, path in enumerate(books):
        book = _read_book(path, options.tokenizer)
        for asked in tests:
            yield from _placed(asked, book, number, options)


def load(config: DatasetConfig, limit: int | None = None) -> Dataset:
    """Make the texts of all tests and keep the first `limit` (None: all).

    The fingerprint is that of the files and options.

    Raises:
        ConfigError: The options are malformed, or no folder is named.
        DataError: A file cannot be used.
        CannotRun: The hub cannot be reached.
    """
    options = validate_tree(Options, Tree([("", config.options)]), "dataset")
    files = _find_files(config, options)
    hashed = hashlib.sha256(canonical_json(["nolima 1", options.model_dump()]).encode())
    for path in (files.needles, *files.books):
        hashed.update(path.read_bytes())
    tests = _read_tests(files.needles, options.seed)
    made = _placed_in(files.books, tests, options)
    first = list(itertools.islice(made, limit))
    return Dataset(
        config.name,
        tuple(placed.example for placed in first),
        {placed.document.id: placed.document for placed in first},
        hashed.hexdigest(),
        f"{files.source} ({options.needles}, {options.tokens} tokens)",
        files.revision,
        rows=len(tests) * len(files.books) * options.depths,
    )
