"""The runs of one call: every method on every data set, planned before any of them runs.

names and keys wrong anywhere    UserError, nothing is run
a run that cannot be planned     its mistakes go to `note`, the other runs remain

`harness run`, `harness validate` and harness.run() share it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.config import presets
from harness.config.layers import FOLDER_DATASET, Choices
from harness.config.suites import Suite
from harness.config.sweep import expand_runs, suite_axes
from harness.engine.suite_parts import distinct_runs, parts_to_run
from harness.errors import UserError

Swept = Mapping[str, Sequence[Any]]
"""The axes of a sweep: key -> values."""
Note = Callable[[str], None]


def command_runs(
    shared: Choices, methods: Sequence[str], datasets: Sequence[str], swept: Swept, note: Note
) -> list[Choices]:
    """List the runs of a command: every method on every data set at each point of the sweep.

    Where the command names a folder of documents or a file of questions but no data set, that
    folder is the data set; else those of the suite are taken. A suite in parts runs each part's
    methods on its data sets; a run that several parts have is listed once.

    Args:
        shared: Settings of all runs, with the suite.
        methods: Names or presets; () for those of the suite.
        datasets: Names; () for the folder, or those of the suite.
        swept: Axes of the sweep, beside those of the suite.
        note: Called with a sentence for each method that lacks a swept parameter.

    Raises:
        UserError: Something cannot be run, or a setting is for a data set that is not run.
    """
    suite = shared.suite
    if not datasets and (shared.documents or shared.questions):
        datasets = [FOLDER_DATASET]
    dataset_names = datasets
    if not dataset_names and suite is not None:
        dataset_names = suite.datasets
    _check_dataset_settings(shared, dataset_names)
    _check_data_is_of_one_dataset(shared, dataset_names)
    if suite is None or not suite.parts:
        return _every_combination(shared, methods, datasets, swept, note)
    return _runs_of_parts(suite, shared, methods, datasets, swept, note)


def _check_data_is_of_one_dataset(shared: Choices, datasets: Sequence[str]) -> None:
    """Raise UserError where --data gives the rows of one data set and several are run.

    Args:
        shared: Settings of all runs.
        datasets: All data sets of the command.
    """
    if shared.data is not None and len(datasets) > 1:
        each = " ".join(f"datasets.{name}.data=PATH" for name in datasets)
        raise UserError(
            f"--data holds the rows of one data set, but {len(datasets)} are named; keep one, "
            f"or name each one's: --set {each}"
        )


def _runs_of_parts(
    suite: Suite,
    shared: Choices,
    methods: Sequence[str],
    datasets: Sequence[str],
    swept: Swept,
    note: Note,
) -> list[Choices]:
    """List the runs of the parts of a suite, each run and each note once.

    Args:
        suite: The suite, which has parts.
        shared: Settings of all runs; in the runs of a part that part stands in place of the suite.
        methods: Names or presets; () for those of each part.
        datasets: Names; () for those of each part.
        swept: Axes of the sweep, beside those of the part.
        note: Called with a sentence for each method that lacks a swept parameter.
    """
    notes: list[str] = []
    runs: list[Choices] = []
    for chosen in parts_to_run(suite, methods, datasets):
        part_settings = replace(shared, suite=chosen.part)
        runs += _every_combination(
            part_settings, chosen.methods, chosen.datasets, swept, notes.append
        )
    for line in dict.fromkeys(notes):
        note(line)
    return distinct_runs(suite, runs)


def _check_dataset_settings(shared: Choices, datasets: Sequence[str]) -> None:
    """Raise UserError for a setting of a data set (--set datasets.NAME.KEY=...) that is not run.

    Args:
        shared: Settings of all runs.
        datasets: All data sets of the command; () if they are unknown, where nothing is checked.
    """
    folded_names = {presets.comparable_name(name) for name in datasets}
    for setting in shared.sets:
        root, _, rest = setting.partition(".")
        name, _, _ = rest.partition(".")
        is_of_other_dataset = (
            root == "datasets" and presets.comparable_name(name) not in folded_names
        )
        if is_of_other_dataset and datasets:
            raise UserError(
                f"'{setting}' is set, but '{name}' is not run; the data sets are "
                f"{', '.join(datasets)}"
            )


def _every_combination(
    shared: Choices, methods: Sequence[str], datasets: Sequence[str], swept: Swept, note: Note
) -> list[Choices]:
    """Every method on every data set at each point of the sweep; a suite has no parts here.

    Args:
        shared: Settings of all runs, with the suite.
        methods: Names; () for those of the suite.
        datasets: Names; () for those of the suite.
        swept: Axes of the sweep, which take the place of the suite's.
        note: Gets a sentence for each method that lacks a swept parameter.
    """
    suite = shared.suite
    axes = dict(swept)
    if suite is not None:
        methods = methods or list(suite.methods)
        datasets = datasets or suite.datasets
        axes = {**suite_axes(suite, shared.model, shared.sets), **axes}
    # Where nothing is named, a file may name it, and planning says what is missing.
    unnamed: list[str | None] = [None]
    choices: list[Choices] = []
    for dataset in datasets or unnamed:
        for method in methods or unnamed:
            choices.append(replace(shared, method=method, dataset=dataset))  # noqa: PERF401
    if not axes:
        return choices
    runs, notes = expand_runs(choices, axes)
    for line in notes:
        note(f"note: {line}")
    return runs


def with_seeds(shared: Choices, swept: Swept, repeat: int | None) -> tuple[Choices, Swept]:
    """The settings without a seed, and the sweep with an axis of seeds: --seed 3 --repeat 2 gives
    (settings, {..., "seed": (3, 4)}).

    Args:
        shared: Settings of all runs; the seed is taken out of them.
        swept: Axes of the sweep.
        repeat: How many seeds; None leaves both as they are.

    Raises:
        UserError: The seed is set or swept, too.
    """
    if repeat is None:
        return shared, swept
    if "seed" in swept or "seed" in shared.sets:
        raise UserError(
            "the seed is given by --repeat and by --sweep or --set; leave one of the two out"
        )
    first_seed = shared.seed or 0
    seeds = tuple(range(first_seed, first_seed + repeat))
    return replace(shared, seed=None), {**swept, "seed": seeds}
