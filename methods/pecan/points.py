"""Reads Information Points out of a written summary.

    "* Ann met Bob\\n  in Rome.\\n* Bob left."
        -> [Point(2, 24, "Ann met Bob in Rome."), Point(27, 36, "Bob left.")]

A reply without bullets gives one point per line. See docs/methods/pecan.md#pecan-points.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from methods.chunks import Span, trimmed
from methods.packing import sentences

# "*", a bullet sign, "-" or "1." / "1)" at the start of a line; the last two need a space, or -5
# and 3.5 were marks. "**Points**" is a heading in bold: no bullet, and no part of the one before
# it.
_BULLET_MARK = re.compile(
    r"[ \t]*(?:(?:\*(?!\*)|[\u2022\u2023\u25aa\u25cf])[ \t]*|(?:-|\d{1,3}[.)])[ \t]+)"
)
_HEADING = re.compile(r"[ \t]*\*\*[^*\n]+\*\*:?[ \t]*")
_LINE = re.compile(r"[^\n]+")
_WORD = re.compile(r"\w")


class Point(NamedTuple):
    """One bullet: characters [start, end) of the written text without its mark, and its text on one
    line."""

    start: int
    end: int
    text: str


class ParsedPoints(NamedTuple):
    """The points of a text.

    parser: how they were found, "bullets" or "lines", with " cut" where the last one was dropped.
    """

    points: list[Point]
    parser: str


def parse_points(text: str, is_cut_off: bool) -> ParsedPoints:
    r"""Find the points of a written text.

        "* Ann met Bob\n  in Rome.\n* Bob left.", False
            -> [Point(2, 24, "Ann met Bob in Rome."), Point(27, 36, "Bob left.")], "bullets"

    Wrapped lines join the bullet before them, and bullets without a word are dropped. Without any
    bullet each line is a point, and of a single line each sentence.

    Args:
        text: What the model wrote.
        is_cut_off: Whether the token limit cut the text, so that its last point is unfinished. That
            one is dropped if there are others.

    Returns:
        The points, and how they were found: "bullets" or "lines", with " cut" added where the last
        one was dropped.
    """
    parser = "bullets"
    points = _points_in_spans(text, _bullet_spans(text))
    if not points:
        parser = "lines"
        points = _points_in_spans(text, _line_or_sentence_spans(text))
    if is_cut_off and len(points) > 1:
        return ParsedPoints(points[:-1], f"{parser} cut")
    return ParsedPoints(points, parser)


def _bullet_spans(text: str) -> list[Span]:
    """The span of each bullet of a text without its mark, wrapped lines included; [] without a
    bullet."""
    starts: list[int] = []
    ends: list[int] = []
    for line in _LINE.finditer(text):
        mark = _BULLET_MARK.match(line.group())
        if mark:
            starts.append(line.start() + mark.end())
            ends.append(line.end())
        elif starts and _continues_bullet(line.group()):
            ends[-1] = line.end()
    return list(zip(starts, ends, strict=True))


def _continues_bullet(line: str) -> bool:
    """Whether a line without a mark goes on with the bullet before it: it is not blank and no
    heading."""
    return bool(line.strip()) and not _HEADING.fullmatch(line)


def _line_or_sentence_spans(text: str) -> Sequence[Span]:
    """The spans of a text's lines that have a word; where there is one such line only, of its
    sentences."""
    lines = [line.span() for line in _LINE.finditer(text) if _WORD.search(line.group())]
    if len(lines) > 1:
        return lines
    return sentences(text)


def _points_in_spans(text: str, spans: Sequence[Span]) -> list[Point]:
    r"""The points at these spans of a text, each on one line; a mark or an ellipsis alone is left
    out.

        "* Ann left.\n* ...", [(2, 11), (14, 17)] -> [Point(2, 11, "Ann left.")]
    """
    points: list[Point] = []
    for span in spans:
        start, end = trimmed(text, *span)
        words = text[start:end]
        if _WORD.search(words):
            points.append(Point(start, end, " ".join(words.split())))
    return points
