"""Rows of open-domain questions in the forms they are published in, each to an `OpenRow`.

    FlashRAG     {"id": "test_0", "question": "..", "golden_answers": [..], "metadata": {..},
                   "output": {"retrieval_result": [{"id": "..", "contents": "Title\\nText"}]}}
    NQ-open      {"question": "..", "answer": ["..", ".."]}
    HotpotQA     {"_id": "5a..", "question": "..", "answer": ".."}, 2WikiMultihopQA likewise; `context` is not read
    DPR          {"question": "..", "answers": [..], "ctxs": [{"id": "..", "title": "..", "text": ".."}]}
    ALCE         {"question": "..", "answer": "..", "docs": [{"title": "..", "text": ".."}], "qa_pairs": [..]}
    KILT         {"id": "..", "input": "..", "output": [{"answer": ".."}, {"provenance": [..]}]}; provenance is gold
                   and not read
    PopQA        {"id": 3, "question": "..", "possible_answers": "[\\"..\\"]", "s_pop": 127}, also as a table
    ASQA         {"id": "-51..", "ambiguous_question": "..", "qa_pairs": [{"short_answers": [..]}],
                   "annotations": [{"long_answer": ".."}]}
    TriviaQA     {"QuestionId": "tc_0", "Question": "..", "Answer": {"Value": "..", "Aliases": [..]},
                   "EntityPages": [{"Filename": "..", "Title": ".."}]}
    its columns  {"question_id": "..", "answer": {"value": "..", "aliases": [..]},
                   "entity_pages": {"wiki_context": [..]}}

The first form that a row's keys fit is used. In any form `gold_passages` names passages of a corpus
that support the answer, by id or title. harness.datasets.row_documents finds its documents.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import RowError, clean_answers, id_from_text, type_name

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OpenRow:
    """A question without its documents.

    Attributes:
        id: Its id; made of the question where the row has none.
        question: Its words.
        answers: The accepted answers.
        short_answers: The accepted answers of each sub-question (ASQA).
        extra: What else Gold.extra gets: type (PopQA), gold_passages.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    short_answers: list[list[str]] = field(default_factory=list)
    extra: dict[str, object] = field(default_factory=dict)

    def gold_extra(self) -> dict[str, object]:
        """What Gold.extra of the question gets: `extra`, and short_answers where there are any."""
        if not self.short_answers:
            return self.extra
        return {"short_answers": self.short_answers, **self.extra}


def _string(raw: RawRow, key: str, prefix: str = "") -> str:
    """The text under a key of a row or of an object in it.

    Args:
        raw: The row, or the object.
        key: The key.
        prefix: The path to the object in the row, "output[0].", for messages.

    Raises:
        RowError: It is missing, no text, or blank.
    """
    value = raw.get(key)
    if key not in raw:
        raise RowError(prefix + key, "is missing")
    if not isinstance(value, str):
        raise RowError(prefix + key, f"should be a string, is {type_name(value)}")
    if not value.strip():
        raise RowError(prefix + key, "is empty")
    return value


def _list_of(kind: type[T], value: object, name: str) -> list[T]:
    """Return a value that is a list of strings, or of objects.

    Args:
        kind: The type of its entries, str or dict.
        value: The value.
        name: The field that holds it, for messages.

    Raises:
        RowError: It is no list, or an entry is of another type.
    """
    if not isinstance(value, list):
        raise RowError(name, f"should be a list, is {type_name(value)}")
    for index, entry in enumerate(value):
        if not isinstance(entry, kind):
            noun = "an object"
            if kind is str:
                noun = "a string"
            raise RowError(f"{name}[{index}]", f"should be {noun}, is {type_name(entry)}")
    return value


def _strings(value: object, name: str) -> list[str]:
    """The strings of a field: ["a", "b"], '["a", "b"]' or "a".

    A list, a JSON list in a string, or a single string, which becomes a list of one.

    Args:
        value: The value of the field.
        name: The field, for messages.

    Raises:
        RowError: It is of another form.
    """
    if not isinstance(value, str):
        return _list_of(str, value, name)
    if not value.lstrip().startswith("["):
        return [value]
    try:
        return _list_of(str, json.loads(value), name)
    except (ValueError, RecursionError):
        raise RowError(name, "starts with '[' but is no JSON list") from None


