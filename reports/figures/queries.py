"""TFLOPs per query where the queries of a document share its index (PECAN table A4, GARLIC table
3).

    per query, k queries per document = index of a document / k + search + answer of a query

    >>> break_even(136.6, 66.9, 92.5)        # PECAN on Qasper: 136.6 / k + 66.9 <= 92.5 from k = 6 on
    6
    >>> break_even(136.6, 92.5, 92.5) is None
    True

An index that belongs to a question is shared by nobody: its whole cost is a part of every query.
"""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from harness.cost.flops import DEFAULT
from harness.errors import UserError
from harness.storage.run_folder import StoredRun
from reports import facts, main_table
from reports.columns import sections, shortened
from reports.figures import plot
from reports.figures.figure import Figure, Titled
from reports.figures.plot import Axis, Line, Panel, Point
from reports.paper import frame as beside_printed
from reports.paper.printed import load

PER_DOCUMENT = (1, 2, 4, 8)


def figure(
    runs: Sequence[StoredRun],
    *,
    per_document: Sequence[int] | None,
    reference: str | None,
    paper: bool,
    convention: str | None,
) -> Figure:
    """The figure of the runs; paper: with the papers' TFLOPs beside the runs', which csv and json
    then hold alone.

    Raises UserError where `paper` is asked for and no run measures a printed value, and what
    `frame` raises.
    """
    counts = per_document or PER_DOCUMENT
    if reference is not None:
        facts.check_reference(runs, reference)
    table = whole = frame(runs, counts, reference or main_table.REFERENCE, convention or DEFAULT)
    parts: list[Titled] = [*sections(table, ())]
    if paper:
        whole = beside_printed(
            runs, [value for value in load() if value.metric.phases], convention=convention
        )
        if whole.empty:
            raise UserError(
                "none of these runs measures TFLOPs that a paper prints; leave out --paper"
            )
        printed = sections(
            shortened(whole, "row", 52), ()
        )  # so long that the number of queries stays
        parts += [(f"printed and measured: {title}", part) for title, part in printed]
    return Figure("TFLOPs per query", whole, parts, panels(table, counts))


def break_even(index: float, query: float, reference: float) -> int | None:
    """The least number of queries per document from which on a query costs no more than the
    reference's.

    index: of a document; query, reference: of a query, without an index; all in the same unit. None
    where sharing the index never makes up for it.
    """
    if index <= 0:
        return 1 if query <= reference else None
    if query >= reference:
        return None
    if not math.isfinite(ratio := index / (reference - query)):
        return None
    least = max(1, math.ceil(ratio))
    # The quotient of two sums of floats may lie a hair above the whole number that it should be.
    return (
        least - 1 if least > 1 and index / (least - 1) + query <= reference * (1 + 1e-12) else least
    )


def cost_per_query(index: float | None, query: float | None, k: int) -> float | None:
    """Cost of one of `k` queries of a document; an index of None is one that the method does not
    have."""
    return None if query is None else (index or 0.0) / k + query


def cost_column(k: int) -> str:
    """The name of the column with the cost of a query where a document has `k`."""
    return f"tflops.k={k}"


