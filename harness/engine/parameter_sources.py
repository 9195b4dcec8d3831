"""Runs that take a number from another run of the same command (method.k=from:pecan): their order
and their numbers.

A run takes its number from the run of the named preset on the same data set. Model and settings are
the same, as both runs belong to one command. The numbers are means over the questions that this
command asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.config import presets
from harness.config.layers import Choices
from harness.engine.runs_in_turn import Hook, Lost
from harness.errors import RunWaits, UserError
from harness.storage.run_folder import StoredRun, read_run

if TYPE_CHECKING:
    from harness.engine.plan import Plan


RunKey = tuple[str, str, frozenset[tuple[str, str]]]
"""Identifies a run of a command: preset and data set, as the user named them, and its point of a
sweep."""


def run_key(choices: Choices) -> RunKey:
    """The key of a run."""
    point = frozenset((name, str(value)) for name, value in choices.point.items())
    return presets.fold(choices.method or ""), presets.fold(choices.dataset or ""), point


def _sources(plan: Plan, runs: Iterable[RunKey]) -> dict[str, RunKey]:
    """Field -> the key of the run that its number comes from, for each field that names a preset.

    In a sweep that is the run of `runs` at the same point, or one of a method that lacks a swept
    parameter; a key that no run has where there is none. Raises UserError for a source that is
    neither preset nor folder.
    """
    from harness.engine.parameters_from_runs import preset_of

    runs = list(runs)
    sources: dict[str, RunKey] = {}
    for name, text in plan.pending.items():
        if (preset := preset_of(text)) is not None:
            _, dataset, point = run_key(plan.choices)
            wanted = presets.fold(preset), dataset, point
            sources[name] = next(
                (run for run in runs if run[:2] == wanted[:2] and run[2] <= point), wanted
            )
    return sources


def order_by_source(
    plans: Sequence[Plan], wanted: Sequence[Choices]
) -> tuple[list[Plan], list[Lost]]:
    """Order the plans so that each stands behind its sources; also returns the runs whose source
    cannot run.

    wanted: all runs of the command. Raises UserError for a source that is not among them, a folder
    without a finished run, and runs in a circle.
    """
    from harness.engine.parameters_from_runs import finished_run

    asked = {run_key(run) for run in wanted}
    needed = {run_key(plan.choices): _sources(plan, asked) for plan in plans}
    for plan in plans:
        source_key = needed[run_key(plan.choices)]
        for name, text in plan.pending.items():
            if name not in source_key:
                finished_run(
                    text
                )  # a folder that has no finished run is a mistake to report before anything runs
            elif source_key[name] not in asked:
                raise UserError(_missing_source(plan, name, source_key[name][0]))
    left = list(plans)
    order: list[Plan] = []
    lost: list[Lost] = []
    while left:
        waiting = {run_key(plan.choices) for plan in left}
        ready = next(
            (p for p in left if not waiting & {*needed[run_key(p.choices)].values()}), None
        )
        if ready is None:
            numbers = [
                f"method.{n}={text} of '{p.choices.method}'"
                for p in left
                for n, text in p.pending.items()
            ]
            raise UserError(
                f"each of these numbers waits for another one: {', '.join(numbers)}; give one of "
                "them a value"
            )
        left.remove(ready)
        placed = {run_key(plan.choices) for plan in order}
        absent = [
            source[0] for source in needed[run_key(ready.choices)].values() if source not in placed
        ]
        if absent:
            lost.append(
                Lost(ready.run_name, f"it takes a number from '{absent[0]}', which cannot run")
            )
        else:
            order.append(ready)
    return order, lost


def _missing_source(plan: Plan, name: str, preset: str) -> str:
    """The message for a plan whose field `name` comes from `preset`, which the command does not
    run."""
    method = plan.config.method.name
    printed = (
        f"{plan.choices.method or method}-printed"  # a name in tables may have an encoder behind it
    )
    method_names = {presets.fold(each) for each in presets.names("methods")}
    last = (
        f"use {printed}"
        if presets.fold(printed) in method_names
        else f"give the number: --set method.{name}=N"
    )
    return (
        f"method.{name} of '{method}' comes from a run of '{preset}' on the same data set, which "
        "this command does not "
        f"have; add {preset} to --method, or name a run: --set method.{name}=from:RUN_FOLDER, or "
        f"{last}"
    )


def with_numbers(plan: Plan, before: Mapping[RunKey, Plan], out: Path) -> Plan:
    """`plan` with each parameter of `pending` (method.k=from:pecan) set by a finished run; else as
    it is.

    before: plans of the command's earlier runs, whose folders are in `out`; a parameter may name a
    run folder instead. Raises RunWaits for a run that has not run to its end, UserError for a run
    that has no such number.
    """
    if not plan.pending:
        return plan
    from harness.engine.parameters_from_runs import finished_run, plan_with_amounts

    sources = _sources(plan, before)
    runs: dict[str, tuple[str, StoredRun]] = {}
    for name, text in plan.pending.items():
        if name in sources:
            source = before.get(sources[name])
            runs[name] = (sources[name][0], _finished_run(name, sources[name][0], source, out))
        else:
            run = finished_run(text)
            runs[name] = (str(run.config["method"]["name"]), run)
    return plan_with_amounts(plan, runs)


class NumbersFromRuns(Hook):
    """Give each run of a command the numbers that it takes from the runs before it, and report
    their source."""

    def __init__(self, out: Path, note: Callable[[str], None]) -> None:
        self._out, self._note = out, note
        self._before: dict[RunKey, Plan] = {}  # the plans of the runs that had their turn

    def ready(self, plan: Plan) -> Plan:
        """The plan with its numbers, whose sources are printed. Raises what `with_numbers`
        raises."""
        ready = with_numbers(plan, self._before, self._out)
        for amount in ready.amounts.values():
            self._note(amount["note"])
        for warning in dict.fromkeys(w for w in ready.warnings if w not in plan.warnings):
            self._note(f"warning: {warning}")
        self._before[run_key(plan.choices)] = ready
        return ready


def _finished_run(name: str, preset: str, source: Plan | None, out: Path) -> StoredRun:
    """The run of `source` in `out`, with the records of its plan. Raises RunWaits where an answer
    is missing."""
    waits = f"method.{name} comes from the run of '{preset}'"
    if source is None or source.pending:
        raise RunWaits(f"{waits}, which did not run")
    try:
        run = read_run(out / source.folder)
    except UserError as e:
        raise RunWaits(f"{waits}, which did not run ({e})") from e
    asked = {example.question.id for example in source.dataset.examples[: source.config.limit]}
    records = [record for record in run.records if record["question_id"] in asked]
    if len(records) < len(asked):
        raise RunWaits(f"{waits}, which answered {len(records)} of {len(asked)} questions so far")
    if all(record["error"] is not None for record in records):
        raise RunWaits(f"{waits}, where every question failed; --retry-failed asks them again")
    return replace(run, records=records)
