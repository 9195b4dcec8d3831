"""What a call returns and what stored runs can be asked: Run, Runs, load_run, compare, score,
judge."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Required, TypedDict, Unpack

from harness.cost.flops import DEFAULT
from harness.storage.run_folder import StoredRun, read_run

if TYPE_CHECKING:
    import pandas as pd

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Run:
    """A run folder. save_problems: what could not be written, a sentence each."""

    folder: Path
    save_problems: tuple[str, ...] = ()

    @cached_property
    def stored(self) -> StoredRun:
        """The folder's files as they were when they were first needed. Raises UserError,
        DataError."""
        return read_run(self.folder)

    @property
    def summary(self) -> dict[str, Any]:
        """Scores with intervals, costs and counts: docs/run-folder.md#summary."""
        return self.stored.summary.to_json()

    @property
    def config(self) -> dict[str, Any]:
        """Every setting of the run, nested as under `config` in its run.yaml: {"method": {"name":
        ...}, ...}."""
        return self.stored.config.to_json()

    @property
    def failed(self) -> int:
        """The number of questions that failed."""
        return self.stored.summary.n_failed or 0

    @cached_property
    def records(self) -> pd.DataFrame:
        """A row a question: question_id, question, gold, prediction, a column a score, tokens,
        tflops, seconds, ..."""
        from reports.frames import records

        return records(self.stored)

    @cached_property
    def documents(self) -> pd.DataFrame:
        """A row an index: document_id, status, tokens, tflops, seconds."""
        from reports.frames import documents

        return documents(self.stored)

    def compare(
        self, *others: Run | PathLike, reference: str | None = None, score: str | None = None
    ) -> pd.DataFrame:
        """This run beside `others`, a row a run, as the function `compare` gives; reference: by
        default this run."""
        return compare(self, *others, reference=reference or self.folder.name, score=score)

    def trace(self, question_id: str) -> str:
        """The search of one question as text, as `harness trace` prints it. Raises UnknownName."""
        from reports.trace import search_of, trace_lines

        return "\n".join(trace_lines(search_of(self.stored, question_id)))

    def plot(self, out: PathLike | None = None, *, score: str | None = None) -> bytes:
        """Draw score against cost of this run alone; arguments, result and errors are those of
        `Runs.plot`."""
        return Runs([self]).plot(out, score=score)

    def _repr_html_(self) -> str:
        return Runs([self])._repr_html_()


class Runs(list[Run]):
    """Runs of one call, in the order in which they ran. lost: name ("bm25 k=3 on nq") -> why it is
    incomplete."""

    lost: dict[str, str]

    def __init__(self, runs: Sequence[Run] = (), lost: Mapping[str, str] | None = None) -> None:
        super().__init__(runs)
        self.lost = dict(lost or {})

    @property
    def averaged(self) -> pd.DataFrame:
        """`table` with one averaged row for runs that differ in their seed alone: `harness report
        --average-seeds`."""
        from reports.main_table import frame
        from reports.repeats import average_over_seeds

        return frame(average_over_seeds([run.stored for run in self]))

    @property
    def table(self) -> pd.DataFrame:
        """What `harness report --format csv` holds: a row a run; see reports/main_table.py for the
        columns."""
        from reports.main_table import frame

        return frame([run.stored for run in self])

    def compare(self, *, reference: str | None = None, score: str | None = None) -> pd.DataFrame:
        """A row for each run, with its paired difference to the reference; arguments as of the
        function `compare`."""
        return compare(*self, reference=reference, score=score)

    def plot(self, out: PathLike | None = None, *, score: str | None = None) -> bytes:
        """Score against cost with intervals, the front marked: an SVG, or what the ending of `out`
        says (pdf, png).

        score: its name, by default the data set's headline. Returns the file's content and writes
        it to `out`. Raises UserError, also for runs of several data sets.
        """
        from harness.errors import UserError
        from reports.figures import front
        from reports.figures.plot import FORMS
        from reports.main_table import table_rows

        rows = table_rows([run.stored for run in self])
        if len({row.dataset for row in rows}) > 1:
            raise UserError("score against cost is drawn for one data set; select its runs first")
        form = "svg"
        if out is not None:
            form = Path(out).suffix.lower().removeprefix(".")
        if form not in FORMS:
            raise UserError(f"'{out}' should end in {', '.join('.' + form for form in FORMS)}")
        points = front.points(rows, score)
        if not points:
            raise UserError(
                "no run has both a score and known FLOPs, so there is no figure; harness report "
                "says what is missing"
            )
        content = front.draw(points, score or rows[0].headline, form)
        if out is not None:
            Path(out).write_bytes(content)
        return content

    def _repr_html_(self) -> str:
        from reports.columns import sections
        from reports.frames import html

        return html(sections(self.table))


