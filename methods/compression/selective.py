"""Selective-Context (Li et al. 2023, arXiv 2310.06201): units of low self-information are dropped.

    each sentence scored alone, after the beginning of a text or the token that ends one ──► -log p of its tokens
    threshold = percentile of the whole text ──► what is below it is dropped

White space stands with the token it belongs to, so nothing is glued together where a sentence
begins (the released code loses the space of a sentence's first token). Source:
docs/methods/compression.md#selective-context.
"""

import re
from itertools import pairwise

import numpy as np

from harness.errors import QuestionError
from harness.method import Index, Tools, Traits
from harness.models import MeteredModel
from harness.types import Document
from methods.compression.config import SelectiveConfig
from methods.compression.show import Compressed, CompressedMethod, Piece
from methods.compression.surprise import (
    SLACK_TOKENS,
    Units,
    cut_into_units,
    measure_surprise,
    open_context,
    spans_of_kept_units,
)

# A sentence ends at white space after "." or "?", but not after "e.g." or "Dr.", as in the
# released code.
_SENTENCE_END = re.compile(r"(?<=[.?])(?<!\w\.\w.)(?<![A-Z][a-z]\.)\s")


class SelectiveContext(CompressedMethod):
    """Tokens, or sentences, that a small model finds unsurprising inside their sentence are
    dropped."""

    Config = SelectiveConfig
    summary = "tokens of low self-information are left out (Selective-Context)"
    traits = Traits(draws=False)
    index_version = "3"

    def index(self, document: Document, tools: Tools) -> Index:
        """The index of a document: the compressed document (`Compressed.to_index`).

        At level "sentence" each token counts with the mean of its sentence. What is dropped is the
        share `reduce_ratio`, or what leaves `target_tokens`.

        Raises:
            QuestionError: The compressor's window holds no sentence.
        """
        config: SelectiveConfig = self.config
        model = tools.model("compressor")
        max_tokens = min(
            config.max_sentence_tokens, model.window - model.turn_tokens() - SLACK_TOKENS
        )
        if max_tokens < 2:
            raise QuestionError(
                f"the window of the compressor '{model.name}' ({model.window} tokens) holds no "
                "sentence; raise model.window"
            )
        units = cut_into_units(document.text, model)
        sentence_ranges = _sentence_ranges(units, max_tokens)
        information = _self_information(units, sentence_ranges, tools)
        if config.level == "sentence":
            information = _means_of_sentences(information, sentence_ranges)
        if config.target_tokens is None:
            is_kept = _mask_at_percentile(information, config.reduce_ratio)
        else:
            is_kept = _mask_that_fits(units, information, config.target_tokens, model)
        token_counts = np.array(units.token_counts, dtype=int)
        pieces: list[Piece] = list(spans_of_kept_units(units, is_kept))
        tokens_kept = int(token_counts[np.flatnonzero(is_kept)].sum())
        return Compressed(
            pieces, tokens_before=int(token_counts.sum()), tokens_after=tokens_kept
        ).to_index()


def _sentence_ranges(units: Units, max_tokens: int) -> list[tuple[int, int]]:
    """The sentences of a text as ranges [first, end) of units, which follow each other without a
    gap.

    Args:
        units: The units of the text.
        max_tokens: Most tokens of a range; a longer sentence is cut into several.
    """
    # A token that begins with the space before a sentence is the sentence's.
    later_starts = [units.unit_at(space.start()) for space in _SENTENCE_END.finditer(units.text)]
    sentence_starts = [0, *later_starts, len(units)]
    ranges: list[tuple[int, int]] = []
    for first_unit, end_unit in pairwise(sentence_starts):
        range_start = first_unit
        range_tokens = 0
        for unit in range(first_unit, end_unit):
            if range_tokens + units.token_counts[unit] > max_tokens and unit > range_start:
                ranges.append((range_start, unit))
                range_start = unit
                range_tokens = 0
            range_tokens += units.token_counts[unit]
        if range_start < end_unit:
            ranges.append((range_start, end_unit))
    return ranges


