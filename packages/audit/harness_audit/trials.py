"""Score and requests against the maximum of trials (QRMeM, figure 4): what other maxima would have
answered.

The rows of reports/figures/rule_table.py with the columns

trials                                    the maximum
requests requests.low requests.high       search + answer per question, construction of the memory left out
tflops                                    likewise
"""

from collections.abc import Callable, Sequence

import pandas as pd

from harness.cost.flops import DEFAULT_CONVENTION
from harness.errors import UserError
from harness.storage.records import StoredRecord
from harness.storage.run_folder import StoredRun
from reports.costs import TERA, count_requests
from reports.facts import frame_rows, mean_columns
from reports.figures import rule_table
from reports.figures.figure import Figure, Titled, for_people
from reports.figures.plot import Axis, Line, Panel, Point
from reports.figures.replay import Scored, Stop, Trials, runs_with_rule, score_stops
from reports.figures.rule_table import ReachedStop


def figure(
    runs: Sequence[StoredRun],
    *,
    score: str | None,
    data: str | None,
    convention: str,
    warn: Callable[[str], None],
) -> Figure:
    """The figure of score and requests by the maximum of trials (how often a search may update its
    entity set), from 0 up to the highest that was recorded. Runs without trials are left out with a
    warning.

    Args:
        runs: The runs.
        score: The name of the score; None for each run's headline.
        data: The file of the rows; None for the place that each run names.
        convention: How FLOPs are counted.
        warn: Called with each warning.

    Raises:
        UserError: No run has trials, or as replay.score_stops and rule_table.frame.
    """
    scored_runs = []
    for run, rule in runs_with_rule(runs, Trials, warn):
        maxima = [Trials(number) for number in range(rule.furthest_rule.max_trials + 1)]
        scored_runs.append(score_stops(run, rule, maxima, score, data))
    if not scored_runs:
        example_command = "harness run --method qrmem --dataset quality --record-stops 8"
        raise UserError(
            f"no run here has trials, so there is no curve; make one with: {example_command}"
        )
    table = frame(scored_runs, score, convention)
    return Figure("Maximum of trials", table, sections(table), panels(table))


def frame(
    parts: Sequence[Scored[Trials]], score: str | None = None, convention: str = DEFAULT_CONVENTION
) -> pd.DataFrame:
    """Score, requests and TFLOPs by the maximum of trials: a row for each run and maximum. Columns
    beside those that name run and score: trials (the maximum), mean, requests (both with .low and
    .high), tflops.

    Args:
        parts: Runs with the maxima to show, and the scores of the answers there.
        score: The name of the score; by default each run's headline.
        convention: How FLOPs are counted.

    Raises:
        UnknownName: There is no such convention.
    """
    table = rule_table.frame(parts, _cost_columns, score, convention)
    return table.sort_values(
        ["dataset", "method", "model", "trials"], kind="stable", ignore_index=True
    )


def requests_at_stop(record: StoredRecord, stop: Stop) -> int:
    """How many requests search and answer of a question took up to a stop.

    At the run's own stop they are counted in the record. At another one they are added up from the
    steps, whose scores hold "replies", the requests of the step, and "answers", 1 where the last of
    these gave the answer; without that, one more request would have asked for the answer.

    Args:
        record: The record of the question.
        stop: The stop.
    """
    if stop.is_own_stop:
        return count_requests(record.usage, "search", "answer")
    steps = stop.steps(record)
    replies = 0
    for step in steps:
        replies += int(step["scores"].get("replies", 0))
    has_answer = bool(steps[-1]["scores"].get("answers"))
    if has_answer:
        return replies
    return replies + 1


def _cost_columns(
    reached: Sequence[ReachedStop], seed: int, _convention: str
) -> dict[str, float | None]:
    """The columns requests, requests.low, requests.high and tflops of one maximum: means over
    questions; tflops is None where they are unknown for some.

    Args:
        reached: Where the maximum stops in each question.
        seed: Fixes the resamples of the interval.
        _convention: How FLOPs are counted; the stops have been counted so already.
    """
    requests_by_question = [
        float(requests_at_stop(reached_stop.record, reached_stop.stop)) for reached_stop in reached
    ]
    clusters = [reached_stop.cluster for reached_stop in reached]
    columns = mean_columns("requests", requests_by_question, clusters, seed=seed, bounds=None)
    columns["tflops"] = _mean_tflops(reached)
    return columns


def _mean_tflops(reached: Sequence[ReachedStop]) -> float | None:
    """The mean TFLOPs of the stops; None where there is no stop, or one whose FLOPs are unknown."""
    total_flops = 0.0
    for reached_stop in reached:
        if reached_stop.stop.flops is None:
            return None
        total_flops += reached_stop.stop.flops
    if not reached:
        return None
    return total_flops / len(reached) / TERA


def sections(table: pd.DataFrame) -> list[Titled]:
    """A titled table for people for each curve, from the rows of `frame`: a row for each maximum of
    trials, without the columns for the method, which the title names, and for the run's own
    maximum."""
    titled_tables = []
    for curve in rule_table.curves(table, ["trials"]):
        rows = curve.best.reset_index(drop=True)
        titled_tables.append(
            for_people(f"{curve.title} · over max trials", rows, ["method", "own"])
        )
    return titled_tables


def panels(table: pd.DataFrame) -> list[Panel]:
    """A drawing for each curve that has a value, from the rows of `frame`: the score with the left
    axis, the requests with the right one."""
    panel_list = []
    for curve in rule_table.curves(table, ["trials"]):
        measured = curve.best[curve.best["mean"].notna()]
        if measured.empty:
            continue
        score_name = str(measured["score"].iloc[0])
        means: list[Point] = []
        requests: list[Point] = []
        for row in frame_rows(measured):
            means.append(Point.of(row, "trials", "mean", scale=100))
            requests.append(Point.of(row, "trials", "requests"))
        lines = [Line(score_name, means), Line("requests a question", requests, on_right_axis=True)]
        ticks = tuple(map(float, measured["trials"]))
        trials_axis = Axis("max trials (updates of the entity set)", ticks=ticks)
        score_axis = Axis(f"{score_name} × 100")
        panel = Panel(
            curve.title,
            x=trials_axis,
            left=score_axis,
            right=Axis("requests"),
            lines=lines,
            side_by_side=True,
        )
        panel_list.append(panel)
    return panel_list
