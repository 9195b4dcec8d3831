"""Check a bundle without a model: its bytes, its answers, their scores, and every number of its
table.

    report = verify(Path("bundle.zip"))
    report.differences    [Difference("other scoring", "runs/musique/bm25--...", "2hop__1", "...")]; [] if all is well
    report.notes          what could not be checked, a sentence each

    file            bytes that are not those that were exported, by name
                    (harness_audit/bundle.py compares these as it opens the bundle)
    other answers   an answer that is not the exported one, by question
    other texts     a question or gold answer that is not the exported one
    other scoring   an answer as exported, whose score here is not the stored one
    table           a number that the rescored answers do not give
    does not fit    what records, settings, hash and times of a run say of each other (reports/consistency.py)

Nothing of a bundle is executed: scorers are looked up among those of this installation, never
imported by a name from the bundle ("module:function"). Checksums reveal accidents and careless
edits. They cannot reveal a bundle whose author made up its answers and computed everything else
from them: for that, compare the printed sha256 with a published one.
"""

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Literal

from harness import scorers
from harness.config.schema import DatasetConfig
from harness.config.yaml_tree import dataset_of_run, flatten
from harness.datasets.load_once import load_once
from harness.engine.scoring import SCORING_NOTES, score_record
from harness.errors import UserError
from harness.stats import INTERVAL_RULE, OLDER_RULES
from harness.storage.failures import STOPS
from harness.storage.manifest_file import Import
from harness.storage.paths import with_home_expanded
from harness.storage.record_texts import gold_of
from harness.storage.records import StoredRecord
from harness.storage.run_files import SUMMARY
from harness.storage.run_folder import RecordsByQuestion, StoredRun, reduced_to_numbers
from harness.storage.run_summary import summarise
from harness.storage.serialize import json_values
from harness.storage.summary_file import RunSummary
from harness.types import JUDGES, LOGGED_SCORE_PREFIX, Gold
from harness_audit.bundle import (
    INDEX,
    README,
    README_TEXT,
    Bundle,
    RunEntry,
    answer_digest,
    answer_parts,
    digest,
    open_bundle,
    question_digest,
    report_rows,
    texts_digest,
)
from reports.consistency import inconsistencies, unchecked_parts
from reports.copies import reproduction_notes
from reports.differences import size_differences
from reports.examined import examine
from reports.facts import is_application
from reports.gold_rows import RowsCompared, check_one_dataset, compare_with_rows, load_golds
from reports.not_checked import OF_APPLICATIONS, choice_of_score, unchecked_costs

Kind = Literal["file", "other answers", "other texts", "other scoring", "table", "does not fit"]
NEVER_CHECKED = (
    "that the model gave these answers (in these words, asked once with one seed, by these settings)",
    "failures",
    "dates",
    "seconds",
    "prices and charges",
    "packages, code and machine",
    "sizes of models",
    "sources of rows and weights",
)
"""What no bundle can prove, whatever it holds."""
_INTERVAL_END_SUFFIXES = (".low", ".high")
"""The names of an interval's ends are that of the number with these."""
_COLUMNS_RESTING_ON_TEXTS = ("apart", "asked_otherwise")
"""Columns of a table that say whether a run is ranked, for which the data set's texts are read."""
_ROUNDING_TOLERANCE = 1e-9
"""By how much numbers may differ that count as equal: relative, and absolute near 0."""


@dataclass(frozen=True)
class Difference:
    """One thing in a bundle that is not as it should be.

    Args:
        kind: Which of the kinds in the module's head it is.
        place: The file or run of the bundle that it is in.
        question: The id of the question that it is about; None where it is about no single one.
        sentence: What differs.
    """

    kind: Kind
    place: str
    question: str | None
    sentence: str

    def __str__(self) -> str:
        """ "other scoring: runs/musique/bm25--..., question 'q7': f1 is 0.5 in the bundle, ..."."""
        subject = self.place
        if self.question is not None:
            subject = f"{self.place}, question '{self.question}'"
        return f"{self.kind}: {subject}: {self.sentence}"


