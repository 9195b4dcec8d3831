"""Cost limits of a command: once one is hit, no further question is begun; the same command with a higher one resumes.

hooks.append(LimitHook(budget, plans, out, command, note))    rows are counted (spending_limits.py), or not begun
first_limit_hit(budget, plans, forecasts, out)                which limit will be reached first, and where
"""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.engine.forecast import Forecast
from harness.engine.manifest import shape_of_role
from harness.engine.plan import Plan
from harness.engine.rows_in_turn import Hook
from harness.engine.spending_limits import Budget, limit_option
from harness.errors import LimitReached, UserError
from harness.storage.json_lines import read_lines
from harness.storage.paths import masked
from harness.storage.run_folder import RECORDS, RUN


class LimitHook(Hook):
    """Count what the rows of a command have spent, begin none once a limit is hit, and say how to go on."""

    def __init__(
        self, budget: Budget, plans: Sequence[Plan], out: Path, command: Sequence[str], note: Callable[[str], None]
    ) -> None:
        """command: as typed, to be printed with a higher limit. Raises UserError for a limit that cannot be counted."""
        self._budget, self._out, self._command, self._note = budget, out, command, note
        for plan in plans if "tflops" in budget.limits else ():
            if unknown := sorted(role for role in plan.facts if shape_of_role(plan, role) is None):
                raise UserError(
                    f"--max-tflops: the FLOPs of the {unknown[0]} of {plan.row_name} are not counted, as its sizes are "
                    "unknown; give them (model.shape), or use --max-tokens"
                )
        for plan in plans if "money" in budget.limits and not budget.price else ():
            used = [*plan.models.values()] or [plan.config.model]
            own = "model.price.input=... model.price.output=..."
            unpriced = [(model.name, own) for model in used if model.price is None]
            served = ((role, one) for role, one in plan.encoders.items() if one.base_url and one.price is None)
            unpriced += [(one.name, f"{role}.price=...") for role, one in served]
            for name, setting in unpriced:
                raise UserError(
                    f"--max-money: what '{name}' takes is not known; give its price per million tokens (--set "
                    f"{setting}), or that of an hour (--price-per-gpu-hour P)"
                )

    def ready(self, plan: Plan) -> Plan:
        """Return the plan; raise LimitReached for one that has no run folder yet, once a limit is hit."""
        if not (self._out / plan.folder / RUN).exists() and not self._budget.may_continue():
            raise LimitReached(f"not begun, as {self._budget.hit} is reached")
        return plan

    def started(self, plan: Plan) -> None:
        """Count what earlier starts of the row spent."""
        self._budget.open_row(self._out / plan.folder, plan.config.model_dump())

    def closed(self) -> int:
        """Print the command that resumes, where a limit was hit. Returns 0."""
        if self._budget.hit:
            self._note("what was answered is saved; the same command with a higher limit resumes:")
            self._note(shlex.join(map(masked, self._budget.command_with_higher_limit(self._command))))
        return 0


def first_limit_hit(budget: Budget, plans: Sequence[Plan], rows: Sequence[Forecast], out: Path) -> str:
    """A sentence: which limit is reached first and in which row, by the forecasts `rows`; or what share each row needs.

    What is spent already is counted from the run folders below `out`; limits without a forecast are named as unknown.
    """
    stored, needed = Budget({}, budget.price), dict.fromkeys(budget.limits, 0.0)
    unknown: dict[str, None] = {}
    for plan, row in zip(plans, rows, strict=True):
        stored.open_row(out / plan.folder, plan.config.model_dump())
        asked = {e.question.id for e in plan.dataset.examples[: plan.config.limit]}
        for record in read_lines(out / plan.folder / RECORDS, "question_id"):
            if record["question_id"] in asked:
                stored.spend_record(record)
        spent, money = stored.spent(), None if budget.price else row.money  # nobody forecasts hours
        needs = {"tokens": row.tokens, "tflops": row.tflops, "hours": None, "money": money}
        hit: list[tuple[float, str]] = []
        for name, most in budget.limits.items():
            if (need := needs[name]) is None:
                unknown.setdefault(name)
                continue
            left = most - spent[name] - needed[name]
            if need and need > left:
                hit.append((max(0.0, left) / need, name))
            needed[name] += need
        if hit:
            share, name = min(hit)
            open_ = row.questions - row.done
            after = f"about {share * open_:.0f} of its {open_} questions to answer"
            return f"{limit_option(name, budget.limits[name])} will be reached first, in {plan.row_name} after {after}"
    spent, known = stored.spent(), {name: most for name, most in budget.limits.items() if name not in unknown}
    shares = {limit_option(name, most): (spent[name] + needed[name]) / most for name, most in known.items()}
    within = ", ".join(f"{100 * share:.0f} % of {limit}" for limit, share in shares.items())
    told = [f"the limits will not be reached: {within}"] if known else []
    told += [f"whether --max-{', --max-'.join(unknown)} will be reached is unknown"] if unknown else []
    return "; ".join(told)
