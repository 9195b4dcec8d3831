"""The rows of a command: every method on every data set, planned before any of them runs.

names and keys wrong anywhere    UserError, nothing is run
a row that cannot be planned     its mistakes go to stderr, the other rows remain
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.cli.options import Selection, sets_of, split
from harness.cli.output import say
from harness.config.sweep import words
from harness.engine.siblings import Lost, arrange
from harness.errors import ConfigError, HarnessError, UserError, raise_all

if TYPE_CHECKING:
    from harness.config.layers import Choices
    from harness.engine.plan import Plan


@dataclass
class Planned:
    """The rows that can be run, those that cannot and why, and the exit code so far."""

    plans: list[Plan] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    code: int = 0


def rows(selection: Selection, swept: Sequence[str] = ()) -> list[Choices]:
    """Every method on every data set that the options or the suite name, at each point of a sweep.

    swept: as after --sweep. Raises UserError.
    """
    from harness.config import suites, sweep

    methods: list[str | None] = [*split(selection.method)]
    datasets: list[str | None] = [*split(selection.dataset)]
    axes: dict[str, Sequence[Any]] = dict(sweep.read(swept))
    if selection.suite is not None:
        suite = suites.read(selection.suite)
        methods, datasets = methods or [*suite.methods], datasets or [*suite.datasets]
        axes = sweep.of_suite(suite, selection.model, sets_of(selection.sets)) | axes
    if selection.data is not None and len(datasets) > 1:
        raise UserError(f"--data holds the rows of one data set, but {len(datasets)} are named; keep one")
    wanted = [selection.choices(method, dataset) for dataset in datasets or [None] for method in methods or [None]]
    if not axes:
        return wanted
    wanted, notes = sweep.spread(wanted, axes)
    for note in notes:
        say(f"note: {note}")
    return wanted


def plan_all(wanted: Sequence[Choices]) -> Planned:
    """Plan every row; the mistakes of single rows are printed and give exit code 2 while the others go on.

    Raises UserError when a name or key is wrong, or when no row at all can be planned.
    """
    from harness.engine.plan import plan_choices

    planned = Planned()
    if len(wanted) == 1:
        planned.plans, _ = arrange([plan_choices(wanted[0])], wanted)
        return planned
    raise_all([problem for row in wanted for problem in _mistakes(row)])
    problems: list[str] = []
    for row in wanted:
        name = f"{' '.join(filter(None, [row.method, words(row.point)]))} on {row.dataset}"
        try:
            planned.plans.append(plan_choices(row))
        except UserError as e:
            problems += [f"{name}: {sentence}" for sentence in e.sentences]
            planned.lost.append(Lost(name, "; ".join(e.sentences)))
        except Exception as e:  # noqa: BLE001 - a bug in one method must not lose the others; exit code 1
            traceback.print_exc()
            planned.lost.append(Lost(name, bug(e)))
            planned.code = 1
    planned.plans, waiting = arrange(planned.plans, wanted)
    problems += [f"{one.row}: {one.why}" for one in waiting]
    planned.lost += waiting
    if not planned.plans and not planned.code:
        raise ConfigError(problems)
    for problem in problems:
        say(f"error: {problem}")
    planned.code = planned.code or (2 if problems else 0)
    return planned


def bug(error: Exception) -> str:
    """Why a row did not run whose traceback was printed."""
    return f"a bug, see the traceback above ({type(error).__name__})"


def _mistakes(row: Choices) -> list[HarnessError]:
    """Wrong names and keys of a row; where its bundled sample is used instead, those that the sample does not have."""
    from harness.config.resolve import resolve
    from harness.datasets.fallback import load_or_sample

    resolution = resolve(row)
    return load_or_sample(resolution)[0].problems if resolution.problems else []
