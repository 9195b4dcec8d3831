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
from typing import Literal, NamedTuple

import numpy as np

from harness.method import Index, Indexes, MethodConfig, Tools, Traits
from harness.method.settings import index_setting
from harness.types import Answer, Document, Question
from methods import reading
from methods.chunks import Span, shifted
from methods.compression.classifier import (
    Style,
    TokenClassifier,
    Tokenized,
    Weights,
    load_classifier,
    locate_and_hash_weights,
)
from methods.compression.contexts import titled_line_spans
from methods.compression.show import Compressed, answer_from_compressed, contexts_as_pieces
from methods.kept_text import join_spans

_CHINESE_OR_JAPANESE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")


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
        gap_start: Where the white space before it starts: that is text[gap:start].
        start: Its first character.
        end: The character after its last one.
        first_token: Its first token in its chunk.
        end_token: The token after its last one.
    """

    gap_start: int
    start: int
    end: int
    first_token: int
    end_token: int

    @property
    def token_count(self) -> int:
        """How many tokens it has."""
        return self.end_token - self.first_token


class _Chunk:
    """The part of a text that one request to the classifier has.

    Attributes:
        text: The whole text.
        tokens: The tokens of the part.
        words: The words of the part, with their places in the whole text.
    """

    def __init__(
        self, text: str, tokens: Tokenized, gap_start: int, classifier: TokenClassifier
    ) -> None:
        """Keep a part of a text, and join its tokens into words.

        Args:
            text: The whole text.
            tokens: The tokens of the part, with their places in the whole text.
            gap_start: Where the last word before the part ends.
            classifier: The classifier, which is asked for probabilities when they are needed.
        """
        self.text = text
        self.tokens = tokens
        self._classifier = classifier
        self.words = join_tokens_into_words(text, tokens, classifier.style, gap_start)

    @cached_property
    def keep_probabilities(self) -> np.ndarray:
        """p(keep) of each token of the chunk [tokens]; the classifier is asked once."""
        return self._classifier.keep_probabilities(self.tokens.tokens)

    def word_probabilities(
        self, config: Lingua2Config, token_probabilities: np.ndarray
    ) -> list[float]:
        """p(keep) of each word [words]: the mean of its tokens', or the first one's
        (`token_to_word`).

        Args:
            config: The method's settings.
            token_probabilities: p(keep) of each token of the chunk [tokens].
        """
        if config.token_to_word == "first":
            return [float(token_probabilities[word.first_token]) for word in self.words]
        return [
            float(token_probabilities[word.first_token : word.end_token].mean())
            for word in self.words
        ]


@dataclass(frozen=True)
class _Context:
    """A context: the whole document, or a line of it.

    Attributes:
        start: Its first character in the document.
        token_count: How many tokens it has.
        chunks: Its parts that the classifier can read.
    """

    start: int
    token_count: int
    chunks: tuple[_Chunk, ...]

    @classmethod
    def cut_into_chunks(
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
        first_token = 0
        gap_start = 0
        for end_token in chunk_ends(
            text, tokenized, classifier.max_tokens, config.chunk_end_tokens
        ):
            part = Tokenized(
                tokenized.tokens[first_token:end_token], tokenized.offsets[first_token:end_token]
            )
            chunks.append(_Chunk(text, part, gap_start, classifier))
            first_token = end_token
            gap_start = chunks[-1].words[-1].end
        return cls(start, len(tokenized.tokens), tuple(chunks))

    def mean_word_probability(self, config: Lingua2Config) -> float:
        """The mean p(keep) of the context's words, as the classifier gives it: a forced word counts
        like any other."""
        probabilities: list[float] = []
        for chunk in self.chunks:
            probabilities += chunk.word_probabilities(config, chunk.keep_probabilities)
        return float(np.mean(probabilities))


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
        locate_and_hash_weights(self.config.classifier)
        return []

    def index(self, document: Document, tools: Tools) -> Index:
        """The index of a document: the compressed document (`Compressed.to_index`), and "weights",
        which says by what hash of the classifier's files.

        Raises:
            CannotRun: The weights are not here.
        """
        weights = locate_and_hash_weights(self.config.classifier)
        return {**self._compress(document, weights, tools).to_index(), "weights": weights.identity}

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Answer from the compressed document of the index; it is compressed again where the
        classifier's folder holds other weights by now."""
        (document,) = documents
        (index,) = indexes
        weights = locate_and_hash_weights(self.config.classifier)
        if index["weights"] == weights.identity:
            return answer_from_compressed(
                question, document, Compressed.from_index(index), tools, self.config
            )
        with tools.phase("search"):
            compressed = self._compress(document, weights, tools)
        return answer_from_compressed(question, document, compressed, tools, self.config)

    def _compress(self, document: Document, weights: Weights, tools: Tools) -> Compressed:
        """Keep those words of a document that the classifier finds worth it, down to target_tokens
        or rate: first the best contexts are chosen, then in each of their chunks the best words.

        Args:
            document: The document.
            weights: The classifier's weights.
            tools: The engine's tools; progress is reported in tokens.
        """
        classifier = load_classifier(weights, tools.meter)
        config = self.config
        text = document.text
        spans = [(0, len(text))]
        if config.contexts == "titled-lines":
            spans = titled_line_spans(document)
        all_contexts = [
            _Context.cut_into_chunks(text[start:end], start, config, classifier)
            for start, end in spans
        ]
        tokens_of_text = sum(context.token_count for context in all_contexts)
        contexts_with_words = [context for context in all_contexts if context.chunks]
        chosen_contexts = _best_contexts(contexts_with_words, tokens_of_text, config)
        tokens_to_classify = sum(context.token_count for context in chosen_contexts)
        rate = config.rate
        if config.target_tokens is not None:
            rate = min(config.target_tokens / max(tokens_to_classify, 1), 1.0)
        kept_of_contexts: list[list[Span]] = []
        tokens_kept = 0
        tokens_classified = 0
        for context in chosen_contexts:
            kept_spans: list[Span] = []
            for chunk in context.chunks:
                kept = _keep_words(chunk, rate, config)
                kept_spans += shifted(kept.spans, context.start)
                tokens_kept += kept.n_tokens
                tokens_classified += len(chunk.tokens.tokens)
                tools.progress(tokens_classified, tokens_to_classify, "tokens classified")
            kept_of_contexts.append(join_spans(kept_spans))
        return Compressed(
            contexts_as_pieces(kept_of_contexts),
            tokens_before=tokens_of_text,
            tokens_after=tokens_kept,
        )


