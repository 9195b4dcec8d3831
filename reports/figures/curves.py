"""Score and TFLOPs against the stop rule, as PECAN's figure 4 draws them, read out of searches that
went on.

The rows of reports/figures/rule_table.py with the columns

t_n t_p rule                              rule is "threshold" or "greedy"
tflops tflops.low tflops.high             search + answer per question, without the index
tflops.probes                             the part of tflops that probes took; missing in runs that did not store it
nodes                                     retrieved per question
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from harness.cost.flops import DEFAULT_CONVENTION
from harness.errors import UserError
from harness.storage.records import StoredStep
from harness.storage.run_folder import StoredRun
from reports.costs import TERA, step_flops
from reports.facts import frame_rows, mean_columns
from reports.figures import rule_table
from reports.figures.figure import Figure, Titled, for_people
from reports.figures.plot import Axis, Line, Panel, Point
from reports.figures.replay import Recorded, Rule, Scored, runs_with_rule, score_stops
from reports.figures.rule_table import ReachedStop

DEFAULT_T_P = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
_LEGEND = (
    "t_n: the search ends at the t_n-th probe with P(Yes) above t_p; other t_n and t_p are replayed"
)


@dataclass(frozen=True)
class Recording:
    """A run with the stop rules to show for it.

    Args:
        run: The run.
        recorded: Its own rule and the furthest one that it recorded.
        rules: The rules to show; its own alone where it recorded no other.
    """

    run: StoredRun
    recorded: Recorded[Rule]
    rules: Sequence[Rule]

    def scored(self, score: str | None, data: str | None) -> Scored[Rule]:
        """The run with the scores of all answers that its rules need.

        Args:
            score: Name of a score; None for the run's headline.
            data: The file of the data set's rows; None for the place that the run names.
        """
        return score_stops(self.run, self.recorded, self.rules, score, data)


def figure(
    runs: Sequence[StoredRun],
    *,
    t_n: int,
    t_p: Sequence[float] | None,
    score: str | None,
    data: str | None,
    convention: str,
    warn: Callable[[str], None],
) -> Figure:
    """The curves of score and TFLOPs against PECAN's stop rule: a search ends at the t_n-th probe
    whose P(Yes) is above t_p.

    Args:
        runs: Stored runs; those without such a stop rule have no curve.
        t_n: The largest t_n that is shown.
        t_p: The thresholds that are shown; None for those of DEFAULT_T_P that a run recorded.
        score: Name of a score; by default each run's headline.
        data: The file of the data set's rows; None for the place that each run names.
        convention: How FLOPs are counted.
        warn: Gets a sentence for each run that is left out.

    Raises:
        UserError: No run recorded other stops than its own, or answers cannot be scored as the run
            was.
        UnknownName: There is no such score or convention.
    """
    recordings = []
    for run, recorded in runs_with_rule(runs, Rule, warn):
        rules = rules_to_show(recorded, t_n, t_p)
        recordings.append(Recording(run, recorded, rules))
    if not recordings:
        example = "harness run --method pecan --dataset musique --record-stops 8"
        raise UserError(
            f"no run here stops by t_n and t_p, so there is no curve; make one with: {example}"
        )
    some_recorded_others = any(len(recording.rules) > 1 for recording in recordings)
    if not some_recorded_others:
        only = "no run here recorded other stops than its own"
        raise UserError(f"{only}: there is no curve; run one with --record-stops 8")
    scored = [recording.scored(score, data) for recording in recordings]
    table = frame(scored, score, convention)
    return Figure("Stop rules", table, sections(table), panels(table))


def rules_to_show(
    recorded: Recorded[Rule], t_n: int = 8, t_p: Sequence[float] | None = None
) -> tuple[Rule, ...]:
    """The rules to show for a run: its own, and t_n from 1 on at every t_p.

    Args:
        recorded: The run's own rule and the furthest one that it recorded; where both are equal,
            the run has its own rule alone.
        t_n: The largest t_n.
        t_p: Thresholds; by default those of DEFAULT_T_P that the run recorded, its own and the
            highest recorded one. A greedy run has none.

    Returns:
        The rules in ascending order.
    """
    if recorded.furthest_rule == recorded.own_rule:
        return (recorded.own_rule,)
    rules = {recorded.own_rule}
    for threshold in _thresholds(recorded, t_p):
        rules |= {Rule(n, threshold) for n in range(1, t_n + 1)}
    return tuple(sorted(rules))


def _thresholds(recorded: Recorded[Rule], t_p: Sequence[float] | None) -> set[float | None]:
    """The t_p of the rules to show; {None} for a greedy run.

    Args:
        recorded: The run's own rule and the furthest one that it recorded.
        t_p: Thresholds that the user named; None for those of DEFAULT_T_P that the run recorded.
    """
    own = recorded.own_rule.t_p
    highest = recorded.furthest_rule.t_p
    if own is None or highest is None:
        return {own}
    if t_p is not None:
        return {own, *t_p}
    return {own, highest, *(p for p in DEFAULT_T_P if p <= highest)}


def frame(
    parts: Sequence[Scored[Rule]], score: str | None = None, convention: str = DEFAULT_CONVENTION
) -> pd.DataFrame:
    """Score and TFLOPs by stop rule (the t_n-th probe above t_p), a row a run and rule.

    Args:
        parts: Runs with the rules to show and the scores of their answers.
        score: Name of a score; by default each run's headline.
        convention: How FLOPs are counted.

    Raises:
        UnknownName: There is no such convention.
    """
    table = rule_table.frame(parts, _cost_columns, score, convention)
    position_of_n = list(table.columns).index("n")
    table.insert(position_of_n, "covered", table.pop("covered"))  # moved to before it
    return table.sort_values(["dataset", "method", "t_p", "t_n"], kind="stable", ignore_index=True)


def _cost_columns(
    reached: Sequence[ReachedStop], seed: int, convention: str
) -> dict[str, float | None]:
    """Mean costs at the stops that a rule reached, as columns of `frame`.

        -> {"tflops": 0.6, "tflops.low": 0.5, "tflops.high": 0.7, "tflops.probes": 0.1, "nodes": 4}

    TFLOPs are None where they are unknown for any of the stops.

    Args:
        reached: The stops, one a question.
        seed: Seed of the resampling for an interval.
        convention: How FLOPs are counted.
    """
    tflops = _known_tflops(reached)
    clusters = []
    if tflops:
        clusters = [stop.cluster for stop in reached]
    paths = [stop.stop.steps(stop.record) for stop in reached]
    columns = mean_columns("tflops", tflops, clusters, seed=seed, bounds=None)
    columns["tflops.probes"] = None
    if tflops:
        columns["tflops.probes"] = _mean_probe_tflops(paths, convention)
    columns["nodes"] = None
    if paths:
        n_nodes = sum(_count_nodes(path) for path in paths)
        columns["nodes"] = n_nodes / len(paths)
    return columns


def _known_tflops(reached: Sequence[ReachedStop]) -> list[float]:
    """The TFLOPs of each stop; [] where they are unknown for one of them."""
    tflops = []
    for reached_stop in reached:
        if reached_stop.stop.flops is None:
            return []
        tflops.append(reached_stop.stop.flops / TERA)
    return tflops


def _mean_probe_tflops(paths: Sequence[Sequence[StoredStep]], convention: str) -> float | None:
    """Mean TFLOPs that the probes of a question took; None where a run did not store them.

    Args:
        paths: Of each question, the steps of its search.
        convention: How FLOPs are counted.
    """
    total = 0.0
    for path in paths:
        flops = _probe_flops(path, convention)
        if flops is None:
            return None
        total += flops / TERA
    return total / len(paths)


def _probe_flops(path: Sequence[StoredStep], convention: str) -> float | None:
    """FLOPs of the probes among the steps of a search; None without steps, or where one does not
    say."""
    if not path:
        return None
    total = 0.0
    for step in path:
        stored = step.get("probe_flops")
        if stored is None:
            return None
        flops = step_flops(stored, convention)
        if flops is None:
            return None
        total += flops
    return total


def _count_nodes(path: Sequence[StoredStep]) -> int:
    """The number of steps of a search that showed a node."""
    return sum(step.get("node") is not None for step in path)


@dataclass(frozen=True)
class Curve:
    """The two lines of a curve, as rows of `frame`.

    Args:
        title: Data set, method and model.
        over_n: Rows over t_n at one t_p.
        over_p: Rows over t_p at one t_n.
    """

    title: str
    over_n: pd.DataFrame
    over_p: pd.DataFrame


def rows_to_draw(table: pd.DataFrame) -> list[Curve]:
    """The curves of a table of `frame`, with the rows of their two lines.

    Both lines of a curve pass through the stop rule of one run: of its runs, the one that recorded
    most rules.
    """
    curves = []
    for curve in rule_table.curves(table, ["t_n", "t_p"]):
        rows = curve.rows
        best = curve.best  # one row for each rule
        own_rules = rows[rows["own"]]
        n_rules_by_run = rows[rows["mean"].notna()].groupby("run").size()
        if len(n_rules_by_run):
            own_rules = own_rules[own_rules["run"] == n_rules_by_run.idxmax()]
        t_n = int(own_rules["t_n"].iloc[0])
        t_p = own_rules["t_p"].iloc[0]
        has_same_t_p = best["t_p"] == t_p
        if pd.isna(t_p):  # a greedy search has none
            has_same_t_p = best["t_p"].isna()
        over_n = best[has_same_t_p].reset_index(drop=True)
        over_p = best[best["t_n"] == t_n].reset_index(drop=True)
        curves.append(Curve(curve.title, over_n, over_p))
    return curves


def sections(table: pd.DataFrame) -> list[Titled]:
    """Titled tables for people, one or two a curve: over t_n, and over t_p where there are
    several."""
    with_legend = table.assign(notes=table["notes"].map(lambda notes: (_LEGEND, *notes)))
    hidden = ["method", "rule", "own"]
    tables = []
    for curve in rows_to_draw(with_legend):
        tables.append(for_people(f"{curve.title} · over t_n", curve.over_n, hidden))
        if len(curve.over_p) > 1:
            tables.append(for_people(f"{curve.title} · over t_p", curve.over_p, hidden))
    return tables


def panels(table: pd.DataFrame) -> list[Panel]:
    """Two panels a curve: over t_n at the run's t_p, and over t_p at its t_n where there are
    several.

    Each has the score at the left, and TFLOPs at the right if known. A line without any value is
    not drawn, and a greedy search has no t_p.
    """
    panels_of_curves = []
    for curve in rows_to_draw(table):
        t_p = curve.over_n["t_p"].iloc[0]
        is_greedy = bool(pd.isna(t_p))
        threshold = "greedy"
        if not is_greedy:
            threshold = f"t_p = {t_p:g}"
        if curve.over_n["mean"].notna().any():
            axis_name = f"stop patience t_n ({threshold})"
            panels_of_curves.append(_panel(curve.title, curve.over_n, "t_n", axis_name))
        if not is_greedy and curve.over_p["mean"].notna().sum() >= 2:
            t_n = curve.over_p["t_n"].iloc[0]
            axis_name = f"confidence threshold t_p (t_n = {t_n:.0f})"
            panels_of_curves.append(_panel(curve.title, curve.over_p, "t_p", axis_name))
    return panels_of_curves


def _panel(title: str, rows: pd.DataFrame, column: str, axis_name: str) -> Panel:
    """A panel with the score at the left and, where they are known, TFLOPs at the right.

    Args:
        title: Its title.
        rows: Rows of `frame`.
        column: The column on the x axis: "t_n" or "t_p".
        axis_name: The name of that axis.
    """
    score = str(rows["score"].iloc[0])
    convention = rows["convention"].iloc[0]
    score_points = [Point.of(row, column, "mean", scale=100) for row in frame_rows(rows)]
    lines = [Line(score, score_points)]
    if rows["tflops"].notna().any():
        tflops_points = [Point.of(row, column, "tflops") for row in frame_rows(rows)]
        lines.append(Line("TFLOPs a question", tflops_points, on_right_axis=True))
    return Panel(
        title,
        x=Axis(axis_name, ticks=tuple(map(float, rows[column]))),
        left=Axis(f"{score} × 100"),
        right=Axis(f"TFLOPs a question ({convention})", starts_at_zero=True),
        lines=lines,
        side_by_side=True,
    )
