"""A summary of some texts in one request: the prompts that methods share, and how they are sent.

SUMMARY     QRMeM's, as its appendix E prints it (docs/methods/shared.md#shared-summary)
DETAILED    RAPTOR and the trees that follow it (docs/methods/raptor.md#raptor-summary)

Making a text shorter until it fits: summaries of its segments, then summaries of consecutive
summaries, and so on.

    condense(segments, room, ...)    9 segments ──► 9 summaries ──► 5 of two each, that fit in `room` tokens together

No more neighbours become one than must: where the summaries take 1.3 times the room they are joined
in twos, where they take 2.5 times the room in threes. Indexes that ask for the same summary share
it (tools.share).
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from harness.errors import QuestionError, WindowExceeded
from harness.method import IndexTools, Tools
from harness.models import MeteredModel, Span
from harness.prompts import Prompt, feed, prompt_tokens, turn_texts
from methods.retry import window_of

SUMMARY = Prompt(
    "summary",
    "# Task Definition\n"
    "Summary the context into shortened text, and retain as much relevant information as possible "
    "about the original characters, person, events, location, etc., in the summary.\n"
    'The context is """\n{text}\n"""\n'
    "# Requirement\n"
    "Summary the segments into a short paragraph.",
)
DETAILED = Prompt(
    "summary",
    "Summarise the text below, and keep as many of its important details as you "
    "can.\n\nText:\n{text}\n\nThe text ends "
    "here. Write the summary.\n\nSummary:",
)


T = TypeVar("T")


class Summary(NamedTuple):
    """A summary that a model wrote.

    Attributes:
        text: Without white space around it.
        attention_to_texts: Mean over layers, heads and tokens of its attention to each summarised
            text, [texts]; None where it was not watched.
        is_cut_off: Whether it ended by the limit of tokens.
    """

    text: str
    attention_to_texts: np.ndarray | None
    is_cut_off: bool


def prompt_tokens_without_texts(model: MeteredModel, prompt: Prompt) -> int:
    """Tokens of a request by `prompt` before a text is put in, without the reply."""
    return prompt_tokens(prompt.fill(text=[]), model)


def summarise(texts: Sequence[str], model: MeteredModel, max_tokens: int, prompt: Prompt) -> str:
    """A summary of texts in one request, without white space around it.

    Args:
        texts: The texts, each on a line of its own in the request.
        model: The model that writes it.
        max_tokens: Most tokens of it, or fewer where the window leaves fewer.
        prompt: What is asked.

    Raises:
        WindowExceeded: There is no room for a summary.
    """
    return summarise_with_attention(texts, model, max_tokens, prompt, watch=False).text


def summarise_with_attention(
    texts: Sequence[str], model: MeteredModel, max_tokens: int, prompt: Prompt, watch: bool = True
) -> Summary:
    """Summarise texts in one request, and measure how much attention the summary pays each text.

    Args:
        texts: The texts, each on a line of its own in the request.
        model: The model that writes it.
        max_tokens: Most tokens of the summary, or fewer where the window leaves fewer.
        prompt: What is asked.
        watch: Whether the attention is wanted (the capability "attention").

    Returns:
        The summary without white space around it, the attention to each text [texts] (None where it
        is not wanted), and whether it was cut off at its limit.

    Raises:
        WindowExceeded: There is no room for a summary.
    """
    before, after = prompt.around("text")
    with model.session() as session:
        feed(session, before)
        spans: list[Span] = []
        line_break = ""
        for text in texts:
            session.feed(line_break)
            spans.append(session.feed(text))
            line_break = "\n"
        for piece in after:
            session.feed(piece)
        max_reply_tokens = min(max_tokens, session.room() - model.turn_tokens())
        if max_reply_tokens < 1:
            raise WindowExceeded(
                f"{session.length()} tokens of text and prompt leave no room for a summary in the "
                f"window of {model.window} of '{model.name}'; summarise less at once, or raise "
                "model.window"
            )
        watched: Sequence[Span] = ()
        if watch:
            watched = spans
        written = session.write(max_reply_tokens, watch=watched)
    text = written.text.strip()
    attention = None
    if watch:
        start = len(written.text) - len(written.text.lstrip())
        attention = written.attention_between(start, start + len(text))
    return Summary(text=text, attention_to_texts=attention, is_cut_off=written.finish == "length")


def write_each_group_and_store(
    level: int, groups: Sequence[list[str]], write: Callable[[list[str]], T], tools: Tools
) -> list[T]:
    """Write something for each group of texts, such as its summary, in parallel.

    Each result is stored at once, under a hash of its texts, so that an interrupted index build
    resumes; the progress is reported.

    Args:
        level: The level of the tree, for the keys of what is stored and the progress.
        groups: The groups.
        write: Called with the texts of one group.
        tools: The engine's tools.

    Returns:
        What `write` returns for each group, in order.
    """
    done_count = 0

    def write_one(texts: list[str]) -> T:
        """Write for one group, or take what was stored for its texts; report the progress."""
        nonlocal done_count
        name = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
        result: T = tools.keep(f"level{level}-{name}", lambda: write(texts))
        done_count += 1
        tools.progress(done_count, len(groups), f"level {level} summaries")
        return result

    return tools.map(write_one, groups)


@dataclass(frozen=True)
class CoveringText:
    """A text that covers segments `first_segment` to `last_segment` (both included)."""

    text: str
    first_segment: int
    last_segment: int


def condense(
    segments: Sequence[str],
    max_tokens_together: int,
    max_summary_tokens: int,
    tools: IndexTools,
    model: MeteredModel,
    window: int | None = None,
    prompt: Prompt = SUMMARY,
) -> list[CoveringText]:
    """Summarise each segment, then groups of neighbouring summaries, until all that are left fit
    together.

    Those that do not fit are summarised again until they fit or one is left, in groups of
    ceil(their tokens / max_tokens_together) neighbours, or of as many as a request holds.

    Args:
        segments: The texts of the segments.
        max_tokens_together: Tokens of all summaries together, a line break each included; 0 for one
            summary.
        max_summary_tokens: Tokens of a summary at most.
        tools: The engine's tools.
        model: The builder.
        window: Tokens of prompt and reply; None: the model's window.
        prompt: What is asked.

    Returns:
        The summaries with the segments that they cover, in order; [] without segments.

    Raises:
        QuestionError: A request is too short for a segment, or for two summaries.
    """
    summaries = _Summaries(max_summary_tokens, window_of(window, model), tools, model, prompt)
    if not segments:
        return []
    level = 1
    segments_alone = [
        [CoveringText(text=text, first_segment=n, last_segment=n)]
        for n, text in enumerate(segments)
    ]
    pieces = summaries.summarise_groups(level, segments_alone)
    while len(pieces) > 1 and summaries.tokens_together(pieces) > max_tokens_together:
        level += 1
        pieces = summaries.summarise_groups(
            level, summaries.group_neighbours(pieces, max_tokens_together)
        )
    return pieces


def condense_to_one_summary(
    segments: Sequence[str],
    max_summary_tokens: int,
    tools: IndexTools,
    model: MeteredModel,
    window: int | None = None,
    prompt: Prompt = SUMMARY,
) -> str:
    """One paragraph about all segments, summarised again and again until one is left; "" for none.

    Args:
        segments: The texts of the segments.
        max_summary_tokens: Tokens of the paragraph at most.
        tools: The engine's tools.
        model: The builder.
        window: Tokens of prompt and reply; None: the model's window.
        prompt: What is asked.

    Raises:
        QuestionError: A request is too short for a segment, or for two summaries.
    """
    pieces = condense(segments, 0, max_summary_tokens, tools, model, window, prompt)
    if not pieces:
        return ""
    return pieces[0].text


@dataclass(frozen=True)
class _Summaries:
    """Summaries of one kind.

    Attributes:
        max_summary_tokens: Tokens of a summary at most.
        max_request_tokens: Tokens of a request with its reply.
        tools: The engine's tools.
        model: The builder.
        prompt: What is asked.
    """

    max_summary_tokens: int
    max_request_tokens: int
    tools: IndexTools
    model: MeteredModel
    prompt: Prompt

    def tokens_together(self, pieces: Sequence[CoveringText]) -> int:
        """Tokens of all pieces together, each with a line break."""
        newline = self.model.count("\n")
        return sum(self.model.count(piece.text) + newline for piece in pieces)

    def group_neighbours(
        self, pieces: Sequence[CoveringText], max_tokens_together: int
    ) -> list[list[CoveringText]]:
        """Group neighbouring pieces that are summarised together, as few in each as must be.

        Args:
            pieces: The summaries so far.
            max_tokens_together: Tokens that all summaries may take in the end; 0 for one summary.

        Raises:
            QuestionError: No request holds two of the pieces.
        """
        group_size = len(pieces)
        if max_tokens_together > 0:
            group_size = math.ceil(self.tokens_together(pieces) / max_tokens_together)
        room_for_texts = self._room_for_texts()
        groups: list[list[CoveringText]] = []
        for piece in pieces:
            is_open = bool(groups) and len(groups[-1]) < group_size
            if is_open and self.tokens_together([*groups[-1], piece]) <= room_for_texts:
                groups[-1].append(piece)
            else:
                groups.append([piece])
        if len(groups) == len(pieces):
            raise QuestionError(
                f"{self._window_name()} does not hold two summaries of {self.max_summary_tokens} "
                "tokens beside the prompt and a third; lower method.summary_tokens, or raise "
                "method.window or model.window"
            )
        return groups

    def summarise_groups(self, level: int, groups: list[list[CoveringText]]) -> list[CoveringText]:
        """Summarise each group, in parallel.

        Args:
            level: 1 for the segments themselves, which are groups of one.
            groups: The pieces that are summarised together; a group of one above level 1 stays, as
                it is a summary already.

        Raises:
            QuestionError: A segment does not fit a request.
        """
        done_count = 0

        def write(group: list[CoveringText]) -> CoveringText:
            """The summary of a group, or above level 1 its only piece; reports the progress."""
            nonlocal done_count
            if level > 1 and len(group) == 1:
                return group[0]
            if level == 1:
                self._require_room(group[0])
            text = self._shared_summary([piece.text for piece in group])
            done_count += 1
            self.tools.progress(done_count, len(groups), f"level {level} summaries")
            return CoveringText(
                text=" ".join(text.split()),
                first_segment=group[0].first_segment,
                last_segment=group[-1].last_segment,
            )

        return self.tools.map(write, groups)

    def _shared_summary(self, texts: list[str]) -> str:
        """The summary of some texts, shared with all indexes that ask for the same one."""
        needs = {
            "texts": texts,
            "most": self.max_summary_tokens,
            "prompts": turn_texts([self.prompt]),
            "window": self.model.window,
            "version": 1,
        }

        def ask() -> str:
            """Let the model write the summary."""
            return summarise(texts, self.model, self.max_summary_tokens, self.prompt)

        return str(self.tools.share("summary", "builder", needs, ask))

    def _room_for_texts(self) -> int:
        """Tokens of texts that a request holds beside the prompt and the summary."""
        return (
            self.max_request_tokens
            - prompt_tokens_without_texts(self.model, self.prompt)
            - self.max_summary_tokens
        )

    def _require_room(self, segment: CoveringText) -> None:
        """Raise QuestionError where a segment does not fit a request beside the prompt and a
        summary."""
        tokens = self.model.count(segment.text)
        if tokens <= self._room_for_texts():
            return
        raise QuestionError(
            f"{self._window_name()} does not hold a segment of {tokens} tokens beside the prompt "
            f"and a summary of {self.max_summary_tokens}; lower method.segment_tokens or "
            "method.summary_tokens, or raise method.window or model.window"
        )

    def _window_name(self) -> str:
        """The window that limits a request, as messages name it: "method.window (512 tokens)"."""
        if self.max_request_tokens < self.model.window:
            return f"method.window ({self.max_request_tokens} tokens)"
        return f"the window of '{self.model.name}' ({self.model.window} tokens)"
