"""The window is the method: the whole document, one end of it, window after window, or nothing.

Source: docs/methods/retrieval.md#window.
FullContext      whole | cut in its middle (keep: ends) | its beginning (keep: left) | its end (keep: right)
SlidingWindow    window 1 ─► "unanswerable"   window 2 ─► "Mira" ◄ the answer   window 3 ─► "Tal"
ClosedBook       the question alone
"""

import math
from collections.abc import Sequence
from typing import ClassVar

from harness.method import Indexes, MethodConfig, Task, Tools, Traits
from harness.method.settings import setting
from harness.models import MeteredModel
from harness.prompts import Prompt
from harness.types import Answer, Document, Question, Step
from methods.chunks import Span, fixed_chunks, shown_spans
from methods.kept_text import KeptSpans, Side, kept_spans
from methods.reading import PROMPTS, Reading, ReadingMethod, ask, room_for_text

_CUT_SIDE = {"ends": "middle", "left": "right", "right": "left"}
"""The part that stays -> the side that is cut."""


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
        """Answer from the one document, cut where it is longer than the window or the setting
        `max_tokens` allows; the stop reason is "whole" or "truncated"."""
        (document,) = documents
        text = document.text
        model = tools.model()
        request = Reading(tools.task, window=self.config.window, config=self.config)
        max_tokens = room_for_text(question, tools, model, request)
        if self.config.max_tokens is not None:
            max_tokens = min(max_tokens, self.config.max_tokens)
        spans, tokens_of_text = self._fitting_spans(text, max_tokens, model)
        texts: list[str] = []
        if spans:
            texts.append(_join_spans(text, spans))
        reply, steps = self._ask(question, texts, tools, request)
        shown = shown_spans(document, spans)
        if spans == [(0, len(text))]:
            return Answer(reply, shown, "whole", steps)
        truncated = {
            "side": _CUT_SIDE[self.config.keep],
            "tokens_before": tokens_of_text,
            "tokens_after": sum(model.count(text[start:end]) for start, end in spans),
        }
        return Answer(reply, shown, "truncated", steps, truncated=truncated)

    def least_share_shown(self, stop_reason: str) -> float:
        """All of the text where it is called whole."""
        return float(stop_reason == "whole")

    def _fitting_spans(self, text: str, max_tokens: int, model: MeteredModel) -> KeptSpans:
        """Choose the parts of a text that stay, as the setting `keep` says.

        Args:
            text: The text.
            max_tokens: Most tokens of these parts, joined.
            model: The model whose tokens are counted.
        """
        spans, tokens_of_text = kept_spans(text, max_tokens, model, kept_side=self.config.keep)
        tokens_to_keep = max_tokens
        while len(spans) > 1:
            # Joining the parts may add tokens where they meet.
            excess_tokens = model.count(_join_spans(text, spans)) - max_tokens
            if excess_tokens <= 0:
                break
            tokens_to_keep -= excess_tokens
            spans, _ = kept_spans(text, tokens_to_keep, model, kept_side=self.config.keep)
        return KeptSpans(spans, tokens_of_text)

    def _ask(
        self, question: Question, texts: Sequence[str], tools: Tools, reading: Reading
    ) -> tuple[str, tuple[Step, ...]]:
        """Ask the question over texts, with one request.

        Args:
            question: The question.
            texts: The texts; [] asks without a text.
            tools: The engine's tools.
            reading: How the answer is asked for.

        Returns:
            The answer, and steps of the trace: none here, but a subclass may have some.
        """
        return ask(question, texts, tools, tools.model(), reading), ()


def _join_spans(text: str, spans: Sequence[Span]) -> str:
    """The parts of `text` at `spans`, joined with nothing between them, as in LongBench."""
    return "".join(text[start:end] for start, end in spans)


ALLOW_REFUSAL = Prompt(
    "sliding window", " Answer 'unanswerable' where the text does not say.", first=False
)


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
        return (*PROMPTS, ALLOW_REFUSAL)

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Ask every window; return the first reply that answers, "unanswerable" where none does.

        Without a window that fits, the question is asked without a text. The stop reason says which
        window answered, or why none did.
        """
        (document,) = documents
        model = tools.model()
        reading = Reading(
            self._task_that_allows_refusal(tools.task),
            window=self.config.window,
            config=self.config,
        )
        max_window_tokens = room_for_text(question, tools, model, reading)
        spans = self._equal_windows(document.text, max_window_tokens, model)
        if not spans:
            reason = "the text is empty"
            if document.text:
                reason = "no text fits beside the question"
            return Answer(ask(question, [], tools, model, reading), stop_reason=reason)
        texts = [document.text[start:end] for start, end in spans]
        answers = tools.map(lambda text: ask(question, [text], tools, model, reading), texts)
        shown = shown_spans(document, spans)
        steps: list[Step] = []
        for number, answer in enumerate(answers):
            tokens = model.count(texts[number])
            steps.append(Step("window", number, tokens=tokens, shown=shown[number], note=answer))
        for number, answer in enumerate(answers):
            if self._is_answer(answer):
                reason = f"window {number + 1} of {len(spans)}"
                return Answer(answer, shown, reason, tuple(steps))
        reason = "every window refused"
        n_empty = answers.count("")
        if n_empty:
            reason += f", {n_empty} of them with an empty reply"
        return Answer(self.REFUSAL, shown, reason, tuple(steps))

    def _task_that_allows_refusal(self, task: Task) -> Task:
        """The task with a sentence added to its instruction that allows "unanswerable"; a task
        whose instruction has the word already, as Qasper's, stays as it is."""
        if self.REFUSAL in task.instruction:
            return task
        instruction = task.instruction + ALLOW_REFUSAL.with_replacements(self.config).text
        return task.model_copy(update={"instruction": instruction})

    def _is_answer(self, reply: str) -> bool:
        """Whether a reply has a letter or digit and does not refuse."""
        return self.REFUSAL not in reply.lower() and any(map(str.isalnum, reply))

    def _equal_windows(self, text: str, max_window_tokens: int, model: MeteredModel) -> list[Span]:
        """Cut a text into `windows` windows of equal size, or into more where one would not fit.

        Args:
            text: The text.
            max_window_tokens: Most tokens of a window, encoded on its own.
            model: The model whose tokens are counted.

        Returns:
            The spans of the windows; [] for an empty text or no room.
        """
        equal_share_tokens = math.ceil(model.count(text) / self.config.windows)
        window_tokens = min(max_window_tokens, equal_share_tokens)
        while window_tokens > 0:
            spans = fixed_chunks(text, window_tokens, model)
            longest = max(model.count(text[start:end]) for start, end in spans)
            if longest <= max_window_tokens:
                return spans
            # A cut inside a word makes a window longer when it is encoded on its own.
            window_tokens -= longest - max_window_tokens
        return []


class ClosedBook(ReadingMethod):
    """The question alone: the floor that reading must beat."""

    summary = "the question alone, without any text: the floor"
    traits = Traits(reads_documents=False, one_request=True, draws=False, floor=True)

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Answer the question without any text, from what the model knows."""
        request = Reading(tools.task, config=self.config)
        return Answer(ask(question, [], tools, tools.model(), request), stop_reason="closed-book")
