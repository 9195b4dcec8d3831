"""One checked row: what every format is turned into, and how it becomes a question with its
document.

Row(id="q1", question="Who ...?", paragraphs=(("Title", "Text."),), answers=("Ada",), supporting=(0,))
  ─► Document(id="q1", text="Title\\nText.", passages=(Passage("Title", 0, 11),)), Example(...)

Formats in which questions share a document turn a row into a `Group`, those with retrieved
documents into `Retrieved`.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Self, TypeGuard, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from harness.config.schema import canonical
from harness.datasets.raw_rows import RawRow
from harness.types import Document, Example, Gold, Passage, Question, Support

SEPARATOR = "\n\n"
T = TypeVar("T")

_EXPECTED = {
    "string_type": "a string",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}

_TYPE_NAMES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (str, "a string"),
    ((int, float), "a number"),
    (Mapping, "an object"),
    ((list, tuple), "a list"),
)


class RowError(Exception):
    """A row that cannot be used: the field (None: the whole row) and what is wrong with it."""

    def __init__(self, field: str | None, problem: str) -> None:
        """Keep the field (None: the whole row) and the problem; the problem is also the
        message.
        """
        super().__init__(problem)
        self.field, self.problem = field, problem


class StrictRow(BaseModel):
    """A raw row, or a part of one: no value is converted, and fields that are not named are left
    alone."""

    model_config = ConfigDict(strict=True, extra="ignore")

    @classmethod
    def read(cls, raw: RawRow) -> Self:
        """Check a raw row and return it as an object of this class.

        Raises RowError for its first mistake: {"qas": [{"id": 3}]} -> field "qas[0].id", "should be
        a string, is a number".
        """
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
        raise RowError(_field_path(first["loc"]) or None, _row_problem(first))


def _field_path(parts: Sequence[int | str]) -> str:
    """Write the place of a field as a path: ("qas", 0, "id") -> "qas[0].id"; () -> ""."""
    path = ""
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        elif path:
            path += f".{part}"
        else:
            path = part
    return path


def _row_problem(error: ErrorDetails) -> str:
    """Say in words what is wrong with a field: "is missing", "should be a string, is a number".

    Args:
        error: One error of pydantic: its type, its message and the value found.
    """
    if error["type"] == "missing":
        return "is missing"
    if error["type"] == "columns":
        return error["msg"]
    actual = type_name(error["input"])
    expected = _EXPECTED.get(error["type"])
    if expected is None:
        return f"{error['msg']} (is {actual})"
    return f"should be {expected}, is {actual}"


def _to_records(value: object) -> object:
    """`records_from_columns` as a pydantic validator, which may raise only pydantic's errors."""
    try:
        return records_from_columns(value, "")
    except RowError as error:
        raise PydanticCustomError("columns", "{problem}", {"problem": error.problem}) from None


# A field: a list of objects, or columns as on Hugging Face.
Records = Annotated[list[T], BeforeValidator(_to_records)]


NO_DOCUMENTS = "without retrieved documents"  # the reason of a Skip


@dataclass(frozen=True, slots=True)
class Skip:
    """A well-formed row that is left out on purpose; rows are counted by `reason`."""

    reason: str


