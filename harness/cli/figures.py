"""What all figures and studies share: how their runs are read, and how they are written."""

import importlib
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from harness.cli.options import RESULTS, split_names
from harness.cli.output import say
from harness.cli.stored_runs import newest, stored_runs
from harness.cli.table_output import ENDINGS, FigureOutput, format_of, write
from harness.errors import UnknownName, UserError
from harness.storage.run_folder import Hold

T = TypeVar("T", int, float)
_READ_TABLES = ("front", "memory", "queries", "sweep")  # figures that read what tables read
_FORM_OF_SUFFIX = {".svg": "svg", ".pdf": "pdf", ".png": "png", ".html": "html", ".htm": "html"}


def write_figure(
    name: str,
    output: FigureOutput,
    folders: Sequence[str] | None,
    package: str = "reports.figures",
    **options: Any,
) -> int:
    """Read the runs, write the figure that the module NAME of `package` makes of them, and return
    the exit code.

    options: for the module's `figure`, which also gets `warn` where it takes that. Raises UserError
    where no folder is named and one has the figure's name: `harness report nodes` may mean either.
    """
    form = figure_format(output.form, output.out, drawn=name != "tokens")
    if not folders and Path(name).is_dir():
        raise UserError(
            f"'{name}' is a figure and a folder here; its tables: harness report ./{name}, or name "
            f"the folder of runs: harness report {name} RUNS_DIR"
        )
    hold: Hold = "all"
    if name in _READ_TABLES:
        hold = "numbers"
    runs, n_damaged = stored_runs(folders or [RESULTS], hold=hold)
    runs = newest(runs, output.all_code)
    make_figure = importlib.import_module(f"{package}.{name}").figure
    if "warn" in inspect.signature(make_figure).parameters:
        options["warn"] = say
    write(make_figure(runs, **options).written(form), output.out)
    if n_damaged:
        return 3
    return 0


def figure_format(form: str | None, out: str | None, *, drawn: bool = True) -> str:
    """The format to write: svg, pdf, png, html, or one of reports.main_table.FORMATS. drawn: False
    for a mere table.

    Raises UnknownName for an unknown format, UserError for an unknown ending or a figure that does
    not exist.
    """
    suffix = ""
    if out is not None:
        suffix = Path(out).suffix.lower()
    chosen = form
    if form is None:
        chosen = _FORM_OF_SUFFIX.get(suffix)
    if chosen in ("svg", "pdf", "png", "html"):
        if chosen != "html" and not drawn:
            raise UserError(
                "this is a table and has no drawing; use --format text, md, csv, latex, json or "
                "html"
            )
        if chosen in ("pdf", "png") and out is None:
            raise UserError(f"--format {chosen} needs a file to write to; add --out FILE.{chosen}")
        return chosen
    if form is not None and form not in ("text", "md", "markdown", "csv", "latex", "json"):
        raise UnknownName(
            "format", form, ("text", "md", "csv", "latex", "json", "svg", "pdf", "png", "html")
        )
    if form is None and out is not None and suffix not in ENDINGS:
        known = [*ENDINGS]
        if drawn:
            known += [".svg", ".pdf", ".png"]
        known.append(".html")
        raise UserError(
            f"no format ends in '{Path(out).suffix}' ('{out}'); use {', '.join(known)}, or name it "
            "with --format"
        )
    return format_of(form, out)


def parse_numbers(
    text: str | None, flag: str, kind: Callable[[str], T], valid: Callable[[T], bool], expected: str
) -> list[T] | None:
    """Parse the numbers of an option, "1,2,4", each once.

    Args:
        text: What was typed; None where the option was not.
        flag: The option's name, for messages.
        kind: int or float.
        valid: Whether a number is allowed.
        expected: Which numbers are allowed, in words.

    Raises:
        UserError: The list is empty, or a number is not allowed.
    """
    if text is None:
        return None
    try:
        values = [kind(part) for part in split_names([text])]
    except ValueError:
        values = []
    if not values or not all(valid(number) for number in values):
        raise UserError(f"{flag} {text}: should be {expected}, separated by commas")
    return list(dict.fromkeys(values))
