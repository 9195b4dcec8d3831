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
from harness_training import settings as stored
from harness_training.cli.training_run import TrainOptions, check_options, run_until_stopped
from harness_training.exam import table_rows
from harness_training.method_skills import trainings_of
from harness_training.question_sets import Labels, QuestionSet, check_training
from harness_training.settings import read_settings

if TYPE_CHECKING:
    from harness.config.schema import DatasetConfig, ModelConfig
    from harness.method import Method
    from harness_training.course import Course
    from harness_training.reader import ReaderTraining
    from harness_training.settings import Settings
    from harness_training.tasks import TrainingTask


_READER = "reader"
_READER_PROFILE = "cpu"
_PLACE = "{dataset}"
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
    run = _planned_run(method, options, folder)
    try:
        if not options.eval_only:
            check_writable(folder)
            code = _train(run, options, folder)
            if code is not None:
                return code
        measures = run.training.examine(say)
    except OSError as error:
        raise save_error(folder, error, "--out") from error
    if options.json:
        rows = [asdict(measure) for measure in measures]
        print(json_.dumps({"adapters": str(folder / "adapters"), "measures": rows}))
    else:
        print(f"{aligned_columns(table_rows(measures))}\n{folder / 'adapters' / 'CARD.md'}")
    return 0


@dataclass(frozen=True)
class _Run:
    """A training that can start.

    Args:
        training: The training.
        params: What MLflow is told of it.
        use: A line on how to use its adapters.
        saved: What an interruption leaves behind, in words.
        examined: Whether its adapters are measured after it.
    """

    training: Course | ReaderTraining
    params: dict[str, str]
    use: str
    saved: str
    examined: bool


def _planned_run(method: str, options: TrainOptions, folder: Path) -> _Run:
    """The training that the command asks for, ready to start. Raises UserError."""
    if method == _READER:
        return _reader_run(options, folder)
    return _course_run(method, options, folder)


def _train(run: _Run, options: TrainOptions, folder: Path) -> int | None:
    """Train until the end, --steps or a signal, and say what to do next.

    Args:
        run: The training.
        options: The command's options.
        folder: The training folder.

    Returns:
        The exit code of the command; None if the adapters are to be measured now.
    """

    def train_steps(tell: Callable[[str], None], stop: threading.Event) -> bool:
        """Train to the end, --steps or until `stop` is set; return whether the end was reached."""
        return run.training.run(tell, stop, options.steps)

    done, finished = run_until_stopped(
        train_steps, folder, options.mlflow, "adapter training", run.params
    )
    if not done:
        print_resume_command(f"interrupted; {run.saved} saved")
        return INTERRUPTED
    if finished or not run.examined:
        say(run.use)
    if not finished:
        say(f"stopped after {options.steps} steps; the same command without --steps resumes")
    if finished and run.examined:
        return None
    return 0


