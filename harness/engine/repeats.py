"""Leave out repeats (--repeat) that would answer as the run's first one: greedy runs of methods
that draw nothing."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.config.layers import Choices
from harness.config.registry import method_class
from harness.config.resolve import resolve_method, resolve_model
from harness.errors import UserError
from harness.method import draws_by_seed


def distinct_repeats(
    runs: Sequence[Choices], repeat: int | None, note: Callable[[str], None]
) -> list[Choices]:
    """The runs with one repeat of each run whose answers no seed changes.

    Args:
        runs: With their seeds in their points.
        repeat: The number of seeds of each run; None leaves the runs as they are.
        note: Gets a sentence about the repeats that are left out.
    """
    if repeat is None or repeat == 1:
        return list(runs)
    equal: dict[str, bool] = {}
    kept: dict[str, Choices] = {}
    names: dict[str, None] = {}
    for run in runs:
        alike = repr(
            replace(run, point={**run.point, "seed": None}, sets={**run.sets, "seed": None})
        )
        if alike not in equal:
            equal[alike] = _draws_nothing(run)
        if equal[alike] and alike in kept:
            names.setdefault(str(run.method))
        kept.setdefault(alike if equal[alike] else repr(run), run)
    if names:
        note(
            f"note: {', '.join(names)}: greedy, so all {repeat} repeats would be equal and one is "
            "run; "
            "to draw answers: --set model.temperature=0.7"
        )
    return list(kept.values())


def _draws_nothing(run: Choices) -> bool:
    """Whether no seed changes the run's answers; False for a run with a mistake, which is reported
    when it is planned."""
    try:
        method = resolve_method(run).value
        model = resolve_model(run).value
        draws = draws_by_seed(method_class(method.implementation))
    except UserError:
        return False
    return not model.temperature and not draws
