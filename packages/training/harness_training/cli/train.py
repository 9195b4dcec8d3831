"""`harness train METHOD`: make training data, train adapters, measure them; the same command
resumes.

OUT/data/<task>.jsonl     scenes to train on          OUT/checkpoint/<task>   to resume from
OUT/adapters/<task>       the adapter with its card   OUT/adapters/CARD.md    before and after       OUT/log.jsonl
"""

from __future__ import annotations

import json as json_
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import TrainingOut, split_names
from harness.cli.output import say
from harness.cli.stopping import INTERRUPTED, print_resume_command
from harness.cli.table_output import aligned_columns
from harness.config.layers import Choices
from harness.config.resolve import resolve_dataset, resolve_method, resolve_model
from harness.config.yaml_tree import parse_assignments
from harness.engine.completed_method import make_method
from harness.errors import UnknownName, UserError
from harness.llm.backend import check_greedy, model_facts
from harness.storage.files import check_writable, save_error
from harness_training.cli.training_run import TrainOptions, check_options, run_until_stopped
from harness_training.exam import table_rows
from harness_training.method_skills import trainings_of
from harness_training.question_sets import Labels, QuestionSet, check_training
from harness_training.settings import Settings, profiles, read_settings

if TYPE_CHECKING:
    from harness.config.schema import DatasetConfig, ModelConfig
    from harness.method import Method
    from harness_training.course import Course
    from harness_training.reader import ReaderTraining
    from harness_training.tasks import TrainingTask


_READER = "reader"
_READER_PROFILE = "cpu"
_DATASET_PLACEHOLDER = "{dataset}"
"""In a path: the data set's name, so that one option names a file for each of several."""


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
    folder = Path(out)
    planned = _plan_training(method, options, folder)
    try:
        if not options.eval_only:
            check_writable(folder)
            code = _train_until_stopped(planned, options, folder)
            if code is not None:
                return code
        measures = planned.training.examine(say)
    except OSError as error:
        raise save_error(folder, error, "--out") from error
    if options.json:
        rows = [asdict(measure) for measure in measures]
        print(json_.dumps({"adapters": str(folder / "adapters"), "measures": rows}))
    else:
        print(f"{aligned_columns(table_rows(measures))}\n{folder / 'adapters' / 'CARD.md'}")
    return 0


@dataclass(frozen=True)
class _PlannedTraining:
    """A training that can start.

    Args:
        training: The training.
        mlflow_params: Name -> value that MLflow shows with the run.
        usage_line: How to use its adapters: "use them: harness run ... --set ...".
        saved_parts: What an interruption leaves behind: "a checkpoint of the step is".
        is_examined_after: Whether its adapters are measured after it.
    """

    training: Course | ReaderTraining
    mlflow_params: dict[str, str]
    usage_line: str
    saved_parts: str
    is_examined_after: bool


def _plan_training(method: str, options: TrainOptions, folder: Path) -> _PlannedTraining:
    """The training that the command asks for, ready to start. Raises UserError."""
    if method == _READER:
        return _plan_reader(options, folder)
    return _plan_course(method, options, folder)


def _train_until_stopped(
    training: _PlannedTraining, options: TrainOptions, folder: Path
) -> int | None:
    """Train until all steps of the training are done, --steps of them are, or a signal comes; then
    print how to resume, or how to use what was trained.

    Args:
        training: The training.
        options: The command's options.
        folder: The training folder.

    Returns:
        The exit code of the command; None if the adapters are to be measured now.
    """

    def train_steps(tell: Callable[[str], None], stop: threading.Event) -> bool:
        """Train until all steps of the training are done, `options.steps` of them are, or `stop` is
        set; return whether all are done."""
        return training.training.run(tell, stop, options.steps)

    was_uninterrupted, all_steps_done = run_until_stopped(
        train_steps, folder, options.mlflow, "adapter training", training.mlflow_params
    )
    if not was_uninterrupted:
        print_resume_command(f"interrupted; {training.saved_parts} saved")
        return INTERRUPTED
    if all_steps_done or not training.is_examined_after:
        say(training.usage_line)
    if not all_steps_done:
        say(f"stopped after {options.steps} steps; the same command without --steps resumes")
    if all_steps_done and training.is_examined_after:
        return None
    return 0


