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
from dataclasses import dataclass

import pandas as pd

from harness.cost.flops import DEFAULT_CONVENTION
from harness.errors import UserError
from harness.storage.record_notes import is_joined
from harness.storage.records import StoredRecord
from harness.storage.run_folder import StoredRun
from reports import facts, main_table
from reports.columns import sections, with_short_texts
from reports.figures import plot
from reports.figures.figure import Figure, Titled
from reports.figures.plot import Axis, Line, Panel, Point
from reports.paper import frame as beside_printed
from reports.paper.printed import load
from reports.table_cell import Cell, Row, number_or_none
from reports.table_row import TableRow, known_mean

PER_DOCUMENT = (1, 2, 4, 8)


def figure(
    runs: Sequence[StoredRun],
    *,
    per_document: Sequence[int] | None,
    reference: str | None,
    paper: bool,
    convention: str | None,
) -> Figure:
    """The figure of TFLOPs per query over the number of queries that share an index.

    Args:
        runs: Stored runs.
        per_document: Numbers of queries that share an index; by default PER_DOCUMENT.
        reference: A label, a preset's name, or a run folder's name or hash; by default
            full-context.
        paper: Whether the papers' TFLOPs stand beside the runs'; csv and json hold them alone.
        convention: How FLOPs are counted.

    Raises:
        UserError: There is no run, a run without records, or, with `paper`, none that measures a
            printed value.
        UnknownName: There is no such reference or convention.
    """
    queries_per_document = per_document or PER_DOCUMENT
    if reference is not None:
        facts.check_reference(runs, reference)
    table = frame(
        runs,
        queries_per_document,
        reference or main_table.REFERENCE,
        convention or DEFAULT_CONVENTION,
    )
    exported = table
    all_columns = ()
    parts = sections(table, all_columns)
    titled_tables: list[Titled] = [(part.title, part.frame) for part in parts]
    if paper:
        exported = _flops_with_printed_ones(runs, convention)
        # So long that the number of queries stays.
        compared = with_short_texts(exported, "row", max_characters=52)
        parts = sections(compared, all_columns)
        titled_tables += [(f"printed and measured: {part.title}", part.frame) for part in parts]
    return Figure("TFLOPs per query", exported, titled_tables, panels(table, queries_per_document))


def _flops_with_printed_ones(runs: Sequence[StoredRun], convention: str | None) -> pd.DataFrame:
    """The TFLOPs that papers print beside those of the runs, a row a printed value.

    Raises:
        UserError: No run measures one of them.
    """
    # Only a metric of FLOPs says which phases it counts.
    printed_tflops = [value for value in load() if value.metric.phases]
    beside_measured = beside_printed(runs, printed_tflops, convention=convention)
    if beside_measured.empty:
        raise UserError("none of these runs measures TFLOPs that a paper prints; leave out --paper")
    return beside_measured


def break_even(index: float, query: float, reference: float) -> int | None:
    """The least number of queries per document from which on a query costs no more than the
    reference's.

    Args:
        index: Cost of the index of a document.
        query: Cost of a query without an index, in the same unit.
        reference: Cost of a query of the reference, in the same unit.

    Returns:
        The number; None where sharing the index never makes up for it.
    """
    if index <= 0:  # nothing has to be made up for
        if query <= reference:
            return 1
        return None
    if query >= reference:
        return None
    ratio = index / (reference - query)
    if not math.isfinite(ratio):
        return None
    n_queries = max(1, math.ceil(ratio))
    # The quotient of two sums of floats may lie a hair above the whole number that it should be.
    if n_queries > 1 and index / (n_queries - 1) + query <= reference * (1 + 1e-12):
        return n_queries - 1
    return n_queries


def cost_per_query(index: float | None, query: float | None, k: int) -> float | None:
    """Cost of one of `k` queries of a document, with its share of the index; None where unknown.

    Args:
        index: Cost of the index of a document; None where the method has none.
        query: Cost of a query without the index; None where unknown.
        k: Queries that share the index.
    """
    if query is None:
        return None
    return (index or 0.0) / k + query


def cost_column(k: int) -> str:
    """The name of the column with the cost of a query where `k` share an index: "tflops.k=4"."""
    return f"tflops.k={k}"


