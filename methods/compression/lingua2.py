"""LLMLingua-2 (Pan et al. 2024, arXiv 2403.12968): a classifier says which words are worth keeping.

    text ──► chunks of 510 tokens, ended at a full stop or line break ──► p(keep) of each token ──► mean over a word
    words above a percentile of their chunk are kept, so every chunk is compressed by the same rate

Where the text is several contexts, those of the lowest mean p(keep) are left out first (FlashRAG;
the released code's context level). The white space before a word goes with it, and a Chinese or
Japanese character is a word. Source: docs/methods/compression.md#llmlingua-2.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from pydantic import Field

from harness.method import Index, Indexes, MethodConfig, Tools, Traits
from harness.types import Answer, Document, Question
from methods import reading
from methods.chunks import Span
from methods.compression.classifier import Style, TokenClassifier, Tokenized, Weights, find, load
from methods.compression.contexts import titled_lines
from methods.compression.show import Compressed, answer_from, with_blank_lines
from methods.kept_text import join_spans

_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")


class Lingua2Config(MethodConfig):
    """classifier           a folder or hub id of a token classifier with two classes
    rate                    words kept, by their tokens
    target_tokens           tokens kept, instead of `rate` (released: target_token)
    force_tokens            words that are always kept
    force_reserve_digit     keep every token with a digit
    drop_consecutive        of several `force_tokens` in a row, alike, keep one
    token_to_word           a word's probability: "mean" of its tokens', or the "first" one's
    chunk_end_tokens        where a chunk may end
    contexts                "whole" = the text is one context; "titled-lines" = every line is one, a title with the line
                            behind it (FlashRAG)
    use_context_level_filter  of several contexts, keep the best of twice `target_tokens`, or of (rate + 1) / 2
    """

    classifier: str = "microsoft/llmlingua-2-xlm-roberta-large-meetingbank"
    rate: float = Field(default=0.5, gt=0, le=1)
    target_tokens: int | None = Field(default=None, gt=0)
    force_tokens: tuple[str, ...] = ()
    force_reserve_digit: bool = False
    drop_consecutive: bool = False
    token_to_word: Literal["mean", "first"] = "mean"
    chunk_end_tokens: tuple[str, ...] = (".", "\n")
    contexts: Literal["whole", "titled-lines"] = "whole"
    use_context_level_filter: bool = True


@dataclass(frozen=True)
class Word:
    """text[start:end] with the white space before it (text[gap:start]); tokens [first, last) of its
    chunk."""

    gap: int
    start: int
    end: int
    first: int
    last: int


class _Chunk:
    """Words of one request to the classifier, in a text; `keep` asks it once."""

    def __init__(self, text: str, tokens: Tokenized, gap: int, classifier: TokenClassifier) -> None:
        self.text, self.tokens, self._classifier = text, tokens, classifier
        self.words = words_of(text, tokens, classifier.style, gap)

    @cached_property
    def keep(self) -> np.ndarray:
        """p(keep) of each token of the chunk, [tokens]."""
        return self._classifier.keep(self.tokens.tokens)

    def word_values(self, config: Lingua2Config, tokens: np.ndarray) -> list[float]:
        """p(keep) of each word; tokens: p(keep) of each token of the chunk."""
        first = config.token_to_word == "first"
        return [
            float(tokens[w.first] if first else tokens[w.first : w.last].mean()) for w in self.words
        ]


@dataclass(frozen=True)
class _Context:
    """document[start:] begins with a context of `tokens` tokens in chunks."""

    start: int
    tokens: int
    chunks: tuple[_Chunk, ...]

    @classmethod
    def of(
        cls, text: str, start: int, config: Lingua2Config, classifier: TokenClassifier
    ) -> _Context:
        """Cut `text`, which stands at `start` in the document, into chunks for the classifier."""
        tokenized = classifier.tokenize(text)
        chunks: list[_Chunk] = []
        first = gap = 0
        for last in chunk_ends(text, tokenized, classifier.max_tokens, config.chunk_end_tokens):
            part = Tokenized(tokenized.tokens[first:last], tokenized.offsets[first:last])
            chunks.append(_Chunk(text, part, gap, classifier))
            first, gap = last, chunks[-1].words[-1].end
        return cls(start, len(tokenized.tokens), tuple(chunks))

    def mean(self, config: Lingua2Config) -> float:
        """Mean p(keep) of its words; forced words count as the classifier says."""
        return float(
            np.mean(
                [value for chunk in self.chunks for value in chunk.word_values(config, chunk.keep)]
            )
        )


class LLMLingua2(reading.ReadingMethod):
    """Keep the words that a token classifier selects; the question plays no part."""

    Config = Lingua2Config
    summary = "words that a trained classifier keeps (LLMLingua-2)"
    traits = Traits(draws=False)
    scope = "document"

    def problems(self) -> list[str]:
        """None; raises CannotRun for a classifier that is not here."""
        find(self.config.classifier)
        return []

    def index(self, document: Document, tools: Tools) -> Index:
        """The compressed document, and which weights it is from. Raises CannotRun where there are
        none."""
        weights = find(self.config.classifier)
        return {**self._compress(document, weights, tools).to_index(), "weights": weights.identity}

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Read the compressed document; it is compressed again where the folder holds other weights
        by now."""
        (document,), (index,) = documents, indexes
        weights = find(self.config.classifier)
        if index["weights"] == weights.identity:
            return answer_from(question, document, Compressed.from_index(index), tools, self.config)
        with tools.phase("search"):
            compressed = self._compress(document, weights, tools)
        return answer_from(question, document, compressed, tools, self.config)

    def _compress(self, document: Document, weights: Weights, tools: Tools) -> Compressed:
        """The document's words that the classifier keeps, within target_tokens or rate; all of it
        in chunks."""
        classifier, config, text = load(weights, tools.meter), self.config, document.text
        spans = [(0, len(text))] if config.contexts == "whole" else titled_lines(document)
        every = [_Context.of(text[a:b], a, config, classifier) for a, b in spans]
        total = sum(context.tokens for context in every)
        contexts = _best_contexts([context for context in every if context.chunks], total, config)
        left = sum(context.tokens for context in contexts)
        rate = config.rate
        if config.target_tokens is not None:
            rate = min(config.target_tokens / max(left, 1), 1.0)
        groups: list[list[Span]] = []
        after = done = 0
        for context in contexts:
            groups.append([])
            for chunk in context.chunks:
                keep = _words_kept(chunk, rate, config)
                pieces = _kept_spans(chunk.text, chunk.words, keep, config)
                groups[-1] += [(a + context.start, b + context.start) for a, b in pieces]
                after += sum(
                    word.last - word.first
                    for word, stays in zip(chunk.words, keep, strict=True)
                    if stays
                )
                done += len(chunk.tokens.tokens)
                tools.progress(done, left, "tokens classified")
        return Compressed(with_blank_lines([join_spans(group) for group in groups]), total, after)


