"""A disk that is full, folders that are read-only, move or are half copied, a clock that jumps, and
two processes at once."""

import ctypes
import datetime
import fcntl
import json
import math
import os
import random
import resource
import shutil
import signal
import stat
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.faults.commands import (
    IMPORT,
    LONGEST,
    Bench,
    Kind,
    Outcome,
    Words,
    answers,
    end_of,
    ended,
    kill,
    must,
    outcome,
    own_cache,
    records,
    run_words,
    start,
)
from bench.faults.kills import copy_of_store, logged, runs_and_store, track_words


def _stored(place: str) -> None:
    """Copy the stored run to a place."""
    shutil.copytree("stored", place)


def _two_of_three_shards(place: str) -> None:
    """Make two of three shards of a run in a place."""
    for number in (1, 2):
        must(run_words("bm25", "--out", place, "--shard", f"{number}/3"))


def _none(place: str) -> None:
    """Make nothing in a place."""


_JUDGE = ["--model", "scripted", "--set", "model.script=verdicts.yaml", "--name", "other"]
Made = tuple[Callable[[str], None], Callable[[str], Words]]
_WRITERS: dict[str, Made] = {
    "run": (_none, lambda out: run_words("bm25", "--out", out)),
    "prompts": (_none, lambda out: run_words("bm25", "--keep-prompts", "--out", out)),
    "merge": (_two_of_three_shards, lambda out: ["merge", out]),
    "score": (_stored, lambda out: ["score", out]),
    "judge": (_stored, lambda out: ["judge", out, *_JUDGE]),
    "export": (_stored, lambda out: ["export", out, f"{out}.zip"]),
    "import": (_none, lambda out: [*IMPORT, "--out", out]),
    "page": (_stored, lambda out: ["report", out, "--html", f"{out}.html"]),
}
"""What writes: makes its place, and the command over it."""


