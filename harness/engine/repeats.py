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
    """The runs of a command with --repeat, where a run whose answers no seed changes is there once,
    not once for each seed. Of equal runs the first stays.

    Args:
        runs: The runs of the command, with their seeds in their points.
        repeat: The number of seeds of each run; None leaves the runs as they are.
        note: Gets a sentence about the repeats that are left out.
    """
    if repeat is None or repeat == 1:
        return list(runs)
    draws_nothing_by_settings: dict[str, bool] = {}
    # Keys are settings: those without the seed where no seed changes the answers, else all.
    distinct: dict[str, Choices] = {}
    methods_with_repeats: dict[str, None] = {}  # a set in order; the repeats are left out
    for run in runs:
        settings_text = _settings_without_seed(run)
        if settings_text not in draws_nothing_by_settings:
            draws_nothing_by_settings[settings_text] = _draws_nothing(run)
        if not draws_nothing_by_settings[settings_text]:
            settings_with_seed = repr(run)
            distinct.setdefault(settings_with_seed, run)
        elif settings_text in distinct:
            methods_with_repeats.setdefault(str(run.method))
        else:
            distinct[settings_text] = run
    if methods_with_repeats:
        note(
            f"note: {', '.join(methods_with_repeats)}: greedy, so all {repeat} repeats would be "
            "equal and one is run; to draw answers: --set model.temperature=0.7"
        )
    return list(distinct.values())


def _settings_without_seed(run: Choices) -> str:
    """The run's settings as text, without the seed: equal for runs that differ in their seeds
    alone."""
    seedless = replace(run, point={**run.point, "seed": None}, sets={**run.sets, "seed": None})
    return repr(seedless)


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
