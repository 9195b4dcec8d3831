"""The data set's texts in a record, so that a run can be read without it: question, gold answers
and shown texts.

They are added after the method has answered: a method sees no gold. Short texts that a reader was
shown are in the record, long ones once a run in texts.jsonl:

{"kind": "span", "document_id": "d", "start": 0, "end": 5, "text": "Ann …"}                  up to INLINE characters
{"kind": "span", "document_id": "d", "start": 0, "end": 9000, "text": "", "text_sha256": "9f…"}    a longer one
{"sha256": "9f…", "text": "Ann …"}                                                   its line in texts.jsonl
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, cast

from harness.storage.records import (
    RECORD_KEYS,
    StoredFound,
    StoredGold,
    StoredPiece,
    StoredRecord,
    StoredSearch,
    StoredStep,
)
from harness.types import GAP, JUDGES, Document, Example, Gold, Support

INLINE = 300
POINTER: Literal["text_sha256"] = "text_sha256"


def with_texts(
    record: StoredRecord, example: Example, documents: Mapping[str, Document]
) -> tuple[StoredRecord, dict[str, str]]:
    """The record with question, options, gold, lengths of the documents and texts of the spans that
    were shown.

    Returns it with pointers in place of long texts, and these texts (for texts.jsonl) by checksum.
    """
    # It brings numpy, which readers of a run do without.
    from harness.storage.serialize import json_values

    question = example.question
    gold = cast(StoredGold, json_values(example.gold, lost=[]))
    options = None if question.options is None else list(question.options)
    changed = replace(
        _with_own_pieces(record),
        question=question.text,
        options=options,
        gold=gold,
        document_characters=[len(documents[name].text) for name in question.document_ids],
    )
    texts: dict[str, str] = {}
    for piece in changed.pieces():
        if piece["kind"] == "span":
            piece.pop(POINTER, None)
            piece["text"] = _span_text(piece, documents)
        if len(piece["text"]) > INLINE:
            key = checksum(piece["text"])
            texts[key] = piece["text"]
            piece["text"] = ""
            piece[POINTER] = key
    return changed, texts


def without_texts(record: StoredRecord) -> StoredRecord:
    """The record without question, options, gold, queries and shown texts, generated ones too: they
    reveal the document."""
    bare = replace(_with_own_pieces(record), question=None, options=None, gold=None)
    for piece in bare.pieces():
        piece.pop(POINTER, None)
        piece["text"] = ""
    for search in bare.searches or ():
        search["query"] = ""
        for found in search["found"]:
            found["title"] = ""
    judgements = record.notes.get(JUDGES)
    if not judgements:
        return bare
    # A judge's reply may repeat what it was shown.
    return replace(bare, notes={**record.notes, JUDGES: _without_replies(judgements)})


def _with_own_pieces(record: StoredRecord) -> StoredRecord:
    """A copy of a record with all keys in their order, whose pieces of text can be changed."""
    searches = None
    if record.searches is not None:
        searches = [_own_search(search) for search in record.searches]
    others = [key for key in record.key_order if key not in RECORD_KEYS]
    return replace(
        record,
        shown=[piece.copy() for piece in record.shown],
        steps=[_with_own_piece(step) for step in record.steps],
        searches=searches,
        key_order=(*RECORD_KEYS, *others),
    )


def _with_own_piece(step: StoredStep) -> StoredStep:
    """A copy of a step that shares no mapping with it."""
    own = step.copy()
    piece = own.get("shown")
    if piece:
        own["shown"] = piece.copy()
    return own


def _own_search(search: StoredSearch) -> StoredSearch:
    """A copy of a search whose pieces of text can be changed."""
    own = search.copy()
    own["found"] = [_own_passage(passage) for passage in search["found"]]
    return own


def _own_passage(passage: StoredFound) -> StoredFound:
    """A copy of a passage that was found, whose pieces of text can be changed."""
    own = passage.copy()
    own["shown"] = [piece.copy() for piece in passage["shown"]]
    return own


def _span_text(piece: StoredPiece, documents: Mapping[str, Document]) -> str:
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


def gold_of(record: StoredRecord) -> Gold | None:
    """The gold answers and supporting marks that a record holds; None if it holds none."""
    gold = record.gold
    if gold is None:
        return None
    marks = tuple(Support(s["document_id"], s["start"], s["end"]) for s in gold["supporting"])
    return Gold(tuple(gold["answers"]), marks, gold["extra"])


def checksum(text: str) -> str:
    """The first 32 hexadecimal digits of the text's sha256; a lone surrogate has its own bytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
