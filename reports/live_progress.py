"""What runs have answered so far, read from their folders as these are written, on this machine or
on others.

    live = Live(["results"])
    live.state()     {"answered": 42, "version": ..., "note", "rows": [...], "failed": [...], "newest": [...]}

A folder is read again once a file in it has changed, a large one less often. Nothing is locked or
written; a run that was killed still says "running", and the time since its last answer tells.
"""

import contextlib
import heapq
import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.cost.units import duration, short_count
from harness.errors import UserError
from harness.stats.bootstrap import interval, with_interval
from harness.storage.records import IndexLine, StoredRecord, read_index_lines, read_records
from harness.storage.run_files import (
    DOCUMENTS,
    MANIFEST,
    RECORDS,
    RUN,
    SUMMARY,
    parts_in,
    read_json,
)
from harness.storage.run_folder import StoredRun, find_runs, numbers_of, read_run, run_yaml
from reports import facts
from reports.compressed_json import cut_text
from reports.costs import phase_costs, question_tflops
from reports.settings import labels

_SEARCH_SECONDS = (
    10.0  # seconds between two searches for new run folders, which walk the whole tree
)
_QUICK_SECONDS, _PAUSE_FACTOR = (
    0.1,
    20,
)  # seconds that a reading may take; of what it takes beyond, until the next one
_LIST_LENGTH = 20  # questions of each list
_TEXT = 300  # characters of a question or an answer


@dataclass(frozen=True, slots=True)
class _Listed:
    """What lists show of a question. arrived: when its answer did, to sort by."""

    texts: dict[str, str]
    arrived: tuple[float, int]


