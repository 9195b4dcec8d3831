"""LLMLingua-2 (Pan et al. 2024, arXiv 2403.12968): a classifier says which words are worth keeping.

    text ──► chunks of 510 tokens, ended at a full stop or line break ──► p(keep) of each token ──► mean over a word
    words above a percentile of their chunk are kept, so every chunk is compressed by the same rate

Where the text is several contexts, those of the lowest mean p(keep) are left out first (FlashRAG;
the released code's context level). The white space before a word goes with it, and a Chinese or
Japanese character is a word. Source: docs/methods/compression.md#llmlingua-2.
"""

from __future__ import annotations

import itertools
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from harness.method import Index, Indexes, MethodConfig, Tools, Traits
from harness.method.settings import index_setting
from harness.types import Answer, Document, Question
from methods import reading
from methods.chunks import Span
from methods.compression.classifier import Style, TokenClassifier, Tokenized, Weights, find, load
from methods.compression.contexts import titled_lines
from methods.compression.show import Compressed, answer_from, with_blank_lines
from methods.kept_text import join_spans

_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")


class Lingua2Config(MethodConfig):
    """Settings of this method; all of them change the compressed document."""

    classifier: str = index_setting(
        "microsoft/llmlingua-2-xlm-roberta-large-meetingbank",
        help="A folder or hub id of a token classifier with two classes.",
    )
    rate: float = index_setting(0.5, gt=0, le=1, help="Share of the tokens whose words are kept.")
    target_tokens: int | None = index_setting(
        None, gt=0, help="Tokens kept, instead of `rate` (released: target_token)."
    )
    force_tokens: tuple[str, ...] = index_setting((), help="Words that are always kept.")
    force_reserve_digit: bool = index_setting(False, help="Keep every token with a digit.")
    drop_consecutive: bool = index_setting(
        False, help="Of several `force_tokens` in a row, alike, keep one."
    )
    token_to_word: Literal["mean", "first"] = index_setting(
        "mean", help='A word\'s probability: the "mean" of its tokens\', or the "first" one\'s.'
    )
    chunk_end_tokens: tuple[str, ...] = index_setting(
        (".", "\n"), help="Where a request to the classifier may end."
    )
    contexts: Literal["whole", "titled-lines"] = index_setting(
        "whole",
        help=(
            '"whole": the text is one context; "titled-lines": every line is one, a title with '
            "the line after it (FlashRAG)."
        ),
    )
    use_context_level_filter: bool = index_setting(
        True,
        help=("Of several contexts, keep the best of twice `target_tokens`, or of (rate + 1) / 2."),
    )


@dataclass(frozen=True)
class Word:
    """A word of a text.

    Attributes:
        gap: Where the white space before it starts: that is text[gap:start].
        start: Its first character.
        end: The character after its last one.
        first: Its first token in its chunk.
        last: The token after its last one.
    """

    gap: int
    start: int
    end: int
    first: int
    last: int

    @property
    def tokens(self) -> int:
        """How many tokens it has."""
        return self.last - self.first


class _Chunk:
    """The part of a text that one request to the classifier has.

    Attributes:
        text: The whole text.
        tokens: The tokens of the part.
        words: The words of the part, with their places in the whole text.
    """

    def __init__(self, text: str, tokens: Tokenized, gap: int, classifier: TokenClassifier) -> None:
        """Keep a part of a text, and join its tokens into words.

        Args:
            text: The whole text.
            tokens: The tokens of the part, with their places in the whole text.
            gap: Where the last word before the part ends.
            classifier: The classifier, which is asked for probabilities when they are needed.
        """
        self.text = text
        self.tokens = tokens
        self._classifier = classifier
        self.words = words_of(text, tokens, classifier.style, gap)

    @cached_property
    def keep(self) -> np.ndarray:
        """p(keep) of each token of the chunk [tokens]; the classifier is asked once."""
        return self._classifier.keep(self.tokens.tokens)

    def word_values(self, config: Lingua2Config, tokens: np.ndarray) -> list[float]:
        """p(keep) of each word [words]: the mean of its tokens', or the first one's
        (`token_to_word`).

        Args:
            config: The method's settings.
            tokens: p(keep) of each token of the chunk [tokens].
        """
        if config.token_to_word == "first":
            return [float(tokens[word.first]) for word in self.words]
        return [float(tokens[word.first : word.last].mean()) for word in self.words]


