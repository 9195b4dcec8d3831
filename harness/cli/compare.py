"""`harness compare RUN RUN...`: means with intervals, and paired differences against a reference."""

from __future__ import annotations

from dataclasses import dataclass

from harness.cli.common import run_folders, split
from harness.cli.output import format_of, frames, read_runs, write
from harness.cost.flops import DEFAULT


@dataclass(frozen=True)
class Options:
    """What is compared and how it is shown; `everything` prints all columns, `columns` those named: "a,b";
    convention: how FLOPs are counted.
    """

    reference: str | None = None
    score: str | None = None
    force: bool = False
    form: str | None = None
    out: str | None = None
    columns: str | None = None
    everything: bool = False
    convention: str | None = None


def main(runs: list[str], options: Options) -> int:
    """Print or write both tables.

    Raises UserError for a folder without runs, runs that must not be compared, or a name nobody knows; SaveError.
    """
    form = format_of(options.form, options.out)
    columns = chosen_columns(options.columns, options.everything)
    folders = run_folders(runs)
    frames()
    from reports.compare import side_by_side

    stored = read_runs(folders)
    found = side_by_side(
        stored,
        reference=options.reference,
        score=options.score,
        force=options.force,
        convention=options.convention or DEFAULT,
    )
    write(found.render(form, columns), options.out)
    return 0


def chosen_columns(columns: str | None, everything: bool) -> list[str] | None:
    """The columns asked for: None for those that fit a terminal, [] for all. Raises UserError for both at once."""
    from harness.errors import UserError

    if columns is not None and everything:
        raise UserError("give either --columns or --all, not both")
    if everything:
        return []
    if columns is None:
        return None
    names = split([columns])
    if not names:
        raise UserError("--columns names no column; write them with commas between: --columns n,ratio,seconds")
    return names
