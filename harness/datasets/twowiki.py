"""2WikiMultihopQA (Ho et al., COLING 2020): 10 paragraphs a question, sentences apart, 2 or 4 hops.

    {"_id": "9b..", "type": "compositional", "question": "..", "answer": "..", "supporting_facts": [["Title", 0], ..],
     "context": [["Title", ["One.", "Two."]], ..], "evidences": [["Title", "director", "Name"], ..]}

The schema of HotpotQA with two differences: sentences have no spaces around them, and the evidence is also given as
triples (subject, relation, object), which Gold.extra keeps.
"""

from dataclasses import replace
from typing import Any

from harness.datasets import hotpotqa
from harness.datasets.rows import Row, RowError, records_from_columns


def _with_sentence_spaces(context: Any) -> Any:
    """Put a space before every sentence but a paragraph's first; malformed entries are left for the row's check."""
    paragraphs = records_from_columns(context, "context")
    if not isinstance(paragraphs, list):
        return paragraphs
    pairs = []
    for paragraph in paragraphs:
        pair = [*paragraph.values()] if isinstance(paragraph, dict) else paragraph
        if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], list):
            paragraph = [pair[0], [f" {s}" if at and isinstance(s, str) else s for at, s in enumerate(pair[1])]]
        pairs.append(paragraph)
    return pairs


def _checked_triples(value: Any) -> list[list[str]]:
    """The triples of `evidences` as lists, [] for None. Raises RowError for anything else."""
    if value is None:
        return []
    fine = isinstance(value, list) and all(isinstance(t, list) and len(t) == 3 for t in value)
    if not fine or not all(isinstance(part, str) for triple in value for part in triple):
        raise RowError("evidences", "should be a list of [subject, relation, object]")
    return [list(triple) for triple in value]


def parse_row(raw: dict[str, Any]) -> Row:
    """One 2WikiMultihopQA row; Gold.extra as for HotpotQA, and `evidences`. Raises RowError naming the field."""
    evidences = _checked_triples(raw.get("evidences"))
    row = hotpotqa.parse_row({**raw, "context": _with_sentence_spaces(raw["context"])} if "context" in raw else raw)
    return replace(row, extra={**row.extra, "evidences": evidences})
