"""The rows of one call: every method on every data set, planned before any of them runs.

names and keys wrong anywhere    UserError, nothing is run
a row that cannot be planned     its mistakes go to `note`, the other rows remain

`harness run`, `harness validate` and harness.run() share it.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

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


def rows(
    shared: Choices,
    methods: Sequence[str],
    datasets: Sequence[str],
    swept: Mapping[str, Sequence[Any]],
    note: Callable[[str], None],
) -> list[Choices]:
    """Every method on every data set, by default those of the suite, at each point of the sweep.

    shared: what all rows have in common, with the suite; swept: key -> values, beside what the suite sweeps; note: gets
    a sentence for each method that lacks a swept parameter. Raises UserError.
    """
    from harness.config import sweep

    suite = shared.suite
    axes = dict(swept)
    if suite is not None:
        methods, datasets = methods or suite.methods, datasets or suite.datasets
        axes = sweep.of_suite(suite, shared.model, shared.sets) | axes
    if shared.data is not None and len(datasets) > 1:
        raise UserError(f"--data holds the rows of one data set, but {len(datasets)} are named; keep one")
    none: list[str | None] = [None]  # nothing is named: a file may name it, and planning says what is missing
    choices = [replace(shared, method=m, dataset=d) for d in datasets or none for m in methods or none]
    if not axes:
        return choices
    choices, notes = sweep.spread(choices, axes)
    for line in notes:
        note(f"note: {line}")
    return choices


def with_seeds(
    shared: Choices, swept: Mapping[str, Sequence[Any]], repeat: int | None
) -> tuple[Choices, dict[str, Sequence[Any]]]:
    """What rows share and what is swept, with `repeat` seeds from the chosen one on. Raises UserError."""
    if repeat is None:
        return shared, dict(swept)
    if "seed" in swept or "seed" in shared.sets:
        raise UserError("the seed is given by --repeat and by --sweep or --set; leave one of the two out")
    first = shared.seed or 0
    return replace(shared, seed=None), {**swept, "seed": tuple(range(first, first + repeat))}


def plan_all(choices: Sequence[Choices], note: Callable[[str], None]) -> Planned:
    """Plan every row; the mistakes of single rows go to `note` and give exit code 2 while the others go on.

    Raises UserError when a name or key is wrong, or when no row at all can be planned.
    """
    from harness.engine.plan import plan_choices

    planned = Planned()
    if len(choices) == 1:
        planned.plans, _ = arrange([plan_choices(choices[0])], choices)
        return planned
    raise_all([problem for row in choices for problem in _mistakes(row)])
    problems: list[str] = []
    for row in choices:
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
    planned.plans, waiting = arrange(planned.plans, choices)
    problems += [f"{lost.row}: {lost.why}" for lost in waiting]
    planned.lost += waiting
    if not planned.plans and not planned.code:
        raise ConfigError(problems)
    for problem in problems:
        note(f"error: {problem}")
    planned.code = planned.code or (2 if problems else 0)
    return planned


def bug(error: Exception) -> str:
    """Why a row did not run whose traceback was printed."""
    return f"a bug, see the traceback above ({type(error).__name__})"


def _mistakes(row: Choices) -> list[HarnessError]:
    """Wrong names and keys of a row; if its bundled sample is used instead, those that the sample does not have."""
    from harness.config.resolve import resolve
    from harness.datasets.fallback import load_or_sample

    resolution = resolve(row)
    return load_or_sample(resolution)[0].problems if resolution.problems else []
