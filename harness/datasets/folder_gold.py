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

_ANSWERS = (
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
    given = {key: value for key, value in raw.items() if value not in (None, "", [])}
    parse = parse_question
    if given.keys().isdisjoint(_ANSWERS):
        parse = parse_without_answer
    row = parse(given)
    extra = dict(row.extra)
    answerable = _answerable(raw)
    if answerable is not None:
        extra["declined"] = not answerable
    if gold_pages and not any("#" in name for name in gold_pages):
        extra["whole_pages"] = True
    assertions = _assertions(raw)
    if assertions:
        extra["assertions"] = assertions
    return replace(row, extra=extra)


def _answerable(raw: RawRow) -> bool | None:
    """Whether the pages answer the question: "no" -> False; None where the row does not say so.

    Raises RowError for another value than true, false, yes, no, 1 and 0.
    """
    if raw.get("is_impossible") in (True, "true"):  # SQuAD
        return False
    value = raw.get("answerable")
    if value in (None, ""):
        return None
    text = str(value).strip().lower()
    if text in (*_TRUE, *_FALSE):
        return text in _TRUE
    raise RowError("answerable", f"should be true or false, is '{text[:40]}'")


def _assertions(raw: RawRow) -> dict[str, object]:
    """The assertions of a row as JSON, {"contains": ["two years"]}; {} for none.

    Raises RowError for a malformed one.
    """
    schema = _with_numbers(raw.get("json_schema"))
    try:
        return read_assertions({**raw, "json_schema": schema}).to_json()
    except WrongAssertion as error:
        raise RowError(error.field, error.problem) from None


def _with_numbers(value: object) -> object:
    """A value of a JSON file, in which numbers are NumberText, with numbers in their place.

    {"minimum": NumberText("1.5")} -> {"minimum": 1.5}
    """
    if isinstance(value, NumberText):
        return value.number
    if isinstance(value, list):
        return [_with_numbers(part) for part in value]
    if isinstance(value, dict):
        return {name: _with_numbers(part) for name, part in value.items()}
    return value