def _best_contexts(
    contexts: list[_Context], tokens_of_text: int, config: Lingua2Config
) -> list[_Context]:
    """Choose contexts by their mean p(keep): those at the percentile int(100 (1 - rate)) or above.

    The rate is the setting's, brought halfway to 1, or twice target_tokens by the text's tokens.

    Args:
        contexts: All contexts that have words.
        tokens_of_text: Tokens of the text, from which the rate follows where target_tokens is set.
        config: The method's settings.

    Returns:
        The chosen contexts, in the order of the text.
    """
    if len(contexts) < 2 or not config.use_context_level_filter:
        return contexts
    rate = (config.rate + 1) / 2
    if config.target_tokens is not None:
        rate = min(2 * config.target_tokens / tokens_of_text, 1.0)
    means = [context.mean_word_probability(config) for context in contexts]
    min_mean = float(np.percentile(means, int(100 * (1 - rate))))
    return [context for context, mean in zip(contexts, means, strict=True) if mean >= min_mean]


def chunk_ends(
    text: str, tokenized: Tokenized, max_tokens: int, stop_texts: Sequence[str]
) -> list[int]:
    """Find where the chunks of a text end, each after the last stop that it can hold.

    Args:
        text: The text.
        tokenized: The tokens of the text.
        max_tokens: Most tokens of a chunk.
        stop_texts: The tokens that a chunk ends after, if it has any.

    Returns:
        The end of each chunk, in tokens; the last one is the end of the text.
    """
    token_count = len(tokenized.tokens)
    ends: list[int] = []
    end = 0
    while token_count - end > max_tokens:
        end = _chunk_end(text, tokenized, end, end + max_tokens, stop_texts)
        ends.append(end)
    if token_count > end:
        ends.append(token_count)
    return ends


def _chunk_end(
    text: str, tokenized: Tokenized, first_token: int, max_end: int, stop_texts: Sequence[str]
) -> int:
    """The token after the last one of a chunk: after the last stop that it can hold, else where it
    is full.

    Args:
        text: The text.
        tokenized: The tokens of the text.
        first_token: The first token of the chunk.
        max_end: The token after the last one that the chunk can hold.
        stop_texts: The tokens that a chunk may end after.
    """
    for end in range(max_end, first_token, -1):
        if _may_end_before(text, tokenized.offsets, end, stop_texts):
            return end
    return max_end


def _may_end_before(
    text: str, offsets: list[tuple[int, int]], token: int, stop_texts: Sequence[str]
) -> bool:
    """Whether a chunk may end before token i: token i - 1 is a stop, or the text between the two
    has a stop that is white space, such as a line break.

    Args:
        text: The text.
        offsets: (start, end) of each token in the text.
        token: The number of the token.
        stop_texts: The texts that a chunk may end after.
    """
    start, end = offsets[token - 1]
    next_start, _ = offsets[token]
    if text[start:end].strip() in stop_texts:
        return True
    gap = text[end:next_start]
    return any(stop in gap for stop in stop_texts if stop.isspace())


