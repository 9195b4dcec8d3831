"""A table of stop rules: score and cost of each, out of runs that recorded other stops
(reports/figures/replay.py).

dataset method model <rule>               one row a run and rule
score mean mean.low mean.high             the score's name, its mean in [0, 1], 95 % interval clustered by document
<costs>                                   the figure's own columns
n failed covered own                      questions; answers that failed; questions whose search went far enough;
                                          whether this is the rule that the run itself stopped by
convention notes run                      how FLOPs are counted

A row is empty, and says so, where even one question did not search far enough: a mean over the
others would be one over easier questions. Failed questions count as in the table of the run.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pandas as pd

from harness.cost.flops import DEFAULT
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.costs import check_convention, full_only_notes
from reports.figures.replay import Scored, Stop
from reports.search_moves import STUDY

STOP_SETTINGS = tuple(
    f"method.{name}" for name in ("t_n", "t_p", "max_trials", "record_stops", "record_t_p")
)
"""Settings in which runs of one curve differ."""

Reached = Sequence[tuple[dict[str, Any], Stop, int]]
"""Records, where a rule stops in them, and their clusters."""


def frame(
    parts: Sequence[Scored],
    costs: Callable[[Reached, int, str], dict[str, float | None]],
    score: str | None = None,
    convention: str = DEFAULT,
) -> pd.DataFrame:
    """Score and cost of each stop rule, a row a run and rule (columns: see the module). score:
    default the headline.

    costs: a row's own columns, from its stops, the run's seed and the convention; without stops all
    are missing. Raises UnknownName for a convention.
    """
    check_convention(convention)
    rows: list[dict[str, Any]] = []
    labels = facts.labels([part.run for part in parts], STOP_SETTINGS)
    for part, label in zip(parts, labels, strict=True):
        rows += _rule_rows(part, label, score or facts.headline(part.run), convention, costs)
    return facts.as_floats(pd.DataFrame(rows))


def _rule_rows(
    part: Scored,
    label: str,
    score: str,
    convention: str,
    costs: Callable[[Reached, int, str], dict[str, float | None]],
) -> Iterator[dict[str, Any]]:
    """A run's rows, one for each rule: mean score and costs; empty where the recording does not
    cover it."""
    run, recorded, seed = part.run, part.recorded, int(part.run.config["seed"])
    common = (*facts.notes(run), *full_only_notes(run.records, convention))
    rounded = _rounding_note(run)
    clusters, whole = facts.question_clusters(run), len(run.records)
    failed = sum(record["error"] is not None for record in run.records)
    for rule in part.rules:
        values: list[tuple[float, int]] = []
        reached: list[tuple[dict[str, Any], Stop, int]] = []
        broken = missing = 0
        for record, cluster in zip(run.records, clusters, strict=True):
            if record["error"] is not None:
                if run.config.get("failed", "zero") != "skip" and score in record["scores"]:
                    values.append((0.0, cluster))
                continue
            stop = recorded.stop(record, rule, convention)
            if stop is None:
                # An error ended the recording where its last step has no probe, and says why in its
                # note.
                last = record["steps"][-1] if record["steps"] else {}
                broken += last.get("action") == STUDY and last.get("p_yes") is None
                continue
            reached.append((record, stop, cluster))
            at = record["question_id"], stop.step
            value = record["scores"].get(score) if stop.own else part.values.get(at)
            missing += value is None
            values += [] if value is None else [(float(value), cluster)]
        covered = failed + len(reached)
        notes = (
            [f"{score} is missing for {missing} of the answered questions and left out for them"]
            if missing
            else []
        )
        if covered < whole:
            values, reached = [], []
            notes = rule.uncovered(recorded.most, whole - covered, broken, whole)
        yield {
            **facts.head_columns(run, label),
            **rule.columns(),
            "score": score,
            **facts.mean_columns("mean", [v for v, _ in values], [c for _, c in values], seed=seed),
            **costs(reached, seed, convention),
            "n": whole,
            "failed": failed,
            "covered": covered,
            "own": rule == recorded.own,
            "convention": convention,
            "notes": (*notes, *(rounded if rule != recorded.own else ()), *common),
            "run": run.name,
        }


def _rounding_note(run: StoredRun) -> list[str]:
    """A note where rounding may make a replayed answer differ from that of a run that stops there;
    else [].

    Questions in flight share forward passes, and a run that stops elsewhere shares them otherwise.
    In half precision the rounding this changes is large enough to change an answer.
    """
    model = (run.manifest.get("models") or {}).get("searcher") or {}
    dtype = str(model.get("dtype", "float32"))
    starts = run.manifest.get("starts") or ()
    parallel = max((int(start.get("parallel", 1)) for start in starts), default=1)
    if parallel == 1 or dtype == "float32" or model.get("deterministic"):
        return []
    note = f"recorded in {dtype} with up to {parallel} questions in flight, which changes rounding"
    instead = "--deterministic or --parallel 1 records what such a run answers"
    return [f"{note}: a run that stops there may answer otherwise ({instead})"]


def curves(
    table: pd.DataFrame, rule: Sequence[str]
) -> Iterator[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """Each curve with its title: the rows of `frame`, and one a rule (its columns), covered rows
    before empty ones.

    Of rows with the same rule a run's own comes before a replayed one, then the first run's. A row
    without a value stays, so that a table can say why.
    """
    for names, group in table.groupby(["dataset", "method", "model"], sort=False):
        ranked = group.assign(_empty=group["mean"].isna(), _far=~group["own"]).sort_values(
            ["_empty", "_far"]
        )
        best = (
            ranked.drop_duplicates(rule)
            .drop(columns=["_empty", "_far"])
            .sort_values(list(reversed(rule)))
        )
        yield " · ".join(map(str, names)), group, best
