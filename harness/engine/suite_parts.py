"""The rows of a suite of several parts (harness/config/suites.py)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.config import presets
from harness.config.layers import Choices
from harness.engine.expand_command import Note, Swept, cross
from harness.engine.parameters_from_rows import row_key

if TYPE_CHECKING:
    from harness.engine.parameters_from_rows import RowKey


def rows_of_parts(
    shared: Choices, methods: Sequence[str], datasets: Sequence[str], swept: Swept, note: Note
) -> list[Choices]:
    """The rows of a suite of several parts; a row that two parts would run alike is run once.

    A named method or data set that some parts have is run in those parts, any other one in all parts.
    """
    suite = shared.suite
    assert suite is not None
    several = shared.data is not None and len(datasets or suite.datasets) > 1  # refused below
    made: dict[str, Choices] = {}
    notes: dict[str, None] = {}
    for part in suite.parts:
        kept_methods = _in_part(methods, part.methods, suite.methods)
        kept_datasets = datasets or suite.datasets if several else _in_part(datasets, part.datasets, suite.datasets)
        if not kept_methods or not kept_datasets:
            continue
        for row in cross(replace(shared, suite=part), kept_methods, kept_datasets, swept, notes.setdefault):
            settings = (part.sets, part.params.get(str(row.method)), part.profile, part.limit)
            made.setdefault(repr((row.method, row.dataset, row.model, row.point, settings)), row)
    for line in notes:
        note(line)
    common = set.intersection(*(set(part.sets.items()) for part in suite.parts))
    return _with_distinct_points(made.values(), {name for name, _ in common})


def _with_distinct_points(rows: Iterable[Choices], common: Collection[str]) -> list[Choices]:
    """The rows; of rows that two parts name alike, the later one gets its part's settings as a point of a sweep.

    common: keys that all parts set to the same value, which distinguish no rows.
    """
    taken: set[RowKey] = set()
    out = []
    for row in rows:
        for name, value in row.suite.sets.items() if row.suite else ():
            if name in common:
                continue
            if row_key(row) not in taken:
                break
            row = replace(row, point={**row.point, name: value})
        taken.add(row_key(row))
        out.append(row)
    return out


def _in_part(named: Sequence[str], own: Sequence[str], whole: Sequence[str]) -> list[str]:
    """The names that a part runs: its `own`, or those `named` by the command that it has or the `whole` suite lacks."""
    part, suite = {presets.fold(name) for name in own}, {presets.fold(name) for name in whole}
    return [name for name in named or own if presets.fold(name) in part or presets.fold(name) not in suite]
