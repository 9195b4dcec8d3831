"""`harness study trials`: score and requests by the maximum number of trials, from runs made with --record-stops.

harness study trials results --out trials.svg

Answers that a search recorded at other maxima have no score yet: the data set is loaded for its gold answers, as
`harness score` does. No model is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from harness.cli.command import setting
from harness.cli.figures import Figure, form_of, replayed, show
from harness.cli.options import Convention, FigureOutput, MovedData, Runs, Score
from harness.cli.stored_runs import stored_runs
from harness.cost.flops import DEFAULT

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun
    from reports.figures.trials import Recorded, Scored


def study_trials(
    folders: Runs,
    figure: FigureOutput,
    score: Score = None,
    most: Annotated[
        int | None, setting("--most N", "Highest maximum to show.", "the highest recorded one", min=0)
    ] = None,
    data: MovedData = None,
    convention: Convention = None,
) -> int:
    """Plot score and requests by the maximum number of trials, from runs made with --record-stops."""
    form = form_of(figure.form, figure.out)
    runs, damaged = stored_runs(folders)
    from reports.figures.trials import frame, panels, recorded, sections

    scored = [_scored(run, trials, score, most, data) for run, trials in replayed(runs, recorded)]
    table = frame(scored, score, convention or DEFAULT)
    show(Figure("Maximum of trials", table, sections(table), panels(table)), form, figure.out)
    return 3 if damaged else 0


def _scored(run: StoredRun, trials: Recorded, score: str | None, most: int | None, data: str | None) -> Scored:
    """A run with the score of every recorded answer that its maxima need."""
    from harness.cli.judging import Recorded as Answer
    from harness.cli.judging import judged
    from reports import stored as facts
    from reports.figures.trials import Scored, shown, wanted

    name = score or facts.headline(run)
    facts.scored(run, name)  # raises UnknownName for a score the run does not have
    maxima = range((trials.most if most is None else most) + 1)
    stops = wanted(run, trials, maxima)
    records = {record["question_id"]: record for record in run.records}
    answers = {(q, i): Answer(stop.answer, shown(records[q], i)) for (q, i), stop in stops.items()}
    return Scored(run, trials, maxima, judged(run, answers, name, data) if answers else {})