def _plan_course(name: str, options: TrainOptions, out: Path) -> _PlannedTraining:
    """Check the command, and prepare the training of a method's adapters, from labels of a teacher
    where --teacher names one, else from texts of the synthetic world; no model is loaded.

    Args:
        name: The method's preset, as it was typed.
        options: The command's options.
        out: The training folder.

    Raises:
        UserError: An option, a setting or the base model cannot be used.
    """
    from harness_training.course import Course  # imports torch

    preset, method = _trainable_method(name)
    check_options(options.device, options.mlflow)
    _check_label_options(options)
    assignments = _assignments_by_target(parse_assignments(options.sets, "--set "))
    base_model = resolve_model(Choices(model=options.model, sets=assignments.model)).value
    base_model = check_greedy(base_model, "a model in training")
    tasks_by_name = {task.name: task for task in trainings_of(method)}
    tasks = _tasks_named_by_option(preset, tasks_by_name, split_names(options.task))
    settings = _read_course_settings(
        preset, options, base_model, list(tasks_by_name), assignments.training
    )
    labels = None
    if options.teacher is not None:
        teacher_model = _resolve_teacher(options.teacher, assignments)
        labels = make_labels(options, settings, teacher_model, assignments.dataset)
    _check_is_local(base_model)
    _check_model_files(base_model)
    if labels is None:
        for task in tasks:
            settings.recipes(task.name, task.skill.name)  # raises where there are none
    course = Course(
        method_name=preset,
        method=method,
        base=base_model,
        tasks=tasks,
        settings=settings,
        out=out,
        seed=options.seed,
        device=options.device,
        labels=labels,
    )
    return _PlannedTraining(
        course,
        mlflow_params={
            "method": preset,
            "base": base_model.name,
            "seed": str(options.seed),
            "teacher": options.teacher or "the synthetic world",
            "dataset": options.dataset or "",
        },
        usage_line=_usage_line(name, tasks, out),
        saved_parts="labels and a checkpoint of the step are",
        is_examined_after=True,
    )


def _usage_line(name: str, tasks: Sequence[TrainingTask], out: Path) -> str:
    """A line that says how to use the adapters: "use them: harness run --method longrefiner ...
    --set ...".

    Args:
        name: The method's preset, as it was typed.
        tasks: The tasks of the adapters.
        out: The training folder.
    """
    assignments: list[str] = []
    for task in tasks:
        folder = out / "adapters" / task.name
        assignments.append(f"roles.refiner.adapters.{task.name}={folder}")
    return f"use them: harness run --method {name} ... --set {' '.join(assignments)}"


def _check_label_options(options: TrainOptions) -> None:
    """Raise UserError for --teacher without --dataset or the reverse, and for --data or --exclude
    without --dataset."""
    has_one_of_both = (options.teacher is None) != (options.dataset is None)
    if has_one_of_both:
        raise UserError(
            "a teacher labels a data set: name both --teacher MODEL and --dataset NAME, or neither"
        )
    if options.dataset is not None:
        return
    for option, value in (("--data", options.data), ("--exclude", options.exclude)):
        if value is not None:
            raise UserError(f"{option} is where the rows of --dataset are; name the data set too")


def _tasks_named_by_option(
    preset: str, tasks_by_name: Mapping[str, TrainingTask], chosen_names: Sequence[str]
) -> list[TrainingTask]:
    """The tasks that --task names, in the method's order; all without it.

    Args:
        preset: The method's preset.
        tasks_by_name: Name -> task of the method.
        chosen_names: The names.

    Raises:
        UnknownName: The method has no such task.
    """
    for name in chosen_names:
        if name not in tasks_by_name:
            raise UnknownName(f"task of '{preset}'", name, tasks_by_name)
    return [
        task for name, task in tasks_by_name.items() if not chosen_names or name in chosen_names
    ]


