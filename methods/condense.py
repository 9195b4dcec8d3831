"""Making a text shorter until it fits: summaries of its segments, then summaries of consecutive summaries, and so on.

    condense(segments, room, ...)    9 segments ──► 9 summaries ──► 5 ──► 3 that fit in `room` tokens together

The words of the request are those of methods.summary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import QuestionError
from harness.llm.base import MeteredModel
from harness.method import Tools
from methods import summary

__all__ = ["Piece", "condense", "one_summary"]


@dataclass(frozen=True)
class Piece:
    """A text that stands for segments first to last (both included)."""

    text: str
    first: int
    last: int


def condense(segments: Sequence[str], room: int, most: int, tools: Tools, model: MeteredModel) -> list[Piece]:
    """Summaries of at most `most` tokens that take `room` tokens together, a line's end each included.

    Summaries that are still too many are summarised in consecutive groups, as many in each as the window of `model`
    holds, until they fit or one is left. Raises QuestionError where that window is too short for a segment.
    """
    pieces = [Piece(text, i, i) for i, text in enumerate(segments)]
    level = 0
    while pieces and (level == 0 or (len(pieces) > 1 and _tokens(pieces, model) > room)):
        level += 1
        groups = [[piece] for piece in pieces] if level == 1 else _groups(pieces, most, model)
        pieces = _written(level, groups, most, tools, model)
    return pieces


def one_summary(segments: Sequence[str], most: int, tools: Tools, model: MeteredModel) -> str:
    """One paragraph of at most `most` tokens about all segments; "" where there is none."""
    pieces = condense(segments, 0, most, tools, model)
    return pieces[0].text if pieces else ""


def _tokens(pieces: Sequence[Piece], model: MeteredModel) -> int:
    newline = model.count("\n")
    return sum(model.count(piece.text) + newline for piece in pieces)


def _groups(pieces: Sequence[Piece], most: int, model: MeteredModel) -> list[list[Piece]]:
    """Consecutive pieces, as many together as a request for their summary holds."""
    room = model.window - summary.frame_tokens(model) - most
    groups: list[list[Piece]] = []
    for piece in pieces:
        if groups and _tokens([*groups[-1], piece], model) <= room:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    if len(groups) == len(pieces):
        raise QuestionError(
            f"the window of '{model.name}' ({model.window} tokens) does not hold two summaries of {most} tokens beside "
            "the prompt and a third; lower method.summary_tokens, or raise model.window"
        )
    return groups


def _written(level: int, groups: list[list[Piece]], most: int, tools: Tools, model: MeteredModel) -> list[Piece]:
    done = [0]

    def write(group: list[Piece]) -> Piece:
        texts = [piece.text for piece in group]
        if level == 1 and not _fits(texts[0], most, model):
            raise QuestionError(
                f"the window of '{model.name}' ({model.window} tokens) does not hold a segment of "
                f"{model.count(texts[0])} tokens beside the prompt and a summary of {most}; lower "
                "method.segment_tokens or method.summary_tokens, or raise model.window"
            )
        digest = hashlib.sha256("\n".join(texts).encode(errors="surrogatepass")).hexdigest()[:16]
        told = tools.keep(f"summary{level}-{digest}", lambda: summary.summarise(texts, model, most))
        done[0] += 1
        tools.progress(done[0], len(groups), f"level {level} summaries")
        return Piece(" ".join(str(told).split()), group[0].first, group[-1].last)

    return tools.map(write, groups)


def _fits(text: str, most: int, model: MeteredModel) -> bool:
    return model.count(text) + summary.frame_tokens(model) + most <= model.window