def join_tokens_into_words(
    text: str, chunk: Tokenized, style: Style, previous_word_end: int
) -> list[Word]:
    """Join the tokens of a chunk into words.

        "Ann left." with the tokens "Ann", "le", "##ft", "."  ->  the words "Ann", "left", "."

    A token that follows white space or that is marked as the first of a word starts one; any other
    token extends the last word. Tokens may overlap (two tokens of one character), so a word never
    starts or ends before the end of the last one.

    Args:
        text: The text of all chunks.
        chunk: The tokens of this chunk with their places in the text.
        style: How the tokenizer marks the first token of a word.
        previous_word_end: Where the last word before the chunk ends in the text.
    """
    words: list[Word] = []
    previous_end = previous_word_end
    for number, token in enumerate(chunk.tokens):
        start, end = chunk.offsets[number]
        token_text = text[start:end]
        start = end - len(token_text.lstrip())
        follows_space = text[previous_end:start].isspace()
        new_end = max(end, previous_end)
        starts_word = follows_space or _begins_word(token, token_text, style)
        if not words or starts_word:
            words.append(
                Word(
                    gap_start=previous_end,
                    start=max(start, previous_end),
                    end=new_end,
                    first_token=number,
                    end_token=number + 1,
                )
            )
        else:
            words[-1] = replace(words[-1], end=new_end, end_token=number + 1)
        previous_end = new_end
    return words


def _begins_word(token: str, token_text: str, style: Style) -> bool:
    r"""Whether a token begins a word.

    Args:
        token: The token as the tokenizer writes it: "##ing", "\u2581the".
        token_text: The text that it stands for.
        style: "wordpiece": all but those with "##" begin a word; "metaspace": those with "\u2581",
            marks, and Chinese or Japanese characters do.
    """
    if style == "wordpiece":
        return not token.startswith("##")
    is_mark = token_text in string.punctuation
    return token.startswith("\u2581") or is_mark or bool(_CHINESE_OR_JAPANESE.match(token_text))


class _KeptWords(NamedTuple):
    """The words of a chunk that stay: their spans in the context, and how many tokens they have."""

    spans: list[Span]
    n_tokens: int


def _keep_words(chunk: _Chunk, rate: float, config: Lingua2Config) -> _KeptWords:
    """Choose the words of a chunk that stay, with the white space before them.

    Args:
        chunk: The chunk.
        rate: The share of tokens that stay.
        config: The method's settings.
    """
    stays = _which_words_stay(chunk, rate, config)
    spans = _spans_of_kept_words(chunk.text, chunk.words, stays, config)
    n_tokens = sum(word.token_count for word in itertools.compress(chunk.words, stays))
    return _KeptWords(spans, n_tokens)


def _which_words_stay(chunk: _Chunk, rate: float, config: Lingua2Config) -> list[bool]:
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
    token_probabilities = chunk.keep_probabilities
    if config.force_reserve_digit:
        texts = [chunk.text[start:end] for start, end in chunk.tokens.offsets]
        has_digit = [any(map(str.isdigit, text)) for text in texts]
        token_probabilities = np.where(has_digit, 1.0, token_probabilities)
    probabilities = chunk.word_probabilities(config, token_probabilities)
    for number, word in enumerate(chunk.words):
        if chunk.text[word.start : word.end] in config.force_tokens:
            probabilities[number] = 1.0
    return are_above_percentile(probabilities, [word.token_count for word in chunk.words], rate)


def are_above_percentile(
    probabilities: Sequence[float], token_counts: Sequence[int], rate: float
) -> list[bool]:
    """Whether each word stays: those with a value above the percentile int(100 (1 - rate) + 1) of
    all tokens' values, as in the code of LLMLingua-2.

    A word of value 1.0 stays also where the percentile is 1.0.

    Args:
        probabilities: The value of each word [words].
        token_counts: How many tokens each word has; each counts with the word's value [words].
        rate: The share of tokens that stay.
    """
    percentile = min(int(100 * (1 - rate) + 1), 100)
    limit = float(np.percentile(np.repeat(probabilities, token_counts), percentile))
    if limit == 1.0:
        return [probability >= limit for probability in probabilities]
    return [probability > limit for probability in probabilities]


def _spans_of_kept_words(
    text: str, words: list[Word], stays: list[bool], config: Lingua2Config
) -> list[Span]:
    r"""The spans of a text that stay: words, each with the white space before it, and forced line
    breaks.

    Where "\n" is among `force_tokens`, the white space before a word that goes stays if it has a
    line break.

    Args:
        text: The chunk's text.
        words: The words of the chunk.
        stays: Whether each word stays.
        config: The method's settings; with drop_consecutive a forced token that follows itself
            goes.
    """
    keeps_breaks = "\n" in config.force_tokens
    spans: list[Span] = []
    last_kept = ""
    for word, word_stays in zip(words, stays, strict=True):
        word_text = text[word.start : word.end]
        is_forced = word_text in config.force_tokens
        is_repeated = config.drop_consecutive and is_forced and word_text == last_kept
        if word_stays and not is_repeated:
            spans.append((word.gap_start, word.end))
            last_kept = word_text
            continue
        has_break = "\n" in text[word.gap_start : word.start]
        is_repeated_break = config.drop_consecutive and last_kept == "\n"
        if keeps_breaks and has_break and not is_repeated_break:
            spans.append((word.gap_start, word.start))
            last_kept = "\n"
    return spans
