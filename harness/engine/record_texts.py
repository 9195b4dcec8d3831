"""The data set's texts in a record, so that a run can be read without it: question, gold answers and shown texts.

They are added after the method has answered: a method sees no gold.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from harness.datasets.base import Dataset
from harness.engine.document_view import GAP
from harness.storage.run_files import MANIFEST, RECORDS
from harness.storage.run_store import RunStore
from harness.storage.serialize import json_values
from harness.storage.shown_texts import INLINE, POINTER, checksum, shown_pieces
from harness.types import JUDGES, Document, Example, Gold, Record, Support

_ORDER = tuple(field.name for field in fields(Record))


def with_texts(
    record: Mapping[str, Any], example: Example, documents: Mapping[str, Document]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The record with question, options, gold, lengths of the documents and texts of the spans that were shown.

    Returns it with pointers in place of long texts, and these texts (for texts.jsonl) by checksum.
    """
    question = example.question
    out = {
        **{name: record.get(name) for name in _ORDER},
        **record,
        "question": question.text,
        "options": None if question.options is None else list(question.options),
        "gold": json_values(example.gold, lost=[]),
        "document_characters": [len(documents[d].text) for d in question.document_ids],
        "shown": [dict(piece) for piece in record["shown"]],
        "steps": [{**step, "shown": step["shown"] and dict(step["shown"])} for step in record["steps"]],
    }
    texts = {}
    for piece in shown_pieces(out):
        if piece["kind"] == "span":
            # A step over several parts (document_view) has no place of its own: its sources are the parts.
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
    """The record without question, options, gold and shown texts, generated ones too: they reveal the document."""

    def bare(piece: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in piece.items() if key != POINTER} | {"text": ""}

    out = {name: record.get(name) for name in _ORDER} | dict(record) | dict.fromkeys(("question", "options", "gold"))
    out["shown"] = [bare(piece) for piece in record["shown"]]
    out["steps"] = [{**step, "shown": step["shown"] and bare(step["shown"])} for step in record["steps"]]
    if judges := (record.get("notes") or {}).get(JUDGES):  # a judge's reply may repeat what it was shown
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


def update_texts(store: RunStore, dataset: Dataset, keep: bool, note: Callable[[str], None]) -> None:
    """Add the data set's texts that records of a run folder lack, or with keep=False remove all; report by `note`.

    Records of older versions lack them. With `keep`, questions not in `dataset` stay as they are. Raises SaveError.
    """
    examples = {example.question.id: example for example in dataset.examples}
    records = {record["question_id"]: record for record in store.lines(RECORDS)}
    texts: dict[str, str] = {}
    changed = 0
    for name, record in records.items():
        if keep and record.get("gold") is None and name in examples:
            records[name], long_texts = with_texts(record, examples[name], dataset.documents)
            texts |= long_texts
        elif not keep and (
            record.get("gold") is not None or any(p["text"] or p.get(POINTER) for p in shown_pieces(record))
        ):
            records[name] = without_texts(record)
        changed += records[name] is not record
    if changed:
        store.keep_texts(texts)
        store.replace_records(records.values())
        note(f"texts of the data set were {'added to' if keep else 'taken out of'} {changed} records")
    if not keep:
        store.drop_texts()
        manifest = store.manifest()
        if manifest.pop("first_prompts", None):
            store.write(MANIFEST, manifest)