@dataclass(frozen=True)
class _Context:
    """A context: the whole document, or a line of it.

    Attributes:
        start: Its first character in the document.
        tokens: How many tokens it has.
        chunks: Its parts that the classifier can read.
    """

    start: int
    tokens: int
    chunks: tuple[_Chunk, ...]

    @classmethod
    def of(
        cls, text: str, start: int, config: Lingua2Config, classifier: TokenClassifier
    ) -> _Context:
        """Cut a context into chunks that the classifier can read.

        Args:
            text: The context's text.
            start: Its first character in the document.
            config: The method's settings.
            classifier: Gives tokens, and says how many of them it can read.
        """
        tokenized = classifier.tokenize(text)
        chunks: list[_Chunk] = []
        first = 0
        gap = 0
        for last in chunk_ends(text, tokenized, classifier.max_tokens, config.chunk_end_tokens):
            part = Tokenized(tokenized.tokens[first:last], tokenized.offsets[first:last])
            chunks.append(_Chunk(text, part, gap, classifier))
            first = last
            gap = chunks[-1].words[-1].end
        return cls(start, len(tokenized.tokens), tuple(chunks))

    def mean(self, config: Lingua2Config) -> float:
        """The mean p(keep) of the context's words, as the classifier gives it: a forced word counts
        like any other."""
        values: list[float] = []
        for chunk in self.chunks:
            values += chunk.word_values(config, chunk.keep)
        return float(np.mean(values))


class LLMLingua2(reading.ReadingMethod):
    """Keep the words that a token classifier selects; the question plays no part."""

    Config = Lingua2Config
    summary = "words that a trained classifier keeps (LLMLingua-2)"
    traits = Traits(draws=False)
    scope = "document"

    def problems(self) -> list[str]:
        """No sentence, as no setting is wrong by itself; checks that the classifier's weights are
        here.

        Raises:
            CannotRun: They are not.
        """
        find(self.config.classifier)
        return []

    def index(self, document: Document, tools: Tools) -> Index:
        """The index of a document: the compressed document (`Compressed.to_index`), and "weights",
        which says by what hash of the classifier's files.

        Raises:
            CannotRun: The weights are not here.
        """
        weights = find(self.config.classifier)
        return {**self._compress(document, weights, tools).to_index(), "weights": weights.identity}

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Answer from the compressed document of the index; it is compressed again where the
        classifier's folder holds other weights by now."""
        (document,) = documents
        (index,) = indexes
        weights = find(self.config.classifier)
        if index["weights"] == weights.identity:
            return answer_from(question, document, Compressed.from_index(index), tools, self.config)
        with tools.phase("search"):
            compressed = self._compress(document, weights, tools)
        return answer_from(question, document, compressed, tools, self.config)

    def _compress(self, document: Document, weights: Weights, tools: Tools) -> Compressed:
        """Keep those words of a document that the classifier finds worth it, down to target_tokens
        or rate.

        Args:
            document: The document.
            weights: The classifier's weights.
            tools: The engine's tools; progress is reported in tokens.
        """
        classifier = load(weights, tools.meter)
        config = self.config
        text = document.text
        spans = [(0, len(text))]
        if config.contexts == "titled-lines":
            spans = titled_lines(document)
        every = [_Context.of(text[a:b], a, config, classifier) for a, b in spans]
        total = sum(context.tokens for context in every)
        filled = [context for context in every if context.chunks]
        contexts = _best_contexts(filled, total, config)
        left = sum(context.tokens for context in contexts)
        rate = config.rate
        if config.target_tokens is not None:
            rate = min(config.target_tokens / max(left, 1), 1.0)
        groups: list[list[Span]] = []  # of each context the spans that stay
        after = 0  # tokens of the words that stay
        done = 0  # tokens that were classified
        for context in contexts:
            spans_kept: list[Span] = []
            for chunk in context.chunks:
                keep = _words_kept(chunk, rate, config)
                pieces = _kept_spans(chunk.text, chunk.words, keep, config)
                spans_kept += [(a + context.start, b + context.start) for a, b in pieces]
                after += sum(word.tokens for word in itertools.compress(chunk.words, keep))
                done += len(chunk.tokens.tokens)
                tools.progress(done, left, "tokens classified")
            groups.append(join_spans(spans_kept))
        return Compressed(with_blank_lines(groups), total, after)


