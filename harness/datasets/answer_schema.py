"""A reply that has to follow a JSON schema, if a data set configures one (dataset.answer_schema).

    schema_request(dataset)                           " Reply with one JSON object that follows ..."
    answer_in('{"answer": "Rome", "page": 3}', ...)   "Rome"         scorers see this
    answer_in('Rome', ...)                            raises NotFollowed("no JSON"): the reply scores 0

The answer is the property dataset.answer_field. A text is scored as it is, a list of texts with
commas between them, anything else as JSON. A reply in a code fence is read without it; the record
keeps the whole reply.
"""

from __future__ import annotations

import json
import re

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from harness.config.schema import DatasetConfig, canonical_json
from harness.config.yaml_tree import mapping_at
from harness.errors import UserError

_SCHEMA_REQUEST = (
    " Reply with one JSON object that follows this JSON schema, and with nothing else: {schema}"
)
_CODE_FENCE = re.compile(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", re.DOTALL)


class NotFollowed(Exception):
    """A reply that does not follow the schema, and why."""


def schema_problem(dataset: DatasetConfig) -> str | None:
    """Why the answer schema of a data set cannot be scored; None where it can, or there is none."""
    schema = dataset.answer_schema
    if schema is None:
        return None
    if dataset.answer_prefix is not None:
        return (
            f"dataset.answer_prefix='{dataset.answer_prefix}' and an answer schema both say which "
            "part of a reply is scored; set one of the two to null"
        )
    properties = mapping_at(schema.form, "properties")
    if dataset.answer_field not in properties:
        known = ", ".join(properties) or "none"
        return (
            f"the schema '{schema.name}' has no property '{dataset.answer_field}', which is scored "
            f"as the answer; name one of its own ({known}): --set dataset.answer_field=NAME"
        )
    return None


def schema_request(dataset: DatasetConfig) -> str:
    """The sentence of the instruction that asks for a reply by the schema; "" without a schema."""
    if dataset.answer_schema is None:
        return ""
    return _SCHEMA_REQUEST.format(schema=schema_text(dataset))


def schema_text(dataset: DatasetConfig) -> str:
    """The data set's schema for replies as JSON text; "" without one."""
    if dataset.answer_schema is None:
        return ""
    return canonical_json(dataset.answer_schema.form)


def answer_in(reply: str, dataset: DatasetConfig) -> str:
    """The answer in a reply that follows the data set's schema: '{"answer": "Rome"}' -> "Rome".

    Args:
        reply: The reply, perhaps in a code fence.
        dataset: Has the schema and the name of the property.

    Raises:
        NotFollowed: The reply does not follow the schema.
        UserError: The data set has no schema.
    """
    if dataset.answer_schema is None:
        raise UserError(f"'{dataset.name}' has no answer schema")
    json_text = reply
    fenced_reply = _CODE_FENCE.fullmatch(reply)
    if fenced_reply:
        json_text = fenced_reply.group(1)
    try:
        value = json.loads(json_text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise NotFollowed("it is no JSON") from error
    validator = Draft202012Validator(dataset.answer_schema.form)
    most_relevant_mistake = best_match(validator.iter_errors(value))
    if most_relevant_mistake is not None:
        raise NotFollowed(f"{most_relevant_mistake.json_path}: {most_relevant_mistake.message}")
    if not isinstance(value, dict) or dataset.answer_field not in value:
        raise NotFollowed(f"it has no '{dataset.answer_field}'")
    return _answer_text(value[dataset.answer_field])


def _answer_text(answer: object) -> str:
    """An answer as scorers see it: " Rome " -> "Rome", ["a", "b"] -> "a, b", 3 -> "3"."""
    if isinstance(answer, str):
        return answer.strip()
    if isinstance(answer, list) and all(isinstance(item, str) for item in answer):
        return ", ".join(answer)
    return canonical_json(answer)
