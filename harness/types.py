"""The data that flows through the program, on one page.

    Dataset ── Example(question, gold) ─► Method sees Question and Documents only ─► Answer

All classes are frozen; offsets are character offsets into `Document.text`, end exclusive.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

VERSION = "0.1.0"


@dataclass(frozen=True, slots=True)
class Passage:
    """A titled part of a document: text[start:end], its title included."""

    title: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Section(Passage):
    """A passage that no chunk runs across, as it is a page of a folder or the part below a heading.

    ends_chunks: Always true. It is a field so that indexes and data sets with sections have hashes
    of their own.
    """

    ends_chunks: bool = True


@dataclass(frozen=True, slots=True)
class Document:
    """One text a question is asked about, with the passages it was put together from (may be
    none)."""

    id: str
    text: str
    title: str = ""
    passages: tuple[Passage, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """All that a method may see of a question."""

    id: str
    text: str
    document_ids: tuple[str, ...]
    options: tuple[str, ...] | None = None

    @property
    def begins(self) -> str:
        """The text that the shared prompt writes for the model as the beginning of its reply.

        "" here; a data set whose questions have one makes them of a subclass.
        """
        return ""

    @property
    def example(self) -> str:
        """The solved example that the shared prompt begins with; "" here, as with `begins`."""
        return ""


@dataclass(frozen=True, slots=True)
class Support:
    """A supporting part of a document: text[start:end]."""

    document_id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Gold:
    """What only scorers may see.

    Attributes:
        answers: Alternatives, each of which is right.
        supporting: The parts of documents that support them.
        extra: A data set's own fields.
    """

    answers: tuple[str, ...]
    supporting: tuple[Support, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Example:
    """A question with its gold answer; the runner splits the two."""

    question: Question
    gold: Gold


GAP = "\n\n"
"""Between two documents, or parts of one, that stand in one text."""


ShownKind = Literal["span", "generated", "source", "quote", "unknown"]


@dataclass(frozen=True, slots=True)
class Shown:
    """One piece of what the reader saw.

    Attributes:
        kind: "span": text[start:end] of a document; "generated": `text` that a model wrote. Of an
            application of the user's own: "source": the page `text` that it names; "quote": `text`
            that it used and that is in no document; "unknown": it does not say which texts it used.
        document_id: The document of a span, or of a source that is a page of the documents.
        start: First character of that place.
        end: The character after the last.
        text: The text of what is no span.
        sources: The spans (document_id, start, end) that a generated text was written from.
    """

    kind: ShownKind
    document_id: str = ""
    start: int = 0
    end: int = 0
    text: str = ""
    sources: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A passage that a search found, as `Tools.search` gives it to a method; `RecordedHit` is the
    same in a record.

    Attributes:
        id: The passage's id in its corpus or document.
        title: "" for none.
        text: Without the title.
        score: The retriever's score; higher is better.
        shown: What `Answer.shown` says of a reader that saw it.
    """

    id: str
    title: str
    text: str
    score: float
    shown: Shown

    @property
    def titled_text(self) -> str:
        """The text, with its title on a line of its own before it."""
        if not self.title:
            return self.text
        return f"{self.title}\n{self.text}"


@dataclass(frozen=True, slots=True)
class Search:
    """One call of `Tools.search`, as a meter holds it; `RecordedSearch` is the same in a record.

    Attributes:
        query: What was searched for.
        phase: The phase in which its cost counts.
        seconds: How long the call took.
        hits: What it found, best first.
    """

    query: str
    phase: str
    seconds: float
    hits: tuple[SearchHit, ...]


@dataclass(frozen=True, slots=True)
class RecordedHit:
    """A passage that a search found, as a record holds it.

    Attributes:
        id: The passage's id in its corpus or document.
        title: "" for none.
        score: The retriever's score; higher is better.
        shown: Its text, as spans of the question's own documents where these have it.
        pages: The passages (document_id, start, end) of these documents that have its title.
    """

    id: str
    title: str
    score: float
    shown: tuple[Shown, ...] = ()
    pages: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedSearch:
    """A search as a record holds it; see Search."""

    query: str
    phase: str
    seconds: float
    found: tuple[RecordedHit, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One move of a search, enough to print it, draw it and replay another stop rule.

    Attributes:
        action: What was done, in a word.
        node: The number of the node that it was done with; None without one.
        level: The level of the node.
        scores: The parts of the choice (attention, similarity, total).
        tokens: The tokens of the move's text.
        p_yes: P(Yes) of the probe after the move; None without a probe.
        flops: What the question has cost so far, convention -> FLOPs; older runs hold one number,
            of the convention "full".
        shown: The text that the reader saw.
        note: Words for people.
        answer: The answer if the search stopped after this move; only where other stop rules are
            recorded.
        answer_flops: What writing that answer costs.
        probe_flops: The part of `flops` that this step's probe took.
    """

    action: str
    node: int | None = None
    level: int | None = None
    scores: dict[str, float] = field(default_factory=dict)
    tokens: int = 0
    p_yes: float | None = None
    flops: Mapping[str, float] = field(default_factory=dict)
    shown: Shown | None = None
    note: str = ""
    answer: str | None = None
    answer_flops: Mapping[str, float] = field(default_factory=dict)
    probe_flops: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a method returns.

    Attributes:
        text: The answer.
        shown: What the reader saw.
        stop_reason: Why the search ended.
        steps: The steps of the search.
        truncated: A cut of the context, {"side", "tokens_before", "tokens_after"}; None without one.
    """

    text: str
    shown: tuple[Shown, ...] = ()
    stop_reason: str = ""
    steps: tuple[Step, ...] = ()
    truncated: dict[str, object] | None = None


NOT_SAID = "the application does not say what it used"
"""Why a score of what was shown is absent, in a record's flags."""

# Keys of a record's notes.
ANSWER_PREFIX = "answer_prefix"
"""Whether the reply has the answer prefix: "found" or PREFIX_MISSING."""
PREFIX_MISSING = "missing"
"""The value of ANSWER_PREFIX for a reply that lacks it."""
SCORE_COUNTS = "counts"
"""Counts over all answers, by scorer."""
JUDGES = "judges"
"""What models judged."""
SCHEMA_NOT_FOLLOWED = "answer_schema"
"""Why the reply does not follow the answer schema."""
LOGGED_SCORE_PREFIX = "logged."
"""The start of the names of scores that another tool gave (harness import); nothing here can
compute them."""


SCORING = {"stage": "scoring"}
"""Part of the error of a question that was answered: its answer is in the record, and can be scored
again."""
NOT_SCORED_YET = {
    "type": "Unscored",
    "message": "the run ended before this answer was scored",
    **SCORING,
}


def lacks_only_scores(error: Mapping[str, str] | None) -> bool:
    """Whether a question with this error (of its record) was answered,
    and only its scores are missing.

    A scorer failed or had not begun; no model is needed to mend that. False for no error (None).
    """
    return error is not None and error.get("stage") == SCORING["stage"]
