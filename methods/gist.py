"""GIST, that is ReadAgent (Lee et al. 2024; docs/methods/qrmem.md#gist): gists of pages, some of
which are looked up.

    pages     a page closes with the paragraph that brings it to 600 words; the model picks where it ends, among labels
              in front of paragraphs from the one on that brings it to 280, with the page before and the next paragraph
              in sight
    gists     each page in short (the prompt that the authors print)
    look-up   all gists with their numbers ──► up to 5 pages, which are read in place of their gists

A reply that names no place of the page ends it at its last label, without a further try, as in the
demo; numbers that are no page are dropped. Gists of a document share what the window leaves (the
demo's models have no short window).

    paragraph paragraph <2> paragraph <3>       "Break: 2"  ──►  the next page begins with paragraph 2

Paragraphs are those of the demo, which is for QuALITY's books: between two blank lines or more. A
text without any such place has those between blank lines, and one without these its lines. A
paragraph of more than twice the words of a page is cut into its sentences, and a sentence that is
longer than a page into runs of words. A text that is written without white space has a word for
eight characters, as LongRefiner's trees count it (methods/longrefiner/tree.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from pydantic import model_validator

from harness.errors import QuestionError
from harness.method import Index, Indexes, MethodConfig, Needs, Tools
from harness.method.settings import index_setting, setting
from harness.models import MeteredModel
from harness.prompts import Pieces, Prompt, prompt_tokens
from harness.types import Answer, Document, Question, Shown, Step
from methods import reading, summary
from methods.chunks import Span
from methods.extraction import make_each_and_store
from methods.packing import sentences
from methods.retry import Retry, ask_parsed, numbers_in, window_of

LABEL_FORM = "\n<{number}>\n"
ELLIPSIS = "..."
"""Stand for what the request leaves out before and after."""
PAUSE = Prompt(
    "page break",
    "Read a part of a text in which numbers in <> mark places where one could pause.\n\n"
    "Text:\n"
    "{text}\n\n"
    "The text ends here. Behind which number is it natural to pause, because what comes next is "
    "about something else? Choose the first such place. Reply in this form:\n"
    "Break: the number",
)

SHORTEN = Prompt(
    "summary",
    "Please shorten the following passage.\nJust give me a shortened version. DO NOT explain your "
    "reason.\n\nPassage:\n{text}\n",
)
"""The authors' prompt for a gist (read_agent_demo.ipynb, prompt_shorten_template)."""

_TEXT_LINE = re.compile(r"[^\n]*\S[^\n]*")
_TEXT_BETWEEN_TWO_BLANK_LINES = re.compile(r"\S.*?(?=\n[^\S\n]*\n[^\S\n]*\n|\s*\Z)", re.DOTALL)
_TEXT_BETWEEN_BLANK_LINES = re.compile(r"\S.*?(?=\n[^\S\n]*\n|\s*\Z)", re.DOTALL)
_WORD = re.compile(r"\S+")
_CHARACTERS_PER_WORD = 8  # of a word, in a text without white space
_MAX_MEAN_WORD_LENGTH = 24  # characters of a word on average, above which a text has no white space


def _word_count(text: str) -> int:
    """The number of words between white space; of a text written without it, one for eight
    characters."""
    words = len(text.split())
    characters = len(text.strip())
    if characters > _MAX_MEAN_WORD_LENGTH * words:
        return characters // _CHARACTERS_PER_WORD
    return words


@dataclass(frozen=True)
class _TextAround:
    """What a request for a page break shows beside the page.

    Attributes:
        before: The text of the page before; "" for none.
        after: The next paragraph; "" for none.
    """

    before: str = ""
    after: str = ""


def break_request(
    labels_and_units: Sequence[str], config: Gist.Config, around: _TextAround = _TextAround()
) -> Pieces:
    """The request that asks the model at which label a page should end.

    Args:
        labels_and_units: Label numbers ("" for none) and units of text, in turn: ["", "One.", "2",
            "Two."].
        config: The method's settings.
        around: The text shown before and after the page.
    """
    shown: list[str] = []
    if around.before:
        shown += [f"{ELLIPSIS}\n", around.before, "\n"]
    for number, piece in enumerate(labels_and_units):
        is_label = number % 2 == 0
        if not is_label:
            shown.append(piece)
        elif piece:
            shown.append(LABEL_FORM.format(number=piece))
    if around.after:
        shown += [around.after, f"\n{ELLIPSIS}"]
    return PAUSE.with_replacements(config).fill(text=shown)


