"""What runs have answered so far, read from their folders as these are written, on this machine or
on others.

    live = LiveRuns(["results"])
    live.read_state()     -> LiveState(answered=42, version="3 1", note="3 runs, 1 running",
                                  rows=[...], failed=[...], newest=[...])

A folder is read again once a file in it has changed, a large one less often. Nothing is locked or
written; a run that was killed still says "running", and the time since its last answer tells.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from harness.cost.units import duration_text, short_count
from harness.errors import UserError
from harness.stats.bootstrap import interval, with_interval
from harness.storage.manifest_file import RunManifest
from harness.storage.records import IndexLine, StoredRecord, read_index_lines, read_records
from harness.storage.run_files import (
    DOCUMENTS,
    MANIFEST,
    RECORDS,
    RUN,
    SUMMARY,
    part_folders,
    read_manifest,
    read_summary,
)
from harness.storage.run_folder import StoredRun, find_runs, read_run, reduced_to_numbers, run_yaml
from reports import facts
from reports.compressed_json import cut_text
from reports.costs import phase_costs, question_tflops
from reports.number_formats import points_of_100, with_noun
from reports.settings import run_labels

_FOLDER_SEARCH_SECONDS = 10.0
"""Seconds between two searches for new run folders, which walk the whole tree."""
_FREE_READING_SECONDS = 0.1
"""Seconds that a reading may take."""
_PAUSE_FACTOR = 20
"""Of what a reading takes beyond that, until the next one."""
_QUESTIONS_PER_LIST = 20
"""Questions of each list."""
_MAX_TEXT_CHARACTERS = 300
"""Characters of a question or an answer."""
_WATCHED_FILES = (RECORDS, DOCUMENTS, RUN, MANIFEST, SUMMARY)
_UNKNOWN = "–"


@dataclass(frozen=True)
class LiveState:
    """What all runs have answered so far.

    Args:
        answered: The number of questions with a record.
        version: Changes when a run is added, begins or ends: "3 1" for 3 runs of which 1 goes on.
        note: A sentence on the runs, and one on each that cannot be read.
        rows: A row a run, column -> text.
        failed: The newest questions that failed, column -> text.
        newest: The newest questions that were answered, column -> text.
    """

    answered: int
    version: str
    note: str
    rows: list[dict[str, str]]
    failed: list[dict[str, str]]
    newest: list[dict[str, str]]


class LiveRuns:
    """Follows the runs at or below folders while they go on."""

    def __init__(self, folders: Sequence[str]) -> None:
        """Find the run folders; none is read yet.

        Args:
            folders: Run folders, or folders that hold runs.

        Raises:
            UserError: A folder is not there.
        """
        self._roots = list(map(Path, folders))
        self._runs: dict[Path, _FollowedRun] = {}
        self._find_runs()

    def _find_runs(self) -> None:
        """Look for run folders again, and follow those that are there now.

        What was read of a folder before is not lost; a folder that has gone is no longer followed.
        """
        runs_by_folder = {}
        for root in self._roots:
            for folder in find_runs(root):
                runs_by_folder[folder] = self._runs.get(folder) or _FollowedRun(folder)
        self._runs = runs_by_folder
        self._last_search = time.monotonic()

    def read_state(self) -> LiveState:
        """Read what is new in the folders, and return what all runs have answered so far.

        Every 10 seconds it also looks for new run folders.
        """
        if time.monotonic() - self._last_search > _FOLDER_SEARCH_SECONDS:
            self._find_runs()
        sentences = []
        for run in self._runs.values():
            run.read()
            if run.problem:
                sentences.append(run.problem)
        runs = self._described_runs()
        n_running = sum(1 for run in runs if run.state == "running")
        return LiveState(
            answered=sum(len(run.answers) for run in runs),
            version=f"{len(runs)} {n_running}",
            note=". ".join([_runs_in_words(len(runs), n_running), *sentences]),
            rows=_without_constant_columns([run.row() for run in runs]),
            failed=_newest_questions(runs, failed=True),
            newest=_newest_questions(runs, failed=False),
        )

    def _described_runs(self) -> list[_FollowedRun]:
        """The runs whose settings are known; running ones first, then the last changed.

        Also gives all of them new labels when one of them has none yet: a new run may differ from
        others in settings that their labels have to name from now on.
        """
        runs = [run for run in self._runs.values() if run.is_described]
        runs.sort(key=_running_first)
        all_are_labelled = all(run.label for run in runs)
        if not all_are_labelled:
            labels = run_labels([run.stored for run in runs])
            for run, label in zip(runs, labels, strict=True):
                run.label = label
        return runs

    def read_runs_with_answers(self) -> list[StoredRun]:
        """The runs that have an answer, read again from their folders; damaged ones are left out.

        `read_state` names the damaged ones.
        """
        runs = []
        for folder in self._runs:
            with contextlib.suppress(UserError):
                run = read_run(folder)
                if run.records:
                    runs.append(run)
        return runs


def _running_first(run: _FollowedRun) -> tuple[bool, float]:
    """A sort key: runs that are running come first, then those that were changed last."""
    return run.state != "running", -run.changed


def _runs_in_words(n_runs: int, n_running: int) -> str:
    """How many runs there are and how many go on: "3 runs, 1 running"; "No run here yet." for
    none."""
    if not n_runs:
        return "No run here yet."
    return f"{with_noun(n_runs, 'run')}, {n_running} running"


def _without_constant_columns(rows: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """The rows without columns that say nothing: "model" where all have one, "indexes" where all
    have none. The rows that are given stay as they are."""
    models = {row["model"] for row in rows}
    index_counts = {row["indexes"] for row in rows}
    constant_columns = set()
    if len(models) == 1:
        constant_columns.add("model")
    if index_counts == {"0"}:
        constant_columns.add("indexes")
    shown_rows = []
    for row in rows:
        shown = {name: text for name, text in row.items() if name not in constant_columns}
        shown_rows.append(shown)
    return shown_rows


class _FileStamp(NamedTuple):
    """What tells that a file has changed: one of these differs then."""

    inode: int
    changed_ns: int
    size: int


class _Arrival(NamedTuple):
    """When an answer arrived, to sort by.

    Attributes:
        written: When its file was written, in seconds since the epoch.
        number: Grows with each record that is read.
    """

    written: float
    number: int


_NOT_ARRIVED = _Arrival(0.0, 0)


@dataclass
class _RecordedAnswer:
    """What scores, costs and lists need of a record.

    Args:
        record: The record with scores, costs and error, and without texts and steps.
        texts: Its "id", "question", "gold" answers and "answer", cut.
        arrived: When it arrived.
    """

    record: StoredRecord
    texts: dict[str, str]
    arrived: _Arrival = _NOT_ARRIVED

    @property
    def failed(self) -> bool:
        """Whether the question failed."""
        return self.record.error is not None

    def is_same(self, other: _RecordedAnswer) -> bool:
        """Whether another reading of the record has the same error and scores."""
        own_record = self.record
        other_record = other.record
        return own_record.error == other_record.error and own_record.scores == other_record.scores


@dataclass(frozen=True)
class _RowNumbers:
    """What a question scored and cost so far, as texts."""

    score: str = _UNKNOWN
    tokens: str = _UNKNOWN
    tflops: str = _UNKNOWN


class _FollowedRun:
    """One run folder as last read.

    Attributes:
        stored: The run; set once run.yaml could be read.
        folder: Its folder.
        label: Its name in tables.
        problem: Why reading failed; "" where it did not.
        state: "running", "finished", ...
        answers: By question id.
        changed: When the last answer was written, in seconds since the epoch.
        is_described: Whether `stored` is set.
    """

    stored: StoredRun

    def __init__(self, folder: Path) -> None:
        """Start with nothing read of the folder."""
        self.folder = folder
        self.label = ""
        self.problem = ""
        self.state = ""
        self.answers: dict[str, _RecordedAnswer] = {}
        self.changed = 0.0
        self.is_described = False
        self._indexes: list[IndexLine] = []
        self._stamps: dict[Path, _FileStamp] = {}  # of the files as last read
        self._next_reading = 0.0  # when the files may be read again, by time.monotonic()
        self._arrival_numbers = itertools.count()
        self._numbers = _RowNumbers()
        self._followed_since = time.time()
        self._answered_at_first: int | None = None  # number of answers at the first reading

    def read(self) -> None:
        """Read what is new in the folder into this object; for a damaged file, `problem` is set."""
        try:
            self._read_changes()
        except (UserError, OSError) as error:
            self.problem = f"{self.folder}: {error}"
        if self._answered_at_first is None:
            self._answered_at_first = len(self.answers)

    def _read_changes(self) -> None:
        """Read all files again where one of them has changed, and set when the next reading is due.

        Nothing is read before that time: the pause after a reading is 20 times the seconds that it
        took beyond 0.1 s.

        Raises:
            UserError: A file is damaged.
            OSError: A file cannot be read.
        """
        folders = [self.folder, *part_folders(self.folder)]  # with parts that are not merged yet
        stamps = _file_stamps(folders)
        start = time.monotonic()
        if stamps == self._stamps or start < self._next_reading:
            return
        self.changed = _last_written(stamps)
        self._read_records(folders)
        self._read_documents(folders)
        self._set_state([read_manifest(folder) for folder in folders])
        self._stamps = stamps
        self.problem = ""
        excess_seconds = time.monotonic() - start - _FREE_READING_SECONDS
        self._next_reading = start + _PAUSE_FACTOR * max(0.0, excess_seconds)

    def _read_records(self, folders: Sequence[Path]) -> None:
        """Set `answers` from the records of the run's folders.

        An answer that was read before keeps its time: a run that ends is sorted, so its records are
        read again although nothing has arrived.
        """
        answers: dict[str, _RecordedAnswer] = {}
        for folder in folders:
            for record in read_records(folder / RECORDS):
                answers[record.question_id] = _recorded_answer(record)
        for question_id, answer in answers.items():
            earlier = self.answers.get(question_id)
            if earlier is not None and earlier.is_same(answer):
                answer.arrived = earlier.arrived
            else:
                answer.arrived = _Arrival(self.changed, next(self._arrival_numbers))
        self.answers = answers

    def _read_documents(self, folders: Sequence[Path]) -> None:
        """Set `_indexes` from the lines of the run's folders; of each index, the last line
        counts."""
        lines_by_index = {}
        for folder in folders:
            for line in read_index_lines(folder):
                lines_by_index[line.owner] = line
        self._indexes = list(lines_by_index.values())

    def _set_state(self, manifests: Sequence[RunManifest]) -> None:
        """Set `stored`, `state`, `is_described` and the numbers of the row from files and answers.

        Args:
            manifests: The manifests of the run's folder and of its parts that are not merged yet.
        """
        settings = run_yaml(self.folder)
        summary = read_summary(self.folder)
        self.state = "not started"
        if summary.has_values:
            self.state = summary.state
        if any(manifest.last_start.state == "running" for manifest in manifests):
            self.state = "running"
        written_manifests = [manifest for manifest in manifests if manifest.has_values]
        first_manifest = RunManifest()
        if written_manifests:
            first_manifest = written_manifests[0]
        self.stored = StoredRun(
            path=self.folder,
            config=settings.config,
            manifest=first_manifest,
            records=[answer.record for answer in self.answers.values()],
            index_lines=self._indexes,
            summary=summary,
            origins=settings.origins,
        )
        self.is_described = True
        self._numbers = _row_numbers(self.stored)

    def row(self) -> dict[str, str]:
        """The run's row of the table: column -> text, {"method": "bm25", "answered": "12 of 20", ...}."""
        last_answer = _UNKNOWN
        if self.answers:
            seconds_ago = max(0, round(time.time() - self.changed))
            last_answer = f"{duration_text(seconds_ago)} ago"
        n_asked = self._count_questions_asked() or "unknown"
        return {
            "method": self.label,
            "data set": self.stored.config.dataset.name,
            "score": self._numbers.score,
            "answered": f"{len(self.answers)} of {n_asked}",
            "failed": str(sum(1 for answer in self.answers.values() if answer.failed)),
            "time left": self._time_left(),
            "tokens": self._numbers.tokens,
            "tflops": self._numbers.tflops,
            "state": self.state,
            "last answer": last_answer,
            "indexes": str(len(self._indexes)),
            "model": facts.model_name(self.stored),
        }

    def _time_left(self) -> str:
        """The time left as text, by the pace of the answers; "–" where that is not known.

        The pace is that since the run began, or, for a run that was started more than once, since
        it was first looked at.
        """
        start = self._followed_since
        new_answers = len(self.answers) - (self._answered_at_first or 0)
        starts = self.stored.manifest.starts
        if len(starts) == 1 and starts[0].started:
            start = datetime.fromisoformat(starts[0].started).timestamp()
            new_answers = len(self.answers)
        remaining = self._count_questions_asked() - len(self.answers)
        pace_is_known = new_answers > 0
        if self.state != "running" or not remaining or not pace_is_known:
            return _UNKNOWN
        seconds = max(0.0, time.time() - start)
        return duration_text(round(seconds / new_answers * remaining))

    def _count_questions_asked(self) -> int:
        """How many questions the run was asked; 0 where its manifest does not say."""
        questions = self.stored.manifest.dataset.questions
        if not questions:
            return 0
        limit = self.stored.config.limit or questions
        return max(min(questions, limit), len(self.answers))


