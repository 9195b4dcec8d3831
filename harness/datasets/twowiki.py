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
from contextlib import suppress
from dataclasses import replace
from typing import Any

from harness.datasets import hotpotqa
from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import Row, RowError, records_from_columns

_PARTS = (  # names of a triple's parts, in the official copy and in those of the hub
    ("subject", "fact", "head"),
    ("relation", "predicate"),
    ("object", "entity", "tail"),
)


def _entries(raw: RawRow, name: str) -> Any:
    """The list in the field `name`, also where it is columns, or it or its entries are JSON or
    Python in a text."""
    value = records_from_columns(_parsed(raw[name], name), name)
    if not isinstance(value, list):
        return value
    return [_parsed(entry, name) for entry in value]


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
    return [_spaced_paragraph(_as_pair(paragraph)) for paragraph in paragraphs]


def _as_pair(paragraph: Any) -> Any:
    """{"title": "Ada", "content": [..]} as ["Ada", [..]]; another value as it is."""
    if not isinstance(paragraph, dict) or "title" not in paragraph:
        return paragraph
    lists = [value for value in paragraph.values() if isinstance(value, list)]
    return [paragraph["title"], *lists]


def _spaced_paragraph(pair: Any) -> Any:
    """[title, sentences] with a space before every sentence but the first; another value as it
    is."""
    if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[1], list):
        return pair
    title, sentences = pair
    return [title, sentences[:1] + [_spaced(sentence) for sentence in sentences[1:]]]


def _spaced(sentence: Any) -> Any:
    if isinstance(sentence, str):
        return f" {sentence}"
    return sentence


def _checked_triples(value: Any) -> list[list[str]]:
    """The triples of `evidences` as lists, [] for None. Raises RowError for anything else."""
    if value is None:
        return []
    if not isinstance(value, list):
        return [_checked_triple(value)]
    return [_checked_triple(triple) for triple in value]


def _checked_triple(value: Any) -> list[str]:
    """A triple as [subject, relation, object]. Raises RowError for anything else."""
    parts = value
    if isinstance(value, dict):
        parts = _triple_parts(value)
    is_triple = isinstance(parts, list | tuple) and len(parts) == 3
    if not is_triple or not all(isinstance(part, str | int | float) for part in parts):
        raise RowError("evidences", "should be a list of [subject, relation, object]")
    return [str(part) for part in parts]


def _triple_parts(triple: RawRow) -> list[Any]:
    """The values of an object's subject, relation and object, whatever their names."""
    parts = []
    for names in _PARTS:
        parts += [triple[name] for name in names if name in triple]
    return parts


def parse_row(raw: RawRow) -> Row:
    """One 2WikiMultihopQA row; Gold.extra as for HotpotQA, and `evidences`. Raises RowError naming
    the field."""
    names = ("context", "supporting_facts", "evidences")
    lists: dict[str, object] = {name: _entries(raw, name) for name in names if name in raw}
    evidences = _checked_triples(lists.pop("evidences", None))
    if "context" in lists:
        lists["context"] = _with_sentence_spaces(lists["context"])
    row = hotpotqa.parse_row({**raw, **lists})
    return replace(row, extra={**row.extra, "evidences": evidences})
