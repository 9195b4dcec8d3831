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
from typing import Annotated, NamedTuple, Self, TypeGuard, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from harness.config.schema import canonical_json
from harness.datasets.raw_rows import RawRow
from harness.types import Document, Example, Gold, Passage, Question, Support

SEPARATOR = "\n\n"
T = TypeVar("T")

# Type of a pydantic error -> what the value should have been.
_EXPECTED_TYPES = {
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
            first_mistake = error.errors(include_url=False, include_context=False)[0]
        field_or_whole_row = _field_path(first_mistake["loc"]) or None
        raise RowError(field_or_whole_row, _problem_in_words(first_mistake))


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


def _problem_in_words(error: ErrorDetails) -> str:
    """Say in words what is wrong with a field: "is missing", "should be a string, is a number".

    Args:
        error: One error of pydantic: its type, its message and the value found.
    """
    if error["type"] == "missing":
        return "is missing"
    if error["type"] == _COLUMNS_ERROR:
        return error["msg"]
    actual = type_name(error["input"])
    expected = _EXPECTED_TYPES.get(error["type"])
    if expected is None:
        return f"{error['msg']} (is {actual})"
    return f"should be {expected}, is {actual}"


_COLUMNS_ERROR = "columns"  # type of the pydantic error for columns that differ in length


def _validate_columns(value: object) -> object:
    """Turn columns into a list of objects, as a pydantic validator; any other value stays as it is.

    {"title": ["Ada", "Bo"]} -> [{"title": "Ada"}, {"title": "Bo"}]

    Raises PydanticCustomError where the columns differ in length: a validator may raise no RowError.
    """
    try:
        return records_from_columns(value, field_name="")  # pydantic names the field
    except RowError as error:
        problem = {"problem": error.problem}
        raise PydanticCustomError(_COLUMNS_ERROR, "{problem}", problem) from None


# A field: a list of objects, or columns as on Hugging Face.
Records = Annotated[list[T], BeforeValidator(_validate_columns)]


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


def refuse_blank(text_by_field: Mapping[str, str]) -> None:
    """Raise RowError for the first field whose text is blank.

    Args:
        text_by_field: Name of each field -> its text.
    """
    for field_name, text in text_by_field.items():
        if not text.strip():
            raise RowError(field_name, "is empty")


def normalise_space(text: str) -> str:
    """`text` with single spaces in place of runs of white space, and none at its ends."""
    return " ".join(text.split())


def id_from_text(prefix: str, text: str, digits: int = 12) -> str:
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


class QuestionText(NamedTuple):
    """The id and the words of a question."""

    id: str
    words: str


def group_of_one_question(
    document_prefix: str,
    document_text: str,
    question: QuestionText,
    answers: tuple[str, ...],
    extra: Mapping[str, object],
    options: Sequence[str] = (),
) -> Group:
    """Make a `Group` of one question and its text; rows with the same text get the same document.

    Args:
        document_prefix: The id of the document is this and a hash of the text.
        document_text: The text of the document.
        question: The question.
        answers: The accepted answers.
        extra: Becomes `Gold.extra`.
        options: The answers to choose from; () where the question offers no choice.
    """
    document = Document(id_from_text(document_prefix, document_text), document_text)
    choices = tuple(options) or None
    asked = Question(question.id, question.words, (document.id,), choices)
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


def clean_answers(texts: Iterable[str], field_name: str) -> tuple[str, ...]:
    """The texts without repeats and without blank ones, which would match any reply.

    Args:
        texts: The accepted answers.
        field_name: The field they are from, for the error.

    Raises:
        RowError: None is left.
    """
    answers = tuple(dict.fromkeys(text for text in texts if text.strip()))
    if not answers:
        raise RowError(field_name, "the row has no answer")
    return answers


def records_from_columns(value: object, field_name: str) -> object:
    """Turn columns into a list of objects; any other value is returned as it is.

    {"title": ["Ada", "Bo"], "id": [0, 1]} -> [{"title": "Ada", "id": 0}, {"title": "Bo", "id": 1}]

    Hugging Face stores nested lists either way.

    Args:
        value: The columns.
        field_name: The field that holds them, for messages.

    Raises:
        RowError: The columns differ in length.
    """
    if not _are_columns(value):
        return value
    length_by_key = {str(key): len(column) for key, column in value.items()}
    if len(set(length_by_key.values())) > 1:
        lengths_text = ", ".join(f"{key} {length}" for key, length in length_by_key.items())
        raise RowError(field_name, f"its lists differ in length ({lengths_text})")
    values_of_records = zip(*value.values(), strict=True)
    return [dict(zip(value, values, strict=True)) for values in values_of_records]


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
        return canonical_json(value).encode()
    except UnicodeEncodeError as error:
        code = f"\\u{ord(error.object[error.start]):04x}"  # JSON can spell half of a surrogate pair
        raise RowError(None, f"holds half a character ({code}), which is not valid text") from None


def refuse_half_characters(value: object) -> None:
    """Raise RowError where a text in a value holds a lone surrogate, which no file can hold.

    Raises TypeError for a value that JSON cannot hold.
    """
    canonical_line(value)


def example_and_document(row: Row) -> tuple[Example, Document]:
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
    passage_texts: list[str] = []
    passages: list[Passage] = []
    start = 0
    for number, (title, text) in enumerate(row.paragraphs):
        title_and_text = [part for part in (title, text) if part]
        passage_text = "\n".join(title_and_text)
        if not passage_text.strip():
            raise RowError(None, f"paragraph {number} has neither title nor text")
        passages.append(Passage(title, start, start + len(passage_text)))
        passage_texts.append(passage_text)
        start += len(passage_text) + len(SEPARATOR)
    document = Document(id=row.id, text=SEPARATOR.join(passage_texts), passages=tuple(passages))
    question = Question(id=row.id, text=row.question, document_ids=(row.id,))
    gold = Gold(row.answers, _supporting_spans(row, passages), row.extra)
    return Example(question, gold), document


def _supporting_spans(row: Row, passages: Sequence[Passage]) -> tuple[Support, ...]:
    """The spans of the supporting paragraphs in the document, in order of the text.

    Args:
        row: Its `supporting` has the indices of the paragraphs.
        passages: The passage that each paragraph of the row became.

    Raises:
        RowError: An index is not that of a paragraph.
    """
    for index in row.supporting:
        if index not in range(len(passages)):
            problem = f"{index!r} is no paragraph's number, 0 to {len(passages) - 1}"
            raise RowError("supporting", problem)
    supporting = [passages[index] for index in sorted(set(row.supporting))]
    return tuple(Support(row.id, passage.start, passage.end) for passage in supporting)