def _read_course_settings(
    preset: str,
    options: TrainOptions,
    base_model: ModelConfig,
    task_names: Sequence[str],
    assignments: Mapping[str, object],
) -> Settings:
    """The settings of a training, from the profiles of the preset, else of the longest beginning of
    its name that has some ("longrefiner-bm25": those of "longrefiner").

    Args:
        preset: The method's preset.
        options: The command's options.
        base_model: The model to train; an embedded one has the profile "pocket", others "paper",
            unless --profile names one.
        task_names: The names of the method's tasks.
        assignments: --set for the settings, key -> value.
    """
    profile = options.profile
    if profile is None:
        profile = "pocket" if base_model.embedded else "paper"
    config_file = None
    if options.config is not None:
        config_file = Path(options.config)
    settings_name = preset
    while not profiles(settings_name) and "-" in settings_name:
        settings_name = settings_name.rpartition("-")[0]
    if not profiles(settings_name):
        settings_name = preset
    return read_settings(Settings, settings_name, profile, task_names, assignments, config_file)


def _check_model_files(model: ModelConfig) -> None:
    """Raise UserError if the files of the model to train cannot be used."""
    problems = model_facts(model).problems
    if problems:
        raise UserError(problems[0])


@dataclass(frozen=True)
class _Assignments:
    """--set, key -> value, by what it is for.

    Args:
        model: Those of the model to train, as "model.dtype".
        teacher: Those of the teacher, as "model.dtype" too.
        dataset: Those of all data sets ("dataset.KEY"), or of one ("datasets.NAME.KEY").
        training: Those of the training itself.
    """

    model: dict[str, object] = field(default_factory=dict)
    teacher: dict[str, object] = field(default_factory=dict)
    dataset: dict[str, object] = field(default_factory=dict)
    training: dict[str, object] = field(default_factory=dict)


def _assignments_by_target(assignments: Mapping[str, object]) -> _Assignments:
    """Split --set by what it is for.

    {"teacher.dtype": "float32", "rank": 8}
        -> teacher {"model.dtype": "float32"}, training {"rank": 8}
    """
    by_target = _Assignments()
    for key, value in assignments.items():
        target, _, key_of_target = key.partition(".")
        if not key_of_target:
            by_target.training[key] = value
        elif target == "teacher":
            by_target.teacher[f"model.{key_of_target}"] = value
        elif target == "model":
            by_target.model[key] = value
        elif target in ("dataset", "datasets"):
            by_target.dataset[key] = value
        else:
            by_target.training[key] = value
    return by_target


def _resolve_teacher(name: str, assignments: _Assignments) -> ModelConfig:
    """The settings of the model that labels. Raises UserError where they ask for
    sampling or batches.

    Args:
        name: What --teacher names.
        assignments: --set, of which those for the teacher count.
    """
    teacher_model = resolve_model(Choices(model=name, sets=assignments.teacher)).value
    return check_greedy(teacher_model, "a teacher")


def _check_is_local(model: ModelConfig) -> None:
    """Raise UserError for a model on a server, which cannot be trained here."""
    if model.backend != "hf":
        raise UserError(
            f"'{model.name}' runs on a server, so it cannot be trained here; name a model "
            "folder or a hub id"
        )


def _reader_assignments(assignments: Mapping[str, object]) -> _Assignments:
    """Split --set of the reader's training: "model.KEY" is for the model, all else for the
    training."""
    by_target = _Assignments()
    for key, value in assignments.items():
        if key.startswith("model."):
            by_target.model[key] = value
        else:
            by_target.training[key] = value
    return by_target