@dataclass(frozen=True, slots=True)
class Row:
    """A checked row: a question with paragraphs of its own.

    Attributes:
        id: Of the question, and of the document that its paragraphs become.
        question: The question.
        paragraphs: (title, text) of each.
        answers: The accepted answers.
        supporting: The indices of the paragraphs with evidence.
        extra: Becomes `Gold.extra`.
    """

    id: str
    question: str
    paragraphs: tuple[tuple[str, str], ...]
    answers: tuple[str, ...]
    supporting: tuple[int, ...] = ()
    extra: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    """What one row holds of a document: its text and questions about it. Other rows may hold the
    same document."""

    document: Document
    examples: tuple[Example, ...]

    @property
    def documents(self) -> tuple[Document, ...]:
        """The document in a tuple, as `Retrieved` has several."""
        return (self.document,)


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A question and the documents that were retrieved for it, best first; questions may share some
    of them."""

    documents: tuple[Document, ...]
    example: Example

    @property
    def examples(self) -> tuple[Example, ...]:
        """The question in a tuple, as `Group` has several."""
        return (self.example,)


def refuse_blank(texts: Mapping[str, str]) -> None:
    """Raise RowError for the first field whose text is blank.

    Args:
        texts: Name of each field -> its text.
    """
    for name, text in texts.items():
        if not text.strip():
            raise RowError(name, "is empty")


def normalise_space(text: str) -> str:
    """`text` with single spaces in place of runs of white space, and none at its ends."""
    return " ".join(text.split())


def made_id(prefix: str, text: str, digits: int = 12) -> str:
    """Make an id from a text, for an item that has none: ("doc", "One.", 4) -> "doc-7027".

    Args:
        prefix: What the id begins with.
        text: The first digits of the sha256 of this text end the id.
        digits: The number of hexadecimal digits.
    """
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    return f"{prefix}-{digest[:digits]}"


def _are_columns(value: object) -> TypeGuard[Mapping[str, list[object]]]:
    """Whether a value is a non-empty object whose values are all lists: {"id": [0, 1]} -> True."""
    if not isinstance(value, Mapping) or not value:
        return False
    return all(isinstance(column, list) for column in value.values())


def text_with_question(
    name: str,
    text: str,
    question: tuple[str, str],
    answers: tuple[str, ...],
    extra: Mapping[str, object],
    *options: str,
) -> Group:
    """Make a `Group` of one question and its text; rows with the same text get the same document.

    Args:
        name: The id of the document is this name and a hash of the text.
        text: The text of the document.
        question: The question's id and its words.
        answers: The accepted answers.
        extra: Becomes `Gold.extra`.
        *options: The answers to choose from, where the question offers a choice.
    """
    document = Document(made_id(name, text), text)
    question_id, words = question
    asked = Question(question_id, words, (document.id,), options or None)
    return Group(document, (Example(asked, Gold(answers, extra=dict(extra))),))


def gold_answers(answer: str | None, aliases: Sequence[str] = ()) -> tuple[str, ...]:
    """The answer and then its aliases, without repeats and blanks.

    Args:
        answer: The answer of the row; None where the row has none.
        aliases: Other spellings that are accepted.

    Raises:
        RowError: `answer` is missing or blank.
    """
    if answer is None or not answer.strip():
        raise RowError(
            "answer",
            "the row has no answer (test splits are published without; use the validation split)",
        )
    return clean_answers((answer, *aliases), "answer")


def clean_answers(texts: Iterable[str], name: str) -> tuple[str, ...]:
    """The texts without repeats and without blank ones, which would match any reply.

    Args:
        texts: The accepted answers.
        name: The field they are from, for the error.

    Raises:
        RowError: None is left.
    """
    answers = tuple(dict.fromkeys(text for text in texts if text.strip()))
    if not answers:
        raise RowError(name, "the row has no answer")
    return answers


def records_from_columns(value: object, name: str) -> object:
    """Turn columns into a list of objects; any other value is returned as it is.

    {"title": ["Ada", "Bo"], "id": [0, 1]} -> [{"title": "Ada", "id": 0}, {"title": "Bo", "id": 1}]

    Hugging Face stores nested lists either way.

    Args:
        value: The columns.
        name: The field, for messages.

    Raises:
        RowError: The columns differ in length.
    """
    if not _are_columns(value):
        return value
    lengths = {str(key): len(column) for key, column in value.items()}
    if len(set(lengths.values())) > 1:
        sizes = ", ".join(f"{key} {length}" for key, length in lengths.items())
        raise RowError(name, f"its lists differ in length ({sizes})")
    entries = zip(*value.values(), strict=True)
    return [dict(zip(value, entry, strict=True)) for entry in entries]


def type_name(value: object) -> str:
    """The type of a JSON value in a word or two, for messages: 3 -> "a number", None -> "null"."""
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    for kind, name in _TYPE_NAMES:
        if isinstance(value, kind):
            return name
    return "not JSON"


def as_object(value: object) -> RawRow:
    """Return `value` if it is a JSON object (a dict). Raises RowError for any other value."""
    if not isinstance(value, dict):
        raise RowError(None, f"should be an object, is {type_name(value)}")
    return value


def canonical_line(value: object) -> bytes:
    """The value as JSON with sorted keys, encoded as the bytes that go into a fingerprint.

    Raises RowError for a lone surrogate, which is not valid text.
    """
    try:
        return canonical(value).encode()
    except UnicodeEncodeError as error:
        code = f"\\u{ord(error.object[error.start]):04x}"  # JSON can spell half of a surrogate pair
        raise RowError(None, f"holds half a character ({code}), which is not valid text") from None


def assemble(row: Row) -> tuple[Example, Document]:
    r"""Turn a row into a question with its gold answers and the document made of its paragraphs.

    paragraphs (("Ada", "She wrote."), ("", "End.")) -> the text "Ada\nShe wrote.\n\nEnd." with
    a passage for each paragraph: Passage("Ada", 0, 14), Passage("", 16, 20)

    Raises:
        RowError: The id, the question, a paragraph or the document is empty, or `supporting`
            names a paragraph that is not there.
    """
    refuse_blank({"id": row.id, "question": row.question})
    if not any(text.strip() for _, text in row.paragraphs):
        raise RowError(None, "the document is empty: no paragraph has text")
    pieces: list[str] = []
    passages: list[Passage] = []
    start = 0
    for number, (title, text) in enumerate(row.paragraphs):
        title_and_text = [part for part in (title, text) if part]
        piece = "\n".join(title_and_text)
        if not piece.strip():
            raise RowError(None, f"paragraph {number} has neither title nor text")
        passages.append(Passage(title, start, start + len(piece)))
        pieces.append(piece)
        start += len(piece) + len(SEPARATOR)
    document = Document(id=row.id, text=SEPARATOR.join(pieces), passages=tuple(passages))
    question = Question(id=row.id, text=row.question, document_ids=(row.id,))
    gold = Gold(row.answers, _supporting(row, passages), row.extra)
    return Example(question, gold), document


def _supporting(row: Row, passages: Sequence[Passage]) -> tuple[Support, ...]:
    """The spans of the supporting paragraphs in the document, in order of the text.

    Args:
        row: Its `supporting` has the indices of the paragraphs.
        passages: The span of each paragraph of the row.

    Raises:
        RowError: An index is not that of a paragraph.
    """
    for number in row.supporting:
        if number not in range(len(passages)):
            problem = f"{number!r} is no paragraph's number, 0 to {len(passages) - 1}"
            raise RowError("supporting", problem)
    spans = [passages[number] for number in sorted(set(row.supporting))]
    return tuple(Support(row.id, span.start, span.end) for span in spans)
