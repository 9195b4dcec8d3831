"""`harness train METHOD`: make training data, train adapters, measure them; the same command
resumes.

OUT/data/<task>.jsonl     scenes to train on          OUT/checkpoint/<task>   to resume from
OUT/adapters/<task>       the adapter with its card   OUT/adapters/CARD.md    before and after       OUT/log.jsonl
"""

from __future__ import annotations

import json as json_
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.options import TrainingOut, split_names
from harness.cli.output import say
from harness.cli.stopping import INTERRUPTED, print_resume_command
from harness.cli.table_output import columns
from harness.config.yaml_tree import parse_assignments
from harness.errors import UnknownName, UserError
from harness_training.cli.training_run import TrainOptions, check_options, run_until_stopped
from harness_training.method_skills import trainings_of

if TYPE_CHECKING:
    from harness.config.schema import DatasetConfig, ModelConfig
    from harness.method import Method
    from harness_training.course import Course, Labels
    from harness_training.question_sets import QuestionSet
    from harness_training.reader import ReaderTraining
    from harness_training.settings import Settings


_READER, _READER_PROFILE = "reader", "cpu"
_ROUTED = ("model", "dataset", "teacher")
_PLACE = "{dataset}"  # in a path: the data set's name, so that one option names a file for each of several


def train(
    method: Annotated[
        str,
        typer.Argument(
            metavar="METHOD",
            help="A method with adapters (longrefiner), or reader: one adapter for all methods.",
        ),
    ],
    options: TrainOptions,
    out: TrainingOut,
) -> int:
    """Train and evaluate a method's adapters; the same command resumes.

    Measures each adapter before and after training, and writes a model card. `reader` learns from
    training rows in the folder --data.
    """
    from harness.storage.files import check_writable, save_error
    from harness_training.exam import table_rows

    folder, reader = Path(out), method == _READER
    training, params, use = _reader(options, folder) if reader else _course(method, options, folder)
    try:
        if not options.eval_only:
            check_writable(folder)
            done, finished = run_until_stopped(
                lambda tell, stop: training.run(tell, stop, options.steps),
                folder, options.mlflow, "adapter training", params,
            )  # fmt: skip
            if not done:
                kept = (
                    "a checkpoint of the step is"
                    if reader
                    else "labels and a checkpoint of the step are"
                )
                print_resume_command(f"interrupted; {kept} saved")
                return INTERRUPTED
            if reader or finished:
                say(use)
            if not finished:
                say(
                    f"stopped after {options.steps} steps; the same command without --steps resumes"
                )
            if reader or not finished:
                return 0
        measures = training.examine(say)
    except OSError as error:
        raise save_error(folder, error, "--out") from error
    rows = [asdict(measure) for measure in measures]
    if options.json:
        print(json_.dumps({"adapters": str(folder / "adapters"), "measures": rows}))
    else:
        print(f"{columns(table_rows(rows))}\n{folder / 'adapters' / 'CARD.md'}")
    return 0