@dataclass
class Report:
    """The result of checking a bundle; filled in while the check goes on.

    Args:
        sha256: The checksum of bundle.json, or of all files' checksums if some were changed.
        runs: How many runs were checked.
        answers: How many answers were checked.
        scores: How many scores were computed again.
        numbers: How many numbers of tables and summaries were computed again.
        files: How many files had the checksum of their export.
        intervals: False where some were made by another rule than this version's, so not compared.
        differences: What differs, in the order in which it was found.
        unchecked: What could not be checked or computed again, a phrase each.
        notes: Why it could not, and what else there is to know, a sentence each.
    """

    sha256: str
    runs: int = 0
    answers: int = 0
    scores: int = 0
    numbers: int = 0
    files: int = 0
    intervals: bool = True
    differences: list[Difference] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """The last line of the printed report: whether anything differs and, where nothing does,
        what was computed again and what was not checked.

            "consistent; computed again: 40 scores, 212 numbers, 9 checksums; not checked: ..."
            "NOT consistent: 2 differences"
        """
        n_differences = len(self.differences)
        if n_differences == 1:
            return "NOT consistent: 1 difference"
        if n_differences:
            return f"NOT consistent: {n_differences} differences"
        recomputed = f"{self.scores} scores, {self.numbers} numbers, {self.files} checksums"
        not_checked = ", ".join([*self.unchecked, *NEVER_CHECKED])
        return f"consistent; computed again: {recomputed}; not checked: {not_checked}"


def verify(path: Path, *, data: str | None = None, against: Sequence[StoredRun] = ()) -> Report:
    """Check a bundle without a model: its files, answers, scores, tables and texts. Each step below
    adds what it finds to the report.

    Args:
        path: The bundle.
        data: The file of the data set's rows, with which questions and gold answers are compared,
            also where a bundle has hashes in their place.
        against: Runs of one's own with the same settings, whose answers and scores are compared
            with the bundle's.

    Returns:
        Everything that differs, what was checked, and what could not be.

    Raises:
        DataError: It is no bundle, or must not be read.
        UserError: The rows cannot be used.
    """
    with open_bundle(path) as bundle:
        check_one_dataset(list(bundle.runs.values()), data)
        report = Report(bundle.sha256, runs=len(bundle.runs))
        report.files = len(bundle.index.files) - len(bundle.changed)
        rule = bundle.index.interval_rule
        if rule != INTERVAL_RULE:
            _report_intervals_not_compared(f"the table of {INDEX}", rule, report)
        for name in bundle.changed:
            sentence = "it is not as it was exported (checksum)"
            report.differences.append(Difference("file", name, question=None, sentence=sentence))
        if bundle.index.files.get(README) != digest(README_TEXT):
            report.unchecked.append(
                f"the words of {README}, which are not those that export writes"
            )
        rescored: list[StoredRun] = []
        checks: list[_RunCheck] = []
        for place, run in bundle.runs.items():
            # Digests of 100,000 answers take 40 MB, so they leave memory before the table is made.
            entry = bundle.index.runs.pop(place)
            run_check = _RunCheck(place, run, entry, report)
            run_check.count_and_report_stored()
            checks.append(run_check)
            rescored.append(run_check.rescore_and_report(data))
        n_without_gold = sum(run_check.n_without_gold for run_check in checks)
        if n_without_gold:
            report.unchecked.append(f"{n_without_gold} answers without gold answers")
        _report_table_differences(bundle, report_rows(rescored), report)
        for run_check, other in combinations(checks, 2):
            _report_pair_inconsistencies(run_check, other, report)
        _add_reproduction_notes(bundle, report)
        for run in against:
            _report_differences_from_own_run(bundle, run, report)
        return report


@dataclass(frozen=True)
class _TableKey:
    """What identifies a row of a table of runs.

    Args:
        dataset: The value of its column "dataset".
        run: The value of its column "run".
        number: 1; 2, 3, ... for further rows of the same data set and run, which was made several
            times.
    """

    dataset: str
    run: str
    number: int


def _rows_by_run(rows: Sequence[Mapping[str, object]]) -> dict[_TableKey, Mapping[str, object]]:
    """Key -> row of a table. The key, made of data set and run, finds the row of the same run in
    another table; the second run of the same data set and name has the number 2 in it.

    Args:
        rows: Each a mapping from column to value, with the columns "dataset" and "run".
    """
    rows_by_key: dict[_TableKey, Mapping[str, object]] = {}
    for row in rows:
        key = _TableKey(str(row.get("dataset")), str(row.get("run")), 1)
        while key in rows_by_key:
            key = replace(key, number=key.number + 1)
        rows_by_key[key] = row
    return rows_by_key


