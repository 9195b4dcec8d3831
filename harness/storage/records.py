"""The lines of a run folder's files as typed values: parsed where a file is read, written here alone.

    records.jsonl     {"question_id": "q1", "document_ids": ["d1"], "prediction": "Mira", ...}
                      -> StoredRecord(question_id="q1", document_ids=["d1"], prediction="Mira", ...)
    documents.jsonl   {"document_id": "d1", "key": "9f…", "status": "built", "usage": {"index": {...}}}
                      -> IndexLine(document_id="d1", key="9f…", status="built", usage={...})

Keys of other versions are held in `other` and written back. The files: run_files.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from typing_extensions import TypedDict

from harness.cost.usage import SentUsage, Usage
from harness.storage import run_schema
from harness.storage.json_lines import read_lines
from harness.storage.record_notes import JudgeNote, Notes, flags_of, judgements_of
from harness.storage.run_files import DOCUMENTS
from harness.types import RecordedHit, RecordedSearch, Shown, ShownKind, lacks_only_scores

Status = Literal["built", "hit", "failed"]
"""How a run got an index: built now, found in the cache, or not at all."""

_NO_OTHER_VALUES: Mapping[str, object] = {}


class StoredPiece(TypedDict, total=False):
    """A piece of text that the reader saw, as harness.types.Shown; text_sha256: of a long text in
    texts.jsonl; sha256: of a text that was left out of a bundle."""

    kind: str
    document_id: str
    start: int
    end: int
    text: str
    text_sha256: str
    sha256: str
    sources: list[tuple[str, int, int]]


class StoredStep(TypedDict, total=False):
    """One move of a search, as harness.types.Step; `flops` is one number in older runs."""

    action: str
    node: int | None
    level: int | None
    scores: dict[str, float]
    tokens: int
    p_yes: float | None
    flops: dict[str, float] | float
    shown: StoredPiece | None
    note: str
    answer: str | None
    answer_flops: dict[str, float]
    probe_flops: dict[str, float]


class StoredFound(TypedDict):
    """A passage that a search found, as harness.types.RecordedHit."""

    id: str
    title: str
    score: float
    shown: list[StoredPiece]
    pages: list[tuple[str, int, int]]


class StoredSearch(TypedDict):
    """A search, as harness.types.RecordedSearch."""

    query: str
    phase: str
    seconds: float
    found: list[StoredFound]


class StoredSupport(TypedDict):
    """A supporting part of a document, as harness.types.Support."""

    document_id: str
    start: int
    end: int


class StoredGold(TypedDict):
    """Gold answers, as harness.types.Gold; `extra` holds a data set's own fields."""

    answers: list[str]
    supporting: list[StoredSupport]
    extra: dict[str, object]


def parse_shown(piece: StoredPiece) -> Shown:
    """Turn a stored piece of text into a Shown; its keys but "kind" may be missing."""
    return Shown(
        kind=cast(ShownKind, piece["kind"]),
        document_id=piece.get("document_id", ""),
        start=piece.get("start", 0),
        end=piece.get("end", 0),
        text=piece.get("text", ""),
        sources=tuple((document, start, end) for document, start, end in piece.get("sources", ())),
    )


def parse_searches(searches: Sequence[StoredSearch] | None) -> tuple[RecordedSearch, ...] | None:
    """Turn a record's stored searches into RecordedSearch values; None where none were recorded."""
    if searches is None:
        return None
    return tuple(map(_parse_search, searches))


def _parse_search(search: StoredSearch) -> RecordedSearch:
    """Turn one stored search, with the passages it found, into a RecordedSearch."""
    hits = tuple(map(_parse_passage, search["found"]))
    return RecordedSearch(
        query=search["query"], phase=search["phase"], seconds=search["seconds"], found=hits
    )


def _parse_passage(passage: StoredFound) -> RecordedHit:
    """Turn one stored passage of a search into a RecordedHit; its texts and pages become tuples."""
    shown = tuple(map(parse_shown, passage["shown"]))
    pages = tuple((document_id, start, end) for document_id, start, end in passage["pages"])
    return RecordedHit(
        id=passage["id"], title=passage["title"], score=passage["score"], shown=shown, pages=pages
    )


