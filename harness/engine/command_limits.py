"""Cost limits of a command: once one is hit, no further question is begun; the same command with a
higher one resumes.

hooks.append(LimitHook(budget, plans, out, command, note))    runs are counted (spending_limits.py), or not begun
"""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.config.applications import APPLICATION
from harness.engine.manifest import shape_of_role
from harness.engine.plan import PlannedRun
from harness.engine.runs_in_turn import Hook
from harness.engine.spending_limits import Budget, number_text
from harness.errors import LimitReached, UserError
from harness.storage.paths import with_address_secrets_masked
from harness.storage.run_files import RUN


class LimitHook(Hook):
    """Count what the runs of a command have spent, begin none once a limit is hit, and say how to
    go on."""

    def __init__(
        self,
        budget: Budget,
        plans: Sequence[PlannedRun],
        out: Path,
        command: Sequence[str],
        note: Callable[[str], None],
    ) -> None:
        """Check that the limits of the command can be counted for its runs: FLOPs need the sizes of
        all models, money their prices or that of an hour.

        Args:
            budget: The limits.
            plans: The runs.
            out: The results folder.
            command: The words that were typed, to be printed with a higher limit.
            note: Prints a sentence.

        Raises:
            UserError: A limit cannot be counted.
        """
        self._budget = budget
        self._out = out
        self._command = command
        self._note = note
        if "tflops" in budget.limits:
            for plan in plans:
                _check_flops_are_counted(plan)
        if "money" in budget.limits and not budget.price_per_hour:
            for plan in plans:
                _check_prices_are_known(plan)

    def ready(self, plan: PlannedRun) -> PlannedRun:
        """Return the plan. Raises LimitReached for a run that has no folder yet, once a limit is
        hit; one that has a folder is opened, as its answers may be complete."""
        has_folder = (self._out / plan.folder / RUN).exists()
        if not has_folder and not self._budget.may_continue():
            raise LimitReached(f"not begun, as {self._budget.reached_limit_text()} is reached")
        return plan

    def started(self, plan: PlannedRun) -> None:
        """Begin to count this run: what its earlier starts, indexes and judges cost, and from now
        on by its prices. Its questions are counted as their records are read."""
        self._budget.open_run(self._out / plan.folder, plan.config.stored().prices)

    def closed(self) -> int:
        """Print the command that resumes, where a limit was hit. Returns 0, as no exit code is
        asked for."""
        if self._budget.reached_limit:
            self._note("what was answered is saved; the same command with a higher limit resumes:")
            words = command_with_higher_limit(self._budget, self._command)
            self._note(shlex.join(map(with_address_secrets_masked, words)))
        return 0


def command_with_higher_limit(budget: Budget, command: Sequence[str]) -> list[str]:
    """The words of the command, with the limit that was hit raised to twice what is spent so far.

    ["harness", "run", "--max-tokens", "5000"], 6000 of which are spent
        -> ["harness", "run", "--max-tokens", "12000"]
    """
    flag, _, _ = budget.reached_limit.partition(" ")  # "--max-tokens 5000"
    spent = budget.spent()[flag.removeprefix("--max-")]
    higher_limit = number_text(2 * spent)
    words: list[str] = []
    for word in command:
        if words and words[-1] == flag:
            words.append(higher_limit)
        elif word.startswith(f"{flag}="):
            words.append(f"{flag}={higher_limit}")
        else:
            words.append(word)
    return words


def _check_flops_are_counted(plan: PlannedRun) -> None:
    """Raise UserError where the sizes of a model or encoder of the run are unknown, so that
    --max-tflops cannot be counted."""
    for role in sorted(plan.identities):
        if shape_of_role(plan, role) is None:
            raise UserError(
                f"--max-tflops: the FLOPs of the {role} of {plan.run_name} are not counted, as "
                "its sizes are unknown; give them (model.shape), or use --max-tokens"
            )


def _check_prices_are_known(plan: PlannedRun) -> None:
    """Raise UserError where nobody said the price of a model, of a served encoder or of the
    retriever, so that --max-money cannot be counted. For a method that uses no model, the price of
    the reader must be there all the same."""
    models = list(plan.models.values())
    if not models:
        models = [plan.config.model]
    for model in models:
        # An application may say what an answer costs; where it does not, the run stops.
        if model.price is None and model.backend != APPLICATION:
            raise _missing_price_error(model.name, "model.price.input=... model.price.output=...")
    for role, encoder in plan.encoders.items():
        if encoder.base_url and encoder.price is None:
            raise _missing_price_error(encoder.name, f"{role}.price=...")
    retriever = plan.config.retriever
    if retriever is not None and retriever.price is None:
        raise UserError(
            f"--max-money: what a search of '{retriever.name}' takes is not known; give it (--set "
            "retriever.price=0 where it takes nothing)"
        )


def _missing_price_error(name: str, setting: str) -> UserError:
    """The error for a model or encoder without a price.

    Args:
        name: The model or encoder.
        setting: The settings that give it one: "reranker.price=...".
    """
    return UserError(
        f"--max-money: what '{name}' takes is not known; give its price per million tokens "
        f"(--set {setting}), or that of an hour (--price-per-gpu-hour P)"
    )
