"""What the runs of a command spend, against its limits.

A run asks `Budget.may_continue` before each question (AskOptions.budget); command_limits.py asks it
before each run and says how to go on.

tokens, tflops  the tables' whole cost of what was answered (convention all-params), with indexes and cached replies;
                also requests without a usable reply, failed tries of questions and indexes
                (`earlier` of a record's notes), and judges
hours           the time of this command and of earlier starts that were not killed
money           of requests to servers (harness/cost/usage.py), and hours times the price of one hour

With Ray, the process that stores the answers counts them.
"""

import threading
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from harness.cost.flops import DEFAULT_CONVENTION
from harness.cost.prices import Prices
from harness.cost.prices import money_spent as token_money
from harness.cost.units import duration_text, money_text
from harness.cost.usage import SentUsage, Usage, all_sent
from harness.errors import UserError
from harness.storage.manifest_file import Start
from harness.storage.records import IndexLine, read_index_lines
from harness.storage.run_files import read_manifest


class Budget:
    """The limits of one command, and what its runs have spent; any thread may call it.

    Attributes:
        limits: "tokens", "tflops", "hours" or "money" -> the most of it.
        price_per_hour: Money of an hour.
        reached_limit: The first limit that was reached, as it is typed, once a question or a run
            was left out for it; "" before.
    """

    def __init__(
        self, limits: Mapping[str, float | None], price_per_hour: float | None = None
    ) -> None:
        """Begin to count hours, tokens, TFLOPs and money from now on; `_uncountable_limits` holds
        limits that what was spent cannot be counted for.

        Args:
            limits: "tokens", "tflops", "hours" or "money" -> the most of it; None for no limit.
            price_per_hour: Money of an hour; None: 0.

        Raises:
            UserError: A limit of 0 or less.
        """
        self.limits = {name: limit for name, limit in limits.items() if limit is not None}
        self.price_per_hour = price_per_hour or 0.0
        self.reached_limit = ""
        self._reached_name = ""
        for name, limit in self.limits.items():
            if limit <= 0:
                raise UserError(f"{limit_option(name, limit)}: should be more than 0")
        self._tokens = 0.0
        self._tflops = 0.0
        self._money_for_tokens = 0.0  # hours have a price of their own
        self._hours_of_earlier_starts = 0.0
        self._prices_of_open_run = Prices()
        self._started_at = time.monotonic()
        self._counted_indexes: set[tuple[str, str | None, str | None]] = set()
        self._uncountable_limits: set[str] = set()
        self._lock = threading.RLock()

    def open_run(self, folder: Path, prices: Prices) -> None:
        """Count what a run folder has cost so far: the hours of its earlier starts, its indexes and
        its judges; its questions are counted as their records are read. From now on costs are
        priced by this run's prices.

        Args:
            folder: The run folder.
            prices: The prices of the run's models.
        """
        self._prices_of_open_run = prices
        manifest = read_manifest(folder)
        self._hours_of_earlier_starts += sum(map(_hours_taken, manifest.starts))
        self._counted_indexes.clear()
        for line in read_index_lines(folder):
            self.spend_index(line)
        for judge in manifest.judges.values():
            sent_to_judge = all_sent({"answer": judge.usage}, judge.earlier)
            self._add_to_sums(sent_to_judge, prices=judge.prices)

    def spend(self, usage: Usage) -> None:
        """Count what a question or an index sent; usage: the cost by phase, {"answer": {...},
        "search": {...}}."""
        self._add_to_sums(all_sent(usage))

    def take_back(self, usage: Usage) -> None:
        """Subtract an estimate that was counted by `spend`, once the real cost is known."""
        self._add_to_sums(all_sent(usage), sign=-1)

    def spend_stored(self, usage: Usage, sent_by_earlier_tries: SentUsage | None) -> SentUsage:
        """Count what a stored question sent, in all of its tries, and return that sum.

        Args:
            usage: What the try sent that its record tells of, by phase.
            sent_by_earlier_tries: What the tries before that sent; None for none.
        """
        sent_by_all_tries = all_sent(usage, sent_by_earlier_tries)
        self._add_to_sums(sent_by_all_tries)
        return sent_by_all_tries

    def _add_to_sums(self, spent: SentUsage, sign: int = 1, prices: Prices | None = None) -> None:
        """Add a cost to the sums. A model without a price adds no money; where the cost itself says
        that its tokens or money are unknown, their limit becomes uncountable.

        Args:
            spent: The cost.
            sign: -1 subtracts it.
            prices: By which it is priced; the open run's by default.
        """
        with self._lock:
            money = token_money(spent, prices or self._prices_of_open_run) or 0.0
            self._tokens += sign * spent["tokens"]
            self._tflops += sign * spent["flops"].get(DEFAULT_CONVENTION, 0.0) / 1e12
            self._money_for_tokens += sign * money
            if spent.get("tokens_unknown"):
                self._uncountable_limits.add("tokens")
            if spent.get("money_unknown"):
                self._uncountable_limits.add("money")

    def spend_index(self, line: IndexLine) -> None:
        """Count the cost of an index: once a run for one that was built, however many lines name
        it, and each time for one that failed.

        Args:
            line: Its line of documents.jsonl.
        """
        if line.failed or line.identity not in self._counted_indexes:
            self.spend(line.usage)
        if not line.failed:
            self._counted_indexes.add(line.identity)

    def spent(self) -> dict[str, float]:
        """What was spent so far, by the names of the limits: {"tokens": 5000, "tflops": 0.2,
        "hours": 0.1, "money": 0.4}."""
        hours = self._hours_of_earlier_starts + (time.monotonic() - self._started_at) / 3600
        money_spent = self._money_for_tokens + hours * self.price_per_hour
        return {
            "tokens": self._tokens,
            "tflops": self._tflops,
            "hours": hours,
            "money": money_spent,
        }

    def may_continue(self) -> bool:
        """Whether another question may be asked: no limit is reached, and none was before. The
        first time, the limit is kept in `reached_limit`, "--max-tokens 5000". One that cannot be
        counted any more is taken for reached."""
        with self._lock:
            spent = self.spent()
            for name, limit in self.limits.items():
                is_reached = name in self._uncountable_limits or spent[name] >= limit
                if is_reached and not self.reached_limit:
                    self.reached_limit = limit_option(name, limit)
                    self._reached_name = name
            return not self.reached_limit

    def reached_limit_text(self) -> str:
        """The limit that was reached with what is spent by now: "--max-money 0.001 (0.00147
        spent)"."""
        name = self._reached_name
        if name in self._uncountable_limits:
            return f"{self.reached_limit} (the application does not say its {name})"
        spent = self.spent()[name]
        text = number_text(spent)
        if name == "hours":
            text = duration_text(3600 * spent)
        elif name == "money" and spent >= 1:
            text = money_text(spent)
        return f"{self.reached_limit} ({text} spent)"


def limit_option(name: str, limit: float) -> str:
    """A limit as it is typed: "--max-tokens 5000"."""
    return f"--max-{name} {number_text(limit)}"


def number_text(value: float) -> str:
    """A number as it is typed: "5000", "0.25"."""
    if value >= 100:
        return f"{round(value):d}"
    return f"{value:.3g}"


def _hours_taken(start: Start) -> float:
    """How many hours a start of a run took; 0 where it was killed, so that its end is not known."""
    if start.started is None or start.finished is None:
        return 0.0
    took = datetime.fromisoformat(start.finished) - datetime.fromisoformat(start.started)
    return took.total_seconds() / 3600
