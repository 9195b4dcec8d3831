"""The indexes that rank the passages of a corpus: by words (BM25) or by vectors (an encoder).

ranker = open_ranker(folder, 5_900_000, encoder=None)      BM25; a configuration: its vectors
ranker.build(table, report)                                makes what is missing
scores, numbers = ranker.search(["Who built the mill?"], 5, report, meter)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from harness.config.schema import EncoderConfig
from harness.cost.meter import Meter
from harness.retrieval.passages import Passages, Report

ROLE = "retriever"
"""The role under which the cost of encoding a query counts."""


class PassageRanker(Protocol):
    """An index of passages that are numbered from 0, in a folder of its own."""

    folder: Path

    def facts(self) -> Mapping[str, object]:
        """What identifies the ranking: name and settings, for manifests and hashes."""

    def build(self, table: Passages, report: Report) -> None:
        """Write the files that are missing."""

    def search(
        self, questions: Sequence[str], k: int, report: Report, meter: Meter
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rank the passages for each question.

        Args:
            questions: Their texts.
            k: Passages of each question.
            report: Called with the progress.
            meter: Counts the cost of encoding the questions.

        Returns:
            Scores and passage numbers [questions, k], best first, ties by number; -1 where no more
            passages match.
        """


def open_ranker(folder: Path, passages: int, encoder: EncoderConfig | None) -> PassageRanker:
    """The index of a corpus for one way of ranking; nothing is built yet.

    Args:
        folder: Of the corpus's indexes; the ranker has a folder in it, named after its settings.
        passages: Of the corpus.
        encoder: What encodes passages and questions; None for BM25.

    Raises:
        CannotRun: The encoder cannot be used.
    """
    # Late, because each needs a package of its own.
    if encoder is None:
        from harness.retrieval import corpus_bm25

        return corpus_bm25.BM25Index(folder / corpus_bm25.folder_name(), passages)
    from harness.retrieval import dense_index

    return dense_index.DenseIndex(folder / dense_index.folder_name(encoder), passages, encoder)
