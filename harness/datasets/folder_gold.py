"""What a row of a file of questions says of the right answer.

    {"question": "Who leads?", "answers": ["Mira", "M. Oz"]}          several accepted answers
    {"question": "Who left?", "answerable": false}                    no page says it: declining is right
    {"question": "Who pays?"}                                         not known: no score of answers counts it
    {"question": "As JSON?", "json_schema": {"type": "object"}}       assertions (harness/assertions.py)

Nothing of it reaches a method, an application or a retriever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.assertions import WrongAssertion, read_assertions
from harness.datasets.files import NumberText
from harness.datasets.open_rows import OpenRow, parse_question, parse_without_answer
from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import RowError

_ANSWER_KEYS = (
    "answer", "answers", "golden_answers", "possible_answers", "output", "ambiguous_question",
    "Answer",
)  # fmt: skip
_TRUE = ("true", "yes", "1")
_FALSE = ("false", "no", "0")


def parse_folder_row(raw: RawRow, gold_pages: Sequence[str]) -> OpenRow:
    """The question of a row with what is known of its answer, in `extra`.

        declined       whether declining is right; missing where the row does not say
        whole_pages    true: whole pages support the answer, none of their sections
        assertions     what is asserted of the answer, as JSON

    Args:
        raw: The row.
        gold_pages: The pages, or sections ("page.md#section"), that support the answer.

    Raises:
        RowError: A field cannot be used.
    """
    filled_fields = {key: value for key, value in raw.items() if value not in (None, "", [])}
    has_answer = not filled_fields.keys().isdisjoint(_ANSWER_KEYS)
    parse = parse_question if has_answer else parse_without_answer
    row = parse(filled_fields)
    extra = dict(row.extra)
    is_answerable = _is_answerable(raw)
    if is_answerable is not None:
        extra["declined"] = not is_answerable
    names_a_section = any("#" in name for name in gold_pages)
    if gold_pages and not names_a_section:
        extra["whole_pages"] = True
    assertions = _assertions_as_json(raw)
    if assertions:
        extra["assertions"] = assertions
    return replace(row, extra=extra)


def _is_answerable(raw: RawRow) -> bool | None:
    """Whether the pages answer the question: "no" -> False; None where the row does not say so. By
    "answerable", or by SQuAD's "is_impossible".

    Raises RowError for another value of "answerable" than true, false, yes, no, 1 and 0.
    """
    if raw.get("is_impossible") in (True, "true"):  # SQuAD
        return False
    value = raw.get("answerable")
    if value in (None, ""):
        return None
    word = str(value).strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise RowError("answerable", f"should be true or false, is '{word[:40]}'")


def _assertions_as_json(raw: RawRow) -> dict[str, object]:
    """The assertions of a row as JSON, {"contains": ["two years"]}; {} for none.

    Raises RowError for a malformed one.
    """
    schema = _as_numbers(raw.get("json_schema"))
    try:
        return read_assertions({**raw, "json_schema": schema}).to_json()
    except WrongAssertion as error:
        raise RowError(error.field, error.problem) from None


def _as_numbers(value: object) -> object:
    """A value of a JSON file, in which numbers are NumberText, with numbers in their place.

    {"minimum": NumberText("1.5")} -> {"minimum": 1.5}
    """
    if isinstance(value, NumberText):
        return value.number
    if isinstance(value, list):
        return [_as_numbers(entry) for entry in value]
    if isinstance(value, dict):
        return {key: _as_numbers(entry) for key, entry in value.items()}
    return value