@dataclass
class QueryCosts:
    """A row of the figure: what an index and a query of a run cost, in TFLOPs."""

    dataset: str
    method: str
    model: str
    n: int
    per_document: float | None
    """Questions per document of this run."""
    index_tflops: float | None
    """The index of a document; None where the method has none, or it belongs to a question."""
    query_tflops: float | None
    """Search and answer of a query, with its index where that belongs to the question."""
    convention: str
    run: str
    reference_names: tuple[str, ...]
    """By which a user may mean the run as reference."""
    notes: list[str]
    reference_tflops: float | None = None
    """A query of the reference."""
    break_even: int | None = None

    def columns(self, per_document: Sequence[int]) -> Row:
        """The row as cells of a table: {"dataset": "musique", ..., "tflops.k=1": 2.5, "tflops.k=2":
        1.5, ...}.

        Args:
            per_document: Numbers of queries that share an index, a column each.
        """
        row: dict[str, Cell] = {
            "dataset": self.dataset,
            "method": self.method,
            "model": self.model,
            "n": self.n,
            "questions per document": self.per_document,
            "tflops.index": self.index_tflops,
            "tflops.query": self.query_tflops,
        }
        for k in per_document:
            row[cost_column(k)] = cost_per_query(self.index_tflops, self.query_tflops, k)
        row["tflops.reference"] = self.reference_tflops
        row["break even"] = self.break_even
        row["convention"] = self.convention
        row["notes"] = tuple(self.notes)
        row["run"] = self.run
        return row


def frame(
    runs: Sequence[StoredRun],
    per_document: Sequence[int] = PER_DOCUMENT,
    reference: str = main_table.REFERENCE,
    convention: str = DEFAULT_CONVENTION,
) -> pd.DataFrame:
    """One row a run, in the order of `reports.main_table.frame`, with these columns.

    dataset method model n · questions per document (of this run) · tflops.index (what a document's
    index costs) · tflops.query · one column for each k of `per_document` · reference ·
    tflops.reference · break even · convention · notes · run

    Args:
        runs: Stored runs.
        per_document: Numbers of queries that share an index.
        reference: A label, a preset's name, or a run folder's name or hash. Its query costs what
            its own row says, with its index at the run's questions per document where it has one.
        convention: How FLOPs are counted.

    Raises:
        UserError: There is no run, or a run without records.
        UnknownName: There is no such convention.
    """
    table = main_table.table_rows(runs, convention=convention, reference=reference)
    rows = [_query_costs(row) for row in table]
    for costs in rows:
        references = _references_for(costs, rows, reference)
        _set_break_even(costs, references, reference)
    return facts.as_floats(pd.DataFrame([costs.columns(per_document) for costs in rows]))


def _references_for(
    costs: QueryCosts, rows: Sequence[QueryCosts], reference: str
) -> list[QueryCosts]:
    """The rows that `reference` names, with known FLOPs, on the same data set with the same model.

    Args:
        costs: The row that is compared.
        rows: All rows.
        reference: The name of the reference.
    """
    references = []
    for other in rows:
        has_same_dataset_and_model = (other.dataset, other.model) == (costs.dataset, costs.model)
        is_reference = has_same_dataset_and_model and reference in other.reference_names
        if is_reference and other.query_tflops is not None:
            references.append(other)
    return references


def _set_break_even(costs: QueryCosts, references: Sequence[QueryCosts], name: str) -> None:
    """Set the cost of the reference and the break-even point of a row, and note what they say.

    Args:
        costs: The row, which is changed.
        references: The rows that `name` means; only a single one can be used.
        name: The name of the reference.
    """
    if len(references) != 1:
        problem = "no run"
        if references:
            problem = f"{len(references)} runs"
        costs.notes.append(
            f"no break-even: {problem} of {name} with known FLOPs on this data set with this model"
        )
        return
    reference = references[0]
    if reference is costs or costs.query_tflops is None or reference.query_tflops is None:
        return
    # A query of the reference with its share of an index, where it has one.
    queries_that_share = reference.per_document or 1.0
    index_share = (reference.index_tflops or 0.0) / queries_that_share
    costs.reference_tflops = reference.query_tflops + index_share
    costs.break_even = break_even(
        index=costs.index_tflops or 0.0,
        query=costs.query_tflops,
        reference=costs.reference_tflops,
    )
    if costs.break_even is None:
        costs.notes.append(
            "a query alone costs as much as the reference's or more: the index never pays"
        )
    elif costs.index_tflops:
        costs.notes.append(
            f"from {costs.break_even} questions a document on, its index pays against {name}"
        )


