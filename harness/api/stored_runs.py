"""What stored runs can be asked from Python: compare, score, judge."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Required, TypedDict, Unpack

import pandas as pd

from harness.api.notebook import default_progress
from harness.api.results import PathLike, Run, folder_of
from harness.api.tables import compare_folders
from harness.cost.flops import DEFAULT_CONVENTION
from harness.engine.rescore import rescore
from harness.judging.judge_run import judge_run
from harness.judging.make import JudgeRequest, make_judge
from harness.storage.named_runs import run_folders
from harness.storage.run_folder import read_run
from reports.judge_work import runs_to_judge
from reports.judges import judge_agreements
from reports.labels import ONLY_RATER, HandLabels, label_agreements


def compare(
    *runs: Run | PathLike,
    reference: str | None = None,
    score: str | None = None,
    force: bool = False,
    convention: str = DEFAULT_CONVENTION,
) -> pd.DataFrame:
    """Compare stored runs: a row for each, with its paired difference to the reference.

    It is the table that `harness compare --format csv` writes.

    Args:
        runs: Runs, run folders, or folders that hold runs; a single run has its means only.
        reference: A preset's name, a run folder's name or hash.
        score: The name of the score; by default the data set's headline.
        force: Compare runs that differ in more than the method.
        convention: How FLOPs are counted.

    Raises:
        UserError: The runs must not be compared.
        UnknownName: There is no such reference or score.
    """
    return compare_folders(
        list(map(folder_of, runs)),
        reference=reference,
        score=score,
        force=force,
        convention=convention,
    )


def score(
    run: Run | PathLike,
    *,
    scorers: list[str] | None = None,
    only: bool = False,
    data: PathLike | None = None,
) -> dict[str, Any]:
    """Score a run's stored predictions again, without a model.

    Args:
        run: A Run or its folder.
        scorers: Names, in addition to the run's own.
        only: Drop the run's other scores.
        data: Where the data set's rows are now; by default where they were.

    Returns:
        The run's new summary, as `Run.summary`.
    """
    summary = rescore(
        Path(folder_of(run)),
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
        max_tokens: The most tokens of a reply.
        kind: As of `harness judge --kind`.
        scale: "1-5" for a rubric in `prompt`.
    """

    model: Required[PathLike]
    set: Mapping[str, object]
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
    folders = run_folders([os.fspath(folder_of(run)) for run in runs])
    arguments: dict[str, Any] = dict(options)
    for name in ("model", "prompt"):
        if arguments.get(name) is not None:
            arguments[name] = os.fspath(arguments[name])
    request = JudgeRequest(sets=arguments.pop("set", None) or {}, **arguments)
    by_hand = HandLabels({})
    if labels:
        by_hand = HandLabels({ONLY_RATER: labels})
    rows = []
    for work in runs_to_judge(make_judge(request), folders, data=None, request=request):
        progress = default_progress()
        judge_run(work.folder, work.questions, work.judge, parallel=parallel, progress=progress)
        judged_run = read_run(work.folder)
        pairs = [*judge_agreements(judged_run), *label_agreements(judged_run, by_hand)]
        rows += [{"run": work.folder.name, **pair.columns()} for pair in pairs]
    return pd.DataFrame(rows)
