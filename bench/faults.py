"""Attack commands as users and machines do, and print a table: kind, tries, fell.

    python -m bench.faults --seed 1

Each command runs in a forked process in a new folder. An answer to bad input is right if it is one
sentence on stderr that begins with "error: ", without a traceback, and the exit code is 2 or 3. A
kill is survived if the same command, run again, ends with the records of an undisturbed run. What
fell is printed with its command, and the exit code is then 1.
"""

import argparse
import contextlib
import io
import itertools
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bench.kills import ended, records
from harness.cli.main import main as harness

Words = Sequence[str]
_LONGEST = 200.0  # seconds of a command
_NUMBERS = ("0", "-1", "1e30", "nan", "inf", "text", "", "1" + 30 * "0")


@dataclass
class Kind:
    """One row of the table. fell: a sentence for each try that did not end as it should."""

    name: str
    tries: int = 0
    fell: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Outcome:
    """How a command ended. code: None where it was killed for its time."""

    code: int | None
    err: str


def start(words: Words, prepare: Callable[[], None]) -> int:
    """Run a harness command in a forked process; `prepare` is called in it first. Returns its
    id."""
    child = os.fork()
    if child != 0:
        return child
    os.setsid()
    for stream, name in ((1, "out.txt"), (2, "err.txt")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    sys.argv = ["harness", *words]
    code = 1
    try:
        prepare()
        harness(list(words))
    except SystemExit as error:
        code = int(error.code or 0)
    except BaseException:  # noqa: BLE001 - the child must not go on as the bench
        import traceback

        traceback.print_exc()
    for file in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            file.flush()
    os._exit(code)


def outcome(words: Words, prepare: Callable[[], None] = lambda: None) -> Outcome:
    """Run a command to its end."""
    child = start(words, prepare)
    code = ended(child, _LONGEST)
    if code is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return Outcome(code, Path("err.txt").read_text(errors="replace"))


def refused(kind: Kind, words: Words, codes: Sequence[int] = (2, 3)) -> None:
    """Count a command that must be refused in a sentence."""
    kind.tries += 1
    done = outcome(words)
    lines = done.err.splitlines()
    told = any(line.startswith("error: ") for line in lines) or "Usage" in done.err
    if done.code not in codes or "Traceback" in done.err or not told:
        last = lines[-1][:160] if lines else ""
        kind.fell.append(f"{' '.join(words)[:140]}: exit code {done.code}; {last}")


# Bad input

_RUN = ("run", "-m", "bm25", "-d", "pocket/musique", "--mlflow", "off")
_PLAN = (*_RUN, "--plan")
_FLAGS = {
    _PLAN: (
        "--limit", "--sample", "--seed", "--repeat", "--parallel", "--traces", "--max-tokens",
        "--max-tflops", "--max-minutes", "--max-money", "--workers", "--record-stops",
        "--record-t-p", "--gpus-per-worker", "--price-per-gpu-hour",
    ),
    ("judge", "stored"): ("--max-tokens", "--parallel", "--scale"),
    ("retrieve", "--dataset", "nq", "--corpus", "rows.jsonl"): ("--limit", "--top", "--words"),
    ("report", "curves", "stored"): ("--t-n",),
    ("watch", "stored"): ("--port",),
    ("track", "stored"): ("--traces",),
    ("duel", "bm25", "full-context", "-d", "pocket/musique"): ("--parallel", "--limit"),
}  # fmt: skip
_VALID = {
    ("--traces", "0"), ("--seed", "0"), ("--port", "0"), ("--max-tflops", "0"), ("--record-t-p", "0"),
    ("--max-minutes", "0"), ("--max-money", "0"), ("--gpus-per-worker", "0"),
    ("--price-per-gpu-hour", "0"),
}  # fmt: skip


def bad_numbers(kind: Kind) -> None:
    """Every numeric flag with numbers that it cannot take, and with no number."""
    for words, flags in _FLAGS.items():
        for flag, value in itertools.product(flags, _NUMBERS):
            if (flag, value) not in _VALID:
                refused(kind, [*words, flag, value])


def bad_settings(kind: Kind) -> None:
    """Settings that are of no type of theirs, of no name, or no settings at all."""
    for key in (
        "method.k",
        "method.chunk_tokens",
        "dataset.max_answer_tokens",
        "model.retries",
        "dataset.tokens",
        "dataset.questions",
        "limit",
    ):
        for value in ("0", "-1", "1e30", "nan", "text", "[1, 2]", "{a: 1}", "true"):
            if (key, value) not in {("model.retries", "0")}:
                refused(kind, [*_PLAN, "--set", f"{key}={value}"])
    for text in (
        "",
        "=",
        "k",
        "=3",
        "method=3",
        "method.=3",
        "nobody.k=3",
        "method.kk=3",
        "model.price.input=-1",
        "dataset.scorers=[nobody]",
        "dataset.shots=-1",
        "method.k=[",
        "model.dtype=fp3",
    ):
        refused(kind, [*_PLAN, "--set", text])
    for text in ("", "method.k", "method.k=", "method.k=0,1", "nobody=1,2", "seed=-1,1"):
        refused(kind, [*_PLAN, "--sweep", text])


def bad_words(kind: Kind) -> None:
    """Names, folders and shards that are not there."""
    for shard in ("", "0/3", "4/3", "-1/3", "1/0", "1", "a/b", "1/3/5", "1e30/1e31", "nan/2"):
        refused(kind, [*_RUN, "--shard", shard])
    for command in (
        "report",
        "compare",
        "trace",
        "judge",
        "score",
        "merge",
        "track",
        "verify",
        "bundle",
    ):
        for place in ("", "nowhere", "rows.jsonl", "empty", "a" * 300):
            refused(kind, [command, place])
    for words in (
        ("report", "stored", "--format", "nobody"), ("report", "stored", "--columns", "nobody"),
        ("compare", "stored", "--reference", "nobody"), ("compare", "stored", "--score", "nobody"),
        ("report", "stored", "--convention", "nobody"), ("judge", "stored", "--kind", "nobody"),
        ("judge", "stored", "--model", "nobody/nothing"), ("judge", "stored", "--labels", "nowhere"),
        ("judge", "stored", "--model", "scripted", "--set", "method.k=3"),
        ("import", "nobody", "rows.jsonl"), ("import", "jsonl", "nowhere"), ("import", "jsonl", ""),
        ("import", "jsonl", "rows.jsonl", "--dataset", "nobody"), ("import", "inspect", "rows.jsonl"),
        ("import", "lm-eval", "rows.jsonl"), ("import", "flashrag", "rows.jsonl"),
        ("duel",), ("duel", "bm25"), ("duel", "bm25", "nobody", "-d", "pocket/musique"),
        ("duel", "bm25", "bm25", "-d", "pocket/musique"), ("duel", "bm25", "full-context", "-d", "nobody"),
        ("run",), ("run", "-m", "nobody"), ("run", "-m", "bm25", "-d", "nobody"), ("nobody",),
        ("run", "-m", "bm25", "-d", "pocket/musique", "--engine", "nobody"), (*_PLAN, "--config", "nowhere"),
        (*_PLAN, "--suite", "nobody"), (*_PLAN, "--profile", "nobody"), (*_PLAN, "--cache", "nobody"),
        (*_PLAN, "--fail-under", "x"), (*_PLAN, "--fail-under", "x=nan"), (*_PLAN, "--keep-texts", "x"),
    ):  # fmt: skip
        refused(kind, words)


# Kills


def _row(method: str, *more: str) -> list[str]:
    words = ["run", "-m", method, "-d", "pocket/musique", "--model", "scripted", "--mlflow", "off"]
    sets = ["model.script=replies.yaml", "dataset.tokens=300", "dataset.questions=4"]
    return [*words, "--quiet", "--set", *sets, *more]


@contextlib.contextmanager
def own_cache(name: str) -> Iterator[None]:
    """A cache of its own, so that nothing is found there."""
    before = os.environ.get("HARNESS_CACHE", "")
    os.environ["HARNESS_CACHE"] = str(Path.cwd() / name)
    try:
        yield
    finally:
        os.environ["HARNESS_CACHE"] = before


def killed(
    kind: Kind, words: Words, out: str, rng: random.Random, rounds: int, span: float
) -> None:
    """Kill a command at random moments, then let it end."""
    for _ in range(rounds):
        kind.tries += 1
        child = start(words, lambda: None)
        if ended(child, rng.uniform(0, span)) is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    done = outcome(words)
    if done.code != 0:
        kind.fell.append(f"{out}: exit code {done.code} after kills; {done.err[-160:]}")


def killed_runs(kind: Kind, words: Words, kills: int, rng: random.Random) -> None:
    """Kill a run, its index included, and compare the records with those of an undisturbed one."""
    with own_cache(f"{kind.name} whole cache"):
        begun = time.monotonic()
        done = outcome([*words, "--out", f"{kind.name} whole"])
        span = time.monotonic() - begun
    if done.code != 0:
        kind.fell.append(f"undisturbed: exit code {done.code}; {done.err[-300:]}")
        return
    whole = records(f"{kind.name} whole")
    for number in range(-(-kills // 5)):
        out = f"{kind.name} {number}"
        with own_cache(f"{out} cache"):
            killed(kind, [*words, "--out", out], out, rng, 5, span)
        if _answers(records(out)) != _answers(whole):
            kind.fell.append(f"{out}: other records than those of an undisturbed run")


def _answers(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "usage"} for row in rows]


def killed_commands(kind: Kind, words: Words, kills: int, rng: random.Random) -> None:
    """Kill a command over a stored run: the run's records are as they were, and it ends then."""
    for number in range(-(-kills // 5)):
        folder = f"{kind.name} {number}"
        shutil.copytree("stored", folder)
        before = len(records(folder))
        killed(kind, [*words, folder], folder, rng, 5, 1.0)
        if len(records(folder)) != before:
            kind.fell.append(f"{folder}: {len(records(folder))} records, {before} before")


# The disk, and what shares it


def full_disk(kind: Kind, rng: random.Random, tries: int) -> None:
    """No file may grow beyond a size: a sentence and exit code 3, and the same command ends well."""
    commands = (_row("bm25"), _row("bm25", "--"), ["report", "stored", "--html", "page.html"])
    for number in range(tries):
        words = [word for word in commands[number % len(commands)] if word != "--"]
        if words[0] == "run":
            words = [*words, "--out", f"full {number}"]
        size = rng.randrange(0, 9000)

        def limit(size: int = size) -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

        kind.tries += 1
        with own_cache(f"full cache {number}"):
            child = start(words, limit)
            code = ended(child, _LONGEST)
            again = outcome(words)
        if code not in (0, 2, 3) or again.code != 0:
            kind.fell.append(f"{' '.join(words)[:60]} with {size} bytes: {code}, then {again.code}")


def two_processes(kind: Kind, tries: int) -> None:
    """Two processes write one folder and one cache: both end well, or one is told to wait."""
    for number in range(tries):
        kind.tries += 1
        out = f"two {number}"
        with own_cache(f"{out} cache"):
            words = _row("bm25", "--out", out)
            pair = [start(words, lambda: None) for _ in range(2)]
            codes = sorted(ended(child, _LONGEST) or 0 for child in pair)
            last = outcome(words)
        if codes not in ([0, 0], [0, 2]) or last.code != 0 or len(records(out)) != 4:
            kind.fell.append(f"{out}: exit codes {codes}, then {last.code}")


def prepare() -> None:
    """Write the files that the attacks use, and a stored run."""
    Path("replies.yaml").write_text(json.dumps({"replies": [{"reply": "an answer"}]}))
    Path("rows.jsonl").write_text('{"question": "Where?", "answer": "here"}\n')
    Path("empty").mkdir()
    # In this process, so that all is imported when it forks.
    runs = ([*_row("bm25"), "--out", "stored"], [*_row("raptor"), "--out", "other"])
    for command in (*runs, ["report", "stored"], ["score", "stored"]):
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
            harness(command)


Attack = Callable[[Kind], None]


def attacks(rng: random.Random, kills: int) -> dict[str, Attack]:
    """All attacks by name. kills: of each kind."""
    found: dict[str, Attack] = {
        "flags": bad_numbers,
        "settings": bad_settings,
        "words": bad_words,
        "full disk": partial(full_disk, rng=rng, tries=kills),
        "two processes": partial(two_processes, tries=kills // 2),
    }
    for method in ("bm25", "pecan", "raptor"):
        found[f"kill {method}"] = partial(killed_runs, words=_row(method), kills=kills, rng=rng)
    for command in ("score", "merge", "track"):
        found[f"kill {command}"] = partial(killed_commands, words=[command], kills=kills, rng=rng)
    return found


def main() -> int:
    """Parse the arguments, attack, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=20, help="of each kind")
    parser.add_argument("--kinds", default="", help="only these, NAME,...")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    os.chdir(folder)
    os.environ |= {"HARNESS_HOME": str(folder / "home"), "HARNESS_CACHE": str(folder / "cache")}
    os.environ |= {"HF_ENDPOINT": "http://127.0.0.1:9"}  # nothing is fetched
    prepare()
    fell = 0
    print("| kind | tries | fell |\n|---|---|---|", flush=True)
    for name, attack in attacks(random.Random(options.seed), options.kills).items():
        if options.kinds and name not in options.kinds.split(","):
            continue
        kind = Kind(name)
        attack(kind)
        print(f"| {kind.name} | {kind.tries} | {len(kind.fell)} |", flush=True)
        for sentence in kind.fell:
            sys.stderr.write(f"{kind.name}: {sentence}\n")
        fell += len(kind.fell)
    return 1 if fell else 0


if __name__ == "__main__":
    sys.exit(main())
