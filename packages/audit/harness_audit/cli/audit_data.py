"""`harness audit-data RUNS...`: gold answers that are probably wrong or ambiguous, from stored runs
and the data."""

from __future__ import annotations

from harness.cli.options import RESULTS
from harness.cli.output import say
from harness.cli.stored_runs import read_stored_runs
from harness.cli.table_output import choose_table_format
from harness.storage.run_folder import StoredRun
from harness_audit import answer_keys
from harness_audit.cli.report import Answers, write_analysis
from reports.gold_rows import QuestionRows, read_rows, read_rows_of_runs


def audit_data(answers: Answers) -> int:
    """List gold answers that are probably wrong or ambiguous, from stored runs and the data.

    Signs: strong methods agree on another answer in the evidence; no gold answer stands in the
    evidence; two gold answers contradict each other; the same question has other gold answers;
    normalising leaves nothing of one ("A", "$"). Each is a question to look at, no verdict. The
    table has each method's score.
    """
    kind = choose_table_format(answers.form, answers.out)
    runs, damaged = read_stored_runs(answers.folders or [RESULTS])
    rows_of_runs = read_rows_of_runs(runs, data=answers.data, with_documents=True)
    pairs: list[tuple[StoredRun, QuestionRows]] = []
    problems: dict[str, None] = {}  # each sentence once, in order
    for run, rows in zip(runs, rows_of_runs, strict=True):
        if rows.problem is None:
            pairs.append((run, rows))
        else:
            problems[rows.problem] = None
            pairs.append((run, read_rows(run)))  # what the run folder itself holds
    for problem in problems:
        say(f"note: without the evidence only contradictions and duplicates are found: {problem}")
    write_analysis(answer_keys, pairs, kind, answers.out)
    if damaged:
        return 3
    return 0
