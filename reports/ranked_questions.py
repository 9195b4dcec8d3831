"""On which questions methods are ranked: on those that all of them have a score for.

    chosen = choose_questions([pecan, bm25, graph], "longbench.qa_f1")
    chosen.ids        18 of 20 questions
    chosen.ranked     [pecan, bm25]
    chosen.too_few    [graph]                      it has a score for 3 of 20

Two means over different questions say nothing of two methods. A method that lacks a tenth of the
questions or more is not ranked, so that it does not take them from all others. Finished runs come
first, then those with a score for most questions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from reports import facts
from reports.table_row import TableRow

_MIN_SHARE = 0.9
"""The share of the questions of the method with the most that all methods must have in common."""


@dataclass(frozen=True)
class RankedQuestions:
    """The questions on which methods are ranked.

    Args:
        ids: Their ids.
        n_asked: The most questions that a ranked method was asked.
        ranked: The methods that have a score for all of `ids`.
        too_few: The methods that have a score for too few of them.
    """

    ids: frozenset[str]
    n_asked: int
    ranked: Sequence[TableRow]
    too_few: Sequence[TableRow]


def scored_ids(row: TableRow, score: str) -> frozenset[str]:
    """The ids of the questions that a run has the score for; none where it lacks the score."""
    if row.score(score).mean is None:
        return frozenset()
    return frozenset(facts.score_values(row.run, score).ids)


def choose_questions(methods: Sequence[TableRow], score: str) -> RankedQuestions:
    """The questions that all ranked methods have a score for, and which methods these are.

    Methods join one after the other, finished ones and those with most questions first. One that
    would leave fewer than 90 % of the first one's questions in common is not ranked.

    Args:
        methods: The rows of methods that have the score.
        score: Its name.
    """
    ids_by_run = {row.run.name: scored_ids(row, score) for row in methods}

    def finished_then_most_questions(row: TableRow) -> tuple[bool, int]:
        """A sort key: finished runs first, then those with a score for most questions."""
        return row.is_unfinished, -len(ids_by_run[row.run.name])

    common: frozenset[str] = frozenset()
    n_common_needed = 0.0
    ranked: list[TableRow] = []
    too_few: list[TableRow] = []
    for row in sorted(methods, key=finished_then_most_questions):
        ids = ids_by_run[row.run.name]
        if not ranked:
            common = ids
            n_common_needed = _MIN_SHARE * len(ids)
            ranked.append(row)
        elif len(common & ids) >= n_common_needed:
            common &= ids
            ranked.append(row)
        else:
            too_few.append(row)
    n_asked = max((row.n_questions for row in ranked), default=0)
    return RankedQuestions(ids=common, n_asked=n_asked, ranked=ranked, too_few=too_few)
