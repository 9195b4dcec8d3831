"""LongRefiner's stages: seconds and tokens of eight documents a question, and what training data and models change.

    python -m bench.longrefiner [--questions 4]
    python -m bench.longrefiner --scaling 150 600 2400 [--models pocket-llama FOLDER ...]

The first runs the method as users do (profile pocket, pocket/retrieved, the embedded model) and books each stage: in
between, structuring is a document's and done once, the other four are a question's. A second run into another folder
shows that no document is structured again. --scaling trains the adapters on so many scenes, for each model named, and
prints their exam.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from harness.plan import plan_choices
from harness.progress import Silent
from harness.runner import run
from harness.settings import Choices
from harness.store import find_runs

DOCUMENTS = 8
STAGES = {
    "structuring": ("methods.longrefiner.method.structure", "document"),
    "analysis": ("methods.longrefiner.method.weigh", "question"),
    "scoring": ("methods.longrefiner.method.fits", "question"),
    "selection": ("methods.longrefiner.method.select_titles", "question"),
    "choice": ("methods.longrefiner.method.choose", "question"),
    "reading": ("methods.reading.ask", "question"),
}


@dataclass
class Booked:
    """Of one stage: seconds, tokens in and out and passes of all its calls; texts: that a scoring call compares."""

    calls: int = 0
    seconds: float = 0.0
    read: int = 0
    written: int = 0
    texts: list[int] = field(default_factory=list)


def clocked(inner: Callable[..., Any], booked: Booked) -> Callable[..., Any]:
    """`inner`, its time and the events of its meter added to `booked`."""

    def called(*args: Any, **more: Any) -> Any:
        meter = next((a.meter for a in args if hasattr(a, "meter")), None)
        before = len(meter.events) if meter is not None else 0
        began = time.perf_counter()
        try:
            return inner(*args, **more)
        finally:
            booked.calls += 1
            booked.seconds += time.perf_counter() - began
            for event in meter.events[before:] if meter is not None else ():
                booked.written += event.new if event.kind == "decode" else 0
                booked.read += event.new if event.kind != "decode" else 0
            if len(args) == 4 and isinstance(args[2], list):
                booked.texts.append(len(args[2]))

    return called


@contextlib.contextmanager
def stages() -> Iterator[dict[str, Booked]]:
    """The stages of everything that runs inside."""
    found = {name: Booked() for name in STAGES}
    with contextlib.ExitStack() as stack:
        for name, (target, _) in STAGES.items():
            module, _, attribute = target.rpartition(".")
            inner = getattr(__import__(module, fromlist=[attribute]), attribute)
            stack.enter_context(mock.patch(target, clocked(inner, found[name])))
        yield found


def chosen(preset: str, questions: int) -> Choices:
    keys = {"dataset.tokens": 205 * DOCUMENTS, "dataset.hops": [1, 2]}
    return Choices(method=preset, dataset="pocket/retrieved", profile="pocket", limit=questions, sets=keys)


def latency(preset: str, questions: int, folder: Path) -> None:
    run(plan_choices(chosen(preset, 1)), folder / "warm", command=["bench"], progress=Silent())
    os.environ["HARNESS_CACHE"] = str(folder / "cache")
    with stages() as found:
        run(plan_choices(chosen(preset, questions)), folder / "first", command=["bench"], progress=Silent())
    documents = lines(folder / "first", "documents.jsonl")
    print(f"\n{preset}: {questions} questions, {len(documents)} documents, {DOCUMENTS} a question")
    print(f"{'stage':<12} {'ms a document':>14} {'ms a question':>14} {'tokens read':>12} {'written':>8} {'calls':>6}")
    for name, one in found.items():
        each = one.seconds * 1e3 / max(1, len(documents)) if STAGES[name][1] == "document" else None
        whole = one.seconds * 1e3 / questions
        shown = "" if each is None else f"{each:.0f}"
        print(
            f"{name:<12} {shown:>14} {whole:>14.0f} {one.read / questions:>12.0f} {one.written / questions:>8.0f} "
            f"{one.calls / questions:>6.1f}"
        )
    scored = found["scoring"]
    print(
        f"scoring: {scored.calls} calls for {questions} questions, {statistics.mean(scored.texts):.0f} paragraphs each"
    )
    with stages() as again:
        run(plan_choices(chosen(preset, questions)), folder / "second", command=["bench"], progress=Silent())
    seen = lines(folder / "second", "documents.jsonl")
    hits = sum(line["status"] == "hit" for line in seen)
    print(
        f"again into another folder: {hits} of {len(seen)} documents hit, {again['structuring'].calls} structured anew"
    )


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    (found,) = find_runs(folder)
    return [json.loads(line) for line in (found / name).read_text(encoding="utf-8").splitlines()]


def scaling(scenes: list[int], models: list[str], folder: Path) -> None:
    """Exams of adapters that were trained on more and more scenes, for each model."""
    from harness.settings import resolve_one
    from harness.training.course import Course, examine
    from harness.training.settings import read
    from methods.longrefiner import LongRefiner
    from methods.longrefiner.config import LongRefinerConfig

    method = LongRefiner(LongRefinerConfig())
    tasks = method.training()
    print(f"{'model':<16} {'scenes':>7}  " + "  ".join(f"{t.headline:>22}" for t in tasks) + "   minutes")
    for name in models:
        base = resolve_one("models", Choices(model=name)).parts["model"]
        for count in scenes:
            settings = read("longrefiner", "pocket", [t.name for t in tasks], {"scenes": count})
            made = Course("longrefiner", method, base, tasks, settings, folder / f"{base.name}-{count}", 0)
            began = time.perf_counter()
            made.run(lambda _: None, threading.Event(), None)
            minutes = (time.perf_counter() - began) / 60
            heads = {one.task: one for one in reversed(examine(made, lambda _: None))}
            told = [heads[t.name] for t in tasks]
            cells = [f"{100 * (o.before.mean or 0):.0f} -> {100 * (o.after.mean or 0):.0f}" for o in told]
            print(
                f"{base.name:<16} {count:>7}  " + "  ".join(f"{c:>22}" for c in cells) + f"  {minutes:>8.1f}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=4)
    parser.add_argument("--presets", nargs="+", default=["longrefiner", "longrefiner-no-adapters"])
    parser.add_argument("--scaling", type=int, nargs="+", metavar="SCENES")
    parser.add_argument("--models", nargs="+", default=["pocket-llama"])
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["HARNESS_HOME"] = str(folder / "home")
        if flags.scaling:
            scaling(flags.scaling, flags.models, folder)
            return
        for preset in flags.presets:
            latency(preset, flags.questions, folder / preset)


if __name__ == "__main__":
    main()
