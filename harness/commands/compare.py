"""`harness compare RUN RUN...`: one table of several runs."""

from __future__ import annotations

from harness.commands.common import run_folders
from harness.errors import CannotRun


def main(runs: list[str], *, form: str) -> int:
    """Print the table. Raises UserError for a folder without runs."""
    print(table(runs, form))
    return 0


def table(runs: list[str], form: str) -> str:
    """The comparison of `runs` (folders, or folders that hold runs) as text; form: of reports.tables.FORMATS, or md."""
    from harness.store import read_run

    stored = [read_run(folder) for folder in run_folders(runs)]
    try:
        from reports import tables
    except ModuleNotFoundError as e:
        raise CannotRun(f"tables need the package '{e.name}'; install it with: pip install {e.name}") from e
    return tables.render(tables.frame(stored), "markdown" if form == "md" else form).rstrip("\n")
