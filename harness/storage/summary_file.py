"""summary.json of a run folder as a typed value: parsed where the file is read, written by RunStore.

    RunSummary.from_json({"state": "finished", "n_total": 200, ...}).n_total    -> 200

What each key means: docs/run-folder.md#summary. The numbers are computed in run_summary.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from harness.cost.usage import Usage
from harness.storage.json_values import NOT_CHECKED, NULL_IS_EMPTY, JsonValues

FINISHED = "finished"
"""The state of a run whose last start asked all that it was to ask."""


class ScoreMean(JsonValues):
    """The mean of a score with its 95 % interval; n: the questions that have the score."""

    mean: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0


class IndexSummary(JsonValues):
    """How many indexes there were and what they cost: `usage` in total."""

    documents: int = 0
    built: int = 0
    hit: int = 0
    failed: int = 0
    usage: Annotated[Usage, NOT_CHECKED] = Field(default_factory=dict)
    usage_per_document: Annotated[Usage, NOT_CHECKED] = Field(default_factory=dict)


class CutTexts(JsonValues):
    """Texts that encoders were given (None: not counted), and those of them that they cut."""

    texts: int | None
    cut: int


class EarlyStop(JsonValues):
    """Why a sequential test stopped a run.

    Attributes:
        by: What stopped it.
        questions: How many were asked.
        of: How many there are.
        seed: The seed of the order in which they were asked.
        alpha: The largest probability of any wrong verdict.
        width: The interval at which a pair is settled; None for no such width.
        target: What the verdicts are about, "population" or "table".
        score: The score that was compared.
        verdicts: Its results, a sentence each.
    """

    by: str = "duel"
    questions: int
    of: int
    seed: int
    alpha: float | None = None
    width: float | None = None
    target: str | None = None
    score: str | None = None
    verdicts: list[str] = Field(default_factory=list)


class RunSummary(JsonValues):
    """The numbers of a run. A count that the file lacks is None, as that of a summary that is not
    written yet."""

    state: str = "running"
    n_asked: int | None = None
    n_left_out: int | None = None
    n_not_asked: int | None = None
    stopped_early: EarlyStop | None = None
    n_total: int | None = None
    n_scored: int | None = None
    n_failed: int | None = None
    n_truncated: int | None = None
    n_without_prefix: int | None = None
    n_not_parsed: int | None = None
    replies: Annotated[dict[str, int | float], NULL_IS_EMPTY] = Field(default_factory=dict)
    failed_count_as: str | None = None
    interval_rule: str | None = None
    scores: Annotated[dict[str, ScoreMean], NULL_IS_EMPTY] = Field(default_factory=dict)
    usage: Annotated[Usage, NOT_CHECKED] = Field(default_factory=dict)
    index: IndexSummary = IndexSummary()
    texts_cut: CutTexts | None = None
    errors: Annotated[dict[str, int], NULL_IS_EMPTY] = Field(default_factory=dict)
    edited: list[str] = Field(default_factory=list)
    files: dict[str, str] | None = None

    @property
    def is_finished(self) -> bool:
        """Whether the run asked all that it was to ask."""
        return self.state == FINISHED

    @property
    def n_to_record(self) -> int:
        """How many questions were to get a record: those that were asked,
        less those that were left out; 0 where the file does not say.
        """
        return (self.n_asked or 0) - (self.n_left_out or 0)

    @property
    def means(self) -> dict[str, float | None]:
        """The mean of each score, by the score's name."""
        return {name: score.mean for name, score in self.scores.items()}

    def with_numbers(self, numbers: RunSummary) -> RunSummary:
        """A copy of `numbers` with what this summary says of the run's state and of how much was
        asked, which records cannot say.

        Args:
            numbers: Numbers that were just computed from the records (`summarise`).
        """
        values = {name: getattr(self, name) for name in _KEYS_OF_RUN_STATE & self.model_fields_set}
        return numbers.with_values(**values)

    def of_records(self) -> dict[str, object]:
        """The values that records and indexes determine, as the file has them: without the run's
        state, what it asked, and checksums.
        """
        left_out = {*_KEYS_OF_RUN_STATE, *_KEYS_OF_FILES}
        return self.model_dump(exclude_unset=True, exclude=left_out, warnings=False)


_KEYS_OF_RUN_STATE = {"state", "n_asked", "n_left_out", "n_not_asked", "stopped_early"}
_KEYS_OF_FILES = {"files", "edited", "interval_rule"}


def summary_of_counts(
    n_asked_now: int, n_recorded: int, n_skipped_by_reason: Mapping[str, int]
) -> RunSummary:
    """A summary of how many questions were asked, left out and not asked, and nothing else.

    n_left_out and n_not_asked are set where they are not 0. Later holds: n_scored + n_failed +
    n_left_out + n_not_asked = n_asked.

    Args:
        n_asked_now: How many questions this command asks.
        n_recorded: How many questions have a record, also those of earlier commands.
        n_skipped_by_reason: Reason -> number of rows that the loader left out for it.
    """
    n_left_out = sum(n_skipped_by_reason.values())
    counts = RunSummary(n_asked=max(n_asked_now, n_recorded) + n_left_out)
    if n_left_out:
        counts = counts.with_values(n_left_out=n_left_out)
    if n_asked_now > n_recorded:
        counts = counts.with_values(n_not_asked=n_asked_now - n_recorded)
    return counts
