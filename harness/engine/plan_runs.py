"""Plan the runs of one command before any of them runs: a mistake of several is said once, and the
runs without one go on.

names and keys wrong anywhere    UserError, nothing is run
a run that cannot be planned     its mistakes go to `note`, the other runs remain
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harness.config.layers import Choices, point_text
from harness.config.resolve import resolve
from harness.engine.plan import PlannedRun, plan_choices
from harness.engine.runs_in_turn import IncompleteRun, Planned, bug_sentence
from harness.errors import ConfigError, HarnessError, UserError, call_noting_problem, raise_all

_MAX_REPEATS = 3  # runs that may share a sentence before it is said once for all of them


@dataclass(frozen=True)
class _Mistake:
    """A sentence about one run."""

    sentence: str
    run_name: str


@dataclass
class _Mistakes:
    """Mistakes of the runs of a command.

    Attributes:
        wrong: What has to be mended in the command or in a file.
        missing: What only this machine lacks, such as weights.
    """

    wrong: list[_Mistake] = field(default_factory=list)
    missing: list[_Mistake] = field(default_factory=list)

    def add(self, error: UserError, run_name: str) -> None:
        """Add each sentence of an error, to `wrong` or to `missing`; run_name: the run in
        messages, "bm25 k=3 on musique"."""
        for sentence in error.sentences:
            mistake = _Mistake(sentence, run_name)
            if sentence in error.missing:
                self.missing.append(mistake)
            else:
                self.wrong.append(mistake)


def plan_runs(
    choices: Sequence[Choices], note: Callable[[str], None], for_another_machine: bool = False
) -> Planned:
    """Plan every run of a command, and check that a run uses each setting (`_check_plans`). Of
    several runs, those without mistakes are planned although others have some, which go to `note`
    and make the exit code 2.

    Args:
        choices: What the user chose, run by run.
        note: Gets a sentence for each mistake.
        for_another_machine: Plan runs for another machine: files missing here are no error.

    Raises:
        UserError: A name or key is wrong, or no run at all can be planned.
    """
    if len(choices) == 1:  # its mistakes are raised
        planned = Planned([plan_choices(choices[0], for_another_machine)])
        _check_plans(choices, planned.plans, note)
        return planned
    _check_names(choices)
    planned = Planned()
    mistakes = _Mistakes()
    for run in choices:
        _plan_one(run, for_another_machine, planned, mistakes)
    problems = _mistake_lines(mistakes.wrong, _MAX_REPEATS)
    missing = _mistake_lines(mistakes.missing, 1)  # one thing to get, however many runs lack it
    problems += missing
    nothing_can_run = not planned.plans
    if nothing_can_run and not planned.exit_code:
        raise ConfigError(problems, missing)
    _check_plans(choices, planned.plans, note)
    for problem in problems:
        note(f"error: {problem}")
    if problems and not planned.exit_code:  # it is 1 after a bug
        planned.exit_code = 2
    return planned


def _check_plans(
    choices: Sequence[Choices], plans: Sequence[PlannedRun], note: Callable[[str], None]
) -> None:
    """Note which methods run without the retriever of the command, and settings that no run uses.
    Raises UserError for a retriever that no run uses.

    Args:
        choices: What the user chose, run by run.
        plans: The planned runs.
        note: Gets a sentence for each.
    """
    _check_retriever(choices, plans, note)
    _note_unused(plans, note)


def _check_retriever(
    choices: Sequence[Choices], plans: Sequence[PlannedRun], note: Callable[[str], None]
) -> None:
    """Note which methods of the command run without the retriever that it names; nothing where it
    names none.

    Args:
        choices: What the user chose, run by run.
        plans: The planned runs.
        note: Gets the sentence.

    Raises:
        UserError: No method uses the retriever.
    """
    if all(run.retriever is None for run in choices):
        return
    # Names of methods, in order, each once.
    with_it: dict[str, None] = {}
    without_it: dict[str, None] = {}
    for plan in plans:
        if plan.config.retriever is None:
            without_it[plan.config.method.name] = None
        else:
            with_it[plan.config.method.name] = None
    if not with_it:
        raise UserError(
            f"--retriever takes the place of a ranking of passages, and {', '.join(without_it)} "
            "has none that it replaces; run a method that retrieves, as --method bm25"
        )
    if without_it:
        note(
            f"note: --retriever ranks for {', '.join(with_it)}; without it run: "
            f"{', '.join(without_it)}"
        )


def _note_unused(plans: Sequence[PlannedRun], note: Callable[[str], None]) -> None:
    """Note each setting that the user gave and that no run of the command uses: one that every plan
    lists as unused."""
    if not plans:
        return
    first, *others = plans
    for key in first.unused:
        if all(key in plan.unused for plan in others):
            note(f"warning: no method of this command uses {key}, so that setting is ignored")


def _check_names(choices: Sequence[Choices]) -> None:
    """Resolve every run's settings, without data or models. Raises UserError, or ConfigError for
    several, with every name and key that is wrong in any run."""
    mistakes: list[HarnessError] = []
    for run in choices:
        call_noting_problem(mistakes, resolve, run)
    raise_all(mistakes)


def _plan_one(
    run: Choices, for_another_machine: bool, planned: Planned, mistakes: _Mistakes
) -> None:
    """Plan one of several runs: its plan is added to `planned`. A run that cannot run is put among
    the incomplete ones there; so is one that a bug ends, which also prints the traceback and makes
    the exit code 1.

    Args:
        run: What the user chose for it.
        for_another_machine: Plan it for another machine.
        planned: Gets its plan, or why it cannot run.
        mistakes: Gets what is wrong with it.
    """
    method_and_point = " ".join(filter(None, [run.method, point_text(run.point)]))
    run_name = f"{method_and_point} on {run.dataset}"
    try:
        planned.plans.append(plan_choices(run, for_another_machine))
    except UserError as error:
        mistakes.add(error, run_name)
        planned.incomplete.append(IncompleteRun(run_name, "; ".join(error.sentences)))
    except Exception as error:  # noqa: BLE001 - a bug in one method must not lose the others
        traceback.print_exc()
        planned.incomplete.append(IncompleteRun(run_name, bug_sentence(error)))
        planned.exit_code = 1


def _mistake_lines(mistakes: Sequence[_Mistake], max_repeats: int) -> list[str]:
    """The lines that report mistakes: one for each, but a sentence that more than `max_repeats`
    runs share is said once.

    [_Mistake("no file x", "bm25 on a"), _Mistake("no file x", "bm25 on b")], 1
        -> ["2 runs (bm25 on a, ...): no file x"]
    """
    counts = Counter(mistake.sentence for mistake in mistakes)
    shared: dict[str, str] = {}
    single: list[str] = []
    for mistake in mistakes:
        count = counts[mistake.sentence]
        if count <= max_repeats:
            single.append(f"{mistake.run_name}: {mistake.sentence}")
        elif mistake.sentence not in shared:
            line = f"{count} runs ({mistake.run_name}, ...): {mistake.sentence}"
            shared[mistake.sentence] = line
    return [*shared.values(), *single]
