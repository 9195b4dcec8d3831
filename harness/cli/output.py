"""Where a table goes and in which format: `--format`, else the ending of `--out FILE`, else text.

format_of(None, "tables/all.csv")   "csv"
write("...", "tables/all.csv")      the file, written in one step; None: to the screen
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UnknownName, UserError

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun


ENDINGS = {".txt": "text", ".md": "markdown", ".csv": "csv", ".tex": "latex", ".json": "json"}
_NAMES = {"text": "text", "md": "markdown", "markdown": "markdown", "csv": "csv", "latex": "latex", "json": "json"}


def format_of(form: str | None, out: str | None) -> str:
    """The format asked for, one of reports.tables.FORMATS.

    Raises UnknownName for another one, UserError where the ending of `out` tells none.
    """
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
        raise UserError(f"no format ends in '{ending}' ('{out}'); use {', '.join(ENDINGS)}, or say it with --format")
    return ENDINGS[ending]


def frames() -> None:
    """Make sure that tables can be made. Raises CannotRun with the line that installs what is missing."""
    from harness.errors import CannotRun

    try:
        import pandas  # noqa: F401
    except ModuleNotFoundError as e:
        raise CannotRun(f"tables need the package '{e.name}'; install it with: pip install {e.name}") from e


def write(content: str | bytes, out: str | None) -> None:
    """Print `content`, or write it to the file `out`, making its folder; printed bytes are UTF-8. Raises SaveError."""
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
        raise save_error(target, e) from e
    write_atomic(target, content)


def read_runs(folders: list[Path]) -> list[StoredRun]:
    """The runs of `folders`. Raises what harness.storage.run_folder.read_run raises.

    The collector rests meanwhile: records are trees without cycles, and walking those already read again and again
    takes most of the time (100,000 records on 2 cores: 8.1 s with it, 1.9 s without).
    """
    from harness.storage.run_folder import read_run

    was_on = gc.isenabled()
    gc.disable()
    try:
        return [read_run(folder) for folder in folders]
    finally:
        if was_on:
            gc.enable()
            gc.freeze()
