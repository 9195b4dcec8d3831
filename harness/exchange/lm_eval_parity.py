"""Stored predictions scored by lm-eval's LongBench scorers, beside the scores of the run.

    for parity in compared(run, rows.examples, scorers()):
        parity.scorer, parity.function, parity.differing

lm-eval (https://github.com/EleutherAI/lm-evaluation-harness, MIT) keeps the functions of its LongBench tasks in
lm_eval/tasks/longbench/metrics.py. Only that file of the installed package is executed, not lm_eval itself, which
takes seconds to import. A task's file names the function that scores it.
"""

from __future__ import annotations

import importlib.util
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.errors import CannotRun
from harness.storage.run_folder import StoredRun
from harness.types import Example

INSTALL = "pip install 'lm-eval[longbench]'"
_TASK_FUNCTION = re.compile(r"^process_results: !function metrics\.(\w+)\s*$", re.MULTILINE)
_SAME = 1e-9  # F1 and ROUGE are sums and quotients of the same small numbers in another order

Function = Callable[[dict[str, Any], list[str]], Mapping[str, float]]


@dataclass(frozen=True)
class LongBench:
    """lm-eval's LongBench scorers: the module that has them, the folder of its tasks, lm-eval's version."""

    module: ModuleType
    folder: Path
    version: str

    def function(self, name: str) -> Function | None:
        """lm-eval's get_<name>, for the scorer "longbench.<name>"; None where it has none."""
        return getattr(self.module, f"get_{name}", None)

    def of_task(self, dataset: str) -> tuple[str, Function] | None:
        """Name and function of what scores "longbench/<task>"; None for other data sets."""
        path = self.folder / f"{dataset.removeprefix('longbench/')}.yaml"
        if not dataset.startswith("longbench/") or not path.is_file():
            return None
        named = _TASK_FUNCTION.search(path.read_text(encoding="utf-8"))
        return None if named is None else (named[1], getattr(self.module, named[1]))


@dataclass(frozen=True)
class Question:
    """A question's score here and by lm-eval."""

    id: str
    here: float
    there: float
    prediction: str

    @property
    def differs(self) -> bool:
        """Whether the two are not the same but for rounding."""
        return abs(self.here - self.there) > _SAME


@dataclass(frozen=True)
class Parity:
    """A score of a run beside the one that `function` of lm-eval gives."""

    run: StoredRun
    scorer: str
    function: str
    questions: tuple[Question, ...]

    @cached_property
    def differing(self) -> tuple[Question, ...]:
        """The questions that differ, the largest difference first."""
        return tuple(sorted((q for q in self.questions if q.differs), key=lambda q: -abs(q.here - q.there)))

    @property
    def means(self) -> tuple[float, float]:
        """Mean here, mean by lm-eval."""
        n = len(self.questions)
        return sum(q.here for q in self.questions) / n, sum(q.there for q in self.questions) / n


def scorers() -> LongBench:
    """The scorers of the installed lm-eval. Raises CannotRun with the command that installs what is missing."""
    spec = importlib.util.find_spec("lm_eval")
    if spec is None or not spec.submodule_search_locations:
        raise CannotRun(f"lm-eval is not installed, so its scorers cannot be used; run: {INSTALL}")
    folder = Path(next(iter(spec.submodule_search_locations))) / "tasks" / "longbench"
    try:
        version = metadata.version("lm_eval")
    except metadata.PackageNotFoundError:
        version = "unknown"
    file = importlib.util.spec_from_file_location("lm_eval_longbench_metrics", folder / "metrics.py")
    if file is None or file.loader is None or not (folder / "metrics.py").is_file():
        raise CannotRun(f"lm-eval {version} has no tasks/longbench/metrics.py; run: {INSTALL}")
    module = importlib.util.module_from_spec(file)
    try:
        with warnings.catch_warnings(action="ignore"):
            file.loader.exec_module(module)
    except ImportError as error:
        raise CannotRun(f"lm-eval's LongBench scorers lack a package ({error.name or error}); run: {INSTALL}") from None
    logging.getLogger("jieba").setLevel(logging.WARNING)  # else it reports that it reads its dictionary
    return LongBench(module, folder, version)


def compared(run: StoredRun, examples: Mapping[str, Example], longbench: LongBench) -> Iterator[Parity]:
    """Every score of the run that lm-eval has a scorer for; failed questions are left out.

    Those are the scores named longbench.*, and on LongBench's data sets the headline, beside what lm-eval's task of
    that name computes.
    """
    names = list(dict.fromkeys(name for record in run.records for name in record["scores"]))
    pairs: list[tuple[str, str, Function]] = []
    headline = str(run.config["dataset"]["scorers"][0])
    if headline in names and (task := longbench.of_task(str(run.config["dataset"]["name"]))):
        pairs.append((headline, *task))
    for name in names:
        family, _, short = name.partition(".")
        function = longbench.function(short) if family == "longbench" else None
        if function is not None and not any(name == known for known, _, _ in pairs):
            pairs.append((name, f"get_{short}", function))
    for scorer, name, function in pairs:
        questions = tuple(_scored(run, examples, scorer, function))
        if questions:
            yield Parity(run, scorer, name, questions)


def _scored(run: StoredRun, examples: Mapping[str, Example], scorer: str, function: Function) -> Iterator[Question]:
    for record in run.records:
        name, here = str(record["question_id"]), record["scores"].get(scorer)
        if record["error"] or here is None or name not in examples:
            continue
        example, prediction = examples[name], str(record["prediction"])
        options = example.question.options or example.gold.extra.get("all_classes")
        doc = {"answers": list(example.gold.answers), "all_classes": list(options) if options else None}
        values = function(doc, [prediction])
        yield Question(name, float(here), float(next(iter(values.values()))), prediction)
