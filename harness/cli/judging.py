"""Scores of answers that a search recorded beside its own, by the scorer and the gold that the run was scored with.

    judged(run, {("q7", 12): Recorded("Paris", shown)}, "musique.answer_f1", data)     ->  {("q7", 12): 1.0}

The gold answers are those of the records, or of the data set where these hold none. No model is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.cli.stored_runs import moved
from harness.errors import UserError

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun


@dataclass(frozen=True)
class Recorded:
    """An answer that another stop would have given; shown: what it had read, as in a record's `shown`."""

    answer: str
    shown: Sequence[dict[str, Any]]


def judged(
    run: StoredRun, answers: Mapping[tuple[str, int], Recorded], name: str, data: str | None
) -> dict[tuple[str, int], float | None]:
    """The score `name` of each answer, keyed by question and step; None where the scorer leaves one out.

    data: where the rows are now. Raises UserError where the gold answers are not those of the run, or the scorer is of
    another version.
    """
    from harness import scorers
    from harness.config.schema import DatasetConfig
    from harness.config.validation import part_of_run
    from harness.engine.scoring import judge, shown_of
    from reports import stored as facts
    from reports.gold_rows import read_rows

    before, now = facts.scorer_version(run, name), scorers.version(name)
    if before != now:
        raise UserError(
            f"{run.path} was scored with version {before} of {name}, this is version {now}; score it again first: "
            f"harness score {run.path}"
        )
    run = moved(run, data)
    rows = read_rows(run, whole=data is not None)
    if rows.problem is not None:
        raise UserError(f"recorded answers cannot be scored: {rows.problem}; name the file of the rows with --data")
    dataset = part_of_run(DatasetConfig, run.config["dataset"], str(run.path)).model_copy(update={"scorers": (name,)})
    scores: dict[tuple[str, int], float | None] = {}
    for (question, step), recorded in answers.items():
        if question not in rows.examples:
            raise UserError(f"question '{question}' of {run.path} is not in the data set any more")
        seen = [shown_of(part) for part in recorded.shown]
        scores[question, step] = judge(dataset, recorded.answer, seen, rows.examples[question].gold).scores.get(name)
    return scores
