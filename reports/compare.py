"""`harness compare`: means beside paired differences on the same questions, against one reference
per data set.

    both = side_by_side(runs, reference="full-context")
    both.rows             reports.main_table.table_rows, best first
    both.pairs            paired_rows(runs); None where every data set has one run only
    both.joined()         one row a run with its difference: what csv and json hold
    both.render("text")

musique · Llama-3.1-8B-Instruct
method        longbench.qa_f1_score  evidence_recall  tokens  ratio  n     failed  truncated
full-context  35.8 [33.9, 37.7]      ...
bm25          28.7 [26.8, 30.6]      ...

musique: longbench.qa_f1_score minus that of full-context, on the same questions
method  n     documents mean  reference mean  difference         p       p_holm  detectable
bm25    2417      2417  28.7            35.8  -7.1 [-8.8, -5.4]  <0.001  <0.001         2.4

Columns of `compare`: dataset, score, method, model, reference, n (questions in common), documents
(clusters: harness.stats.question_clusters), mean, reference mean, difference with .low and .high
(95 %, by cluster), p (sign-flip permutation by cluster, two-sided), p_holm (Holm over all rows),
detectable (true difference that this test finds in 80 %, by simulation), changed (configuration keys in
which the two runs differ, without the place of the data, device and batch size), notes, run and
reference_run (the folders' names).

Runs that differ in data, questions, what was asked of the answers (instruction, answer_prefix,
demonstration, max_answer_tokens), sampling (temperature, top_p, max_tokens), seed, reader, scorer
version or the fate of failed questions, or whose scores are not those of their stored answers, are
refused: the difference would not be the method's. `force=True` compares them all the same and says
so in the notes.

Of a run made elsewhere (`harness import`) reader, seed and what was asked are not known, so these
are not compared, and a note says so. The questions in common are then those with the same id,
question and right answers; they must be at least 90 % of those of the larger run.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from harness.cost.flops import DEFAULT_CONVENTION
from harness.errors import UnknownName, UserError
from harness.stats.paired_tests import PairedTest, detectable_difference, holm, paired_test
from harness.storage.named_runs import with_distinct_names
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.checks import Checks
from reports.columns import PAIRED, pick_columns, sections
from reports.comparability import same_question_ids, shared_questions
from reports.config_difference import brief_difference, config_difference
from reports.copies import reproduction_note
from reports.main_table import REFERENCE, as_frame, best_first, table_rows
from reports.not_checked import not_checked_sentence
from reports.run_notes import run_notes
from reports.run_pairs import RunPair, choose_score, comparison_problems, pairs_with_reference
from reports.run_records import failed_ids, values_in_order
from reports.section import Section
from reports.table_formats import line_below, render, render_sections
from reports.table_row import TableRow

_LEGEND = (
    "difference with its 95 % interval (by document; by question where passages are retrieved or "
    "all pages of a folder are one document)"
)
_COLUMNS_OF_BOTH_TABLES = {
    "score": "paired.score",
    "n": "paired.n",
    "documents": "paired.documents",
    "mean": "paired.mean",
    "reference mean": "paired.reference mean",
    "notes": "paired.notes",
}
"""Columns of differences that the table of means has too."""
NOT_CHECKED = "scores not checked: they could not all be computed again from the stored answers"


@dataclass(frozen=True)
class PairedRow:
    """The paired difference of a run to the reference of its data set.

    Args:
        pair: The two runs.
        score: Name of the score.
        mean: Mean score of the run over the questions in common.
        reference_mean: Mean score of the reference over the same questions.
        test: The test of run minus reference.
        p_holm: The p of this test, corrected by Holm over all rows.
        detectable: The true difference that this test finds in 80 %; None: too few documents.
        changed: The settings in which the two runs differ.
        notes: Sentences to print below the table.
    """

    pair: RunPair
    score: str
    mean: float
    reference_mean: float
    test: PairedTest
    p_holm: float
    detectable: float | None
    changed: Sequence[str]
    notes: Sequence[str]

    @property
    def key(self) -> facts.RunKey:
        """The data set and the folder name of the run, which identify it."""
        return facts.run_key(self.pair.run)

    def cells(self) -> dict[str, object]:
        """The row as cells by the column names of `harness compare`: {"dataset": "musique",
        "score": "f1", "difference": -0.07, "p": 0.001, ...}."""
        pair = self.pair
        changed: tuple[str, ...] = ()
        if self.changed:
            changed = (f"{pair.label} differs from {pair.base_label} in {'; '.join(self.changed)}",)
        return {
            "dataset": pair.dataset,
            "score": self.score,
            "method": pair.label,
            "model": facts.model_name(pair.run),
            "reference": pair.base_label,
            "n": self.test.n,
            "documents": facts.count_documents(pair.run, self.test.clusters),
            "mean": self.mean,
            "reference mean": self.reference_mean,
            "difference": self.test.difference,
            "difference.low": self.test.low,
            "difference.high": self.test.high,
            "p": self.test.p,
            "p_holm": self.p_holm,
            "detectable": self.detectable,
            "changed": changed,
            "notes": tuple(self.notes),
            "run": pair.run.name,
            "reference_run": pair.base.name,
        }


def compare(
    runs: Sequence[StoredRun],
    *,
    reference: str | None = None,
    score: str | None = None,
    force: bool = False,
    checks: Checks | None = None,
) -> pd.DataFrame:
    """The rows of `paired_rows` as a frame, whose columns the head of this file lists.

    Args:
        runs: Stored runs.
        reference: A label, a preset's name, or a run folder's name or hash; by default full-context
            where it was run, else the first run of each data set.
        score: Name of the score; by default the data set's headline.
        force: Compare runs all the same that differ in more than the method.
        checks: What was found in the records, read for it by default.

    Raises:
        UserError: Nothing can be compared or (without `force`) must not be.
        UnknownName: There is no such reference or score.
    """
    rows = paired_rows(runs, reference=reference, score=score, force=force, checks=checks)
    return facts.as_floats(pd.DataFrame([row.cells() for row in rows]))


def paired_rows(
    runs: Sequence[StoredRun],
    *,
    reference: str | None = None,
    score: str | None = None,
    force: bool = False,
    checks: Checks | None = None,
) -> list[PairedRow]:
    """Paired differences, run minus reference: a row for each run but its data set's reference.

    Args:
        runs: Stored runs.
        reference: A label, a preset's name, or a run folder's name or hash; by default full-context
            where it was run, else the first run of each data set.
        score: Name of the score; by default the data set's headline.
        force: Compare runs all the same that differ in more than the method.
        checks: What was found in the records, read for it by default.

    Raises:
        UserError: Nothing can be compared or (without `force`) must not be.
        UnknownName: There is no such reference or score.
    """
    facts.check_runs(runs)
    checks = checks or Checks()  # which reads the records of a run when asked about it
    compared_pairs: list[_ComparedPair] = []
    headlines = facts.common_headline_scores(runs)
    for pair in pairs_with_reference(runs, reference):
        score_name = choose_score(pair, score or headlines[pair.dataset])
        problems = comparison_problems(pair, score_name, checks)
        compared_pairs.append(_ComparedPair(pair, score_name, problems))
    if not force:
        _check_no_problems(compared_pairs)
    tested_pairs = [_test_pair(compared) for compared in compared_pairs]
    corrected_p = holm([tested.test.p for tested in tested_pairs])
    rows = []
    for tested, p_holm in zip(tested_pairs, corrected_p, strict=True):
        rows.append(_paired_row(tested, p_holm, n_tests=len(tested_pairs), checks=checks))
    return rows


@dataclass(frozen=True)
class _ComparedPair:
    """A pair of runs that is compared.

    Args:
        pair: The two runs.
        score: The name of the score.
        problems: What speaks against comparing them, a sentence each.
    """

    pair: RunPair
    score: str
    problems: Sequence[str]


def _check_no_problems(compared_pairs: Sequence[_ComparedPair]) -> None:
    """Raise UserError, with all reasons, where runs must not be compared."""
    problems: dict[str, None] = {}  # the keys serve as an ordered set
    for compared in compared_pairs:
        problems.update(dict.fromkeys(compared.problems))
    if not problems:
        return
    start = "these runs differ in more than the method:"
    lines = [f"  - {problem}" for problem in problems]
    advice = "Run them alike, or compare them as they are with --force."
    raise UserError("\n".join([start, *lines, advice]))


@dataclass(frozen=True)
class _ScoresInCommon:
    """The scores of two runs on the questions that both have a score for.

    Args:
        questions: The ids of these questions.
        run_scores: The score of the run on each.
        base_scores: The score of the reference on each.
        clusters: The cluster of each, a number.
    """

    questions: Sequence[str]
    run_scores: Sequence[float]
    base_scores: Sequence[float]
    clusters: Sequence[int]

    def differences(self) -> list[float]:
        """The score of the run minus that of the reference, a question each."""
        return list(map(operator.sub, self.run_scores, self.base_scores))


@dataclass(frozen=True)
class _TestedPair:
    """A comparison, the scores that it is about, and the test of run minus reference."""

    compared: _ComparedPair
    scores: _ScoresInCommon
    test: PairedTest


def _test_pair(compared: _ComparedPair) -> _TestedPair:
    """Test the difference of two runs' scores on the questions that both have a score for.

    Raises:
        UserError: There is none.
    """
    scores = _scores_in_common(compared)
    test = paired_test(scores.run_scores, scores.base_scores, scores.clusters)
    return _TestedPair(compared, scores, test)


def _paired_row(tested: _TestedPair, p_holm: float, n_tests: int, checks: Checks) -> PairedRow:
    """The row of a tested pair, with its means and notes.

    Args:
        tested: The pair with its test.
        p_holm: Its p, corrected by Holm for all pairs that are tested.
        n_tests: How many pairs are tested.
        checks: What was found in the records of both.
    """
    pair = tested.compared.pair
    scores = tested.scores
    return PairedRow(
        pair=pair,
        score=tested.compared.score,
        mean=sum(scores.run_scores) / len(scores.run_scores),
        reference_mean=sum(scores.base_scores) / len(scores.base_scores),
        test=tested.test,
        p_holm=p_holm,
        detectable=detectable_difference(scores.differences(), scores.clusters, n_tests),
        changed=config_difference(pair.run, pair.base),
        notes=_notes_on_pair(tested.compared, scores, checks),
    )


def _scores_in_common(compared: _ComparedPair) -> _ScoresInCommon:
    """The scores of both runs on the questions that both have a score for.

    Where one was made by another tool, only questions with the same text and right answers count.

    Raises:
        UserError: There is no such question.
    """
    pair = compared.pair
    score_by_question = facts.score_values(pair.run, compared.score).by_question()
    base_scores = facts.score_values(pair.base, compared.score)
    base_score_by_question = base_scores.by_question()
    # The reference's documents say which questions belong together; both runs saw the same ones
    # unless forced.
    cluster_by_question = base_scores.clusters_by_question()
    shared_ids = score_by_question.keys() & base_score_by_question.keys()
    if pair.has_imported_run:
        shared_ids &= same_question_ids(pair.run, pair.base)
    common_ids = [question for question in base_scores.ids if question in shared_ids]
    if not common_ids:
        raise UserError(
            f"{pair.names} on {pair.dataset} have no scored question in common: nothing to compare"
        )
    return _ScoresInCommon(
        questions=common_ids,
        run_scores=values_in_order(score_by_question, common_ids),
        base_scores=values_in_order(base_score_by_question, common_ids),
        clusters=values_in_order(cluster_by_question, common_ids),
    )


def _notes_on_pair(compared: _ComparedPair, scores: _ScoresInCommon, checks: Checks) -> list[str]:
    """What a reader of the difference must know, a sentence each: reasons against the comparison that
    were overruled, that one run reproduces the other, that one was imported, notes on each run, that
    scores were not checked, and the difference without failures.

    Args:
        compared: What is compared.
        scores: The scores of both runs.
        checks: What was found in the records of both.
    """
    pair = compared.pair
    notes = [f"compared all the same: {problem}" for problem in compared.problems]
    reproduced = reproduction_note(pair.run, pair.base)
    if reproduced is not None:
        notes.append(f"{pair.names}: {reproduced}")
    if pair.has_imported_run:
        shared_sentence = shared_questions(pair.run, pair.base).sentence
        notes.append(
            f"{shared_sentence}; prompt, seed and weights of an imported run are not compared"
        )
    for run, label in pair.labelled:
        notes += [f"{label}: {note}" for note in run_notes(run)]
    for run, label in pair.labelled:
        if not checks.rescored(run, compared.score).all_checked:
            notes.append(f"{label}: {NOT_CHECKED}")
    notes += _note_without_failures(pair, scores)
    return notes


def _note_without_failures(pair: RunPair, scores: _ScoresInCommon) -> list[str]:
    """One sentence with the difference over the questions that both answered.

        -> ["bm25 minus full-context: -6.2 over the 18 of 20 questions that both answered"]

    [] where both answered all questions, or none.
    """
    failed_in_either = failed_ids(pair.run) | failed_ids(pair.base)
    differences_of_answered = []
    for question, difference in zip(scores.questions, scores.differences(), strict=True):
        if question not in failed_in_either:
            differences_of_answered.append(difference)
    n_answered = len(differences_of_answered)
    n_questions = len(scores.questions)
    if n_answered in (0, n_questions):
        return []
    points = f"{100 * sum(differences_of_answered) / n_answered:+.1f}"
    questions = f"over the {n_answered} of {n_questions} questions that both answered"
    return [f"{pair.label} minus {pair.base_label}: {points} {questions}"]


@dataclass(frozen=True)
class SideBySide:
    """The two tables of a comparison: means, and paired differences.

    Args:
        rows: The runs, best first.
        pairs: Their differences to the references; None where every data set has one run only.
        score: The score asked for; None for the headline of each data set.
        not_checked: The sentence on what was not checked of the runs; None for none.
    """

    rows: Sequence[TableRow]
    pairs: Sequence[PairedRow] | None = None
    score: str | None = None
    not_checked: str | None = None

    def joined(self) -> pd.DataFrame:
        """One frame: each run's means, then its difference as "paired.n", "difference", "p" and so
        on.

        A reference has no difference; without pairs, the frame is that of the means.
        """
        frame_of_means = as_frame(self.rows)
        if self.pairs is None:
            return frame_of_means
        # As the rows call the data set: folders that are called alike have more in their names.
        dataset_names = {facts.run_key(row.run): row.dataset for row in self.rows}
        cells = []
        for pair in self.pairs:
            row = pair.cells()
            row["dataset"] = dataset_names[pair.key]
            cells.append(row)
        differences = facts.as_floats(pd.DataFrame(cells))
        renamed = differences.rename(columns=_COLUMNS_OF_BOTH_TABLES)
        paired = renamed.drop(columns=["model", "method"])
        return frame_of_means.merge(paired, on=["dataset", "run"], how="left")

    def render(
        self, table_format: str, columns: Sequence[str] | None = None, width: int | None = None
    ) -> str:
        """Both tables as text; in csv and json they are joined to one.

        Args:
            table_format: One of reports.table_formats.FORMATS.
            columns: Of the means, as in reports.columns.sections; csv and json hold all of them by
                default.
            width: Columns of the terminal, as in reports.table_formats.render.
        """
        if table_format in ("csv", "json"):
            table = self.joined()
            if columns:
                table = pick_columns(table, columns, self.score)
            return render(table, table_format)
        mean_sections = sections(as_frame(self.rows), columns, self.score)
        tables = render_sections([*mean_sections, *self.paired()], table_format, width)
        return tables + line_below(self.not_checked, table_format, width)

    def paired(self) -> list[Section]:
        """The differences, a section a data set, with a legend.

        Notes that stand below the means already are left out; [] where there are no differences.
        """
        if self.pairs is None:
            return []
        notes_of_means: set[str] = set()
        for row in self.rows:
            notes_of_means.update(f"{row.label}: {note}" for note in row.notes)
        by_dataset: dict[str, list[PairedRow]] = {}
        for pair in self.pairs:
            by_dataset.setdefault(pair.pair.dataset, []).append(pair)
        legend = self._legend(self.pairs)
        return [
            _dataset_section(by_dataset[dataset], legend, notes_of_means)
            for dataset in sorted(by_dataset)
        ]

    def _legend(self, pairs: Sequence[PairedRow]) -> str:
        """One sentence on what the columns of the differences mean."""
        comparisons = "1 comparison"
        if len(pairs) > 1:
            comparisons = f"{len(pairs)} comparisons"
        legend = (
            f"{_LEGEND}; p: sign flips of documents, below 0.05 where the interval leaves 0 out; "
            f"p_holm: Holm over {comparisons}"
        )
        if any(pair.detectable is not None for pair in pairs):
            legend += "; detectable: a smaller true difference would be missed in more than 20 %"
        return legend


def _dataset_section(pairs: Sequence[PairedRow], legend: str, notes_of_means: set[str]) -> Section:
    """The differences of one data set as a titled table, without the column of models where all runs
    have the same.

    Args:
        pairs: The rows of the data set, one or more.
        legend: The first note of every row.
        notes_of_means: Notes that stand below another table, and are left out here.
    """
    rows = []
    for pair in pairs:
        notes = [note for note in pair.notes if note not in notes_of_means]
        cells = pair.cells()
        cells["changed"] = _changed_note(pair.pair)
        cells["notes"] = (legend, *notes)
        rows.append(cells)
    table = facts.as_floats(pd.DataFrame(rows))
    columns = list(PAIRED)
    if table["model"].nunique() == 1:
        columns.remove("model")
    chosen_columns = []
    for name in (*columns, "changed", "notes"):
        with_interval = (name, f"{name}.low", f"{name}.high")
        chosen_columns += [column for column in with_interval if column in table.columns]
    first_row = pairs[0]
    title = (
        f"{first_row.pair.dataset}: {first_row.score} minus that of {first_row.pair.base_label}, "
        "on the same questions"
    )
    return Section(title, table[chosen_columns], named_columns=())


def _changed_note(pair: RunPair) -> tuple[str, ...]:
    """One sentence on the settings in which two runs differ, "bm25 differs from full-context in
    ..."; () for none."""
    settings = "; ".join(brief_difference(pair.run, pair.base))
    if not settings:
        return ()
    return (f"{pair.label} differs from {pair.base_label} in {settings}",)


