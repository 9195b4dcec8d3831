"""What fits the window is the method: the whole document, or nothing (facts 7.7, 8.1)."""

from __future__ import annotations

from collections.abc import Sequence

from harness.method import Index, Method, MethodConfig, Skill, Tools
from harness.types import Answer, Document, Question
from methods.chunks import keep_middle_out, shown_spans
from methods.reading import PROMPTS, SEPARATOR, SKILLS, ask, room_for_text

__all__ = ["ClosedBook", "FullContext"]


class FullContext(Method):
    """The whole document in the window; one that is too long loses its middle, and the record says so."""

    class Config(MethodConfig):
        """max_tokens: most tokens of text to show, None = what the window holds."""

        max_tokens: int | None = None

    summary = "the whole document in the window, its middle cut out where it does not fit"
    one_document = True

    def prompts(self) -> dict[str, str]:
        """The shared reading prompt."""
        return PROMPTS

    def skills(self) -> list[Skill]:
        """Short answers and choices after a text."""
        return SKILLS

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Sequence[Index], tools: Tools
    ) -> Answer:
        """Read everything that fits, then answer."""
        (document,) = documents
        model = tools.model()
        room = room_for_text(question, tools, model) - model.count(SEPARATOR)
        most = room if self.config.max_tokens is None else min(room, self.config.max_tokens)
        most = max(most, 0)  # a question that fills the window leaves no room, and the separator not even that
        spans, tokens = keep_middle_out(document.text, most, model)
        cut = len(spans) != 1
        kept = sum(model.count(document.text[a:b]) for a, b in spans) if cut else tokens
        text = ask(question, [document.text[a:b] for a, b in spans], tools, model)
        return Answer(
            text,
            shown_spans(document, spans),
            "truncated" if cut else "whole",
            truncated={"side": "middle", "tokens_before": tokens, "tokens_after": kept} if cut else None,
        )


class ClosedBook(Method):
    """The question alone: the floor that reading must beat."""

    summary = "the question alone, without any text: the floor"

    def prompts(self) -> dict[str, str]:
        """The closed-book prompt."""
        return PROMPTS

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Sequence[Index], tools: Tools
    ) -> Answer:
        """Answer from the model's own knowledge."""
        return Answer(ask(question, [], tools, tools.model()), stop_reason="closed-book")
