"""Score and requests against the maximum of trials (QRMeM, figure 4): what other maxima would have answered.

    told = recorded(run)                Recorded(own=2, most=3); None where no search has trials
    stop(record, 1, told)               Stop(step=6, own=False, answer="Kelford", requests=4, ...)
    wanted(run, told, range(4))         what has to be scored: (question, step) -> Stop

    updates   0    1    2 │ 3      of the entity set; max_trials = 2, recorded up to 3: one run holds the maxima 0 to 3
    answer    a    b   own│ c

Which step another maximum ends at is the method's to say (Method.replay); an answer that was not recorded
(--record-stops) is not guessed.

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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.cost.flops import DEFAULT
from harness.errors import UserError
from harness.method import Method
from harness.stats.bootstrap import interval
from reports import stored as facts
from reports.columns import legended
from reports.figures.curves import curve_labels
from reports.figures.plot import Axis, Line, Panel, Point
from reports.figures.replay import STUDY, method_of
from reports.figures.requests import spent
from reports.step_flops import full_only, spent_flops, stop_flops

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun


Key = tuple[str, int]
"""A question's id and the step that it was stopped at."""


@dataclass(frozen=True)
class Recorded:
    """The maximum of trials of a run, the highest one that its searches went on to, and the method that replays."""

    own: int
    most: int
    method: Method = field(compare=False)


@dataclass(frozen=True, slots=True)
class Stop:
    """What a maximum makes of one question.

    step: place in the record's steps; own: whether the answer is that of the run itself; requests, flops: of search and
    answer; flops is None where they are unknown.
    """

    step: int
    own: bool
    answer: str
    requests: int
    flops: float | None


def recorded(run: StoredRun) -> Recorded | None:
    """The trials of a run; None for a method without any. Raises as reports.figures.replay.method_of."""
    params: dict[str, Any] = run.config["method"].get("params") or {}
    if not isinstance(params.get("max_trials"), int) or all(_own_place(record) is None for record in run.records):
        return None
    method = method_of(run)
    own, most = method.stop_rule(), method.recorded_rule()
    return Recorded(own["max_trials"], most["max_trials"], method) if own.keys() == {"max_trials"} else None


def _own_place(record: Mapping[str, Any]) -> int | None:
    """The place of the last step of the last trial that the run itself made."""
    steps = enumerate(record["steps"])
    own = [i for i, step in steps if "updates" in (step.get("scores") or {}) and step["action"] != STUDY]
    return own[-1] if own else None


def stop(record: Mapping[str, Any], trials: int, told: Recorded, convention: str = DEFAULT) -> Stop | None:
    """What a search with at most `trials` updates would have come to; None where the answered record does not say."""
    own = _own_place(record)
    place = own if trials == told.own else told.method.replay(record["steps"], max_trials=trials)
    if place is None:
        return None
    if place == own:
        return Stop(place, True, record["prediction"], spent(record), spent_flops(record, convention))
    return _other(record, place, convention)


def _other(record: Mapping[str, Any], place: int, convention: str) -> Stop | None:
    """A stop that was recorded; None where no answer was written there."""
    step = record["steps"][place]
    if step.get("answer") is None:
        return None
    asked = sum(int(s["scores"].get("replies", 0)) for s in record["steps"][: place + 1])
    read = 0 if step["scores"].get("answers") else 1
    known = not any(usage.get("uncounted") for usage in record["usage"].values())
    flops = stop_flops(step, convention) if known else None
    return Stop(place, False, str(step["answer"]), asked + read, flops)


def shown(record: Mapping[str, Any], place: int) -> list[dict[str, Any]]:
    """What the reader had seen at a stop: the segments that were added and did not leave again."""
    seen: dict[int, dict[str, Any]] = {}
    for step in record["steps"][: place + 1]:
        if step.get("shown") is not None:
            seen[int(step["node"])] = step["shown"]
        elif "segment" in step["scores"]:
            seen.pop(int(step["scores"]["segment"]), None)
    return [part for number in sorted(seen) for part in _parts(seen[number])]


def _parts(told: dict[str, Any]) -> list[dict[str, Any]]:
    """A segment over several documents is stored as one without a place of its own; its parts again."""
    if told["document_id"] or not told["sources"]:
        return [told]
    return [{**told, "document_id": d, "start": a, "end": b, "sources": []} for d, a, b in told["sources"]]


def wanted(run: StoredRun, told: Recorded, trials: Iterable[int]) -> dict[Key, Stop]:
    """The stops at these maxima that are not the run's own, whose answers have no score yet."""
    records = [record for record in run.records if record["error"] is None]
    stops = [(record, stop(record, most, told)) for most in trials for record in records]
    return {(r["question_id"], found.step): found for r, found in stops if found is not None and not found.own}


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
