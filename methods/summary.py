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
    """As `summarise`; watch: with the summary's attention to each text (the capability
    "attention")."""
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
    """Call `write` for each group of texts, storing each result so that an interrupted index
    resumes.

    level: The level of the tree, for the keys of the results.
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
    """Summaries of at most `length` tokens each that take `room` tokens together, a line break each
    included.

    Longer ones are summarised again in consecutive groups of ceil(taken / room), or as many as a
    request holds, until they fit or one is left; with a room of 0 one is left. window: tokens of
    prompt and reply, None = the model's. Raises QuestionError where a request is too short for a
    segment, or for two summaries.
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
    """One paragraph of at most `length` tokens about all segments, "" for none; window: as
    `condense`."""
    pieces = condense(segments, 0, length, tools, model, window, prompt)
    return pieces[0].text if pieces else ""


def _token_count(pieces: Sequence[Piece], model: MeteredModel) -> int:
    newline = model.count("\n")
    return sum(model.count(piece.text) + newline for piece in pieces)


def _group_pieces(
    pieces: Sequence[Piece], room: int, length: int, limit: int, model: MeteredModel, prompt: Prompt
) -> list[list[Piece]]:
    """Consecutive pieces, as many together as `room` demands and a request of `limit` tokens with
    its reply holds."""
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
    """Summarise each group in `length` tokens; limit: of a request. Raises QuestionError for a too
    long segment."""
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
