"""2WikiMultihopQA (Ho et al., COLING 2020): 10 paragraphs a question, sentences apart, 2 or 4 hops.

    {"_id": "9b..", "type": "compositional", "question": "..", "answer": "..", "supporting_facts": [["Title", 0], ..],
     "context": [["Title", ["One.", "Two."]], ..], "evidences": [["Title", "director", "Name"], ..]}

The schema of HotpotQA with two differences: sentences have no spaces around them, and the evidence is also given as
triples (subject, relation, object), which Gold.extra keeps. Copies on the hub have columns, objects ({"fact",
"relation", "entity"}; {"title", "content"}) or the JSON text of a field in place of these lists; all are read.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from harness.datasets import hotpotqa
from harness.datasets.rows import Row, RowError, records_from_columns

_TRIPLES = (("fact", "relation", "entity"), ("subject", "relation", "object"))


def _entries(raw: Mapping[str, Any], name: str) -> Any:
    """The list in the field `name`, also where it is columns, or the JSON text of either; else the value as it is."""
    value = raw[name]
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise RowError(name, "is a text, and no JSON") from None
    return records_from_columns(value, name)


def _with_sentence_spaces(paragraphs: Any) -> Any:
    """Put a space before every sentence but a paragraph's first; malformed entries are left for the row's check."""
    if not isinstance(paragraphs, list):
        return paragraphs
    pairs = []
    for paragraph in paragraphs:
        pair = paragraph
        if isinstance(pair, dict) and len(pair) == 2 and "title" in pair:
            pair = [pair["title"], *(value for key, value in pair.items() if key != "title")]
        if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], list):
            pair = [pair[0], [f" {s}" if at and isinstance(s, str) else s for at, s in enumerate(pair[1])]]
        pairs.append(pair)
    return pairs


def _checked_triples(value: Any) -> list[list[str]]:
    """The triples of `evidences` as lists, [] for None. Raises RowError for anything else."""
    if value is None:
        return []
    found = []
    for triple in value if isinstance(value, list) else [value]:
        for keys in _TRIPLES:
            if isinstance(triple, dict) and triple.keys() == {*keys}:
                triple = [triple[key] for key in keys]
        if not isinstance(triple, list) or len(triple) != 3 or not all(isinstance(part, str) for part in triple):
            raise RowError("evidences", "should be a list of [subject, relation, object]")
        found.append(list(triple))
    return found


def parse_row(raw: dict[str, Any]) -> Row:
    """One 2WikiMultihopQA row; Gold.extra as for HotpotQA, and `evidences`. Raises RowError naming the field."""
    names = ("context", "supporting_facts", "evidences")
    lists: dict[str, Any] = {name: _entries(raw, name) for name in names if name in raw}
    evidences = _checked_triples(lists.pop("evidences", None))
    if "context" in lists:
        lists["context"] = _with_sentence_spaces(lists["context"])
    row = hotpotqa.parse_row({**raw, **lists})
    return replace(row, extra={**row.extra, "evidences": evidences})
