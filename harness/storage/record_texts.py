"""The texts of a data set in a record: taken out of it, and read from it.

Short texts that a reader was shown are in the record, long ones once a run in texts.jsonl:

{"kind": "span", "document_id": "d", "start": 0, "end": 5, "text": "Ann …"}                  up to INLINE characters
{"kind": "span", "document_id": "d", "start": 0, "end": 9000, "text": "", "text_sha256": "9f…"}    a longer one
{"sha256": "9f…", "text": "Ann …"}                                                   its line in texts.jsonl

added_texts.py adds them.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from harness.storage.record_notes import JudgeNote
from harness.storage.records import (
    RECORD_KEYS,
    StoredFound,
    StoredPiece,
    StoredRecord,
    StoredSearch,
    StoredStep,
)
from harness.types import JUDGES, Gold, Support

MAX_INLINE_CHARACTERS = 300
CHECKSUM_KEY: Literal["text_sha256"] = "text_sha256"


def without_texts(record: StoredRecord) -> StoredRecord:
    """A copy of a record without texts that reveal the document.

    Question, options and gold become None; queries, titles and shown texts (generated ones too)
    become ""; replies of judges are removed, as they may repeat what a judge was shown.
    """
    bare = replace(with_copied_pieces(record), question=None, options=None, gold=None)
    for piece in bare.pieces():
        piece.pop(CHECKSUM_KEY, None)
        piece["text"] = ""
    for search in bare.searches or ():
        search["query"] = ""
        for passage in search["found"]:
            passage["title"] = ""
    if not record.judgements:
        return bare
    judgements = _without_replies(record.judgements)
    return replace(bare, notes={**record.notes, JUDGES: judgements})


def with_copied_pieces(record: StoredRecord) -> StoredRecord:
    """A copy of a record whose pieces of text can be changed without changing the record.

    In the file, the copy's line has all keys of RECORD_KEYS in that order, then keys of other
    versions.
    """
    searches = None
    if record.searches is not None:
        searches = [_copied_search(search) for search in record.searches]
    other_keys = [key for key in record.key_order if key not in RECORD_KEYS]
    return replace(
        record,
        shown=[piece.copy() for piece in record.shown],
        steps=[_copied_step(step) for step in record.steps],
        searches=searches,
        key_order=(*RECORD_KEYS, *other_keys),
    )


def _copied_step(step: StoredStep) -> StoredStep:
    """A copy of a step, whose shown piece is a copy too."""
    copied = step.copy()
    piece = copied.get("shown")
    if piece:
        copied["shown"] = piece.copy()
    return copied


def _copied_search(search: StoredSearch) -> StoredSearch:
    """A copy of a search, whose passages and their pieces are copies too."""
    copied = search.copy()
    copied["found"] = [_copied_passage(passage) for passage in search["found"]]
    return copied


def _copied_passage(passage: StoredFound) -> StoredFound:
    """A copy of a passage that was found, whose pieces are copies too."""
    copied = passage.copy()
    copied["shown"] = [piece.copy() for piece in passage["shown"]]
    return copied


def _without_replies(judgements: Mapping[str, JudgeNote]) -> dict[str, JudgeNote]:
    """A copy of what judges decided (score -> note), without the words of their replies."""
    verdicts: dict[str, JudgeNote] = {}
    for name, judgement in judgements.items():
        verdict = judgement.copy()
        verdict.pop("reply", None)
        verdicts[name] = verdict
    return verdicts


def gold_of(record: StoredRecord) -> Gold | None:
    """The gold answers of a record, with the parts of documents that support them, as a Gold; None
    where the run stored none.
    """
    gold = record.gold
    if gold is None:
        return None
    supporting = tuple(
        Support(part["document_id"], part["start"], part["end"]) for part in gold["supporting"]
    )
    return Gold(tuple(gold["answers"]), supporting, gold["extra"])


def text_checksum(text: str) -> str:
    """The key of a long text in texts.jsonl: the first 32 hexadecimal digits of its sha256.

    A lone surrogate is hashed by bytes of its own.
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def checksum_of_missing_text(piece: StoredPiece) -> str | None:
    """The checksum that a piece has in place of its text: that of a long text, which is in
    texts.jsonl, or of one that was left out of a bundle; None where it has neither."""
    return piece.get(CHECKSUM_KEY) or piece.get("sha256")
