"""What a row says that a reply must be, whatever the accepted answers are.

    row = {"contains": "two years", "max_seconds": "5"}
    read_assertions(row)    -> Assertions(contains=["two years"], max_seconds=5.0)
    failed_assertions(Assertions(contains=["two years"]), "A year.", 1.2)
        -> ["does not contain 'two years'"]

contains, not_contains   a text or several, as written
regex                    one or several, found anywhere in the reply; of the package regex
json_schema              the reply is JSON that fits this schema (draft 2020-12 unless it says another)
max_seconds              the answer took no longer

A pattern may take a second a reply, and one that takes longer fails. A schema refers to nothing
outside itself.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import jsonschema
import regex
from jsonschema.exceptions import best_match
from pydantic import TypeAdapter
from referencing import Registry

_MAX_PATTERN_SECONDS = 1.0  # for one pattern in one reply
_MAX_QUOTED_CHARACTERS = 60  # of a text that a sentence quotes


class WrongAssertion(ValueError):
    """An assertion that cannot be checked. field: its name; problem: the rest of the sentence."""

    def __init__(self, field: str, problem: str) -> None:
        """Keep both; the message is "FIELD PROBLEM".

        Args:
            field: The name of the assertion.
            problem: The rest of the sentence: "should be a number of seconds above 0".
        """
        super().__init__(f"{field} {problem}")
        self.field = field
        self.problem = problem


Schema = dict[str, object]
"""A JSON schema."""


@dataclass(frozen=True)
class Assertions:
    """What a reply must be.

    Attributes:
        contains: Texts that it has.
        not_contains: Texts that it has not.
        regex: Patterns that are found in it.
        json_schema: The schema that it fits as JSON; None for any text.
        max_seconds: The longest time of an answer; None for any.
    """

    contains: list[str] = field(default_factory=list)
    not_contains: list[str] = field(default_factory=list)
    regex: list[str] = field(default_factory=list)
    json_schema: Schema | None = None
    max_seconds: float | None = None

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> Assertions:
        """Make the assertions again that `to_json` wrote."""
        return _PARSER.validate_python(values)

    def to_json(self) -> dict[str, object]:
        """The assertions as JSON: {"contains": ["two years"]}; what is not asserted is left out."""
        values = asdict(self)
        return {name: value for name, value in values.items() if value not in (None, [])}


ASSERTION_NAMES = tuple(each.name for each in fields(Assertions))
_PARSER = TypeAdapter(Assertions)


def read_assertions(row: Mapping[str, object]) -> Assertions:
    """Read and check the assertions in a row of a data set.

        {"contains": "two years", "max_seconds": "5"}
            -> Assertions(contains=["two years"], max_seconds=5.0)

    Args:
        row: Name of an assertion -> value. A value may be a text, as tables have it, also for a
            number or a schema. Other keys are ignored.

    Raises:
        WrongAssertion: One cannot be checked.
    """
    patterns = _read_texts("regex", row)
    schema = seconds = None
    if _is_given(row, "json_schema"):
        schema = _read_schema(row["json_schema"])
    if _is_given(row, "max_seconds"):
        seconds = _read_seconds(row["max_seconds"])
    for pattern in patterns:
        _check_pattern("regex", pattern)
    return Assertions(
        contains=_read_texts("contains", row),
        not_contains=_read_texts("not_contains", row),
        regex=patterns,
        json_schema=schema,
        max_seconds=seconds,
    )


def _is_given(row: Mapping[str, object], name: str) -> bool:
    """Whether a row has a value for the assertion `name`, and not an empty one."""
    return row.get(name) not in (None, "", [])


def _read_texts(name: str, row: Mapping[str, object]) -> list[str]:
    """The texts of an assertion that takes one text or a list of them; [] where the row has none.

    Raises WrongAssertion for anything else.
    """
    if not _is_given(row, name):
        return []
    value = row[name]
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise WrongAssertion(name, "should be a text or a list of texts")
    return list(value)


def _read_seconds(value: object) -> float:
    """Parse a number of seconds above 0, which may be a text. Raises WrongAssertion."""
    try:
        seconds = float(value)  # type: ignore[arg-type]  # what is no number raises
    except (TypeError, ValueError):
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise WrongAssertion("max_seconds", "should be a number of seconds above 0")
    return seconds


def _check_pattern(field: str, pattern: str) -> None:
    """Raise WrongAssertion where a pattern is no regular expression.

    Args:
        field: The assertion that has the pattern, for the error: "regex" or "json_schema".
        pattern: What should be a regular expression.
    """
    try:
        regex.compile(pattern)
    except regex.error as error:
        problem = f"'{_shortened(pattern)}' is no regular expression ({error})"
        raise WrongAssertion(field, problem) from None


def _read_schema(value: object) -> Schema:
    """Parse and check a JSON schema, given as an object or its text. Raises WrongAssertion."""
    schema = value
    if isinstance(value, str):
        try:
            schema = json.loads(value)
        except (ValueError, RecursionError):
            raise WrongAssertion("json_schema", "is no JSON") from None
    if not isinstance(schema, dict):
        raise WrongAssertion("json_schema", "should be a schema, {...}")
    try:
        _validator_class(schema).check_schema(schema)
    except jsonschema.SchemaError as error:
        problem = f"is no JSON schema ({_shortened(error.message)})"
        raise WrongAssertion("json_schema", problem) from None
    _check_patterns_and_references(schema)
    return schema


def _check_patterns_and_references(schema: object) -> None:
    """Walk through a schema and raise WrongAssertion for what cannot be checked.

    That is: a pattern that is no regular expression, patternProperties, and a reference to another
    document.
    """
    if isinstance(schema, list):
        for part in schema:
            _check_patterns_and_references(part)
    if not isinstance(schema, dict):
        return
    for key, part in schema.items():
        if key == "patternProperties":
            raise WrongAssertion("json_schema", "has patternProperties, which are not checked")
        if key == "pattern" and isinstance(part, str):
            _check_pattern("json_schema", part)
        if key in ("$ref", "$dynamicRef") and not str(part).startswith("#"):
            problem = (
                f"refers to '{_shortened(str(part))}'; a schema may refer to its own parts alone"
            )
            raise WrongAssertion("json_schema", problem)
        _check_patterns_and_references(part)


def _validator_class(schema: Schema) -> Any:
    """The jsonschema class that validates by the draft that a schema names (2020-12 for none), with
    a time limit on the schema's patterns.
    """
    validator_of_draft = jsonschema.validators.validator_for(
        schema, default=jsonschema.Draft202012Validator
    )
    return jsonschema.validators.extend(validator_of_draft, {"pattern": _pattern_not_found})


def _pattern_not_found(validator: Any, pattern: str, instance: Any, _: Any) -> Any:
    """Yield a ValidationError where a schema's `pattern` is not found in a value within a second.

    It has the form of jsonschema's functions that check one keyword.

    Args:
        validator: jsonschema's validator.
        pattern: The regular expression in the schema.
        instance: The value; only a text is checked.
        _: The part of the schema with the pattern; not used.
    """
    if validator.is_type(instance, "string") and not _is_found(pattern, instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


def _is_found(pattern: str, text: str) -> bool:
    """Whether a regular expression is found in a text; False where that takes over a second."""
    try:
        return regex.search(pattern, text, timeout=_MAX_PATTERN_SECONDS) is not None
    except TimeoutError:
        return False


def failed_assertions(
    assertions: Assertions, reply: str, seconds: float | None
) -> list[str] | None:
    """Check a reply, and say which assertions it fails.

        Assertions(contains=["two years"]), "A year.", 1.2 -> ["does not contain 'two years'"]

    Args:
        assertions: What the reply must be.
        reply: The answer.
        seconds: How long it took, None where unknown.

    Returns:
        The end of a sentence "the reply ..." for each that fails, [] where all hold. None where the
        time is unknown, must be checked, and all else holds.
    """
    missing = [text for text in assertions.contains if text not in reply]
    unwanted = [text for text in assertions.not_contains if text in reply]
    unmatched = [pattern for pattern in assertions.regex if not _is_found(pattern, reply)]
    failed = [f"does not contain '{_shortened(text)}'" for text in missing]
    failed += [f"contains '{_shortened(text)}'" for text in unwanted]
    failed += [f"does not match '{_shortened(pattern)}'" for pattern in unmatched]
    if assertions.json_schema is not None:
        failed += _schema_failures(assertions.json_schema, reply)
    max_seconds = assertions.max_seconds
    if max_seconds is None:
        return failed
    if seconds is None:
        return failed or None
    if seconds > max_seconds:
        failed.append(f"took {seconds:.3g} s, more than {max_seconds:g} s")
    return failed


def _schema_failures(schema: Schema, reply: str) -> Sequence[str]:
    """Check whether a reply is JSON that fits a schema: [] if so, else one reason why not.

    The reason is the end of a sentence "the reply ...": "is no JSON".
    """
    try:
        value = json.loads(reply)
    except (ValueError, RecursionError):
        return ["is no JSON"]
    validator = _validator_class(schema)(schema, registry=Registry())
    error = best_match(validator.iter_errors(value))
    if error is None:
        return []
    return [f"does not fit the schema: {_shortened(error.message)}"]


def _shortened(text: str) -> str:
    """The text, cut to 60 characters for a sentence: the last three are "..." if it is longer."""
    if len(text) <= _MAX_QUOTED_CHARACTERS:
        return text
    return f"{text[: _MAX_QUOTED_CHARACTERS - 3]}..."