def _best_contexts(contexts: list[_Context], total: int, config: Lingua2Config) -> list[_Context]:
    """Choose contexts by their mean p(keep): those at the percentile int(100 (1 - rate)) or above.

    The rate is the setting's, brought halfway to 1, or twice target_tokens by the text's tokens.

    Args:
        contexts: All contexts that have words.
        total: Tokens of the text, from which the rate follows where target_tokens is set.
        config: The method's settings.

    Returns:
        The chosen contexts, in the order of the text.
    """
    if len(contexts) < 2 or not config.use_context_level_filter:
        return contexts
    rate = (config.rate + 1) / 2
    if config.target_tokens is not None:
        rate = min(2 * config.target_tokens / total, 1.0)
    means = [context.mean(config) for context in contexts]
    limit = float(np.percentile(means, int(100 * (1 - rate))))
    return [context for context, mean in zip(contexts, means, strict=True) if mean >= limit]


def chunk_ends(text: str, tokenized: Tokenized, max_tokens: int, stops: Sequence[str]) -> list[int]:
    """Find where the chunks of a text end, each after the last stop that it can hold.

    Args:
        text: The text.
        tokenized: The tokens of the text.
        max_tokens: Most tokens of a chunk.
        stops: The tokens that a chunk ends after, if it has any.

    Returns:
        The end of each chunk, in tokens; the last one is the end of the text.
    """
    total = len(tokenized.tokens)
    ends: list[int] = []
    at = 0
    while total - at > max_tokens:
        at = _chunk_end(text, tokenized, at, at + max_tokens, stops)
        ends.append(at)
    if total > at:
        ends.append(total)
    return ends


def _chunk_end(
    text: str, tokenized: Tokenized, start: int, limit: int, stops: Sequence[str]
) -> int:
    """The token after the last one of a chunk: after the last stop that it can hold, else where it
    is full.

    Args:
        text: The text.
        tokenized: The tokens of the text.
        start: The first token of the chunk.
        limit: The token after the last one that the chunk can hold.
        stops: The tokens that a chunk may end after.
    """
    for end in range(limit, start, -1):
        if _stops_before(text, tokenized.offsets, end, stops):
            return end
    return limit


def _stops_before(text: str, offsets: list[tuple[int, int]], i: int, stops: Sequence[str]) -> bool:
    """Whether a chunk may end before token i: token i - 1 is a stop, or the text between the two
    has a stop that is white space, such as a line break.

    Args:
        text: The text.
        offsets: (start, end) of each token in the text.
        i: The number of the token.
        stops: The texts that a chunk may end after.
    """
    start, end = offsets[i - 1]
    next_start, _ = offsets[i]
    if text[start:end].strip() in stops:
        return True
    gap = text[end:next_start]
    return any(stop in gap for stop in stops if stop.isspace())


