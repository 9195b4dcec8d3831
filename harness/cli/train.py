"""`harness train METHOD`: make training data, train adapters, measure them; the same command resumes.

OUT/data/<task>.jsonl     scenes to train on          OUT/checkpoint/<task>   to resume from
OUT/adapters/<task>       the adapter with its card   OUT/adapters/CARD.md    before and after       OUT/log.jsonl
"""

from __future__ import annotations

import json as json_
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.options import TrainingOut, sets_of, split
from harness.cli.output import columns, say
from harness.cli.stopping import say_again
from harness.cli.training_labels import labels as labels_of
from harness.cli.training_run import TrainOptions, check, feed, watched
from harness.errors import UnknownName, UserError

if TYPE_CHECKING:
    from harness.config.schema import ModelConfig
    from harness.method import Method
    from harness.training.course import Course
    from harness.training.exam import Measure
    from harness.training.reader import ReaderTraining


_READER, _READER_PROFILE = "reader", "cpu"
_ROUTED = ("model", "dataset", "teacher")


def train(
    method: Annotated[
        str,
        typer.Argument(
            metavar="METHOD", help="A method with adapters (longrefiner), or reader: one adapter for all methods."
        ),
    ],
    options: TrainOptions,
    out: TrainingOut,
) -> int:
    """Train and evaluate a method's adapters; the same command resumes.

    Measures each adapter before and after training, and writes a model card. `reader` learns from training rows in the
    folder --data.
    """
    folder = Path(out)
    if method == _READER:
        return _train_reader(options, folder)
    course = _course(method, options, folder)
    from harness.storage.files import save_error, touch
    from harness.training.course import examine

    if options.plan:
        from harness.training.training_forecast import forecasts, table

        if course.labels is None:
            raise UserError("--plan forecasts a training on labels; name --teacher MODEL and --dataset NAME")
        print(columns(table(list(forecasts(course, say)))))
        return 0
    if not options.eval_only:
        touch(folder)
    try:
        if not options.eval_only and not _trained(course, options):
            say_again("interrupted; labels and a checkpoint of the step are saved")
            return 130
        if options.steps is not None and not course.finished():
            say(f"stopped after {options.steps} steps; the same command without --steps resumes")
            return 0
        _show(examine(course, say), folder, json=options.json)
    except OSError as error:
        raise save_error(folder, error) from error
    words = [f"roles.refiner.adapters.{task.name}={course.out / 'adapters' / task.name}" for task in course.tasks]
    say(f"use them: harness run --method {method} ... --set {' '.join(words)}")
    return 0


def _trained(course: Course, options: TrainOptions) -> bool:
    """Run the training. Returns False if it was interrupted."""
    params = {"method": course.method_name, "base": course.base.name, "seed": str(course.seed)}
    params |= {"teacher": options.teacher or "the synthetic world", "dataset": options.dataset or ""}
    feed_ = feed(course.out, options.mlflow, params, "adapter training")
    done, _ = watched(lambda report, stop: course.run(report, stop, options.steps), feed_)
    return done


def _show(measures: Sequence[Measure], folder: Path, *, json: bool) -> None:
    from harness.training.exam import as_json, rows_of

    if json:
        print(json_.dumps({"adapters": str(folder / "adapters"), "measures": as_json(measures)}))
        return
    print(columns(rows_of(measures)))
    print(folder / "adapters" / "CARD.md")


# --- what the options ask for -----------------------------------------------------------------------------------------


def _course(name: str, options: TrainOptions, out: Path) -> Course:
    """Check all options before anything is loaded. Raises UserError."""
    preset, method = _method(name)
    check(options.device, options.mlflow)
    if (options.teacher is None) != (options.dataset is None):
        raise UserError("a teacher labels a data set: name both --teacher MODEL and --dataset NAME, or neither")
    of_dataset = {"--data": options.data, "--exclude": options.exclude, "--pages": options.pages}
    for option, value in of_dataset.items():
        if options.dataset is None and value is not None:
            raise UserError(f"{option} is where the rows of --dataset are; name the data set too")
    given = _routed(sets_of(options.sets))
    from harness.config.resolve import part
    from harness.llm.model_facts import greedy
    from harness.llm.model_info import model_facts
    from harness.training import settings as read
    from harness.training.course import Course

    base: ModelConfig = greedy(part("models", model=options.model, sets=given["model"]), "a model in training")
    chosen = split(options.task)
    offered = {task.name: task for task in method.training()}
    if foreign := [task for task in chosen if task not in offered]:
        raise UnknownName(f"task of '{preset}'", foreign[0], offered)
    tasks = [task for name, task in offered.items() if not chosen or name in chosen]
    profile = options.profile or ("pocket" if base.embedded else "paper")
    own = Path(options.config) if options.config is not None else None
    settings = read.read(read.Settings, _family(preset), profile, list(offered), given[""], own)
    labels = None
    if options.teacher is not None and options.dataset is not None:
        teacher = greedy(part("models", model=options.teacher, sets=given["teacher"]), "a teacher")
        labels = labels_of(options, settings, teacher, given["dataset"])
    if base.backend not in ("hf", "random"):
        raise UserError(
            f"'{base.name}' runs on a server, so it cannot be trained here; name a model folder or a hub id"
        )
    if problems := model_facts(base).problems:
        raise UserError(problems[0])
    for task in tasks if labels is None else ():
        settings.recipes(task.name, task.skill.name)
    return Course(preset, method, base, tasks, settings, out, options.seed, options.device, labels)


