"""The question pool: a question enters only if it is unlike every one that is in it (QRMeM 2.1, note 2).

pool = Pool(0.6)
pool.add("Who wrote Velindra?")        True
pool.add("Who wrote the Velindra?")    False: ROUGE-L 0.857
"""

from __future__ import annotations

from collections.abc import Sequence

from methods.retrieval import words


class Pool:
    """novelty: the ROUGE-L with any question of the pool that a new one must stay below."""

    def __init__(self, novelty: float) -> None:
        self.novelty = novelty
        self.questions: list[str] = []
        self._words: list[list[str]] = []

    def add(self, question: str) -> bool:
        """Add the question if it is new; returns whether it was. A question without words is never new."""
        tokens = words(question)
        if not tokens or any(rouge_l(tokens, other) >= self.novelty for other in self._words):
            return False
        self.questions.append(question)
        self._words.append(tokens)
        return True


def rouge_l(first: Sequence[str], second: Sequence[str]) -> float:
    """F1 of the longest common subsequence of words (Lin 2004, beta 1): 2 lcs / (n + m); 0.0 if both are empty.

    Words are those of BM25 (methods.retrieval.words): no stemming.
    """
    above = [0] * (len(second) + 1)
    for word in first:
        row = [0]
        for j, other in enumerate(second):
            row.append(above[j] + 1 if word == other else max(above[j + 1], row[j]))
        above = row
    return 2 * above[-1] / max(len(first) + len(second), 1)
