"""Cost limits of a command: once one is hit, no further question is begun; the same command with a
higher one resumes.

hooks.append(LimitHook(budget, plans, out, command, note))    runs are counted (spending_limits.py), or not begun
"""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.engine.manifest import shape_of_role
from harness.engine.plan import PlannedRun
from harness.engine.runs_in_turn import Hook
from harness.engine.spending_limits import Budget, number_text
from harness.errors import LimitReached, UserError
from harness.storage.paths import masked
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
        """command: as typed, to be printed with a higher limit. Raises UserError for a limit that
        cannot be counted."""
        self._budget, self._out, self._command, self._note = budget, out, command, note
        for plan in plans if "tflops" in budget.limits else ():
            if unknown := sorted(
                role for role in plan.identities if shape_of_role(plan, role) is None
            ):
                raise UserError(
                    f"--max-tflops: the FLOPs of the {unknown[0]} of {plan.run_name} are not "
                    "counted, as its sizes are "
                    "unknown; give them (model.shape), or use --max-tokens"
                )
        for plan in plans if "money" in budget.limits and not budget.price else ():
            used = [*plan.models.values()] or [plan.config.model]
            price_settings = "model.price.input=... model.price.output=..."
            unpriced = [(model.name, price_settings) for model in used if model.price is None]
            served = (
                (role, encoder)
                for role, encoder in plan.encoders.items()
                if encoder.base_url and encoder.price is None
            )
            unpriced += [(encoder.name, f"{role}.price=...") for role, encoder in served]
            for name, setting in unpriced:
                raise UserError(
                    f"--max-money: what '{name}' takes is not known; give its price per million "
                    "tokens (--set "
                    f"{setting}), or that of an hour (--price-per-gpu-hour P)"
                )

    def ready(self, plan: PlannedRun) -> PlannedRun:
        """Return the plan; raise LimitReached for one that has no run folder yet, once a limit is
        hit."""
        if not (self._out / plan.folder / RUN).exists() and not self._budget.may_continue():
            raise LimitReached(f"not begun, as {self._budget.hit} is reached")
        return plan

    def started(self, plan: PlannedRun) -> None:
        """Count what earlier starts of the run spent."""
        self._budget.open_run(self._out / plan.folder, plan.config.model_dump())

    def closed(self) -> int:
        """Print the command that resumes, where a limit was hit. Returns 0."""
        if self._budget.hit:
            self._note("what was answered is saved; the same command with a higher limit resumes:")
            self._note(
                shlex.join(map(masked, command_with_higher_limit(self._budget, self._command)))
            )
        return 0


def command_with_higher_limit(budget: Budget, command: Sequence[str]) -> list[str]:
    """The words of the command, with the limit that was hit raised to twice what is spent so
    far."""
    flag = budget.hit.partition(" ")[0]
    limit = number_text(2 * budget.spent()[flag.removeprefix("--max-")])
    words = [f"{flag}={limit}" if word.startswith(f"{flag}=") else word for word in command]
    return [
        limit if before == flag else word for before, word in zip(["", *words], words, strict=False)
    ]