def _routed(sets: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Assignments by what they are of: "model", "dataset", "teacher", and "" for the training's own."""
    routed: dict[str, dict[str, Any]] = {part: {} for part in (*_ROUTED, "")}
    for key, value in sets.items():
        head, _, rest = key.partition(".")
        if head == "datasets" and rest:
            routed["dataset"][key] = value
        elif head in _ROUTED and rest:
            routed[head][f"model.{rest}" if head == "teacher" else key] = value
        else:
            routed[""][key] = value
    return routed


def _method(name: str) -> tuple[str, Method]:
    """The preset's name, and its method. Raises UnknownName, UserError for one without adapters."""
    from harness.config.layers import Choices
    from harness.config.resolve import resolve_part
    from harness.engine.plan import make_method

    resolution = resolve_part("methods", Choices(method=name))
    preset, method = str(resolution.parts["method"].name), make_method(resolution)
    if not method.training():
        raise UserError(f"'{preset}' has no adapters to train; name a method that has, for instance longrefiner")
    return preset, method


def _family(name: str) -> str:
    """The name that settings are kept under: the preset's, or the beginning of it that has some."""
    from harness.training.settings import profiles

    parts = name.split("-")
    heads = ["-".join(parts[:n]) for n in range(len(parts), 0, -1)]
    return next((head for head in heads if profiles(head)), name)


# --- one adapter for all methods --------------------------------------------------------------------------------------


def _train_reader(options: TrainOptions, out: Path) -> int:
    """Train one adapter for what all methods ask of a reader (harness/training/reader.py), or measure it."""
    from harness.storage.files import save_error, touch

    training = _reader(options, out)
    touch(out)
    try:
        if options.eval_only:
            _show(training.examine(say), out, json=options.json)
            return 0
        params = {"method": _READER, "base": training.base.name, "seed": str(options.seed), "data": str(training.data)}
        log = feed(out, options.mlflow, params, "adapter training")
        done, finished = watched(lambda tell, stop: training.run(tell, stop, options.steps), log)
    except OSError as error:
        raise save_error(out, error) from error
    if not done:
        say_again("interrupted; a checkpoint of the step is saved")
        return 130
    say(f"use it: --set model.adapter={training.folder}")
    if not finished:
        say("the same command without --steps goes on")
    return 0


def _reader(options: TrainOptions, out: Path) -> ReaderTraining:
    """All that is said, checked, before anything is loaded. Raises UserError."""
    from harness.config.resolve import part
    from harness.llm.model_info import model_facts
    from harness.training.reader import ReaderSettings, ReaderTraining
    from harness.training.settings import read

    if options.data is None:
        raise UserError("name the folder with the training rows: --data DIR (files such as hotpot_train.json)")
    labelling = (options.teacher, options.dataset, options.task, options.exclude, options.pages, options.plan)
    if any(labelling):
        raise UserError(
            "the reader learns from training rows: leave out --teacher, --dataset, --task, --exclude, --pages and "
            "--plan"
        )
    check(options.device, options.mlflow)
    sets = sets_of(options.sets)
    of_model = {key: value for key, value in sets.items() if key.startswith("model.")}
    rest = {key: value for key, value in sets.items() if key not in of_model}
    own = Path(options.config) if options.config is not None else None
    settings = read(ReaderSettings, _READER, options.profile or _READER_PROFILE, [_READER], rest, own)
    base = part("models", model=options.model, sets=of_model)
    if problems := model_facts(base).problems:
        raise UserError(problems[0])
    return ReaderTraining(base, settings, Path(options.data), out, options.seed, options.device)
