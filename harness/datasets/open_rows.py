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
_PLAIN_ID_KEYS = ("id", "sample_id", "question_id")


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


def _require_string(raw: RawRow, key: str, path_before: str = "") -> str:
    """The text under a key of a row or of an object in it.

    Args:
        raw: The row, or the object.
        key: The key.
        path_before: The path to the object in the row, "output[0].", for messages.

    Raises:
        RowError: It is missing, no text, or blank.
    """
    field = path_before + key
    value = raw.get(key)
    if key not in raw:
        raise RowError(field, "is missing")
    if not isinstance(value, str):
        raise RowError(field, f"should be a string, is {type_name(value)}")
    if not value.strip():
        raise RowError(field, "is empty")
    return value


def _require_list(value: object, entry_type: type[T], field: str) -> list[T]:
    """Return a value that is a list of strings, or of objects.

    Args:
        value: The value.
        entry_type: The type of its entries, str or dict.
        field: The field that holds it, for messages.

    Raises:
        RowError: It is no list, or an entry is of another type.
    """
    if not isinstance(value, list):
        raise RowError(field, f"should be a list, is {type_name(value)}")
    for index, entry in enumerate(value):
        if not isinstance(entry, entry_type):
            expected = "an object"
            if entry_type is str:
                expected = "a string"
            raise RowError(f"{field}[{index}]", f"should be {expected}, is {type_name(entry)}")
    return value


def _parse_strings(value: object, field: str) -> list[str]:
    """The strings of a field: ["a", "b"], '["a", "b"]' or "a".

    A list, a JSON list in a string, or a single string, which becomes a list of one.

    Args:
        value: The value of the field.
        field: The field, for messages.

    Raises:
        RowError: It is of another form.
    """
    if not isinstance(value, str):
        return _require_list(value, str, field)
    is_json_list = value.lstrip().startswith("[")
    if not is_json_list:
        return [value]
    try:
        return _require_list(json.loads(value), str, field)
    except (ValueError, RecursionError):
        raise RowError(field, "starts with '[' but is no JSON list") from None


def _answers_in(raw: RawRow, field: str) -> tuple[str, ...]:
    """The accepted answers in a field of a row, without repeats and blanks.

    Raises RowError where none is left.
    """
    return clean_answers(_parse_strings(raw[field], field), field)


def _find_or_make_id(raw: RawRow, question: str, *id_keys: str) -> str:
    """The row's id under the first of `id_keys`, or "_id", that it has; else one made of the
    question.

    Args:
        raw: The row.
        question: The text of the question.
        *id_keys: Keys that may hold the id.

    Raises:
        RowError: The id is blank, or neither a string nor a whole number.
    """
    for key in (*id_keys, "_id"):
        value = raw.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise RowError(key, f"should be a string or a whole number, is {type_name(value)}")
        if not str(value).strip():
            raise RowError(key, "is empty")
        return str(value)
    return id_from_text("q", question)


def _parse_short_answers(qa_pairs: object, field: str) -> list[list[str]]:
    """The accepted answers of each sub-question that has any, from ASQA's qa_pairs.

    [{"question": "..", "short_answers": ["1914", "in 1914"]}] -> [["1914", "in 1914"]]

    Args:
        qa_pairs: The value of the field; None: [] is returned.
        field: The field that holds them, for messages.

    Raises:
        RowError: They are of another form.
    """
    if qa_pairs is None:
        return []
    answers_of_parts: list[list[str]] = []
    for number, pair in enumerate(_require_list(qa_pairs, dict, field)):
        answers = _parse_strings(pair.get("short_answers"), f"{field}[{number}].short_answers")
        filled_answers = [answer for answer in answers if answer.strip()]
        if filled_answers:
            answers_of_parts.append(filled_answers)
    return answers_of_parts


def _parse_flashrag_row(raw: RawRow) -> OpenRow:
    """Parse a row of FlashRAG; it has short answers where its metadata has ASQA's pairs.

    Raises RowError for a field that is missing or of another type.
    """
    question = _require_string(raw, "question")
    answers = _answers_in(raw, "golden_answers")
    metadata = raw.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise RowError("metadata", f"should be an object, is {type_name(metadata)}")
    short_answers = _parse_short_answers(metadata.get("qa_pairs"), "metadata.qa_pairs")
    row_id = _find_or_make_id(raw, question, "id")
    return OpenRow(row_id, question, answers, short_answers)


def _parse_asqa_row(raw: RawRow) -> OpenRow:
    """Parse a row of ASQA's own file; the annotators' long answers are the accepted ones.

    Raises RowError for a field that is missing or of another type.
    """
    question = _require_string(raw, "ambiguous_question")
    annotations = _require_list(raw.get("annotations"), dict, "annotations")
    long_answers = [
        _require_string(annotation, "long_answer", f"annotations[{number}].")
        for number, annotation in enumerate(annotations)
    ]
    answers = clean_answers(long_answers, "annotations")
    short_answers = _parse_short_answers(raw.get("qa_pairs"), "qa_pairs")
    row_id = _find_or_make_id(raw, question, "id", "sample_id")
    return OpenRow(row_id, question, answers, short_answers)


