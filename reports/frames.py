"""Runs as pandas frames and in notebooks."""

from collections.abc import Mapping, Sequence

import pandas as pd

from harness.cost.flops import DEFAULT_CONVENTION
from harness.cost.prices import money_spent
from harness.cost.usage import PhaseUsage, Usage, sum_phases
from harness.storage.run_folder import StoredRun
from reports.by_kind import CRITERIA, kind_of_question
from reports.costs import TERA, is_billed, tokens_of_phase
from reports.html_tables import table_html
from reports.markup import element, join_html
from reports.section import Section
from reports.table_cell import Cell


def records_frame(run: StoredRun) -> pd.DataFrame:
    """A row a question, in the order of the records, with these columns.

    question_id document_ids     as in the data set
    hops type level              the data set's own kinds of questions, as far as it has them
    length                       tokens of its documents: "2k to 4k"
    answer                       kind of the gold answer (reports/by_kind.py)
    question options gold        None where the run keeps no texts; gold: all accepted answers
    prediction error             error: "type: message" of a failed question, else None
    <score>                      one column a scorer, 0 to 1
    shown steps                  numbers of texts that were shown and of search steps
    stop_reason                  why the search stopped
    tokens tflops seconds        of search and answer together; tflops (1e12 FLOPs) under the
                                 convention all-params
    money                        of its requests to servers; None without a price
    queued                       seconds that its calls waited for others; `seconds` has none of them
    tokens.<phase> tflops.<phase> seconds.<phase> queued.<phase>
    """
    known_criteria = [criterion for criterion in CRITERIA if _has_known_kind(run, criterion)]
    rows = []
    for record in run.records:
        row: dict[str, Cell] = {}
        row["question_id"] = record.question_id
        row["document_ids"] = record.document_ids
        row["question"] = record.question
        row["options"] = record.options
        row["gold"] = None
        if record.gold is not None:
            row["gold"] = record.gold_answers
        row["prediction"] = record.prediction
        row["error"] = _error_text(record.error)
        for criterion in known_criteria:
            row[criterion] = kind_of_question(record, criterion)
        row.update(record.scores)
        row["shown"] = len(record.shown)
        row["steps"] = len(record.steps)
        row["stop_reason"] = record.stop_reason
        row.update(_cost_cells(record.usage))
        row["money"] = _usage_money(record.usage, run)
        rows.append(row)
    return pd.DataFrame(rows)


def _has_known_kind(run: StoredRun, criterion: str) -> bool:
    """Whether any question of the run has a kind by this criterion ("hops", "length", ...)."""
    return any(kind_of_question(record, criterion) is not None for record in run.records)


def _error_text(error: Mapping[str, str] | None) -> str | None:
    """An error on one line, "TimeoutError: the server did not answer"; None for no error."""
    if error is None:
        return None
    return f"{error['type']}: {error['message']}"


def indexes_frame(run: StoredRun) -> pd.DataFrame:
    """A row an index, with these columns.

    document_id                  as in the data set
    question_id                  None where an index serves all questions
    status                       "built", "hit" or "failed"
    tokens tflops seconds queued costs of all phases together, and of each: "tokens.index"
    money                        of its requests to servers; None without a price
    """
    rows = []
    for line in run.index_lines:
        row: dict[str, Cell] = {
            "document_id": line.document_id,
            "question_id": line.question_id,
            "status": line.status,
        }
        row.update(_cost_cells(line.usage))
        row["money"] = _usage_money(line.usage, run)
        rows.append(row)
    return pd.DataFrame(rows)


def _usage_money(usage: Usage, run: StoredRun) -> float | None:
    """The money that servers took for all phases of a usage; None where none did, or a price is not
    known."""
    if not is_billed(run):
        return None
    return money_spent(sum_phases([usage]), run.prices)


def _cost_cells(usage: Usage) -> dict[str, float | None]:
    """The costs of a record or index as columns; None for what is not known.

        {"search": {"tokens_in": 90, "tokens_out": 10, ...}} -> {"tokens": 100, ...,
            "tokens.search": 100}

    Columns without a phase ("tokens") are sums over all phases but "study": what a search did after
    its stop, only to be recorded, is no cost of the answer.
    """
    costs_of_phases: dict[str, float | None] = {}
    for phase, phase_usage in usage.items():
        costs_of_phases[f"tokens.{phase}"] = tokens_of_phase(phase_usage)
        costs_of_phases[f"tflops.{phase}"] = _tflops_of_usage(phase_usage)
        costs_of_phases[f"seconds.{phase}"] = phase_usage.get("seconds")
        costs_of_phases[f"queued.{phase}"] = phase_usage.get("queued")
    phases_of_answer = [phase for phase in usage if phase != "study"]
    sums: dict[str, float | None] = {}
    for name in ("tokens", "tflops", "seconds", "queued"):
        total: float | None = 0
        for phase in phases_of_answer:
            total = _sum_if_known(total, costs_of_phases[f"{name}.{phase}"])
        sums[name] = total
    return {**sums, **costs_of_phases}


def _tflops_of_usage(usage: PhaseUsage) -> float | None:
    """TFLOPs (1e12 FLOPs) of a phase; None where the shape of one of its models is unknown."""
    if usage.get("uncounted"):
        return None
    flops = usage.get("flops") or {}
    return flops.get(DEFAULT_CONVENTION, 0.0) / TERA


def _sum_if_known(total: float | None, value: float | None) -> float | None:
    """The sum of both numbers; None where one of them is not known."""
    if total is None or value is None:
        return None
    return total + value


def sections_html(sections: Sequence[Section]) -> str:
    """Titled tables with their footnotes below as HTML, in which text from data is escaped."""
    parts = []
    for section in sections:
        parts += [element("h4", section.title), table_html(section.frame)]
    return str(join_html(*parts))