def _limited(words: Words, size: int) -> Outcome:
    """Run a command that may write no file beyond a size; what it prints goes into a pipe."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 2**20)
    child = start(words, partial(_limit, size, writing))
    os.close(writing)
    code = ended(child, LONGEST)
    if code is None:
        kill(child)
    with os.fdopen(reading, errors="replace") as printed:
        return Outcome(code, printed.read())


def _limit(size: int, writing: int) -> None:
    """Bound the files that this process writes to a size in bytes, and let it print into the pipe
    `writing`."""
    os.dup2(writing, 1)
    os.dup2(writing, 2)
    sys.stdout = os.fdopen(1, "w", closefd=False)  # the old ones know a file, which a pipe is not
    sys.stderr = os.fdopen(2, "w", closefd=False)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def full_disk(kind: Kind, bench: Bench) -> None:
    """No file may grow beyond a size, 1 to 20,000 bytes: a sentence and exit code 3, and the same
    command ends well with room. Each of the commands that write, in turn."""
    for number in range(2 * bench.tries):
        name = list(_WRITERS)[number % len(_WRITERS)]
        make_place, command = _WRITERS[name]
        place = f"full {name} {number}"
        make_place(place)
        n_records_before = len(records(place))
        max_bytes = int(10 ** bench.rng.uniform(0, 4.3))
        kind.tries += 1
        with own_cache(f"{place} cache"):
            limited = _limited(command(place), max_bytes)
            with_room = outcome(command(place))
        if not limited.is_sentence:
            kind.fell.append(f"{place}, {max_bytes} bytes: {limited.words}")
        if with_room.code != 0 or len(records(place)) < n_records_before:
            kind.fell.append(f"{place}, {max_bytes} bytes, then room: {with_room.words}")


def full_disk_in_track(kind: Kind, bench: Bench) -> None:
    """An MLflow store, another run's or a new one in turn, may not grow beyond a size: a sentence
    and exit code 3, and with room the store holds what an undisturbed command logs."""
    runs_and_store()
    befores = (copy_of_store, _none)
    whole = []
    for number, before in enumerate(befores):
        place = f"tracked whole {number}"
        before(place)
        must(track_words(place))
        whole.append(logged(f"{place}.db"))
    largest = math.log10(Path("tracked whole 0.db").stat().st_size)
    for number in range(bench.tries):
        place = f"tracked {number}"
        befores[number % 2](place)
        size = int(10 ** bench.rng.uniform(3, largest))
        kind.tries += 1
        done = _limited(track_words(place), size)
        if not done.is_sentence or done.code != 3:
            kind.fell.append(f"{place}, {size} bytes: {done.words}")
        again = outcome(track_words(place))
        if again.code != 0 or logged(f"{place}.db") != whole[number % 2]:
            kind.fell.append(f"{place}, {size} bytes, then room: {again.words}, or other runs")


def _obey_modes() -> None:
    """Give up the right of root to write whatever it likes."""
    version_3 = (ctypes.c_uint32 * 2)(0x20080522, 0)
    no_capabilities = (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None).capset(version_3, no_capabilities) != 0:
        os._exit(99)


def _change_modes(place: str, writable: bool) -> None:
    """Make a folder and all below it writable or read-only."""
    for path in (Path(place), *Path(place).rglob("*")):
        mode = 0o755 if path.is_dir() else 0o644
        path.chmod(mode if writable else mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))


def read_only(kind: Kind, _: Bench) -> None:
    """A folder that cannot be written: a sentence, the records stay, and the command ends well
    once it can be."""
    for name, (make_place, command) in _WRITERS.items():
        place = f"only {name}"
        Path(place).mkdir()
        make_place(f"{place}/runs")
        n_records_before = len(records(place))
        Path(f"{place}/runs").mkdir(exist_ok=True)
        _change_modes(place, writable=False)
        kind.tries += 1
        words = command(f"{place}/runs")
        done = outcome(words, _obey_modes)
        if not done.is_sentence or done.code == 0 or len(records(place)) != n_records_before:
            kind.fell.append(f"{place}: {done.words}")
        _change_modes(place, writable=True)
        again = outcome(words)
        if again.code != 0:
            kind.fell.append(f"{place}, then writable: {again.words}")


def moved_folder(kind: Kind, bench: Bench) -> None:
    """The folder of a run is moved away while it goes on, and back: a sentence or a whole run."""
    _slow_run(kind, "whole")
    for number in range(bench.tries):
        place = f"moved {number}"
        kind.tries += 1
        child = start(run_words("slow", "--out", place))
        code = _begun(child, place, bench.rng)
        if code is None:
            Path(place).rename(f"{place} away")
        done = end_of(child)
        if not done.is_sentence:
            kind.fell.append(f"{place}: {done.words}")
        if code is None and not Path(place).exists():
            Path(f"{place} away").rename(place)
        _again(kind, place)


def vanishing_folder(kind: Kind, bench: Bench) -> None:
    """The folder of a run is removed for good while it goes on: a sentence and exit code 3, and the
    same command makes the run anew."""
    _slow_run(kind, "whole")
    for number in range(bench.tries):
        place = f"vanishing {number}"
        kind.tries += 1
        child = start(run_words("slow", "--out", place))
        code = _begun(child, place, bench.rng)
        Path(place).rename(f"{place} removed")
        shutil.rmtree(f"{place} removed")
        if code is None:
            done = end_of(child)
            if not done.is_sentence or done.code != 3:
                kind.fell.append(f"{place}: {done.words}")
        again = outcome(run_words("slow", "--out", place))
        if again.code != 0 or answers(place) != answers(f"{kind.name} whole"):
            kind.fell.append(f"{place}, again: {again.words}, or other records")


def half_copied(kind: Kind, bench: Bench) -> None:
    """A folder is copied while its run goes on, one of its files not to the end: a run of the copy
    goes on or is refused in a sentence, and so is its report."""
    _slow_run(kind, "whole")
    for number in range(bench.tries):
        place, copy = f"copied {number}", f"copied {number} half"
        kind.tries += 1
        child = start(run_words("slow", "--out", place))
        code = _begun(child, place, bench.rng)
        shutil.copytree(place, copy)
        done = end_of(child)
        if (code or done.code) != 0:
            kind.fell.append(f"{place}: {done.words}")
        files = [path for path in sorted(Path(copy).rglob("*")) if path.is_file()]
        cut = bench.rng.choice(files)
        content = cut.read_bytes()
        cut.write_bytes(content[: bench.rng.randrange(len(content) + 1)])
        reported = outcome(["report", copy])
        if not reported.is_sentence:
            kind.fell.append(f"report of {copy}, {cut.name} cut: {reported.words}")
        _again(kind, copy, f", {cut.name} cut")


def _slow_run(kind: Kind, name: str) -> None:
    """Make an undisturbed run in the folder of this name."""
    must(run_words("slow", "--out", f"{kind.name} {name}"))


def _begun(child: int, place: str, rng: random.Random) -> int | None:
    """Wait until a run's folder is there, and a moment; returns the exit code if it ended."""
    end = time.monotonic() + LONGEST
    while not Path(place).exists() and time.monotonic() < end:
        time.sleep(0.002)
    return ended(child, rng.uniform(0, 0.6))