def _report_table_differences(
    bundle: Bundle, rescored_table: Sequence[Mapping[str, object]], report: Report
) -> None:
    """Compare the numbers of the bundle's table with those of the table of the rescored runs.

    Args:
        bundle: The bundle, with its table.
        rescored_table: The same table, computed again.
        report: Gets what differs.
    """
    stored_rows = _rows_by_run(bundle.index.table)
    recomputed_rows = _rows_by_run(rescored_table)
    with_intervals = bundle.index.interval_rule == INTERVAL_RULE
    for key in dict.fromkeys([*stored_rows, *recomputed_rows]):
        _report_different_numbers(
            stored_rows.get(key, {}),
            recomputed_rows.get(key, {}),
            f"{key.dataset}, {key.run}",
            report,
            with_intervals=with_intervals,
        )


def _report_pair_inconsistencies(check: "_RunCheck", other: "_RunCheck", report: Report) -> None:
    """Compare two runs of a bundle, and add what does not fit between them to `report`.

    Answers with exactly the same costs are reported, because no second run has the same seconds; so
    are other sizes of a model that both runs use.

    Args:
        check: The check of one run; the differences are reported for this one.
        other: The check of the other.
        report: Gets the differences.
    """
    sentences = []
    n_copied_answers = check.examined.count_copied_answers(other.examined)
    if n_copied_answers:
        sentences.append(
            f"{n_copied_answers} of its answers have the costs of those of {other.place}, "
            "seconds included"
        )
    sentences += [
        f"other sizes of the same weights than in {other.place} ({size})"
        for size in size_differences(check.run, other.run)
    ]
    for sentence in sentences:
        difference = Difference("does not fit", check.place, question=None, sentence=sentence)
        report.differences.append(difference)


def _add_reproduction_notes(bundle: Bundle, report: Report) -> None:
    """Add a note to `report` for each run of the bundle that is an earlier one made again: how many
    answers are alike."""
    sentences = reproduction_notes(list(bundle.runs.values()), list(bundle.runs))
    for sentence in sentences:
        if sentence is not None:
            report.notes.append(sentence)


