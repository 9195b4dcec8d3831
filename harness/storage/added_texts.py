"""Adds the data set's texts to a record, so that a run can be read without it: question, gold answers
and shown texts.

They are added after the method has answered: a method sees no gold. How they are stored:
record_texts.py.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, cast

from harness.storage.record_texts import (
    CHECKSUM_KEY,
    MAX_INLINE_CHARACTERS,
    text_checksum,
    with_copied_pieces,
)
from harness.storage.records import StoredGold, StoredPiece, StoredRecord
from harness.storage.serialize import json_values
from harness.types import GAP, Document, Example


class RecordWithTexts(NamedTuple):
    """A record with texts.

    Attributes:
        record: It has checksums in place of long texts.
        long_texts: Checksum -> long text, for texts.jsonl.
    """

    record: StoredRecord
    long_texts: dict[str, str]


def with_dataset_texts(
    record: StoredRecord, example: Example, documents: Mapping[str, Document]
) -> RecordWithTexts:
    """A copy of a record with the question, options, gold, lengths of the documents and texts of
    shown spans.

    A text of more than MAX_INLINE_CHARACTERS goes to `long_texts`; the record's piece then has its
    checksum, and "" as its text.

    Args:
        record: As the method's answer made it; it is not changed.
        example: The question with its gold answers.
        documents: The data set's documents, by id.
    """
    question = example.question
    gold = cast(StoredGold, json_values(example.gold, not_finite=[]))  # a NaN in it becomes None
    options = None
    if question.options is not None:
        options = list(question.options)
    complete = replace(
        with_copied_pieces(record),
        question=question.text,
        options=options,
        gold=gold,
        document_characters=[len(documents[each].text) for each in question.document_ids],
    )
    long_texts: dict[str, str] = {}
    for piece in complete.pieces():
        if piece["kind"] == "span":
            piece.pop(CHECKSUM_KEY, None)
            piece["text"] = _span_text(piece, documents)
        if len(piece["text"]) > MAX_INLINE_CHARACTERS:
            key = text_checksum(piece["text"])
            long_texts[key] = piece["text"]
            piece["text"] = ""
            piece[CHECKSUM_KEY] = key
    return RecordWithTexts(complete, long_texts)


def _span_text(piece: StoredPiece, documents: Mapping[str, Document]) -> str:
    """Read the text of a shown span from the documents, by id.

    A span of a document that was put together from parts of others names none of `documents`: its
    text is that of these parts, its `sources`, joined.
    """
    parts = piece["sources"]
    if piece["document_id"] in documents:
        parts = [(piece["document_id"], piece["start"], piece["end"])]
    texts = [documents[document_id].text[start:end] for document_id, start, end in parts]
    return GAP.join(texts)
