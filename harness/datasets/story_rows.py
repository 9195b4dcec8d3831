"""NarrativeQA as rows, one a question with its whole story, and the collecting of stories and questions.

    {"document": {"id": "..", "text": "..", "kind": ".."}, "question": {"text": ".."}, "answers": [{"text": ".."}, ..]}

The story comes again with every question on it; it is kept once. Rows after the last question needed are
neither read nor, on the hub, fetched.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from harness.config.schema import DatasetConfig
from harness.datasets.base import Dataset
from harness.datasets.files import Broken, digest_of, read_rows
from harness.datasets.rows import RowError, StrictRow, gold_answers, line_of, records
from harness.datasets.sources import Source
from harness.errors import DataError
from harness.types import Document, Example, Gold, Question


@dataclass
class Found:
    """Questions and stories so far."""

    limit: int | None
    examples: list[Example] = field(default_factory=list)
    documents: dict[str, Document] = field(default_factory=dict)
    ids: Counter[str] = field(default_factory=Counter)

    def full(self) -> bool:
        """Whether the limit of questions is reached."""
        return self.limit is not None and len(self.examples) >= self.limit

    def add(self, document: Document, question: str, answers: tuple[str, ...], extra: dict[str, Any]) -> None:
        """Take a question. Raises RowError for text that cannot be used, and for a second text of the same story."""
        line_of([question, answers, extra])
        made = f"{document.id[:12]}-{hashlib.sha256(question.encode()).hexdigest()[:8]}"
        self.ids[made] += 1
        if self.ids[made] > 1:
            made += f"-{self.ids[made]}"
        if document.id not in self.documents:
            line_of([document.id, document.title, document.text])
            self.documents[document.id] = document
        kept = self.documents[document.id]
        if kept.text != document.text:
            raise RowError("document.text", f"the story '{document.id}' has another text in an earlier row")
        self.examples.append(Example(Question(made, question, (kept.id,)), Gold(answers, extra=extra)))

    def dataset(self, config: DatasetConfig, fingerprint: str, source: str, revision: str | None) -> Dataset:
        """The questions and stories as a data set."""
        return Dataset(config.name, tuple(self.examples), self.documents, fingerprint, source, revision)


class _Text(StrictRow):
    text: str


class _Summary(StrictRow):
    title: str | None = None


class _Story(_Text):
    id: str
    kind: str | None = None
    summary: _Summary | None = None


class _Row(StrictRow):
    document: _Story
    question: _Text
    answers: list[_Text]


def _take(raw: dict[str, Any] | Broken, stories: Found) -> None:
    """Check a row and add it."""
    if isinstance(raw, Broken):
        raise RowError(None, raw.problem)
    row = _Row.read({**raw, "answers": records(raw["answers"], "answers")} if "answers" in raw else raw)
    story = row.document
    for name, value in (("document.id", story.id), ("document.text", story.text), ("question.text", row.question.text)):
        if not value or value.isspace():
            raise RowError(name, "is empty")
    answers = [answer.text for answer in row.answers]
    if not answers or not answers[0].strip():
        raise RowError("answers", "the row has no answer")
    title = story.summary.title if story.summary else None
    document = Document(story.id, story.text, title or "")
    stories.add(document, row.question.text, gold_answers(answers[0], answers[1:]), {"kind": story.kind or ""})


def from_rows(source: Source, config: DatasetConfig, limit: int | None) -> Dataset:
    """The first `limit` questions of row files (None: all). Raises DataError, and CannotRun where files are fetched.

    The fingerprint is that of the files' bytes or, on the hub, of their names at the commit.
    """
    stories, hashed = Found(limit), hashlib.sha256(b"narrativeqa rows 1\n")
    if source.revision is not None:
        hashed.update(f"{source.name} {source.revision}".encode())
    rows = 0
    for file in source.files:
        if source.revision is None:
            hashed.update(digest_of(file))
        for place, raw in () if stories.full() else read_rows(file):
            rows += 1
            try:
                _take(raw, stories)
            except RowError as error:
                raise place.error(error.field, f"{error.problem}; mend or remove the row") from None
            if stories.full():
                break
        if stories.full() and source.revision is not None:
            break  # before the next file is fetched
    if not rows:
        raise DataError(source.name, None, None, "the file has no rows")
    return stories.dataset(config, hashed.hexdigest(), source.name, source.revision)