def _course(name: str, options: TrainOptions, out: Path) -> tuple[Course, dict[str, str], str]:
    """The training of a method, its parameters for MLflow, and a line on how to use its adapters.
    Raises UserError.

    name: the method's preset; out: the training folder. No model is loaded.
    """
    preset, method = _trainable_method(name)
    check_options(options.device, options.mlflow)
    if (options.teacher is None) != (options.dataset is None):
        raise UserError(
            "a teacher labels a data set: name both --teacher MODEL and --dataset NAME, or neither"
        )
    for option, value in (("--data", options.data), ("--exclude", options.exclude)):
        if options.dataset is None and value is not None:
            raise UserError(f"{option} is where the rows of --dataset are; name the data set too")
    sets = _sets_by_target(parse_assignments(options.sets, "--set "))
    from harness.config.resolve import resolved
    from harness.llm.backend import check_greedy, model_facts
    from harness_training import settings as read
    from harness_training.course import Course

    base = check_greedy(
        resolved("models", model=options.model, sets=sets["model"]), "a model in training"
    )
    chosen = split_names(options.task)
    offered = {task.name: task for task in trainings_of(method)}
    if foreign := [task for task in chosen if task not in offered]:
        raise UnknownName(f"task of '{preset}'", foreign[0], offered)
    tasks = [task for name, task in offered.items() if not chosen or name in chosen]
    profile = options.profile or ("pocket" if base.embedded else "paper")
    config_file = Path(options.config) if options.config is not None else None
    # Settings are kept by the preset's name, else by the longest beginning of it that has some.
    parts = preset.split("-")
    heads = ["-".join(parts[:n]) for n in range(len(parts), 0, -1)]
    kept = next((head for head in heads if read.profiles(head)), preset)
    settings = read.read_settings(
        read.Settings, kept, profile, list(offered), sets[""], config_file
    )
    labelled = None
    if options.teacher is not None:
        teacher = check_greedy(
            resolved("models", model=options.teacher, sets=sets["teacher"]), "a teacher"
        )
        labelled = make_labels(options, settings, teacher, sets["dataset"])
    if base.backend != "hf":
        raise UserError(
            f"'{base.name}' runs on a server, so it cannot be trained here; name a model folder or "
            "a hub id"
        )
    if problems := model_facts(base).problems:
        raise UserError(problems[0])
    for task in tasks if labelled is None else ():
        settings.recipes(task.name, task.skill.name)
    params = {"method": preset, "base": base.name, "seed": str(options.seed)}
    params |= {
        "teacher": options.teacher or "the synthetic world",
        "dataset": options.dataset or "",
    }
    words = [f"roles.refiner.adapters.{task.name}={out / 'adapters' / task.name}" for task in tasks]
    use = f"use them: harness run --method {name} ... --set {' '.join(words)}"
    return (
        Course(preset, method, base, tasks, settings, out, options.seed, options.device, labelled),
        params,
        use,
    )


