"""What runs have answered so far, read from their folders as these are written, on this machine or on others.

    live = Live(["results"])
    live.state()     {"answered": 42, "version": ..., "note", "rows": [...], "failed": [...], "newest": [...]}

Of each file only what is new is read. Nothing is locked or written, so no run waits for who watches it; a run that was
killed therefore still says "running", and the time since its last answer tells. Scores, intervals and costs are
computed as in the tables (reports/facts.py, reports/costs.py).
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.cost.flops import DEFAULT
from harness.cost.units import duration, short
from harness.errors import UserError
from harness.stats.bootstrap import interval, with_interval
from harness.storage.part_files import part_name, parts_in
from harness.storage.run_folder import (
    DOCUMENTS,
    MANIFEST,
    RECORDS,
    RUN,
    SUMMARY,
    StoredRun,
    check_plain,
    find_runs,
    read_json,
    read_run,
    run_yaml,
)
from harness.storage.run_schema import DOCUMENT, RECORD, Shape
from harness.storage.untrusted import plain
from reports import facts
from reports.compressed_json import cut
from reports.costs import phase_costs, question_tflops
from reports.settings import labels

_SEARCH = 10.0  # seconds between two searches for new run folders, which walk the whole tree
_LISTED = 20  # questions of each list
_TEXT = 300  # characters of a question or an answer
_USAGE = ("tokens_in", "tokens_out", "seconds", "uncounted")


class Live:
    """Runs at or below folders, followed. Raises UserError for a folder that is not there."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._roots = [Path(folder) for folder in folders]
        self._runs: dict[Path, _Followed] = {}
        self._searched = 0.0
        self._labels: dict[tuple[Path, ...], list[str]] = {}
        self._search()

    def _search(self) -> None:
        found = [folder for root in self._roots for folder in find_runs(root)]
        self._runs = {folder: self._runs.get(folder) or _Followed(folder) for folder in dict.fromkeys(found)}
        self._searched = time.monotonic()

    def state(self) -> dict[str, Any]:
        """What is new since the last call, as values that JSON holds; `rows` and questions hold texts alone."""
        if time.monotonic() - self._searched > _SEARCH:
            self._search()
        for run in self._runs.values():
            run.read()
        known = [run for run in self._runs.values() if run.stored is not None]
        names = self._named([run.stored for run in known if run.stored is not None])
        for run, name in zip(known, names, strict=True):
            run.label = name
        known.sort(key=lambda run: (run.state != "running", -run.changed))
        problems = [run.problem for run in self._runs.values() if run.problem]
        running = sum(run.state == "running" for run in known)
        told = f"{len(known)} run{'s'[: len(known) != 1]}, {running} running" if known else "No run here yet."
        return {
            "answered": sum(run.answered for run in known),
            "version": f"{len(known)} {running}",
            "note": ". ".join([told, *problems]),
            "rows": _with_columns([run.row() for run in known]),
            "failed": _newest([run.failed for run in known]),
            "newest": _newest([run.newest for run in known]),
        }

    def readable(self) -> list[StoredRun]:
        """The runs with an answer, as they are stored now; damaged ones are left out, `state` names them."""
        found = []
        for run in self._runs.values():
            try:
                found += [stored for stored in [read_run(run.folder)] if stored.records]
            except UserError:
                continue
        return found

    def _named(self, runs: Sequence[StoredRun]) -> list[str]:
        key = tuple(run.path for run in runs)
        if key not in self._labels:
            self._labels = {key: labels(runs)}
        return self._labels[key]