def frame(
    runs: Sequence[StoredRun],
    per_document: Sequence[int] = PER_DOCUMENT,
    reference: str = main_table.REFERENCE,
    convention: str = DEFAULT,
) -> pd.DataFrame:
    """One row a run, in the order of `reports.main_table.frame`:

    dataset method model n · questions per document (of this run) · tflops.index (what a document's
    index costs) · tflops.query · one column for each k of `per_document` · reference ·
    tflops.reference · break even · convention · notes · run

    reference: as in `reports.main_table.frame`; its query cost is that of its own row, its index
    included at the run's questions per document where it has one. Raises as
    `reports.main_table.frame` does.
    """
    table = main_table.frame(runs, convention=convention, reference=reference)
    by_key = {facts.run_key(run): run for run in runs}
    costs = []
    for row in facts.records(table):
        run = by_key[row["dataset"], row["run"]]
        costs.append(_query_cost_row(row, run, per_document))
    usable = []
    for row in costs:
        names = row["method"], *facts.reference_names(by_key[row["dataset"], row["run"]])
        usable += [row] if reference in names and row["tflops.query"] is not None else []
    for row in costs:
        pair = row["dataset"], row["model"]
        base = [other for other in usable if (other["dataset"], other["model"]) == pair]
        notes = row["notes"]
        if len(base) != 1:
            problem = "no run" if not base else f"{len(base)} runs"
            notes.append(
                f"no break-even: {problem} of {reference} with known FLOPs on this data set with "
                "this model"
            )
        elif base[0] is not row and row["tflops.query"] is not None:
            # A query of the reference with its share of an index, where it has one.
            index, k = base[0]["tflops.index"] or 0.0, base[0]["questions per document"] or 1.0
            row["tflops.reference"] = float(base[0]["tflops.query"]) + float(index) / k
            row["break even"] = break_even(
                row["tflops.index"] or 0.0, row["tflops.query"], row["tflops.reference"]
            )
            if row["break even"] is None:
                notes.append(
                    "a query alone costs as much as the reference's or more: the index never pays"
                )
            elif row["tflops.index"]:
                notes.append(
                    f"from {row['break even']} questions a document on, its index pays against "
                    f"{reference}"
                )
    return facts.as_floats(pd.DataFrame([{**row, "notes": tuple(row["notes"])} for row in costs]))


def _query_cost_row(
    row: dict[str, Any], run: StoredRun, per_document: Sequence[int]
) -> dict[str, Any]:
    """A run's TFLOPs of an index and of a query, and per query where 1, 2, ... (`per_document`)
    share the index."""
    index, query = _float_or_none(row["tflops.index"]), _float_or_none(row["tflops"])
    notes = ["k = queries that share the index of a document", *row["notes"]]
    answered = [record for record in run.records if record["error"] is None]
    # Documents that a question needs the index of; those handed over as one have one.
    indexes = [
        1 if (r.get("notes") or {}).get("joined") else max(1, len(r["document_ids"]))
        for r in answered
    ]
    per_question = sum(indexes) / len(indexes) if indexes else 1.0
    shared = {d["document_id"] for d in run.documents if d.get("question_id") is None}
    total = {d for record in run.records for d in record["document_ids"]}
    if run.documents and not shared:
        built = {d["document_id"] for d in run.documents if d["status"] != "failed"}
        if query is not None and index is not None and answered:
            query += index * len(built) / len(answered)
        else:
            query = None
        index = None
        notes.append("its index belongs to a question and is a part of every query")
    elif index is not None and per_question != 1:
        index *= per_question
        notes.append(f"a question needs the index of {per_question:.3g} documents on average")
    if query is None:
        notes.append("the FLOPs of its queries are not known")
    cells: dict[str, Any] = {name: row[name] for name in ("dataset", "method", "model", "n")}
    cells["questions per document"] = len(run.records) / len(total) if total else None
    cells["tflops.index"], cells["tflops.query"] = index, query
    cells |= {cost_column(k): cost_per_query(index, query, k) for k in per_document}
    cells["tflops.reference"] = cells["break even"] = None  # `frame` sets them
    return {**cells, "convention": row["convention"], "notes": notes, "run": row["run"]}


def _float_or_none(value: Any) -> float | None:
    return None if value is None or pd.isna(value) else float(value)


def panels(table: pd.DataFrame, per_document: Sequence[int]) -> list[Panel]:
    """For each data set and model: TFLOPs a query over the queries of a document, a line a
    method."""
    drawn = []
    for (dataset, model), group in table.groupby(["dataset", "model"], sort=False):
        lines = []
        for row in group.to_dict("records"):
            costs = {k: _float_or_none(row[cost_column(k)]) for k in per_document}
            if points := [
                Point(k, cost) for k, cost in costs.items() if cost is not None and cost > 0
            ]:
                lines.append(Line(str(row["method"]), points))
        x = Axis("queries per document", tuple(map(float, per_document)), log=True)
        left = Axis(f"TFLOPs a query, with index ({group['convention'].iloc[0]})", log=True)
        drawn += plot.panels(f"{dataset} · {model}", x, left, lines, aside=False)
    return drawn
