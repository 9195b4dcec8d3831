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
    SLACK,
    Units,
    open_context,
    spans_of_kept,
    surprise,
    units_of,
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
        max_tokens = min(config.max_sentence_tokens, model.window - model.turn_tokens() - SLACK)
        if max_tokens < 2:
            raise QuestionError(
                f"the window of the compressor '{model.name}' ({model.window} tokens) holds no "
                "sentence; raise model.window"
            )
        units = units_of(document.text, model)
        groups = _sentence_groups(units, max_tokens)
        values = _self_information(units, groups, tools)
        if config.level == "sentence":
            for first, last in groups:
                inside = values[first:last]
                scored = inside[~np.isnan(inside)]
                values[first:last] = np.nan
                if len(scored):
                    values[first:last] = np.mean(scored)
        if config.target_tokens is None:
            alive = _at_percentile(values, config.reduce_ratio)
        else:
            alive = _cut_to_fit(units, values, config.target_tokens, model)
        sizes = np.array(units.sizes, dtype=int)
        pieces: list[Piece] = list(spans_of_kept(units, alive))
        after = int(sizes[np.flatnonzero(alive)].sum())
        return Compressed(pieces, int(sizes.sum()), after).to_index()


def _sentence_groups(units: Units, max_tokens: int) -> list[tuple[int, int]]:
    """The sentences of a text as ranges [first, end) of units, which tile all units.

    Args:
        units: The units of the text.
        max_tokens: Most tokens of a range; a longer sentence is cut into several.
    """
    # A token that begins with the space before a sentence is the sentence's.
    later = [units.unit_at(space.start()) for space in _SENTENCE_END.finditer(units.text)]
    starts = [0, *later, len(units)]
    groups: list[tuple[int, int]] = []
    for first, last in pairwise(starts):
        begin = first
        used = 0
        for i in range(first, last):
            if used + units.sizes[i] > max_tokens and i > begin:
                groups.append((begin, i))
                begin = i
                used = 0
            used += units.sizes[i]
        if begin < last:
            groups.append((begin, last))
    return groups


def _self_information(units: Units, groups: list[tuple[int, int]], tools: Tools) -> np.ndarray:
    """Self-information of each unit [units], in nats; NaN for one that cannot be scored.

    Args:
        units: The units of a text.
        groups: (first, end) of the units of each sentence, which are scored in one context.
        tools: The engine's tools; progress is reported in sentences.
    """
    model = tools.model("compressor")
    done = [0]

    def score(group: tuple[int, int]) -> np.ndarray:
        """The self-information of the units of one sentence; also reports the progress."""
        with open_context(model, begun=True) as s:
            information = surprise(s, model, units.part(*group))
        done[0] += 1
        tools.progress(done[0], len(groups), "sentences scored")
        return information

    return np.concatenate([np.zeros(0), *tools.map(score, groups)])


def _at_percentile(values: np.ndarray, dropped: float) -> np.ndarray:
    """Which units stay where a share of them is dropped, [units].

    Args:
        values: The self-information of each unit [units]; a unit with NaN stays.
        dropped: The share: units stay that are at its percentile or above it.
    """
    known = ~np.isnan(values)
    if not known.any():
        return np.ones(len(values), dtype=bool)
    limit = float(np.percentile(values[known], 100 * dropped))
    return np.asarray(~known | (values >= limit))


def _cut_to_fit(
    units: Units, values: np.ndarray, max_tokens: int, model: MeteredModel
) -> np.ndarray:
    """Drop as small a share of the units as makes the text short enough, in steps of 1/1000.

    Tokens are counted in the compressed text: words that lost a part of theirs are more tokens than
    were kept. Where not even the highest percentile is short enough (all values are equal), the
    first tokens of it are kept.

    Args:
        units: The units of the text.
        values: The self-information of each unit [units].
        max_tokens: Tokens that the text may have.
        model: The model whose tokens are counted.

    Returns:
        Whether each unit stays [units].
    """

    def fits(alive: np.ndarray) -> bool:
        """Whether the text that is left has at most `max_tokens` tokens.

        Args:
            alive: Whether each unit is left [units].
        """
        text = "".join(units.text[a:b] for a, b in spans_of_kept(units, alive))
        return model.count(text) <= max_tokens

    low = 0
    high = 1000
    while low < high:
        middle = (low + high) // 2
        if fits(_at_percentile(values, middle / 1000)):
            high = middle
        else:
            low = middle + 1
    alive = _at_percentile(values, high / 1000)
    stays = np.flatnonzero(alive)
    while len(stays) and not fits(alive):
        stays = stays[: min(max_tokens, len(stays) - 1)]
        alive = np.isin(np.arange(len(values)), stays)
    return alive
