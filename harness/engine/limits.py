"""What a command may spend: at a limit no further question is begun, and the same command with a higher one resumes.

    budget = Budget({"tokens": 2e6, "hours": 8.0})
    budget.open(folder)                        a row's earlier starts count too
    budget.spend(usage)                        of a question, or of an index
    budget.left()                              whether a further question may be begun
    outlook(budget, plans, forecasts, out)     which limit will be hit first, and where

Tokens and TFLOPs (convention all-params) are those of the tables: the whole cost of what was answered, indexes and
replies that a cache gave included. Hours are the time of this command and of earlier starts that ended; money is hours
times the price of one.
"""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cost.flops import DEFAULT
from harness.engine.manifest import shape_of_role
from harness.engine.rows_in_turn import Hook
from harness.errors import LimitReached, UserError
from harness.storage.files import read_lines
from harness.storage.paths import masked
from harness.storage.run_folder import DOCUMENTS, MANIFEST, RECORDS, RUN, read_json

if TYPE_CHECKING:
    from harness.engine.forecast import Forecast
    from harness.engine.plan import Plan


class Budget:
    """The limits of one command, and what its rows have spent; any thread may call it.

    limits: "tokens", "tflops", "hours" or "money" -> most of it; price: money of an hour. hit: the first limit that was
    reached, with what was spent, once a question or a row was left out for it.
    """

    def __init__(self, limits: Mapping[str, float], price: float = 0.0) -> None:
        self.limits, self.price, self.hit = dict(limits), price, ""
        self._tokens, self._tflops, self._earlier = 0.0, 0.0, 0.0
        self._begun = time.monotonic()
        self._indexes: set[tuple[str, ...]] = set()
        self._lock = threading.Lock()

    def open(self, folder: Path) -> None:
        """A row is about to run in `folder`: count the hours of its earlier starts, and its indexes."""
        self._earlier += hours_of(folder)
        self._indexes.clear()
        for row in read_lines(folder / DOCUMENTS, "document_id"):
            self.index(row)

    def spend(self, usage: Mapping[str, Mapping[str, Any]]) -> None:
        """Count a usage by phase."""
        with self._lock:
            self._tokens += tokens_of(usage)
            self._tflops += tflops_of(usage)

    def index(self, row: Mapping[str, Any]) -> None:
        """Count a line of documents.jsonl, an index once a run."""
        key = (str(row["document_id"]), str(row.get("question_id")), str(row.get("key")))
        if key not in self._indexes:
            self._indexes.add(key)
            self.spend(row["usage"])

    def spent(self) -> dict[str, float]:
        """What was spent so far, by the names of limits."""
        hours = self._earlier + (time.monotonic() - self._begun) / 3600
        return {"tokens": self._tokens, "tflops": self._tflops, "hours": hours, "money": hours * self.price}

    def left(self) -> bool:
        """Whether a further question may be begun; after the first that may not, none may."""
        with self._lock:
            spent = self.spent()
            name = next((name for name, most in self.limits.items() if spent[name] >= most), None)
            if name is not None and not self.hit:
                self.hit = f"{option(name, self.limits[name])} ({_number(spent[name])} spent)"
            return not self.hit

    def higher(self, command: Sequence[str]) -> list[str]:
        """The words of the command with the limit that was hit at twice of what is spent."""
        flag = self.hit.partition(" ")[0]
        most = _number(2 * self.spent()[flag.removeprefix("--max-")])
        words = [f"{flag}={most}" if word.startswith(f"{flag}=") else word for word in command]
        return [most if before == flag else word for before, word in zip(["", *words], words, strict=False)]


