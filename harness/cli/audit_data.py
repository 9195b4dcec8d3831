"""`harness audit-data RUNS...`: gold answers that are probably wrong or ambiguous, from stored runs and the data."""

from __future__ import annotations

from harness.cli.options import RESULTS, MovedData, RunsFolders, TableFile, TableFormat
from harness.cli.output import format_of, say, screen, write
from harness.cli.stored_runs import stored_runs


def audit_data(
    folders: RunsFolders = None, data: MovedData = None, form: TableFormat = None, out: TableFile = None
) -> int:
    """List gold answers that are probably wrong or ambiguous, from stored runs and the data.

    Signs: strong methods agree on another answer in the evidence; no gold answer stands in the evidence; two gold
    answers contradict each other; the same question has other gold answers. Each is a question to look at, no verdict.
    The table has each method's score with and without them.
    """
    from reports import answer_keys
    from reports.gold_rows import read_rows, rows_of
    from reports.render import render, render_sections

    kind = format_of(form, out)
    runs, damaged = stored_runs(folders or [RESULTS])
    whole = rows_of(runs, data=data, whole=True)
    for problem in dict.fromkeys(rows.problem for rows in whole if rows.problem is not None):
        say(f"note: without the evidence only contradictions and duplicates are found: {problem}")
    found = answer_keys.audited(
        [(run, rows if rows.problem is None else read_rows(run)) for run, rows in zip(runs, whole, strict=True)]
    )
    sections, width = answer_keys.sections(found), screen(kind, out)
    whole_table = kind in ("csv", "json")
    write(render(answer_keys.frame(found), kind) if whole_table else render_sections(sections, kind, width), out)
    return 3 if damaged else 0
