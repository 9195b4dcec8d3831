"""2WikiMultihopQA (Ho et al., COLING 2020): 10 paragraphs a question, sentences apart, 2 or 4 hops.

    {"_id": "9b..", "type": "compositional", "question": "..", "answer": "..", "supporting_facts":
    [["Title", 0], ..],
     "context": [["Title", ["One.", "Two."]], ..], "evidences": [["Title", "director", "Name"], ..]}

The schema of HotpotQA with two differences: sentences have no spaces around them, and the evidence
is also given as triples (subject, relation, object), which Gold.extra keeps. Copies on the hub have
columns, objects ({"fact",
"relation", "entity"}; {"title", "content"}) or the text of a field or entry in place of these
lists; all are read.
"""

import ast
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from harness.datasets import hotpotqa
from harness.datasets.rows import Row, RowError, records_from_columns

_SUBJECTS, _RELATIONS, _OBJECTS = (
    ("subject", "fact", "head"),
    ("relation", "predicate"),
    ("object", "entity", "tail"),
)


def _entries(raw: Mapping[str, Any], name: str) -> Any:
    """The list in the field `name`, also where it is columns, or it or its entries are JSON or
    Python in a text."""
    value = records_from_columns(_parsed(raw[name], name), name)
    return [_parsed(entry, name) for entry in value] if isinstance(value, list) else value


def _parsed(value: Any, name: str) -> Any:
    """The value that a text spells, None for an empty one; another value as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value or "null")
    except (ValueError, RecursionError):
        with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return ast.literal_eval(value)
    raise RowError(name, "is text, but neither JSON nor a Python literal")


def _with_sentence_spaces(paragraphs: Any) -> Any:
    """Put a space before every sentence but a paragraph's first; malformed entries are left for the
    row's check."""
    if not isinstance(paragraphs, list):
        return paragraphs
    pairs = []
    for paragraph in paragraphs:
        pair = paragraph
        if isinstance(pair, dict) and "title" in pair:
            pair = [pair["title"], *(value for value in pair.values() if isinstance(value, list))]
        if isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[1], list):
            pair = [
                pair[0],
                [f" {s}" if i and isinstance(s, str) else s for i, s in enumerate(pair[1])],
            ]
        pairs.append(pair)
    return pairs


def _checked_triples(value: Any) -> list[list[str]]:
    """The triples of `evidences` as lists, [] for None. Raises RowError for anything else."""
    triples = []
    for triple in value if isinstance(value, list) else [] if value is None else [value]:
        if isinstance(triple, dict):
            parts = [
                [triple[key] for key in keys if key in triple]
                for keys in (_SUBJECTS, _RELATIONS, _OBJECTS)
            ]
            triple = [part for same in parts for part in same]
        if (
            not isinstance(triple, list | tuple)
            or [isinstance(part, str | int | float) for part in triple] != [True] * 3
        ):
            raise RowError("evidences", "should be a list of [subject, relation, object]")
        triples.append([str(part) for part in triple])
    return triples


def parse_row(raw: dict[str, Any]) -> Row:
    """One 2WikiMultihopQA row; Gold.extra as for HotpotQA, and `evidences`. Raises RowError naming
    the field."""
    names = ("context", "supporting_facts", "evidences")
    lists: dict[str, Any] = {name: _entries(raw, name) for name in names if name in raw}
    evidences = _checked_triples(lists.pop("evidences", None))
    if "context" in lists:
        lists["context"] = _with_sentence_spaces(lists["context"])
    row = hotpotqa.parse_row({**raw, **lists})
    return replace(row, extra={**row.extra, "evidences": evidences})
