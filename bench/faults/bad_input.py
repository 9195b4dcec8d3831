"""Bad input: numbers, settings, names and folders that a command must refuse in one sentence."""

import itertools
from collections.abc import Sequence

from bench.faults.commands import Bench, Kind, Words, outcome

_NUMBERS = ("0", "-1", "1e30", "nan", "inf", "text", "", "1" + 30 * "0")


def refused(kind: Kind, words: Words, codes: Sequence[int] = (2, 3)) -> None:
    """Count a command that must be refused in a sentence."""
    kind.tries += 1
    done = outcome(words)
    lines = done.err.splitlines()
    told = any(line.startswith("error: ") for line in lines) or "Usage" in done.err
    if done.code not in codes or "Traceback" in done.err or not told:
        last = lines[-1][:160] if lines else ""
        kind.fell.append(f"{' '.join(words)[:140]}: exit code {done.code}; {last}")


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


def bad_numbers(kind: Kind, _: Bench) -> None:
    """Every numeric flag with numbers that it cannot take, and with no number."""
    for words, flags in _FLAGS.items():
        for flag, value in itertools.product(flags, _NUMBERS):
            if (flag, value) not in _VALID:
                refused(kind, [*words, flag, value])


def bad_settings(kind: Kind, _: Bench) -> None:
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


def bad_words(kind: Kind, _: Bench) -> None:
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
