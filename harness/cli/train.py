"""`harness train METHOD`: data, adapters, measures; every part is kept, and the same command goes on.

OUT/data/<task>.jsonl     scenes to train on          OUT/checkpoint/<task>   where each adapter stands
OUT/adapters/<task>       the adapter with its card   OUT/adapters/CARD.md    before and after       OUT/log.jsonl
"""

from __future__ import annotations

import json as json_
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.common import columns, sets_of, split
from harness.cli.stopping import say, say_again
from harness.cli.train_flags import AdapterFlags
from harness.cli.training_run import check, feed, watched
from harness.errors import UnknownName, UserError

if TYPE_CHECKING:
    from harness.config.schema import ModelConfig
    from harness.method import Method, TrainingTask
    from harness.training.course import Course
    from harness.training.evaluate import Measure


_ROUTED = ("model", "dataset", "teacher")


@dataclass(frozen=True)
class Asked:
    """out: the training's folder; eval_only: measure what it holds; json: how the measures are printed."""

    out: Path
    eval_only: bool = False
    json: bool = False


def main(name: str, flags: AdapterFlags, asked: Asked) -> int:
    """Train and measure. 2 for what cannot be run, raised as UserError; 130 when interrupted."""
    course = _course(name, flags, asked.out)
    from harness.storage.files import save_error, touch
    from harness.training.course import examine

    if not asked.eval_only:
        touch(asked.out)
    try:
        if not asked.eval_only and not _trained(course, flags):
            say_again("interrupted; a checkpoint of the step is saved", ["harness", *sys.argv[1:]])
            return 130
        if flags.steps is not None and not course.finished():
            say(f"stopped after {flags.steps} steps; the same command without --steps goes on")
            return 0
        _show(examine(course, say), asked)
    except OSError as error:
        raise save_error(asked.out, error) from error
    _advise(course, name)
    return 0


def _trained(course: Course, flags: AdapterFlags) -> bool:
    """Run the training; False when it was asked to stop."""
    params = {"method": course.method_name, "base": course.base.name, "seed": str(course.seed)}
    params |= {"teacher": flags.teacher or "the synthetic world", "dataset": flags.dataset or ""}
    told = feed(course.out, flags.mlflow, params, "adapter training")
    done, _ = watched(lambda tell, stop: course.run(tell, stop, flags.steps), told)
    return done


def _show(found: Sequence[Measure], asked: Asked) -> None:
    from harness.training.evaluate import as_json, rows_of

    if asked.json:
        print(json_.dumps({"adapters": str(asked.out / "adapters"), "measures": as_json(found)}))
        return
    print(columns(rows_of(found)))
    print(asked.out / "adapters" / "CARD.md")


def _advise(course: Course, name: str) -> None:
    """How the adapters are used."""
    words = [f"roles.refiner.adapters.{task.name}={course.out / 'adapters' / task.name}" for task in course.tasks]
    say(f"use them: harness run --method {name} ... --set {' '.join(words)}")


# --- what is asked for ------------------------------------------------------------------------------------------------


def _course(name: str, flags: AdapterFlags, out: Path) -> Course:
    """All that is said, checked, before anything is loaded. Raises UserError."""
    found, method = _method(name)
    check(flags.device, flags.mlflow)
    if (flags.teacher is None) != (flags.dataset is None):
        raise UserError("a teacher labels a data set: name both --teacher MODEL and --dataset NAME, or neither")
    if flags.dataset is None and flags.data is not None:
        raise UserError("--data is where the rows of --dataset are; name the data set too")
    said = _routed(sets_of(flags.sets))
    base = _model(flags.model, said["model"])
    from harness.llm.model_info import model_facts
    from harness.training import settings as read
    from harness.training.course import Course, Labels

    tasks = _tasks(found, method, flags.task)
    profile = flags.profile or ("pocket" if base.embedded else "paper")
    own = Path(flags.config) if flags.config is not None else None
    every = [task.name for task in method.training()]
    settings = read.read(_family(found, every), profile, every, said[""], own)
    labels = None
    if flags.teacher is not None and flags.dataset is not None:
        labels = Labels(_model(flags.teacher, said["teacher"]), _dataset(flags, said["dataset"]))
    if base.backend not in ("hf", "random"):
        raise UserError(f"'{base.name}' runs elsewhere, so it cannot be trained here; name a folder or a hub id")
    if problems := model_facts(base).problems:
        raise UserError(problems[0])
    for task in tasks if labels is None else ():
        settings.recipes(task.name, task.skill.name)
    return Course(found, method, base, tasks, settings, out, flags.seed, flags.device, labels)


def _routed(sets: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Assignments by what they are of: "model", "dataset", "teacher", and "" for the training's own."""
    found: dict[str, dict[str, Any]] = {part: {} for part in (*_ROUTED, "")}
    for key, value in sets.items():
        head, _, rest = key.partition(".")
        if head in _ROUTED and rest:
            found[head][f"model.{rest}" if head == "teacher" else key] = value
        else:
            found[""][key] = value
    return found


def _method(name: str) -> tuple[str, Method]:
    """The preset's name, and its method. Raises UnknownName, UserError for one without adapters."""
    from harness.config.layers import Choices
    from harness.config.resolve import resolve_one
    from harness.engine.plan import make_method

    drawn = resolve_one("methods", Choices(method=name))
    found, method = str(drawn.parts["method"].name), make_method(drawn)
    if not method.training():
        raise UserError(f"'{found}' has no adapters that could be trained; longrefiner has, for instance")
    return found, method


def _family(name: str, tasks: Sequence[str]) -> str:
    """The name that settings are kept under: the preset's, or the beginning of it that has some."""
    from harness.training.settings import profiles

    parts = name.split("-")
    heads = ["-".join(parts[:n]) for n in range(len(parts), 0, -1)]
    return next((head for head in heads if profiles(head)), name) if tasks else name


def _tasks(name: str, method: Method, wanted: Sequence[str]) -> list[TrainingTask]:
    every = {task.name: task for task in method.training()}
    chosen = split(wanted)
    for task in chosen:
        if task not in every:
            raise UnknownName(f"task of '{name}'", task, every)
    return [task for key, task in every.items() if not chosen or key in chosen]


def _model(name: str | None, sets: Mapping[str, Any]) -> ModelConfig:
    from harness.config.layers import Choices
    from harness.config.resolve import resolve_one

    found: ModelConfig = resolve_one("models", Choices(model=name, sets=sets)).parts["model"]
    return found


def _dataset(flags: AdapterFlags, sets: Mapping[str, Any]) -> Any:
    from harness.config.layers import Choices
    from harness.config.resolve import resolve_one

    return resolve_one("datasets", Choices(dataset=flags.dataset, data=flags.data, sets=sets)).parts["dataset"]
