"""LLMLingua (Jiang et al. 2023, arXiv 2310.05736) and LongLLMLingua (arXiv 2310.06839) as the
engine sees them.

    document ──contexts──► ranked, within a budget ──sentences──► tokens ──► the shared reading prompt

LLMLingua does not read the question, so a document is compressed once, when it is indexed;
LongLLMLingua compresses for every question. The token level
(docs/methods/compression.md#lingua-tokens) goes window after window, each read behind what was kept
of those before it:

    first pass    surprise of the whole text, as much of it as the compressor's window holds
    each window   its surprise again, behind the kept tokens (the first window has the first pass's)
                  threshold = the score at the keep ratio of all scores of tokens that are still
                  there tokens with a score above it are kept

With `condition_compare` a score is the surprise without the question less the surprise behind it:
two contexts.

A token that was kept keeps the score it was kept for; the released code scores it once more, so
from the second window on the texts differ. In a text shorter than a window its indices run below
zero; here it is one short window. Where contexts are read behind the question without
`condition_compare`, its own tokens are no part of the threshold.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from harness.errors import WindowExceeded
from harness.method import Index, Indexes, Needs, Tools
from harness.method.training import Skill
from harness.models import MeteredModel
from harness.types import Answer, Document, Question, Shown, Step
from methods import reading
from methods.chunks import Span
from methods.compression import library, ranking, show
from methods.compression.config import LinguaConfig, LLMLinguaConfig, LongLLMLinguaConfig
from methods.compression.surprise import Context, Units, spans_of_kept, units_of

Windows = list[list[tuple[int, float]]]


def keep_ratios(sizes: Sequence[int], target: float, offsets: Sequence[float]) -> list[float]:
    """The keep ratio of each context (sizes: tokens): clip(tau + offset), tau = target / (sum(size
    + 2) + 1)."""
    tau = max(target, 0.0) / (sum(sizes) + 2 * len(sizes) + 1)
    return [min(max(tau + offset, 0.0), 1.0) for offset in offsets]


def window_stretches(sizes: Sequence[int], keep: Sequence[float], size: int) -> Windows:
    """Cut contexts of `sizes` tokens into windows of `size`: (tokens, keep ratio) of each stretch
    of each window.

    keep: the ratio of each context. A context counts two tokens more, for what separates it.
    """
    finished: Windows = []
    current: list[tuple[int, float]] = []
    room = size - 1  # the released code begins to count at 1
    for tokens, ratio in zip(sizes, keep, strict=True):
        left = tokens + 2
        while left >= room:
            finished.append([*current, (room, ratio)])
            current, left, room = [], left - room, size
        if left:
            current.append((left, ratio))
            room -= left
    return [*finished, current] if current else finished


class _WindowLoop:
    """The token level: drops `units` window after window; units [0, start) are the question, if it
    is read.

    Call `run` only once.

    alive [units], score [units] (NaN: not scored yet), at: the start of the next window.
    """

    def __init__(self, units: Units, start: int, config: LinguaConfig) -> None:
        self.units, self.start, self.config = units, start, config
        self.alive = np.ones(len(units), dtype=bool)
        self.score = np.full(len(units), np.nan)
        self.at = start
        self.separators = np.array(
            [not self.units.piece(i).strip("\r\n") for i in range(len(self.units))], dtype=bool
        )

    def run(
        self, windows: Windows, model: MeteredModel, progress: Callable[[int, int, str], None]
    ) -> np.ndarray:
        """Which units are kept [units], those of the question among them.

        Raises ModelOutputError for NaN log-probabilities, WindowExceeded where a window does not
        fit beside the question.
        """
        with contextlib.ExitStack() as stack:
            contexts = [stack.enter_context(Context(model, self.units, self.start))]
            if self.config.condition_compare:
                contexts.append(stack.enter_context(Context(model, self.units, 0)))
            self.first_pass(contexts)
            for number, window in enumerate(windows):
                last = self.scoring_end(number, window)
                if last is None:
                    break
                if number:
                    self.score_units(contexts, last)
                fresh = self.drop(window)
                for context in contexts:
                    context.append(fresh)
                progress(self.at, len(self.units), "tokens compressed")
        return self.alive

    def first_pass(self, contexts: list[Context]) -> None:
        """Score the whole text, or what the window holds of it."""
        last = self.start
        room = min(context.room() for context in contexts)
        while last < len(self.units) and self.units.sizes[last] <= room:
            room -= self.units.sizes[last]
            last += 1
        size = min(self.config.iterative_size, len(self.units) - self.start)
        if last - self.start < size:
            raise WindowExceeded(
                f"the compressor's window holds {last - self.start} tokens of text beside the "
                "question, less than a "
                f"window of method.iterative_size={size}; lower it or raise model.window"
            )
        self.score_units(contexts, last)

    def score_units(self, contexts: list[Context], last: int) -> None:
        """Score units [at, last) behind what was kept; with credit "next" a unit is judged by the
        one behind it.

        contexts: `contexts[0]` begins with the units [0, start), a second one with none.
        """
        first = self.at
        scores = contexts[0].score(first, last)
        if len(contexts) > 1:
            scores = contexts[1].score(first, last) - scores
        if self.config.credit == "own":
            self.score[first:last] = scores
            return
        before = np.flatnonzero(self.alive[self.start : first])
        if len(before):
            self.score[self.start + before[-1]] = scores[0]
        self.score[first : last - 1] = scores[1:]

    def scoring_end(self, number: int, window: list[tuple[int, float]]) -> int | None:
        """The end of the units to score for `window`, the one of this number; None at the end of
        the text."""
        total, size = len(self.units), self.config.iterative_size
        if self.at >= total or (
            number and self.config.last_window == "kept" and total - self.at < size
        ):
            return None
        last = min(self.at + max(size, sum(tokens for tokens, _ in window)), total)
        # The decision about a window's last unit is that of the unit behind it, which may not be
        # scored yet.
        return min(last + 1, total) if np.isnan(self.score[last - 1]) else last

    def drop(self, window: list[tuple[int, float]]) -> list[int]:
        """Drop the lowest scores of a window, given as (tokens, keep ratio) of stretches; returns
        the units kept."""
        began = self.at
        for tokens, ratio in window:
            last = min(self.at + tokens, len(self.units))
            kept_scores = self.score[self.start :][self.alive[self.start :]]
            limit = threshold(kept_scores[~np.isnan(kept_scores)], ratio)
            here = self.score[self.at : last]
            # What has no score (the text's last token, for want of one behind it) is kept, as in
            # the released code.
            self.alive[self.at : last] = np.isnan(here) | (here > limit)
            if self.config.keep_split:
                self.alive[self.at : last] |= self.separators[self.at : last]
            self.at = last
        return (began + np.flatnonzero(self.alive[began : self.at])).tolist()


def threshold(scores: np.ndarray, ratio: float) -> float:
    """The score at the keep ratio, from the highest down; tokens strictly above it stay. -inf where
    all stay."""
    if ratio >= 1.0 or not len(scores):
        return float("-inf")
    rank = max(0, min(len(scores) - 1, int(len(scores) * ratio) - 1))
    return float(np.sort(scores)[::-1][rank])


class LLMLingua(show.CompressedMethod):
    """Drop the tokens that a small model predicts well; the question plays no part."""

    Config = LLMLinguaConfig
    summary = "tokens that a small model can guess are left out (LLMLingua)"
    draws = False

    def index(self, document: Document, tools: Tools) -> Index:
        """The index: the document, compressed."""
        return compress_document(document, self.config, tools).to_index()


class LongLLMLingua(reading.ReadingMethod):
    """Contexts by how well the question follows them, tokens by what the question changes about
    their surprise."""

    Config = LongLLMLinguaConfig
    summary = "contexts and tokens that matter to the question are kept (LongLLMLingua)"
    draws = False
    needs: ClassVar[Needs] = {"reader": frozenset(), "compressor": frozenset({"score"})}
    own_prompts = (ranking.RESTRICTIVE,)  # behind the question while contexts are ranked

    def skills(self) -> list[Skill]:
        """Short answers and choices after a text; likely questions after texts, and likely texts
        after questions."""
        return [
            *reading.skills(self.config),
            show.ranking_skill(ranking.RESTRICTIVE.of(self.config)),
            show.TEXT,
        ]

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Compress the document for the question, then read what is left."""
        (document,), config = documents, self.config
        before = question.text if config.prefixed else ""
        if config.add_instruction:
            before += show.SEPARATOR + tools.task.instruction
        request = reading.Reading(tools.task, config.window, config)
        # Cutting off what does not fit loses its end; a lower target loses what matters least.
        room = max(reading.room_for_text(question, tools, tools.model(), request), 1)
        with tools.phase("search"):
            compressed = compress_document(document, config, tools, question.text, before, room)
        return show.answer_from(question, document, compressed, tools, self.config)