def _parse_popqa_row(raw: RawRow) -> OpenRow:
    """Parse a row of PopQA; the property that it asks for (prop) becomes its type in `extra`.

    Raises RowError for a field that is missing or of another type.
    """
    question = _require_string(raw, "question")
    answers = _answers_in(raw, "possible_answers")
    row = OpenRow(_find_or_make_id(raw, question, "id"), question, answers)
    asked_property = raw.get("prop")
    if not isinstance(asked_property, str):
        return row
    return replace(row, extra={"type": asked_property})


def _parse_kilt_row(raw: RawRow) -> OpenRow:
    """Parse a row of a KILT task; outputs without an answer, which hold provenance only, are
    passed over.

    Raises RowError for a field that is missing or of another type.
    """
    question = _require_string(raw, "input")
    answers = []
    for number, output in enumerate(_require_list(raw.get("output"), dict, "output")):
        if output.get("answer") is not None:
            answers.append(_require_string(output, "answer", f"output[{number}]."))
    row_id = _find_or_make_id(raw, question, "id")
    return OpenRow(row_id, question.strip(), clean_answers(answers, "output"))


@dataclass(frozen=True)
class _TriviaFields:
    """The names of TriviaQA's fields, in its files or in the hub copy.

    Attributes:
        question: Of the question.
        answer: Of the object with the answers.
        value: In that object, of the first answer.
        more_answers: In that object, of the lists of other accepted answers.
    """

    question: str
    answer: str
    value: str
    more_answers: tuple[str, ...]


_FIELDS_IN_FILES = _TriviaFields("Question", "Answer", "Value", ("Aliases", "HumanAnswers"))


_FIELDS_ON_HUB = _TriviaFields("question", "answer", "value", ("aliases", "humananswers"))


def _parse_trivia_row(raw: RawRow) -> OpenRow:
    """Parse a row of TriviaQA's files (Question, Answer) or of the hub copy (question, answer).

    Raises RowError for a field that is missing or of another type.
    """
    fields = _FIELDS_ON_HUB
    if "Question" in raw:
        fields = _FIELDS_IN_FILES
    question = _require_string(raw, fields.question)
    answer = raw.get(fields.answer)
    if answer is None:
        problem = "is missing (test splits are published without; use the dev split)"
        raise RowError(fields.answer, problem)
    if not isinstance(answer, dict):
        raise RowError(fields.answer, f"should be an object, is {type_name(answer)}")
    answers = [_require_string(answer, fields.value, f"{fields.answer}.")]
    for key in fields.more_answers:
        answers += _parse_strings(answer.get(key) or [], f"{fields.answer}.{key}")
    row_id = _find_or_make_id(raw, question, "QuestionId", "question_id")
    return OpenRow(row_id, question, clean_answers(answers, fields.answer))


def _parse_plain_row(raw: RawRow) -> OpenRow:
    """Parse a row with a question and "answers" or "answer": NQ-open, DPR, ALCE, HotpotQA and
    others.

    Raises RowError for a field that is missing or of another type.
    """
    question = _require_string(raw, "question")
    answer_field = "answer"
    if "answers" in raw:
        answer_field = "answers"
    if answer_field not in raw:
        answer_keys = "answers, golden_answers, possible_answers or output"
        raise RowError("answer", f"is missing (it may also be called {answer_keys})")
    answers = _answers_in(raw, answer_field)
    short_answers = _parse_short_answers(raw.get("qa_pairs"), "qa_pairs")
    row_id = _find_or_make_id(raw, question, *_PLAIN_ID_KEYS)
    return OpenRow(row_id, question, answers, short_answers)


def parse_without_answer(raw: RawRow) -> OpenRow:
    """Parse a row that has a question and no accepted answer. Raises RowError."""
    question = _require_string(raw, "question")
    row_id = _find_or_make_id(raw, question, *_PLAIN_ID_KEYS)
    return OpenRow(row_id, question, answers=())


# Key that only rows of a published form have -> their parser; the first key in a row decides.
_PARSER_BY_KEY: dict[str, Callable[[RawRow], OpenRow]] = {
    "golden_answers": _parse_flashrag_row,
    "ambiguous_question": _parse_asqa_row,
    "possible_answers": _parse_popqa_row,
    "Question": _parse_trivia_row,
    "input": _parse_kilt_row,
}


def parse_question(raw: RawRow) -> OpenRow:
    """Parse a row of open-domain questions to its question, answers and id.

    In the form of FlashRAG, NQ-open, HotpotQA, DPR, ALCE, KILT, PopQA, ASQA or TriviaQA, whichever
    its keys fit. `extra` gets "gold_passages" where the row names them. Raises RowError, which
    names the field.
    """
    row = _parse_in_its_form(raw)
    if raw.get("gold_passages") is None:
        return row
    gold_passages = _require_list(raw["gold_passages"], str, "gold_passages")
    return replace(row, extra={**row.extra, "gold_passages": gold_passages})


def _parse_in_its_form(raw: RawRow) -> OpenRow:
    """Parse a row as the first published form whose keys it has.

        {"possible_answers": ...}               as PopQA
        {"question": ..., "answer": {...}}      as TriviaQA
        {"question": ..., "answer": "Rome"}     as NQ-open and others

    Raises RowError.
    """
    for key, parse in _PARSER_BY_KEY.items():
        if key in raw:
            return parse(raw)
    is_trivia_row_of_hub = isinstance(raw.get("answer"), dict)
    if is_trivia_row_of_hub:
        return _parse_trivia_row(raw)
    return _parse_plain_row(raw)
