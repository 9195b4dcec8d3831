"""`harness compare RUN RUN...`: means with intervals, and paired differences against a
reference."""

from typing import Annotated

from harness.cli.command import setting
from harness.cli.options import Common, RowsToCompare, Runs, Score, split_names
from harness.cli.stored_runs import average_seeds, leave_out_unanswered, with_newest_code
from harness.cli.table_output import (
    TableOutput,
    choose_table_format,
    print_or_write,
    terminal_width,
)
from harness.cost.flops import DEFAULT_CONVENTION
from harness.errors import UserError
from harness.storage.named_runs import read_runs, run_folders
from harness.storage.run_folder import Hold
from reports.by_kind import split_by_kind
from reports.checks import Checks
from reports.comparability import on_common_questions
from reports.compare import side_by_side
from reports.gold_rows import check_one_dataset


def compare(
    runs: Runs,
    table: TableOutput,
    score: Score = None,
    common: Common = False,
    data: RowsToCompare = None,
    force: Annotated[
        bool, setting("--force", "Compare runs that differ in more than the method.")
    ] = False,
) -> int:
    """Compare runs, with paired tests against a reference.

    Prints the means with their confidence intervals, then the paired differences to the reference
    run.
    """
    form = choose_table_format(table.form, table.out)
    columns = chosen_columns(table.columns, table.everything)
    folders = run_folders(runs)

    hold: Hold = "numbers"
    if table.average_seeds:
        hold = "all"  # a vote needs answers
    stored_runs = read_runs(folders, hold=hold)
    stored_runs = with_newest_code(leave_out_unanswered(stored_runs), table.all_code)
    if table.average_seeds:
        stored_runs = average_seeds(stored_runs)
    if common:
        stored_runs = on_common_questions(stored_runs)
    if table.by is not None:
        stored_runs = split_by_kind(stored_runs, table.by)
    check_one_dataset(stored_runs, data)
    compared = side_by_side(
        stored_runs,
        reference=table.reference,
        score=score,
        force=force,
        convention=table.convention or DEFAULT_CONVENTION,
        checks=Checks(data),
    )
    print_or_write(compared.render(form, columns, terminal_width(form, table.out)), table.out)
    return 0


def chosen_columns(columns: str | None, everything: bool) -> list[str] | None:
    """The columns that --columns and --all choose: None for what fits a terminal, [] for all.

    Args:
        columns: The names after --columns, "n,ratio"; None without it.
        everything: Whether --all was given.

    Raises:
        UserError: Both were given, or --columns names nothing.
    """
    if columns is not None and everything:
        raise UserError("give either --columns or --all, not both")
    if everything:
        return []
    if columns is None:
        return None
    names = split_names([columns])
    if not names:
        raise UserError(
            "--columns names no column; separate the names with commas: --columns n,ratio,seconds"
        )
    return names