class Live:
    """Follows the runs at or below folders while they go on. Raises UserError for a folder that is
    not there."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._roots = [Path(folder) for folder in folders]
        self._runs: dict[Path, _FollowedRun] = {}
        self._find_runs()

    def _find_runs(self) -> None:
        folders = [folder for root in self._roots for folder in find_runs(root)]
        before = self._runs
        self._runs = {at: before.get(at) or _FollowedRun(at) for at in dict.fromkeys(folders)}
        self._searched = time.monotonic()

    def state(self) -> dict[str, Any]:
        """Read what is new; return what all runs answered so far (see the module), rows and
        questions as texts."""
        if time.monotonic() - self._searched > _SEARCH_SECONDS:
            self._find_runs()
        for run in self._runs.values():
            run.read()
        described = [run for run in self._runs.values() if hasattr(run, "stored")]
        runs = sorted(described, key=lambda run: (run.state != "running", -run.changed))
        if not all(run.label for run in runs):
            for run, label in zip(runs, labels([run.stored for run in runs]), strict=True):
                run.label = label
        rows = [run.row() for run in runs]
        constant = (
            {"model"} if len({row["model"] for row in rows}) == 1 else set()
        )  # columns that say nothing
        constant |= {"indexes"} if {row["indexes"] for row in rows} == {"0"} else set()
        running = sum(run.state == "running" for run in runs)
        count = (
            f"{len(runs)} run{'s'[: len(runs) != 1]}, {running} running"
            if runs
            else "No run here yet."
        )
        return {
            "answered": sum(len(run.records) for run in runs),
            "version": f"{len(runs)} {running}",
            "note": ". ".join(
                [count, *(run.problem for run in self._runs.values() if run.problem)]
            ),
            "rows": [
                {name: text for name, text in row.items() if name not in constant} for row in rows
            ],
            "failed": _newest(runs, failed=True),
            "newest": _newest(runs, failed=False),
        }

    def readable(self) -> list[StoredRun]:
        """The runs with an answer, as they are stored now; damaged ones are left out, `state` names
        them."""
        runs = []
        for folder in self._runs:
            with contextlib.suppress(UserError):
                runs.append(read_run(folder))
        return [run for run in runs if run.records]


class _FollowedRun:
    """One run folder as last read; stored: set once run.yaml could be read; problem: why reading
    failed, else empty."""

    stored: StoredRun

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.label = self.problem = self.state = ""
        self.records: dict[str, StoredRecord] = {}
        self._listed: dict[str, _Listed] = {}
        self.changed = 0.0  # when the last answer was written, seconds since the epoch
        self._documents: list[IndexLine] = []
        self._stamps: dict[Path, tuple[int, int, int]] = {}
        self._due = 0.0
        self._arrived = itertools.count()
        self._numbers: dict[str, str] = {}
        self._first = (
            time.time()
        )  # when this run was first looked at, and what was answered by then
        self._before: int | None = None

    def read(self) -> None:
        """Take what is new in the folder; a damaged file becomes `problem`."""
        try:
            folders = [self.folder, *parts_in(self.folder)]  # with parts that are not merged yet
            stamps = {}  # inode, time in ns and size of each file, one of which differs when it changes
            names = (RECORDS, DOCUMENTS, RUN, MANIFEST, SUMMARY)
            for path in (at / name for at in folders for name in names):
                with contextlib.suppress(OSError):  # there is no file
                    status = path.stat()
                    stamps[path] = status.st_ino, status.st_mtime_ns, status.st_size
            begun = time.monotonic()
            if stamps != self._stamps and begun >= self._due:
                written = (at[1] / 1e9 for path, at in stamps.items() if path.name == RECORDS)
                self.changed = max(written, default=0.0)
                records = (read_records(at / RECORDS) for at in folders)
                self._keep_records(itertools.chain.from_iterable(records))
                documents = itertools.chain.from_iterable(map(read_index_lines, folders))
                built = {line.place: line for line in documents}
                self._documents = list(built.values())
                self._describe([read_json(at / MANIFEST) for at in folders])
                self._stamps, self.problem = stamps, ""
                self._due = begun + _PAUSE_FACTOR * max(
                    0.0, time.monotonic() - begun - _QUICK_SECONDS
                )
        except (UserError, OSError) as error:
            self.problem = f"{self.folder}: {error}"
        self._before = len(self.records) if self._before is None else self._before

    def _keep_records(self, records: Iterable[StoredRecord]) -> None:
        """Keep of each record what scores and costs need, and what lists show."""
        kept: dict[str, StoredRecord] = {}
        listed: dict[str, _Listed] = {}
        for record in records:
            question = record.question_id
            notes = {"joined": record.notes.get("joined")}
            kept[question] = replace(numbers_of(record), steps=[], notes=notes)
            listed[question] = _Listed(_texts_of(record), (0.0, 0))
        for question, record in kept.items():
            arrived = self._arrived_before(question, record)
            if arrived is None:
                arrived = (self.changed, next(self._arrived))
            listed[question] = replace(listed[question], arrived=arrived)
        self.records = kept
        self._listed = listed

    def _arrived_before(self, question: str, record: StoredRecord) -> tuple[float, int] | None:
        """When a record arrived that was read before; None for a new one.

        A run that ends is sorted: its records are read again, and nothing has arrived.
        """
        before = self.records.get(question)
        if before is None or (before.error, before.scores) != (record.error, record.scores):
            return None
        return self._listed[question].arrived

    def listed(self, failed: bool) -> Iterator[tuple[StoredRecord, _Listed]]:
        """The questions that failed, or that did not, with what lists show of them."""
        for question, record in self.records.items():
            if (record.error is not None) == failed:
                yield record, self._listed[question]

    def _describe(self, manifests: Sequence[dict[str, Any]]) -> None:
        """Set `stored`, `state` and the row's numbers from files and kept records."""
        described = run_yaml(self.folder)
        states = [(m.get("starts") or [{}])[-1].get("state", "") for m in manifests]
        summary = read_json(self.folder / SUMMARY)
        self.state = "running" if "running" in states else summary.get("state", "not started")
        self.stored = run = StoredRun(
            path=self.folder,
            config=described["config"],
            manifest=next(filter(None, manifests), {}),
            records=list(self.records.values()),
            documents=self._documents,
            summary=summary,
            origins=described.get("origins") or {},
        )
        self._numbers = {"score": "–", "tokens": "–", "tflops": "–"}  # a question so far
        if run.records and (score := facts.headline(run)) in facts.score_names(run):
            scored = facts.scored(run, score)
            mean = interval(scored.values, scored.clusters, seed=int(run.config["seed"]))
            if mean.mean is not None:
                points = with_interval(
                    lambda value: f"{100 * value:.1f}", mean.mean, mean.low, mean.high
                )
                self._numbers["score"] = points
        phases = [phase_costs(run, phase).tokens for phase in ("search", "answer")]
        if answered := len(phases[0]):
            flops = question_tflops(run)
            self._numbers["tokens"] = short_count(sum(map(sum, phases)) / answered)
            self._numbers["tflops"] = (
                f"{sum(flops.values()) / answered:.3g}" if flops else "unknown"
            )

    def row(self) -> dict[str, str]:
        """The run's row of the table: column -> text.

        The time left is by the pace of the answers since the run began, or since it was first
        looked at.
        """
        starts = self.stored.manifest.get("starts") or []
        since, n_new = self._first, len(self.records) - (self._before or 0)
        if len(starts) == 1 and (begun := starts[0].get("started")):
            since = datetime.fromisoformat(begun).timestamp()
            n_new = len(self.records)
        remaining = self._questions_asked() - len(self.records)
        predictable = self.state == "running" and remaining and n_new > 0
        return {
            "method": self.label,
            "data set": facts.run_key(self.stored)[0],
            "score": self._numbers["score"],
            "answered": f"{len(self.records)} of {self._questions_asked() or 'unknown'}",
            "failed": str(sum(record.error is not None for record in self.records.values())),
            "time left": duration(round(max(0.0, time.time() - since) / n_new * remaining))
            if predictable
            else "–",
            **{name: self._numbers[name] for name in ("tokens", "tflops")},
            "state": self.state,
            "last answer": f"{duration(max(0, round(time.time() - self.changed)))} ago"
            if self.records
            else "–",
            "indexes": str(len(self._documents)),
            "model": str(self.stored.config["model"]["name"]),
        }

    def _questions_asked(self) -> int:
        """How many questions the run was asked; 0 where its manifest does not say."""
        questions = (self.stored.manifest.get("dataset") or {}).get("questions") or 0
        limit = self.stored.config.get("limit") or questions
        return max(min(questions, limit), len(self.records) if questions else 0)


def _newest(runs: Sequence[_FollowedRun], failed: bool) -> list[dict[str, str]]:
    """The newest questions that failed, or that did not, at most _LIST_LENGTH of all runs, as texts
    by column."""
    listed = ((run, *found) for run in runs for found in run.listed(failed))
    newest = heapq.nlargest(_LIST_LENGTH, listed, key=lambda found: found[2].arrived)
    rows = []
    for run, record, shown in newest:
        value = record.scores.get(facts.headline(run.stored))
        score = f"{100 * value:.1f}" if isinstance(value, int | float) else "–"
        dataset = facts.run_key(run.stored)[0]
        rows.append({"method": run.label, "data set": dataset, "score": score, **shown.texts})
    return rows


def _texts_of(record: StoredRecord) -> dict[str, str]:
    """The texts of a question as lists show them."""
    answer = record.prediction
    if record.error:
        answer = f"{record.error['type']}: {record.error['message']}"
    return {
        "id": record.question_id,
        "question": cut_text(record.question or record.question_id, _TEXT),
        "gold": cut_text(" | ".join(map(str, record.gold_answers)), _TEXT),
        "answer": cut_text(answer, _TEXT),
    }
