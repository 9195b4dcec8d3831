"""Suites of several parts (harness/config/suites.py): what of a command each part runs, and which
runs are the same."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.config import presets
from harness.config.layers import Choices
from harness.config.suites import Suite


@dataclass(frozen=True)
class RunKey:
    """Identifies a run of a command.

    Attributes:
        method: The preset as the user named it, without differences of case.
        dataset: The data set, likewise.
        point: Its values of a sweep: {("method.k", "3")}.
    """

    method: str
    dataset: str
    point: frozenset[tuple[str, str]]

    @classmethod
    def from_choices(cls, choices: Choices) -> RunKey:
        """The key of a run, from what the user chose for it."""
        point = frozenset((name, str(value)) for name, value in choices.point.items())
        method = presets.comparable_name(choices.method or "")
        dataset = presets.comparable_name(choices.dataset or "")
        return cls(method, dataset, point)


@dataclass(frozen=True)
class PartToRun:
    """A part of a suite, with what of it a command runs.

    Attributes:
        part: The part.
        methods: The methods of it that are run.
        datasets: The data sets that these are run on.
    """

    part: Suite
    methods: list[str]
    datasets: list[str]


def parts_to_run(suite: Suite, methods: Sequence[str], datasets: Sequence[str]) -> list[PartToRun]:
    """Each part with the methods and data sets that it runs.

    A named method or data set that some parts have is run in those parts, any other one in all
    parts.

    Args:
        suite: The suite.
        methods: Those that the command names; () for all of each part.
        datasets: Those that the command names; () for all of each part.
    """
    chosen: list[PartToRun] = []
    for part in suite.parts:
        own_methods = _names_that_part_runs(methods, part.methods, suite.methods)
        own_datasets = _names_that_part_runs(datasets, part.datasets, suite.datasets)
        if own_methods and own_datasets:
            chosen.append(PartToRun(part, own_methods, own_datasets))
    return chosen


def distinct_runs(suite: Suite, runs: Iterable[Choices]) -> list[Choices]:
    """The runs of all parts of a suite; a run that two parts would run alike is run once.

    Where two parts have other runs of one method on one data set, the later run gets settings of
    its part as a point of a sweep, so that tables tell them apart.

    Args:
        suite: The suite.
        runs: The runs of each part, one part after the other; `suite` of a run is its part.
    """
    runs_by_settings: dict[str, Choices] = {}
    for run in runs:
        part = run.suite or suite
        runs_by_settings.setdefault(_settings_key(run, part), run)
    keys_of_all_parts = _common_settings(suite)
    keys_of_earlier_runs: set[RunKey] = set()
    distinct: list[Choices] = []
    for run in runs_by_settings.values():
        if run.suite is not None:  # the part that the run is of
            settings_of_part = _without_keys(run.suite.sets, keys_of_all_parts)
            run = _with_distinct_point(run, settings_of_part, keys_of_earlier_runs)
        keys_of_earlier_runs.add(RunKey.from_choices(run))
        distinct.append(run)
    return distinct


def _settings_key(run: Choices, part: Suite) -> str:
    """A text that is equal for runs that two parts would run alike: their own settings and those of
    their part.

    Args:
        run: A run.
        part: The part of the suite that it belongs to.
    """
    settings = (part.sets, part.methods.get(str(run.method)), part.profile, part.limit)
    return repr((run.method, run.dataset, run.model, run.point, settings))


def _common_settings(suite: Suite) -> list[str]:
    """The keys that all parts set to the same value, which distinguish no runs."""
    first, *others = (part.sets for part in suite.parts)
    common: list[str] = []
    for key, value in first.items():
        if all(key in sets and sets[key] == value for sets in others):
            common.append(key)
    return common


def _without_keys(sets: Mapping[str, object], keys: Collection[str]) -> dict[str, object]:
    """The settings whose keys are not among `keys`."""
    return {key: value for key, value in sets.items() if key not in keys}


def _with_distinct_point(
    run: Choices, settings_of_part: Mapping[str, object], keys_of_earlier_runs: Collection[RunKey]
) -> Choices:
    """The run, with settings of its part added to its point one by one until no earlier run has
    its key.

    Args:
        run: A run of a part.
        settings_of_part: The settings of its part that not all parts share.
        keys_of_earlier_runs: The keys of the earlier runs.
    """
    for name, value in settings_of_part.items():
        if RunKey.from_choices(run) not in keys_of_earlier_runs:
            break
        run = replace(run, point={**run.point, name: value})
    return run


def _names_that_part_runs(
    names_in_command: Collection[str],
    names_of_part: Collection[str],
    names_of_all_parts: Collection[str],
) -> list[str]:
    """The methods, or the data sets, that a part runs.

    Args:
        names_in_command: The names in the command; () for all of the part.
        names_of_part: The names of the part.
        names_of_all_parts: The names of all parts. One that only other parts have is not run in
            this one.
    """
    comparable_of_part = {presets.comparable_name(name) for name in names_of_part}
    comparable_of_suite = {presets.comparable_name(name) for name in names_of_all_parts}
    only_in_other_parts = comparable_of_suite - comparable_of_part
    wanted_names = names_in_command or names_of_part
    return [
        name for name in wanted_names if presets.comparable_name(name) not in only_in_other_parts
    ]
