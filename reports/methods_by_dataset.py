"""Methods by data sets: one row a method, one column a data set and the mean over data sets, as
papers print it.

    wide = wide_table(table_rows(runs))       the headline of each data set (reports.main_table)
    wide.frame()                              method model musique qasper mean notes
    wide.sections()                           one table a model, best mean first

A cell is a mean in [0, 1], with .low and .high beside it where intervals are asked for; a missing
run is a gap. The mean over data sets is given only where a method has a value for every one of
them; the notes say what is missing.

Its interval takes the data sets as they are and their questions as independent of each other: the
distances of the ends are added in squares, L = mean - sqrt(sum (mean_i - low_i)^2) / k over k data
sets, U likewise (G. Y. Zou and A. Donner,
"Construction of confidence limits about effect measures: a general approach", Statistics in
Medicine 2008, section 2).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from harness.errors import UnknownName
from harness.stats.bootstrap import NOTHING, Interval
from reports import costs, facts
from reports.compare import PairedRow
from reports.section import Section
from reports.table_cell import Cell, Row
from reports.table_row import TableRow

MEAN_COLUMN = "mean"


@dataclass(frozen=True)
class MethodRow:
    """A method with one model over several data sets.

    Args:
        method: Its name, with the settings in which runs of it differ.
        model: The name of the reader.
        rows_by_dataset: Data set -> its row of the main table.
        datasets: All data sets of the table, also those without a run of the method.
        score: The name of the score; None for the headline of each data set.
        legend: The first notes of every row.
        p_values: Data set -> p of the difference to a reference; {} where none were tested.
    """

    method: str
    model: str
    rows_by_dataset: Mapping[str, TableRow]
    datasets: Sequence[str]
    score: str | None
    legend: Sequence[str]
    p_values: Mapping[str, float | None]

    def estimate(self, dataset: str) -> Interval:
        """The score on a data set with its interval; NOTHING where there is no run, or no such
        score."""
        row = self.rows_by_dataset.get(dataset)
        if row is None:
            return NOTHING
        return row.score(self.score or row.headline)

    @cached_property
    def mean(self) -> Interval:
        """The mean over all data sets, each weighing the same, with its interval.

        NOTHING where a data set has no value.
        """
        means = []
        bounds = []
        for dataset in self.datasets:
            estimate = self.estimate(dataset)
            if estimate.mean is None:
                return NOTHING
            means.append(estimate.mean)
            bounds.append((estimate.low, estimate.high))
        overall = facts.mean_of_samples(means, bounds)
        low, high = overall.bounds or (None, None)
        return Interval(overall.mean, low, high, n=len(means), clusters=len(means))

    @property
    def is_upper_bound(self) -> bool:
        """Whether one of its runs was shown the supporting passages alone."""
        return any(row.is_upper_bound for row in self.rows_by_dataset.values())

    @property
    def asked_otherwise(self) -> list[str]:
        """The data sets on which it had other questions, or another task, than most runs."""
        return [name for name, row in self.rows_by_dataset.items() if row.asked_otherwise]

    def sort_key(self) -> tuple[str, bool, float, str]:
        """A key that sorts rows by model, then the best mean first, rows without one last, then by
        name."""
        return self.model, self.mean.mean is None, -(self.mean.mean or 0.0), self.method

    def notes(self) -> list[str]:
        """The notes of the row: the legend, why there is no mean, and the notes of its runs.

        A note of every run stands as it is, one of some runs behind their data sets, "musique:
        ...". Notes on probes and on shares of 0 % are left out; the table of the data set has them.
        """
        notes = [*self.legend, *self._why_no_mean()]
        notes_of_runs: dict[str, None] = {}  # an ordered set
        for row in self.rows_by_dataset.values():
            notes_of_runs.update(dict.fromkeys(row.notes))
        for note in notes_of_runs:
            if note.startswith(costs.PROBE_NOTE_START) or "(0 %)" in note:
                continue
            datasets_with_note = []
            for name, row in self.rows_by_dataset.items():
                if note in row.notes:
                    datasets_with_note.append(name)
            if len(datasets_with_note) < len(self.rows_by_dataset):
                note = f"{', '.join(datasets_with_note)}: {note}"
            notes.append(note)
        return notes

    def _why_no_mean(self) -> list[str]:
        """One sentence on why there is no mean, "no mean: no run on qasper"; [] where there is
        one."""
        without_run = []
        without_score = []
        for name in self.datasets:
            if name not in self.rows_by_dataset:
                without_run.append(name)
            elif self.estimate(name).mean is None:
                without_score.append(name)
        reasons = []
        if without_run:
            reasons.append(f"no run on {', '.join(without_run)}")
        if without_score:
            reasons.append(f"no such score on {', '.join(without_score)}")
        if not reasons:
            return []
        return [f"no mean: {' and '.join(reasons)}"]


@dataclass(frozen=True)
class WideTable:
    """A table of methods by data sets: a row a method and model, a column a data set.

    Args:
        rows: The rows, by model and best mean first.
        datasets: The names of the columns.
        intervals: Whether the columns of intervals are there.
        only_cells: Whether the mean and the notes are left out.
    """

    rows: Sequence[MethodRow]
    datasets: Sequence[str]
    intervals: bool = False
    only_cells: bool = False

    def frame(self) -> pd.DataFrame:
        """The table as a frame, with all columns that csv and json have."""
        return facts.as_floats(pd.DataFrame(list(map(self._cells, self.rows))))

    def sections(self, score: str | None = None) -> list[Section]:
        """A table for each model, titled by the model, and by the score where it is given."""
        table = self.frame()
        columns = [*self.datasets]
        if len(self.datasets) > 1 and not self.only_cells:
            columns.append(MEAN_COLUMN)
        else:
            table = _without_mean(table)  # that of one data set is its own
        tables = []
        for model, rows in table.groupby("model", sort=False):
            rows_of_model = rows.drop(columns="model").reset_index(drop=True)
            title = str(model)
            if title == facts.NO_MODEL:
                title = "applications"
            if score:
                title = f"{score} · {title}"
            section = Section(
                title,
                rows_of_model,
                gaps=columns,
                unchanged_headings=self.datasets,
                named_columns=(),
            )
            tables.append(section)
        return tables

    def _cells(self, row: MethodRow) -> Row:
        """A row as cells by column name: {"method": "bm25", "model": "llama-8b", "musique": 0.4,
        ...}."""
        cells: dict[str, Cell] = {"method": row.method, "model": row.model}
        for dataset in self.datasets:
            cells |= self._estimate_cells(dataset, row.estimate(dataset))
        if not self.only_cells:
            cells |= self._estimate_cells(MEAN_COLUMN, row.mean)
        some_were_asked_otherwise = any(other.asked_otherwise for other in self.rows)
        if some_were_asked_otherwise:
            for dataset in self.datasets:
                cells[f"{dataset}.asked_otherwise"] = dataset in row.asked_otherwise
            cells[f"{MEAN_COLUMN}.asked_otherwise"] = bool(row.asked_otherwise)
        cells["upper_bound"] = row.is_upper_bound
        if not self.only_cells:
            cells["notes"] = tuple(row.notes())
        for dataset, p in row.p_values.items():
            cells[f"{dataset}.p"] = p
        return cells

    def _estimate_cells(self, name: str, estimate: Interval) -> dict[str, float | None]:
        """The cells of a mean: {"musique": 0.4}, with "musique.low" and "musique.high" where
        intervals are shown."""
        if self.intervals:
            return facts.interval_columns(name, estimate)
        return {name: estimate.mean}


def _without_mean(table: pd.DataFrame) -> pd.DataFrame:
    """The table without the columns "mean", "mean.low" and so on."""
    return table.drop(
        columns=[name for name in table if str(name).partition(".")[0] == MEAN_COLUMN]
    )


def wide_table(
    rows: Sequence[TableRow],
    score: str | None = None,
    *,
    intervals: bool = False,
    differences: Sequence[PairedRow] | None = None,
) -> WideTable:
    """The table of methods by data sets: a row for each method with each model, a column a data set.

    Args:
        rows: The rows of the main table, by data set.
        score: The name of the score; by default each data set's headline.
        intervals: Whether to give the intervals too.
        differences: Paired differences to a reference; their p-values become the columns
            `musique.p`.

    Raises:
        UnknownName: No run has the score.
    """
    known_scores = list(rows[0].scores)
    if score is not None and score not in known_scores:
        hint = "harness score RUN --scorers NAME adds a score"
        raise UnknownName("score", score, known_scores, hint)
    rows_by_dataset: dict[str, list[TableRow]] = {}
    # (model, method) -> data set -> row
    rows_by_method: dict[tuple[str, str], dict[str, TableRow]] = {}
    for row in rows:
        rows_by_dataset.setdefault(row.dataset, []).append(row)
        rows_of_method = rows_by_method.setdefault((row.model, row.label), {})
        rows_of_method[row.dataset] = row
    datasets = list(rows_by_dataset)
    legend = _legend(rows_by_dataset, score, differences)
    method_rows = []
    for (model, method), rows_of_method in rows_by_method.items():
        method_row = MethodRow(
            method=method,
            model=model,
            rows_by_dataset=rows_of_method,
            datasets=datasets,
            score=score,
            legend=legend,
            p_values=_p_values_by_dataset(rows_of_method, differences or ()),
        )
        method_rows.append(method_row)
    method_rows.sort(key=MethodRow.sort_key)
    return WideTable(method_rows, datasets, intervals)


def _legend(
    rows_by_dataset: Mapping[str, Sequence[TableRow]],
    score: str | None,
    differences: Sequence[PairedRow] | None,
) -> list[str]:
    """The first notes of every row: on questions, on the mean, and on the test.

    Args:
        rows_by_dataset: Data set -> its rows of the main table.
        score: The name of the score; None for the headlines.
        differences: The tested differences; None for none.
    """
    legend = [_questions_sentence(rows_by_dataset, score)]
    if len(rows_by_dataset) > 1:
        legend.append(f"mean: over the {len(rows_by_dataset)} data sets, each weighs the same")
    if differences is not None:
        legend.append(_dagger_sentence(differences))
    return legend


def _questions_sentence(
    rows_by_dataset: Mapping[str, Sequence[TableRow]], score: str | None
) -> str:
    """The number of questions of each data set, and its headline where no score is named.

    -> "musique: f1, 200 questions; qasper: f1, 150 to 160 questions"
    """
    parts = []
    for dataset, rows in rows_by_dataset.items():
        n_questions = {row.n_questions for row in rows}
        questions = f"{min(n_questions)} to {max(n_questions)} questions"
        if len(n_questions) == 1:
            questions = f"{max(n_questions)} questions"
        headlines: list[str] = []
        if not score:
            headlines = list(dict.fromkeys(row.headline for row in rows))
        parts.append(f"{dataset}: {', '.join([*headlines, questions])}")
    return "; ".join(parts)


def _dagger_sentence(differences: Sequence[PairedRow]) -> str:
    """The sentence on what the dagger says: which reference, which test, how many tests."""
    references = ", ".join(dict.fromkeys(row.pair.base_label for row in differences))
    test = f"paired sign flips by document, Holm over {len(differences)} tests"
    return f"†: differs from {references}, p < 0.05 ({test})"


def _p_values_by_dataset(
    rows_by_dataset: Mapping[str, TableRow], differences: Sequence[PairedRow]
) -> dict[str, float | None]:
    """Data set -> p of the difference to the reference, None for the reference; {} without
    differences."""
    if not differences:
        return {}
    p_by_run = {row.key: row.p_holm for row in differences}
    return {name: p_by_run.get(facts.run_key(row.run)) for name, row in rows_by_dataset.items()}
