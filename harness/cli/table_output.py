"""Tables and figures that commands print: their options, their format, and aligned columns.

>>> print(aligned_columns([("bm25", "top-5 chunks"), ("pecan", "a graph")]))
bm25   top-5 chunks
pecan  a graph
"""

import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from harness.cli.command import output, setting
from harness.cli.options import AllCode, Convention
from harness.cli.output import say
from harness.errors import UnknownName, UserError, printable
from harness.storage.files import save_error, write_atomic

FORMAT_OF_ENDING = {
    ".txt": "text",
    ".md": "markdown",
    ".csv": "csv",
    ".tex": "latex",
    ".json": "json",
}
_FORMAT_OF_NAME = {
    "text": "text",
    "md": "markdown",
    "markdown": "markdown",
    "csv": "csv",
    "latex": "latex",
    "json": "json",
}

TableFormat = Annotated[
    str | None,
    output("--format NAME", "text, md, csv, latex or json.", "by the ending of --out, else text"),
]
TableFile = Annotated[
    str | None, output("--out FILE", "Write to a file: .txt, .md, .csv, .tex or .json.")
]


@dataclass(frozen=True)
class TableOutput:
    """How a table of runs is shown; shared by compare and report."""

    form: TableFormat = None
    out: TableFile = None
    columns: Annotated[
        str | None, output("--columns NAME,...", "Columns to show.", "those that fit a terminal")
    ] = None
    everything: Annotated[bool, output("--all", "Show every column.")] = False
    reference: Annotated[
        str | None,
        setting(
            "--reference NAME",
            "Compare with this run: label, method, run folder or run hash.",
            "full-context",
        ),
    ] = None
    convention: Convention = None
    by: Annotated[
        str | None,
        setting(
            "--by KIND",
            "A table for each kind of question: hops, type, level, length, answer, or a column of "
            "the rows.",
        ),
    ] = None
    average_seeds: Annotated[
        bool,
        setting(
            "--average-seeds",
            "Show runs that differ in their seed alone as one: mean, spread; vote and pass@k of "
            "drawn answers.",
        ),
    ] = False
    all_code: AllCode = False


@dataclass(frozen=True)
class FigureOutput:
    """How a figure is shown; shared by `harness report` figures and studies."""

    form: Annotated[
        str | None,
        output(
            "--format NAME",
            "text, md, csv, latex, json, svg, pdf, png or html.",
            "by the ending of --out, else text",
        ),
    ] = None
    out: Annotated[
        str | None,
        output(
            "--out FILE",
            "Write to a file: .svg, .pdf, .png and .html hold the figure; .txt, .md, .csv, .tex "
            "and .json its numbers.",
        ),
    ] = None
    all_code: AllCode = False


def choose_table_format(form: str | None, out: str | None) -> str:
    """Choose the format of a table: --format, else by the ending of --out, else "text".

    Args:
        form: What --format names; None without it.
        out: The file of --out; None without it.

    Raises:
        UnknownName: There is no format `form`.
        UserError: The ending belongs to no table.
    """
    if form is not None:
        if form not in _FORMAT_OF_NAME:
            raise UnknownName(
                "format", form, ("text", "md", "csv", "latex", "json"), "--html FILE makes a page"
            )
        return _FORMAT_OF_NAME[form]
    if out is None:
        return "text"
    suffix = Path(out).suffix.lower()
    if suffix in (".html", ".htm"):
        raise UserError(
            f"'{out}' would be a page; make one with: harness report RUNS_DIR --html {out}"
        )
    if suffix not in FORMAT_OF_ENDING:
        raise UserError(
            f"no format ends in '{suffix}' ('{out}'); use {', '.join(FORMAT_OF_ENDING)}, or name it with "
            "--format"
        )
    return FORMAT_OF_ENDING[suffix]


def print_or_write(content: str | bytes, out: str | None) -> None:
    """Print a text, or write it to the file `out`, whose folder is made.

    Args:
        content: A text, or the bytes of a file; bytes are printed as UTF-8.
        out: The file; None to print.

    Raises:
        SaveError: The file cannot be written.
    """
    if out is None:
        if isinstance(content, bytes):
            content = content.decode()
        print(content.rstrip("\n"))
        return
    if isinstance(content, str):
        content = content.rstrip("\n").encode(errors="backslashreplace") + b"\n"
    target = Path(out)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise save_error(target, e, "--out") from e
    write_atomic(target, content)
    say(f"written to {out}")


def terminal_width(form: str, out: str | None) -> int | None:
    """The columns of the terminal that a table is printed on; None where it goes to a file or a
    pipe, or is no plain text.
    """
    is_printed = out is None and sys.stdout.isatty()
    if not is_printed or form != "text":
        return None
    return shutil.get_terminal_size().columns


def aligned_columns(rows: Iterable[Sequence[str]], max_width: int = 44) -> str:
    r"""Write rows of texts with their columns aligned.

    [("bm25", "top-5 chunks"), ("pecan", "a graph")]
        -> "bm25   top-5 chunks\npecan  a graph"

    Args:
        rows: The cells of each row.
        max_width: A cell over this many characters pushes only its own row.
    """
    cells_by_row = [list(map(printable, row)) for row in rows]
    if not cells_by_row:
        return ""
    texts_by_column = zip(*cells_by_row, strict=False)
    widths = [min(max_width, max(map(len, column))) for column in texts_by_column]
    lines = []
    for *cells, last in cells_by_row:
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
        lines.append("  ".join([*padded, last]).rstrip())
    return "\n".join(lines)
