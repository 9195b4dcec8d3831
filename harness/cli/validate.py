"""`harness validate`: check a run without running it; without options, check every configuration
file."""

import itertools
import json as json_

from harness import scorers
from harness.api.run_request import Repetition, RunRequest, Selection
from harness.cli.options import Json
from harness.cli.output import say
from harness.cli.show import resolve_named
from harness.config import presets, registry, suites
from harness.config.layers import Choices
from harness.config.resolve import resolve, resolve_dataset, resolve_method
from harness.config.schema import DatasetConfig
from harness.config.yaml_tree import mapping_at
from harness.datasets.formats import format_names
from harness.engine.completed_method import make_method
from harness.engine.plan import PlannedRun, mistakes_in_parts
from harness.engine.plan_runs import plan_runs
from harness.errors import (
    ConfigError,
    HarnessError,
    UnknownName,
    call_noting_problem,
    raise_all,
    unknown_name_error,
)


def validate(selection: Selection, repetition: Repetition, json: Json = False) -> int:
    """Check a run, or every shipped configuration, without running anything.

    With options, prints what `harness run` would run with them; without, checks every configuration
    file.
    """
    request = RunRequest.from_groups(selection, repetition)
    if request == RunRequest():
        return _check_all(json=json)
    planned = plan_runs(request.runs(say), say)
    for plan in planned.plans:
        print(_plan_line(plan, json=json))
    return planned.exit_code


def _plan_line(plan: PlannedRun, json: bool) -> str:
    """Describe a planned run: as a line of JSON, or in words with its
    questions, models and warnings.
    """
    n_questions = min(plan.config.limit or len(plan.dataset), len(plan.dataset))
    models = {role: model.name for role, model in plan.models.items()}
    encoders = {role: encoder.name for role, encoder in plan.encoders.items()}
    n_left_out = plan.dataset.left_out
    if json:
        row: dict[str, object] = {
            "run": plan.folder,
            "method": plan.config.method.name,
            "dataset": plan.config.dataset.name,
            "questions": n_questions,
        }
        if n_left_out:
            row["left_out"] = n_left_out
        row["models"] = models
        row["encoders"] = encoders
        row["warnings"] = list(plan.warnings)
        return json_.dumps(row)
    questions_text = f"{n_questions} questions"
    if n_left_out:
        questions_text += f" ({n_left_out} more left out by the loader)"
    roles = ", ".join(f"{role} {name}" for role, name in {**models, **encoders}.items())
    lines = [f"ok  {plan.run_name}: {questions_text}, {roles}", f"    {plan.folder}"]
    lines += [f"    warning: {warning}" for warning in plan.warnings]
    return "\n".join(lines)


def _check_all(json: bool) -> int:
    """Check each configuration file of each kind and print how many
    there are. Returns the exit code 0.

    Raises ConfigError with the mistakes of all files.
    """
    problems: list[str] = []
    n_files_by_kind: dict[str, int] = {}
    for kind in presets.PRESET_KINDS:
        names = presets.names(kind)
        n_files_by_kind[kind] = len(names)
        for name in names:
            try:
                check_file(kind, name)
            except HarnessError as e:
                problems += [f"{kind}/{name}: {sentence}" for sentence in e.sentences]
    if problems:
        raise ConfigError(problems)
    if json:
        print(json_.dumps(n_files_by_kind))
    else:
        print("ok  " + ", ".join(f"{n_files} {kind}" for kind, n_files in n_files_by_kind.items()))
    return 0


def check_file(kind: str, name: str) -> None:
    """Check keys, names and code of one configuration file, without data or models.

    Args:
        kind: "methods", "datasets", "models", "encoders", "suites" or "profiles".
        name: The name of the preset.

    Raises:
        UserError: A mistake; a ConfigError for several.
    """
    if kind == "suites":
        _check_suite(name)
    elif kind == "profiles":
        _check_profile(name)
    elif kind == "methods":
        _check_method(name)
    elif kind == "datasets":
        _check_dataset(resolve_dataset(Choices(dataset=name)).value)
    else:
        resolve_named(kind, name)


def _check_profile(name: str) -> None:
    """Check that each setting that a profile gives to all methods is one that some method has.

    Raises UserError.
    """
    known_settings: set[str] = set()
    dataset = presets.names("datasets")[0]  # any will do
    for method in presets.names("methods"):
        settings = resolve(Choices(method=method, dataset=dataset, profile=name))
        method_of_preset = make_method(settings.method, settings.origins)
        known_settings |= set(method_of_preset.Config.model_fields)
    for origin, values in presets.read("profiles", name):
        for key in mapping_at(values, "methods", "*"):
            if key not in known_settings:
                raise unknown_name_error(
                    f"key 'methods.*.{key}' ({origin}), no method has it", key, known_settings
                )


def _check_method(name: str) -> None:
    """Check that a preset's settings fit its method, also those for
    single data sets. Raises UserError.
    """
    datasets: list[str | None] = [None]
    for _, values in presets.read("methods", name):
        datasets += mapping_at(values, "by_dataset")
    for dataset in dict.fromkeys(datasets):
        part = resolve_method(Choices(method=name, dataset=dataset))
        make_method(part.value, part.origins)


def _check_dataset(config: DatasetConfig) -> None:
    """Check that the format and the scorers of a data set exist. Raises UserError."""
    if ":" in config.format:
        registry.load(config.format)
    elif config.format not in format_names():
        raise UnknownName("format", config.format, format_names())
    problems = scorers.problems(config.scorers)
    if problems:
        raise ConfigError(problems)


def _check_suite(name: str) -> None:
    """Check that a suite's settings fit every method, data set and model that it names.

    Raises UserError for one mistake, ConfigError for several.
    """
    suite = suites.read_suite(name)
    problems: list[HarnessError] = []
    for part in suite.parts or (suite,):
        for model in part.models or (None,):
            for dataset, method in itertools.product(part.datasets, part.methods):
                run = Choices(method=method, dataset=dataset, model=model, suite=part)
                call_noting_problem(problems, resolve, run, mistakes_in_parts)
    raise_all(problems)
