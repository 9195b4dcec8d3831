"""Rows that take a number from another row of the same command (method.k=from:pecan): their order and their numbers.

    plans, lost = arrange(plans, wanted)          each row behind the one it takes a number from
    plan = with_numbers(plan, before, out)             the plan with its numbers, once that row has run
    NumbersFromRows(out, note)                    the same for all rows of a command, as a hook (engine/rows_in_turn.py)

A row takes its number from the row of the named preset on the same data set. Model and settings are the same,
as both rows belong to one command. The numbers are means over the questions that this command asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.config import presets
from harness.config.layers import Choices
from harness.engine.rows_in_turn import Hook, Lost
from harness.errors import RowWaits, UserError
from harness.storage.run_folder import StoredRun, read_run

if TYPE_CHECKING:
    from harness.engine.plan import Plan


Key = tuple[str, str, frozenset[tuple[str, str]]]
"""Identifies a row of a command: preset and data set, as the user named them, and its point of a sweep."""


def key(choices: Choices) -> Key:
    """The key of a row."""
    point = frozenset((name, str(value)) for name, value in choices.point.items())
    return presets.fold(choices.method or ""), presets.fold(choices.dataset or ""), point


def _sources(plan: Plan, rows: Iterable[Key]) -> dict[str, Key]:
    """Field -> the row that its number comes from, of `rows` where it is there.

    In a sweep that is the row at the same point; the row of a method that lacks a swept parameter stands for every
    value of it. Raises UserError for a source that is neither row nor folder.
    """
    from harness.engine.numbers_from_runs import preset_of

    rows = list(rows)
    found: dict[str, Key] = {}
    for name, text in plan.awaits.items():
        if (preset := preset_of(text)) is not None:
            _, dataset, point = key(plan.choices)
            wanted = presets.fold(preset), dataset, point
            found[name] = next((row for row in rows if row[:2] == wanted[:2] and row[2] <= point), wanted)
    return found


def arrange(plans: Sequence[Plan], wanted: Sequence[Choices]) -> tuple[list[Plan], list[Lost]]:
    """The plans in an order in which they can run, else as given; and the rows whose source cannot run.

    wanted: all rows of the command. Raises UserError for a source that is not among them, a folder without
    a finished run, and rows in a circle.
    """
    from harness.engine.numbers_from_runs import stored

    asked = {key(row) for row in wanted}
    needed = {key(plan.choices): _sources(plan, asked) for plan in plans}
    for plan in plans:
        own = needed[key(plan.choices)]
        for name, text in plan.awaits.items():
            if name not in own:
                stored(text)  # a folder that has no finished run is a mistake to report before anything runs
            elif own[name] not in asked:
                raise UserError(_missing(plan, name, own[name][0]))
    left = list(plans)
    order: list[Plan] = []
    lost: list[Lost] = []
    while left:
        waiting = {key(plan.choices) for plan in left}
        ready = next((p for p in left if not waiting & {*needed[key(p.choices)].values()}), None)
        if ready is None:
            numbers = [f"method.{n}={text} of '{p.choices.method}'" for p in left for n, text in p.awaits.items()]
            raise UserError(
                f"each of these numbers waits for another one: {', '.join(numbers)}; give one of them a value"
            )
        left.remove(ready)
        placed = {key(plan.choices) for plan in order}
        absent = [source[0] for source in needed[key(ready.choices)].values() if source not in placed]
        if absent:
            lost.append(Lost(ready.row_name, f"it takes a number from '{absent[0]}', which cannot run"))
        else:
            order.append(ready)
    return order, lost


def _missing(plan: Plan, name: str, preset: str) -> str:
    method = plan.config.method.name
    printed = f"{plan.choices.method or method}-printed"  # a name in tables may have an encoder behind it
    known = {presets.fold(each) for each in presets.names("methods")}
    last = f"use {printed}" if presets.fold(printed) in known else f"give the number: --set method.{name}=N"
    return (
        f"method.{name} of '{method}' comes from a run of '{preset}' on the same data set, which this command does not "
        f"have; add {preset} to --method, or name a run: --set method.{name}=from:RUN_FOLDER, or {last}"
    )


def with_numbers(plan: Plan, before: Mapping[Key, Plan], out: Path) -> Plan:
    """`plan` with its numbers from the rows `before` it, whose runs are in `out`, and from the folders it names.

    Raises RowWaits for a row that has not run to its end, UserError for a run that has no such number.
    """
    from harness.engine.numbers_from_runs import settle, stored

    if not plan.awaits:
        return plan
    rows = _sources(plan, before)
    runs: dict[str, tuple[str, StoredRun]] = {}
    for name, text in plan.awaits.items():
        if name in rows:
            source = before.get(rows[name])
            runs[name] = (rows[name][0], _finished(name, rows[name][0], source, out))
        else:
            run = stored(text)
            runs[name] = (str(run.config["method"]["name"]), run)
    return settle(plan, runs)


class NumbersFromRows(Hook):
    """Give each row of a command the numbers that it takes from the rows before it, and report their source."""

    def __init__(self, out: Path, note: Callable[[str], None]) -> None:
        self._out, self._note = out, note
        self._before: dict[Key, Plan] = {}  # the plans of the rows that had their turn

    def ready(self, plan: Plan) -> Plan:
        """The plan with its numbers. Raises what `with_numbers` raises."""
        made = with_numbers(plan, self._before, self._out)
        for amount in made.amounts.values():
            self._note(amount["note"])
        for warning in dict.fromkeys(w for w in made.warnings if w not in plan.warnings):
            self._note(f"warning: {warning}")
        self._before[key(plan.choices)] = made
        return made

    def chain(self, plan: Plan) -> list[Choices]:
        """What another process plans to get `plan` with its numbers: the choices of their rows, then its own."""
        rows = _sources(plan, self._before).values()
        return [*(self._before[row].choices for row in rows if row in self._before), plan.choices]


def _finished(name: str, preset: str, source: Plan | None, out: Path) -> StoredRun:
    """The run of a row, with the records of the questions that this command asks. Raises RowWaits."""
    waits = f"method.{name} comes from the row of '{preset}'"
    if source is None or source.awaits:
        raise RowWaits(f"{waits}, which did not run")
    try:
        run = read_run(out / source.folder)
    except UserError as e:
        raise RowWaits(f"{waits}, which did not run ({e})") from e
    asked = {example.question.id for example in source.dataset.examples[: source.config.limit]}
    records = [row for row in run.records if row["question_id"] in asked]
    if len(records) < len(asked):
        raise RowWaits(f"{waits}, which answered {len(records)} of {len(asked)} questions so far")
    if all(row["error"] is not None for row in records):
        raise RowWaits(f"{waits}, where every question failed; --retry-failed asks them again")
    return replace(run, records=records)