def _answers(raw: RawRow, name: str) -> tuple[str, ...]:
    """The accepted answers in the field `name` of a row, without repeats and blanks.

    Raises RowError where none is left.
    """
    return clean_answers(_strings(raw[name], name), name)


def _row_id(raw: RawRow, question: str, *keys: str) -> str:
    """The row's id under the first of `keys`, or "_id", that it has; else one made of the
    question.

    Args:
        raw: The row.
        question: The text of the question.
        *keys: Keys that may hold the id.

    Raises:
        RowError: The id is blank, or neither a string nor a whole number.
    """
    for key in (*keys, "_id"):
        value = raw.get(key)
        if isinstance(value, bool) or not isinstance(value, (str, int, type(None))):
            raise RowError(key, f"should be a string or a whole number, is {type_name(value)}")
        if value is not None:
            if not str(value).strip():
                raise RowError(key, "is empty")
            return str(value)
    return id_from_text("q", question)


def _short_answers(pairs: object, name: str) -> list[list[str]]:
    """The accepted answers of each sub-question that has any, from ASQA's qa_pairs.

    [{"question": "..", "short_answers": ["1914", "in 1914"]}] -> [["1914", "in 1914"]]

    Args:
        pairs: The qa_pairs; None: [] is returned.
        name: The field that holds them, for messages.

    Raises:
        RowError: They are of another form.
    """
    if pairs is None:
        return []
    texts: list[list[str]] = []
    for number, pair in enumerate(_list_of(dict, pairs, name)):
        answers = _strings(pair.get("short_answers"), f"{name}[{number}].short_answers")
        not_blank = [answer for answer in answers if answer.strip()]
        if not_blank:
            texts.append(not_blank)
    return texts


def _flashrag_row(raw: RawRow) -> OpenRow:
    """Parse a row of FlashRAG; it has short answers where its metadata has ASQA's pairs.

    Raises RowError for a field that is missing or of another type.
    """
    question = _string(raw, "question")
    answers = _answers(raw, "golden_answers")
    metadata = raw.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise RowError("metadata", f"should be an object, is {type_name(metadata)}")
    short_answers = _short_answers((metadata or {}).get("qa_pairs"), "metadata.qa_pairs")
    return OpenRow(_row_id(raw, question, "id"), question, answers, short_answers)


def _asqa_row(raw: RawRow) -> OpenRow:
    """Parse a row of ASQA's own file; the annotators' long answers are the accepted ones.

    Raises RowError for a field that is missing or of another type.
    """
    question = _string(raw, "ambiguous_question")
    annotations = _list_of(dict, raw.get("annotations"), "annotations")
    texts = [
        _string(entry, "long_answer", f"annotations[{number}].")
        for number, entry in enumerate(annotations)
    ]
    answers = clean_answers(texts, "annotations")
    short_answers = _short_answers(raw.get("qa_pairs"), "qa_pairs")
    return OpenRow(_row_id(raw, question, "id", "sample_id"), question, answers, short_answers)


def _popqa_row(raw: RawRow) -> OpenRow:
    """Parse a row of PopQA; the property that it asks for (prop) becomes its type in `extra`.

    Raises RowError for a field that is missing or of another type.
    """
    question = _string(raw, "question")
    answers = _answers(raw, "possible_answers")
    row = OpenRow(_row_id(raw, question, "id"), question, answers)
    if not isinstance(raw.get("prop"), str):
        return row
    return replace(row, extra={"type": raw["prop"]})


def _kilt_row(raw: RawRow) -> OpenRow:
    """Parse a row of a KILT task; outputs without an answer, which hold provenance only, are
    passed over.

    Raises RowError for a field that is missing or of another type.
    """
    question = _string(raw, "input")
    texts = []
    for number, output in enumerate(_list_of(dict, raw.get("output"), "output")):
        if output.get("answer") is not None:
            texts.append(_string(output, "answer", f"output[{number}]."))
    return OpenRow(_row_id(raw, question, "id"), question.strip(), clean_answers(texts, "output"))