def _course_run(name: str, options: TrainOptions, out: Path) -> _Run:
    """Check the command, and prepare the training of a method's adapters; no model is loaded.

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
    sets = _sets_by_target(parse_assignments(options.sets, "--set "))
    base = resolve_model(Choices(model=options.model, sets=sets.model)).value
    base = check_greedy(base, "a model in training")
    offered = {task.name: task for task in trainings_of(method)}
    tasks = _chosen_tasks(preset, offered, split_names(options.task))
    settings = _read_course(preset, options, base, list(offered), sets.training)
    labels = None
    if options.teacher is not None:
        teacher = resolve_model(Choices(model=options.teacher, sets=sets.teacher)).value
        teacher = check_greedy(teacher, "a teacher")
        labels = make_labels(options, settings, teacher, sets.dataset)
    if base.backend != "hf":
        raise UserError(
            f"'{base.name}' runs on a server, so it cannot be trained here; name a model folder or "
            "a hub id"
        )
    _check_files(base)
    if labels is None:
        for task in tasks:
            settings.recipes(task.name, task.skill.name)
    training = Course(
        preset, method, base, tasks, settings, out, options.seed, options.device, labels
    )
    return _Run(
        training,
        params={
            "method": preset,
            "base": base.name,
            "seed": str(options.seed),
            "teacher": options.teacher or "the synthetic world",
            "dataset": options.dataset or "",
        },
        use=_use_line(name, tasks, out),
        saved="labels and a checkpoint of the step are",
        examined=True,
    )


def _use_line(name: str, tasks: Sequence[TrainingTask], out: Path) -> str:
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
    if (options.teacher is None) != (options.dataset is None):
        raise UserError(
            "a teacher labels a data set: name both --teacher MODEL and --dataset NAME, or neither"
        )
    if options.dataset is not None:
        return
    for option, value in (("--data", options.data), ("--exclude", options.exclude)):
        if value is not None:
            raise UserError(f"{option} is where the rows of --dataset are; name the data set too")


def _chosen_tasks(
    preset: str, offered: Mapping[str, TrainingTask], chosen: Sequence[str]
) -> list[TrainingTask]:
    """The tasks that --task names, in the method's order; all without it.

    Args:
        preset: The method's preset.
        offered: Name -> task of the method.
        chosen: The names.

    Raises:
        UnknownName: The method has no such task.
    """
    for name in chosen:
        if name not in offered:
            raise UnknownName(f"task of '{preset}'", name, offered)
    return [task for name, task in offered.items() if not chosen or name in chosen]


def _read_course(
    preset: str,
    options: TrainOptions,
    base: ModelConfig,
    tasks: Sequence[str],
    sets: Mapping[str, object],
) -> Settings:
    """The settings of a training, from the profiles of the preset, else of the longest beginning of
    its name that has some ("longrefiner-bm25": those of "longrefiner").

    Args:
        preset: The method's preset.
        options: The command's options.
        base: The model to train; an embedded one has the profile "pocket", others "paper", unless
            --profile names one.
        tasks: The names of the method's tasks.
        sets: --set for the settings, key -> value.
    """
    profile = options.profile
    if profile is None:
        profile = "pocket" if base.embedded else "paper"
    config_file = None
    if options.config is not None:
        config_file = Path(options.config)
    name = preset
    while not stored.profiles(name) and "-" in name:
        name = name.rpartition("-")[0]
    if not stored.profiles(name):
        name = preset
    return stored.read_settings(stored.Settings, name, profile, tasks, sets, config_file)


def _check_files(base: ModelConfig) -> None:
    """Raise UserError if the files of the model to train cannot be used."""
    problems = model_facts(base).problems
    if problems:
        raise UserError(problems[0])


@dataclass(frozen=True)
class _Sets:
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


def _sets_by_target(sets: Mapping[str, object]) -> _Sets:
    """Split --set by what it is for.

    {"teacher.dtype": "float32", "rank": 8}
        -> teacher {"model.dtype": "float32"}, training {"rank": 8}
    """
    by_target = _Sets()
    for key, value in sets.items():
        target, _, rest = key.partition(".")
        if not rest:
            by_target.training[key] = value
        elif target == "teacher":
            by_target.teacher[f"model.{rest}"] = value
        elif target == "model":
            by_target.model[key] = value
        elif target in ("dataset", "datasets"):
            by_target.dataset[key] = value
        else:
            by_target.training[key] = value
    return by_target


def _trainable_method(name: str) -> tuple[str, Method]:
    """The full name of the preset that `name` means, and its method.

    Raises:
        UnknownName: There is no such preset.
        UserError: The method has no adapters.
    """
    part = resolve_method(Choices(method=name))
    preset = str(part.value.name)
    method = make_method(part.value, part.origins)
    if not trainings_of(method):
        raise UserError(
            f"'{preset}' has no adapters to train; name a method that has, for instance longrefiner"
        )
    return preset, method


def make_labels(
    options: TrainOptions, settings: Settings, teacher: ModelConfig, sets: Mapping[str, object]
) -> Labels:
    """The teacher with the training questions that it is to label.

    Args:
        options: The command's options.
        settings: The settings of the training.
        teacher: The model that labels.
        sets: --set for dataset.KEY and datasets.NAME.KEY, key -> value.

    Raises:
        UserError: A split or file is not a training one, or several data sets would share a path.
    """
    names = split_names([options.dataset or ""])
    if len(names) > 1:
        _check_places(names, options, sets)
    for key in sets:
        prefix, _, rest = key.partition(".")
        name = rest.partition(".")[0]
        if prefix == "datasets" and name not in names:
            raise UserError(f"--set {key}: '{name}' is not among the data sets of --dataset")
    chosen: list[QuestionSet] = []
    for name in names:
        questions = _question_set(name, options, settings, sets)
        if questions is not None:
            chosen.append(questions)
    if not chosen:
        raise UserError(
            f"{options.dataset} has no training split, so no adapter can be trained on it"
        )
    return Labels(teacher, tuple(chosen), options.parallel)


def _check_places(names: Sequence[str], options: TrainOptions, sets: Mapping[str, object]) -> None:
    """Raise UserError where a path has no "{dataset}", so that several data sets would share it.

    Args:
        names: The names of the data sets, two or more.
        options: The command's options.
        sets: --set, key -> value.
    """
    documents = sets.get("dataset.documents")
    for option, value in (("--data", options.data), ("--set dataset.documents", documents)):
        if value is not None and _PLACE not in str(value):
            raise UserError(
                f"{option} names one place for {len(names)} data sets; write {_PLACE} where the "
                "name of each goes"
            )


def _question_set(
    name: str, options: TrainOptions, settings: Settings, sets: Mapping[str, object]
) -> QuestionSet | None:
    """The training questions of a data set, and the evaluation questions to keep out of them.

    Args:
        name: The name of the data set.
        options: The command's options.
        settings: The settings of the training.
        sets: --set for dataset.KEY and datasets.NAME.KEY, key -> value.

    Returns:
        None where the data set has no training split, which is also printed.

    Raises:
        UserError: The split or file is not a training one.
    """
    dataset: DatasetConfig = resolve_dataset(Choices(dataset=name)).value
    places = settings.splits.get(dataset.name, {})
    if places is None:
        say(f"'{dataset.name}' has no training split, so it is left out")
        return None
    data = None
    if options.data is not None:
        data = options.data.replace(_PLACE, dataset.name)
    given = _sets_of_dataset(dataset.name, sets)
    row_options = _training_split(places, given, from_file=data is not None)
    training = resolve_dataset(Choices(dataset=name, data=data, sets=row_options)).value
    check_training(training)
    evaluation: list[DatasetConfig] = []
    if data is None:
        evaluation.append(dataset)
    elif Path(data).is_dir():
        evaluation.append(resolve_dataset(Choices(dataset=name, data=data)).value)
    if options.exclude is not None:
        excluded = options.exclude.replace(_PLACE, dataset.name)
        evaluation.append(resolve_dataset(Choices(dataset=name, data=excluded)).value)
    return QuestionSet(training, tuple(evaluation))


def _training_split(
    places: Mapping[str, str], given: Mapping[str, object], *, from_file: bool
) -> dict[str, object]:
    """Settings, "dataset.KEY" -> value, with which the training questions of a data set are read.

    Args:
        places: Key -> value in the training's settings: where the split is on the hub.
        given: The user's --set for this data set, which come first.
        from_file: Whether the rows come from a file of the user's.
    """
    # A local file says itself where it is, and its format unless documents are retrieved.
    said_by_file: tuple[str, ...] = ()
    if from_file and "dataset.documents" in given:
        said_by_file = ("hub", "subset")
    elif from_file:
        said_by_file = ("hub", "subset", "format")
    row_options: dict[str, object] = {"dataset.split": "train"}
    for key, value in places.items():
        if key not in said_by_file:
            row_options[f"dataset.{key}"] = value
    return {**row_options, **given}


def _sets_of_dataset(name: str, sets: Mapping[str, object]) -> dict[str, object]:
    """The --set that count for one data set: those for all, with its name in paths, then those for
    it alone.

        "nq", {"dataset.subset": "x", "datasets.nq.split": "dev", "datasets.squad.split": "a"}
            -> {"dataset.subset": "x", "dataset.split": "dev"}
    """
    mine = f"datasets.{name}."
    of_all: dict[str, object] = {}
    own: dict[str, object] = {}
    for key, value in sets.items():
        if key.startswith(mine):
            own[f"dataset.{key.removeprefix(mine)}"] = value
        elif key.startswith("datasets."):
            continue
        elif isinstance(value, str):
            of_all[key] = value.replace(_PLACE, name)
        else:
            of_all[key] = value
    return {**of_all, **own}


def _reader_run(options: TrainOptions, out: Path) -> _Run:
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
    if any((options.teacher, options.dataset, options.task, options.exclude)):
        raise UserError(
            "the reader learns from training rows: leave out --teacher, --dataset, --task and "
            "--exclude"
        )
    check_options(options.device, options.mlflow)
    model_sets: dict[str, object] = {}
    reader_sets: dict[str, object] = {}
    for key, value in parse_assignments(options.sets, "--set ").items():
        if key.startswith("model."):
            model_sets[key] = value
        else:
            reader_sets[key] = value
    config_file = None
    if options.config is not None:
        config_file = Path(options.config)
    profile = options.profile or _READER_PROFILE
    settings = read_settings(ReaderSettings, _READER, profile, [_READER], reader_sets, config_file)
    base = resolve_model(Choices(model=options.model, sets=model_sets)).value
    _check_files(base)
    data = Path(options.data)
    return _Run(
        ReaderTraining(base, settings, data, out, options.seed, options.device),
        params={
            "method": _READER,
            "base": base.name,
            "seed": str(options.seed),
            "data": options.data,
        },
        use=f"use it: --set model.adapter={out / 'adapters' / _READER}",
        saved="a checkpoint of the step is",
        examined=False,
    )
