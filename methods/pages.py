"""Where a reader pauses: a document is cut into pages at breaks that the model picks (docs/methods/qrmem.md#gist).

    unit unit unit <3> unit <4> unit <5>       "Break: 4"  ──►  the next page begins behind label 4

Units are lines; one of more words than a page leaves behind its first label is cut into its sentences, and a sentence
that is longer into runs of words. A text that is written without white space has a word for eight characters, as
LongRefiner's trees count it (methods/longrefiner/tree.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial

from harness.method import Tools
from harness.models import MeteredModel
from harness.prompts import Pieces, Prompt
from methods.chunks import Span, sentences
from methods.retry import Retry, ask_parsed, numbered

LABEL = "\n<{number}>\n"
PAUSE = Prompt(
    "page break",
    "Read a part of a text in which numbers in <> mark places where one could pause.\n\nText:\n{text}\n\nThe text ends "
    "here. Behind which number is it natural to pause, because what comes next is about something else? Choose the "
    "first such place. Reply in this form:\nBreak: the number",
)

_LINE = re.compile(r"[^\n]*\S[^\n]*")
_WORD = re.compile(r"\S+")
_CHARACTERS = 8  # of a word, in a text without white space


def _words(text: str) -> int:
    return max(len(text.split()), len(text.strip()) // _CHARACTERS)


def request(marked: Sequence[str], prompt: Prompt) -> Pieces:
    """Ask where to pause; marked: a label's number or "" and a unit, in turn."""
    shown = [LABEL.format(number=piece) if i % 2 == 0 else piece for i, piece in enumerate(marked) if piece or i % 2]
    return prompt.fill(text=shown)


class Pages:
    """One document; `notes` says how often a page ended at its last label because no other was picked."""

    def __init__(self, text: str, most: int, least: int, last: int, reply_tokens: int) -> None:
        self.text, self.most, self.least, self.last = text, most, least, last
        self.reply_tokens = reply_tokens
        self.units = list(self._units())
        self.words = [_words(text[a:b]) for a, b in self.units]
        self.notes: list[str] = []

    def spans(self, model: MeteredModel, tools: Tools, prompt: Prompt = PAUSE) -> list[Span]:
        """The pages in order; [] for a text without words."""
        spans: list[Span] = []
        start, missed = 0, 0
        while start < len(self.units):
            end = self._end(start)
            labels = self._labels(start, end)
            if sum(self.words[start:]) < self.last:
                end = len(self.units)
            elif len(labels) > 1:
                label = tools.keep(f"page {start}", partial(self._pick, start, end, labels, model, prompt))
                missed += label is None
                end = end if label is None else int(label)
            spans.append((self.units[start][0], self.units[end - 1][1]))
            start = end
            tools.progress(start, len(self.units), "page breaks")
        if missed:
            self.notes.append(f"{missed} of {len(spans)} pages end at their last label, for want of a reply with one")
        return spans

    def _pick(self, start: int, end: int, labels: list[int], model: MeteredModel, prompt: Prompt) -> int | None:
        """The label that the model picks; None if it picks none of the offered ones."""
        marked: list[str] = []
        for i in range(start, end):
            a, b = self.units[i]
            marked += [str(i) if i in labels else "", self.text[a:b] + " "]
        marked += [str(end), ""]
        response = ask_parsed(
            model,
            request(marked, prompt),
            self.reply_tokens,
            lambda reply: numbered(reply, "Break"),
            Retry(retries=0),
        )
        return next((number for number in response.found or () if number in labels), None)

    def _end(self, start: int) -> int:
        """Behind the last unit that a page from `start` has room for; one unit at least."""
        end, words = start + 1, self.words[start]
        while end < len(self.units) and words + self.words[end] <= self.most:
            words += self.words[end]
            end += 1
        return end

    def _labels(self, start: int, end: int) -> list[int]:
        """The offered numbers: places after the `least`-th word, including the end."""
        labels, words = [], 0
        for i in range(start, end):
            words += self.words[i]
            if words >= self.least or i == end - 1:
                labels.append(i + 1)
        return labels

    def _units(self) -> Iterator[Span]:
        longest = self.most - self.least
        for line in _LINE.finditer(self.text):
            a, b = line.span()
            if _words(self.text[a:b]) <= longest:
                yield a, b
                continue
            for c, d in sentences(self.text[a:b]):
                yield from self._runs(a + c, a + d, longest)

    def _runs(self, start: int, end: int, longest: int) -> Iterator[Span]:
        """Runs of whole words, `longest` at most each; a word that is longer than that is cut."""
        step = longest * _CHARACTERS
        pieces = [
            (at, min(at + step, word.end()))
            for word in _WORD.finditer(self.text, start, end)
            for at in range(word.start(), word.end(), step)
        ]
        first, last, words = -1, -1, 0
        for a, b in pieces:
            words += 1
            if first >= 0 and (words > longest or (b - first) // _CHARACTERS > longest):
                yield first, last
                first = -1
            if first < 0:
                first, words = a, 1
            last = b
        if first >= 0:
            yield first, last
