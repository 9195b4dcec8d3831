"""`harness reproduce`: run the suite of a published table or figure, and show what it gives beside the printed values.

With a small model (smollm2-135m) on real data sets profile `small` takes the place of `paper`, with the embedded model
profile `pocket`, and the model plays the roles of all language models.
"""

from __future__ import annotations

import contextlib
import io
import shlex
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.command import output, setting
from harness.cli.options import RowOptions, Selection
from harness.cli.output import say, write
from harness.cli.run import run_selection
from harness.cli.run_options import Execution
from harness.cli.stored_runs import stored_runs
from harness.cli.worker_options import WorkerOptions
from harness.config import suites
from harness.config.resolve import part as configured
from harness.errors import HarnessError, UserError
from harness.storage.object_store import is_url
from harness.storage.run_folder import StoredRun, read_run

if TYPE_CHECKING:
    from reports.paper.tables_and_figures import TableOrFigure


@dataclass(frozen=True)
class Pages:
    """Files with every printed value beside ours."""

    html: Annotated[str | None, output("--html FILE", "Write every printed value beside ours as a page.")] = None
    markdown: Annotated[str | None, output("--markdown FILE", "The same as Markdown.")] = None
    latex: Annotated[str | None, output("--latex FILE", "The same as LaTeX.")] = None
    margin: Annotated[
        float, setting("--margin X", "Largest difference called equivalent, in points of a score or percent of a cost.")
    ] = 2.0

    @property
    def files(self) -> dict[str, str]:
        """Format -> file."""
        given = {"html": self.html, "markdown": self.markdown, "latex": self.latex}
        return {form: file for form, file in given.items() if file is not None}


def reproduce(
    chosen: RowOptions,
    execution: Execution,
    scaling: WorkerOptions,
    pages: Pages,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="A table or figure: pecan-table1; pocket-pecan-table1 is its twin."),
    ] = None,
    listing: Annotated[
        bool, output("--list", "List tables and figures with what each needs and what is here; run nothing.")
    ] = False,
) -> int:
    """Run a table or figure of the papers, and show ours beside the printed values.

    The same command again resumes. Without NAME, --html, --markdown and --latex write what the stored runs give.
    """
    if not 0 < pages.margin < float("inf"):
        raise UserError(f"--margin {pages.margin:g}: should be more than 0")
    if listing:
        from harness.cli.reproduce_list import print_needs

        return print_needs(name, execution.json)
    if name is None:
        return _write_stored_pages(chosen, execution, pages)
    from reports.paper.tables_and_figures import find_table_or_figure

    place, suite = find_table_or_figure(name)
    ran: list[Path] = []
    code = run_selection(_suite_selection(chosen, suite), execution, scaling, ran=ran)
    if code in (1, 130) or not ran:
        return code
    runs = [run for run in map(read_run, dict.fromkeys(ran)) if run.records]
    if not execution.json:
        _print_values(runs, place, pages)
        _write_drawings(runs, place, suite, execution.folder)
    _write_pages(runs, place, pages)
    return code


def _write_stored_pages(chosen: RowOptions, execution: Execution, pages: Pages) -> int:
    """Write the pages of all runs in --out; without runs, those of the printed values alone."""
    if not pages.files:
        raise UserError("name a table or figure (harness reproduce --list), or write a page: --html reproduce.html")
    if chosen != RowOptions():
        raise UserError("a page of stored runs runs nothing; name a table, or leave out what a run is chosen with")
    there = is_url(execution.out) or execution.folder.is_dir()
    runs, damaged = stored_runs([execution.out]) if there else ([], 0)
    _write_pages(runs, None, pages)
    return 3 if damaged else 0


def _suite_selection(chosen: RowOptions, suite: str) -> Selection:
    """The selection of a suite's rows; a small model plays every role, with its own profile in place of paper."""
    from reports.paper.tables_and_figures import TWIN

    made = Selection(**{f.name: getattr(chosen, f.name) for f in fields(chosen)}, suite=suite)
    if chosen.model is None or suite.startswith(TWIN):
        return made
    whole = suites.read_suite(suite)
    roles = {key for part in whole.parts or (whole,) for key in part.sets if key.startswith("roles.")}
    made = replace(made, unset=[*made.unset, *sorted(roles - set(made.unset))])
    model = configured("models", model=chosen.model)
    profile = "pocket" if model.embedded else "small" if model.small else None
    if chosen.profile is None and profile is not None:
        say(f"note: profile {profile} in place of paper: {model.name} in every role, and the encoders that are here")
        return replace(made, profile=profile)
    return made


def _print_values(runs: list[StoredRun], item: TableOrFigure, pages: Pages) -> None:
    """Print ours beside the printed values of the item, as far as there are any."""
    from reports.paper.all_values import NOT_RUN, tables, text

    named = tables(runs, item, margin=pages.margin)
    left = sum(int((frame["verdict"] == NOT_RUN).sum()) for _, frame in named)
    named = [(title, own) for title, frame in named if not (own := frame[frame["run"].notna()]).empty]
    if named:
        print(text(runs, named, "text", pages.margin).rstrip("\n"))
    if left:
        print(f"{left} printed values of {item.label} have no run here yet")
    if not named:
        print(f"{item.label}: {item.note or 'no printed value is measured by these runs'}")


def _write_drawings(runs: list[StoredRun], item: TableOrFigure, suite: str, out: Path) -> None:
    """Write each drawing of the item into a file beside the runs; print why where one cannot be drawn."""
    from harness.cli.main import root

    folders = [str(run.path) for run in runs]
    drawings: list[tuple[list[str], Path]] = []  # arguments of harness, file
    for words in map(shlex.split, item.draws):
        file = out / (suite + {"trace": ".html", "tokens": ".md"}.get(words[-1], ".svg"))
        if words == ["trace"]:
            question = str(runs[0].records[0]["question_id"])
            drawings.append(([*words, folders[0], question, "--graph", str(file)], file))
        elif words == ["report", "front"]:  # one data set at a time
            for name in dict.fromkeys(str(run.config["dataset"]["name"]) for run in runs):
                file = out / f"{suite}-{name.replace('/', '~')}.svg"
                drawings.append(([*words, *folders, "--dataset", name, "--out", str(file)], file))
        else:
            drawings.append(([*words, *folders, "--out", str(file)], file))
    for arguments, file in drawings:
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # what trace prints is not the figure
                root().main(arguments, prog_name="harness", standalone_mode=False)
        except HarnessError as error:
            say(f"note: {file.name} was not drawn: {error}")
        else:
            print(f"{item.label} is in {file}")


def _write_pages(runs: list[StoredRun], item: TableOrFigure | None, pages: Pages) -> None:
    from reports.paper.all_values import tables, text

    if not pages.files:
        return
    named = tables(runs, item, margin=pages.margin)
    for form, file in pages.files.items():
        write(text(runs, named, form, pages.margin), file)
        print(f"written: {file}")
