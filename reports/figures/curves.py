"""Score and TFLOPs against the stop rule, as PECAN's figure 4 draws them, read out of searches that went on.

    rules = grid(run, t_n=8)                        every t_n of 1..8 at every t_p
    stops = wanted(run, rules)                      what has to be scored: (question, step) -> Stop
    frame([(run, rules, values)], score)            values: (question, step) -> score; whoever has the gold makes them

dataset method model t_n t_p rule         one row a run and rule; rule is "threshold" or "greedy"
score mean mean.low mean.high             the score's name, its mean in [0, 1], 95 % interval clustered by document
tflops tflops.low tflops.high             search + answer per question, without the index
tflops.probes                             the part of tflops that probes took; missing in runs that did not store it
convention                                how FLOPs are counted
nodes                                     retrieved per question
n failed covered own                      questions; answers that failed; questions whose search went far enough;
                                          whether this is the rule that the run itself stopped by
notes run

A row is empty, and says so, where even one question did not search far enough: a mean over the others would be one
over easier questions. Failed questions count as in the table of the run.
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
from reports.figures.plot import Axis, Line, Panel, Point
from reports.figures.replay import Recorded, Rule, Search, Stop, recorded
from reports.settings import dated
from reports.step_flops import full_only

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun


DEFAULT_T_P = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
_RULE = ("t_n", "t_p", "max_trials", "record_stops", "record_t_p")

Key = tuple[str, int]
"""A question's id and the step that it was stopped at."""


@dataclass(frozen=True)
class Scored:
    """A run, the rules to show, and the score of every answer that `wanted` named."""

    run: StoredRun
    rules: tuple[Rule, ...]
    values: Mapping[Key, float | None]


def grid(run: StoredRun, t_n: int = 8, t_p: Sequence[float] | None = None) -> tuple[Rule, ...]:
    """The rules to show for a run: t_n from 1 on at every t_p, and the run's own rule.

    t_p: thresholds; by default those of DEFAULT_T_P that the run recorded, its own and the highest recorded one; a
    greedy run has none. A run that recorded no other stops has its own rule alone. () for a run without a stop rule.
    """
    told = recorded(run)
    if told is None:
        return ()
    if not told.more:
        return (told.own,)
    thresholds: set[float | None] = {told.own.t_p}
    if told.own.t_p is not None and told.most.t_p is not None:
        kept = [*DEFAULT_T_P, told.most.t_p] if t_p is None else t_p
        thresholds |= {p for p in kept if t_p is not None or p <= told.most.t_p}
    return tuple(sorted({told.own, *(Rule(n, p) for p in thresholds for n in range(1, t_n + 1))}))


def wanted(run: StoredRun, rules: Sequence[Rule]) -> dict[Key, Stop]:
    """The stops of `rules` that are not the run's own, whose answers have no score yet."""
    told = _told(run)
    found = {}
    for record in run.records:
        if record["error"] is None:
            search = Search.of(record)
            for rule in rules:
                stop = search.stop(rule, told)
                if stop is not None and not stop.own:
                    found[record["question_id"], stop.step] = stop
    return found


def frame(parts: Sequence[Scored], score: str | None = None, convention: str = DEFAULT) -> pd.DataFrame:
    """The table above. score: by default each run's headline.

    Raises UserError where no run has a stop rule, UnknownName for a convention.
    """
    facts.check_convention(convention)
    rows: list[dict[str, Any]] = []
    for part, label in zip(parts, curve_labels([p.run for p in parts]), strict=True):
        rows += _rows(part, label, score or facts.headline(part.run), convention)
    if not rows:
        raise UserError("no run here stops by a rule that could be replayed")
    table = pd.DataFrame(rows).sort_values(["dataset", "method", "t_p", "t_n"], kind="stable", ignore_index=True)
    return facts.numbers(table)


def curve_labels(runs: Sequence[StoredRun]) -> list[str]:
    """The method's name for each run: runs that differ in nothing but their stop rule are one curve and share it."""
    names = facts.labels(runs, [f"method.{name}" for name in _RULE])
    told = [
        (facts.key(run)[0], name, run.config["model"]["name"], _rest(run))
        for run, name in zip(runs, names, strict=True)
    ]
    labels = []
    for run, one in zip(runs, told, strict=True):
        other = {t[3] for t in told if t[:3] == one[:3]} - {one[3]}
        labels.append(dated(one[1], run) if other else one[1])
    first: dict[tuple[str, ...], str] = {}
    return [first.setdefault(t, label) for t, label in zip(told, labels, strict=True)]


