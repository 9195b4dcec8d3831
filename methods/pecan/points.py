"""A written summary into Information Points (docs/methods/pecan.md#pecan-points).

"* Ann met Bob\\n  in Rome.\\n* Bob left."  ──►  [(2, 24, "Ann met Bob in Rome."), (27, 36, "Bob left.")]
"""

from __future__ import annotations

import re
from typing import NamedTuple

# "*", a bullet sign, "-" or "1." / "1)" at the start of a line; the last two need a space, or -5 and 3.5 were marks.
# "**Points**" is a heading in bold: no bullet, and no part of the one before it.
_MARK = re.compile(r"[ \t]*(?:(?:\*(?!\*)|[\u2022\u2023\u25aa\u25cf])[ \t]*|(?:-|\d{1,3}[.)])[ \t]+)")
_HEADING = re.compile(r"[ \t]*\*\*[^*\n]+\*\*:?[ \t]*")
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")


class Point(NamedTuple):
    """One bullet: characters [start, end) of the written text, its mark left out, and its text on one line."""

    start: int
    end: int
    text: str


class Parsed(NamedTuple):
    """The points, and how they were parsed: "bullets" or "lines" (no bullet), with " cut" for a dropped last one."""

    points: list[Point]
    how: str


def parse_points(text: str, truncated: bool) -> Parsed:
    """Find the bullets of `text`; wrapped lines join the bullet before them, empty ones are dropped.

    `truncated`: the text was cut by the token limit, so its last bullet is unfinished and dropped if there are others.
    Without any bullet each line is a point (a single line: each sentence).
    """
    points = _bullets(text)
    how = "bullets" if points else "lines"
    if not points:
        lines = _pieces(text, re.compile(r"[^\n]+"))
        points = lines if len(lines) > 1 else _pieces(text, _SENTENCE)
    if truncated and len(points) > 1:
        return Parsed(points[:-1], how + " cut")
    return Parsed(points, how)


def _bullets(text: str) -> list[Point]:
    spans: list[list[int]] = []
    for line in re.finditer(r"[^\n]+", text):
        mark = _MARK.match(line.group())
        if mark:
            spans.append([line.start() + mark.end(), line.end()])
        elif spans and line.group().strip() and not _HEADING.fullmatch(line.group()):
            spans[-1][1] = line.end()
    return [p for a, b in spans if (p := _point(text, a, b))]


def _pieces(text: str, pattern: re.Pattern[str]) -> list[Point]:
    return [p for m in pattern.finditer(text) if (p := _point(text, m.start(), m.end()))]


def _point(text: str, start: int, end: int) -> Point | None:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    # A mark or an ellipsis alone says nothing.
    if not re.search(r"\w", text[start:end]):
        return None
    return Point(start, end, " ".join(text[start:end].split()))