@dataclass(frozen=True)
class _TriviaNames:
    """The names of TriviaQA's fields, in its files or in the hub copy."""

    question: str
    answer: str
    value: str
    others: tuple[str, ...]


_TRIVIA_FILE = _TriviaNames("Question", "Answer", "Value", ("Aliases", "HumanAnswers"))


_TRIVIA_HUB = _TriviaNames("question", "answer", "value", ("aliases", "humananswers"))


def _trivia_row(raw: RawRow) -> OpenRow:
    """Parse a row of TriviaQA's files (Question, Answer) or of the hub copy (question, answer).

    Raises RowError for a field that is missing or of another type.
    """
    names = _TRIVIA_HUB
    if "Question" in raw:
        names = _TRIVIA_FILE
    question = _string(raw, names.question)
    answer = raw.get(names.answer)
    if answer is None:
        hidden = "is missing (test splits are published without; use the dev split)"
        raise RowError(names.answer, hidden)
    if not isinstance(answer, dict):
        raise RowError(names.answer, f"should be an object, is {type_name(answer)}")
    texts = [_string(answer, names.value, f"{names.answer}.")]
    for key in names.others:
        texts += _strings(answer.get(key) or [], f"{names.answer}.{key}")
    row_id = _row_id(raw, question, "QuestionId", "question_id")
    return OpenRow(row_id, question, clean_answers(texts, names.answer))


def _plain_row(raw: RawRow) -> OpenRow:
    """Parse a row with a question and "answers" or "answer": NQ-open, DPR, ALCE, HotpotQA and
    others.

    Raises RowError for a field that is missing or of another type.
    """
    question = _string(raw, "question")
    name = "answer"
    if "answers" in raw:
        name = "answers"
    if name not in raw:
        answer_keys = "answers, golden_answers, possible_answers or output"
        raise RowError("answer", f"is missing (it may also be called {answer_keys})")
    answers = _answers(raw, name)
    short_answers = _short_answers(raw.get("qa_pairs"), "qa_pairs")
    row_id = _row_id(raw, question, "id", "sample_id", "question_id")
    return OpenRow(row_id, question, answers, short_answers)


def parse_without_answer(raw: RawRow) -> OpenRow:
    """Parse a row that has a question and no accepted answer. Raises RowError."""
    question = _string(raw, "question")
    return OpenRow(_row_id(raw, question, "id", "sample_id", "question_id"), question, ())


_FORMS: tuple[tuple[str, Callable[[RawRow], OpenRow]], ...] = (
    ("golden_answers", _flashrag_row),
    ("ambiguous_question", _asqa_row),
    ("possible_answers", _popqa_row),
    ("Question", _trivia_row),
    ("input", _kilt_row),
)


def parse_question(raw: RawRow) -> OpenRow:
    """Parse a row of open-domain questions to its question, answers and id.

    In the form of FlashRAG, NQ-open, HotpotQA, DPR, ALCE, KILT, PopQA, ASQA or TriviaQA, whichever
    its keys fit. `extra` gets "gold_passages" where the row names them. Raises RowError, which
    names the field.
    """
    row = _parse_form(raw)
    if raw.get("gold_passages") is None:
        return row
    named = _list_of(str, raw["gold_passages"], "gold_passages")
    return replace(row, extra={**row.extra, "gold_passages": named})


def _parse_form(raw: RawRow) -> OpenRow:
    """Parse a row as the first published form whose keys it has.

        {"possible_answers": ...}               as PopQA
        {"question": ..., "answer": {...}}      as TriviaQA
        {"question": ..., "answer": "Rome"}     as NQ-open and others

    Raises RowError.
    """
    for key, parse in _FORMS:
        if key in raw:
            return parse(raw)
    if isinstance(raw.get("answer"), dict):  # TriviaQA's aliases, with a question in lower case
        return _trivia_row(raw)
    return _plain_row(raw)
