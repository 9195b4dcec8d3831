"""The window is the method: the whole document, one end of it, window after window, or nothing.

Source: docs/methods/retrieval.md#window.
FullContext      whole | cut in its middle (keep: ends) | its beginning (keep: left) | its end (keep: right)
SlidingWindow    window 1 ─► "unanswerable"   window 2 ─► "Mira" ◄ the answer   window 3 ─► "Tal"
ClosedBook       the question alone
"""

from collections.abc import Sequence
from typing import ClassVar

from harness.method import Indexes, MethodConfig, Tools, Traits
from harness.method.settings import setting
from harness.method.training import Skill
from harness.models import MeteredModel
from harness.prompts import Prompt
from harness.types import Answer, Document, Question, Shown, Step
from methods.chunks import Span, fixed_chunks, shown_spans
from methods.kept_text import Side, kept_spans
from methods.reading import PROMPTS, Reading, ReadingMethod, ask, room_for_text


class FullContext(ReadingMethod):
    """The whole document in the window; one that is too long is cut, and the record says so."""

    class Config(MethodConfig):
        """Settings of this method."""

        max_tokens: int | None = setting(
            None, gt=0, help="Most tokens of text that are shown; None = what the window holds."
        )
        window: int | None = setting(
            None, gt=0, help="Most tokens of prompt and answer together; None = the model's window."
        )
        keep: Side = setting("ends", help="The part that stays of a text that is too long.")

    summary = "the whole document in the window, its middle cut out where it does not fit"
    traits = Traits(one_request=True, draws=False)

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Answer from the one document, cut where it is too long; the stop reason is "whole" or
        "truncated"."""
        (document,) = documents
        model, config = tools.model(), self.config
        request = Reading(tools.task, config.window, config)
        room = room_for_text(question, tools, model, request)
        max_tokens = room if config.max_tokens is None else min(room, config.max_tokens)
        spans, tokens = kept_spans(document.text, max_tokens, model, config.keep)
        limit = max_tokens  # shorter where joining the spans adds tokens at the seam
        while (
            len(spans) > 1
            and (over := model.count(_join_spans(document.text, spans)) - max_tokens) > 0
        ):
            limit -= over
            spans, _ = kept_spans(document.text, limit, model, config.keep)
        cut = spans != [(0, len(document.text))]
        kept = sum(model.count(document.text[a:b]) for a, b in spans) if cut else tokens
        text, steps = self._ask(
            question, [_join_spans(document.text, spans)] if spans else [], tools, request
        )
        side = {"ends": "middle", "left": "right", "right": "left"}[config.keep]
        return Answer(
            text,
            shown_spans(document, spans),
            "truncated" if cut else "whole",
            steps,
            truncated={"side": side, "tokens_before": tokens, "tokens_after": kept}
            if cut
            else None,
        )

    def _ask(
        self, question: Question, texts: Sequence[str], tools: Tools, reading: Reading
    ) -> tuple[str, tuple[Step, ...]]:
        """Ask once about `texts`; return the answer and trace steps (none by default;
        kv_eviction.py has some)."""
        return ask(question, texts, tools, tools.model(), reading), ()


def _join_spans(text: str, spans: Sequence[Span]) -> str:
    """The `spans` of `text` with nothing between them, as LongBench joins the two halves of a long
    text."""
    return "".join(text[a:b] for a, b in spans)


EXTRA = Prompt("sliding window", " Answer 'unanswerable' where the text does not say.", first=False)


class SlidingWindow(ReadingMethod):
    """One request a window, each read as a text of its own; the first reply that answers counts.

    QRMeM's table 6 gives it five requests a question and no rule how their answers become one; for
    the rule here see docs/methods/retrieval.md#sliding-window. The word "unanswerable" replaces its
    codes -1 and -2, so that the shared reading prompt can be used; only its answer instruction is
    extended. A reply without a letter or digit is no answer either. If no window answers, the
    answer is "unanswerable".
    """

    class Config(MethodConfig):
        """Settings of this method."""

        windows: int = setting(
            5,
            gt=0,
            help=(
                "Equal windows that the text is cut into; more where one would not fit, fewer "
                "where the text has fewer tokens."
            ),
        )
        window: int | None = setting(
            None, gt=0, help="Most tokens of prompt and answer together; None = the model's window."
        )

    summary = "window after window; the first answer that is not 'unanswerable'"
    traits = Traits(draws=False)
    REFUSAL: ClassVar[str] = "unanswerable"

    def templates(self) -> Sequence[Prompt]:
        """The shared reading prompts, and what is added to their instruction."""
        return (*PROMPTS, EXTRA)

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Ask every window; return the first reply that answers, "unanswerable" where none does."""
        (document,) = documents
        model, task = tools.model(), tools.task
        if (
            self.REFUSAL not in task.instruction
        ):  # one that has it already, as Qasper's, stays as it is
            task = task.model_copy(
                update={"instruction": task.instruction + EXTRA.of(self.config).text}
            )
        reading = Reading(task, self.config.window, self.config)
        spans = self._equal_windows(
            document.text, room_for_text(question, tools, model, reading), model
        )
        if not spans:
            reason = "no text fits beside the question" if document.text else "the text is empty"
            return Answer(ask(question, [], tools, model, reading), stop_reason=reason)
        texts = [document.text[a:b] for a, b in spans]
        answers = tools.map(lambda text: ask(question, [text], tools, model, reading), texts)
        steps = [
            Step(
                "window",
                i,
                tokens=model.count(text),
                shown=Shown("span", document.id, *span),
                note=reply,
            )
            for i, (span, text, reply) in enumerate(zip(spans, texts, answers, strict=True))
        ]
        answering = (
            i
            for i, reply in enumerate(answers)
            if self.REFUSAL not in reply.lower() and any(map(str.isalnum, reply))
        )
        chosen = next(answering, None)
        silent = sum(not reply for reply in answers)
        refused = "every window refused"
        if silent:
            refused += f", {silent} of them with an empty reply"
        reason = refused if chosen is None else f"window {chosen + 1} of {len(spans)}"
        reply = self.REFUSAL if chosen is None else answers[chosen]
        return Answer(reply, shown_spans(document, spans), reason, tuple(steps))

    def _equal_windows(self, text: str, room: int, model: MeteredModel) -> list[Span]:
        """Spans of equal windows of at most `room` tokens, each encoded on its own; [] for an empty
        text or no room."""
        tokens = model.count(text)
        size = min(room, -(-tokens // self.config.windows))
        while size > 0:
            spans = fixed_chunks(text, size, model)
            over = max((model.count(text[a:b]) for a, b in spans), default=0) - room
            if over <= 0:
                return spans
            size -= over  # a cut inside a word makes a window longer when it is encoded on its own
        return []


class ClosedBook(ReadingMethod):
    """The question alone: the floor that reading must beat."""

    summary = "the question alone, without any text: the floor"
    traits = Traits(reads_documents=False, one_request=True, draws=False, floor=True)

    def skills(self) -> list[Skill]:
        """None: there is nothing to learn about the answer to a question without its text."""
        return []

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Answer from the model's own knowledge."""
        request = Reading(tools.task, config=self.config)
        return Answer(ask(question, [], tools, tools.model(), request), stop_reason="closed-book")