def _file_stamps(folders: Sequence[Path]) -> dict[Path, _FileStamp]:
    """The stamp of each file of the run folders that is there: inode, time of change, size."""
    stamps = {}
    for folder in folders:
        for name in _WATCHED_FILES:
            with contextlib.suppress(OSError):  # there is no file
                status = (folder / name).stat()
                stamp = _FileStamp(status.st_ino, status.st_mtime_ns, status.st_size)
                stamps[folder / name] = stamp
    return stamps


def _last_written(stamps: dict[Path, _FileStamp]) -> float:
    """When the records were last written, in seconds since the epoch; 0.0 where there are none."""
    last = 0.0
    for path, stamp in stamps.items():
        if path.name == RECORDS:
            last = max(last, stamp.changed_ns / 1e9)
    return last


def _recorded_answer(record: StoredRecord) -> _RecordedAnswer:
    """What scores, costs and lists need of a record; a failed one has its error as answer."""
    answer = record.prediction
    if record.error:
        answer = f"{record.error['type']}: {record.error['message']}"
    texts = {
        "id": record.question_id,
        "question": cut_text(record.question or record.question_id, _MAX_TEXT_CHARACTERS),
        "gold": cut_text(" | ".join(map(str, record.gold_answers)), _MAX_TEXT_CHARACTERS),
        "answer": cut_text(answer, _MAX_TEXT_CHARACTERS),
    }
    notes = {
        "joined": record.notes.get("joined")
    }  # documents read as one have an index of their own
    numbers = replace(reduced_to_numbers(record), steps=[], notes=notes)
    return _RecordedAnswer(numbers, texts)