def side_by_side(
    runs: Sequence[StoredRun],
    *,
    reference: str | None = None,
    score: str | None = None,
    force: bool = False,
    convention: str = DEFAULT_CONVENTION,
    checks: Checks | None = None,
) -> SideBySide:
    """Compare runs: their means, and their paired differences to a reference.

    A single run, or one of each data set, has means only. One run in several folders is compared as
    a reproduction.

    Args:
        runs: Stored runs.
        reference: A label, a preset's name, or a run folder's name or hash; by default full-context
            where it was run, else the first run of each data set.
        score: The name of the score; by default the data set's headline.
        force: Whether to compare what differs in more than the method.
        convention: How FLOPs are counted.
        checks: What was found in the records, read for it by default.

    Raises:
        UserError: Nothing can be compared or (without `force`) must not be.
        UnknownName: There is no such reference or score.
    """
    facts.check_runs(runs)
    if score is not None:
        _check_score(runs, score)
    runs = with_distinct_names(runs)
    checks = checks or Checks()
    pairs = None  # means only
    a_dataset_has_several_runs = len(facts.runs_by_dataset(runs)) < len(runs)
    if reference is not None or a_dataset_has_several_runs:
        pairs = paired_rows(runs, reference=reference, score=score, force=force, checks=checks)
    rows = table_rows(runs, convention=convention, reference=reference or REFERENCE, checks=checks)
    not_checked = not_checked_sentence(runs, checks, score)
    return SideBySide(best_first(rows, score), pairs, score, not_checked)


def _check_score(runs: Sequence[StoredRun], score: str) -> None:
    """Raise UnknownName where no run has this score."""
    known: dict[str, None] = {}  # an ordered set
    for run in runs:
        known.update(dict.fromkeys(facts.score_names(run)))
    if score not in known:
        hint = "harness score RUN --scorers NAME adds a score"
        raise UnknownName("score", score, list(known), hint)