def _trainable_method(name: str) -> tuple[str, Method]:
    """The full name of the preset that `name` means ("LongRefiner" -> "longrefiner"), and its
    method.

    Raises:
        UnknownName: There is no such preset.
        UserError: The method has no adapters.
    """
    resolved = resolve_method(Choices(method=name))
    preset = str(resolved.value.name)
    method = make_method(resolved.value, resolved.origins)
    if not trainings_of(method):
        raise UserError(
            f"'{preset}' has no adapters to train; name a method that has, for instance longrefiner"
        )
    return preset, method


def make_labels(
    options: TrainOptions,
    settings: Settings,
    teacher: ModelConfig,
    assignments: Mapping[str, object],
) -> Labels:
    """The teacher with the training questions that it is to label.

    Args:
        options: The command's options.
        settings: The settings of the training.
        teacher: The model that labels.
        assignments: --set for dataset.KEY and datasets.NAME.KEY, key -> value.

    Raises:
        UserError: A split or file is not a training one, or several data sets would share a path.
    """
    dataset_names = split_names([options.dataset or ""])
    if len(dataset_names) > 1:
        _check_each_set_has_its_path(dataset_names, options, assignments)
    for key in assignments:  # "dataset.split", or of one data set "datasets.nq.split"
        prefix, _, rest = key.partition(".")
        name = rest.partition(".")[0]
        if prefix == "datasets" and name not in dataset_names:
            raise UserError(f"--set {key}: '{name}' is not among the data sets of --dataset")
    question_sets: list[QuestionSet] = []
    for name in dataset_names:
        questions = _resolve_question_set(name, options, settings, assignments)
        if questions is not None:
            question_sets.append(questions)
    if not question_sets:
        raise UserError(
            f"{options.dataset} has no training split, so no adapter can be trained on it"
        )
    return Labels(teacher, sets=tuple(question_sets), parallel=options.parallel)


def _check_each_set_has_its_path(
    dataset_names: Sequence[str], options: TrainOptions, assignments: Mapping[str, object]
) -> None:
    """Raise UserError where a path has no "{dataset}", so that several data sets would share it.

    Args:
        dataset_names: The names of the data sets, two or more.
        options: The command's options.
        assignments: --set, key -> value.
    """
    documents = assignments.get("dataset.documents")
    for option, value in (("--data", options.data), ("--set dataset.documents", documents)):
        if value is not None and _DATASET_PLACEHOLDER not in str(value):
            raise UserError(
                f"{option} names one place for {len(dataset_names)} data sets; write "
                f"{_DATASET_PLACEHOLDER} where the name of each goes"
            )


def _resolve_question_set(
    name: str, options: TrainOptions, settings: Settings, assignments: Mapping[str, object]
) -> QuestionSet | None:
    """The training questions of a data set, and the evaluation questions to keep out of them: those
    of the preset where no --data is given, those beside the training file in a folder --data, and
    those that --exclude names.

    Args:
        name: The name of the data set.
        options: The command's options.
        settings: The settings of the training.
        assignments: --set for dataset.KEY and datasets.NAME.KEY, key -> value.

    Returns:
        None where the data set has no training split, which is also printed.

    Raises:
        UserError: The split or file is not a training one.
    """
    dataset: DatasetConfig = resolve_dataset(Choices(dataset=name)).value
    split_location = settings.splits.get(dataset.name, {})
    if split_location is None:
        say(f"'{dataset.name}' has no training split, so it is left out")
        return None
    data_path = None
    if options.data is not None:
        data_path = options.data.replace(_DATASET_PLACEHOLDER, dataset.name)
    assignments_for_dataset = _assignments_for_dataset(dataset.name, assignments)
    row_options = _row_options(
        split_location, assignments_for_dataset, from_file=data_path is not None
    )
    training = resolve_dataset(Choices(dataset=name, data=data_path, sets=row_options)).value
    check_training(training)  # raises where it is another split
    evaluation: list[DatasetConfig] = []
    if data_path is None:
        evaluation.append(dataset)
    elif Path(data_path).is_dir():
        evaluation.append(resolve_dataset(Choices(dataset=name, data=data_path)).value)
    if options.exclude is not None:
        excluded = options.exclude.replace(_DATASET_PLACEHOLDER, dataset.name)
        evaluation.append(resolve_dataset(Choices(dataset=name, data=excluded)).value)
    return QuestionSet(training, tuple(evaluation))


