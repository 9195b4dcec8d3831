"""Relations of one pair of entities from several segments become one (QRMeM 2.1, appendix E "Relation Update").

    segment 1: r1 ┐
    segment 2: r2 ┴─ which questions? ─► one relation ┐
    segment 5: r5 ────────────────────────────────────┴─ which questions? ─► one relation

Two requests a merge, in one session: first the questions Q_s, then the relation. With three segments and more, what is
merged is taken for the relation of the last segment that went into it, so that a request never shows more than two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from harness.method import Tools
from harness.models import MeteredModel
from harness.prompts import feed, prompt_tokens
from harness.types import Question
from methods.qrmem import prompts, replies
from methods.qrmem.config import QRMeMConfig
from methods.qrmem.prompts import Relation
from methods.retry import ParsedReply, Retry, reply_to, window_of


@dataclass
class Fusing:
    """Fuses for one question; segments: their texts, summary: of the document."""

    question: Question
    summary: str
    segments: list[str]
    config: QRMeMConfig
    how: Retry

    def fuse(
        self, pair: tuple[int, int], relations: list[tuple[int, str]], model: MeteredModel, tools: Tools
    ) -> tuple[str, bool]:
        """Merge the `relations` (segment, text) of `pair` into one text; False if a reply failed or was too long.

        On failure the texts are joined with a space: no reply could be parsed, or two segments and their relations are
        longer than the window.
        """
        (place, text), *rest = relations
        understood = True
        for number, (k, other) in enumerate(rest):
            first, second = Relation(self.segments[place], text), Relation(self.segments[k], other)
            key = f"fusion {pair[0]} {pair[1]} {number}"
            merged = tools.keep(key, partial(self._one, first, second, model))
            understood &= merged is not None
            place, text = k, f"{text} {other}" if merged is None else str(merged)
        return text, understood

    def _one(self, first: Relation, second: Relation, model: MeteredModel) -> str | None:
        config = self.config
        asking = prompts.Asking(config, self.question, self.summary)
        pieces = asking.fuse(first, second, config.questions)
        tokens = prompt_tokens(pieces, model)
        tail = 2 * model.turn_tokens() + model.count(asking.fused())
        if tokens + config.question_tokens + tail + config.relation_tokens > window_of(config.window, model):
            return None
        with model.session() as s:
            feed(s, pieces)
            doubts: ParsedReply[list[str]] = ParsedReply(tokens)
            reply_to(s, doubts, config.question_tokens, replies.questions, self.how)
            s.reply("\n".join(f"* {doubt}" for doubt in doubts.found or ["none"]))
            s.user(asking.fused())
            response: ParsedReply[str] = ParsedReply(s.length())
            return reply_to(s, response, config.relation_tokens, replies.sentence, self.how).found
