"""What all figures and studies share: how their runs are read, and how they are written."""

import importlib
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from harness.cli.options import RESULTS, split_names
from harness.cli.output import say
from harness.cli.stored_runs import read_stored_runs, with_newest_code
from harness.cli.table_output import (
    FORMAT_OF_ENDING,
    FigureOutput,
    choose_table_format,
    print_or_write,
)
from harness.errors import UnknownName, UserError
from harness.storage.run_folder import Hold

T = TypeVar("T", int, float)
# Figures for which the numbers of records are enough, as for tables.
_FIGURES_OF_NUMBERS = ("front", "memory", "queries", "sweep")
_FORMAT_OF_SUFFIX = {".svg": "svg", ".pdf": "pdf", ".png": "png", ".html": "html", ".htm": "html"}


def write_figure(
    name: str,
    output: FigureOutput,
    folders: Sequence[str] | None,
    package: str = "reports.figures",
    **options: Any,
) -> int:
    """Read runs and write the figure that a module makes of them.

    Runs that newer code made again are left out, unless --all-code is given. A figure that needs
    numbers alone has their texts left on disk.

    Args:
        name: The figure, and its module in `package`.
        output: The format and the file.
        folders: Folders of runs; None for the default results folder.
        package: The package of the module.
        options: Arguments of the module's function `figure`, which also gets `warn` if it takes
            that.

    Returns:
        The exit code: 3 if a damaged run was left out, else 0.

    Raises:
        UserError: No folder is named and one has the figure's name: `harness report nodes` may mean
            either.
    """
    form = choose_figure_format(output.form, output.out, has_drawing=name != "tokens")
    if not folders and Path(name).is_dir():
        raise UserError(
            f"'{name}' is a figure and a folder here; its tables: harness report ./{name}, or name "
            f"the folder of runs: harness report {name} RUNS_DIR"
        )
    hold: Hold = "all"
    if name in _FIGURES_OF_NUMBERS:
        hold = "numbers"
    runs, damaged = read_stored_runs(folders or [RESULTS], hold=hold)
    runs = with_newest_code(runs, output.all_code)
    make_figure = importlib.import_module(f"{package}.{name}").figure
    if "warn" in inspect.signature(make_figure).parameters:
        options["warn"] = say
    print_or_write(make_figure(runs, **options).written(form), output.out)
    if damaged:
        return 3
    return 0


def choose_figure_format(form: str | None, out: str | None, *, has_drawing: bool = True) -> str:
    """Choose the format of a figure: --format, else by the ending of --out, else "text".

    Args:
        form: What --format names; None without it.
        out: The file of --out; None without it.
        has_drawing: False for a figure that is a mere table.

    Returns:
        "svg", "pdf", "png", "html", or a format of tables.

    Raises:
        UnknownName: There is no format `form`.
        UserError: No format has that ending, or the figure has no drawing.
    """
    suffix = ""
    if out is not None:
        suffix = Path(out).suffix.lower()
    chosen = form
    if form is None:
        chosen = _FORMAT_OF_SUFFIX.get(suffix)
    if chosen in ("svg", "pdf", "png", "html"):
        _check_drawing(chosen, out, has_drawing)
        return chosen
    if form is not None and form not in ("text", "md", "markdown", "csv", "latex", "json"):
        raise UnknownName(
            "format", form, ("text", "md", "csv", "latex", "json", "svg", "pdf", "png", "html")
        )
    if form is None and out is not None and suffix not in FORMAT_OF_ENDING:
        raise _unknown_ending_error(out, has_drawing)
    return choose_table_format(form, out)


def _check_drawing(form: str, out: str | None, has_drawing: bool) -> None:
    """Raise UserError where a figure cannot be drawn, or a PDF or PNG would be printed.

    Args:
        form: "svg", "pdf", "png" or "html".
        out: The file of --out; None without it.
        has_drawing: False for a figure that is a mere table, which can be a page.
    """
    if form != "html" and not has_drawing:
        raise UserError(
            "this is a table and has no drawing; use --format text, md, csv, latex, json or html"
        )
    if form in ("pdf", "png") and out is None:
        raise UserError(f"--format {form} needs a file to write to; add --out FILE.{form}")


def _unknown_ending_error(out: str, has_drawing: bool) -> UserError:
    """Make the error for a file whose ending names no format; it lists those that do.

    Args:
        out: The file.
        has_drawing: Whether the figure has a drawing, and so the endings of pictures.
    """
    known_endings = [*FORMAT_OF_ENDING]
    if has_drawing:
        known_endings += [".svg", ".pdf", ".png"]
    known_endings.append(".html")
    return UserError(
        f"no format ends in '{Path(out).suffix}' ('{out}'); use {', '.join(known_endings)}, or name it "
        "with --format"
    )


def parse_numbers(
    text: str | None,
    flag: str,
    *,
    parse_number: Callable[[str], T],
    is_allowed: Callable[[T], bool],
    expected: str,
) -> list[T] | None:
    """Parse the numbers of an option, each once: "1,2,4" -> [1, 2, 4]; None where it was not typed.

    Args:
        text: What was typed; None where the option was not.
        flag: The option's name, for messages.
        parse_number: int or float.
        is_allowed: Whether a number is allowed.
        expected: Which numbers are allowed, in words.

    Raises:
        UserError: The list is empty, or a number is not allowed.
    """
    if text is None:
        return None
    try:
        values = [parse_number(part) for part in split_names([text])]
    except ValueError:
        values = []
    if not values or not all(is_allowed(number) for number in values):
        raise UserError(f"{flag} {text}: should be {expected}, separated by commas")
    return list(dict.fromkeys(values))
