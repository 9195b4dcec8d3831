"""Sweeps: every combination of the values of some settings, each combination an ordinary run.

    axes = parse_axes(["method.k=1,3", "seed=0,1"])       {"method.k": (1, 3), "seed": (0, 1)}
    expand_runs([Choices(method="bm25", ...)], axes)     four Choices; sets of the first: {"method.k": 1, "seed": 0}

A key is what `--set` takes. A method without a swept parameter is run once for it, as a reference
for the others.
"""

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from harness.config.layers import Choices
from harness.config.registry import method_class
from harness.config.resolve import resolve_method
from harness.config.schema import MethodChoice
from harness.config.suites import Suite
from harness.config.yaml_tree import parse_lists, value_text
from harness.errors import ConfigError, UserError, unknown_name_error

Axes = Mapping[str, Sequence[object]]
"""Swept key ("method.k") -> its values."""


def parse_axes(texts: Iterable[str]) -> dict[str, tuple[object, ...]]:
    """Parse --sweep: ["method.k=1,3"] -> {"method.k": (1, 3)}. Raises ConfigError."""
    return check_axes(parse_lists(texts, "--sweep "), "--sweep")


def check_axes(axes: Axes, where: str) -> dict[str, tuple[object, ...]]:
    """Return the axes with tuples of values.

    Raises ConfigError for a key that cannot be swept, and for one without values or with one twice;
    `where` is what set them, for messages: "--sweep".
    """
    problems: list[str] = []
    for key, values in axes.items():
        problem = _axis_problem(key, values, where)
        if problem:
            problems.append(problem)
    if problems:
        raise ConfigError(problems)
    return {key: tuple(values) for key, values in axes.items()}


def _axis_problem(key: str, values: Sequence[object], where: str) -> str:
    """Say why a key cannot be swept over these values; "" if it can. A text in place of a list of
    values counts as none.

    Args:
        key: The swept key: "method.k".
        values: Its values.
        where: What set them, for the sentence: "--sweep".
    """
    if key in ("method", "dataset"):
        return f"{where}: '{key}' cannot be swept; name several with --{key} A,B"
    if key in ("limit", "sample", "profile"):
        return f"{where}: '{key}' cannot be swept; run the command once for each"
    texts: list[str] = []
    if not isinstance(values, str):
        texts = [value_text(value) for value in values]
    if not texts or "" in texts:
        return f"{where} {key}: name its values, for instance {key}=1,2,4"
    for text in texts:
        if texts.count(text) > 1:
            return f"{where} {key}: the value {text} is given twice"
    return ""


def suite_axes(
    suite: Suite, model: str | None, sets: Mapping[str, object]
) -> dict[str, tuple[object, ...]]:
    """The swept keys of a suite with their values, its models among them.

    Keys that the command fixes are left out. Raises ConfigError.

    Args:
        suite: The suite.
        model: What --model names; None without it.
        sets: The values of --set by key.
    """
    axes: dict[str, Sequence[object]] = {}
    if suite.models and model is None:
        axes["model"] = suite.models
    axes |= suite.sweep
    open_axes = {key: values for key, values in axes.items() if key not in sets}
    return check_axes(open_axes, f"suite {suite.name}")


class ExpandedRuns(NamedTuple):
    """The runs of a sweep, and a sentence for each swept key that some methods do not have."""

    runs: list[Choices]
    notes: list[str]


def expand_runs(runs: Sequence[Choices], axes: Axes) -> ExpandedRuns:
    """Repeat each run with every combination of the swept values.

    They stand in the order of `runs`, but where models are swept all runs of one model together. A
    method that does not have a swept key runs without it.

    Args:
        runs: The runs before the sweep.
        axes: Key -> its values, {"method.k": (1, 3), "model": ("a", "b")}.

    Raises:
        UserError: No method of the runs has a swept parameter, or `--set` sets a swept key too.
    """
    for key in axes:
        _check_not_set(key, runs)
    repeated_runs: list[Choices] = []
    parameters: dict[str, set[str]] = {}  # method -> names of its parameters
    methods_without: dict[str, list[str]] = {}  # swept key -> methods that do not have it
    for run in runs:
        own_axes = dict(axes)
        method_name = str(run.method)
        resolved = method_and_parameters(run)
        if resolved is not None:  # else the run has a mistake, which planning reports
            parameters[method_name] = resolved.parameters
            for key in _keys_without_parameter(axes, resolved.parameters):
                methods_without.setdefault(key, []).append(method_name)
                del own_axes[key]
        repeated_runs += _repeated_at_every_point(run, own_axes)
    if "model" in axes:  # a model is loaded once for all its runs
        models_in_order = [str(value) for value in axes["model"]]
        repeated_runs.sort(key=lambda run: models_in_order.index(str(run.model)))
    return ExpandedRuns(repeated_runs, _notes_on_methods_without(methods_without, parameters))


def _notes_on_methods_without(
    methods_without: Mapping[str, Sequence[str]], parameters: Mapping[str, Collection[str]]
) -> list[str]:
    """Write a sentence for each swept key that some methods do not have.

    Raises UserError for a key that no method has.

    Args:
        methods_without: Swept key -> the methods that do not have it.
        parameters: Method -> the names of its parameters.
    """
    notes: list[str] = []
    for key, methods in methods_without.items():
        distinct = dict.fromkeys(methods)
        no_method_has_it = distinct.keys() == parameters.keys()
        if no_method_has_it:
            all_parameters = set().union(*parameters.values())
            subject = f"key '{key}' (--sweep): no method of this command has it"
            raise unknown_name_error(subject, key.split(".")[1], all_parameters)
        notes.append(f"{key} is not swept for {', '.join(distinct)}: no such parameter")
    return notes


def _check_not_set(key: str, runs: Sequence[Choices]) -> None:
    """Raise UserError for a swept key that some run sets to one value."""
    for run in runs:
        is_set_by_flag = key == "model" and run.model is not None
        if key in run.sets or is_set_by_flag:
            raise UserError(f"'{key}' is swept and set to one value; leave one of the two out")


def _keys_without_parameter(axes: Axes, parameters: Collection[str]) -> list[str]:
    """The swept keys of parameters that a method lacks: ["method.k"].

    Args:
        axes: Swept key -> its values.
        parameters: The names of the parameters that the method has.
    """
    method_keys = [key for key in axes if key.startswith("method.")]
    return [key for key in method_keys if key.split(".")[1] not in parameters]


def _repeated_at_every_point(run: Choices, axes: Axes) -> list[Choices]:
    """Repeat a run with each combination of the swept values.

    A run and {"method.k": (1, 3), "seed": (0, 1)} give four runs.
    """
    repeated_runs: list[Choices] = []
    for values in itertools.product(*axes.values()):
        point = dict(zip(axes, values, strict=True))
        sets = dict(point)
        model = run.model
        if "model" in sets:
            model = str(sets.pop("model"))
        run_at_point = replace(
            run, model=model, sets={**run.sets, **sets}, point={**run.point, **point}
        )
        repeated_runs.append(run_at_point)
    return repeated_runs


class MethodWithParameters(NamedTuple):
    """The settings of a run's method, and the names of all parameters that the method has."""

    choice: MethodChoice
    parameters: set[str]


def method_and_parameters(run: Choices) -> MethodWithParameters | None:
    """Resolve a run's method, and list the names of its parameters.

    None for a run with a mistake, which planning will report.
    """
    try:
        choice = resolve_method(run).value
        config_class = method_class(choice.implementation).Config
    except UserError:
        return None
    return MethodWithParameters(choice, set(config_class.model_fields))
