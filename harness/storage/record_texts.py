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
    # It brings numpy, which readers of a run do without.
    from harness.storage.serialize import json_values

    question = example.question
    out = _with_own_pieces(record)
    out["question"] = question.text
    out["options"] = None if question.options is None else list(question.options)
    out["gold"] = json_values(example.gold, lost=[])
    out["document_characters"] = [len(documents[name].text) for name in question.document_ids]
    texts: dict[str, str] = {}
    for piece in shown_pieces(out):
        if piece["kind"] == "span":
            piece.pop(POINTER, None)
            piece["text"] = _span_text(piece, documents)
        if len(piece["text"]) > INLINE:
            key = checksum(piece["text"])
            texts[key] = piece["text"]
            piece["text"] = ""
            piece[POINTER] = key
    return out, texts


def without_texts(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record without question, options, gold, queries and shown texts, generated ones too: they
    reveal the document."""
    out = _with_own_pieces(record)
    for name in ("question", "options", "gold"):
        out[name] = None
    for piece in shown_pieces(out):
        piece.pop(POINTER, None)
        piece["text"] = ""
    for search in out.get("searches") or ():
        search["query"] = ""
        for found in search["found"]:
            found["title"] = ""
    notes = record.get("notes") or {}
    judgements = notes.get(JUDGES)
    if judgements:  # a judge's reply may repeat what it was shown
        out["notes"] = {**notes, JUDGES: _without_replies(judgements)}
    return out


def _with_own_pieces(record: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a record, keys in the order of Record, whose pieces of text can be changed."""
    out = {name: record.get(name) for name in _ORDER}
    out.update(record)
    steps = [dict(step) for step in record["steps"]]
    for step in steps:
        if step["shown"]:
            step["shown"] = dict(step["shown"])
    out["shown"] = [dict(piece) for piece in record["shown"]]
    out["steps"] = steps
    if record.get("searches") is not None:
        out["searches"] = [_own_search(search) for search in record["searches"]]
    return out


def _own_search(search: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a search whose pieces of text can be changed."""
    return {**search, "found": list(map(_own_passage, search["found"]))}


def _own_passage(passage: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a passage that was found, whose pieces of text can be changed."""
    return {**passage, "shown": [dict(piece) for piece in passage["shown"]]}


def _span_text(piece: Mapping[str, Any], documents: Mapping[str, Document]) -> str:
    """The text of a shown span.

    A step over several parts (document_view) has no place of its own: its sources are the parts.
    """
    parts = piece["sources"]
    if piece["document_id"] in documents:
        parts = [(piece["document_id"], piece["start"], piece["end"])]
    return GAP.join(documents[name].text[start:end] for name, start, end in parts)


def _without_replies(judgements: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """What judges decided, by judge, without the words of their replies."""
    verdicts = {}
    for name, judgement in judgements.items():
        verdicts[name] = {key: value for key, value in judgement.items() if key != "reply"}
    return verdicts


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
    search steps and of searches."""
    yield from record["shown"]
    yield from (step["shown"] for step in record["steps"] if step["shown"])
    for search in record.get("searches") or ():
        for found in search["found"]:
            yield from found["shown"]
