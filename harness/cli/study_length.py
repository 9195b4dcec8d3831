"""`harness study length`: score and answer recall by the length of a question's documents.

harness study length results --out length.svg
harness study length results --edges 8000,16000 --score flashrag.f1

No model is loaded, only the tokenizer of the model that a run read with; texts and gold answers come from the data set.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

from harness.cli.command import setting
from harness.cli.figures import Figure, form_of, numbers, show
from harness.cli.options import FigureOutput, MovedData, Runs, Score
from harness.cli.stored_runs import stored_runs, with_rows
from harness.errors import UserError

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun
    from reports.figures.length import Measured
    from reports.gold_rows import Rows


def study_length(
    folders: Runs,
    figure: FigureOutput,
    score: Score = None,
    edges: Annotated[
        str | None,
        setting("--edges N,...", "Edges of the length groups, in tokens.", "four groups of about equal size"),
    ] = None,
    data: MovedData = None,
) -> int:
    """Plot the score, and how often the answer was shown, by the length of the documents.

    Runs whose rows or tokenizer cannot be loaded are left out with a warning.
    """
    form = form_of(figure.form, figure.out)
    limits = _edges(edges)
    runs, damaged = stored_runs(folders)
    from reports.figures.length import frame, panels, sections

    table = frame(_measured(with_rows(runs, data, whole=True)), score, limits)
    show(Figure("Length of the documents", table, sections(table), panels(table)), form, figure.out)
    return 3 if damaged else 0


def _edges(text: str | None) -> tuple[int, ...] | None:
    """ "1000,4000" -> (1000, 4000). Raises UserError for what is no rising list of tokens."""
    if text is None:
        return None
    limits = numbers(text, "--edges", int, lambda n: n > 0, "numbers of tokens")
    if limits != sorted(limits):
        raise UserError(f"--edges {text}: should rise from edge to edge")
    return tuple(limits)


def _measured(runs: Sequence[tuple[StoredRun, Rows]]) -> list[Measured]:
    """Each run with what counts a document's tokens, once for runs over the same rows with the same model."""
    from harness.cli.report_tokens import tokens_by
    from reports.figures.length import Measured, group
    from reports.gold_rows import with_texts

    counts: dict[tuple[str, str | None, str], Callable[[str], int]] = {}
    measured: list[Measured] = []
    problems: list[UserError] = []
    for run, rows in runs:
        try:
            if (key := group(run)) not in counts:
                counts[key] = _counting(rows, tokens_by(run))
        except UserError as error:
            problems.append(error)
            continue
        measured.append(Measured(run, with_texts(rows, run, run.records), counts[key]))
    if not measured:
        raise problems[0]
    for problem in problems:
        sys.stderr.write(f"warning: left out: {problem}\n")
    return measured


def _counting(rows: Rows, tokens: Callable[[str], int]) -> Callable[[str], int]:
    return functools.cache(lambda name: tokens(rows.documents[name].text))