class _RunCheck:
    """Checks one run of a bundle, and adds what differs to the report of the whole bundle."""

    def __init__(self, place: str, run: StoredRun, entry: RunEntry, report: Report) -> None:
        """Keep what is compared, and read what later checks need of the records.

        Args:
            place: The run's folder in the bundle.
            run: The run.
            entry: What bundle.json says of it.
            report: Gets what differs.
        """
        self.place = place
        self.run = run
        self.entry = entry
        self.report = report
        self.n_without_gold = 0  # answers without gold answers, counted by the rescoring
        self.has_gold_by_question: dict[str, bool] = {}  # id -> whether its record has gold answers
        # Ids of questions whose answer is not the exported one.
        self.changed_answer_ids: set[str] = set()
        self.recorded_score_names: set[str] = set()  # of all scores in the records
        self.judge_score_names: set[str] = set()  # of those that models gave
        # The rescored records, reduced to what a table reads of them; filled by the rescoring.
        self.rescored_numbers: list[StoredRecord] = []
        # Also fills the four collections above.
        self.other_text_ids = self._collect_from_records()

    def count_and_report_stored(self) -> None:
        """Count the run's answers in the report; check that its files fit each other, that no
        record of bundle.json is missing, and that texts and versions of scorers are those of
        bundle.json. What differs goes to the report. (Answers are compared at the rescoring.)"""
        self.report.answers += len(self.has_gold_by_question)  # one entry for each record
        imported = self.run.manifest.imported
        if imported:
            self._report_import_as_unchecked(imported)
        self._report_inconsistencies()
        missing_ids = self.entry.answers.keys() - self.has_gold_by_question.keys()
        for question_id in sorted(missing_ids):
            self._report_question_difference("other answers", question_id, "its record is missing")
        for note in self.run.notes:
            self._report_run_difference("other texts", note)
        if self.run.manifest.scorers != self.entry.scorers:
            sentence = "versions of scorers in manifest.json are not those of bundle.json"
            self._report_run_difference("table", sentence)
        for question_id in self.other_text_ids:
            sentence = "its question or gold answers are not those that were exported"
            self._report_question_difference("other texts", question_id, sentence)

    def _collect_from_records(self) -> list[str]:
        """Read the records once: fill `has_gold_by_question`, `recorded_score_names`,
        `judge_score_names` and `changed_answer_ids`, and return the ids of questions whose texts
        are not the exported ones. What was exported is known by its digests in bundle.json."""
        other_text_ids: list[str] = []
        for record in self.run.records:
            question = record.question_id
            self.has_gold_by_question[question] = record.gold is not None
            self.recorded_score_names.update(record.scores)
            self.judge_score_names.update(record.judgements)
            if answer_digest(record) != self.entry.answers.get(question):
                self.changed_answer_ids.add(question)
            if texts_digest(record) != self.entry.questions.get(question):
                other_text_ids.append(question)
        return other_text_ids

    def _report_import_as_unchecked(self, imported: Import) -> None:
        """Report as unchecked whether an imported run holds what the files of the other tool said,
        since the bundle does not have those files.

        Args:
            imported: What the manifest says of the import: the tool, and names and checksums of
                files.
        """
        names_with_checksums = [
            f"{file.name} (sha256 {file.sha256[:12]})" for file in imported.files
        ]
        file_names = ", ".join(names_with_checksums)
        self.report.unchecked.append(f"that {self.place} holds what {file_names} says")
        self._add_note(
            f"imported from {imported.tool}; whether its answers and costs are those of "
            f"{file_names} is open"
        )

    def _report_inconsistencies(self) -> None:
        """Report where the run's records, settings, hash and times do not fit each other, or its
        files are not as the run left them. Also keeps what was found in the records as
        `self.examined`."""
        # The files of a bundle are written anew: what they were at the export is in its index, and
        # the numbers of the summary are computed again below.
        stored_summary = self.run.summary
        counts_only = RunSummary(
            n_asked=stored_summary.n_asked,
            n_left_out=stored_summary.n_left_out,
            edited=stored_summary.edited,
        )
        run_without_numbers = replace(self.run, summary=counts_only)
        self.examined = examined = examine(self.run)
        sentences = inconsistencies(run_without_numbers, examined)
        sentences += self._differences_from_index()
        sentences += self.entry.misfits or ()
        changed_files = self.entry.changed
        if changed_files:
            sentences.append(
                f"{', '.join(changed_files)} had been changed when the run was exported"
            )
        for sentence in sentences:
            self._report_run_difference("does not fit", sentence)
        # Whether files were changed is known from bundle.json, and gold answers are compared later.
        for phrase in unchecked_parts(run_without_numbers, examined):
            if "files" not in phrase and "gold" not in phrase:
                self._add_unchecked_phrase(phrase)
        for phrase in choice_of_score([self.run]):
            self._add_unchecked_phrase(phrase)
        if is_application(self.run):
            self._add_unchecked_phrase(OF_APPLICATIONS)
        for phrase in unchecked_costs([self.run]):
            self._add_unchecked_phrase(phrase)
        if changed_files is None and run_without_numbers.manifest.imported is None:
            self._add_unchecked_phrase("whether the files are as the run left them")

    def _report_other_texts_and_read_golds(self, data: str | None) -> dict[str, Gold]:
        """Compare the bundle's texts with the data set's rows, reporting what differs, and return
        gold answers of the rows; {} where those of the bundle do.

        Args:
            data: The file of the rows; None for those of the data set where they are at hand, of
                which gold answers are taken only for a bundle that has none.

        Returns:
            Question id -> gold answers, of questions that are as they were exported.

        Raises:
            UserError: The rows cannot be used.
            DataError: The rows cannot be read.
        """
        compared = compare_with_rows(self.run, data)
        holds_golds = any(self.has_gold_by_question.values())
        if data is not None:
            # An imported run is not compared; its gold answers come from the rows all the same.
            nothing_found = RowsCompared(frozenset(), [], has_their_fingerprint=True)
            return self._read_golds_of_unchanged_rows(data, compared or nothing_found)
        if compared is not None:
            self._report_row_sentences(compared.sentences)
        elif holds_golds:
            self._add_unchecked_phrase("questions, gold answers and evidence against the data set")
            self._add_note(
                "gold answers are the bundle's own; to compare them with the data set's rows: "
                "--data FILE"
            )
        if holds_golds:
            return {}
        return load_golds(self.run) or {}

    def _read_golds_of_unchanged_rows(self, data: str, compared: RowsCompared) -> dict[str, Gold]:
        """Read the data set's rows from the file `data`, and return question id -> gold answers for
        those that are as they were exported. Others are reported, each by its question, and so is
        what else the run holds otherwise than these rows. Empty where the data set cannot be used
        here.

        Args:
            data: The file of the rows.
            compared: What the run holds otherwise than these rows.

        Raises:
            UserError: The rows cannot be used.
            DataError: The rows cannot be read.
        """
        golds: dict[str, Gold] = {}
        config = self._dataset_config()
        if config is None:
            return golds
        config = config.model_copy(update={"data": with_home_expanded(data)})
        other_rows = set(compared.other_questions)
        for example in load_once(config, None).examples:
            question = example.question
            if question.id not in self.has_gold_by_question:
                continue
            gold = json_values(example.gold, not_finite=[])
            row_digest = question_digest(question.text, question.options, gold)
            if row_digest == self.entry.questions.get(question.id):
                golds[question.id] = example.gold
            else:
                other_rows.add(question.id)
        for question_id in sorted(other_rows):
            sentence = f"the row in {data} is not the one that was exported"
            self._report_question_difference("other texts", question_id, sentence)
        if other_rows:
            self._report_row_sentences(compared.differences)
        else:
            self._report_row_sentences(compared.sentences)
        return golds

    def _report_row_sentences(self, sentences: Sequence[str]) -> None:
        """Report what the run holds otherwise than the rows of its data set, a sentence each."""
        for sentence in sentences:
            self._report_run_difference("other texts", sentence)

    def _differences_from_index(self) -> Iterator[str]:
        """Yield a sentence for each of dataset, licence, fingerprint and scorers that bundle.json
        and the run's own files give differently."""
        dataset = self.run.config.dataset
        manifest = self.run.manifest
        values_of_run = {
            "dataset": dataset.name,
            "licence": dataset.licence,
            "fingerprint": manifest.dataset.fingerprint,
            "scorers": manifest.scorers,
        }
        for name, value in values_of_run.items():
            if getattr(self.entry, name) != value:
                yield f"{INDEX} names another {name} than the run does"

    def rescore_and_report(self, data: str | None) -> StoredRun:
        """Score the run's answers again, report where its scores and summary differ from that, and
        return the run with the rescored records, reduced to the numbers that a table needs. Also
        reports a finished run with too few questions, and as unchecked why a run stopped early.

        Args:
            data: The file of the data set's rows, with which questions and gold answers are
                compared; None for those of the data set where they are at hand.

        Raises:
            UserError: The rows cannot be used.
            DataError: The rows cannot be read.
        """
        summary = self.run.summary
        golds = self._report_other_texts_and_read_golds(data)
        records = self._rescore_records(golds)
        # This reads `records` to their end, which fills `rescored_numbers`.
        computed = summarise(records, self.run.index_lines, self.run.config)
        computed_numbers = flatten(computed.of_records())
        stored_numbers = flatten(summary.of_records())
        place = f"{self.place}/{SUMMARY}"
        interval_rule = summary.interval_rule
        if interval_rule != INTERVAL_RULE:
            _report_intervals_not_compared(place, interval_rule, self.report)
        _report_different_numbers(
            stored_numbers,
            computed_numbers,
            place,
            self.report,
            with_intervals=interval_rule == INTERVAL_RULE,
        )
        n_asked = summary.n_to_record
        n_recorded = computed.n_total or 0
        if summary.is_finished and n_asked > n_recorded:
            sentence = f"the run is called finished, with {n_recorded} of {n_asked} questions"
            self.report.differences.append(
                Difference("table", place, question=None, sentence=sentence)
            )
        if summary.stopped_early is not None or not summary.is_finished:
            self.report.unchecked.append(f"why {self.place} stopped early")
        return replace(self.run, records=self.rescored_numbers)

    def _rescore_records(self, golds: Mapping[str, Gold]) -> Iterator[StoredRecord]:
        """Yield the run's records with new scores, reporting scores that differ. A record without
        gold answers or a usable data set keeps the scores it has; a note counts those without gold
        answers. Also collects the numbers of each record in `self.rescored_numbers`.

        Args:
            golds: Question id -> gold answers that take the place of the record's own.
        """
        config = self._dataset_config()
        configured: Sequence[str] = ()
        if config is not None:
            configured = config.scorers
        scorer_names = self._usable_scorers(configured)  # also notes which cannot be used
        if config is not None:
            config = config.model_copy(update={"scorers": tuple(scorer_names)})
        for question, has_gold in self.has_gold_by_question.items():
            if not has_gold and question not in golds:
                self.n_without_gold += 1
        if self.n_without_gold:
            self._add_note(
                f"{self.n_without_gold} answers have no gold answers in the bundle; with the data set's "
                "rows: --data FILE"
            )
        for record in self.run.records:
            question = record.question_id
            gold = golds.get(question) or gold_of(record)
            if config is not None and gold is not None:
                record = self._rescore_record(record, config, gold)
            elif question in self.changed_answer_ids:  # where it is scored, that reports it
                sentence = "the answer is not the one that was exported"
                self._report_question_difference("other answers", question, sentence)
            self.rescored_numbers.append(reduced_to_numbers(record))
            yield record

    def _rescore_record(
        self, record: StoredRecord, config: DatasetConfig, gold: Gold
    ) -> StoredRecord:
        """Score a record again, report scores and notes that differ, and return it with the new
        scores. A record that cannot be scored is reported, and returned as it is.

        Args:
            record: The record.
            config: The data set, with the scorers to use.
            gold: The gold answers.
        """
        question = record.question_id
        # Without the judgements of scorers that judge again here.
        other_judgements = dict(record.judgements)
        for name in config.scorers:
            other_judgements.pop(name, None)
        record_to_score = replace(record, notes={**record.notes, JUDGES: other_judgements})
        try:
            rescored = score_record(record_to_score, config, gold)
        except STOPS:
            raise
        # Gold answers come from outside, so a scorer may fail in any way.
        except Exception as error:  # noqa: BLE001
            sentence = f"it cannot be scored ({type(error).__name__}: {error})"
            self._report_question_difference("other scoring", question, sentence)
            return record
        self.report.scores += len(config.scorers)
        sentences = _scoring_differences(record, rescored, config.scorers)
        if question in self.changed_answer_ids:
            sentences.insert(0, "the answer is not the one that was exported")
            self._report_question_difference("other answers", question, "; ".join(sentences))
        elif sentences:
            self._report_question_difference("other scoring", question, "; ".join(sentences))
        return replace(rescored, scores={**record.scores, **rescored.scores})

    def _dataset_config(self) -> DatasetConfig | None:
        """The settings of the run's data set; None where they cannot be used here. In that case it
        also notes that no score of the run is computed again."""
        try:
            return dataset_of_run(self.run.config, self.run.path.name)
        except UserError as error:
            self._report_scores_as_unchecked(sorted(self.recorded_score_names), str(error))
            return None

    def _usable_scorers(self, configured: Sequence[str]) -> list[str]:
        """Names of the scorers that can score the run's answers here: the configured ones first,
        then others that the run has scores of. Also notes why the remaining ones cannot (not
        installed, a judge's, another tool's), and which have another version here."""
        installed = set(scorers.names())
        judge_names = self.judge_score_names - installed
        stored_names = self.recorded_score_names | self.entry.scorers.keys()
        logged_names = {name for name in stored_names if name.startswith(LOGGED_SCORE_PREFIX)}
        candidates = dict.fromkeys([*configured, *sorted(stored_names - judge_names)])
        usable: list[str] = []
        for name in candidates:
            if name in logged_names:
                continue
            problem = _scorer_problem(name, installed)
            if problem is None:
                usable.append(name)
                self._note_other_version(name)
            else:
                self._report_scores_as_unchecked([name], problem)
        if judge_names:
            self._report_scores_as_unchecked(sorted(judge_names), "they are a model's")
        if logged_names:
            self._report_scores_as_unchecked(sorted(logged_names), "another tool gave them")
        return usable

    def _note_other_version(self, name: str) -> None:
        """Note it where a scorer has another version here than bundle.json says."""
        version_in_bundle = self.entry.scorers.get(name)
        version_here = scorers.version(name)
        if version_in_bundle is not None and str(version_in_bundle) != version_here:
            self.report.unchecked.append(f"the recorded version of {name}")
            self._add_note(
                f"'{name}' is version {version_here} here, and {version_in_bundle} in the bundle: "
                "scores may differ"
            )

    def _report_scores_as_unchecked(self, names: Sequence[str], why: str) -> None:
        """Report as unchecked the scores `names`, with a note that says why."""
        for name in names:
            self._add_unchecked_phrase(name)
        self._add_note(f"scores of {', '.join(map(repr, names))} are not computed again: {why}")

    def _add_unchecked_phrase(self, phrase: str) -> None:
        """Add a phrase to the report's list of what could not be checked, unless it is there
        already."""
        if phrase not in self.report.unchecked:
            self.report.unchecked.append(phrase)

    def _report_run_difference(self, kind: Kind, sentence: str) -> None:
        """Report a difference that is about the run as a whole."""
        self.report.differences.append(Difference(kind, self.place, None, sentence))

    def _report_question_difference(self, kind: Kind, question: str, sentence: str) -> None:
        """Report a difference about one question; question: its id."""
        self.report.differences.append(Difference(kind, self.place, question, sentence))

    def _add_note(self, sentence: str) -> None:
        """Add a note about the run, unless it is there already."""
        note = f"{self.place}: {sentence}"
        if note not in self.report.notes:
            self.report.notes.append(note)


