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

from harness import datasets, scorers
from harness.config.schema import DatasetConfig
from harness.config.yaml_tree import dataset_of_run, flatten
from harness.engine.scoring import SCORING_NOTES, score_record
from harness.errors import UserError
from harness.stats import INTERVAL_RULE, OLDER_RULES
from harness.storage.failures import STOPS
from harness.storage.manifest_file import Import
from harness.storage.paths import expanded
from harness.storage.record_texts import gold_of
from harness.storage.records import StoredRecord
from harness.storage.run_files import SUMMARY
from harness.storage.run_folder import RecordsByQuestion, StoredRun, numbers_of
from harness.storage.run_summary import summarise
from harness.storage.serialize import json_values
from harness.storage.summary_file import RunSummary
from harness.types import JUDGES, LOGGED, Gold
from harness_audit.bundle import (
    INDEX,
    Bundle,
    RunEntry,
    answer_digest,
    answer_parts,
    open_bundle,
    question_digest,
    table,
    texts_digest,
)
from reports.consistency import misfits, unchecked
from reports.copies import reproductions
from reports.differences import size_differences
from reports.examined import examine
from reports.gold_rows import data_misfits, known_golds

Kind = Literal["file", "other answers", "other texts", "other scoring", "table", "does not fit"]
NEVER_CHECKED = (
    "that a model gave the answers, by these settings",
    "dates",
    "seconds",
    "prices",
    "packages, code and machine",
    "sizes of models",
    "sources of rows and weights",
)
"""What no bundle can prove, whatever it holds."""
_ENDS = (".low", ".high")  # of the names of an interval's ends
_RESTS_ON_TEXTS = ("apart", "asked_otherwise")  # whether a run is ranked
_SAME = 1e-9


@dataclass(frozen=True)
class Difference:
    """A difference that a check found.

    Args:
        kind: Of difference.
        place: A file or run of the bundle.
        question: Its id, if it is about one.
        sentence: What differs.
    """

    kind: Kind
    place: str
    question: str | None
    sentence: str

    def __str__(self) -> str:
        where = self.place
        if self.question is not None:
            where = f"{self.place}, question '{self.question}'"
        return f"{self.kind}: {where}: {self.sentence}"


