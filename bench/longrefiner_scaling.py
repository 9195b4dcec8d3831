"""What LongRefiner's training data and its refiner's size change (LongRefiner, figure 3): exam, score, recall, latency.

    python -m bench.longrefiner --scaling 150 600 2400 [--models pocket-llama FOLDER ...] [--questions 50]

For each model and each number of scenes the three adapters are trained (profile pocket) and examined; then the method
answers questions of pocket/retrieved with that refiner, read by the same model throughout. Recall: share of questions
whose answer stands in what was shown. Milliseconds are those spent in models: a document's structuring, and all that a
question costs. One training is one seed: nearby numbers are not a ranking.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config.layers import Choices
from harness.config.resolve import resolve_part
from harness.engine.plan import plan_choices
from harness.engine.progress import Silent
from harness.engine.runner import run
from harness.storage.run_folder import read_run
from harness.training.course import Course, examine
from harness.training.settings import read
from methods.longrefiner import LongRefiner
from methods.longrefiner.config import LongRefinerConfig
from reports.answer_recall import answer_shown

TEXTS = {"dataset.tokens": 1640, "dataset.hops": [1, 2]}


@dataclass(frozen=True)
class Sizes:
    """questions: answered with each refiner; exam: scenes a task, None = the profile's; reader: None = the default."""

    questions: int
    exam: int | None = None
    reader: str | None = None


def scaling(scenes: list[int], models: list[str], sizes: Sizes, folder: Path) -> None:
    """A line for each model and number of scenes."""
    os.environ["HARNESS_CACHE"] = str(folder / "cache")
    tasks = LongRefiner(LongRefinerConfig()).training()
    heads = [task.headline for task in tasks]
    head = ["refiner", "scenes", "minutes", *heads, "score", "recall", "ms a document", "ms a question"]
    print("  ".join(f"{h:>{max(len(h), 14)}}" for h in head), flush=True)
    for name in models:
        for count in scenes:
            made, minutes, exam = trained(name, count, sizes, folder)
            score, recall, document, question = answered(name, made, sizes, folder)
            told = [made.base.name, str(count), f"{minutes:.1f}", *exam, f"{100 * score:.1f}", f"{100 * recall:.1f}"]
            told += [f"{document:.0f}", f"{question:.0f}"]
            print("  ".join(f"{t:>{max(len(h), 14)}}" for t, h in zip(told, head, strict=True)), flush=True)


def trained(name: str, count: int, sizes: Sizes, folder: Path) -> tuple[Course, float, list[str]]:
    """The adapters, the minutes of their training, and the headline of each task's exam: before -> after."""
    method = LongRefiner(LongRefinerConfig())
    tasks = method.training()
    base = resolve_part("models", Choices(model=name)).parts["model"]
    sets: dict[str, Any] = {"scenes": count} | ({} if sizes.exam is None else {"exam": sizes.exam})
    settings = read("longrefiner", "pocket", [t.name for t in tasks], sets)
    made = Course("longrefiner", method, base, tasks, settings, folder / f"{base.name}-{count}", 0)
    began = time.perf_counter()
    made.run(lambda _: None, threading.Event(), None)
    minutes = (time.perf_counter() - began) / 60
    first = {one.task: one for one in reversed(examine(made, lambda _: None))}
    exam = [
        f"{100 * (o.before.mean or 0):.0f} -> {100 * (o.after.mean or 0):.0f}" for o in (first[t.name] for t in tasks)
    ]
    return made, minutes, exam


def answered(name: str, made: Course, sizes: Sizes, folder: Path) -> tuple[float, float, float, float]:
    """Score, recall, and milliseconds of a document and of a question, with the trained refiner."""
    said = {f"roles.refiner.adapters.{t.name}": str(made.folder(t)) for t in made.tasks}
    sets = {**TEXTS, "dataset.questions": sizes.questions, "roles.refiner": name, **said}
    plan = plan_choices(Choices("longrefiner", "pocket/retrieved", model=sizes.reader, profile="pocket", sets=sets))
    done = run(plan, folder / "runs" / made.out.name, command=["bench"], progress=Silent())
    if done.failed:
        raise SystemExit(f"{done.failed} questions failed in {done.folder}")
    examples = {example.question.id: example for example in plan.dataset.examples}
    records = read_run(done.folder).records
    shown = [answer_shown(row, examples[row["question_id"]], plan.dataset.documents) for row in records]
    told = [one for one in shown if one is not None]
    usage, index = done.summary["usage"], done.summary["index"]["usage_per_document"]
    score = done.summary["scores"][plan.config.dataset.scorers[0]]["mean"]
    question = sum(usage.get(phase, {}).get("seconds", 0.0) for phase in ("search", "answer"))
    document = index.get("index", {}).get("seconds", 0.0)
    return score, sum(told) / max(len(told), 1), document * 1e3, question * 1e3
