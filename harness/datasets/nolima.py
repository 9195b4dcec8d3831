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
from typing import Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, StrictInt
from tokenizers import Tokenizer

from harness.config.schema import DatasetConfig, canonical_json
from harness.datasets.base import Dataset, parse_options
from harness.datasets.files import read_json_value
from harness.datasets.row_places import RowPlace
from harness.datasets.rows import RowError, StrictRow
from harness.errors import ConfigError, DataError
from harness.storage.hub_download import DATASETS, download, pin_repo
from harness.types import Document, Example, Gold, Question, Support

CHARACTER_PLACEHOLDER = "{CHAR}"
_CHARACTERS_PER_TOKEN = 4  # where no tokenizer is named


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


class _TestRow(StrictRow):
    input_args: list[str]
    gold_answers: list[str] | str | None = None


class _NeedleRow(StrictRow):
    id: str
    needle: str
    questions: dict[str, str]
    tests: dict[str, _TestRow]
    character_set: list[str] | None = None


@dataclass(frozen=True)
class _Test:
    """A sentence and a question on it; the name that fills {CHAR} is drawn later.

    Attributes:
        name: The name of the test, "0401_T14_onehop".
        kind: "onehop" or another.
        sentence: The sentence that is put into a book.
        question: The question.
        character_names: The names to draw from; () where none is drawn.
        answers: The accepted answers where no name is drawn.
        seed: Seeds the draws of names, together with the book's number.
    """

    name: str
    kind: str
    sentence: str
    question: str
    character_names: tuple[str, ...]
    answers: tuple[str, ...]
    seed: int


@dataclass(frozen=True)
class _TextWithQuestion:
    """A text with its question."""

    document: Document
    example: Example


class _TextAround(NamedTuple):
    """The text before and after a place in a book."""

    before: str
    after: str


@dataclass(frozen=True)
class _Book:
    """A book and its tokens.

    Attributes:
        file_name: The name of its file.
        text: The text.
        token_ends: The index of the character after each token [tokens].
        tokens_with_line_break: The numbers of the tokens with a line break, and 0.
    """

    file_name: str
    text: str
    token_ends: Sequence[int]
    tokens_with_line_break: Sequence[int]

    def token_start(self, token: int) -> int:
        """The index of the character at which a token starts.

        Args:
            token: The token's number, from 0.
        """
        if token == 0:
            return 0
        return self.token_ends[token - 1]

    def text_around(self, depth: float, n_tokens: int) -> _TextAround:
        """The text that stands before and after a sentence that is put into the book.

        The sentence stands at the first line break of the book that has at least `depth` x
        (n_tokens + 1) tokens before it. Of the n_tokens around it, the share `depth` is from before
        the break; the text before ends with its last whole line.

        Args:
            depth: How far into the text it stands, 0 to 1.
            n_tokens: The number of tokens of the book around it.

        Raises:
            DataError: The book is too short.
        """
        break_token = None
        for token in self.tokens_with_line_break:
            if token / (n_tokens + 1) >= depth:
                break_token = token
                break
        if break_token is None:
            raise self._too_short(n_tokens)
        first_token = break_token - round(n_tokens * depth)
        token_after = first_token + n_tokens
        if token_after > len(self.token_ends):
            raise self._too_short(n_tokens)
        start = self.token_start(first_token)
        end_of_break = self.token_ends[break_token]
        end = self.token_start(token_after)
        text_before = self.text[start:end_of_break]
        last_line_break = max(text_before.rfind("\n"), 0)  # 0: without one nothing stands before
        return _TextAround(before=text_before[:last_line_break], after=self.text[end_of_break:end])

    def _too_short(self, n_tokens: int) -> DataError:
        """Make the error for a book with fewer tokens than are needed."""
        n_in_book = len(self.token_ends)
        problem = f"the book has {n_in_book} tokens, too few for dataset.tokens={n_tokens}"
        return DataError.of_file(self.file_name, problem)