def _query_costs(row: TableRow) -> QueryCosts:
    """The row of a run, from its row in the main table; the reference is not set yet."""
    run = row.run
    numbers = row.numbers
    document_ids = set[str]()
    for record in run.records:
        document_ids.update(record.document_ids)
    per_document = None
    if document_ids:
        per_document = len(run.records) / len(document_ids)
    costs = QueryCosts(
        dataset=row.dataset,
        method=row.label,
        model=row.model,
        n=row.n_questions,
        per_document=per_document,
        index_tflops=known_mean(numbers.index.tflops),
        query_tflops=numbers.tflops.mean,
        convention=numbers.convention,
        run=run.name,
        reference_names=(row.label, *facts.reference_names(run)),
        notes=["k = queries that share the index of a document", *row.notes],
    )
    _set_costs_per_question(costs, run)
    if costs.query_tflops is None:
        costs.notes.append("the FLOPs of its queries are not known")
    return costs


def _set_costs_per_question(costs: QueryCosts, run: StoredRun) -> None:
    """Set `query_tflops` and `index_tflops` of a row to what a question needs, and note it.

    An index that belongs to a question is a part of the query. Where questions are about several
    documents, a question needs several indexes: `index_tflops` becomes their mean cost together.

    Args:
        costs: The row, with the cost of one index and of a query; it is changed.
        run: Its run.
    """
    answered_records = [record for record in run.records if record.error is None]
    indexes_of_all_questions = [line for line in run.index_lines if line.question_id is None]
    each_index_has_a_question = bool(run.index_lines) and not indexes_of_all_questions
    if each_index_has_a_question:
        costs.query_tflops = _tflops_with_own_index(costs, run, len(answered_records))
        costs.index_tflops = None
        costs.notes.append("its index belongs to a question and is a part of every query")
        return
    indexes_per_question = 1.0
    if answered_records:
        n_needed = sum(_count_indexes_needed(record) for record in answered_records)
        indexes_per_question = n_needed / len(answered_records)
    if costs.index_tflops is not None and indexes_per_question != 1:
        costs.index_tflops *= indexes_per_question
        costs.notes.append(
            f"a question needs the index of {indexes_per_question:.3g} documents on average"
        )


def _tflops_with_own_index(costs: QueryCosts, run: StoredRun, n_answered: int) -> float | None:
    """The cost of a query with its share of all indexes of the run; None where it is unknown.

    Args:
        costs: The row of the run, with the cost of a query and of a document's indexes.
        run: The run.
        n_answered: The number of its answered questions.
    """
    if costs.query_tflops is None or costs.index_tflops is None or not n_answered:
        return None
    indexed_documents = {line.document_id for line in run.index_lines if not line.failed}
    tflops_of_indexes = costs.index_tflops * len(indexed_documents)
    return costs.query_tflops + tflops_of_indexes / n_answered


def _count_indexes_needed(record: StoredRecord) -> int:
    """The number of indexes that a question needs, one a document; documents that are joined have
    one."""
    if is_joined(record.notes):
        return 1
    return max(1, len(record.document_ids))


def panels(table: pd.DataFrame, per_document: Sequence[int]) -> list[Panel]:
    """Panels for each data set and model: TFLOPs a query over the queries of a document, a line a
    method."""
    panel_list = []
    for (dataset, model), group in table.groupby(["dataset", "model"], sort=False):
        lines = []
        for row in facts.frame_rows(group):
            points = _cost_points(row, per_document)
            if points:
                lines.append(Line(str(row["method"]), points))
        ticks = tuple(map(float, per_document))
        queries_axis = Axis("queries per document", ticks, is_logarithmic=True)
        convention = group["convention"].iloc[0]
        tflops_axis = Axis(f"TFLOPs a query, with index ({convention})", is_logarithmic=True)
        panel_list += plot.panels(
            f"{dataset} · {model}", queries_axis, tflops_axis, lines, side_by_side=False
        )
    return panel_list


def _cost_points(row: Row, per_document: Sequence[int]) -> list[Point]:
    """The points of a line: the cost of a query for each number of queries, where it is known and
    above 0.

    Args:
        row: A row of `frame`.
        per_document: The numbers of queries that share an index.
    """
    points = []
    for k in per_document:
        tflops = number_or_none(row[cost_column(k)])
        if tflops is not None and tflops > 0:  # NaN, an empty cell, is not above 0
            points.append(Point(k, tflops))
    return points
