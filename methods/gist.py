"""GIST, that is ReadAgent (Lee et al. 2024; docs/methods/qrmem.md#gist): gists of pages, some of
which are looked up.

    pages     the model picks where a page ends: labels are offered behind the 280th word, a page has 600 at most
    gists     each page in short (the shared summary prompt)
    look-up   all gists with their numbers ──► up to 5 pages, which are read in place of their gists

A reply that names no label offered ends the page at its last one, without a further try, as in the
demo; numbers that are no page are dropped. Gists of a document share what the window leaves (the
demo's models have no short window).

    unit unit unit <3> unit <4> unit <5>       "Break: 4"  ──►  the next page begins behind label 4

Units are lines; one of more words than a page leaves behind its first label is cut into its
sentences, and a sentence that is longer into runs of words. A text that is written without white
space has a word for eight characters, as LongRefiner's trees count it
(methods/longrefiner/tree.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import ClassVar

from pydantic import model_validator

from harness.errors import QuestionError
from harness.method import Index, Indexes, MethodConfig, Needs, Tools
from harness.method.settings import index_setting, setting
from harness.method.training import Skill
from harness.models import MeteredModel
from harness.prompts import Pieces, Prompt, prompt_tokens
from harness.types import Answer, Document, Question, Shown, Step
from methods import reading, summary
from methods.chunks import Span
from methods.extraction import keep_each
from methods.packing import sentences
from methods.reading import request_skill
from methods.retry import Retry, ask_parsed, numbers_in, window_of
from methods.summary import SUMMARY

LABEL = "\n<{number}>\n"
PAUSE = Prompt(
    "page break",
    "Read a part of a text in which numbers in <> mark places where one could "
    "pause.\n\nText:\n{text}\n\nThe text ends "
    "here. Behind which number is it natural to pause, because what comes next is about something "
    "else? Choose the "
    "first such place. Reply in this form:\nBreak: the number",
)

_LINE = re.compile(r"[^\n]*\S[^\n]*")
_WORD = re.compile(r"\S+")
_CHARACTERS = 8  # of a word, in a text without white space


def _word_count(text: str) -> int:
    return max(len(text.split()), len(text.strip()) // _CHARACTERS)


def _break_request(marked: Sequence[str], config: Gist.Config) -> Pieces:
    """The request for a page break; marked: label numbers ("" for none) and units of text, in
    turn."""
    shown: list[str] = []
    for i, piece in enumerate(marked):
        is_label = i % 2 == 0
        if not is_label:
            shown.append(piece)
        elif piece:
            shown.append(LABEL.format(number=piece))
    return PAUSE.of(config).fill(text=shown)


class Pages:
    """Cuts a document into pages; notes: on replies that picked no label."""

    def __init__(self, text: str, config: Gist.Config) -> None:
        self.text = text
        self.config = config
        self.units = list(self._units())
        self.words = [_word_count(text[start:end]) for start, end in self.units]
        self.notes: list[str] = []

    def spans(self, model: MeteredModel, tools: Tools) -> list[Span]:
        """The pages as spans of characters, in order; [] for a text without words."""
        spans: list[Span] = []
        start = 0
        missed = 0
        while start < len(self.units):
            end = self._page_end(start)
            labels = self._offered_labels(start, end)
            if sum(self.words[start:]) < self.config.last_words:
                end = len(self.units)
            elif len(labels) > 1:
                pick_label = partial(self._pick_label, start, end, labels, model)
                label = tools.keep(f"page {start}", pick_label)
                if label is None:
                    missed += 1
                else:
                    end = int(label)
            spans.append((self.units[start][0], self.units[end - 1][1]))
            start = end
            tools.progress(start, len(self.units), "page breaks")
        if missed:
            self.notes.append(
                f"{missed} of {len(spans)} pages end at their last label, for want of a reply with one"
            )
        return spans

    def _pick_label(
        self, start: int, end: int, labels: list[int], model: MeteredModel
    ) -> int | None:
        """The one of `labels` that the model picks as the end of a page of units [start, end), or
        None."""
        marked: list[str] = []
        for i in range(start, end):
            label = ""
            if i in labels:
                label = str(i)
            unit = self.text[slice(*self.units[i])]
            marked += [label, unit + " "]
        marked += [str(end), ""]
        response = ask_parsed(
            model,
            _break_request(marked, self.config),
            self.config.reply_tokens,
            lambda reply: numbers_in(reply, "Break"),
            Retry(retries=0),
        )
        for number in response.found or ():
            if number in labels:
                return number
        return None

    def _page_end(self, start: int) -> int:
        """The end (number of a unit, not included) of the longest page that begins at unit
        `start`."""
        end = start + 1
        words = self.words[start]
        while end < len(self.units) and words + self.words[end] <= self.config.page_words:
            words += self.words[end]
            end += 1
        return end

    def _offered_labels(self, start: int, end: int) -> list[int]:
        """Where a page of units [start, end) may end: behind each from its `least_words`-th word
        on, and at `end`."""
        labels, words = [], 0
        for i in range(start, end):
            words += self.words[i]
            if words >= self.config.least_words or i == end - 1:
                labels.append(i + 1)
        return labels

    def _units(self) -> Iterator[Span]:
        """Spans of the lines; a line too long for a page is cut into sentences or runs of words."""
        longest = self.config.page_words - self.config.least_words
        for line in _LINE.finditer(self.text):
            a, b = line.span()
            if _word_count(self.text[a:b]) <= longest:
                yield a, b
                continue
            for c, d in sentences(self.text[a:b]):
                yield from self._word_runs(a + c, a + d, longest)

    def _word_runs(self, start: int, end: int, longest: int) -> Iterator[Span]:
        """Spans of runs of whole words in text[start:end], of at most `longest` words; a longer
        word is cut."""
        first = -1
        last = -1
        words = 0
        for piece_start, piece_end in self._word_pieces(start, end, longest * _CHARACTERS):
            words += 1
            length = (piece_end - first) // _CHARACTERS
            if first >= 0 and max(words, length) > longest:
                yield first, last
                first = -1
            if first < 0:
                first = piece_start
                words = 1
            last = piece_end
        if first >= 0:
            yield first, last

    def _word_pieces(self, start: int, end: int, size: int) -> Iterator[Span]:
        """The words of text[start:end], cut into pieces of `size` characters."""
        for word in _WORD.finditer(self.text, start, end):
            for at in range(word.start(), word.end(), size):
                yield at, min(at + size, word.end())


LOOKUP = Prompt(
    "look-up",
    "A text was read page by page, and this is what is remembered of each "
    "page.{pages}\n\nQuestion: {question}\n\n"
    "Which pages should be read again to answer the question? Name as few as are needed, {most} at "
    "most, or none. "
    "Reply in this form:\nPages: numbers of the pages",
)
PAGE = Prompt("look-up, one page", "\n\nPage {number}: {gist}", first=False)


class Gist(reading.ReadingMethod):
    """Pages, their gists, and a look-up."""

    class Config(MethodConfig):
        """Settings of this method."""

        # Pages and gists: a change builds a new index.
        page_words: int = index_setting(
            600, gt=0, help="Most words of a page (of 8 characters where there is no white space)."
        )
        least_words: int = index_setting(280, ge=0, help="Words before the first label of a page.")
        last_words: int = index_setting(350, gt=0, help="A rest with fewer words is one page.")
        gist_tokens: int = index_setting(200, gt=0, help="Most tokens of a gist.")
        reply_tokens: int = index_setting(40, gt=0, help="Tokens of a reply with numbers.")
        window: int | None = index_setting(
            None, gt=0, help="Most tokens of a request, reply included; None = the model's window."
        )
        # Look-up
        most_pages: int = setting(5, gt=0, help="Most pages looked up.")
        retries: int = setting(
            4, ge=0, help="Further replies to a look-up whose reply cannot be parsed."
        )
        temperature: float = setting(0.7, gt=0, help="Temperature of these.")

        @model_validator(mode="after")
        def _check_page_words(self) -> Gist.Config:
            if self.least_words >= self.page_words:
                raise ValueError(
                    "least_words must be below page_words, or no label is ever offered"
                )
            return self

    summary = "pages remembered as gists, some looked up to answer (ReadAgent)"
    needs: ClassVar[Needs] = {
        "reader": frozenset(),
        "searcher": frozenset({"sampling"}),
        "builder": frozenset(),
    }
    scope = "document"
    index_roles: ClassVar[tuple[str, ...]] = ("builder",)
    index_version = "3"
    own_prompts = (PAUSE, LOOKUP, PAGE, SUMMARY)

    def skills(self) -> list[Skill]:
        """Page breaks, summaries, the look-up, short answers and choices."""
        config = self.config
        return [
            request_skill(
                "gist page break", "pause", "builder", lambda s: _break_request(s.texts, config)
            ),
            request_skill(
                "gist look-up",
                "lookup",
                "searcher",
                lambda s: _lookup_request(s.question, s.texts, config),
            ),
            *summary.skills(SUMMARY.of(config)),
            *reading.skills(config),
        ]

    def index(self, document: Document, tools: Tools) -> Index:
        """The index: "pages" as spans, their "gists", and "notes", sentences about what did not go
        as usual."""
        model = tools.model("builder")
        prompt = SUMMARY.of(self.config)
        pages = Pages(document.text, self.config)
        spans = pages.spans(model, tools)
        gist_tokens = self._gist_tokens(len(spans), model)

        def gist(number: int) -> str:
            text = document.text[slice(*spans[number])].strip()
            return summary.summarise([text], model, gist_tokens, prompt)

        gists = keep_each(gist, len(spans), "gist", tools)
        on_one_line = [" ".join(text.split()) for text in gists]
        return {"pages": [list(span) for span in spans], "gists": on_one_line, "notes": pages.notes}

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Look pages up, read them among the gists of the others."""
        (document,) = documents
        (index,) = indexes
        spans = [(int(start), int(end)) for start, end in index["pages"]]
        pages = [document.text[start:end].strip() for start, end in spans]
        gists = [str(gist) for gist in index["gists"]]
        chosen: list[int] = []
        step = Step("look-up")
        if gists:
            chosen, step = self._look_up(question, gists, index["notes"], tools)
        model = tools.model()
        form = reading.Reading(tools.task, self.config.window, self.config)
        room = reading.room_for_text(question, tools, model, form)
        read = _pages_that_fit(gists, pages, chosen, room, model)
        text = reading.ask(question, _gists_and_pages(gists, pages, read), tools, model, form)
        shown: list[Shown] = []
        for number, span in enumerate(spans):
            if number in read:
                shown.append(Shown("span", document.id, *span))
            elif gists[number]:
                source = (document.id, *span)
                shown.append(Shown("generated", document.id, text=gists[number], sources=(source,)))
        steps = [step]
        for number in read:
            page = Shown("span", document.id, *spans[number])
            steps.append(Step("page", number, tokens=model.count(pages[number]), shown=page))
        reason = f"{len(read)} pages looked up"
        if len(read) < len(chosen):
            reason = f"{len(read)} of {len(chosen)} pages fit"
        return Answer(text, tuple(shown), reason, tuple(steps))

    def _gist_tokens(self, pages: int, model: MeteredModel) -> int:
        """Tokens of a gist at most: the config's, or its share of the window. Raises QuestionError
        for a share of 0."""
        config = self.config
        window = window_of(config.window, model)
        frame = LOOKUP.of(config).fill(pages=[], question=[""], most="99")
        room = window - prompt_tokens(frame, model) - config.reply_tokens - window // 8
        label = PAGE.of(config).fill(number=str(pages), gist=[])
        most: int = min(config.gist_tokens, room // max(pages, 1) - sum(map(model.count, label)))
        if most < 1:
            raise QuestionError(
                f"a window of {window} tokens does not hold the gists of {pages} pages; raise "
                "method.page_words, "
                "method.window or model.window"
            )
        return most

    def _look_up(
        self, question: Question, gists: list[str], notes: list[str], tools: Tools
    ) -> tuple[list[int], Step]:
        """Ask which pages to read again.

        Args:
            question: The question.
            gists: The gist of each page.
            notes: Of the index, for the step.
            tools: The engine's tools.

        Returns:
            The pages in the order named, [] if no reply could be parsed; and the step.
        """
        config = self.config
        pieces = _lookup_request(question, gists, config)
        retry = Retry(config.retries, config.temperature, window=config.window, seed=tools.seed)
        with tools.phase("search"):
            response = ask_parsed(
                tools.model("searcher"),
                pieces,
                config.reply_tokens,
                lambda reply: numbers_in(reply, "Pages"),
                retry,
            )
        named = response.found or []
        pages = [number for number in named if number < len(gists)][: config.most_pages]
        listed = ", ".join(map(str, pages)) or "none"
        messages = [*notes, *response.notes, f"pages {listed}"]
        if len(pages) < len(named):
            messages.append(f"{len(named) - len(pages)} of {len(named)} numbers were dropped")
        step = Step(
            "look-up",
            scores={"pages": float(len(pages)), "replies": float(response.replies)},
            tokens=response.tokens,
            flops=tools.meter.flops(),
            note="; ".join(messages),
        )
        return pages, step


def _lookup_request(question: Question, gists: Sequence[str], config: Gist.Config) -> Pieces:
    """The request that shows all gists with their page numbers and asks which pages to read
    again."""
    pages: list[str] = []
    for number, gist in enumerate(gists):
        pages += PAGE.of(config).fill(number=str(number), gist=[gist])
    query = [reading.question_text(question)]
    return LOOKUP.of(config).fill(pages=pages, question=query, most=str(config.most_pages))


def _pages_that_fit(
    gists: Sequence[str],
    pages: Sequence[str],
    chosen: Sequence[int],
    room: int,
    model: MeteredModel,
) -> list[int]:
    """The chosen pages that are read, without those named last where not all fit.

    Args:
        gists: The gist of each page.
        pages: Their texts.
        chosen: The pages to look up, in the order named.
        room: Tokens of texts in the request.
        model: The reader.

    Raises:
        QuestionError: Not even the gists fit.
    """
    read = list(chosen)
    texts = _gists_and_pages(gists, pages, read)
    while reading.how_many_fit(texts, room, model) < len(texts):
        if not read:
            raise QuestionError(
                f"the gists of {len(gists)} pages do not fit the {room} tokens that the "
                "question leaves; lower method.gist_tokens, or raise method.window or model.window"
            )
        read.pop()
        texts = _gists_and_pages(gists, pages, read)
    return read


def _gists_and_pages(
    gists: Sequence[str], pages: Sequence[str], chosen: Sequence[int]
) -> list[str]:
    """For each page in order its gist, or its text if it is chosen; empty ones are left out."""
    texts = list(gists)
    for number in chosen:
        texts[number] = pages[number]
    return list(filter(None, texts))