def _token_ends(text: str, tokenizer_folder: str | None) -> list[int]:
    """The index of the character after each token of a text.

    Without a tokenizer: "abcdefghij" -> [4, 8, 10]

    Args:
        text: The text.
        tokenizer_folder: The folder of a tokenizer; None: four characters are a token.

    Raises:
        ConfigError: The folder has no tokenizer.
    """
    if tokenizer_folder is None:
        return [*range(_CHARACTERS_PER_TOKEN, len(text), _CHARACTERS_PER_TOKEN), len(text)]
    try:
        file = Path(tokenizer_folder).expanduser() / "tokenizer.json"
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # tokenizers raises plain Exception
        problem = f"'{tokenizer_folder}' has no tokenizer.json that can be read"
        raise ConfigError([f"dataset.tokenizer: {problem}"]) from error
    return [end for _, end in tokenizer.encode(text, add_special_tokens=False).offsets]


def _read_book(path: Path, tokenizer_folder: str | None) -> _Book:
    """Read a book and divide it into tokens.

    Args:
        path: The file.
        tokenizer_folder: The folder of a tokenizer; None: four characters are a token.

    Raises:
        ConfigError: The folder has no tokenizer.
    """
    text = path.read_text(encoding="utf-8")
    token_ends = _token_ends(text, tokenizer_folder)
    tokens_with_line_break = [0]
    start = 0
    for token, end in enumerate(token_ends):
        if "\n" in text[start:end]:
            tokens_with_line_break.append(token)
        start = end
    return _Book(path.name, text, token_ends, tokens_with_line_break)


def _fill_in(text: str, arguments: Sequence[str]) -> str:
    """Fill in the arguments of a text: ("next to {1}", ["the mill"]) -> "next to the mill"."""
    for number, argument in enumerate(arguments, start=1):
        placeholder = f"{{{number}}}"
        text = text.replace(placeholder, argument)
    return text


def _as_tuple(answers: list[str] | str | None) -> tuple[str, ...]:
    """The answers as a tuple: ["a", "b"] -> ("a", "b"), "a" -> ("a",), None -> ()."""
    if answers is None:
        return ()
    if isinstance(answers, str):
        return (answers,)
    return tuple(answers)


def _tests_of_needle(needle: _NeedleRow, seed: int) -> Iterator[_Test]:
    """Yield each test of a needle with each of its questions.

    Args:
        needle: A row of the file of tests.
        seed: The option `seed`; each test adds the number of its needle.

    Raises:
        RowError: A field is missing or malformed.
    """
    character_names: tuple[str, ...] = ()
    if CHARACTER_PLACEHOLDER in needle.needle:
        character_names = tuple(needle.character_set or ())
        if not character_names:
            raise RowError("character_set", "is missing, though the needle has {CHAR}")
    needle_number = needle.id[:4]
    if not needle_number.isdigit():
        raise RowError("id", f"should begin with four digits, is '{needle.id}'")
    for kind, question in needle.questions.items():
        for test_id, row in needle.tests.items():
            if not character_names and not row.gold_answers:
                raise RowError(f"tests.{test_id}.gold_answers", "is missing")
            yield _Test(
                name=f"{needle.id}_{test_id}_{kind}",
                kind=kind,
                sentence=_fill_in(needle.needle, row.input_args),
                question=_fill_in(question, row.input_args),
                character_names=character_names,
                answers=_as_tuple(row.gold_answers),
                seed=seed + int(needle_number),
            )


def _read_tests(path: Path, seed: int) -> list[_Test]:
    """Read all tests of a file of needles.

    Args:
        path: The file.
        seed: The option `seed`, which draws the names.

    Raises:
        DataError: The file or a row of it is malformed.
    """
    rows = read_json_value(path)
    if not isinstance(rows, list):
        raise DataError.of_file(path.name, "should be a list of needles")
    tests: list[_Test] = []
    for number, raw in enumerate(rows, start=1):
        try:
            tests += _tests_of_needle(_NeedleRow.read(raw), seed)
        except RowError as error:
            raise RowPlace(path.name, row=number).error(error.field, error.problem) from None
    return tests


