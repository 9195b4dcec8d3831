"""Runs as pandas frames and in notebooks."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from harness.cost.flops import DEFAULT
from harness.cost.usage import money, sum_phases
from harness.storage.run_folder import StoredRun
from reports.by_kind import BY, kind_of_question
from reports.columns import Section
from reports.costs import TERA, is_billed, tokens_of_call
from reports.html_tables import table
from reports.markup import el, joined


def records(run: StoredRun) -> pd.DataFrame:
    """A row a question, in the order of the records, with these columns.

    question_id document_ids     as in the data set
    hops type level              the data set's own kinds of questions, as far as it has them; length: "2k to 4k" tokens
    answer                       kind of the gold answer (reports/by_kind.py)
    question options gold        None where the run keeps no texts; gold: all accepted answers
    prediction error             error: "type: message" of a failed question, else None
    <score>                      one column a scorer, 0 to 1
    shown steps stop_reason      numbers of texts that were shown and of search steps, and why the search stopped
    tokens tflops seconds        of search and answer together; tflops (1e12 FLOPs) under the convention all-params
    money                        of its requests to servers; None without a price
    queued                       seconds that its calls waited for others; `seconds` has none of them
    tokens.<phase> tflops.<phase> seconds.<phase> queued.<phase>
    """
    rows = []
    present = [
        by for by in BY if any(kind_of_question(record, by) is not None for record in run.records)
    ]
    for record in run.records:
        error = record.error
        row: dict[str, Any] = {
            "question_id": record.question_id,
            "document_ids": record.document_ids,
            "question": record.question,
            "options": record.options,
            "gold": None if record.gold is None else record.gold_answers,
            "prediction": record.prediction,
            "error": None if error is None else f"{error['type']}: {error['message']}",
        }
        row |= {by: kind_of_question(record, by) for by in present}
        row |= record.scores
        row["shown"] = len(record.shown)
        row["steps"] = len(record.steps)
        row["stop_reason"] = record.stop_reason
        row |= _cost_columns(record.usage)
        rows.append(row | {"money": _usage_money(record.usage, run)})
    return pd.DataFrame(rows)


def documents(run: StoredRun) -> pd.DataFrame:
    """A row an index: document_id, question_id (None where an index serves all questions), status,
    and its costs."""
    rows = []
    for line in run.documents:
        row: dict[str, Any] = {
            "document_id": line.document_id,
            "question_id": line.question_id,
            "status": line.status,
        }
        row.update(_cost_columns(line.usage))
        row["money"] = _usage_money(line.usage, run)
        rows.append(row)
    return pd.DataFrame(rows)


def _usage_money(usage: Mapping[str, Mapping[str, Any]], run: StoredRun) -> float | None:
    return money(sum_phases([usage]), run.config) if is_billed(run) else None


def _cost_columns(usage: Mapping[str, Mapping[str, Any]]) -> dict[str, float | None]:
    """Costs of one usage: sums over its phases but study, and each phase's own; None for what is
    not known."""
    costs: dict[str, float | None] = {}
    for phase, spent in usage.items():
        costs[f"tokens.{phase}"] = tokens_of_call(spent)
        counted = not spent.get("uncounted")
        costs[f"tflops.{phase}"] = (
            (spent.get("flops") or {}).get(DEFAULT, 0.0) / TERA if counted else None
        )
        costs |= {f"{name}.{phase}": _known_sum(spent, name) for name in ("seconds", "queued")}
    sums: dict[str, float | None] = {}
    for name in ("tokens", "tflops", "seconds", "queued"):
        values = [costs[f"{name}.{phase}"] for phase in usage if phase != "study"]
        sums[name] = None if None in values else sum(value for value in values if value is not None)
    return sums | costs


def _known_sum(spent: Mapping[str, Any], *keys: str) -> float | None:
    """The sum of costs; None where one is not known, as in a run made elsewhere."""
    return sum(spent[key] for key in keys) if all(key in spent for key in keys) else None


def html(sections: Sequence[Section]) -> str:
    """Titled tables with their footnotes below, escaped."""
    return str(
        joined(*(joined(el("h4", section.title), table(section.frame)) for section in sections))
    )
