"""What does not fit between the times of a run's starts and the seconds of its records.

    clock_inconsistencies(run, longest_seconds=6.3, total_seconds=7.9)
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

_MAX_CLOCK_AHEAD = timedelta(days=1)  # that another machine's clock may be ahead
_MAX_ROUNDED_SECONDS = (
    2.0  # seconds that a start may have lasted longer, as its times are whole seconds
)
_MAX_CLOCK_FACTOR = 1.05  # how much longer a start may seem where its machine's clock was set
_RAY_OPTION = re.compile(r"--engine[ =]ray")  # whose number is not recorded


@dataclass(frozen=True)
class _StartTimes:
    """A stretch of a run between its start and its end.

    Args:
        max_seconds: The most seconds that it may have lasted, as times are whole seconds and clocks
            drift; None where its end is not recorded.
        max_in_flight: The most questions at a time; infinite where that is not known.
    """

    max_seconds: float | None
    max_in_flight: float


def clock_inconsistencies(
    run: StoredRun, longest_seconds: float, total_seconds: float
) -> Iterator[str]:
    """Yield a sentence where the records of a whole run took longer than its starts may have
    lasted.

    Nothing for an imported run, and where a start has no end.

    Args:
        run: The run.
        longest_seconds: Seconds of the record that took longest.
        total_seconds: Seconds of all records together.
    """
    if run.manifest.imported is not None:
        return
    longest_start_seconds = 0.0
    available_seconds = 0.0  # of all starts, each times the questions that it had in flight
    for start in run.manifest.starts:
        times = _times_of_start(start)
        if times.max_seconds is None:
            return
        longest_start_seconds = max(longest_start_seconds, times.max_seconds)
        available_seconds += times.max_seconds * times.max_in_flight
    if longest_seconds > longest_start_seconds > 0:
        yield f"a record took {longest_seconds:.1f} s, and no start of the run lasted as long"
    elif total_seconds > available_seconds > 0:
        yield (
            f"its records took {total_seconds:.1f} s, and its starts had room for "
            f"{available_seconds:.1f}"
        )


def date_inconsistencies(manifest: RunManifest) -> Iterator[str]:
    """Yield what does not fit between the dates of a whole run and its starts, a sentence each."""
    yield from _order_inconsistencies(manifest)
    if manifest.imported is None:
        yield from _end_inconsistencies(manifest)


def _order_inconsistencies(manifest: RunManifest) -> Iterator[str]:
    """Yield a sentence on the first time that is in the future, or end that is before its start."""
    latest = datetime.now(UTC) + _MAX_CLOCK_AHEAD
    for start in manifest.run_and_starts:
        began = _parse_time(start.started)
        ended = _parse_time(start.finished)
        for time in (began, ended):
            if time is not None and time > latest:
                yield "it was started or finished in the future"
                return
        if began is None or ended is None:
            continue
        if ended < began:
            yield "it was finished before it was started"
            return


def _end_inconsistencies(manifest: RunManifest) -> Iterator[str]:
    """Yield a sentence where the start or end of the run is that of none of its starts; nothing for an
    older run, which lists no starts."""
    if not manifest.starts:
        return
    times_started = {start.started for start in manifest.starts}
    times_finished = {start.finished for start in manifest.starts}
    if manifest.started is not None and manifest.started not in times_started:
        yield f"it was started at {manifest.started}, and none of its starts was"
    if manifest.finished is not None and manifest.finished not in times_finished:
        yield f"it was finished at {manifest.finished}, and none of its starts was"


def _times_of_start(start: Start) -> _StartTimes:
    """How long a start of the run may have lasted at most (None where a time is not recorded), and how
    many questions it may have had in flight at most.

    The recorded times are whole seconds, and a clock may have been set meanwhile, so the seconds
    are more than the difference of the times. The number of questions is infinite where it is not
    recorded, and for worker processes, which may have any number.
    """
    began = _parse_time(start.started)
    ended = _parse_time(start.finished)
    max_seconds = None
    if began is not None and ended is not None:
        seconds = (ended - began).total_seconds()
        max_seconds = _MAX_CLOCK_FACTOR * (seconds + _MAX_ROUNDED_SECONDS)
    max_in_flight = math.inf
    if start.parallel:
        max_in_flight = float(start.parallel)
    if _RAY_OPTION.search(" ".join(start.command)):
        max_in_flight = math.inf
    return _StartTimes(max_seconds, max_in_flight)


def _parse_time(text: object) -> datetime | None:
    """A time of the manifest, in UTC where it names no zone; None for a value that is no time."""
    try:
        time = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return time