@dataclass
class Report:
    """What a check found.

    Args:
        sha256: Of bundle.json.
        runs: How many were checked.
        answers: How many were checked.
        scores: How many were computed again.
        numbers: How many were computed again.
        files: How many had the checksum of their export.
        intervals: Whether they were compared.
        differences: What differs.
        unchecked: What could not be checked or computed again, by name.
        notes: Why, in sentences.
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
        """The last line: what was computed again, and what was not checked."""
        count = len(self.differences)
        if count == 1:
            return "NOT consistent: 1 difference"
        if count:
            return f"NOT consistent: {count} differences"
        again = f"{self.scores} scores, {self.numbers} numbers, {self.files} checksums"
        not_checked = ", ".join([*self.unchecked, *NEVER_CHECKED])
        return f"consistent; computed again: {again}; not checked: {not_checked}"


def verify(path: Path, *, data: str | None = None, against: Sequence[StoredRun] = ()) -> Report:
    """Check a bundle.

    Args:
        path: The bundle.
        data: The file of the data set's rows, with which questions and gold answers are compared,
            also where a bundle has hashes in their place.
        against: Runs of one's own with the same settings, whose answers and scores are compared
            with the bundle's.

    Raises:
        DataError: It is no bundle, or must not be read.
        UserError: The rows cannot be used.
    """
    with open_bundle(path) as bundle:
        report = Report(bundle.sha256, runs=len(bundle.runs))
        report.files = len(bundle.index.files) - len(bundle.changed)
        rule = bundle.index.interval_rule
        if rule != INTERVAL_RULE:
            _leave_out_intervals(f"the table of {INDEX}", rule, report)
        for name in bundle.changed:
            sentence = "it is not as it was exported (checksum)"
            report.differences.append(Difference("file", name, None, sentence))
        rescored: list[StoredRun] = []
        checks: list[_RunCheck] = []
        for place, run in bundle.runs.items():
            # Digests of 100,000 answers take 40 MB, so they go before the table.
            entry = bundle.index.runs.pop(place)
            check = _RunCheck(place, run, entry, report)
            checks.append(check)
            rescored.append(check.rescored(data))
        stored = _rows_by_run(bundle.index.table)
        here = _rows_by_run(table(rescored))
        with_intervals = rule == INTERVAL_RULE
        for key in dict.fromkeys([*stored, *here]):
            _compare_numbers(
                stored.get(key, {}),
                here.get(key, {}),
                f"{key.dataset}, {key.run}",
                report,
                with_intervals=with_intervals,
            )
        for check, other in combinations(checks, 2):
            _compare_pair(check, other, report)
        _note_reproductions(bundle, report)
        for run in against:
            _compare_own_run(bundle, run, report)
        return report


@dataclass(frozen=True)
class _TableKey:
    """What tells the rows of a table apart.

    Args:
        dataset: The data set.
        run: The run.
        number: From 1 on, of the rows of a run that was made several times.
    """

    dataset: str
    run: str
    number: int


def _rows_by_run(rows: Sequence[Mapping[str, object]]) -> dict[_TableKey, Mapping[str, object]]:
    """The rows of a table by their run."""
    found: dict[_TableKey, Mapping[str, object]] = {}
    for row in rows:
        key = _TableKey(str(row.get("dataset")), str(row.get("run")), 1)
        while key in found:
            key = replace(key, number=key.number + 1)
        found[key] = row
    return found


def _compare_pair(check: "_RunCheck", other: "_RunCheck", report: Report) -> None:
    """Compare two runs of a bundle: answers of one cost, which no second run has, and sizes of one
    model."""
    sentences = []
    copied = check.found.copied(other.found)
    if copied:
        sentences.append(
            f"{copied} of its answers have the costs of those of {other.place}, seconds included"
        )
    sentences += [
        f"other sizes of the same weights than in {other.place} ({one})"
        for one in size_differences(check.run, other.run)
    ]
    for sentence in sentences:
        report.differences.append(Difference("does not fit", check.place, None, sentence))


def _note_reproductions(bundle: Bundle, report: Report) -> None:
    """Say which runs of the bundle are one run made again, and how many answers are alike."""
    sentences = reproductions(list(bundle.runs.values()), list(bundle.runs))
    report.notes += filter(None, sentences)


class _RunCheck:
    """Checks answers and scores of one run of a bundle."""

    def __init__(self, place: str, run: StoredRun, entry: RunEntry, report: Report) -> None:
        """Compare the answers of the run with the digests of bundle.json.

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
        self.questions: dict[str, bool] = {}  # id -> whether its record has gold answers
        self.others: set[str] = set()  # questions whose answers are not the exported ones
        self.scored: set[str] = set()  # names of scores
        self.judged: set[str] = set()  # names of scores that models gave
        self.numbers: list[StoredRecord] = []  # what a table counts of the rescored records
        other_texts: list[str] = []
        for record in run.records:
            question = record.question_id
            self.questions[question] = record.gold is not None
            self.scored.update(record.scores)
            self.judged.update(record.judgements)
            if answer_digest(record) != entry.answers.get(question):
                self.others.add(question)
            if texts_digest(record) != entry.questions.get(question):
                other_texts.append(question)
        report.answers += len(self.questions)
        if run.manifest.imported:
            self._note_import(run.manifest.imported)
        self._check_consistency()
        for question in sorted(entry.answers.keys() - self.questions.keys()):
            self._differs("other answers", question, "its record is missing")
        for note in run.notes:
            self._run_differs("other texts", note)
        if run.manifest.scorers != entry.scorers:
            sentence = "versions of scorers in manifest.json are not those of bundle.json"
            self._run_differs("table", sentence)
        for question in other_texts:
            sentence = "its question or gold answers are not those that were exported"
            self._differs("other texts", question, sentence)

    def _note_import(self, imported: Import) -> None:
        """Say that the files of another tool are not at hand; imported: what the manifest says of
        them."""
        named = [f"{file.name} (sha256 {file.sha256[:12]})" for file in imported.files]
        files = ", ".join(named)
        self.report.unchecked.append(f"that {self.place} holds what {files} says")
        self._note(
            f"imported from {imported.tool}; whether its answers and costs are those of {files} "
            "is open"
        )

    def _check_consistency(self) -> None:
        """Compare records, settings, hash and times with each other, and files with their run's
        end."""
        # The files of a bundle are written anew: what they were at the export is in its index, and
        # the numbers of the summary are computed again below.
        stated = self.run.summary
        summary = RunSummary(
            n_asked=stated.n_asked, n_left_out=stated.n_left_out, edited=stated.edited
        )
        run = replace(self.run, summary=summary)
        self.found = found = examine(self.run)
        sentences = misfits(run, found)
        sentences += self._entry_misfits()
        sentences += self.entry.misfits or ()
        changed = self.entry.changed
        if changed:
            sentences.append(f"{', '.join(changed)} had been changed when the run was exported")
        for sentence in sentences:
            self._run_differs("does not fit", sentence)
        for phrase in unchecked(run, found):
            if "files" not in phrase and "gold" not in phrase:
                self._add_once(phrase)
        if changed is None and run.manifest.imported is None:
            self._add_once("whether the files are as the run left them")

    def _compare_and_read_golds(self, data: str | None) -> dict[str, Gold]:
        """Compare the bundle's texts with the data set's rows, and take the gold answers of these.

        Args:
            data: The file of the rows; None for those of the data set where they are at hand, of
                which gold answers are taken only for a bundle that has none.

        Returns:
            Question id -> gold answers, of questions that are as they were exported.

        Raises:
            UserError: The rows cannot be used.
            DataError: The rows cannot be read.
        """
        if data is not None:
            return self._golds_of_file(data)
        self._compare_with_known_rows()
        if any(self.questions.values()):
            return {}
        return known_golds(self.run) or {}

    def _golds_of_file(self, data: str) -> dict[str, Gold]:
        """Question id -> gold answers of the rows in the file `data`; reports rows that are not
        those that were exported. Raises UserError, DataError."""
        golds: dict[str, Gold] = {}
        config = self._dataset_config()
        if config is None:
            return golds
        config = config.model_copy(update={"data": expanded(data)})
        for example in datasets.load(config, None).examples:
            question = example.question
            if question.id not in self.questions:
                continue
            gold = json_values(example.gold, lost=[])
            here = question_digest(question.text, question.options, gold)
            if here == self.entry.questions.get(question.id):
                golds[question.id] = example.gold
            else:
                sentence = f"the row in {data} is not the one that was exported"
                self._differs("other texts", question.id, sentence)
        return golds

    def _compare_with_known_rows(self) -> None:
        """Compare questions, gold answers and passages with the data set's rows where these are at
        hand without --data."""
        sentences: list[str] | None = []
        if any(self.questions.values()):
            sentences = data_misfits(self.run)
        if sentences is None:
            self._add_once("gold answers")
            self._note(
                "gold answers are the bundle's own; to compare them with the data set's rows: "
                "--data FILE"
            )
        for sentence in sentences or ():
            self._run_differs("other texts", sentence)

    def _entry_misfits(self) -> Iterator[str]:
        """What bundle.json says of the run's rows otherwise than the run's own files."""
        dataset = self.run.config.dataset
        manifest = self.run.manifest
        own = {
            "dataset": dataset.name,
            "licence": dataset.licence,
            "fingerprint": manifest.dataset.fingerprint,
            "scorers": manifest.scorers,
        }
        for name, value in own.items():
            if getattr(self.entry, name) != value:
                yield f"{INDEX} names another {name} than the run does"

    def rescored(self, data: str | None) -> StoredRun:
        """Score the run's answers again and check its summary; returns the run with the rescored
        records."""
        summary = self.run.summary
        records = self._rescored_records(self._compare_and_read_golds(data))
        fresh = summarise(records, self.run.documents, self.run.config)
        here = flatten(fresh.of_records())
        stored = flatten(summary.of_records())
        place = f"{self.place}/{SUMMARY}"
        rule = summary.interval_rule
        if rule != INTERVAL_RULE:
            _leave_out_intervals(place, rule, self.report)
        _compare_numbers(stored, here, place, self.report, with_intervals=rule == INTERVAL_RULE)
        asked = summary.n_to_record
        recorded = fresh.n_total or 0
        if summary.is_finished and asked > recorded:
            sentence = f"the run is called finished, with {recorded} of {asked} questions"
            self.report.differences.append(Difference("table", place, None, sentence))
        if summary.stopped_early is not None or not summary.is_finished:
            self.report.unchecked.append(f"why {self.place} stopped early")
        return replace(self.run, records=self.numbers)

    def _rescored_records(self, golds: Mapping[str, Gold]) -> Iterator[StoredRecord]:
        """Yield the records with new scores; one that cannot be scored keeps its scores, with a
        note."""
        config = self._dataset_config()
        configured: Sequence[str] = ()
        if config is not None:
            configured = config.scorers
        names = self._usable_scorers(configured)
        if config is not None:
            config = config.model_copy(update={"scorers": tuple(names)})
        lacking = 0
        for question, has_gold in self.questions.items():
            lacking += not has_gold and question not in golds
        if lacking:
            self.report.unchecked.append(f"{lacking} answers without gold answers")
            self._note(
                f"{lacking} answers have no gold answers in the bundle; with the data set's rows: "
                "--data FILE"
            )
        for record in self.run.records:
            question = record.question_id
            gold = golds.get(question) or gold_of(record)
            if config is not None and gold is not None:
                record = self._rescore(record, config, gold)
            elif question in self.others:
                sentence = "the answer is not the one that was exported"
                self._differs("other answers", question, sentence)
            self.numbers.append(numbers_of(record))
            yield record

    def _rescore(self, record: StoredRecord, config: DatasetConfig, gold: Gold) -> StoredRecord:
        """Score a record again, report scores and notes that differ, and return it with the new
        scores.

        Args:
            record: The record.
            config: The data set, with the scorers to use.
            gold: The gold answers.
        """
        question = record.question_id
        judges = dict(record.judgements)
        for name in config.scorers:
            judges.pop(name, None)
        judged = replace(record, notes={**record.notes, JUDGES: judges})
        try:
            fresh = score_record(judged, config, gold)
        except STOPS:
            raise
        # Whatever a scorer does with gold answers from outside.
        except Exception as error:  # noqa: BLE001
            sentence = f"it cannot be scored ({type(error).__name__}: {error})"
            self._differs("other scoring", question, sentence)
            return record
        self.report.scores += len(config.scorers)
        sentences = _scoring_differences(record, fresh, config.scorers)
        if question in self.others:
            sentences.insert(0, "the answer is not the one that was exported")
            self._differs("other answers", question, "; ".join(sentences))
        elif sentences:
            self._differs("other scoring", question, "; ".join(sentences))
        return replace(fresh, scores={**record.scores, **fresh.scores})

    def _dataset_config(self) -> DatasetConfig | None:
        """The run's data set; None, with a note that nothing is scored again, where it cannot be
        used here."""
        try:
            return dataset_of_run(self.run.config, self.run.path.name)
        except UserError as error:
            self._add_unchecked(sorted(self.scored), str(error))
            return None

    def _usable_scorers(self, configured: Sequence[str]) -> list[str]:
        """Names of the run's scorers that work here; notes why others do not, and which have
        another version."""
        installed = set(scorers.names())
        judged = self.judged - installed
        held = self.scored | self.entry.scorers.keys()
        logged = {name for name in held if name.startswith(LOGGED)}
        names = dict.fromkeys([*configured, *sorted(held - judged)])
        usable: list[str] = []
        for name in names:
            if name in logged:
                continue
            problem = _scorer_problem(name, installed)
            if problem is None:
                usable.append(name)
                self._compare_version(name)
            else:
                self._add_unchecked([name], problem)
        if judged:
            self._add_unchecked(sorted(judged), "they are a model's")
        if logged:
            self._add_unchecked(sorted(logged), "another tool gave them")
        return usable

    def _compare_version(self, name: str) -> None:
        """Note where a scorer has another version here than in the bundle."""
        before = self.entry.scorers.get(name)
        here = scorers.version(name)
        if before is not None and str(before) != here:
            self.report.unchecked.append(f"the recorded version of {name}")
            self._note(
                f"'{name}' is version {here} here, and {before} in the bundle: scores may differ"
            )

    def _add_unchecked(self, names: Sequence[str], why: str) -> None:
        """Say that the scores `names` are not computed again, and why."""
        for name in names:
            self._add_once(name)
        self._note(f"scores of {', '.join(map(repr, names))} are not computed again: {why}")

    def _add_once(self, phrase: str) -> None:
        """Add what could not be checked, unless it is said already."""
        if phrase not in self.report.unchecked:
            self.report.unchecked.append(phrase)

    def _run_differs(self, kind: Kind, sentence: str) -> None:
        """Report a difference of the run as a whole."""
        self.report.differences.append(Difference(kind, self.place, None, sentence))

    def _differs(self, kind: Kind, question: str, sentence: str) -> None:
        """Report a difference about the question of that id."""
        self.report.differences.append(Difference(kind, self.place, question, sentence))

    def _note(self, sentence: str) -> None:
        """Add a note about the run, unless it is there already."""
        note = f"{self.place}: {sentence}"
        if note not in self.report.notes:
            self.report.notes.append(note)