def _best_contexts(contexts: list[_Context], total: int, config: Lingua2Config) -> list[_Context]:
    """The contexts whose mean p(keep) is at the percentile int(100 (1 - rate)) or above, in their
    order."""
    if len(contexts) < 2 or not config.use_context_level_filter:
        return contexts
    target = config.target_tokens
    rate = (config.rate + 1) / 2 if target is None else min(2 * target / total, 1.0)
    means = [context.mean(config) for context in contexts]
    limit = float(np.percentile(means, int(100 * (1 - rate))))
    return [context for context, mean in zip(contexts, means, strict=True) if mean >= limit]


def chunk_ends(text: str, tokenized: Tokenized, max_tokens: int, stops: Sequence[str]) -> list[int]:
    """The end of each chunk of at most `max_tokens`, in tokens: behind its last stop, if any; at
    last the text's."""
    total = len(tokenized.tokens)
    ends: list[int] = []
    at = 0
    while total - at > max_tokens:
        last = (
            i
            for i in range(at + max_tokens, at, -1)
            if _stops_before(text, tokenized.offsets, i, stops)
        )
        at = next(last, at + max_tokens)
        ends.append(at)
    if total > at:
        return [*ends, total]
    return ends


def _stops_before(text: str, offsets: list[tuple[int, int]], i: int, stops: Sequence[str]) -> bool:
    """Whether token i - 1 is one of `stops`, or a stop of white space stands between it and token
    i."""
    (a, b), following = offsets[i - 1], offsets[i][0]
    gap = text[b:following]
    return text[a:b].strip() in stops or any(stop in gap for stop in stops if stop.isspace())


def words_of(text: str, chunk: Tokenized, style: Style, gap: int) -> list[Word]:
    """The words of a chunk; style: how tokens mark the beginning of a word; gap: the end of the
    word before it."""
    words: list[Word] = []
    for i, (token, (a, b)) in enumerate(zip(chunk.tokens, chunk.offsets, strict=True)):
        inside = text[a:b]
        start = b - len(inside.lstrip())
        before = gap
        if words:
            before = words[-1].end
        if style == "wordpiece":
            begins = not token.startswith("##")
        else:
            begins = (
                token.startswith("\u2581")
                or inside in string.punctuation
                or bool(_WIDE.match(inside))
            )
        if not words or begins or text[before:start].isspace():
            words.append(Word(before, max(start, before), max(b, before), i, i + 1))
        else:
            last = words[-1]
            words[-1] = Word(last.gap, last.start, max(last.end, b), last.first, i + 1)
    return words


def _words_kept(chunk: _Chunk, rate: float, config: Lingua2Config) -> list[bool]:
    """Whether each word of a chunk is kept at this rate."""
    words, text = chunk.words, chunk.text
    if rate >= 1:
        return [True] * len(words)
    tokens = chunk.keep
    if config.force_reserve_digit:
        digits = [any(c.isdigit() for c in text[a:b]) for a, b in chunk.tokens.offsets]
        tokens = np.where(digits, 1.0, tokens)
    forced = [text[word.start : word.end] in config.force_tokens for word in words]
    values = [
        1.0 if stays else value
        for stays, value in zip(forced, chunk.word_values(config, tokens), strict=True)
    ]
    return above_percentile(values, [w.last - w.first for w in words], rate)


def above_percentile(values: Sequence[float], tokens: Sequence[int], rate: float) -> list[bool]:
    """Which words have `values` above a percentile of all tokens', at 1.0 equal ones too; tokens:
    number in a word."""
    percentile = min(int(100 * (1 - rate) + 1), 100)
    limit = float(np.percentile(np.repeat(values, tokens), percentile))
    return [value > limit or value == limit == 1.0 for value in values]


def _kept_spans(
    text: str, words: list[Word], keep: list[bool], config: Lingua2Config
) -> list[Span]:
    """Spans of the kept words, each with the white space before it, and of line breaks that are
    kept alone."""
    breaks = "\n" in config.force_tokens
    spans: list[Span] = []
    last = ""
    for word, stays in zip(words, keep, strict=True):
        written = text[word.start : word.end]
        repeated = config.drop_consecutive and written in config.force_tokens and written == last
        if stays and not repeated:
            spans.append((word.gap, word.end))
            last = written
        elif (
            breaks
            and "\n" in text[word.gap : word.start]
            and not (config.drop_consecutive and last == "\n")
        ):
            spans.append((word.gap, word.start))
            last = "\n"
    return spans
