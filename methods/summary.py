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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from harness.errors import QuestionError, WindowExceeded
from harness.method import IndexTools, Tools
from harness.models import MeteredModel
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
    """text: stripped; attention: mean over layers, heads and tokens of the text to each summarised
    one, [texts] (None where it was not watched); cut: ended by the limit of tokens.
    """

    text: str
    attention: np.ndarray | None
    cut: bool


def frame_tokens(model: MeteredModel, prompt: Prompt) -> int:
    """Tokens of a request by `prompt` without the texts (each on a line of its own) and the
    summary."""
    return prompt_tokens(prompt.fill(text=[]), model)


def summarise(texts: Sequence[str], model: MeteredModel, max_tokens: int, prompt: Prompt) -> str:
    """One paragraph about `texts`, at most `max_tokens` (or what the window leaves), stripped."""
    return summarise_watched(texts, model, max_tokens, prompt, watch=False).text


def summarise_watched(
    texts: Sequence[str], model: MeteredModel, max_tokens: int, prompt: Prompt, watch: bool = True
) -> Summary:
    """Summarise texts, as `summarise`.

    Args:
        texts: The texts.
        model: The builder.
        max_tokens: Tokens of the summary at most.
        prompt: What is asked.
        watch: Whether the summary's attention to each text is wanted (the capability "attention").

    Raises:
        WindowExceeded: There is no room for a summary.
    """
    before, behind = prompt.around("text")
    with model.session() as s:
        feed(s, before)
        spans = []
        for i, text in enumerate(texts):
            s.feed("\n" if i else "")
            spans.append(s.feed(text))
        for piece in behind:
            s.feed(piece)
        left = min(max_tokens, s.room() - model.turn_tokens())
        if left < 1:
            raise WindowExceeded(
                f"{s.length()} tokens of text and prompt leave no room for a summary in the window "
                f"of {model.window} "
                f"of '{model.name}'; summarise less at once, or raise model.window"
            )
        out = s.write(left, watch=spans if watch else ())
    text = out.text.strip()
    start = len(out.text) - len(out.text.lstrip())
    row = out.attention_between(start, start + len(text)) if watch else None
    return Summary(text, row, out.finish == "length")


def write_groups(
    level: int, groups: Sequence[list[str]], write: Callable[[list[str]], T], tools: Tools
) -> list[T]:
    """Write for each group of texts, storing each result so that an interrupted index resumes.

    Args:
        level: The level of the tree, for the keys of what is stored and the progress.
        groups: The groups.
        write: Called with the texts of one group.
        tools: The engine's tools.

    Returns:
        What `write` returns for each group.
    """
    done = [0]

    def write_one(texts: list[str]) -> T:
        """Write for one group, or take the stored result for its texts."""
        name = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
        made: T = tools.keep(f"level{level}-{name}", lambda: write(texts))
        done[0] += 1
        tools.progress(done[0], len(groups), f"level {level} summaries")
        return made

    return tools.map(write_one, groups)


@dataclass(frozen=True)
class Piece:
    """A text that covers segments `first` to `last` (both included)."""

    text: str
    first: int
    last: int


def condense(
    segments: Sequence[str],
    room: int,
    length: int,
    tools: IndexTools,
    model: MeteredModel,
    window: int | None = None,
    prompt: Prompt = SUMMARY,
) -> list[Piece]:
    """Summarise segments until all summaries fit together.

    Those that do not fit are summarised again in consecutive groups of ceil(taken / room), or as
    many as a request holds, until they fit or one is left.

    Args:
        segments: Their texts.
        room: Tokens of all summaries together, a line break each included; 0 for one summary.
        length: Tokens of a summary at most.
        tools: The engine's tools.
        model: The builder.
        window: Tokens of prompt and reply; None: the model's.
        prompt: What is asked.

    Raises:
        QuestionError: A request is too short for a segment, or for two summaries.
    """
    limit = window_of(window, model)
    pieces = [Piece(text, i, i) for i, text in enumerate(segments)]
    level = 0
    while pieces and (level == 0 or (len(pieces) > 1 and _token_count(pieces, model) > room)):
        level += 1
        groups = [[piece] for piece in pieces]
        if level > 1:
            groups = _group_pieces(pieces, room, length, limit, model, prompt)
        pieces = _write_level(level, groups, length, limit, tools, model, prompt)
    return pieces


