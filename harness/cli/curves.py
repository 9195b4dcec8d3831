"""`harness report curves`: score and TFLOPs of other stop rules, out of runs made with --record-stops.

harness run --method pecan --dataset musique --record-stops 8
harness report curves results --out curves.svg
harness report curves results --t-p 0.5,0.9 --format csv       every t_n at every t_p

A recorded answer has no score yet: the data set is loaded for its gold answers, as `harness score` does, and the same
scorer judges it. No model is loaded.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.cli.figures import Figure, folder_of, form_of, numbers, replayed, show, stored
from harness.cost.flops import DEFAULT
from harness.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from harness.storage.run_folder import StoredRun
    from reports.figures.curves import Key, Scored
    from reports.figures.replay import Rule, Stop


@dataclass(frozen=True)
class Options:
    """How the curves are shown.

    score: by default each data set's first; t_p: "0.5,0.9", by default a grid up to the highest recorded one; t_n: 1 to
    this; data: where the rows are now; convention: how FLOPs are counted.
    """

    form: str | None = None
    out: str | None = None
    score: str | None = None
    t_p: str | None = None
    t_n: int = 8
    data: str | None = None
    convention: str | None = None


def main(folder: str | None, options: Options) -> int:
    """Print or draw the curves; 3 when a damaged run was left out.

    Raises UserError where no run stops by t_n, or the answers cannot be scored; SaveError.
    """
    form = form_of(options.form, options.out)
    t_p = None
    if options.t_p is not None:
        t_p = numbers(options.t_p, "--t-p", float, lambda p: 0 <= p <= 1, "numbers from 0 to 1")
    runs, damaged = stored(folder_of(folder, "curves"))
    from reports.figures.curves import frame, grid, panels

    chosen = replayed(runs, lambda run: grid(run, options.t_n, t_p))
    if not chosen:
        raise UserError(
            "no run here stops by t_n and t_p, so there is no curve; make one with: "
            "harness run --method pecan --dataset musique --record-stops 8"
        )
    parts = [_scored(run, rules, options) for run, rules in chosen]
    table = frame(parts, options.score, options.convention or DEFAULT)
    if not any(len(rules) > 1 for _, rules in chosen):
        sys.stderr.write("note: no run here recorded other stops than its own; run one with --record-stops 8\n")
    show(Figure("Stop rules", table, _sections(table), panels(table)), form, options.out)
    return 3 if damaged else 0


def _sections(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The two lines of each curve; the whole grid is for csv and json."""
    from reports.columns import legended
    from reports.figures.curves import slices

    same = ["dataset", "method", "model", "rule", "score"]
    found = []
    for title, over_n, over_p in slices(table):
        for rows, name in ((over_n, "t_n"), (over_p, "t_p")):
            if name == "t_n" or len(rows) > 1:
                score = str(rows["score"].iloc[0])
                names = {f"mean{end}": f"{score}{end}" for end in ("", ".low", ".high")}
                told = rows.drop(columns=[*same, "own"]).rename(columns=names)
                found.append((f"{title} · over {name}", legended(told)))
    return found


def _scored(run: StoredRun, rules: tuple[Rule, ...], options: Options) -> Scored:
    """A run with the score of every answer that its rules need. Raises UserError where there is no gold for them."""
    from reports import stored as facts
    from reports.figures.curves import Scored, wanted

    name = options.score or facts.headline(run)
    facts.scored(run, name)  # raises UnknownName for a score the run does not have
    stops = wanted(run, rules)
    return Scored(run, rules, _judge(run, stops, name, options.data) if stops else {})


def _judge(run: StoredRun, stops: dict[Key, Stop], name: str, data: str | None) -> dict[Key, float | None]:
    from harness.cli.judging import Recorded, judged
    from reports.figures.replay import shown

    records = {record["question_id"]: record for record in run.records}
    told = {key: Recorded(stop.answer, shown(records[key[0]], stop)) for key, stop in stops.items()}
    return judged(run, told, name, data)