def _texts_at_all_depths(
    test: _Test, book: _Book, book_number: int, options: Options
) -> Iterator[_TextWithQuestion]:
    """Yield a test at each depth of a book.

    Args:
        test: The sentence to find, and the question.
        book: The book.
        book_number: The book's number, from 0, which also seeds the draws of names.
        options: How long the text is, and how many depths there are.
    """
    dice = np.random.RandomState(test.seed + book_number)
    for depth_number, percent in enumerate(np.linspace(0, 100, options.depths)):
        sentence = test.sentence
        question_text = test.question
        answers = test.answers
        if test.character_names:
            name = str(dice.choice(test.character_names))
            sentence = sentence.replace(CHARACTER_PLACEHOLDER, name)
            question_text = question_text.replace(CHARACTER_PLACEHOLDER, name)
            answers = (name,)
        document_id = f"{test.name}-{book_number}-{depth_number}"
        before, after = book.text_around(float(percent) / 100, options.tokens)
        text = f"{before} {sentence}\n{after}"
        start = len(before) + len(" ")
        support = Support(document_id, start, start + len(sentence))
        gold = Gold(answers, (support,), {"type": test.kind})
        question = Question(f"{document_id}-q", question_text, (document_id,))
        yield _TextWithQuestion(Document(document_id, text), Example(question, gold))


@dataclass(frozen=True)
class _Files:
    """The files of a release.

    Attributes:
        needles: The file of tests.
        books: The books, by name.
        source: Where they are from, for the manifest.
        revision: Their commit on the hub; None for a folder.
    """

    needles: Path
    books: list[Path]
    source: str
    revision: str | None = None


def _is_book(name: str) -> bool:
    """Whether a path of the release is a shuffled book, as "haystack/rand_shuffle/a.txt" is."""
    path = PurePosixPath(name)
    return path.parent.name == "rand_shuffle" and path.suffix == ".txt"


def _find_files(config: DatasetConfig, options: Options) -> _Files:
    """Find the file of tests and the books, in the folder `config.data` or else on the hub, from
    which they are downloaded.

    Args:
        config: Names the folder or the data set on the hub.
        options: Name the file of tests.

    Raises:
        ConfigError: The config names neither.
        DataError: The folder does not hold them.
        CannotRun: The hub cannot be reached, or does not have them.
    """
    tests_path = f"needlesets/{options.needles}.json"
    if config.data is None:
        if config.hub is None:
            raise ConfigError([f"dataset '{config.name}': name its folder with --data"])
        commit, paths_on_hub = pin_repo(DATASETS, config.hub, config.revision)
        book_paths = sorted(filter(_is_book, paths_on_hub))
        tests_file = download(DATASETS, config.hub, commit, tests_path)
        books = [download(DATASETS, config.hub, commit, path) for path in book_paths]
        return _Files(tests_file, books, source=config.hub, revision=commit)
    folder = Path(config.data).expanduser()
    tests_file = folder / tests_path
    books = sorted(folder.glob("haystack/rand_shuffle/*.txt"))
    if not tests_file.is_file() or not books:
        needed = f"{tests_path} and haystack/rand_shuffle/*.txt"
        problem = f"should hold {needed}, as the hub's repository"
        raise DataError.of_file(str(config.data), problem)
    return _Files(tests_file, books, source=folder.name)


def _make_texts(
    books: Sequence[Path], tests: Sequence[_Test], options: Options
) -> Iterator[_TextWithQuestion]:
    """Yield all tests at all depths of all books, one book after the other.

    Args:
        books: The files of the books, which are read when their turn comes.
        tests: The tests.
        options: How long the texts are, and how many depths there are.
    """
    for book_number, path in enumerate(books):
        book = _read_book(path, options.tokenizer)
        for test in tests:
            yield from _texts_at_all_depths(test, book, book_number, options)


def load(config: DatasetConfig, limit: int | None = None) -> Dataset:
    """Make the texts of all tests and keep the first `limit` (None: all).

    The fingerprint is that of the files and options.

    Raises:
        ConfigError: The options are malformed, or no folder is named.
        DataError: A file cannot be used.
        CannotRun: The hub cannot be reached.
    """
    options = parse_options(Options, config.options)
    files = _find_files(config, options)
    fingerprint = hashlib.sha256(canonical_json(["nolima 1", options.model_dump()]).encode())
    for path in (files.needles, *files.books):
        fingerprint.update(path.read_bytes())
    tests = _read_tests(files.needles, options.seed)
    all_texts = _make_texts(files.books, tests, options)
    texts = list(itertools.islice(all_texts, limit))
    return Dataset(
        name=config.name,
        examples=tuple(text.example for text in texts),
        documents={text.document.id: text.document for text in texts},
        fingerprint=fingerprint.hexdigest(),
        source=f"{files.source} ({options.needles}, {options.tokens} tokens)",
        revision=files.revision,
        n_all_questions=len(tests) * len(files.books) * options.depths,
    )
