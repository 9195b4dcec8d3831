"""Sweeps: every combination of the values of some settings, each combination an ordinary run.

    axes = parse_axes(["method.k=1,3", "seed=0,1"])       {"method.k": (1, 3), "seed": (0, 1)}
    expand_runs([Choices(method="bm25", ...)], axes)     four Choices; sets of the first: {"method.k": 1, "seed": 0}

A key is what `--set` takes. A method without a swept parameter is run once for it, as a reference
for the others.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.config.layers import Choices
from harness.config.registry import method_class
from harness.config.resolve import resolve_part
from harness.config.schema import MethodChoice
from harness.config.suites import Suite
from harness.config.yaml_tree import parse_assignments, value_text
from harness.errors import ConfigError, UserError, unknown

Axes = Mapping[str, Sequence[Any]]


def parse_axes(texts: Iterable[str]) -> dict[str, tuple[Any, ...]]:
    """Parse --sweep: ["method.k=1,3"] -> {"method.k": (1, 3)}. Raises ConfigError."""
    return check_axes(parse_assignments(texts, "--sweep ", several=True), "--sweep")


def check_axes(axes: Axes, where: str) -> dict[str, tuple[Any, ...]]:
    """Return the axes; raise ConfigError for a key that cannot be swept, no values or one twice.
    where: "--sweep"."""
    problems = []
    for key, values in axes.items():
        texts = [] if isinstance(values, str) else [value_text(value) for value in values]
        if key in ("method", "dataset"):
            problems.append(f"{where}: '{key}' cannot be swept; name several with --{key} A,B")
        elif key in ("limit", "sample", "profile"):
            problems.append(f"{where}: '{key}' cannot be swept; run the command once for each")
        elif not texts or "" in texts:
            problems.append(f"{where} {key}: name its values, for instance {key}=1,2,4")
        elif repeated := [entry for entry in dict.fromkeys(texts) if texts.count(entry) > 1]:
            problems.append(f"{where} {key}: the value {repeated[0]} is given twice")
    if problems:
        raise ConfigError(problems)
    return {key: tuple(values) for key, values in axes.items()}


def suite_axes(
    suite: Suite, model: str | None, sets: Mapping[str, Any]
) -> dict[str, tuple[Any, ...]]:
    """A suite's axes and its models, but for keys fixed by --model (`model`) or --set (`sets`).
    Raises ConfigError."""
    axes = (
        {"model": suite.models, **suite.sweep}
        if suite.models and model is None
        else dict(suite.sweep)
    )
    return check_axes(
        {key: values for key, values in axes.items() if key not in sets}, f"suite {suite.name}"
    )


def expand_runs(runs: Sequence[Choices], axes: Axes) -> tuple[list[Choices], list[str]]:
    """The runs at every point of a sweep over `axes`, and a sentence for each method that lacks a
    swept parameter.

    Raises UserError for a parameter that no method of the runs has, and for a key that `--set` sets
    too.
    """
    for key in axes:
        if any(key in run.sets for run in runs) or (
            key == "model" and any(run.model is not None for run in runs)
        ):
            raise UserError(f"'{key}' is swept and set to one value; leave one of the two out")
    expanded: list[Choices] = []
    parameters: dict[str, set[str]] = {}  # method -> those that it has
    lacking: dict[str, dict[str, None]] = {}  # swept key -> methods without it
    for run in runs:
        method, swept = method_and_parameters(run), dict(axes)
        without: list[str] = []
        if method is not None:
            parameters[str(run.method)] = method[1]
            without = [
                key
                for key in axes
                if key.startswith("method.") and key.split(".")[1] not in method[1]
            ]
            for key in without:
                lacking.setdefault(key, {})[str(run.method)] = None
            swept = {key: values for key, values in axes.items() if key not in without}
        for values in itertools.product(*swept.values()):
            point = dict(zip(swept, values, strict=True))
            sets = {key: value for key, value in point.items() if key not in (*without, "model")}
            model = str(point["model"]) if "model" in point else run.model
            expanded.append(
                replace(run, model=model, sets={**run.sets, **sets}, point={**run.point, **point})
            )
    if "model" in axes:  # a model is loaded once for all its runs
        expanded.sort(key=lambda run: [str(value) for value in axes["model"]].index(str(run.model)))
    for key, methods in lacking.items():
        if methods.keys() == parameters.keys():
            known = set().union(*parameters.values())
            raise unknown(
                f"key '{key}' (--sweep): no method of this command has it", key.split(".")[1], known
            )
    return expanded, [
        f"{key} is not swept for {', '.join(m)}: no such parameter" for key, m in lacking.items()
    ]


def method_and_parameters(run: Choices) -> tuple[MethodChoice, set[str]] | None:
    """A run's method and the names of its parameters; None for a run with a mistake, which planning
    will report."""
    try:
        method: MethodChoice = resolve_part("methods", run).value
        return method, set(method_class(method.implementation).Config.model_fields)
    except UserError:
        return None
