"""GIST, that is ReadAgent (Lee et al. 2024; docs/methods/qrmem.md#gist): gists of pages, some of which are looked up.

    pages     the model picks where a page ends: labels are offered behind the 280th word, a page has 600 at most
    gists     each page in short (the shared summary prompt)
    look-up   all gists with their numbers ──► up to 5 pages, which are read in place of their gists

A reply that names no label offered ends the page at its last one, without a further try, as in the demo; numbers that
are no page are dropped. Gists of a document share what the window leaves (the demo's models have no short window).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field, model_validator

from harness.errors import QuestionError
from harness.method import Index, Method, MethodConfig, Scene, Skill, Tools
from harness.models import MeteredModel
from harness.prompts import Pieces, Prompt, feed, prompt_tokens
from harness.types import Answer, Document, Question, Shown, Step
from methods import reading, summary
from methods.pages import PAUSE, Pages, request
from methods.retry import Retry, ask_parsed, numbered, window_of

LOOKUP = Prompt(
    "look-up",
    "A text was read page by page, and this is what is remembered of each page.{pages}\n\nQuestion: {question}\n\n"
    "Which pages should be read again to answer the question? Name as few as are needed, {most} at most, or none. "
    "Reply in this form:\nPages: numbers of the pages",
)
PAGE = Prompt("look-up, one page", "\n\nPage {number}: {gist}", first=False)


class Gist(Method):
    """Pages, their gists, and a look-up."""

    class Config(MethodConfig):
        """page_words: words of a page at most (of 8 characters where there is no white space); least_words: words
        before its first label; last_words: a rest below it is one page; gist_tokens: of a gist at most; most_pages:
        looked up; reply_tokens: of a reply with numbers; window: of prompt and reply, None = the model's;
        retries, temperature: of a look-up whose reply cannot be parsed.
        """

        page_words: int = Field(default=600, gt=0)
        least_words: int = Field(default=280, ge=0)
        last_words: int = Field(default=350, gt=0)
        gist_tokens: int = Field(default=200, gt=0)
        most_pages: int = Field(default=5, gt=0)
        reply_tokens: int = Field(default=40, gt=0)
        window: int | None = Field(default=None, gt=0)
        retries: int = Field(default=4, ge=0)
        temperature: float = Field(default=0.7, gt=0)

        @model_validator(mode="after")
        def _ordered(self) -> Gist.Config:
            if self.least_words >= self.page_words:
                raise ValueError("least_words must be below page_words, or no label is ever offered")
            return self

    summary = "pages remembered as gists, some looked up to answer (ReadAgent)"
    needs: ClassVar[dict[str, frozenset[str]]] = {
        "reader": frozenset(),
        "searcher": frozenset({"sampling"}),
        "builder": frozenset(),
    }
    scope = "document"
    index_roles: ClassVar[tuple[str, ...]] = ("builder",)
    index_version = "2"
    index_fields = ("page_words", "least_words", "last_words", "gist_tokens", "reply_tokens", "window")

    def templates(self) -> Sequence[Prompt]:
        """The prompts for page ends, summaries, the look-up and reading."""
        return (PAUSE, LOOKUP, PAGE, summary.SUMMARY, *reading.PROMPTS)

    def skills(self) -> list[Skill]:
        """Page breaks, summaries, the look-up, short answers and choices."""
        config, page_break = self.config, PAUSE.of(self.config)

        def lookup(scene: Scene, tools: Tools) -> None:
            _reply(_lookup(scene.question, scene.texts, config), tools, "searcher")

        def pause(scene: Scene, tools: Tools) -> None:
            pairs = zip(scene.texts[::2], scene.texts[1::2], strict=True)
            _reply(request([piece for label, text in pairs for piece in (label, text)], page_break), tools, "builder")

        own = [Skill("gist page break", "pause", pause), Skill("gist look-up", "lookup", lookup)]
        return [*own, *summary.skills(summary.SUMMARY.of(config)), *reading.skills(config)]

    def index(self, document: Document, tools: Tools) -> Index:
        """Pages as spans, their gists, and what did not go as usual."""
        config, model = self.config, tools.model("builder")
        pages = Pages(document.text, config.page_words, config.least_words, config.last_words, config.reply_tokens)
        spans = pages.spans(model, tools, PAUSE.of(config))
        most, prompt = self._share(len(spans), model), summary.SUMMARY.of(config)

        def gist(number: int) -> str:
            text = document.text[spans[number][0] : spans[number][1]].strip()
            summarised = tools.keep(f"gist {number}", lambda: summary.summarise([text], model, most, prompt))
            tools.progress(number + 1, len(spans), "gists")
            return " ".join(str(summarised).split())

        gists = tools.map(gist, range(len(spans)))
        return {"pages": [list(s) for s in spans], "gists": gists, "notes": pages.notes}

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Sequence[Index], tools: Tools
    ) -> Answer:
        """Look pages up, read them among the gists of the others."""
        (document,), (index,) = documents, indexes
        spans = [(int(a), int(b)) for a, b in index["pages"]]
        gists = [str(gist) for gist in index["gists"]]
        model = tools.model()
        form = reading.Reading(tools.task, self.config.window, self.config)
        chosen, step = self._look_up(question, gists, index["notes"], tools) if gists else ([], Step("look-up"))
        full = [document.text[a:b].strip() for a, b in spans]
        room = reading.room_for_text(question, tools, model, form)
        kept = list(chosen)
        while kept and _tokens(_mixed(gists, full, kept), model) > room:
            kept.pop()  # the one named last
        texts = _mixed(gists, full, kept)
        if _tokens(texts, model) > room:
            raise QuestionError(
                f"the gists of {len(gists)} pages do not fit the {room} tokens that the question leaves; lower "
                "method.gist_tokens, or raise method.window or model.window"
            )
        text = reading.ask(question, texts, tools, model, form)
        shown = tuple(
            Shown("span", document.id, *span)
            if i in kept
            else Shown("generated", document.id, text=gists[i], sources=((document.id, *span),))
            for i, span in enumerate(spans)
            if i in kept or gists[i]
        )
        steps = [
            step,
            *(Step("page", i, tokens=model.count(full[i]), shown=Shown("span", document.id, *spans[i])) for i in kept),
        ]
        reason = (
            f"{len(kept)} of {len(chosen)} pages fit" if len(kept) < len(chosen) else f"{len(kept)} pages looked up"
        )
        return Answer(text, shown, reason, tuple(steps))

    def _share(self, pages: int, model: MeteredModel) -> int:
        """Tokens of a gist: what the window leaves for all of them, beside the question and one page's length."""
        config = self.config
        window = window_of(config.window, model)
        frame = LOOKUP.of(config).fill(pages=[], question=[""], most="99")
        room = window - prompt_tokens(frame, model) - config.reply_tokens - window // 8
        label = PAGE.of(config).fill(number=str(pages), gist=[])
        most: int = min(config.gist_tokens, room // max(pages, 1) - sum(map(model.count, label)))
        if most < 1:
            raise QuestionError(
                f"a window of {window} tokens does not hold the gists of {pages} pages; raise method.page_words, "
                "method.window or model.window"
            )
        return most

    def _look_up(self, question: Question, gists: list[str], notes: list[str], tools: Tools) -> tuple[list[int], Step]:
        """The pages to read again, in the order named; an empty list if no reply could be parsed."""
        config, model = self.config, tools.model("searcher")
        pieces = _lookup(question, gists, config)
        how = Retry(config.retries, config.temperature, window=config.window, seed=tools.seed)
        with tools.phase("search"):
            response = ask_parsed(model, pieces, config.reply_tokens, lambda reply: numbered(reply, "Pages"), how)
        named = response.found or []
        pages = [i for i in named if i < len(gists)][: config.most_pages]
        messages = [*notes, *response.notes, f"pages {', '.join(map(str, pages)) or 'none'}"]
        if len(pages) < len(named):
            messages.append(f"{len(named) - len(pages)} of {len(named)} numbers were dropped")
        scores = {"pages": float(len(pages)), "replies": float(response.replies)}
        step = Step(
            "look-up", scores=scores, tokens=response.tokens, flops=tools.meter.flops(), note="; ".join(messages)
        )
        return pages, step


def _lookup(question: Question, gists: Sequence[str], config: Gist.Config) -> Pieces:
    page = PAGE.of(config)
    pages = [piece for i, gist in enumerate(gists) for piece in page.fill(number=str(i), gist=[gist])]
    query = question.text + reading.options(question)
    return LOOKUP.of(config).fill(pages=pages, question=[query], most=str(config.most_pages))


def _mixed(gists: Sequence[str], full: Sequence[str], chosen: Sequence[int]) -> list[str]:
    """Gists, and the chosen pages whole, in the order of the text; empty gists are left out."""
    return [text for i, gist in enumerate(gists) if (text := full[i] if i in chosen else gist)]


def _tokens(texts: Sequence[str], model: MeteredModel) -> int:
    return sum(map(model.count, texts)) + max(len(texts) - 1, 0) * model.count(reading.SEPARATOR)


def _reply(pieces: Sequence[str], tools: Tools, role: str) -> None:
    model = tools.model(role)
    with model.session() as s:
        feed(s, pieces)
        s.write(s.room() - model.turn_tokens())
