"""`harness report RUNS_DIR`: the tables of all runs below a folder, to the screen or a file."""

from __future__ import annotations

from pathlib import Path

from harness.commands.compare import table
from harness.errors import UserError

_BY_ENDING = {".md": "md", ".csv": "csv", ".tex": "latex", ".json": "json", ".txt": "text"}


def main(folder: str, *, form: str | None, out: str | None) -> int:
    """Print or write the tables.

    Raises UserError for a folder without runs, SaveError for a file that cannot be written.
    """
    if not Path(folder).is_dir():
        raise UserError(f"there is no folder '{folder}'; name the one that was given to --out of the runs")
    form = form or _BY_ENDING.get(Path(out).suffix if out else "", "md")
    text = table([folder], form)
    if out is None:
        print(text)
        return 0
    from harness.files import save_error, write_atomic

    target = Path(out)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise save_error(target, e) from e
    write_atomic(target, (text + "\n").encode())
    return 0