def _again(kind: Kind, place: str, what: str = "") -> None:
    """Run the command again: the records of an undisturbed run, or a refusal in a sentence."""
    done = outcome(run_words("slow", "--out", place))
    if not done.is_sentence:
        kind.fell.append(f"{place}{what}, again: {done.words}")
    elif done.code == 0 and answers(place) != answers(f"{kind.name} whole"):
        kind.fell.append(f"{place}{what}, again: other records than those of an undisturbed run")


def jumping_clock(kind: Kind, bench: Bench) -> None:
    """The clock of the machine jumps by up to ten days at each look: same records, no time below
    0, and report and verify work."""
    _slow_run(kind, "whole")
    for number in range(bench.tries):
        place = f"clock {number}"
        kind.tries += 1
        done = outcome(run_words("slow", "--out", place), partial(_jump, bench.rng.random()))
        if done.code != 0 or answers(place) != answers(f"{kind.name} whole"):
            kind.fell.append(f"{place}: {done.words}, or other records")
        for seconds in _seconds_in_records(place):
            if seconds < 0:
                kind.fell.append(f"{place}: {seconds} seconds")
        for words in (["report", place], ["export", place, f"{place}.zip"]):
            ended_so = outcome(words)
            if ended_so.code != 0:
                kind.fell.append(f"{words[0]} {place}: {ended_so.words}")
        verified = outcome(["verify", f"{place}.zip"])
        if verified.code not in (0, 4) or "Traceback" in verified.err:
            kind.fell.append(f"verify {place}: {verified.words}")


def _seconds_in_records(place: str) -> list[float]:
    """All seconds in the records below a folder: of questions, and of their phases."""
    found = []
    for path in Path(place).rglob("records.jsonl"):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            found.append(row["notes"]["seconds"])
            found += [phase["seconds"] for phase in row["usage"].values()]
    return found


def _jump(seed: float) -> None:
    """Replace the clock of this process by one that jumps."""
    rng = random.Random(seed)
    real = time.time

    def jumped() -> float:
        """The time, up to ten days earlier or later."""
        return real() + rng.uniform(-864_000, 864_000)

    class Jumping(datetime.datetime):
        """A date and time whose `now` jumps."""

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> "Jumping":
            """The present, up to ten days earlier or later."""
            return cls.fromtimestamp(jumped(), tz)

    import harness.engine.manifest as manifest
    import harness.engine.spending_limits as limits

    time.time = jumped
    time.time_ns = lambda: int(jumped() * 1e9)
    for module in (manifest, limits):
        module.datetime = Jumping  # type: ignore[attr-defined]


def two_processes(kind: Kind, bench: Bench) -> None:
    """Two processes write one folder and one cache: both end well, or one is told to wait."""
    for number in range(bench.tries // 2):
        kind.tries += 1
        out = f"two {number}"
        with own_cache(f"{out} cache"):
            words = run_words("bm25", "--out", out)
            both = [start(words) for _ in range(2)]
            codes = sorted(ended(child, LONGEST) or 0 for child in both)
            afterwards = outcome(words)
        both_end_as_they_may = codes in ([0, 0], [0, 2])
        if not both_end_as_they_may or afterwards.code != 0 or len(records(out)) != 4:
            kind.fell.append(f"{out}: exit codes {codes}, then {afterwards.words}")