def _row_options(
    split_location: Mapping[str, str], assignments: Mapping[str, object], *, from_file: bool
) -> dict[str, object]:
    """Settings, "dataset.KEY" -> value, with which the training questions of a data set are read.

    Args:
        split_location: Key -> value in the training's settings: where the split is on the hub.
        assignments: The user's --set for this data set, which come first.
        from_file: Whether the rows come from a file of the user's.
    """
    # A local file says itself where it is, and its format unless documents are retrieved.
    keys_said_by_file: tuple[str, ...] = ()
    if from_file and "dataset.documents" in assignments:
        keys_said_by_file = ("hub", "subset")
    elif from_file:
        keys_said_by_file = ("hub", "subset", "format")
    from_settings: dict[str, object] = {"dataset.split": "train"}
    for key, value in split_location.items():
        if key not in keys_said_by_file:
            from_settings[f"dataset.{key}"] = value
    return {**from_settings, **assignments}


def _assignments_for_dataset(name: str, assignments: Mapping[str, object]) -> dict[str, object]:
    """The --set that count for one data set: those for all, with its name in paths, then those for
    it alone.

        "nq", {"dataset.subset": "x", "datasets.nq.split": "dev", "datasets.squad.split": "a"}
            -> {"dataset.subset": "x", "dataset.split": "dev"}
    """
    prefix_of_dataset = f"datasets.{name}."
    for_all: dict[str, object] = {}
    for_this_one: dict[str, object] = {}
    for key, value in assignments.items():
        if key.startswith(prefix_of_dataset):
            for_this_one[f"dataset.{key.removeprefix(prefix_of_dataset)}"] = value
        elif key.startswith("datasets."):
            continue
        elif isinstance(value, str):
            for_all[key] = value.replace(_DATASET_PLACEHOLDER, name)
        else:
            for_all[key] = value
    return {**for_all, **for_this_one}


def _plan_reader(options: TrainOptions, out: Path) -> _PlannedTraining:
    """Check the command, and prepare the training of one adapter that serves all methods; no model
    is loaded.

    Args:
        options: The command's options.
        out: The training folder.

    Raises:
        UserError: An option, a setting or the base model cannot be used.
    """
    from harness_training.reader import ReaderSettings, ReaderTraining  # imports torch

    if options.data is None:
        raise UserError(
            "name the folder with the training rows: --data DIR (files such as hotpot_train.json)"
        )
    has_option_of_labels = any((options.teacher, options.dataset, options.task, options.exclude))
    if has_option_of_labels:
        raise UserError(
            "the reader learns from training rows: leave out --teacher, --dataset, --task and "
            "--exclude"
        )
    check_options(options.device, options.mlflow)
    assignments = _reader_assignments(parse_assignments(options.sets, "--set "))
    config_file = None
    if options.config is not None:
        config_file = Path(options.config)
    profile = options.profile or _READER_PROFILE
    settings = read_settings(
        ReaderSettings, _READER, profile, [_READER], assignments.training, config_file
    )
    base_model = resolve_model(Choices(model=options.model, sets=assignments.model)).value
    _check_model_files(base_model)
    training = ReaderTraining(
        base=base_model,
        settings=settings,
        data=Path(options.data),
        out=out,
        seed=options.seed,
        device=options.device,
    )
    return _PlannedTraining(
        training,
        mlflow_params={
            "method": _READER,
            "base": base_model.name,
            "seed": str(options.seed),
            "data": options.data,
        },
        usage_line=f"use it: --set model.adapter={out / 'adapters' / _READER}",
        saved_parts="a checkpoint of the step is",
        is_examined_after=False,
    )