class Limited(Hook):
    """Count what the rows of a command have spent, begin none once a limit is hit, and say how to go on."""

    def __init__(
        self, budget: Budget, plans: Sequence[Plan], out: Path, command: Sequence[str], note: Callable[[str], None]
    ) -> None:
        """Raises UserError where --max-tflops cannot be counted."""
        self._budget, self._out, self._command, self._note = budget, out, command, note
        for plan in plans if "tflops" in budget.limits else ():
            if unknown := sorted(role for role in plan.facts if shape_of_role(plan, role) is None):
                raise UserError(
                    f"--max-tflops: the FLOPs of the {unknown[0]} of {plan.row_name} are not counted, as its sizes are "
                    "unknown; give them (model.shape), or use --max-tokens"
                )

    def ready(self, plan: Plan) -> Plan:
        """Raise LimitReached for a row that has no folder yet, once a limit is hit."""
        if not (self._out / plan.folder / RUN).exists() and not self._budget.left():
            raise LimitReached(f"not begun, as {self._budget.hit} is reached")
        return plan

    def started(self, plan: Plan) -> None:
        """Count what earlier starts of the row spent."""
        self._budget.open(self._out / plan.folder)

    def closed(self) -> int:
        """Say how the rows are resumed, where the limit left something out."""
        if self._budget.hit:
            self._note("what was answered is saved; the same command with a higher limit resumes:")
            self._note(shlex.join(map(masked, self._budget.higher(self._command))))
        return 0


def option(name: str, most: float) -> str:
    """A limit as it is typed: "--max-tokens 5000"."""
    return f"--max-{name} {_number(most)}"


def _number(value: float) -> str:
    return f"{round(value):d}" if value >= 100 else f"{value:.3g}"


def outlook(budget: Budget, plans: Sequence[Plan], rows: Sequence[Forecast], out: Path) -> str:
    """Which limit the forecasts of the rows will hit first and where, in a sentence; what is unknown is said."""
    total = dict.fromkeys(budget.limits, 0.0)
    unknown: dict[str, None] = {}
    for plan, row in zip(plans, rows, strict=True):
        before = _stored(out / plan.folder, {e.question.id for e in plan.dataset.examples[: plan.config.limit]})
        needs = {"tokens": row.tokens, "tflops": row.tflops, "hours": row.hours, "money": row.hours}
        hit: list[tuple[float, str]] = []
        for name, most in budget.limits.items():
            factor = budget.price if name == "money" else 1.0
            total[name] += factor * before[name]
            if (need := needs[name]) is None:
                unknown.setdefault(name)
                continue
            if need and total[name] + factor * need > most:
                hit.append((max(0.0, most - total[name]) / (factor * need), name))
            total[name] += factor * need
        if hit:
            share, name = min(hit)
            left = row.questions - row.done
            asked = f"about {share * left:.0f} of its {left} questions to answer"
            return f"{option(name, budget.limits[name])} will be reached first, in {plan.row_name} after {asked}"
    known = {option(name, most): total[name] / most for name, most in budget.limits.items() if name not in unknown}
    within = ", ".join(f"{100 * share:.0f} % of {limit}" for limit, share in known.items())
    told = [f"the limits will not be reached: {within}"] if known else []
    told += [f"whether --max-{', --max-'.join(unknown)} will be reached is unknown"] if unknown else []
    return "; ".join(told)


def tokens_of(usage: Mapping[str, Mapping[str, Any]]) -> float:
    """Tokens read and written, over all phases."""
    return float(sum(phase["tokens_in"] + phase["tokens_out"] for phase in usage.values()))


def tflops_of(usage: Mapping[str, Mapping[str, Any]]) -> float:
    """TFLOPs under the default convention, over all phases."""
    return float(sum(phase["flops"][DEFAULT] for phase in usage.values())) / 1e12


def hours_of(folder: Path) -> float:
    """Hours between start and end of all starts of a run that ended."""
    starts = read_json(folder / MANIFEST).get("starts") or ()
    ends = [(start["started"], start["finished"]) for start in starts if start.get("finished")]
    return sum((datetime.fromisoformat(b) - datetime.fromisoformat(a)).total_seconds() for a, b in ends) / 3600


def _stored(folder: Path, asked: set[str]) -> dict[str, float]:
    """What a run folder holds of the questions asked, by the names of limits; money in hours."""
    usages = [row["usage"] for row in read_lines(folder / RECORDS, "question_id") if row["question_id"] in asked]
    usages += [row["usage"] for row in read_lines(folder / DOCUMENTS, "document_id")]
    tokens, tflops, hours = sum(map(tokens_of, usages)), sum(map(tflops_of, usages)), hours_of(folder)
    return {"tokens": tokens, "tflops": tflops, "hours": hours, "money": hours}