def compress_document(
    document: Document,
    config: LinguaConfig,
    tools: Tools,
    question: str = "",
    before: str = "",
    max_tokens: int | None = None,
) -> show.Compressed:
    """Compress `document` to config.target_tokens, or config.rate of its tokens, and to
    `max_tokens` tokens.

    question: what ranks the contexts, "" for none; before: what the token level reads before the
    text, "" for nothing.
    """
    model, text = tools.model("compressor"), document.text
    spans = [
        span
        for span in ranking.context_spans(document, question, config, model)
        if text[slice(*span)].strip()
    ]
    sizes = [model.count(text[a:b]) for a, b in spans]
    total = sum(sizes)
    target = float(total * config.rate if config.target_tokens is None else config.target_tokens)
    target = target if max_tokens is None else min(target, max_tokens)
    if not spans:
        return show.Compressed([], 0, 0)
    if config.engine == "library":
        return library.compress_by_package(text, spans, target, question, config, tools)
    if config.use_context_level_filter and len(spans) > 1:
        asked = question + ranking.RESTRICTIVE.of(config).text
        priority = ranking.priorities([text[a:b] for a, b in spans], asked, config, tools)
        chosen = ranking.choose_contexts(sizes, priority, target, config)
    else:
        chosen = [ranking.Chosen(i, 0.0, 0.0) for i in range(len(spans))]
    groups = [[spans[c.number]] for c in chosen]
    if config.use_sentence_level_filter:
        groups = ranking.choose_sentences(
            text, [spans[c.number] for c in chosen], question, target, config, tools
        )
    pieces, after = _drop_tokens(
        text, groups, [c.offset for c in chosen], before, target, config, tools
    )
    steps = []
    for c in chosen:
        scores = {"priority": c.score, "ratio offset": c.offset}
        shown = Shown("span", document.id, *spans[c.number])
        steps.append(Step("context", c.number, scores=scores, tokens=sizes[c.number], shown=shown))
    return show.Compressed(pieces, total, after, steps)


