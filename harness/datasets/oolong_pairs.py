"""OOLONG-Pairs (Zhang et al. 2025): twenty questions for all pairs of users of a kind, on one text of
OOLONG.

    data/oolong-pairs-32768.json   [{"id": "1", "question": "In the above data, list all pairs ..",
                                     "answer": ["(11, 22)", ..], "type": "list_of_answers"}, ..]

The layout of mit-oasys/oolong-pairs, which has a file for each length and no texts. The text is a
row of OOLONG-synth's validation split (oolongbench/oolong-synth) of that length:

    {"dataset": "trec_coarse", "context_len": 32768, "context_window_text": "Date: .. || User: 11 || ..", ..}

Where there are several texts of a length, it is the first that names all users of the answers.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import Field, StrictInt

from harness.config.schema import DatasetConfig, canonical_json
from harness.datasets.base import Dataset, parse_options
from harness.datasets.files import parse_each, read_rows
from harness.datasets.find_files import FileOptions, find_source
from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import StrictRow, id_from_text, refuse_blank
from harness.errors import ConfigError, DataError
from harness.types import Document, Example, Gold, Question

HUB_ID_OF_TEXTS = "oolongbench/oolong-synth"
NO_PAIR = "no pairs"
"""The gold answer of a question without a pair."""
_USER = re.compile(r"User: (\d+)")
_NUMBER = re.compile(r"\d+")


class Options(FileOptions):
    """The options of OOLONG-Pairs."""

    tokens: StrictInt = Field(default=32768, ge=1024, description="length of the text, 1024 * 2^n")
    texts: str | None = Field(
        default=None,
        description=f"file or folder of OOLONG-synth; null: {HUB_ID_OF_TEXTS} from the hub",
    )


class _QuestionWithPairs(StrictRow):
    id: int | str
    question: str
    answer: list[str]


class _TextRow(StrictRow):
    dataset: str
    context_len: int
    context_window_text: str


def _parse_question(raw: RawRow) -> _QuestionWithPairs:
    """Parse a question with its pairs of users. Raises RowError, also for a blank id or
    question.
    """
    row = _QuestionWithPairs.read(raw)
    refuse_blank({"id": str(row.id), "question": row.question})
    return row


def _config_of_questions(config: DatasetConfig, options: Options) -> DatasetConfig:
    """The config that says where the questions are.

    The file of the wanted length, unless --data is a file or the option `files` names some.

    Args:
        config: The data set's config.
        options: Its options.
    """
    files: tuple[str, ...] | str = options.files
    data_is_file = config.data is not None and Path(config.data).expanduser().is_file()
    if not files and not data_is_file:
        files = (f"*oolong-pairs-{options.tokens}.json",)
    return config.model_copy(update={"options": {"files": files}})


def _config_of_texts(config: DatasetConfig, own_path: str | None) -> DatasetConfig:
    """The config that says where the texts of OOLONG-synth are.

    Args:
        config: The data set's config.
        own_path: A file or folder of the user's own; None: the hub.
    """
    settings_of_texts: dict[str, object] = {
        "hub": HUB_ID_OF_TEXTS,
        "data": own_path,
        "revision": None,
        "options": {},
        "split": "validation",
    }
    return config.model_copy(update=settings_of_texts)


def _read_texts(config: DatasetConfig, n_tokens: int) -> Iterator[str]:
    """Yield the texts of OOLONG-synth on TREC's questions that have a length; some come several
    times.

    Args:
        config: Says where the texts are.
        n_tokens: The length that a text must have.

    Raises:
        DataError: A row cannot be used.
        CannotRun: The hub cannot be reached.
    """
    for file in find_source(config).files:
        for row in parse_each(read_rows(file), _TextRow.read):
            if row.dataset == "trec_coarse" and row.context_len == n_tokens:
                yield row.context_window_text


def _users_in_answers(questions: Iterable[_QuestionWithPairs]) -> set[str]:
    """The numbers of all users that the answers name.

    ["(11, 22)", "(11, 7)"] -> {"11", "22", "7"}
    """
    users: set[str] = set()
    for question in questions:
        users.update(_NUMBER.findall(" ".join(question.answer)))
    return users


def _find_text_with_users(texts: Iterable[str], users: set[str], n_tokens: int) -> str:
    """The first text that names all users.

    Args:
        texts: The texts to look through.
        users: The numbers of the users.
        n_tokens: The length of the texts, for the error.

    Raises:
        ConfigError: No text does.
    """
    for text in texts:
        users_in_text = set(_USER.findall(text))
        if users <= users_in_text:
            return text
    problem = f"no trec_coarse text of {n_tokens} tokens names all users of the answers"
    raise ConfigError([f"dataset.texts: {problem}"])


def _example(question_with_pairs: _QuestionWithPairs, n_tokens: int, document: Document) -> Example:
    """Make a question on the text; its gold answer is all pairs, one a line.

    Args:
        question_with_pairs: The question as the row has it.
        n_tokens: The length of the text, which begins the question's id.
        document: The text.
    """
    pairs = "\n".join(question_with_pairs.answer) or NO_PAIR
    question_id = f"{n_tokens}-{question_with_pairs.id}"
    question = Question(question_id, question_with_pairs.question, (document.id,))
    return Example(question, Gold((pairs,)))


def load(config: DatasetConfig, limit: int | None = None) -> Dataset:
    """Load the questions of a length and their text; keep the first `limit` questions (None: all).

    The fingerprint is that of all questions and the text.

    Raises:
        ConfigError: The options are malformed, or no text fits.
        DataError: A file cannot be used.
        CannotRun: The hub cannot be reached.
    """
    options = parse_options(Options, config.options)
    source = find_source(_config_of_questions(config, options))
    questions: list[_QuestionWithPairs] = []
    for file in source.files:
        questions += parse_each(read_rows(file), _parse_question)
    if not questions:
        raise DataError.of_file(source.name, "holds no question")
    texts = _read_texts(_config_of_texts(config, options.texts), options.tokens)
    text = _find_text_with_users(texts, _users_in_answers(questions), options.tokens)
    document = Document(id_from_text("oolong-pairs", text), text)
    examples = [_example(question, options.tokens, document) for question in questions]
    fingerprint = hashlib.sha256(b"oolong-pairs 1\n")
    fingerprint.update(canonical_json([text, *examples]).encode())
    return Dataset(
        name=config.name,
        examples=tuple(examples[:limit]),
        documents={document.id: document},
        fingerprint=fingerprint.hexdigest(),
        source=source.name,
        revision=source.revision,
        n_all_questions=len(examples),
    )
