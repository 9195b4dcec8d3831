"""2WikiMultihopQA (Ho et al., COLING 2020): 10 paragraphs a question, in sentences, 2 or 4 hops.

    {"_id": "9b..", "type": "compositional", "question": "..", "answer": "..", "supporting_facts": [["Title", 0], ..],
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

from harness.datasets import hotpotqa
from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import Row, RowError, records_from_columns

_NO_TRIPLE = "should be a list of [subject, relation, object]"
# Names of a triple's subject, relation and object, in the official copy and in those of the hub.
_TRIPLE_KEYS = ("subject", "fact", "head", "relation", "predicate", "object", "entity", "tail")


def _parsed_list(raw: RawRow, field: str) -> object:
    """The list in a field, whose entries may be lists or objects.

    In copies the list may be columns, and it or its entries may be written as a text, in JSON or as
    Python writes them: "[['Ada', 'born in', 'Rome']]" -> [["Ada", "born in", "Rome"]]. A value that
    is no list is returned as it is.

    Args:
        raw: The row.
        field: The field.

    Raises:
        RowError: A text is neither JSON nor Python's.
    """
    value = records_from_columns(_parse_if_text(raw[field], field), field)
    if not isinstance(value, list):
        return value
    return [_parse_if_text(entry, field) for entry in value]


def _parse_if_text(value: object, field: str) -> object:
    """The value that a text spells: '["Ada"]' -> ["Ada"], "" -> None. Another value as it is.

    Args:
        value: The text.
        field: The field that holds it, for the error.

    Raises:
        RowError: The text is neither JSON nor a Python literal.
    """
    if not isinstance(value, str):
        return value
    with suppress(ValueError, RecursionError):
        return json.loads(value or "null")
    with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return ast.literal_eval(value)
    raise RowError(field, "is text, but neither JSON nor a Python literal")


def _hotpotqa_paragraphs(raw: RawRow) -> object:
    """The paragraphs of a row in HotpotQA's form; what is no paragraph is returned as it is.

    {"context": [["Ada", ["One.", "Two."]]]} -> [["Ada", ["One.", " Two."]]]
    """
    entries = _parsed_list(raw, "context")
    if not isinstance(entries, list):
        return entries
    return list(map(_hotpotqa_paragraph, entries))


def _hotpotqa_paragraph(entry: object) -> object:
    """A paragraph as [title, sentences], with a space before every sentence but the first.

    {"title": "Ada", "content": ["One.", "Two."]} -> ["Ada", ["One.", " Two."]]; what is no
    paragraph is returned as it is.
    """
    if isinstance(entry, dict) and "title" in entry:
        lists = [value for value in entry.values() if isinstance(value, list)]
        entry = [entry["title"], *lists]
    if not isinstance(entry, list | tuple) or len(entry) != 2:
        return entry
    title, sentences = entry
    if not isinstance(sentences, list):
        return entry
    return [title, [*sentences[:1], *map(_with_space_before, sentences[1:])]]


def _with_space_before(sentence: object) -> object:
    """A sentence with a space before it; what is no text is returned as it is."""
    if isinstance(sentence, str):
        return f" {sentence}"
    return sentence


def _evidence_triples(raw: RawRow) -> list[list[str]]:
    """The triples of a row, [subject, relation, object]; [] where it has none.

    [["Ada", "born in", "Rome"]]                                     as it is
    [{"fact": "Ada", "relation": "born in", "entity": "Rome"}]       the same
    {"fact": "Ada", "relation": "born in", "entity": "Rome"}         one triple without a list: the same
    "" or null                                                       []

    Raises RowError for anything else in the field.
    """
    if "evidences" not in raw:
        return []
    entries = _parsed_list(raw, "evidences")
    if entries is None:
        return []
    if not isinstance(entries, list):
        only_entry = entries
        return [_parse_triple(only_entry)]
    return list(map(_parse_triple, entries))


def _parse_triple(entry: object) -> list[str]:
    """A triple as [subject, relation, object]. Raises RowError for anything else.

    {"fact": "Ada", "relation": "born in", "entity": "Rome"} -> ["Ada", "born in", "Rome"]
    """
    parts = entry
    if isinstance(entry, dict):
        parts = [entry[key] for key in _TRIPLE_KEYS if key in entry]
    if not isinstance(parts, list | tuple) or len(parts) != 3:
        raise RowError("evidences", _NO_TRIPLE)
    if not all(isinstance(part, str | int | float) for part in parts):
        raise RowError("evidences", _NO_TRIPLE)
    return list(map(str, parts))


def parse_row(raw: RawRow) -> Row:
    """Parse one row, as HotpotQA's with "evidences", triples of subject, relation and object.

    Gold.extra as for HotpotQA, and `evidences`. Raises RowError, which names the field.
    """
    fields = dict(raw)
    if "context" in raw:
        fields["context"] = _hotpotqa_paragraphs(raw)
    if "supporting_facts" in raw:
        fields["supporting_facts"] = _parsed_list(raw, "supporting_facts")
    triples = _evidence_triples(raw)
    row = hotpotqa.parse_row(fields)
    return replace(row, extra={**row.extra, "evidences": triples})
