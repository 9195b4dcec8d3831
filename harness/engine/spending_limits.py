"""What the rows of a command spend, against its limits.

A run asks `Budget.may_continue` before each question (Progress.budget); command_limits.py asks it before each row, says
how to go on, and forecasts which limit will be hit.

Tokens and TFLOPs (convention all-params) are those of the tables, the whole cost of what was answered, indexes and
replies that a cache gave included, and what was sent beside: requests without a usable reply, tries of questions and
indexes that failed, earlier ones included (`earlier` of a record's notes), and judges. Hours are the time of this
command and of earlier starts that were not killed; money is that of requests to servers (harness/cost/prices.py), and
hours times the price of one.

Processes that share a row (shards, workers) have a budget each, which counts what all of them write into its folder.
"""

import itertools
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.cost import prices
from harness.cost.flops import DEFAULT
from harness.cost.units import duration, money
from harness.cost.usage import sent
from harness.errors import UserError
from harness.storage.json_lines import read_lines
from harness.storage.run_folder import DOCUMENTS, MANIFEST, RECORDS, RUN, read_json, run_yaml
from harness.storage.shard_files import PartsFollower


class Budget:
    """The limits of one command, and what its rows have spent; any thread may call it.

    limits: "tokens", "tflops", "hours" or "money" -> the most of it, None for no limit; price: money of an hour. hit:
    the first limit that was reached, with what was spent, once a question or a row was left out for it; shared: other
    processes answer parts of the rows, so that what was spent is read from the rows' folders.
    Raises UserError for a limit that means nothing.
    """

    def __init__(self, limits: Mapping[str, float | None], price: float | None = None, *, shared: bool = False) -> None:
        self.limits = {name: limit for name, limit in limits.items() if limit is not None}
        self.price, self.hit, self.shared = price or 0.0, "", shared
        if nothing := next((name for name, limit in self.limits.items() if limit <= 0), None):
            raise UserError(f"--max-{nothing} {number_text(self.limits[nothing])}: should be more than 0")
        self._tokens, self._tflops, self._money, self._earlier = 0.0, 0.0, 0.0, 0.0
        self._config: Mapping[str, Any] = {"model": {}}  # of the row that is open
        self._begun = time.monotonic()
        self._indexes: set[tuple[str, ...]] = set()
        self._rows: list[_SharedRow] = []
        self._lock = threading.RLock()

    def open_row(self, folder: Path, config: Mapping[str, Any]) -> None:
        """Count what a row's run folder has cost so far: the hours of its earlier starts, and its indexes.

        config: of the row, whose prices hold for it.
        """
        self._config = config
        starts = read_json(folder / MANIFEST).get("starts") or ()
        ends = [(start["started"], start["finished"]) for start in starts if start.get("finished")]
        took = (datetime.fromisoformat(b) - datetime.fromisoformat(a) for a, b in ends)
        self._earlier += sum(each.total_seconds() for each in took) / 3600
        if self.shared:
            self._rows.append(_SharedRow(folder))
            return
        self._indexes.clear()
        for row in read_lines(folder / DOCUMENTS, "document_id"):
            self.spend_index(row)
        for judge in (read_json(folder / MANIFEST).get("judges") or {}).values():
            self.spend({"answer": {**(judge.get("usage") or {}), "billed": {}}})  # its prices are not the run's

    def spend(self, usage: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Count what a question or an index sent, by phase as `usage_of` sums it; returns it unchanged."""
        if not self.shared:
            self._add(sent(usage), self._config)
        return usage

    def spend_record(self, row: Mapping[str, Any]) -> None:
        """Count what a stored record's question sent, earlier tries included."""
        if not self.shared:
            self._add(_sent_by_record(row), self._config)

    def _add(self, spent: Mapping[str, Any], config: Mapping[str, Any]) -> None:
        with self._lock:
            self._tokens += spent["tokens"]
            self._tflops += spent["flops"].get(DEFAULT, 0.0) / 1e12
            self._money += prices.money(spent, config) or 0.0

    def spend_index(self, row: Mapping[str, Any]) -> None:
        """Count the cost of an index, once a run, and of each try that failed; row: its line of documents.jsonl."""
        if _counts_anew(row, self._indexes):
            self.spend(row["usage"])

    def spent(self) -> dict[str, float]:
        """What was spent so far: {"tokens", "tflops", "hours", "money"}."""
        hours = self._earlier + (time.monotonic() - self._begun) / 3600
        spent = self._money + hours * self.price
        return {"tokens": self._tokens, "tflops": self._tflops, "hours": hours, "money": spent}

    def may_continue(self) -> bool:
        """Whether a further question may be begun; sets `hit` at the first that may not, and none may after it."""
        with self._lock:
            for row in self._rows:
                for more in row.newly_sent():
                    self._add(more, row.config)
            spent = self.spent()
            name = next((name for name, limit in self.limits.items() if spent[name] >= limit), None)
            if name is not None and not self.hit:
                texts = {"hours": duration(3600 * spent[name]), "money": money(spent[name])}
                text = texts.get(name) or number_text(spent[name])
                self.hit = f"{limit_option(name, self.limits[name])} ({text} spent)"
            return not self.hit

    def command_with_higher_limit(self, command: Sequence[str]) -> list[str]:
        """The words of the command, with the limit that was hit raised to twice of what is spent."""
        flag = self.hit.partition(" ")[0]
        limit = number_text(2 * self.spent()[flag.removeprefix("--max-")])
        words = [f"{flag}={limit}" if word.startswith(f"{flag}=") else word for word in command]
        return [limit if before == flag else word for before, word in zip(["", *words], words, strict=False)]


class _SharedRow:
    """What the processes that share a row write into its folder. config: of the row, once it is there."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._begun = folder, False
        self._records, self._documents = PartsFollower(folder, RECORDS), PartsFollower(folder, DOCUMENTS)
        self._indexes: set[tuple[str, ...]] = set()
        self.config: Mapping[str, Any] = {"model": {}}

    def newly_sent(self) -> Iterator[dict[str, Any]]:
        """Yield what records and indexes sent that were written since the last call."""
        if not (self._folder / RUN).exists():
            return
        records, documents = self._records.new_rows(), self._documents.new_rows()
        if self._begun:
            yield from (sent(row["usage"]) for row in records)  # what it sent earlier was counted then
        else:
            self._begun, self.config = True, run_yaml(self._folder)["config"]
            stored = itertools.chain(read_lines(self._folder / RECORDS, "question_id"), records)
            yield from {row["question_id"]: _sent_by_record(row) for row in stored}.values()
            documents = itertools.chain(read_lines(self._folder / DOCUMENTS, "document_id"), documents)
        yield from (sent(row["usage"]) for row in documents if _counts_anew(row, self._indexes))


def _sent_by_record(row: Mapping[str, Any]) -> dict[str, Any]:
    return sent(row["usage"], (row.get("notes") or {}).get("earlier"))


def _counts_anew(row: Mapping[str, Any], indexes: set[tuple[str, ...]]) -> bool:
    """Whether a line of documents.jsonl has a cost beside those of `indexes`: a new index, or a try that failed."""
    key = (str(row["document_id"]), str(row.get("question_id")), str(row.get("key")))
    if row["status"] == "failed":
        return True
    new = key not in indexes
    indexes.add(key)
    return new


def limit_option(name: str, limit: float) -> str:
    """A limit as it is typed: "--max-tokens 5000"."""
    return f"--max-{name} {number_text(limit)}"


def number_text(value: float) -> str:
    """A number as it is typed: "5000", "0.25"."""
    return f"{round(value):d}" if value >= 100 else f"{value:.3g}"