RECORD_KEYS = (
    "question_id",
    "question",
    "options",
    "document_ids",
    "document_characters",
    "gold",
    "prediction",
    "scores",
    "usage",
    "shown",
    "stop_reason",
    "steps",
    "searches",
    "truncated",
    "error",
    "notes",
)
"""The keys of a record in the order of the file."""
_RECORD_KEY_SET = frozenset(RECORD_KEYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """One line of records.jsonl: a question with its answer (docs/run-folder.md#records).

    Attributes:
        question_id: The question.
        question: Its text; None where the run keeps no texts, as `options` and `gold`.
        options: What it may be answered with; None for a free answer.
        document_ids: The documents that it is asked about.
        document_characters: Their lengths; None in older runs.
        gold: The gold answers.
        prediction: The reply, "" where there is none.
        scores: By scorer.
        usage: What the question cost, by phase.
        shown: What the reader saw.
        stop_reason: Why the search ended.
        steps: The moves of the search.
        searches: What was searched for, in the order of asking; None where nothing could be.
        truncated: What a cut took away, None where nothing was cut.
        error: Why the question failed ({"type", "message"}), None if it did not. A question that
            was answered and could not be scored has "stage": "scoring".
        notes: Flags of scorers, judgements and what methods note (record_notes.py).
        key_order: The keys of the line, in its order.
        other: Values of other versions, by key.
    """

    question_id: str
    question: str | None = None
    options: list[str] | None = None
    document_ids: list[str]
    document_characters: list[int] | None = None
    gold: StoredGold | None = None
    prediction: str
    scores: dict[str, float]
    usage: Usage
    shown: list[StoredPiece] = field(default_factory=list)
    stop_reason: str = ""
    steps: list[StoredStep] = field(default_factory=list)
    searches: list[StoredSearch] | None = None
    truncated: Mapping[str, object] | None = None
    error: dict[str, str] | None = None
    notes: Notes = field(default_factory=dict)
    key_order: tuple[str, ...] = RECORD_KEYS
    other: Mapping[str, object] = field(default_factory=lambda: _NO_OTHER_VALUES)

    @property
    def has_answer(self) -> bool:
        """Whether the question was answered, its answer scored or not."""
        return self.error is None or lacks_only_scores(self.error)

    @property
    def flags(self) -> Mapping[str, str]:
        """What is odd about a score, by the score's name: {"flashrag.acc": "nan counts as 0"}."""
        return flags_of(self.notes)

    @property
    def judgements(self) -> Mapping[str, JudgeNote]:
        """What a judge decided, by the name of its score."""
        return judgements_of(self.notes)

    @property
    def scored_text(self) -> str:
        """The part of the reply that was scored: the text after an answer prefix, the answer in a
        JSON schema, or else all of the reply.
        """
        return str(self.notes.get("scored", self.prediction))

    @property
    def seconds(self) -> float | None:
        """How long answering took, searches and waiting included; None where it is not recorded."""
        seconds = self.notes.get("seconds")
        if isinstance(seconds, (int, float)):
            return seconds
        return None

    @property
    def earlier_tries(self) -> SentUsage | None:
        """What earlier tries of the question sent to models; None where there were none."""
        return cast(SentUsage | None, self.notes.get("earlier"))

    @property
    def gold_answers(self) -> list[str]:
        """The gold answers; [] where the run did not keep them."""
        if self.gold is None:
            return []
        return self.gold.get("answers") or []

    @property
    def gold_extra(self) -> Mapping[str, object]:
        """The data set's own fields of the gold answers, by name; {} where the run did not keep
        them.
        """
        if self.gold is None:
            return {}
        return self.gold.get("extra") or {}

    @property
    def supporting(self) -> list[StoredSupport]:
        """The supporting parts of documents, from the gold; [] where the run did not keep them."""
        if self.gold is None:
            return []
        return self.gold.get("supporting") or []

    def pieces(self) -> Iterator[StoredPiece]:
        """Yield all pieces of text in the record: what the reader saw, then those of each step,
        then those of each search.
        """
        yield from self.shown
        for step in self.steps:
            piece = step.get("shown")
            if piece:
                yield piece
        for search in self.searches or ():
            for passage in search["found"]:
                yield from passage["shown"]

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> StoredRecord:
        """Make a record of a parsed line, which run_schema.RECORD has checked.

        Values of keys that this version does not know go to `other`, and the order of all keys to
        `key_order`.
        """
        layout = _layout_of(tuple(values))
        other_values = _NO_OTHER_VALUES
        if layout.other_keys:
            other_values = {name: values[name] for name in layout.other_keys}
        get_or_none = values.get
        return cls(
            question_id=values["question_id"],
            question=get_or_none("question"),
            options=get_or_none("options"),
            document_ids=values["document_ids"],
            document_characters=get_or_none("document_characters"),
            gold=get_or_none("gold"),
            prediction=values["prediction"],
            scores=values["scores"],
            usage=values["usage"],
            shown=values["shown"],
            stop_reason=values["stop_reason"],
            steps=values["steps"],
            searches=get_or_none("searches"),
            truncated=get_or_none("truncated"),
            error=get_or_none("error"),
            notes=values["notes"],
            key_order=layout.keys,
            other=other_values,
        )

    def with_other(self, key: str, value: object) -> StoredRecord:
        """A copy of the record with a value under a key that is no field of this class; a new key
        comes last in the line.
        """
        key_order = self.key_order
        if key not in key_order:
            key_order = (*key_order, key)
        return replace(self, other={**self.other, key: value}, key_order=key_order)

    def to_json(self) -> dict[str, object]:
        """The values of the line by key, in the order in which the
        line was read or is to be written.
        """
        values: dict[str, object] = {}
        for key in self.key_order:
            if key in _RECORD_KEY_SET:
                values[key] = getattr(self, key)
            else:
                values[key] = self.other[key]
        return values


@dataclass(frozen=True, slots=True)
class _Layout:
    """The keys of a line in their order, and those of them that are no field of StoredRecord."""

    keys: tuple[str, ...]
    other_keys: tuple[str, ...]


@functools.lru_cache(maxsize=64)
def _layout_of(keys: tuple[str, ...]) -> _Layout:
    """The layout of a line with these keys; cached, as the lines of a run share it."""
    return _Layout(keys, tuple(key for key in keys if key not in _RECORD_KEY_SET))


def read_records(
    path: Path,
    notes: list[str] | None = None,
    is_wanted: Callable[[bytes], bool] | None = None,
) -> Iterator[StoredRecord]:
    """Yield the records of a records.jsonl, one for each line.

    Args:
        path: The file.
        notes: A sentence on a torn last line is added to it.
        is_wanted: Called with a line's bytes; False skips the line.

    Raises:
        DataError: A line before the last is damaged.
    """
    for values in read_lines(path, "question_id", notes, run_schema.RECORD, is_wanted):
        yield StoredRecord.from_json(values)


class IndexOwner(NamedTuple):
    """The document that an index was built of, and the question that it was built for, None where
    all questions share it.
    """

    document_id: str
    question_id: str | None


class IndexIdentity(NamedTuple):
    """What an index belongs to (IndexOwner), and its key in the cache; None in older runs."""

    document_id: str
    question_id: str | None
    key: str | None


_INDEX_KEYS = frozenset({"document_id", "key", "status", "usage", "question_id"})


@dataclass(frozen=True, slots=True)
class IndexLine:
    """One line of documents.jsonl: the index of one document, and what it cost.

    Attributes:
        document_id: The document.
        key: Digest of the index's key in the cache; None in older runs.
        status: How the run got it.
        usage: What building it cost, also where it was found in the cache.
        question_id: The question that the index belongs to; None where all share it.
        other: Keys of other versions.
    """

    document_id: str
    key: str | None
    status: Status
    usage: Usage
    question_id: str | None = None
    other: Mapping[str, object] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether the run did not get the index."""
        return self.status == "failed"

    @property
    def owner(self) -> IndexOwner:
        """What the index belongs to: equal for all lines on one index, from whatever start of the
        run.
        """
        return IndexOwner(self.document_id, self.question_id)

    @property
    def identity(self) -> IndexIdentity:
        """What is equal for lines on one index that was built with equal settings."""
        return IndexIdentity(self.document_id, self.question_id, self.key)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> IndexLine:
        """Make an index line of a parsed line, which run_schema.DOCUMENT has checked. Values of
        keys that this version does not know go to `other`.
        """
        return cls(
            document_id=values["document_id"],
            key=values.get("key"),
            status=values["status"],
            usage=values["usage"],
            question_id=values.get("question_id"),
            other={name: value for name, value in values.items() if name not in _INDEX_KEYS},
        )

    def to_json(self) -> dict[str, object]:
        """The values of the line by key, in the order of the file; a key
        or question of None is left out.
        """
        values: dict[str, object] = {"document_id": self.document_id}
        if self.key is not None:
            values["key"] = self.key
        values["status"] = self.status
        values["usage"] = self.usage
        if self.question_id is not None:
            values["question_id"] = self.question_id
        values.update(self.other)
        return values


def read_index_lines(folder: Path, notes: list[str] | None = None) -> Iterator[IndexLine]:
    """Yield the index lines of the folder's documents.jsonl.

    Args:
        folder: A run folder, or that of a part.
        notes: A sentence on a torn last line is added to it.

    Raises:
        DataError: A line before the last is damaged.
    """
    path = folder / DOCUMENTS
    for values in read_lines(path, "document_id", notes, run_schema.DOCUMENT):
        yield IndexLine.from_json(values)
