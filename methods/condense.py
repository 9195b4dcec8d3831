"""Making a text shorter until it fits: summaries of its segments, then summaries of consecutive summaries, and so on.

    condense(segments, room, ...)    9 segments ──► 9 summaries ──► 5 of two each, that fit in `room` tokens together

No more neighbours become one than must: where the summaries take 1.3 times the room they are joined in twos, where they
take 2.5 times the room in threes. The words of the request are those of methods.summary; indexes that ask for the same
summary share it (tools.share).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import QuestionError
from harness.method import IndexTools
from harness.models import MeteredModel
from harness.prompts import Prompt, texts_of
from methods import summary
from methods.retry import window_of


@dataclass(frozen=True)
class Piece:
    """A text that covers segments `first` to `last` (both included)."""

    text: str
    first: int
    last: int


def condense(
    segments: Sequence[str],
    room: int,
    most: int,
    tools: IndexTools,
    model: MeteredModel,
    window: int | None = None,
    prompt: Prompt = summary.SUMMARY,
) -> list[Piece]:
    """Summaries of at most `most` tokens each that take `room` tokens together, a line break each included.

    Longer ones are summarised again in consecutive groups of ceil(taken / room), or as many as a request holds, until
    they fit or one is left; with a room of 0 one is left. window: tokens of prompt and reply,
    None = the model's. Raises QuestionError where a request is too short for a segment, or for two summaries.
    """
    limit = window_of(window, model)
    pieces = [Piece(text, i, i) for i, text in enumerate(segments)]
    level = 0
    while pieces and (level == 0 or (len(pieces) > 1 and _tokens(pieces, model) > room)):
        level += 1
        groups = [[piece] for piece in pieces] if level == 1 else _groups(pieces, room, most, limit, model, prompt)
        pieces = _written(level, groups, most, limit, tools, model, prompt)
    return pieces


def one_summary(
    segments: Sequence[str],
    most: int,
    tools: IndexTools,
    model: MeteredModel,
    window: int | None = None,
    prompt: Prompt = summary.SUMMARY,
) -> str:
    """One paragraph of at most `most` tokens about all segments; "" where there is none. window: as in `condense`."""
    pieces = condense(segments, 0, most, tools, model, window, prompt)
    return pieces[0].text if pieces else ""


def _tokens(pieces: Sequence[Piece], model: MeteredModel) -> int:
    newline = model.count("\n")
    return sum(model.count(piece.text) + newline for piece in pieces)


def _groups(
    pieces: Sequence[Piece], room: int, most: int, limit: int, model: MeteredModel, prompt: Prompt
) -> list[list[Piece]]:
    """Consecutive pieces, as many together as must be and as a request for their summary holds."""
    size = -(-_tokens(pieces, model) // room) if room > 0 else len(pieces)
    inside = limit - summary.frame_tokens(model, prompt) - most
    groups: list[list[Piece]] = []
    for piece in pieces:
        if groups and len(groups[-1]) < size and _tokens([*groups[-1], piece], model) <= inside:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    if len(groups) == len(pieces):
        raise QuestionError(
            f"{_window(limit, model)} does not hold two summaries of {most} tokens beside the prompt and a third; "
            "lower method.summary_tokens, or raise method.window or model.window"
        )
    return groups


def _window(limit: int, model: MeteredModel) -> str:
    if limit < model.window:
        return f"method.window ({limit} tokens)"
    return f"the window of '{model.name}' ({model.window} tokens)"


def _written(
    level: int,
    groups: list[list[Piece]],
    most: int,
    limit: int,
    tools: IndexTools,
    model: MeteredModel,
    prompt: Prompt,
) -> list[Piece]:
    done = [0]

    def write(group: list[Piece]) -> Piece:
        texts = [piece.text for piece in group]
        if level > 1 and len(group) == 1:
            return group[0]  # what is left over behind the last group is a summary already
        if level == 1 and model.count(texts[0]) + summary.frame_tokens(model, prompt) + most > limit:
            raise QuestionError(
                f"{_window(limit, model)} does not hold a segment of {model.count(texts[0])} tokens beside the prompt "
                f"and a summary of {most}; lower method.segment_tokens or method.summary_tokens, or raise "
                "method.window or model.window"
            )
        needs = {"texts": texts, "most": most, "prompts": texts_of([prompt]), "window": model.window, "version": 1}
        text = tools.share("summary", "builder", needs, lambda: summary.summarise(texts, model, most, prompt))
        done[0] += 1
        tools.progress(done[0], len(groups), f"level {level} summaries")
        return Piece(" ".join(str(text).split()), group[0].first, group[-1].last)

    return tools.map(write, groups)