def _notes_of(notes: Mapping[str, object], names: Sequence[str]) -> dict[str, object]:
    """The notes of these scorers in a record: flags, counts for corpus scores, the text that was
    scored."""
    of_scorers: dict[str, object] = {}
    for key in SCORING_NOTES:
        value = notes.get(key) or {}
        if isinstance(value, dict):
            value = {name: value[name] for name in names if name in value}
        of_scorers[key] = value
    return of_scorers


def _scoring_differences(
    stored: StoredRecord, fresh: StoredRecord, names: Sequence[str]
) -> list[str]:
    """Sentences on scores and notes that differ.

    Args:
        stored: The record of the bundle.
        fresh: The same, scored again.
        names: The scorers.
    """
    sentences: list[str] = []
    for name in names:
        before = stored.scores.get(name)
        here = fresh.scores.get(name)
        if not _is_same(before, here):
            sentences.append(
                f"{name} is {_text(before)} in the bundle, and {_text(here)} computed again"
            )
    stored_notes = _notes_of(stored.notes, names)
    for key, note in _notes_of(json_values(fresh.notes, lost=[]), names).items():
        if note != stored_notes[key]:
            sentences.append(f"notes.{key} is not what scoring gives")
    return sentences


def _scorer_problem(name: str, installed: Container[str]) -> str | None:
    """Why a scorer cannot be used here; None where it can."""
    if name in installed:
        return next(iter(scorers.problems([name])), None)
    if ":" in name:
        return "it is code of its author's, which is not imported"
    return "it is not known to this installation"