class _Followed:
    """One run folder. `stored` is what is known of it, None before its run.yaml can be read."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.label, self.problem = folder, "", ""
        self.stored: StoredRun | None = None
        self.failed: deque[dict[str, Any]] = deque(maxlen=_LISTED)
        self.newest: deque[dict[str, Any]] = deque(maxlen=_LISTED)
        self.changed = 0.0  # when the last answer was written, seconds since the epoch
        self._tails: dict[str, _Tail] = {}
        self._records: dict[str, dict[str, Any]] = {}
        self._documents: dict[tuple[str, str | None], dict[str, Any]] = {}
        self._stamps: tuple[Any, ...] = ()
        self._numbers: dict[str, str] = {}
        self._first = time.time()  # when this run was first looked at, and what was answered by then
        self._before: int | None = None
        self.state = self.score = ""

    @property
    def answered(self) -> int:
        """Questions with a record."""
        return len(self._records)

    def read(self) -> None:
        """Take what is new in the folder; a damaged file becomes `problem`."""
        try:
            check_plain(self.folder)
            new = self._take_lines()
            stamps = tuple(map(_stamp, (self.folder / name for name in self._names(RUN, MANIFEST, SUMMARY))))
            if new or stamps != self._stamps:
                self._describe()
                self._stamps, self.problem = stamps, ""
        except (UserError, OSError, ValueError) as error:
            self.problem = f"{self.folder}: {error}"
        if self._before is None:
            self._before = self.answered

    def _names(self, *names: str) -> list[str]:
        """Names of files of the run, and of its parts that are not merged yet."""
        return [part_name(name, part) for part in (None, *parts_in(self.folder)) for name in names]

    def _take_lines(self) -> bool:
        changed = False
        for name in self._names(RECORDS):
            for row in self._tail(name, RECORD):
                changed = True
                self._take(row, self._tails[name].written)
            self.changed = max(self.changed, self._tails[name].written)
        for name in self._names(DOCUMENTS):
            for row in self._tail(name, DOCUMENT):
                changed = True
                self._documents[row["document_id"], row.get("question_id")] = row
        return changed

    def _tail(self, name: str, shape: Shape) -> Iterator[dict[str, Any]]:
        return self._tails.setdefault(name, _Tail(self.folder / name, shape)).new()

    def _take(self, row: dict[str, Any], written: float) -> None:
        """Keep of a record what scores and costs need; list its question where it is another answer than before."""
        question_id, error = row["question_id"], row["error"]
        before = self._records.get(question_id)
        self._records[question_id] = {
            **{key: row[key] for key in ("question_id", "document_ids", "scores", "error")},
            "usage": {
                phase: {key: usage[key] for key in _USAGE} | {"flops": {DEFAULT: usage["flops"].get(DEFAULT, 0.0)}}
                for phase, usage in row["usage"].items()
            },
            "notes": {"joined": (row.get("notes") or {}).get("joined")},
        }
        # A run that ends is sorted: its records are read again, and nothing has arrived.
        if before is None or before["error"] != error or before["scores"] != row["scores"]:
            self.failed = deque((old for old in self.failed if old["id"] != question_id), _LISTED)
            (self.newest if error is None else self.failed).append(self._told(row, written))

    def _told(self, row: dict[str, Any], written: float) -> dict[str, Any]:
        gold = (row.get("gold") or {}).get("answers") or []
        error = row["error"]
        return {
            "at": (written, time.time()),
            "run": self,
            "id": row["question_id"],
            "question": cut(row.get("question") or row["question_id"], _TEXT),
            "gold": cut(" | ".join(map(str, gold)), _TEXT),
            "answer": cut(f"{error['type']}: {error['message']}" if error else row["prediction"], _TEXT),
            "scores": row["scores"],
        }

    def _describe(self) -> None:
        """The run as the tables know it, and its numbers."""
        described = run_yaml(self.folder)
        manifests = [read_json(self.folder / name) for name in self._names(MANIFEST)]
        manifest = next((one for one in manifests if one), {})
        states = [(one.get("starts") or [{}])[-1].get("state", "") for one in manifests if one]
        summary = read_json(self.folder / SUMMARY)
        self.state = "running" if "running" in states else summary.get("state", "not started")
        self.stored = run = StoredRun(
            path=self.folder,
            config=described["config"],
            manifest=manifest,
            records=list(self._records.values()),
            documents=list(self._documents.values()),
            summary=summary,
            origins=described.get("origins") or {},
        )
        self.score = facts.headline(run)
        self._numbers = {"score": "–", "tokens": "–", "tflops": "–", **self._computed(run)}

    def _computed(self, run: StoredRun) -> dict[str, str]:
        if not run.records:
            return {}
        told = {}
        if self.score in facts.score_names(run):
            scored = facts.scored(run, self.score)
            found = interval(scored.values, scored.clusters, seed=int(run.config["seed"]))
            if found.mean is not None:
                told["score"] = with_interval(lambda value: f"{100 * value:.1f}", found.mean, found.low, found.high)
        phases = [phase_costs(run, phase).tokens for phase in ("search", "answer")]
        if answered := len(phases[0]):
            told["tokens"] = short(sum(map(sum, phases)) / answered)
            flops = question_tflops(run)
            told["tflops"] = f"{sum(flops.values()) / answered:.3g}" if flops else "unknown"
        return told

    def row(self) -> dict[str, str]:
        """Column -> text."""
        assert self.stored is not None
        failed = sum(record["error"] is not None for record in self._records.values())
        ago = f"{duration(max(0.0, round(time.time() - self.changed)))} ago" if self._records else "–"
        return {
            "method": self.label,
            "data set": facts.key(self.stored)[0],
            "score": self._numbers["score"],
            "answered": f"{self.answered} of {self._asked() or 'unknown'}",
            "failed": str(failed),
            "time left": self._left(),
            **{name: self._numbers[name] for name in ("tokens", "tflops")},
            "state": self.state,
            "last answer": ago,
            "indexes": str(len(self._documents)),
            "model": str(self.stored.config["model"]["name"]),
        }

    def _asked(self) -> int:
        """How many questions the run was asked; 0 where its manifest does not say."""
        assert self.stored is not None
        questions = (self.stored.manifest.get("dataset") or {}).get("questions") or 0
        limit = self.stored.config.get("limit")
        return max(min(questions, limit or questions), self.answered if questions else 0)

    def _left(self) -> str:
        """By the time that answers took since the run began; of a run that goes on, since it was first looked at."""
        assert self.stored is not None
        starts = self.stored.manifest.get("starts") or []
        since, fresh = self._first, self.answered - (self._before or 0)
        if len(starts) == 1 and (begun := starts[0].get("started")):
            since, fresh = datetime.fromisoformat(begun).timestamp(), self.answered
        left = self._asked() - self.answered
        if self.state != "running" or not left or fresh < 1:
            return "–"
        return duration(round(max(0.0, time.time() - since) / fresh * left))


class _Tail:
    """The lines of a file that are new. written: when it was last changed, seconds since the epoch."""

    def __init__(self, path: Path, shape: Shape) -> None:
        self._path, self._shape = path, shape
        self._file: tuple[int, int] | None = None
        self._at = 0
        self.written = 0.0

    def new(self) -> Iterator[dict[str, Any]]:
        """The objects of whole lines since the last call; of all lines where the file was replaced or cut.

        Raises Unreadable and Misshapen, both ValueError, for another line.
        """
        if not self._path.exists():
            return
        with open(self._path, "rb", opener=plain) as file:
            status = os.fstat(file.fileno())
            if self._file != (status.st_dev, status.st_ino) or status.st_size < self._at:
                self._file, self._at = (status.st_dev, status.st_ino), 0
            self.written = status.st_mtime
            file.seek(self._at)
            for line in file:
                if not line.endswith(b"\n"):  # the rest of it is being written
                    return
                self._at += len(line)
                yield self._shape.read(line)


def _stamp(path: Path) -> tuple[int, int] | None:
    """What changes when a file is replaced; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _with_columns(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """The rows without the columns that say nothing: one model, no index."""
    left_out = {"model"} if len({row["model"] for row in rows}) == 1 else set()
    left_out |= {"indexes"} if {row["indexes"] for row in rows} == {"0"} else set()
    return [{name: text for name, text in row.items() if name not in left_out} for row in rows]


def _newest(lists: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, str]]:
    """The newest questions of all runs, with the names that their runs have now."""
    questions = sorted((one for own in lists for one in own), key=lambda one: one["at"], reverse=True)
    told = []
    for one in questions[:_LISTED]:
        run: _Followed = one["run"]
        assert run.stored is not None
        value = one["scores"].get(run.score)
        names = {"method": run.label, "data set": facts.key(run.stored)[0]}
        score = f"{100 * value:.1f}" if isinstance(value, int | float) else "–"
        told.append({**names, "score": score, **{key: one[key] for key in ("id", "question", "gold", "answer")}})
    return told
