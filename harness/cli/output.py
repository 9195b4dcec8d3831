"""Print results: aligned columns, means with intervals, and tables in the format that was asked for.

>>> print(columns([("bm25", "top-5 chunks"), ("pecan", "a graph")]))
bm25   top-5 chunks
pecan  a graph
"""

import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from harness.errors import UnknownName, UserError, printable

ENDINGS = {".txt": "text", ".md": "markdown", ".csv": "csv", ".tex": "latex", ".json": "json"}
_NAMES = {"text": "text", "md": "markdown", "markdown": "markdown", "csv": "csv", "latex": "latex", "json": "json"}


def format_of(form: str | None, out: str | None) -> str:
    """The table format: --format (`form`), else by the ending of --out, else text. Raises UnknownName, UserError."""
    if form is not None:
        if form not in _NAMES:
            raise UnknownName("format", form, ("text", "md", "csv", "latex", "json"), "--html FILE makes a page")
        return _NAMES[form]
    if out is None:
        return "text"
    ending = Path(out).suffix.lower()
    if ending in (".html", ".htm"):
        raise UserError(f"'{out}' would be a page; make one with: harness report RUNS_DIR --html {out}")
    if ending not in ENDINGS:
        raise UserError(f"no format ends in '{ending}' ('{out}'); use {', '.join(ENDINGS)}, or name it with --format")
    return ENDINGS[ending]


def write(content: str | bytes, out: str | None) -> None:
    """Print `content` (bytes as UTF-8), or write it to the file `out`, whose folder is made. Raises SaveError."""
    if out is None:
        print((content.decode() if isinstance(content, bytes) else content).rstrip("\n"))
        return
    if isinstance(content, str):
        content = content.rstrip("\n").encode(errors="backslashreplace") + b"\n"
    from harness.storage.files import save_error, write_atomic

    target = Path(out)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise save_error(target, e, "--out") from e
    write_atomic(target, content)
    say(f"written to {out}")


def terminal_width(form: str, out: str | None) -> int | None:
    """The terminal's columns, where a table is printed there as text; None for another format, a file or a pipe."""
    return shutil.get_terminal_size().columns if out is None and form == "text" and sys.stdout.isatty() else None


def columns(rows: Iterable[Sequence[str]], widest: int = 44) -> str:
    """Rows of text with their columns aligned; a cell over `widest` characters pushes only its own row."""
    rows = [[printable(cell) for cell in row] for row in rows]
    if not rows:
        return ""
    widths = [min(widest, max(len(row[i]) for row in rows)) for i in range(len(rows[0]) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[-1]]).rstrip() for row in rows
    )


def mean_text(score: dict[str, Any]) -> str:
    """{"mean": 0.41, "low": 0.36, "high": 0.46} -> "41.0 [36.0, 46.0]"; "-" without a mean."""
    from harness.stats.bootstrap import with_interval

    if score["mean"] is None:
        return "-"
    return with_interval(lambda value: f"{100 * value:.1f}", score["mean"], score["low"], score["high"])


def mean_texts(summary: dict[str, Any]) -> dict[str, str]:
    """Score name -> its mean as text, by a run's summary.json, and over how many questions where not over all."""
    counted = summary.get("n_scored" if summary.get("failed_count_as") == "skip" else "n_total")
    texts = {}
    for name, score in summary.get("scores", {}).items():
        few = "" if score["n"] == counted else f" over {score['n']} of {counted} questions"
        texts[name] = mean_text(score) + few
    return texts


def say(line: str) -> None:
    """Print a line on stderr, where everything but results goes."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