def load_run(folder: PathLike) -> Run:
    """A stored run. Raises UserError where `folder` is no run folder."""
    loaded = Run(Path(folder))
    _ = loaded.stored
    return loaded


def compare(
    *runs: Run | PathLike,
    reference: str | None = None,
    score: str | None = None,
    force: bool = False,
    convention: str = DEFAULT,
) -> pd.DataFrame:
    """What `harness compare --format csv` holds: one row a run, with its paired difference to the
    reference.

    runs: Runs, run folders, or folders that hold runs; a single run has its means only. reference:
    a preset's name, a run folder's name or hash; score: by default the data set's headline;
    convention: how FLOPs are counted. Raises UserError for runs that must not be compared, unless
    `force`, and UnknownName.
    """
    from harness.storage.named_runs import read_runs, run_folders
    from reports.compare import side_by_side

    stored_runs = read_runs(run_folders([os.fspath(_folder(run)) for run in runs]))
    return side_by_side(
        stored_runs, reference=reference, score=score, force=force, convention=convention
    ).joined()


def _folder(run: Run | PathLike) -> PathLike:
    return run.folder if isinstance(run, Run) else run


def score(
    run: Run | PathLike,
    *,
    scorers: list[str] | None = None,
    only: bool = False,
    data: PathLike | None = None,
) -> dict[str, Any]:
    """Score a run's stored predictions again, without a model, and return its new summary
    (`Run.summary`).

    scorers: names, in addition to the run's own, or instead of them if `only`; data: where the data
    set's rows are now.
    """
    from harness.engine.rescore import rescore

    summary = rescore(
        Path(_folder(run)),
        scorers=scorers or (),
        only=only,
        data=None if data is None else os.fspath(data),
    )
    return summary.to_json()


class JudgeArguments(TypedDict, total=False):
    """The options of `harness judge` that say who judges what.

    Attributes:
        model: Preset, folder or hub id.
        set: Its settings, {"model.base_url": ...}.
        prompt: A file.
        name: The score is judge.NAME.
        max_tokens: Of a reply.
        kind: As of `harness judge --kind`.
        scale: "1-5" for a rubric in `prompt`.
    """

    model: Required[PathLike]
    set: Mapping[str, Any]
    prompt: PathLike | None
    name: str | None
    max_tokens: int | None
    kind: str
    scale: str | None


def judge(
    *runs: Run | PathLike,
    labels: Mapping[str, str] | None = None,
    parallel: int = 1,
    **options: Unpack[JudgeArguments],
) -> pd.DataFrame:
    """Let a model judge stored answers, as `harness judge` does; the scores are stored with the
    runs.

    Replies are stored too: the same call sends only the requests that are missing.

    Args:
        runs: Runs, or their folders.
        labels: By hand, question id -> "yes", "no" or a number.
        parallel: Answers at a time.
        options: model: preset, folder or hub id; set: its settings, {"model.base_url": ...};
            prompt: a file; name: the score is judge.NAME; max_tokens: of a reply; kind: as of
            `harness judge --kind`; scale: "1-5" for a rubric in `prompt`.

    Returns:
        A row for each run and pair of a judge with the headline, another judge or the labels.

    Raises:
        UserError: A mistake; nothing was judged.
        TypeError: There is no such option, or no model.
    """
    import pandas as pd

    from harness.api.notebook import default_progress
    from harness.judging.judge_run import judge_run
    from harness.judging.make import JudgeRequest, make_judge
    from harness.storage.named_runs import run_folders
    from reports.judge_work import runs_to_judge
    from reports.judges import judge_agreements
    from reports.labels import LABELS, HandLabels, label_agreements

    folders = run_folders([os.fspath(_folder(run)) for run in runs])
    given: dict[str, Any] = dict(options)
    for name in ("model", "prompt"):
        if given.get(name) is not None:
            given[name] = os.fspath(given[name])
    request = JudgeRequest(sets=given.pop("set", None) or {}, **given)
    by_hand = HandLabels({})
    if labels:
        by_hand = HandLabels({LABELS: labels})
    rows = []
    for one in runs_to_judge(make_judge(request), folders, None, request):
        progress = default_progress()
        judge_run(one.folder, one.questions, one.judge, parallel=parallel, progress=progress)
        judged = read_run(one.folder)
        pairs = [*judge_agreements(judged), *label_agreements(judged, by_hand)]
        rows += [{"run": one.folder.name, **pair.columns()} for pair in pairs]
    return pd.DataFrame(rows)
