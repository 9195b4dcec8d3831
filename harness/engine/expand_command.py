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
from harness.config.layers import FOLDER, Choices
from harness.errors import UserError

Swept = Mapping[str, Sequence[Any]]
"""The axes of a sweep: key -> values."""
Note = Callable[[str], None]


def command_runs(
    shared: Choices, methods: Sequence[str], datasets: Sequence[str], swept: Swept, note: Note
) -> list[Choices]:
    """The runs of a command: every method on every data set, by default those of the suite, at each
    point of the sweep.

    shared: settings of all runs, with the suite; swept: axes beside those of the suite; note: gets
    a sentence for each method that lacks a swept parameter. Raises UserError, also for a setting of
    a data set that is not run.
    """
    suite = shared.suite
    datasets = datasets or [FOLDER] * bool(shared.documents or shared.questions)
    named = datasets or (suite.datasets if suite else ())
    folded = {presets.fold(name) for name in named}
    for setting in shared.sets:
        root, _, rest = setting.partition(".")
        if (
            root == "datasets"
            and folded
            and presets.fold(name := rest.partition(".")[0]) not in folded
        ):
            raise UserError(
                f"'{setting}' is set, but '{name}' is not run; the data sets are {', '.join(named)}"
            )
    if shared.data is not None and len(named) > 1:
        raise UserError(
            f"--data holds the rows of one data set, but {len(named)} are named; keep one, or name "
            "each one's: "
            f"--set {' '.join(f'datasets.{name}.data=PATH' for name in named)}"
        )
    if suite is None or not suite.parts:
        return _cross(shared, methods, datasets, swept, note)
    from harness.engine.suite_parts import distinct_runs, parts_to_run

    notes: dict[str, None] = {}
    parts = parts_to_run(suite, methods, datasets)
    runs = [
        _cross(replace(shared, suite=part), m, d, swept, notes.setdefault) for part, m, d in parts
    ]
    for line in notes:
        note(line)
    return distinct_runs(suite, [run for of_part in runs for run in of_part])


def _cross(
    shared: Choices, methods: Sequence[str], datasets: Sequence[str], swept: Swept, note: Note
) -> list[Choices]:
    """Every method on every data set at each point of the sweep; a suite has no parts here."""
    suite = shared.suite
    axes = dict(swept)
    if suite is not None:
        from harness.config import sweep

        methods, datasets = methods or [*suite.methods], datasets or suite.datasets
        axes = sweep.suite_axes(suite, shared.model, shared.sets) | axes
    none: list[str | None] = [
        None
    ]  # nothing is named: a file may name it, and planning says what is missing
    choices = [
        replace(shared, method=m, dataset=d) for d in datasets or none for m in methods or none
    ]
    if not axes:
        return choices
    from harness.config import sweep

    choices, notes = sweep.expand_runs(choices, axes)
    for line in notes:
        note(f"note: {line}")
    return choices


def with_seeds(shared: Choices, swept: Swept, repeat: int | None) -> tuple[Choices, Swept]:
    """Add a sweep axis of `repeat` seeds, from the chosen seed on, if given. Raises UserError."""
    if repeat is None:
        return shared, swept
    if "seed" in swept or "seed" in shared.sets:
        raise UserError(
            "the seed is given by --repeat and by --sweep or --set; leave one of the two out"
        )
    first = shared.seed or 0
    return replace(shared, seed=None), {**swept, "seed": tuple(range(first, first + repeat))}