def _row_numbers(run: StoredRun) -> _RowNumbers:
    """The mean score, tokens and TFLOPs of a question of the run so far, as texts; "–" before the
    first answer. TFLOPs are "unknown" where the sizes of a model are."""
    tokens = _UNKNOWN
    tflops = _UNKNOWN
    search_tokens = phase_costs(run, "search").tokens
    answer_tokens = phase_costs(run, "answer").tokens
    n_answered = len(search_tokens)
    if n_answered:
        all_tokens = sum(search_tokens) + sum(answer_tokens)
        tokens = short_count(all_tokens / n_answered)
        tflops_by_question = question_tflops(run)
        tflops = "unknown"
        if tflops_by_question:
            tflops = f"{sum(tflops_by_question.values()) / n_answered:.3g}"
    return _RowNumbers(score=_score_text(run), tokens=tokens, tflops=tflops)


def _score_text(run: StoredRun) -> str:
    """The mean of the headline score with its interval, "41.3 [36.0, 46.9]"; "–" where there is
    none."""
    score_name = facts.headline_score(run)
    if not run.records or score_name not in facts.score_names(run):
        return _UNKNOWN
    score_values = facts.score_values(run, score_name)
    estimate = interval(score_values.values, score_values.clusters, seed=run.config.seed)
    if estimate.mean is None:
        return _UNKNOWN
    return with_interval(points_of_100, estimate.mean, estimate.low, estimate.high)