def _is_same(a: object, b: object) -> bool:
    """Whether two values are the same: numbers up to rounding, a bool, a text or None exactly."""
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return bool(a == b)
    return math.isclose(a, b, rel_tol=_SAME, abs_tol=_SAME)


def _text(value: object) -> str:
    """A value as a sentence shows it."""
    if value is None:
        return "missing"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)[:80]


def _leave_out_intervals(place: str, rule: object, report: Report) -> None:
    """Say that intervals are not compared.

    Args:
        place: Where they stand.
        rule: The rule by which they were made, which is not this version's; None for one that was
            not recorded yet.
        report: Gets what is said.
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


def _compare_numbers(
    stored: Mapping[str, object],
    here: Mapping[str, object],
    place: str,
    report: Report,
    *,
    with_intervals: bool,
) -> None:
    """Compare numbers of the bundle with those computed again.

    Args:
        stored: Numbers of the bundle, by name.
        here: Those computed again, by name.
        place: Where the bundle has them, for what is said.
        report: Gets what differs.
        with_intervals: Whether the ends of intervals were made by this version's rule.
    """
    for name in dict.fromkeys([*stored, *here]):
        if name in _RESTS_ON_TEXTS or (name.endswith(_ENDS) and not with_intervals):
            continue
        before = stored.get(name)
        after = here.get(name)
        report.numbers += 1
        if not _is_same(before, after):
            sentence = f"{name} is {_text(before)}, and {_text(after)} computed again"
            report.differences.append(Difference("table", place, None, sentence))


def _compare_own_run(bundle: Bundle, run: StoredRun, report: Report) -> None:
    """Compare a run of one's own with the bundle's of the same data set and folder name.

    Args:
        bundle: The bundle.
        run: The run of one's own.
        report: Gets what differs.
    """
    place = str(run.path)
    theirs = _run_of_same_name(bundle, run)
    if theirs is None:
        report.notes.append(
            f"{place}: the bundle has no run of this name, which covers settings, models and data"
        )
        return
    records = RecordsByQuestion(theirs.records)
    missing = records.keys() - {record.question_id for record in run.records}
    if missing:
        report.notes.append(f"{place}: {len(missing)} questions are in the bundle alone")
    for record in run.records:
        question = record.question_id
        if question not in records:
            report.notes.append(f"{place}: question '{question}' is not in the bundle")
            continue
        other = records[question]
        if answer_parts(record) != answer_parts(other):
            answers = f"{record.prediction[:60]!r} here, {other.prediction[:60]!r} in the bundle"
            report.differences.append(Difference("other answers", place, question, answers))
            continue
        sentence = _own_score_differences(record, other)
        if sentence:
            report.differences.append(Difference("other scoring", place, question, sentence))


def _run_of_same_name(bundle: Bundle, run: StoredRun) -> StoredRun | None:
    """The first run of the bundle with the same data set and folder name."""
    for other in bundle.runs.values():
        same_dataset = other.config.dataset.name == run.config.dataset.name
        if same_dataset and other.path.name == run.path.name:
            return other
    return None


def _own_score_differences(record: StoredRecord, other: StoredRecord) -> str:
    """ "f1 is 0.5 here, 0.6 in it": the scores of a record that the bundle's gives otherwise."""
    sentences: list[str] = []
    for name, here in record.scores.items():
        if name in other.scores and not _is_same(here, other.scores[name]):
            there = _text(other.scores[name])
            sentences.append(f"{name} is {_text(here)} here, {there} in it")
    return "; ".join(sentences)
