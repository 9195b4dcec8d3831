"""One row a run: scores with intervals, what it cost, what went wrong.

    runs = [read_run(folder) for folder in find_runs(Path("results"))]     # harness.storage.run_folder
    print(render(frame(runs), "markdown"))

The columns are those of reports/run_columns.py, where each is explained in its entry.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd

from harness.config.yaml_tree import value_text
from harness.cost.flops import DEFAULT_CONVENTION
from harness.storage.run_folder import StoredRun
from reports import costs, facts
from reports.checks import Checks
from reports.comparability import (
    NotRanked,
    QuestionSet,
    misfit_notes,
    notes_on_versions,
    question_set,
    reasons_not_to_rank,
    unchecked_notes,
)
from reports.copies import reproduction_notes
from reports.prices import notes_on_prices
from reports.run_columns import row_cells
from reports.run_notes import run_notes
from reports.search_notes import same_nodes_notes
from reports.settings import RunNames, is_number, name_runs
from reports.table_cell import Cell
from reports.table_row import CostRatio, RunNumbers, TableRow, TflopsCache, cost_ratio

REFERENCE = "full-context"


def frame(
    runs: Sequence[StoredRun],
    *,
    convention: str = DEFAULT_CONVENTION,
    reference: str = REFERENCE,
    checks: Checks | None = None,
) -> pd.DataFrame:
    """The rows of `table_rows` as a frame; its columns are those of reports/run_columns.py.

    Args:
        runs: Stored runs.
        convention: How FLOPs are counted.
        reference: What `ratio` refers to: a label, a preset's name, or a run folder's name or hash.
        checks: Gives what was found in the records; by default a new one, which reads them.

    Raises:
        UserError: There is no run, or a run without records.
        UnknownName: There is no such convention.
    """
    return as_frame(table_rows(runs, convention=convention, reference=reference, checks=checks))


def as_frame(rows: Sequence[TableRow]) -> pd.DataFrame:
    """The rows as a frame, in their order: the columns of reports/run_columns.py, with the settings
    in which runs differ."""
    table = pd.DataFrame([row_cells(row) for row in rows])
    for key in rows[0].settings:
        # As objects, so that whole numbers stay whole beside a missing one.
        values = [row.settings[key] for row in rows]
        table[key] = pd.Series(values, dtype=object, index=table.index)
    return facts.as_floats(table)


def best_first(rows: Sequence[TableRow], score: str | None = None) -> list[TableRow]:
    """The rows sorted by data set, and within one by a score, the best first; ties keep their
    order.

    In a data set, runs without the score come last of those with the same questions; runs that were
    asked other questions come after all of them.

    Args:
        rows: The rows.
        score: The name of the score; by default each run's headline.
    """
    return sorted(rows, key=partial(_sort_key, score=score))


def _sort_key(row: TableRow, score: str | None) -> tuple[str, bool, float]:
    """A sort key of a row: its data set, whether it was asked other questions, and minus its score.

    A row without the score comes last of its group.

    Args:
        row: The row.
        score: The name of the score; None for the row's headline.
    """
    mean = row.score(score or row.headline).mean
    if mean is None:
        mean = -math.inf
    return row.dataset, row.asked_otherwise, -mean


def table_rows(
    runs: Sequence[StoredRun],
    *,
    convention: str = DEFAULT_CONVENTION,
    reference: str = REFERENCE,
    checks: Checks | None = None,
) -> list[TableRow]:
    """A row a run, by data set and in the order of the runs within one.

    Means come from the records, so they hold for an unfinished run too; costs are means over
    answered questions. A run with other questions, or another task, than most of its data set says
    so in its notes.

    Args:
        runs: Stored runs.
        convention: How FLOPs are counted: one of cost.flops.CONVENTIONS.
        reference: What `ratio` refers to: a label, a preset's name, or a run folder's name or hash.
            The ratio is missing where no such run is there, or it has other questions.
        checks: Gives what was found in the records; by default a new one, which reads them.

    Raises:
        UserError: There is no run, or a run without records.
        UnknownName: There is no such convention.
    """
    facts.check_runs(runs)
    costs.check_convention(convention)
    rows = _rows_without_scores(runs, convention)
    score_names = _all_score_names(runs)
    for row in rows:
        row.notes += run_notes(row.run, clusters=row.numbers.clusters)  # a cluster a question
        row.add_scores(score_names)
        row.note_unknown_index()
    _add_comparison_notes(rows, checks or Checks())  # Checks() reads the records when asked
    references = _reference_runs(rows, reference)
    for row in rows:
        comparable_reference = _reference_with_same_questions(row.run, references)
        _add_ratios(row, comparable_reference, reference)
    return sorted(rows, key=lambda row: row.dataset)


def _rows_without_scores(runs: Sequence[StoredRun], convention: str) -> list[TableRow]:
    """A row a run with its names, settings and headline, without scores and not compared yet."""
    names = name_runs(runs)
    datasets = facts.dataset_names(runs)
    headlines = facts.common_headline_scores(runs)
    cache = TflopsCache()  # shared, so that FLOPs of a reference are computed once
    rows = []
    rows_of_runs = zip(runs, names, _setting_cells(names), datasets, strict=True)
    for run, name, settings, dataset in rows_of_runs:
        row = TableRow(
            run=run,
            dataset=dataset,
            label=name.label,
            numbers=RunNumbers(run, convention, cache),
            headline=headlines[run.config.dataset.name],
            base=name.base,
            settings=settings,
        )
        rows.append(row)
    return rows


def _all_score_names(runs: Sequence[StoredRun]) -> list[str]:
    """The names of all scores of the runs, each once: those of answers, and those of a whole
    corpus."""
    score_names: dict[str, None] = {}  # the keys serve as an ordered set
    for run in runs:
        score_names.update(dict.fromkeys(facts.score_names(run)))
        score_names.update(dict.fromkeys(facts.corpus_score_sources(run)))
    return list(score_names)


def _setting_cells(names: Sequence[RunNames]) -> list[dict[str, Cell]]:
    """For each run, the settings in which runs differ, None for one that it lacks.

    The values of a setting are numbers where they are in all runs, else texts:

        k=3 and k=5     -> [{"method.k": 3}, {"method.k": 5}]
        k=3 and k=all   -> [{"method.k": "3"}, {"method.k": "all"}]
    """
    keys = _differing_settings(names)
    keys_with_texts = _settings_with_texts(names)
    settings_of_runs = []
    for name in names:
        settings: dict[str, Cell] = dict.fromkeys(keys)
        for key, value in name.values.items():
            if is_number(value) and key not in keys_with_texts:
                settings[key] = value
            else:
                settings[key] = value_text(value)
        settings_of_runs.append(settings)
    return settings_of_runs


def _settings_with_texts(names: Sequence[RunNames]) -> set[str]:
    """The names of the settings whose value is no number in at least one run."""
    keys = set()
    for name in names:
        for key, value in name.values.items():
            if not is_number(value):
                keys.add(key)
    return keys


def _differing_settings(names: Sequence[RunNames]) -> list[str]:
    """The names of the settings in which runs of one method differ, each once."""
    keys: dict[str, None] = {}  # they serve as an ordered set
    for name in names:
        keys.update(dict.fromkeys(name.values))
    return list(keys)


@dataclass(frozen=True)
class _ComparisonNotes:
    """Notes from comparing a run with the other runs of a table; None where there is none.

    Attributes:
        reproduction: What it shares with an earlier run of the same settings.
        not_ranked: Why it is not ranked.
        versions: In which versions it is otherwise than most runs.
        prices: What of it is priced otherwise than in most runs.
        same_nodes: Which runs visited the same nodes; [] for nothing.
    """

    reproduction: str | None
    not_ranked: NotRanked | None
    versions: str | None
    prices: str | None
    same_nodes: list[str]


def _notes_of_comparisons(rows: Sequence[TableRow], checks: Checks) -> list[_ComparisonNotes]:
    """For each row, what comparing it with the others gives.

    Args:
        rows: The rows.
        checks: What was found in the records.
    """
    runs = [row.run for row in rows]
    labels = [row.label for row in rows]
    notes_by_row = zip(  # in the order of the fields of _ComparisonNotes
        reproduction_notes(runs, labels),
        reasons_not_to_rank(runs, checks),
        notes_on_versions(runs, checks),
        notes_on_prices(runs),
        same_nodes_notes(runs, labels),
        strict=True,
    )
    return [_ComparisonNotes(*notes) for notes in notes_by_row]


def _add_comparison_notes(rows: Sequence[TableRow], checks: Checks) -> None:
    """Compare each row with the others; sets `asked_otherwise` and why, `has_misfits`, and adds to
    `notes` and `warnings`.

    `notes` get what a run does otherwise than most runs, and what does not fit in its own records.
    Those of them by which its numbers may be wrong, or not comparable, are in `warnings` too.
    """
    for row, comparison in zip(rows, _notes_of_comparisons(rows, checks), strict=True):
        not_ranked = None
        if comparison.not_ranked is not None:
            not_ranked = comparison.not_ranked.sentence
            row.asked_otherwise = True
            row.reasons_not_to_rank = comparison.not_ranked.reasons
            row.only_other_questions = comparison.not_ranked.only_other_questions
            row.has_copied_answers = comparison.not_ranked.has_copied_answers
        misfits = misfit_notes(row.run, checks)
        row.has_misfits = bool(misfits)
        inconsistencies = [*misfits, *unchecked_notes(row.run, checks)]
        prices = None
        if comparison.prices is not None:
            prices = f"{row.label}: {comparison.prices}"
        row.warnings += [f"{row.label} {sentence}" for sentence in inconsistencies]
        row.warnings += _known_sentences(not_ranked, prices)
        row.notes += _known_sentences(comparison.reproduction)
        row.notes += inconsistencies
        row.notes += _known_sentences(not_ranked, comparison.versions, prices)
        row.notes += comparison.same_nodes


def _known_sentences(*sentences: str | None) -> list[str]:
    """The sentences without those that are None or empty."""
    return [sentence for sentence in sentences if sentence]


def _reference_runs(rows: Sequence[TableRow], reference: str) -> list[StoredRun]:
    """The runs whose label is `reference`; without any, the runs whose preset, folder or hash
    is."""
    labelled = [row.run for row in rows if row.label == reference]
    if labelled:
        return labelled
    return [row.run for row in rows if reference in facts.reference_names(row.run)]


def _reference_with_same_questions(
    run: StoredRun, references: Sequence[StoredRun]
) -> StoredRun | None:
    """The one reference with the data set, model and questions of a run; None if there is none, or
    several."""
    run_key = _ratio_key(run)
    matching = [base for base in references if _ratio_key(base) == run_key]
    if len(matching) != 1:
        return None
    return matching[0]


def _ratio_key(run: StoredRun) -> tuple[str, str, QuestionSet]:
    """Data set, model and questions of a run, which it shares with the run that its cost ratio is
    to."""
    return run.config.dataset.name, facts.model_name(run), question_set(run)


def _add_ratios(row: TableRow, base: StoredRun | None, reference: str) -> None:
    """Set a row's cost ratios, and add notes on what limits them.

    The notes: the ratio covers only the questions that both answered; another convention would say
    the opposite.

    Args:
        row: The row; `ratio`, `ratio_search` and `notes` are written.
        base: The run that it is compared with; None for none.
        reference: The name of the reference, for the sentence.
    """
    row.ratio = _cost_ratio_of_row(row, base, with_index=True)
    row.ratio_search = _cost_ratio_of_row(row, base, with_index=False)
    n_records = len(row.run.records)
    n_shared = n_records
    if row.ratio is not None:
        n_shared = row.ratio.n_shared
    if n_shared < n_records and row.run is not base:
        row.notes.append(
            f"ratio is over the {n_shared} of {n_records} questions that both answered"
        )
    with_index = _opposite_results(row, base, with_index=True)
    if with_index:
        row.notes.append(f"FLOPs with the index, beside {reference}: {with_index}")
    without_index = _opposite_results(row, base, with_index=False)
    if without_index:
        row.notes.append(f"FLOPs without the index, beside {reference}: {without_index}")


def _cost_ratio_of_row(
    row: TableRow, base: StoredRun | None, *, with_index: bool, convention: str | None = None
) -> CostRatio | None:
    """What a run costs against another one, as `cost_ratio`.

    Args:
        row: The row of the run.
        base: The run that it is compared with.
        with_index: Whether a question pays its share of the index.
        convention: How FLOPs are counted; by default as in the table.
    """
    numbers = row.numbers
    return cost_ratio(
        row.run, base, convention or numbers.convention, numbers.cache, with_index=with_index
    )


def _opposite_results(row: TableRow, base: StoredRun | None, *, with_index: bool) -> str:
    """What two conventions say where a run is cheaper under one and dearer under the other.

    "causal" counts about half of the default's attention, so methods that read long texts at once get
    cheaper by it. The two are the table's convention and "causal", or the default where that is it.

        -> "12.5 % dearer under full, 3.0 % cheaper under causal"

    Args:
        row: The row of the run.
        base: The run that it is compared with.
        with_index: Whether a question pays its share of the index.

    Returns:
        The words; "" where the two agree, or the ratio is unknown.
    """
    convention = row.numbers.convention
    other_convention = "causal"
    if convention == "causal":
        other_convention = DEFAULT_CONVENTION
    ratio = _cost_ratio_of_row(row, base, with_index=with_index)
    other_ratio = _cost_ratio_of_row(row, base, with_index=with_index, convention=other_convention)
    if ratio is None or other_ratio is None:
        return ""
    # of two numbers on different sides of 1, the differences from 1 have different signs
    is_cheaper_or_dearer_in_both = (ratio.value - 1) * (other_ratio.value - 1) >= 0
    if is_cheaper_or_dearer_in_both:
        return ""
    words = _difference_in_words(ratio, convention)
    other_words = _difference_in_words(other_ratio, other_convention)
    return f"{words}, {other_words}"


def _difference_in_words(ratio: CostRatio, convention: str) -> str:
    """How far a cost ratio is from 1, in words: (1.125, "causal") -> "12.5 % dearer under
    causal"."""
    percent = 100 * (ratio.value - 1)
    direction = "cheaper"
    if percent > 0:
        direction = "dearer"
    return f"{abs(percent):.1f} % {direction} under {convention}"
