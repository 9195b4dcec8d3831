"""The data set's texts in a record, so that a run can be read without it: question, gold answers
and shown texts.

They are added after the method has answered: a method sees no gold. Short texts that a reader was
shown are in the record, long ones once a run in texts.jsonl:

{"kind": "span", "document_id": "d", "start": 0, "end": 5, "text": "Ann …"}                  up to INLINE characters
{"kind": "span", "document_id": "d", "start": 0, "end": 9000, "text": "", "text_sha256": "9f…"}    a longer one
{"sha256": "9f…", "text": "Ann …"}                                                   its line in texts.jsonl
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from harness.types import GAP, JUDGES, Document, Example, Gold, Record, Support

INLINE = 300
POINTER = "text_sha256"
_ORDER = tuple(field.name for field in fields(Record))


def with_texts(
    record: Mapping[str, Any], example: Example, documents: Mapping[str, Document]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The record with question, options, gold, lengths of the documents and texts of the spans that
    were shown.

    Returns it with pointers in place of long texts, and these texts (for texts.jsonl) by checksum.
    """
    from harness.storage.serialize import (
        json_values,
    )  # brings numpy, which readers of a run do without

    question = example.question
    out = {
        **{name: record.get(name) for name in _ORDER},
        **record,
        "question": question.text,
        "options": None if question.options is None else list(question.options),
        "gold": json_values(example.gold, lost=[]),
        "document_characters": [len(documents[d].text) for d in question.document_ids],
        "shown": [dict(piece) for piece in record["shown"]],
        "steps": [
            {**step, "shown": step["shown"] and dict(step["shown"])} for step in record["steps"]
        ],
    }
    texts = {}
    for piece in shown_pieces(out):
        if piece["kind"] == "span":
            # A step over several parts (document_view) has no place of its own: its sources are the
            # parts.
            span = (piece["document_id"], piece["start"], piece["end"])
            parts = [span] if piece["document_id"] in documents else piece["sources"]
            piece.pop(POINTER, None)
            piece["text"] = GAP.join(documents[d].text[start:end] for d, start, end in parts)
        if len(piece["text"]) > INLINE:
            key = checksum(piece["text"])
            texts[key] = piece["text"]
            piece |= {"text": "", POINTER: key}
    return out, texts


def without_texts(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record without question, options, gold and shown texts, generated ones too: they reveal
    the document."""

    def bare(piece: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in piece.items() if key != POINTER} | {"text": ""}

    out = (
        {name: record.get(name) for name in _ORDER}
        | dict(record)
        | dict.fromkeys(("question", "options", "gold"))
    )
    out["shown"] = [bare(piece) for piece in record["shown"]]
    out["steps"] = [
        {**step, "shown": step["shown"] and bare(step["shown"])} for step in record["steps"]
    ]
    if judges := (record.get("notes") or {}).get(
        JUDGES
    ):  # a judge's reply may repeat what it was shown
        verdicts = {
            name: {key: value for key, value in judgement.items() if key != "reply"}
            for name, judgement in judges.items()
        }
        out["notes"] = {**record["notes"], JUDGES: verdicts}
    return out


def gold_of(record: Mapping[str, Any]) -> Gold | None:
    """The gold answers and supporting marks that a record holds; None if it holds none."""
    gold = record.get("gold")
    if gold is None:
        return None
    marks = tuple(Support(s["document_id"], s["start"], s["end"]) for s in gold["supporting"])
    return Gold(tuple(gold["answers"]), marks, gold["extra"])


def checksum(text: str) -> str:
    """The first 32 hexadecimal digits of the text's sha256; a lone surrogate has its own bytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def shown_pieces(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the pieces of text, as above, that a record shows: those for the reader, then those of
    search steps."""
    yield from record["shown"]
    yield from (step["shown"] for step in record["steps"] if step["shown"])
