"""Score and TFLOPs against the stop rule, as PECAN's figure 4 draws them, read out of searches that
went on.

The rows of reports/figures/rule_table.py with the columns

t_n t_p rule                              rule is "threshold" or "greedy"
tflops tflops.low tflops.high             search + answer per question, without the index
tflops.probes                             the part of tflops that probes took; missing in runs that did not store it
nodes                                     retrieved per question
"""

from collections.abc import Callable, Sequence

import pandas as pd

from harness.cost.flops import DEFAULT
from harness.errors import UserError
from harness.storage.run_folder import StoredRun
from reports.costs import TERA, step_flops
from reports.facts import mean_columns, records
from reports.figures import rule_table
from reports.figures.figure import Figure, Titled, for_people
from reports.figures.plot import Axis, Line, Panel, Point
from reports.figures.replay import Recorded, Rule, Scored, runs_with_rule, score_stops
from reports.figures.rule_table import Reached

DEFAULT_T_P = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
_LEGEND = (
    "t_n: the search ends at the t_n-th probe with P(Yes) above t_p; other t_n and t_p are replayed"
)


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
    """The curves of the runs. t_n, t_p: as in `rules_to_show`; data: where the rows are now.

    Raises UserError where no run recorded other stops than its own, and as replay.score_stops and
    rule_table.frame.
    """
    recordings = [
        (run, stops, rules_to_show(stops, t_n, t_p))
        for run, stops in runs_with_rule(runs, Rule, warn)
    ]
    if not recordings:
        example = "harness run --method pecan --dataset musique --record-stops 8"
        raise UserError(
            f"no run here stops by t_n and t_p, so there is no curve; make one with: {example}"
        )
    if not any(len(rules) > 1 for _, _, rules in recordings):
        only = "no run here recorded other stops than its own"
        raise UserError(f"{only}: there is no curve; run one with --record-stops 8")
    scored = [score_stops(run, stops, rules, score, data) for run, stops, rules in recordings]
    table = frame(scored, score, convention)
    return Figure("Stop rules", table, sections(table), panels(table))


def rules_to_show(
    recorded: Recorded, t_n: int = 8, t_p: Sequence[float] | None = None
) -> tuple[Rule, ...]:
    """The rules to show for a run: t_n from 1 on at every t_p, and the run's own rule.

    t_p: thresholds; by default those of DEFAULT_T_P that the run recorded, its own and the highest
    recorded one; a greedy run has none. A run that recorded no other stops has its own rule alone.
    """
    if recorded.most == recorded.own:
        return (recorded.own,)
    thresholds: set[float | None] = {recorded.own.t_p}
    if recorded.own.t_p is not None and recorded.most.t_p is not None:
        kept = [*DEFAULT_T_P, recorded.most.t_p] if t_p is None else t_p
        thresholds |= {p for p in kept if t_p is not None or p <= recorded.most.t_p}
    return tuple(
        sorted({recorded.own, *(Rule(n, p) for p in thresholds for n in range(1, t_n + 1))})
    )


def frame(
    parts: Sequence[Scored], score: str | None = None, convention: str = DEFAULT
) -> pd.DataFrame:
    """Score and TFLOPs by stop rule (t_n probes above t_p), a row a run and rule; arguments as
    rule_table.frame."""
    table = rule_table.frame(parts, _cost_columns, score, convention)
    table.insert(list(table.columns).index("n"), "covered", table.pop("covered"))
    return table.sort_values(["dataset", "method", "t_p", "t_n"], kind="stable", ignore_index=True)


def _cost_columns(reached: Reached, seed: int, convention: str) -> dict[str, float | None]:
    """Mean costs at the stops a rule reached; None for TFLOPs that are unknown for some of them."""
    counted = [
        (stop.flops / TERA, cluster) for _, stop, cluster in reached if stop.flops is not None
    ]
    counted = counted if len(counted) == len(reached) else []
    steps = [stop.steps(record) for record, stop, _ in reached]
    probed = []  # TFLOPs of the probes of each question; an older run did not store them
    for path in steps if counted else ():
        stored = [step.get("probe_flops") for step in path]
        flops = [
            x
            for value in stored
            if value is not None and (x := step_flops(value, convention)) is not None
        ]
        if stored and len(flops) == len(stored):
            probed.append(sum(flops) / TERA)
    return {
        **mean_columns(
            "tflops", [v for v, _ in counted], [c for _, c in counted], seed=seed, bounds=None
        ),
        "tflops.probes": sum(probed) / len(probed)
        if probed and len(probed) == len(reached)
        else None,
        "nodes": sum(step.get("node") is not None for path in steps for step in path) / len(steps)
        if steps
        else None,
    }


def rows_to_draw(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """(title, rows over t_n at one t_p, rows over t_p at one t_n) of each curve: the two lines that
    are drawn.

    Both pass through the stop rule of one run: of those of the curve, the run that recorded most
    rules.
    """
    curves = []
    for title, group, best in rule_table.curves(table, ["t_n", "t_p"]):
        covered = group[group["mean"].notna()].groupby("run").size()
        base = group[group["own"]]
        if len(covered):
            base = base[base["run"] == covered.idxmax()]
        t_n, t_p = int(base["t_n"].iloc[0]), base["t_p"].iloc[0]
        same_p = best["t_p"].isna() if pd.isna(t_p) else best["t_p"] == t_p
        curves.append(
            (
                title,
                best[same_p].reset_index(drop=True),
                best[best["t_n"] == t_n].reset_index(drop=True),
            )
        )
    return curves


def sections(table: pd.DataFrame) -> list[Titled]:
    """The two lines of each curve; csv and json hold the whole grid."""
    explained = table.assign(notes=table["notes"].map(lambda notes: (_LEGEND, *notes)))
    return [
        for_people(f"{title} · over {name}", rows, ["method", "rule", "own"])
        for title, over_n, over_p in rows_to_draw(explained)
        for rows, name in ((over_n, "t_n"), (over_p, "t_p"))
        if name == "t_n" or len(rows) > 1
    ]


def panels(table: pd.DataFrame) -> list[Panel]:
    """Two panels a curve: over t_n at the run's t_p, and over t_p at its t_n, where more than one
    of these is known.

    Each has the score at the left, and TFLOPs at the right if known.
    """
    drawn = []
    for title, over_n, over_p in rows_to_draw(table):
        t_p = over_n["t_p"].iloc[0]
        fixed_p = "greedy" if pd.isna(t_p) else f"t_p = {t_p:g}"
        fixed_n = f"t_n = {over_p['t_n'].iloc[0]:.0f}"
        for rows, axis, name in (
            (over_n, "t_n", f"stop patience t_n ({fixed_p})"),
            (over_p, "t_p", f"confidence threshold t_p ({fixed_n})"),
        ):
            n_drawn = int(rows["mean"].notna().sum())
            if not n_drawn or (axis == "t_p" and (n_drawn < 2 or pd.isna(t_p))):
                continue
            score, convention = str(rows["score"].iloc[0]), rows["convention"].iloc[0]
            lines = [Line(score, [Point.of(row, axis, "mean", 100) for row in records(rows)])]
            if rows["tflops"].notna().any():
                points = [Point.of(row, axis, "tflops") for row in records(rows)]
                lines.append(Line("TFLOPs a question", points, right=True))
            x = Axis(name, ticks=tuple(map(float, rows[axis])))
            right = Axis(f"TFLOPs a question ({convention})", zero=True)
            drawn.append(Panel(title, x, Axis(f"{score} × 100"), right, lines, aside=True))
    return drawn
