"""Suites of several parts (harness/config/suites.py): what of a command each part runs, and which
runs are the same."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.config import presets
from harness.config.layers import Choices

if TYPE_CHECKING:
    from harness.config.suites import Suite

RunKey = tuple[str, str, frozenset[tuple[str, str]]]
"""Identifies a run of a command: preset and data set, as the user named them, and its point of a
sweep."""


def run_key(choices: Choices) -> RunKey:
    """The key of a run."""
    point = frozenset((name, str(value)) for name, value in choices.point.items())
    return presets.fold(choices.method or ""), presets.fold(choices.dataset or ""), point


def parts_to_run(
    suite: Suite, methods: Sequence[str], datasets: Sequence[str]
) -> list[tuple[Suite, list[str], list[str]]]:
    """Each part with the methods and data sets that it runs; of those that the command names, ()
    for all of the part.

    A named method or data set that some parts have is run in those parts, any other one in all
    parts.
    """
    runs = [
        (
            part,
            _in_part(methods, part.methods, suite.methods),
            _in_part(datasets, part.datasets, suite.datasets),
        )
        for part in suite.parts
    ]
    return [(part, names, sets) for part, names, sets in runs if names and sets]


def distinct_runs(suite: Suite, runs: Iterable[Choices]) -> list[Choices]:
    """The runs of all parts; a run that two parts would run alike is run once.

    Of other runs that two parts name alike, the later one gets its part's settings as a point of a
    sweep.
    """
    made: dict[str, Choices] = {}
    for run in runs:
        part = run.suite or suite
        settings = (part.sets, part.methods.get(str(run.method)), part.profile, part.limit)
        made.setdefault(repr((run.method, run.dataset, run.model, run.point, settings)), run)
    # Keys that all parts set to the same value distinguish no runs.
    first, *other_sets = (part.sets for part in suite.parts)
    common = {
        name
        for name in first
        if all(name in sets and sets[name] == first[name] for sets in other_sets)
    }
    taken: set[RunKey] = set()
    out = []
    for run in made.values():
        for name, value in run.suite.sets.items() if run.suite else ():
            if name in common:
                continue
            if run_key(run) not in taken:
                break
            run = replace(run, point={**run.point, name: value})
        taken.add(run_key(run))
        out.append(run)
    return out


def _in_part(named: Collection[str], own: Collection[str], whole: Collection[str]) -> list[str]:
    """The names that a part runs: its `own`, or those `named` by the command that it has or the
    `whole` suite lacks."""
    part, suite = {presets.fold(name) for name in own}, {presets.fold(name) for name in whole}
    return [
        name
        for name in named or own
        if presets.fold(name) in part or presets.fold(name) not in suite
    ]