def _self_information(
    units: Units, sentence_ranges: list[tuple[int, int]], tools: Tools
) -> np.ndarray:
    """Self-information of each unit [units], in nats; NaN for one that cannot be scored.

    Args:
        units: The units of a text.
        sentence_ranges: (first, end) of the units of each sentence, which are scored in one
            context.
        tools: The engine's tools; progress is reported in sentences.
    """
    model = tools.model("compressor")
    n_scored = 0

    def score_sentence(sentence_range: tuple[int, int]) -> np.ndarray:
        """The self-information of the units of one sentence; also reports the progress."""
        nonlocal n_scored
        with open_context(model, with_first_token=True) as session:
            information = measure_surprise(session, model, units.part(*sentence_range))
        n_scored += 1
        tools.progress(n_scored, len(sentence_ranges), "sentences scored")
        return information

    information_of_sentences = tools.map(score_sentence, sentence_ranges)
    # A text without sentences gives an empty array: concatenate needs at least one.
    return np.concatenate([np.zeros(0), *information_of_sentences])


def _means_of_sentences(
    information: np.ndarray, sentence_ranges: list[tuple[int, int]]
) -> np.ndarray:
    """For each unit [units] the mean self-information of the units of its sentence.

    Units with NaN do not count; a sentence of these alone has NaN.

    Args:
        information: The self-information of each unit [units].
        sentence_ranges: (first, end) of the units of each sentence, which follow each other without
            a gap.
    """
    means = np.full(len(information), np.nan)
    for first_unit, end_unit in sentence_ranges:
        information_of_sentence = information[first_unit:end_unit]
        scored_units = information_of_sentence[~np.isnan(information_of_sentence)]
        if len(scored_units):
            means[first_unit:end_unit] = np.mean(scored_units)
    return means


def _mask_at_percentile(information: np.ndarray, share_dropped: float) -> np.ndarray:
    """Which units stay where a share of them is dropped, [units].

    Args:
        information: The self-information of each unit [units]; a unit with NaN stays.
        share_dropped: The share: units stay that are at its percentile or above it.
    """
    is_known = ~np.isnan(information)
    if not is_known.any():
        return np.ones(len(information), dtype=bool)
    min_information = float(np.percentile(information[is_known], 100 * share_dropped))
    return np.asarray(~is_known | (information >= min_information))


def _mask_that_fits(
    units: Units, information: np.ndarray, max_tokens: int, model: MeteredModel
) -> np.ndarray:
    """Drop as small a share of the units as makes the text short enough, in steps of 1/1000.

    The share is found by halving the range of 0 to 1000 permille. Tokens are counted in the
    compressed text: words that lost a part of theirs are more tokens than were kept. Where not even
    the highest percentile is short enough (all values are equal), its first units stay: at first
    `max_tokens` of them, as each has a token or more, then one fewer each time until they fit.

    Args:
        units: The units of the text.
        information: The self-information of each unit [units].
        max_tokens: Tokens that the text may have.
        model: The model whose tokens are counted.

    Returns:
        Whether each unit stays [units].
    """

    def fits(is_kept: np.ndarray) -> bool:
        """Whether the text that is left has at most `max_tokens` tokens.

        Args:
            is_kept: Whether each unit is left [units].
        """
        text = "".join(units.text[start:end] for start, end in spans_of_kept_units(units, is_kept))
        return model.count(text) <= max_tokens

    low_permille = 0
    high_permille = 1000
    while low_permille < high_permille:
        middle_permille = (low_permille + high_permille) // 2
        if fits(_mask_at_percentile(information, middle_permille / 1000)):
            high_permille = middle_permille
        else:
            low_permille = middle_permille + 1
    is_kept = _mask_at_percentile(information, high_permille / 1000)
    kept_units = np.flatnonzero(is_kept)
    while len(kept_units) and not fits(is_kept):
        kept_units = kept_units[: min(max_tokens, len(kept_units) - 1)]
        is_kept = np.isin(np.arange(len(information)), kept_units)
    return is_kept
