"""The segmenting methods as the engine sees them: they differ in where a document is cut, and in nothing else."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field

from harness.method import Index, Method, MethodConfig, Skill, Tools
from harness.models import MeteredModel
from harness.prompts import Prompt
from harness.types import Answer, Document, Question, Shown, Step
from methods import reading
from methods.chunks import Span, sentence_chunks
from methods.passage_scores import ROLES, Scoring, distinct, fits
from methods.segmenting.cutting import recursive
from methods.segmenting.perplexity import segments


class SegmentConfig(MethodConfig):
    """segment_tokens: of a segment at most; scoring: what ranks segments, as LongRefiner's; budget: tokens shown,
    titles and separators included; titles: show a document's title above each of its segments (LongRefiner A.2).
    """

    segment_tokens: int = Field(default=500, gt=0)
    scoring: Scoring = "reranker"
    budget: int = Field(default=2048, gt=0)
    titles: bool = True


class _Segmented(Method):
    """Documents cut apart; the segments that fit the question best are read, best first."""

    Config = SegmentConfig
    scope = "document"
    one_document = False
    index_roles: ClassVar[tuple[str, ...]] = ("reader",)
    index_fields: ClassVar[tuple[str, ...] | None] = ("segment_tokens",)

    def __init__(self, config: MethodConfig) -> None:
        super().__init__(config)
        self.encoders = ROLES[self.config.scoring]  # type: ignore[misc]  # what ranks is a parameter

    def templates(self) -> Sequence[Prompt]:
        """The shared reading prompts."""
        return reading.PROMPTS

    def skills(self) -> list[Skill]:
        """Short answers and choices after a text."""
        return reading.skills(self.config)

    @abc.abstractmethod
    def cut(self, text: str, model: MeteredModel) -> list[Span]:
        """The segments of a document; `model` is that of the first of `index_roles`."""

    def index(self, document: Document, tools: Tools) -> Index:
        """The segments as spans of characters."""
        spans = tools.keep("segments", lambda: [list(s) for s in self.cut(document.text, self._cutter(tools))])
        return {"segments": spans}

    def _cutter(self, tools: Tools) -> MeteredModel:
        return tools.model(self.index_roles[0])

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Sequence[Index], tools: Tools
    ) -> Answer:
        """Rank, show the best until one does not fit, answer; where none fits, answer without a text."""
        config: SegmentConfig = self.config
        places = [(documents[i], (a, b)) for i in distinct(documents) for a, b in indexes[i]["segments"]]
        with tools.phase("search"):
            scores = fits(config.scoring, question.text, [d.text[a:b] for d, (a, b) in places], tools)
        model = tools.model()
        request = reading.Reading(tools.task, config=config)
        limit = min(config.budget, reading.room_for_text(question, tools, model, request))
        used, separator = 0, model.count(reading.SEPARATOR)
        texts: list[str] = []
        steps: list[Step] = []
        reason = "exhausted"
        for i in map(int, np.argsort(-scores, kind="stable")):  # ties keep the order of the text
            document, (a, b) = places[i]
            text = self._told(document, document.text[a:b])
            tokens = model.count(text)
            used += tokens + (separator if texts else 0)
            if used > limit:
                reason = "budget" if limit == config.budget else "window"
                break
            texts.append(text)
            shown, score = Shown("span", document.id, a, b), {"score": float(scores[i])}
            steps.append(Step("select", i, scores=score, tokens=tokens, flops=tools.meter.flops(), shown=shown))
        if not texts:
            reason = f"{reason}: not even one segment fits" if places else "no text"
        reply = reading.ask(question, texts, tools, model, request)
        return Answer(reply, tuple(s.shown for s in steps if s.shown), reason, tuple(steps))

    def _told(self, document: Document, text: str) -> str:
        """A segment as it is read."""
        title = document.title.strip()
        return f"{title}\n{text}" if self.config.titles and title and not text.startswith(title) else text


class SentenceSegments(_Segmented):
    """A fixed number of whole sentences a segment; one over `segment_tokens` tokens is cut and counts as several."""

    class Config(SegmentConfig):
        """sentences: of a segment."""

        sentences: int = Field(default=6, gt=0)

    summary = "segments of six sentences, the best up to a budget"
    index_fields = ("segment_tokens", "sentences")

    def cut(self, text: str, model: MeteredModel) -> list[Span]:
        """By rule."""
        return sentence_chunks(text, self.config.sentences, self.config.segment_tokens, model)


class JinaSegments(_Segmented):
    """Paragraphs, lines and sentences packed up to `segment_tokens` tokens."""

    summary = "segments by a rule in place of Jina's web service, the best up to a budget"
    index_version = "2"

    def cut(self, text: str, model: MeteredModel) -> list[Span]:
        """By rule."""
        return recursive(text, self.config.segment_tokens, model)


class MetaChunking(_Segmented):
    """Segments end where the perplexity of sentences has a minimum."""

    class Config(SegmentConfig):
        """threshold: in nats; window_tokens: scored together at most, behind the text before them; segment_tokens: None
        of the paper's, so that a text without a minimum can be shown at all.
        """

        segment_tokens: int = Field(default=2000, gt=0)
        threshold: float = Field(default=0.5, ge=0)
        window_tokens: int = Field(default=8192, gt=0)

    summary = "segments that end at minima of perplexity (Meta-Chunking), the best up to a budget"
    needs: ClassVar[dict[str, frozenset[str]]] = {"reader": frozenset(), "builder": frozenset({"score"})}
    index_roles = ("builder",)
    index_fields = ("segment_tokens", "threshold", "window_tokens")
    index_version = "2"

    def cut(self, text: str, model: MeteredModel) -> list[Span]:
        """By the builder's perplexity."""
        config = self.config
        return segments(text, config.threshold, config.segment_tokens, model, config.window_tokens)