def words_of(text: str, chunk: Tokenized, style: Style, gap: int) -> list[Word]:
    """Join the tokens of a chunk into words.

        "Ann left." with the tokens "Ann", "le", "##ft", "."  ->  the words "Ann", "left", "."

    A token that follows white space or that is marked as the first of a word starts one; any other
    token extends the last word. Tokens may overlap (two tokens of one character), so a word never
    starts or ends before the end of the last one.

    Args:
        text: The text of all chunks.
        chunk: The tokens of this chunk with their places in the text.
        style: How the tokenizer marks the first token of a word.
        gap: Where the last word before the chunk ends in the text.
    """
    words: list[Word] = []
    previous_end = gap
    for i, token in enumerate(chunk.tokens):
        start, end = chunk.offsets[i]
        token_text = text[start:end]
        start = end - len(token_text.lstrip())
        follows_space = text[previous_end:start].isspace()
        new_end = max(end, previous_end)
        if not words or follows_space or _begins_word(token, token_text, style):
            words.append(Word(previous_end, max(start, previous_end), new_end, i, i + 1))
        else:
            words[-1] = replace(words[-1], end=new_end, last=i + 1)
        previous_end = new_end
    return words


def _begins_word(token: str, inside: str, style: Style) -> bool:
    r"""Whether a token begins a word.

    Args:
        token: The token as the tokenizer writes it: "##ing", "\u2581the".
        inside: The text that it stands for.
        style: "wordpiece": all but those with "##" begin a word; "metaspace": those with "\u2581",
            marks, and Chinese or Japanese characters do.
    """
    if style == "wordpiece":
        return not token.startswith("##")
    is_mark = inside in string.punctuation
    return token.startswith("\u2581") or is_mark or bool(_WIDE.match(inside))


def _words_kept(chunk: _Chunk, rate: float, config: Lingua2Config) -> list[bool]:
    """Choose the words of a chunk that stay.

    Args:
        chunk: The chunk, with p(keep) of its tokens.
        rate: The share of tokens that stay.
        config: The method's settings; forced words, and digits where they are reserved, count as
            p(keep) = 1.

    Returns:
        Whether each word stays [words].
    """
    if rate >= 1:
        return [True] * len(chunk.words)
    tokens = chunk.keep
    if config.force_reserve_digit:
        texts = [chunk.text[a:b] for a, b in chunk.tokens.offsets]
        has_digit = [any(map(str.isdigit, text)) for text in texts]
        tokens = np.where(has_digit, 1.0, tokens)
    values = chunk.word_values(config, tokens)
    for number, word in enumerate(chunk.words):
        if chunk.text[word.start : word.end] in config.force_tokens:
            values[number] = 1.0
    return above_percentile(values, [word.tokens for word in chunk.words], rate)


def above_percentile(values: Sequence[float], tokens: Sequence[int], rate: float) -> list[bool]:
    """Whether each word stays: those with a value above a percentile of all tokens' values.

    A value of 1.0 stays also where the percentile is 1.0.

    Args:
        values: The value of each word [words].
        tokens: How many tokens each word has; each counts with the word's value [words].
        rate: The share of tokens that stay.
    """
    percentile = min(int(100 * (1 - rate) + 1), 100)
    limit = float(np.percentile(np.repeat(values, tokens), percentile))
    if limit == 1.0:
        return [value >= limit for value in values]
    return [value > limit for value in values]


def _kept_spans(
    text: str, words: list[Word], keep: list[bool], config: Lingua2Config
) -> list[Span]:
    r"""The spans of a text that stay: words, each with the white space before it, and forced line
    breaks.

    Where "\n" is among `force_tokens`, the white space before a word that goes stays if it has a
    line break.

    Args:
        text: The chunk's text.
        words: The words of the chunk.
        keep: Whether each word stays.
        config: The method's settings; with drop_consecutive a forced token that follows itself
            goes.
    """
    keeps_breaks = "\n" in config.force_tokens
    spans: list[Span] = []
    last = ""
    for word, stays in zip(words, keep, strict=True):
        written = text[word.start : word.end]
        is_forced = written in config.force_tokens
        is_repeated = config.drop_consecutive and is_forced and written == last
        if stays and not is_repeated:
            spans.append((word.gap, word.end))
            last = written
            continue
        has_break = "\n" in text[word.gap : word.start]
        is_repeated_break = config.drop_consecutive and last == "\n"
        if keeps_breaks and has_break and not is_repeated_break:
            spans.append((word.gap, word.start))
            last = "\n"
    return spans
