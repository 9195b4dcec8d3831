"""`harness report curves`: score and TFLOPs of other stopping rules, from runs made with --record-stops.

harness run --method pecan --dataset musique --record-stops 8
harness report curves results --out curves.svg
harness report curves results --t-p 0.5,0.9 --format csv       every t_n at every t_p

A recorded answer has no score yet: the data set is loaded for its gold answers, as `harness score` does, and the same
scorer judges it. No model is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from harness.cli.command import setting
from harness.cli.figures import Figure, form_of, numbers, replayed, show
from harness.cli.options import Convention, FigureOutput, MovedData, RunsFolders, Score
from harness.cli.stored_runs import figure_runs
from harness.cost.flops import DEFAULT
from harness.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from harness.storage.run_folder import StoredRun
    from reports.figures.curves import Key, Scored
    from reports.figures.replay import Rule, Stop


_LEGEND = "t_n: the search ends at the t_n-th probe with P(Yes) above t_p; other t_n and t_p are replayed"


def report_curves(
    figure: FigureOutput,
    folders: RunsFolders = None,
    score: Score = None,
    t_p: Annotated[
        str | None, setting("--t-p X,...", "Confidence thresholds.", "0.1 to 0.98, up to the highest recorded one")
    ] = None,
    t_n: Annotated[int, setting("--t-n N", "Stop patience from 1 to N.", min=1)] = 8,
    data: MovedData = None,
    convention: Convention = None,
) -> int:
    """Plot score and TFLOPs of other stopping rules, from runs made with --record-stops.

    The recorded answers are scored now, as `harness score` does, so the data set is loaded; no model is.
    """
    form = form_of(figure.form, figure.out)
    thresholds = None if t_p is None else numbers(t_p, "--t-p", float, lambda p: 0 <= p <= 1, "numbers from 0 to 1")
    runs, damaged = figure_runs(folders, "curves")
    from reports.figures.curves import frame, grid, panels

    chosen = replayed(runs, lambda run: grid(run, t_n, thresholds))
    if not chosen:
        raise UserError(
            "no run here stops by t_n and t_p, so there is no curve; make one with: "
            "harness run --method pecan --dataset musique --record-stops 8"
        )
    if not any(len(rules) > 1 for _, rules in chosen):
        raise UserError(
            "no run here recorded other stops than its own: there is no curve; run one with --record-stops 8"
        )
    parts = [_scored(run, rules, score, data) for run, rules in chosen]
    table = frame(parts, score, convention or DEFAULT)
    show(Figure("Stop rules", table, _sections(table), panels(table)), form, figure.out)
    return 3 if damaged else 0


def _sections(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The two lines of each curve; csv and json hold the whole grid."""
    from reports.columns import legended
    from reports.figures.curves import slices

    same = ["dataset", "method", "model", "rule", "score"]
    parts = []
    for title, over_n, over_p in slices(table):
        for rows, name in ((over_n, "t_n"), (over_p, "t_p")):
            if name == "t_n" or len(rows) > 1:
                score = str(rows["score"].iloc[0])
                names = {f"mean{end}": f"{score}{end}" for end in ("", ".low", ".high")}
                shown = rows.drop(columns=[*same, "own"]).rename(columns=names)
                shown["notes"] = shown["notes"].map(lambda notes: (_LEGEND, *notes))
                parts.append((f"{title} · over {name}", legended(shown)))
    return parts


def _scored(run: StoredRun, rules: tuple[Rule, ...], score: str | None, data: str | None) -> Scored:
    """A run with the score of every answer that its rules need. Raises UserError where there is no gold for them."""
    from reports import stored as facts
    from reports.figures.curves import Scored, wanted

    name = score or facts.headline(run)
    facts.scored(run, name)  # raises UnknownName for a score the run does not have
    stops = wanted(run, rules)
    return Scored(run, rules, _judge(run, stops, name, data) if stops else {})


def _judge(run: StoredRun, stops: dict[Key, Stop], name: str, data: str | None) -> dict[Key, float | None]:
    from harness.cli.judging import Recorded, judged
    from reports.figures.replay import shown

    records = {record["question_id"]: record for record in run.records}
    answers = {key: Recorded(stop.answer, shown(records[key[0]], stop)) for key, stop in stops.items()}
    return judged(run, answers, name, data)