def one_summary(
    segments: Sequence[str],
    length: int,
    tools: IndexTools,
    model: MeteredModel,
    window: int | None = None,
    prompt: Prompt = SUMMARY,
) -> str:
    """One paragraph about all segments; "" for none.

    Args:
        segments: Their texts.
        length: Tokens of the paragraph at most.
        tools: The engine's tools.
        model: The builder.
        window: Tokens of prompt and reply; None: the model's.
        prompt: What is asked.

    Raises:
        QuestionError: As `condense`.
    """
    pieces = condense(segments, 0, length, tools, model, window, prompt)
    return pieces[0].text if pieces else ""


def _token_count(pieces: Sequence[Piece], model: MeteredModel) -> int:
    newline = model.count("\n")
    return sum(model.count(piece.text) + newline for piece in pieces)


def _group_pieces(
    pieces: Sequence[Piece], room: int, length: int, limit: int, model: MeteredModel, prompt: Prompt
) -> list[list[Piece]]:
    """Group consecutive pieces that are summarised together.

    Args:
        pieces: The summaries so far.
        room: Tokens that all summaries may take in the end.
        length: Tokens of a summary at most.
        limit: Tokens of a request with its reply.
        model: The builder.
        prompt: What is asked.

    Raises:
        QuestionError: No request holds two of the pieces.
    """
    size = -(-_token_count(pieces, model) // room) if room > 0 else len(pieces)
    inside = limit - frame_tokens(model, prompt) - length
    groups: list[list[Piece]] = []
    for piece in pieces:
        if (
            groups
            and len(groups[-1]) < size
            and _token_count([*groups[-1], piece], model) <= inside
        ):
            groups[-1].append(piece)
        else:
            groups.append([piece])
    if len(groups) == len(pieces):
        raise QuestionError(
            f"{_window_name(limit, model)} does not hold two summaries of {length} tokens beside "
            "the prompt and "
            "a third; lower method.summary_tokens, or raise method.window or model.window"
        )
    return groups


def _window_name(limit: int, model: MeteredModel) -> str:
    if limit < model.window:
        return f"method.window ({limit} tokens)"
    return f"the window of '{model.name}' ({model.window} tokens)"


def _write_level(
    level: int,
    groups: list[list[Piece]],
    length: int,
    limit: int,
    tools: IndexTools,
    model: MeteredModel,
    prompt: Prompt,
) -> list[Piece]:
    """Summarise each group.

    Args:
        level: 1 for the segments themselves.
        groups: The pieces that are summarised together; a group of one stays above level 1.
        length: Tokens of a summary at most.
        limit: Tokens of a request with its reply.
        tools: The engine's tools.
        model: The builder.
        prompt: What is asked.

    Raises:
        QuestionError: A segment does not fit a request.
    """
    done = [0]

    def write(group: list[Piece]) -> Piece:
        """The summary of a group; above level 1 the piece of a group of one stays."""
        texts = [piece.text for piece in group]
        if level > 1 and len(group) == 1:
            return group[0]  # what is left over behind the last group is a summary already
        if level == 1 and model.count(texts[0]) + frame_tokens(model, prompt) + length > limit:
            raise QuestionError(
                f"{_window_name(limit, model)} does not hold a segment of {model.count(texts[0])} "
                "tokens beside the "
                f"prompt and a summary of {length}; lower method.segment_tokens or "
                "method.summary_tokens, or raise "
                "method.window or model.window"
            )
        needs = {
            "texts": texts,
            "most": length,
            "prompts": turn_texts([prompt]),
            "window": model.window,
            "version": 1,
        }
        text = tools.share(
            "summary", "builder", needs, lambda: summarise(texts, model, length, prompt)
        )
        done[0] += 1
        tools.progress(done[0], len(groups), f"level {level} summaries")
        return Piece(" ".join(str(text).split()), group[0].first, group[-1].last)

    return tools.map(write, groups)