def _rest(run: StoredRun) -> str:
    """The method's values without its stop rule, and the seed."""
    params = run.config["method"].get("params") or {}
    kept = sorted((key, repr(value)) for key, value in params.items() if key not in _RULE)
    return repr((kept, run.config.get("seed"), facts.reader(run)))


def slices(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """What is drawn of each curve: (title, rows over t_n, rows over t_p), through the rule of the run that has most.

    Of rows with the same rule the first run's is kept, own rules before replayed ones. A row without a value stays, so
    that a table can say why.
    """
    found = []
    for (dataset, method, model), group in table.groupby(["dataset", "method", "model"], sort=False):
        covered = group[group["mean"].notna()].groupby("run").size()
        base = group[group["own"] & (group["run"] == covered.idxmax())] if len(covered) else group[group["own"]]
        t_n, t_p = int(base["t_n"].iloc[0]), base["t_p"].iloc[0]
        ranked = group.assign(_empty=group["mean"].isna(), _far=~group["own"]).sort_values(["_empty", "_far"])
        one = ranked.drop_duplicates(["t_n", "t_p"]).drop(columns=["_empty", "_far"]).sort_values(["t_p", "t_n"])
        same_p = one["t_p"].isna() if pd.isna(t_p) else one["t_p"] == t_p
        over_n, over_p = one[same_p], one[one["t_n"] == t_n]
        title = f"{dataset} · {method} · {model}"
        found.append((title, over_n.reset_index(drop=True), over_p.reset_index(drop=True)))
    return found


def panels(table: pd.DataFrame) -> list[Panel]:
    """Two panels a curve: over t_n at the run's t_p, and over t_p at its t_n, where more than one of these is known."""
    found = []
    for title, over_n, over_p in slices(table):
        t_p = over_n["t_p"].iloc[0]
        fixed_p, fixed_n = "greedy" if pd.isna(t_p) else f"t_p = {t_p:g}", f"t_n = {over_p['t_n'].iloc[0]:.0f}"
        for rows, axis, name in (
            (over_n, "t_n", f"stop patience t_n ({fixed_p})"),
            (over_p, "t_p", f"confidence threshold t_p ({fixed_n})"),
        ):
            known = int(rows["mean"].notna().sum())
            if known and (axis == "t_n" or (known > 1 and not pd.isna(t_p))):
                found.append(_panel(title, facts.records(rows), axis, name))
    return found


def _panel(title: str, rows: Sequence[Mapping[str, Any]], axis: str, name: str) -> Panel:
    score, convention = str(rows[0]["score"]), rows[0]["convention"]
    lines = [Line(score, [Point.of(row, axis, "mean", 100) for row in rows])]
    if any(not pd.isna(row["tflops"]) for row in rows):
        lines.append(Line("TFLOPs a question", [Point.of(row, axis, "tflops") for row in rows], right=True))
    x = Axis(name, ticks=tuple(float(row[axis]) for row in rows))
    return Panel(title, x, Axis(f"{score} × 100"), Axis(f"TFLOPs a question ({convention})"), lines, aside=True)


def _told(run: StoredRun) -> Recorded:
    told = recorded(run)
    assert told is not None  # `grid` gives no rules otherwise
    return told


def _rows(part: Scored, label: str, score: str, convention: str) -> list[dict[str, Any]]:
    if not part.rules:
        return []
    run, told = part.run, _told(part.run)
    common, rounded = (*facts.notes(run), *full_only(run.records, convention)), _rounded(run)
    clusters = facts.question_clusters(run)
    searches = [Search.of(record, convention) for record in run.records]
    rows = []
    for rule in part.rules:
        row: dict[str, Any] = {
            "dataset": facts.key(run)[0],
            "method": label,
            "model": run.config["model"]["name"],
            "t_n": rule.t_n,
            "t_p": rule.t_p,
            "rule": "greedy" if told.own.t_p is None else "threshold",
            "score": score,
        }
        numbers, notes = _point(part, rule, searches, score, clusters)
        row |= numbers
        row |= {"n": len(run.records), "failed": sum(r["error"] is not None for r in run.records)}
        notes += rounded if rule != told.own else []
        row |= {"covered": numbers["covered"], "own": rule == told.own, "convention": convention}
        row["notes"] = (*notes, *common)
        rows.append({**row, "run": run.path.name})
    return rows


def _rounded(run: StoredRun) -> list[str]:
    """A note where a replayed stop need not be, to the bit, that of a run which stops there.

    Questions in flight share forward passes, and a run that stops elsewhere shares them otherwise. In half precision
    the rounding this changes is large enough to change an answer.
    """
    model = (run.manifest.get("models") or {}).get("searcher") or {}
    dtype = str(model.get("dtype", "float32"))
    places = max((int(start.get("parallel", 1)) for start in run.manifest.get("starts") or ()), default=1)
    if places == 1 or dtype == "float32" or model.get("deterministic"):
        return []
    how = f"recorded in {dtype} with up to {places} questions in flight, which changes rounding"
    instead = "--deterministic or --parallel 1 records what such a run answers"
    return [f"{how}: a run that stops there may answer otherwise ({instead})"]


def _point(
    part: Scored, rule: Rule, searches: Sequence[Search], score: str, clusters: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """Means with their intervals for one rule, and what must be said of them."""
    run, told = part.run, _told(part.run)
    skip = run.config.get("failed", "zero") == "skip"
    values: list[tuple[float, str]] = []
    flops: list[tuple[float | None, str]] = []
    probes: list[float | None] = []
    nodes: list[int] = []
    far = missing = broken = 0
    for search, cluster in zip(searches, clusters, strict=True):
        record = search.record
        if record["error"] is not None:
            far += 1
            if not skip and score in record["scores"]:
                values.append((0.0, cluster))
            continue
        stop = search.stop(rule, told)
        if stop is None:
            broken += search.broken
            continue
        far += 1
        value = record["scores"].get(score) if stop.own else part.values.get((record["question_id"], stop.step))
        if value is None:
            missing += 1
        else:
            values.append((float(value), cluster))
        flops.append((stop.flops, cluster))
        probes.append(stop.probes)
        nodes.append(stop.nodes)
    notes = [f"{score} is missing for {missing} answered questions and left out for them"] if missing else []
    if far < len(run.records):
        return {**_numbers([], [], [], [], 0), "covered": far}, _uncovered(
            rule, told, len(run.records) - far, broken, run
        )
    return {**_numbers(values, flops, probes, nodes, int(run.config["seed"])), "covered": far}, notes


def _uncovered(rule: Rule, told: Recorded, short: int, broken: int, run: StoredRun) -> list[str]:
    """Why a rule has no row; broken: of the `short` questions, those whose recording ended with an error."""
    whole, found = len(run.records), []
    if broken:
        found.append(f"not covered: an error ended the recording before {rule} in {broken} of {whole} questions")
    if short > broken:
        reach = f"--record-stops {max(rule.t_n, told.most.t_n)}"
        if rule.t_p is not None and told.most.t_p is not None:
            reach += f" --record-t-p {max(rule.t_p, told.most.t_p):g}"
        asked = f"{rule} would have searched on in {short - broken} of {whole} questions"
        found.append(f"not covered: {asked}; run it with {reach}")
    return found


def _numbers(
    values: Sequence[tuple[float, str]],
    flops: Sequence[tuple[float | None, str]],
    probes: Sequence[float | None],
    nodes: Sequence[int],
    seed: int,
) -> dict[str, Any]:
    """The columns of one row; missing where there is nothing to average."""
    score = interval([v for v, _ in values], [c for _, c in values], seed=seed)
    known = [(f / facts.TERA, c) for f, c in flops if f is not None]
    known = known if len(known) == len(flops) else []
    told = [p / facts.TERA for p in probes if p is not None]
    cost = interval([v for v, _ in known], [c for _, c in known], seed=seed, bounds=None)
    return {
        "mean": score.mean,
        "mean.low": score.low,
        "mean.high": score.high,
        "tflops": cost.mean,
        "tflops.low": cost.low,
        "tflops.high": cost.high,
        "tflops.probes": sum(told) / len(told) if told and len(told) == len(probes) else None,
        "nodes": sum(nodes) / len(nodes) if nodes else None,
    }
