"""Score and requests against the maximum of trials, as QRMeM's figure 4 draws the score.

frame([Scored(run, told, trials, values)])     values: (question, step) -> score; whoever has the gold makes them

dataset method model trials                one row a run and maximum
score mean mean.low mean.high              the score's name, its mean in [0, 1], 95 % interval clustered by document
requests requests.low requests.high        search + answer per question, construction of the memory left out
tflops convention                          likewise; how FLOPs are counted
n failed covered own notes run             covered: questions whose search tells what this maximum does; own: the run's

A row is empty, and says so, where even one question is not covered: a mean over the others would be one over easier
questions. Runs that differ in nothing but their maximum are one curve. Failed questions count as in the run's table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.cost.flops import DEFAULT
from harness.errors import UserError
from harness.stats.bootstrap import interval
from reports import stored as facts
from reports.columns import legended
from reports.figures.curves import curve_labels
from reports.figures.plot import Axis, Line, Panel, Point
from reports.figures.trials import Key, Recorded, Stop, stop
from reports.step_flops import full_only

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun


@dataclass(frozen=True)
class Scored:
    """A run, the maxima to show, and the score of every answer that `wanted` named."""

    run: StoredRun
    told: Recorded
    trials: Sequence[int]
    values: Mapping[Key, float | None]


def frame(parts: Sequence[Scored], score: str | None = None, convention: str = DEFAULT) -> pd.DataFrame:
    """The table above. score: by default each run's headline.

    Raises UserError where there is no run with trials, UnknownName for a convention.
    """
    facts.check_convention(convention)
    if not parts:
        raise UserError(
            "no run here has trials, so there is no curve; make one with: "
            "harness run --method qrmem --dataset quality --record-stops 8"
        )
    rows = []
    for part, label in zip(parts, curve_labels([p.run for p in parts]), strict=True):
        name = score or facts.headline(part.run)
        rows += [_row(part, label, most, name, convention) for most in part.trials]
    table = pd.DataFrame(rows).sort_values(["dataset", "method", "model", "trials"], kind="stable", ignore_index=True)
    return facts.numbers(table)


def _row(part: Scored, label: str, most: int, score: str, convention: str) -> dict[str, Any]:
    run, told = part.run, part.told
    values: list[tuple[float, str]] = []
    costs: list[tuple[Stop, str]] = []
    covered = missing = failed = 0
    for record, cluster in zip(run.records, facts.question_clusters(run), strict=True):
        if record["error"] is not None:
            failed += 1
            counts = score in record["scores"] and run.config.get("failed", "zero") != "skip"
            values += [(0.0, cluster)] if counts else []
            continue
        found = stop(record, most, told, convention)
        if found is None:
            continue
        covered += 1
        costs.append((found, cluster))
        value = record["scores"].get(score) if found.own else part.values.get((record["question_id"], found.step))
        missing += value is None
        values += [] if value is None else [(float(value), cluster)]
    notes = [f"{score} is missing for {missing} answered questions and left out for them"] if missing else []
    if short := len(run.records) - covered - failed:
        values, costs, notes = [], [], [_uncovered(most, told, short, run)]
    return {
        "dataset": facts.key(run)[0],
        "method": label,
        "model": run.config["model"]["name"],
        "trials": most,
        "score": score,
        **_means(values, costs, int(run.config.get("seed") or 0)),
        "n": len(run.records),
        "failed": failed,
        "covered": covered + failed,
        "own": most == told.own,
        "convention": convention,
        "notes": (*notes, *facts.notes(run), *full_only(run.records, convention)),
        "run": run.path.name,
    }


def _uncovered(most: int, told: Recorded, short: int, run: StoredRun) -> str:
    reach = max(most, told.most, 1)
    asked = f"{short} of {len(run.records)} questions"
    return f"not covered: what {asked} answer after {most} updates was not recorded; run it with --record-stops {reach}"


def _means(
    values: Sequence[tuple[float, str]], costs: Sequence[tuple[Stop, str]], seed: int
) -> dict[str, float | None]:
    mean = interval([v for v, _ in values], [c for _, c in values], seed=seed)
    requests = interval([float(s.requests) for s, _ in costs], [c for _, c in costs], seed=seed, bounds=None)
    flops = [s.flops for s, _ in costs if s.flops is not None]
    return {
        "mean": mean.mean,
        "mean.low": mean.low,
        "mean.high": mean.high,
        "requests": requests.mean,
        "requests.low": requests.low,
        "requests.high": requests.high,
        "tflops": sum(flops) / len(flops) / facts.TERA if flops and len(flops) == len(costs) else None,
    }


def _lines(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Each curve with its title, a row a maximum: covered rows before empty ones, a run's own before a recorded one."""
    found = []
    for (dataset, method, model), group in table.groupby(["dataset", "method", "model"], sort=False):
        ranked = group.assign(_empty=group["mean"].isna(), _far=~group["own"]).sort_values(["_empty", "_far"])
        rows = ranked.drop_duplicates("trials").sort_values("trials").drop(columns=["_empty", "_far"])
        found.append((f"{dataset} · {method} · {model}", rows.reset_index(drop=True)))
    return found


def sections(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """A table for each curve, for people."""
    found = []
    for title, rows in _lines(table):
        names = {f"mean{end}": f"{rows['score'].iloc[0]}{end}" for end in ("", ".low", ".high")}
        told = rows.drop(columns=["dataset", "method", "model", "score", "own"]).rename(columns=names)
        found.append((f"{title} · over max trials", legended(told)))
    return found


def panels(table: pd.DataFrame) -> list[Panel]:
    """A drawing for each curve with a covered maximum: the score to the left, the requests to the right."""
    found = []
    for title, rows in _lines(table):
        known = rows[rows["mean"].notna()]
        if known.empty:
            continue
        score = str(known["score"].iloc[0])
        maxima = facts.records(known)
        scores = Line(score, [Point.of(row, "trials", "mean", 100) for row in maxima])
        requests = Line("requests a question", [Point.of(row, "trials", "requests") for row in maxima], right=True)
        x = Axis("max trials (updates of the entity set)", ticks=tuple(float(row["trials"]) for row in maxima))
        found.append(Panel(title, x, Axis(f"{score} × 100"), Axis("requests"), [scores, requests], aside=True))
    return found