def _scoring_notes(notes: Mapping[str, object], names: Sequence[str]) -> dict[str, object]:
    """The part of a record's notes that scoring wrote, reduced to some scorers.

        {"flags": {"f1": "...", "rouge": "..."}, "scored": "Rome", "other": 1}, ["f1"]
            -> {"flags": {"f1": "..."}, "scored": "Rome", ...}

    Each key of SCORING_NOTES is there, with {} where the record has no such note. A note that is
    no mapping is not of single scorers, and stays whole.
    """
    reduced_notes: dict[str, object] = {}
    for key in SCORING_NOTES:
        value = notes.get(key) or {}
        if isinstance(value, dict):
            value = {name: value[name] for name in names if name in value}
        reduced_notes[key] = value
    return reduced_notes


def _scoring_differences(
    stored: StoredRecord, rescored: StoredRecord, scorer_names: Sequence[str]
) -> list[str]:
    """Sentences on the scores and notes of a record that differ between the bundle and scoring it
    here.

    Args:
        stored: The record of the bundle.
        rescored: The same, scored again.
        scorer_names: The scorers.
    """
    sentences: list[str] = []
    for name in scorer_names:
        stored_score = stored.scores.get(name)
        computed_score = rescored.scores.get(name)
        if not _is_same(stored_score, computed_score):
            sentences.append(
                f"{name} is {_short_text(stored_score)} in the bundle, and "
                f"{_short_text(computed_score)} computed again"
            )
    stored_notes = _scoring_notes(stored.notes, scorer_names)
    rescored_notes = _scoring_notes(json_values(rescored.notes, not_finite=[]), scorer_names)
    for key, note in rescored_notes.items():
        if note != stored_notes[key]:
            sentences.append(f"notes.{key} is not what scoring gives")
    return sentences