def _sets_by_target(sets: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Split --set, key -> value, by target: "model", "dataset", "teacher", and "" for the settings
    of the training."""
    routed: dict[str, dict[str, Any]] = {part: {} for part in (*_ROUTED, "")}
    for key, value in sets.items():
        target, _, rest = key.partition(".")
        if target == "datasets" and rest:
            routed["dataset"][key] = value
        elif target in _ROUTED and rest:
            routed[target][f"model.{rest}" if target == "teacher" else key] = value
        else:
            routed[""][key] = value
    return routed


def _trainable_method(name: str) -> tuple[str, Method]:
    """The preset that `name` means, and its method. Raises UnknownName, UserError for one without
    adapters."""
    from harness.config.layers import Choices
    from harness.config.resolve import resolve_part
    from harness.engine.settled_method import make_method

    part = resolve_part("methods", Choices(method=name))
    preset, method = str(part.value.name), make_method(part.value, part.origins)
    if not trainings_of(method):
        raise UserError(
            f"'{preset}' has no adapters to train; name a method that has, for instance longrefiner"
        )
    return preset, method


def make_labels(
    options: TrainOptions, settings: Settings, teacher: ModelConfig, sets: Mapping[str, Any]
) -> Labels:
    """The teacher with the training questions that it is to label. sets: --set for dataset.KEY and
    datasets.NAME.KEY.

    Raises UserError for a split or file that is not a training one, and for paths that several sets
    would share.
    """
    from harness_training.course import Labels

    names = split_names([options.dataset or ""])
    if len(names) > 1:
        for option, value in (
            ("--data", options.data),
            ("--set dataset.documents", sets.get("dataset.documents")),
        ):
            if value is not None and _PLACE not in str(value):
                raise UserError(
                    f"{option} names one place for {len(names)} data sets; write {_PLACE} where "
                    "the name of each goes"
                )
    if other := [
        key for key in sets if key.startswith("datasets.") and key.split(".")[1] not in names
    ]:
        raise UserError(
            f"--set {other[0]}: '{other[0].split('.')[1]}' is not among the data sets of --dataset"
        )
    chosen = [
        one for name in names if (one := _question_set(name, options, settings, sets)) is not None
    ]
    if not chosen:
        raise UserError(
            f"{options.dataset} has no training split, so no adapter can be trained on it"
        )
    return Labels(teacher, tuple(chosen), options.parallel)


def _question_set(
    name: str, options: TrainOptions, settings: Settings, sets: Mapping[str, Any]
) -> QuestionSet | None:
    """The training questions of the data set `name`; None without a training split. sets: as of
    `make_labels`."""
    from harness.config.resolve import resolved
    from harness_training.question_sets import QuestionSet, check_training

    dataset: DatasetConfig = resolved("datasets", dataset=name)
    places = settings.splits.get(dataset.name, {})
    data = None if options.data is None else options.data.replace(_PLACE, dataset.name)
    if places is None:
        say(f"'{dataset.name}' has no training split, so it is left out")
        return None
    mine = f"datasets.{dataset.name}."
    row_options: dict[str, Any] = {
        key: v.replace(_PLACE, dataset.name) if isinstance(v, str) else v
        for key, v in sets.items()
        if not key.startswith("datasets.")
    }
    row_options |= {
        f"dataset.{key.removeprefix(mine)}": v for key, v in sets.items() if key.startswith(mine)
    }
    retrieved = "dataset.documents" in row_options
    local = () if data is None else ("hub", "subset") if retrieved else ("hub", "subset", "format")
    preset = {"split": "train", **{key: value for key, value in places.items() if key not in local}}
    row_options = {**{f"dataset.{key}": value for key, value in preset.items()}, **row_options}
    training = resolved("datasets", dataset=name, data=data, sets=row_options)
    check_training(training)
    evaluation: list[DatasetConfig] = []
    if data is None:
        evaluation.append(dataset)
    elif Path(data).is_dir():
        evaluation.append(resolved("datasets", dataset=name, data=data))
    if options.exclude is not None:
        evaluation.append(
            resolved("datasets", dataset=name, data=options.exclude.replace(_PLACE, dataset.name))
        )
    return QuestionSet(training, tuple(evaluation))


def _reader(options: TrainOptions, out: Path) -> tuple[ReaderTraining, dict[str, str], str]:
    """As `_course`, for one adapter that serves all methods
    (packages/training/harness_training/reader.py)."""
    from harness.config.resolve import resolved
    from harness.llm.backend import model_facts
    from harness_training.reader import ReaderSettings, ReaderTraining
    from harness_training.settings import read_settings

    if options.data is None:
        raise UserError(
            "name the folder with the training rows: --data DIR (files such as hotpot_train.json)"
        )
    if any((options.teacher, options.dataset, options.task, options.exclude)):
        raise UserError(
            "the reader learns from training rows: leave out --teacher, --dataset, --task and "
            "--exclude"
        )
    check_options(options.device, options.mlflow)
    sets = parse_assignments(options.sets, "--set ")
    of_model = {key: value for key, value in sets.items() if key.startswith("model.")}
    reader_sets = {key: value for key, value in sets.items() if key not in of_model}
    config_file = Path(options.config) if options.config is not None else None
    settings = read_settings(
        ReaderSettings,
        _READER,
        options.profile or _READER_PROFILE,
        [_READER],
        reader_sets,
        config_file,
    )
    base = resolved("models", model=options.model, sets=of_model)
    if problems := model_facts(base).problems:
        raise UserError(problems[0])
    params = {"method": _READER, "base": base.name, "seed": str(options.seed), "data": options.data}
    use = f"use it: --set model.adapter={out / 'adapters' / _READER}"
    return (
        ReaderTraining(base, settings, Path(options.data), out, options.seed, options.device),
        params,
        use,
    )
