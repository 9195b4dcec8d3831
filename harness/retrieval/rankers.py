"""The indexes that rank the passages of a corpus: by words (BM25) or by vectors (an encoder).

ranker = ranker_in_folder(folder, 5_900_000, encoder=None)      BM25; a configuration: its vectors
ranker.build(table, report)                                makes what is missing
scores, numbers = ranker.search(["Who built the mill?"], 5, report, meter)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from harness.cost.meter import Meter
from harness.retrieval.passages import Passages, Report

ROLE = "retriever"
"""The role under which the cost of encoding a query counts."""


class RankedPassages(NamedTuple):
    """The passages that a ranker found for each of some questions.

    Attributes:
        scores: [questions, k], the best first; of equal ones, that of the lower number.
        numbers: The number of each passage [questions, k]; -1 where no more passages match.
    """

    scores: np.ndarray
    numbers: np.ndarray


class PassageRanker(Protocol):
    """An index of passages that are numbered from 0, in a folder of its own."""

    folder: Path

    def facts(self) -> Mapping[str, object]:
        """What identifies the ranking: its name and settings, for manifests and hashes."""

    def build(self, table: Passages, report: Report) -> None:
        """Write the files of the index that are missing.

        Args:
            table: The passages of the corpus.
            report: Called with the progress.
        """

    def search(
        self, questions: Sequence[str], k: int, report: Report, meter: Meter
    ) -> RankedPassages:
        """Rank the passages for each question.

        Args:
            questions: The texts of the questions.
            k: How many passages of each question.
            report: Called with the progress.
            meter: Counts the cost of encoding the questions.
        """