def _scorer_problem(name: str, installed: Container[str]) -> str | None:
    """A sentence that says why a scorer cannot be used here; None where it can.

    Args:
        name: The scorer, also "module:function".
        installed: Names of the scorers of this installation.
    """
    if name in installed:
        problems = scorers.problems([name])
        return next(iter(problems), None)
    if ":" in name:
        return "it is code of its author's, which is not imported"
    return "it is not known to this installation"


def _is_same(a: object, b: object) -> bool:
    """Whether two values are the same: numbers up to rounding, a bool, a text or None exactly."""
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return bool(a == b)
    return math.isclose(a, b, rel_tol=_ROUNDING_TOLERANCE, abs_tol=_ROUNDING_TOLERANCE)


def _short_text(value: object) -> str:
    """A value as a sentence shows it: None -> "missing", 0.123456789 -> "0.123457"; else at most 80
    characters of its text."""
    if value is None:
        return "missing"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)[:80]


def _report_intervals_not_compared(place: str, rule: object, report: Report) -> None:
    """Report that the intervals at one place are not compared, as another rule made them: a phrase
    of what is unchecked, and a note. Also sets `report.intervals` to False.

    Args:
        place: The table or summary that they stand in.
        rule: The rule by which they were made, which is not this version's; None for one that was
            not recorded yet.
        report: Gets phrase and note.
    """
    age = "another"
    if rule in OLDER_RULES:
        age = "an older"
    report.intervals = False
    phrase = f"intervals of {age} rule"
    if phrase not in report.unchecked:
        report.unchecked.append(phrase)
    report.notes.append(
        f"{place}: its intervals are of {age} rule than this version's, so they are not compared; "
        "means are"
    )