def _newest_questions(runs: Sequence[_FollowedRun], *, failed: bool) -> list[dict[str, str]]:
    """The newest questions of all runs that failed, or that did not, as texts by column.

    At most 20, the newest first.

    Args:
        runs: The runs.
        failed: Which of the two are listed.
    """
    questions = []
    for run in runs:
        answers_to_list = [answer for answer in run.answers.values() if answer.failed is failed]
        questions += [_RunAnswer(run, answer) for answer in answers_to_list]
    newest = heapq.nlargest(_QUESTIONS_PER_LIST, questions, key=_arrival)
    return [_question_row(question.run, question.answer) for question in newest]


class _RunAnswer(NamedTuple):
    """An answer, and the run that gave it."""

    run: _FollowedRun
    answer: _RecordedAnswer


def _arrival(question: _RunAnswer) -> _Arrival:
    """A sort key: when the answer arrived."""
    return question.answer.arrived


def _question_row(run: _FollowedRun, answer: _RecordedAnswer) -> dict[str, str]:
    """A question in a list, as texts by column: method, data set, score, id, question, gold,
    answer."""
    value = answer.record.scores.get(facts.headline_score(run.stored))
    score = _UNKNOWN
    if isinstance(value, int | float):
        score = points_of_100(value)
    return {
        "method": run.label,
        "data set": run.stored.config.dataset.name,
        "score": score,
        **answer.texts,
    }
