"""What does not fit between the times of a run's starts and the seconds of its records.

    clock_misfits(run, longest=6.3, total=7.9)
        -> ["a record took 6.3 s, and no start of the run lasted as long"]

A run that was resumed has several starts, and several questions may be in flight in each. Where a
start has no end, as after a kill, nothing is known of how long it lasted.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from harness.storage.manifest_file import RunManifest, Start
from harness.storage.run_folder import StoredRun

_AHEAD = timedelta(days=1)  # that another machine's clock may be ahead
_ROUNDED = 2.0  # seconds that a start may have lasted longer, as its times are whole seconds
_ADJUSTED = 1.05  # how much longer a start may seem where its machine's clock was set
_WORKERS = re.compile(r"--engine[ =]ray")  # whose number is not recorded


@dataclass(frozen=True)
class _Start:
    """A stretch of a run between its start and its end.

    Args:
        lasted: Its seconds; None where its end is not recorded.
        in_flight: The most questions at a time; infinite where that is not known.
    """

    lasted: float | None
    in_flight: float


def clock_misfits(run: StoredRun, longest: float, total: float) -> Iterator[str]:
    """Yield a sentence where the records of a whole run took longer than its starts lasted.

    Nothing for an imported run, and where a start has no end.

    Args:
        run: The run.
        longest: Seconds of the record that took longest.
        total: Seconds of all records together.
    """
    if run.manifest.imported is not None:
        return
    longest_start = 0.0
    question_seconds = 0.0  # that all starts together had, for all questions in flight
    for start in map(_start, run.manifest.starts):
        if start.lasted is None:
            return
        longest_start = max(longest_start, start.lasted)
        question_seconds += start.lasted * start.in_flight
    if longest > longest_start > 0:
        yield f"a record took {longest:.1f} s, and no start of the run lasted as long"
    elif total > question_seconds > 0:
        yield f"its records took {total:.1f} s, and its starts had room for {question_seconds:.1f}"


def date_misfits(manifest: RunManifest) -> Iterator[str]:
    """Yield what does not fit between the dates of a whole run and its starts, a sentence each."""
    yield from _order_misfits(manifest)
    if manifest.imported is None:
        yield from _end_misfits(manifest)


def _order_misfits(manifest: RunManifest) -> Iterator[str]:
    """Yield a sentence on the first time that is in the future, or end that is before its start."""
    latest = datetime.now(UTC) + _AHEAD
    for start in manifest.run_and_starts:
        began = _time(start.started)
        ended = _time(start.finished)
        for time in (began, ended):
            if time is not None and time > latest:
                yield "it was started or finished in the future"
                return
        if began is not None and ended is not None and ended < began:
            yield "it was finished before it was started"
            return


def _end_misfits(manifest: RunManifest) -> Iterator[str]:
    """Yield a sentence where the start or end of the run is that of none of its starts."""
    started = set()
    finished = set()
    for start in manifest.starts:
        started.add(start.started)
        finished.add(start.finished)
    if manifest.starts and manifest.started is not None and manifest.started not in started:
        yield f"it was started at {manifest.started}, and none of its starts was"
    if manifest.starts and manifest.finished is not None and manifest.finished not in finished:
        yield f"it was finished at {manifest.finished}, and none of its starts was"


def _start(start: Start) -> _Start:
    """How long a start of the run lasted, and how many questions it had in flight.

    The seconds are at most what the recorded times allow. Worker processes may have any number of
    questions.
    """
    began = _time(start.started)
    ended = _time(start.finished)
    lasted = None
    if began is not None and ended is not None:
        lasted = _ADJUSTED * ((ended - began).total_seconds() + _ROUNDED)
    in_flight = float(start.parallel or math.inf)
    if _WORKERS.search(" ".join(start.command)):
        in_flight = math.inf
    return _Start(lasted, in_flight)


def _time(text: object) -> datetime | None:
    """A time of the manifest, in UTC where it names no zone; None for a value that is no time."""
    try:
        time = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return time