def _report_different_numbers(
    stored: Mapping[str, object],
    computed: Mapping[str, object],
    place: str,
    report: Report,
    *,
    with_intervals: bool,
) -> None:
    """Compare numbers of the bundle with those computed again: report each that differs, and count
    in the report how many were compared. Two columns are left out for whose numbers the texts of
    the data set are needed.

    Args:
        stored: Numbers of the bundle, by name.
        computed: Those computed again, by name.
        place: The table or summary of the bundle that has them, to be named where one differs.
        report: Gets what differs.
        with_intervals: Whether the ends of intervals (names in .low and .high) are compared too.
    """
    for name in dict.fromkeys([*stored, *computed]):
        is_interval_end = name.endswith(_INTERVAL_END_SUFFIXES)
        if name in _COLUMNS_RESTING_ON_TEXTS or (is_interval_end and not with_intervals):
            continue
        stored_value = stored.get(name)
        computed_value = computed.get(name)
        report.numbers += 1
        if not _is_same(stored_value, computed_value):
            sentence = (
                f"{name} is {_short_text(stored_value)}, and {_short_text(computed_value)} "
                "computed again"
            )
            report.differences.append(Difference("table", place, question=None, sentence=sentence))


def _report_differences_from_own_run(bundle: Bundle, run: StoredRun, report: Report) -> None:
    """Compare a run of one's own with the bundle's run of the same data set and folder name: report
    answers and scores that differ (scores only where the answers are the same), and note questions
    that only one of them has, or that the bundle has no such run.

    Args:
        bundle: The bundle.
        run: The run of one's own.
        report: Gets what differs.
    """
    place = str(run.path)
    run_of_bundle = _run_of_same_name(bundle, run)
    if run_of_bundle is None:
        report.notes.append(
            f"{place}: the bundle has no run of this name, which covers settings, models and data"
        )
        return
    records = RecordsByQuestion(run_of_bundle.records)
    ids_only_in_bundle = records.keys() - {record.question_id for record in run.records}
    if ids_only_in_bundle:
        report.notes.append(f"{place}: {len(ids_only_in_bundle)} questions are in the bundle alone")
    for record in run.records:
        question = record.question_id
        if question not in records:
            report.notes.append(f"{place}: question '{question}' is not in the bundle")
            continue
        record_of_bundle = records[question]
        if answer_parts(record) != answer_parts(record_of_bundle):
            both_answers = (
                f"{record.prediction[:60]!r} here, "
                f"{record_of_bundle.prediction[:60]!r} in the bundle"
            )
            report.differences.append(
                Difference("other answers", place, question, sentence=both_answers)
            )
            continue
        score_differences = _own_score_differences(record, record_of_bundle)
        if score_differences:
            report.differences.append(
                Difference("other scoring", place, question, sentence=score_differences)
            )


def _run_of_same_name(bundle: Bundle, run: StoredRun) -> StoredRun | None:
    """The first run of the bundle with the data set and folder name of `run`; None where there is
    none."""
    for other in bundle.runs.values():
        same_dataset = other.config.dataset.name == run.config.dataset.name
        if same_dataset and other.path.name == run.path.name:
            return other
    return None


def _own_score_differences(record: StoredRecord, other: StoredRecord) -> str:
    """ "f1 is 0.5 here, 0.6 in it": the scores that two records of one question give differently; ""
    for none.

    Args:
        record: The record of one's own run.
        other: The record of the bundle.
    """
    sentences: list[str] = []
    for name, own_score in record.scores.items():
        if name in other.scores and not _is_same(own_score, other.scores[name]):
            score_in_bundle = _short_text(other.scores[name])
            sentences.append(f"{name} is {_short_text(own_score)} here, {score_in_bundle} in it")
    return "; ".join(sentences)