def _drop_tokens(
    text: str,
    groups: list[list[Span]],
    offsets: list[float],
    before: str,
    target: float,
    config: LinguaConfig,
    tools: Tools,
) -> tuple[list[show.Piece], int]:
    """Drop the tokens that the compressor could guess; return the kept pieces of `text` and how
    many tokens they have.

    groups: the kept spans of each context; offsets: added to the ratio that each context keeps;
    before: the question that stands in front of them, "" for none; target: tokens to keep of all.
    """
    model = tools.model("compressor")
    layout = show.with_blank_lines(groups)
    shown = ["".join(text[a:b] for a, b in group) for group in groups]
    if not config.use_token_level_filter:
        return layout, sum(map(model.count, shown)) + model.count(show.SEPARATOR) * max(
            len(shown) - 1, 0
        )
    parts = [units_of(context, model) for context in shown if context]
    offsets = [offset for offset, context in zip(offsets, shown, strict=True) if context]
    keep = keep_ratios([sum(units.sizes) for units in parts], target, offsets)
    head = before + show.SEPARATOR if before else ""
    units = units_of(head + show.SEPARATOR.join(c for c in shown if c), model)
    # A token may hold the end of the head and the beginning of the text; it is then the text's.
    start = next((i for i in range(len(units)) if units.cuts[i + 1] > len(head)), len(units))
    windows = window_stretches([len(p) for p in parts], keep, config.iterative_size)
    alive = _WindowLoop(units, start, config).run(windows, model, tools.progress)
    alive[:start] = False
    after = sum(size for size, stays in zip(units.sizes, alive.tolist(), strict=True) if stays)
    kept = [(a - len(head), b - len(head)) for a, b in spans_of_kept(units, alive)]
    return show.spans_in_document(layout, kept), after
