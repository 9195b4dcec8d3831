"""LongRefiner's stages: seconds and tokens of eight documents a question, and what training data and models change.

    python -m bench.longrefiner [--questions 4]
    python -m bench.longrefiner --scaling 150 600 2400 [--models pocket-llama FOLDER ...]      (longrefiner_scaling.py)

The first runs the method as users do (profile pocket, pocket/retrieved, the embedded model) and books each stage: in
between, structuring is a document's and done once, the other four are a question's. A second run into another folder
shows that no document is structured again. --scaling trains the adapters on so many scenes, for each model named, and
prints their exam, and score, recall and latency of the method with them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from harness.config.layers import Choices
from harness.engine.plan import plan_choices
from harness.engine.progress import Silent
from harness.engine.runner import run
from harness.errors import UserError
from harness.storage.run_folder import find_runs

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, help="default 4; with --scaling 50")
    parser.add_argument("--presets", nargs="+", help="default: longrefiner longrefiner-no-adapters")
    parser.add_argument("--scaling", type=int, nargs="+", metavar="SCENES")
    parser.add_argument("--models", nargs="+", help="refiners, with --scaling; default: pocket-llama")
    parser.add_argument("--exam", type=int, help="scenes that each adapter is examined on, with --scaling")
    parser.add_argument("--reader", help="the model that answers, with --scaling; default: the embedded one")
    flags = parser.parse_args()
    alone = ("presets",) if flags.scaling else ("models", "exam", "reader")
    if unused := [f"--{name}" for name in alone if getattr(flags, name) is not None]:
        parser.error(f"{', '.join(unused)} {'does not go' if flags.scaling else 'goes'} with --scaling")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["HARNESS_HOME"] = str(folder / "home")
        if flags.scaling:
            from bench.longrefiner_scaling import Sizes, scaling

            models = flags.models or ["pocket-llama"]
            try:
                scaling(flags.scaling, models, Sizes(flags.questions or 50, flags.exam, flags.reader), folder)
            except UserError as e:
                raise SystemExit(f"error: {e}") from e
            return
        for preset in flags.presets or ["longrefiner", "longrefiner-no-adapters"]:
            latency(preset, flags.questions or 4, folder / preset)


if __name__ == "__main__":
    main()
