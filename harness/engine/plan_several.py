"""Plan several runs of one command: a mistake of several is said once, and the runs without one go
on."""

import traceback
from collections.abc import Callable, Sequence

from harness.config.layers import Choices, point_text
from harness.config.resolve import resolve
from harness.engine.plan import plan_choices
from harness.engine.runs_in_turn import Lost, Planned, bug_sentence
from harness.errors import ConfigError, HarnessError, UserError, attempt, raise_all

_MAX_REPEATS = 3  # runs that may share a sentence before it is said once for all of them


def plan_several(
    choices: Sequence[Choices], note: Callable[[str], None], elsewhere: bool
) -> Planned:
    """`expand_command.plan_all` for several runs."""
    planned = Planned()
    mistakes: list[HarnessError] = []
    for run in choices:
        attempt(mistakes, resolve, run)
    raise_all(mistakes)
    wrong: list[tuple[str, str]] = []
    absent: list[tuple[str, str]] = []
    for run in choices:
        name = f"{' '.join(filter(None, [run.method, point_text(run.point)]))} on {run.dataset}"
        try:
            planned.plans.append(plan_choices(run, elsewhere))
        except UserError as e:
            wrong += [(sentence, name) for sentence in e.sentences if sentence not in e.missing]
            absent += [(sentence, name) for sentence in e.missing]
            planned.lost.append(Lost(name, "; ".join(e.sentences)))
        except Exception as e:  # noqa: BLE001 - a bug in one method must not lose the others; exit code 1
            traceback.print_exc()
            planned.lost.append(Lost(name, bug_sentence(e)))
            planned.code = 1
    problems = _grouped(wrong)
    missing = _grouped(absent, 1)  # one thing to get, however many runs lack it
    problems += missing
    if not planned.plans and not planned.code:
        raise ConfigError(problems, missing)
    for problem in problems:
        note(f"error: {problem}")
    planned.code = planned.code or (2 if problems else 0)
    return planned


def _grouped(wrong: Sequence[tuple[str, str]], max_repeats: int = _MAX_REPEATS) -> list[str]:
    """One line for each (sentence, run name), or one for all runs of a sentence that more than
    `max_repeats` share."""
    runs: dict[str, list[str]] = {}
    for sentence, name in wrong:
        runs.setdefault(sentence, []).append(name)
    alike = {sentence: names for sentence, names in runs.items() if len(names) > max_repeats}
    grouped = [
        f"{len(names)} runs ({names[0]}, ...): {sentence}" for sentence, names in alike.items()
    ]
    return grouped + [f"{name}: {sentence}" for sentence, name in wrong if sentence not in alike]