class PageCutter:
    """Cuts a document into pages.

    Attributes:
        text: The document's.
        config: The method's settings.
        units: The spans of the paragraphs, or of pieces of long ones; a page has whole units.
        unit_words: The words of each unit.
        notes: Sentences about replies that picked no label.
    """

    def __init__(self, text: str, config: Gist.Config) -> None:
        """Keep the text and the settings, and cut the text into units, with the words of each."""
        self.text = text
        self.config = config
        self.units = list(self._cut_into_units())
        self.unit_words = [_word_count(text[start:end]) for start, end in self.units]
        self.notes: list[str] = []

    def cut_pages(self, model: MeteredModel, tools: Tools) -> list[Span]:
        """Cut the document into pages, asking the model for each end.

        A rest of fewer than `last_words` words is one page, without a request. Where a reply picks
        no label, the page ends as late as it may; a sentence in `notes` says of how many that is
        so.

        Args:
            model: The model that picks where a page ends.
            tools: The engine's tools; they store each reply, so that a stopped build goes on.

        Returns:
            The pages as spans of characters, in order; [] for a text without words.
        """
        spans: list[Span] = []
        first_unit = 0
        pages_without_pick = 0
        while first_unit < len(self.units):
            end_unit = self._latest_page_end(first_unit)
            if sum(self.unit_words[first_unit:]) < self.config.last_words:
                end_unit = len(self.units)
            elif end_unit > first_unit + 1:
                page_before = ""
                if spans:
                    page_before = self.text[slice(*spans[-1])]
                ask = partial(self._ask_for_page_end, first_unit, end_unit, page_before, model)
                picked_end = tools.keep(f"page {first_unit}", ask)
                if picked_end is None:
                    pages_without_pick += 1
                else:
                    end_unit = int(picked_end)
            spans.append((self.units[first_unit][0], self.units[end_unit - 1][1]))
            first_unit = end_unit
            tools.progress(first_unit, len(self.units), "page breaks")
        if pages_without_pick:
            self.notes.append(
                f"{pages_without_pick} of {len(spans)} pages end at their last label, for want of "
                "a reply with one"
            )
        return spans

    def _ask_for_page_end(
        self, first_unit: int, end_unit: int, page_before: str, model: MeteredModel
    ) -> int | None:
        """Ask the model where a page ends.

        Args:
            first_unit: The first unit of the page.
            end_unit: The unit after the last one that it may have.
            page_before: The text of the page before.
            model: The builder.

        Returns:
            The unit after the page's last one; None where the model names none of
            first_unit + 1 to end_unit.
        """
        response = ask_parsed(
            model,
            self._request_that_fits(first_unit, end_unit, page_before, model),
            self.config.reply_tokens,
            lambda reply: numbers_in(reply, "Break"),
            Retry(retries=0),
        )
        for number in response.parsed or ():
            if first_unit < number <= end_unit:
                return number
        return None

    def _request_that_fits(
        self, first_unit: int, end_unit: int, page_before: str, model: MeteredModel
    ) -> Pieces:
        """The request for the end of a page.

        Where it does not fit the window, it goes without the page before, then also without the
        next paragraph.

        Args:
            first_unit: The first unit of the page.
            end_unit: The unit after the last one that it may have.
            page_before: The text of the page before.
            model: The builder.
        """
        labels_and_units = self._labels_and_units(first_unit, end_unit)
        next_paragraph = ""
        if end_unit < len(self.units):
            next_paragraph = self._unit_text(end_unit)
        max_request_tokens = window_of(self.config.window, model) - self.config.reply_tokens
        for around in (
            _TextAround(page_before, next_paragraph),
            _TextAround(before="", after=next_paragraph),
        ):
            request = break_request(labels_and_units, self.config, around)
            if prompt_tokens(request, model) <= max_request_tokens:
                return request
        return break_request(labels_and_units, self.config)

    def _labels_and_units(self, first_unit: int, end_unit: int) -> list[str]:
        """The units first_unit to end_unit - 1, each after its label, or "" where the page may not
        end before it; then the label of the end, and "".

        0, 3 where a page may end before unit 2 or 3
            -> ["", "One. ", "", "Two. ", "2", "Three. ", "3", ""]
        """
        labels = self._offered_labels(first_unit, end_unit)
        labels_and_units: list[str] = []
        for unit in range(first_unit, end_unit):
            label = ""
            if unit in labels:
                label = str(unit)
            labels_and_units += [label, self._unit_text(unit) + " "]
        return [*labels_and_units, str(end_unit), ""]

    def _unit_text(self, number: int) -> str:
        """The text of the unit of this number."""
        return self.text[slice(*self.units[number])]

    def _latest_page_end(self, first_unit: int) -> int:
        """The unit after the last one that a page may have which begins with unit `first_unit`: it
        ends after the unit that brings it to `page_words`."""
        end_unit = first_unit + 1
        page_words = self.unit_words[first_unit]
        while page_words < self.config.page_words and end_unit < len(self.units):
            page_words += self.unit_words[end_unit]
            end_unit += 1
        return end_unit

    def _offered_labels(self, first_unit: int, end_unit: int) -> list[int]:
        """The units before which a page may end, in order, and last `end_unit`.

        The words of the unit after the break count too, so that a page may be shorter than
        `least_words`: with units of 50 words and least_words = 100, a page that begins with unit 0
        may end before unit 1.

        Args:
            first_unit: The first unit of the page.
            end_unit: The unit after the last one that it may have.
        """
        labels: list[int] = []  # a break has the number of the unit after it as its label
        page_words = self.unit_words[first_unit]
        for unit in range(first_unit + 1, end_unit):
            page_words += self.unit_words[unit]
            if page_words >= self.config.least_words:
                labels.append(unit)
        return [*labels, end_unit]

    def _cut_into_units(self) -> Iterator[Span]:
        """Yield the spans of the paragraphs; one of more than twice the words of a page is cut into
        its sentences, and these into runs of words."""
        page_words = self.config.page_words
        for start, end in self._paragraphs():
            if _word_count(self.text[start:end]) <= 2 * page_words:
                yield start, end
                continue
            for sentence_start, sentence_end in sentences(self.text[start:end]):
                yield from self._word_runs(start + sentence_start, start + sentence_end, page_words)

    def _paragraphs(self) -> list[Span]:
        """The spans of the paragraphs: what stands between two blank lines; if that is one piece
        only, between single blank lines; if that is one, too, the lines."""
        spans: list[Span] = []
        for pattern in (_TEXT_BETWEEN_TWO_BLANK_LINES, _TEXT_BETWEEN_BLANK_LINES, _TEXT_LINE):
            spans = [match.span() for match in pattern.finditer(self.text)]
            if len(spans) > 1:
                return spans
        return spans

    def _word_runs(self, start: int, end: int, max_words: int) -> Iterator[Span]:
        """Yield the spans of runs of whole words in text[start:end].

            "One two three", 2 -> "One two", "three"

        So that text without spaces is cut, too, every _CHARACTERS_PER_WORD characters count as a
        word, if these are more.

        Args:
            start: Where the runs begin.
            end: Where they end.
            max_words: Words of a run at most.
        """
        run_start = -1
        run_end = -1
        words_of_run = 0
        for piece_start, piece_end in self._word_pieces(
            start, end, max_words * _CHARACTERS_PER_WORD
        ):
            words_of_run += 1
            words_by_length = (piece_end - run_start) // _CHARACTERS_PER_WORD
            if run_start >= 0 and max(words_of_run, words_by_length) > max_words:
                yield run_start, run_end
                run_start = -1
            if run_start < 0:
                run_start = piece_start
                words_of_run = 1
            run_end = piece_end
        if run_start >= 0:
            yield run_start, run_end

    def _word_pieces(self, start: int, end: int, max_characters: int) -> Iterator[Span]:
        """Yield the spans of the words in text[start:end]; a longer word is cut into pieces of
        `max_characters` characters."""
        for word in _WORD.finditer(self.text, start, end):
            for piece_start in range(word.start(), word.end(), max_characters):
                yield piece_start, min(piece_start + max_characters, word.end())


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
            600,
            gt=0,
            help="Words that close a page (of 8 characters where there is no white space).",
        )
        least_words: int = index_setting(
            280, ge=0, help="Words that a page has behind its first label."
        )
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
            """Raise ValueError where `least_words` is not below `page_words`."""
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
    index_version = "4"
    own_prompts = (PAUSE, LOOKUP, PAGE, SHORTEN)

    def index(self, document: Document, tools: Tools) -> Index:
        """The index of a document.

        Returns:
            "pages": [start, end] of each page in characters; "gists": the gist of each page, on one
                line; "notes": sentences about what did not go as usual.
        """
        model = tools.model("builder")
        prompt = SHORTEN.with_replacements(self.config)
        cutter = PageCutter(document.text, self.config)
        spans = cutter.cut_pages(model, tools)
        gist_tokens = self._max_gist_tokens(len(spans), model)

        def write_gist(number: int) -> str:
            """Summarise the page of this number."""
            text = document.text[slice(*spans[number])].strip()
            return summary.summarise([text], model, gist_tokens, prompt)

        gists = make_each_and_store(write_gist, len(spans), "gist", tools)
        gists_on_one_line = [" ".join(text.split()) for text in gists]
        return {
            "pages": [list(span) for span in spans],
            "gists": gists_on_one_line,
            "notes": cutter.notes,
        }

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Let the model name pages, then answer from the texts of these among the gists of the
        others.

        Of the named pages the last are left out where not all fit; the stop reason says so.
        """
        (document,) = documents
        (index,) = indexes
        spans = [(int(start), int(end)) for start, end in index["pages"]]
        page_texts = [document.text[start:end].strip() for start, end in spans]
        gists = [str(gist) for gist in index["gists"]]
        pages_to_read: list[int] = []
        step = Step("look-up")
        if gists:
            pages_to_read, step = self._ask_for_pages(question, gists, index["notes"], tools)
        model = tools.model()
        request_settings = reading.Reading(
            tools.task, window=self.config.window, config=self.config
        )
        max_tokens = reading.room_for_text(question, tools, model, request_settings)
        pages_read = _pages_that_fit(gists, page_texts, pages_to_read, max_tokens, model)
        text = reading.ask(
            question,
            _gists_and_pages(gists, page_texts, pages_read),
            tools,
            model,
            request_settings,
        )
        steps = [step]
        for number in pages_read:
            tokens = model.count(page_texts[number])
            page = Shown("span", document.id, *spans[number])
            steps.append(Step("page", number, tokens=tokens, shown=page))
        reason = f"{len(pages_read)} pages looked up"
        if len(pages_read) < len(pages_to_read):
            reason = f"{len(pages_read)} of {len(pages_to_read)} pages fit"
        shown = _shown_gists_and_pages(document, spans, gists, pages_read)
        return Answer(text, shown, reason, tuple(steps))

    def _max_gist_tokens(self, n_pages: int, model: MeteredModel) -> int:
        """The most tokens of a gist: the setting's, or fewer where all gists must share the window
        of the look-up, of which an eighth stays free.

        Args:
            n_pages: How many pages there are, each with a gist.
            model: The model that writes the gists; its window and its tokens count.

        Raises:
            QuestionError: No token is left for a gist.
        """
        config = self.config
        window_tokens = window_of(config.window, model)
        request_without_pages = LOOKUP.with_replacements(config).fill(
            pages=[], question=[""], most="99"
        )
        spare_tokens = window_tokens // 8
        tokens_for_gists = (
            window_tokens
            - prompt_tokens(request_without_pages, model)
            - config.reply_tokens
            - spare_tokens
        )
        page_label = PAGE.with_replacements(config).fill(number=str(n_pages), gist=[])
        label_tokens = sum(map(model.count, page_label))
        tokens_per_page = tokens_for_gists // max(n_pages, 1)
        max_tokens: int = min(config.gist_tokens, tokens_per_page - label_tokens)
        if max_tokens < 1:
            raise QuestionError(
                f"a window of {window_tokens} tokens does not hold the gists of {n_pages} pages; "
                "raise method.page_words, method.window or model.window"
            )
        return max_tokens

    def _ask_for_pages(
        self, question: Question, gists: list[str], notes: list[str], tools: Tools
    ) -> tuple[list[int], Step]:
        """Ask which pages to read again.

        Numbers of no page, and those beyond `most_pages`, are dropped; the step's note says how
        many.

        Args:
            question: The question.
            gists: The gist of each page.
            notes: The notes of the index, which go into the step.
            tools: The engine's tools.

        Returns:
            The numbers of the pages in the order named, at most `most_pages`, [] if no reply could
            be parsed; and the step "look-up" of the trace.
        """
        config = self.config
        request = lookup_request(question, gists, config)
        retry = Retry(config.retries, config.temperature, window=config.window, seed=tools.seed)
        with tools.phase("search"):
            response = ask_parsed(
                tools.model("searcher"),
                request,
                config.reply_tokens,
                lambda reply: numbers_in(reply, "Pages"),
                retry,
            )
        numbers_named = response.parsed or []
        pages = [number for number in numbers_named if number < len(gists)][: config.most_pages]
        pages_as_text = ", ".join(map(str, pages)) or "none"
        messages = [*notes, *response.notes, f"pages {pages_as_text}"]
        if len(pages) < len(numbers_named):
            messages.append(
                f"{len(numbers_named) - len(pages)} of {len(numbers_named)} numbers were dropped"
            )
        step = Step(
            "look-up",
            scores={"pages": float(len(pages)), "replies": float(response.replies)},
            tokens=response.prompt_tokens,
            flops=tools.meter.flops(),
            note="; ".join(messages),
        )
        return pages, step


def lookup_request(question: Question, gists: Sequence[str], config: Gist.Config) -> Pieces:
    """The request that shows the gists of all pages with their numbers and asks which to read
    again.

    Args:
        question: The question, shown with its options.
        gists: The gist of each page.
        config: The method's settings.
    """
    pages: list[str] = []
    for number, gist in enumerate(gists):
        pages += PAGE.with_replacements(config).fill(number=str(number), gist=[gist])
    query = [reading.question_text(question)]
    return LOOKUP.with_replacements(config).fill(
        pages=pages, question=query, most=str(config.most_pages)
    )


def _pages_that_fit(
    gists: Sequence[str],
    page_texts: Sequence[str],
    pages_to_read: Sequence[int],
    max_tokens: int,
    model: MeteredModel,
) -> list[int]:
    """The numbers of the chosen pages that are read: all but the last named ones where not all fit
    among the gists.

    Args:
        gists: The gist of each page.
        page_texts: The text of each page.
        pages_to_read: The numbers of the pages to look up, in the order named.
        max_tokens: Tokens of texts in the request.
        model: The reader.

    Raises:
        QuestionError: Not even the gists fit.
    """
    pages_read = list(pages_to_read)
    texts = _gists_and_pages(gists, page_texts, pages_read)
    while reading.how_many_fit(texts, max_tokens, model) < len(texts):
        if not pages_read:
            raise QuestionError(
                f"the gists of {len(gists)} pages do not fit the {max_tokens} tokens that the "
                "question leaves; lower method.gist_tokens, or raise method.window or model.window"
            )
        pages_read.pop()
        texts = _gists_and_pages(gists, page_texts, pages_read)
    return pages_read


def _gists_and_pages(
    gists: Sequence[str], page_texts: Sequence[str], pages_read: Sequence[int]
) -> list[str]:
    """For each page in order its gist, or its text if it is chosen; empty ones are left out.

    Args:
        gists: The gist of each page.
        page_texts: The text of each page.
        pages_read: The numbers of the pages whose texts are shown.
    """
    texts = list(gists)
    for number in pages_read:
        texts[number] = page_texts[number]
    return list(filter(None, texts))


def _shown_gists_and_pages(
    document: Document, spans: Sequence[Span], gists: Sequence[str], pages_read: Sequence[int]
) -> tuple[Shown, ...]:
    """What the reader saw of each page, in order: its span of the document if it was read again,
    else its gist with that span as the source; nothing of a page whose gist is empty.

    Args:
        document: The document.
        spans: The span of each page.
        gists: The gist of each page.
        pages_read: The numbers of the pages that were read again.
    """
    shown: list[Shown] = []
    for number, span in enumerate(spans):
        if number in pages_read:
            shown.append(Shown("span", document.id, *span))
        elif gists[number]:
            source = (document.id, *span)
            shown.append(Shown("generated", document.id, text=gists[number], sources=(source,)))
    return tuple(shown)
