"""What `harness run` prints about all its rows: at the start their expected cost, at the end those that did not run.

    suite demo: 6 rows
    method        data set        questions     tokens  TFLOPs  how
    pecan         pocket/musique         24    unknown       –  unknown: no stored run with these settings; ...
    full-context  pocket/musique   10 of 24       21k   0.294  stored: means of 14 questions of full-context--...
    what is known                               21k   0.294

"10 of 24" are left of 24; tokens and TFLOPs are of those.
"""

from __future__ import annotations

import json as json_
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from harness.cost.flops import DEFAULT

if TYPE_CHECKING:
    from harness.engine.forecast import Forecast
    from harness.engine.siblings import Lost


NOTES = (
    "tokens and TFLOPs (convention {}) of what is still to be answered, indexes as if none were in the cache;\n"
    "stored: the means of a run with the same settings; declared: what the method says it reads, 4 bytes a token, "
    "answers as long as they may be"
)


def _short(count: float | None) -> str:
    if count is None:
        return "unknown"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return f"{count:.0f}"


def _tflops(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"


def _line(row: Forecast) -> tuple[str, ...]:
    left = row.questions - row.done
    questions = f"{left} of {row.questions}" if row.done else str(row.questions)
    return row.method, row.dataset, questions, _short(row.tokens), _tflops(row.tflops), row.how


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Names to the left, numbers to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    right = (2, 3, 4)
    cells = (
        [c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(r, widths, strict=True))] for r in rows
    )
    return ["  ".join(row).rstrip() for row in cells]


def table(title: str, rows: Sequence[Forecast], convention: str = DEFAULT) -> str:
    """The forecasts as a table with their sum; what is unknown is in no sum, and the last line says how many are."""
    head = ("method", "data set", "questions", "tokens", "TFLOPs", "how")
    left = sum(row.questions - row.done for row in rows)
    tokens, work = (_sum([row.tokens for row in rows]), _sum([row.tflops for row in rows]))
    missing = sum(row.tokens is None or row.tflops is None for row in rows)
    note = f"without the {missing} row{'s'[: missing > 1]} with something unknown" if missing else ""
    total = ("together", "", str(left), _short(tokens), _tflops(work), note)
    return "\n".join([title, *_aligned([head, *map(_line, rows), total]), NOTES.format(convention)])


def _sum(values: Sequence[float | None]) -> float | None:
    """The sum of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known or not values else None


def as_json(rows: Iterable[Forecast]) -> str:
    """A line of JSON for each row; null where a number is unknown."""
    return "\n".join(json_.dumps(asdict(row)) for row in rows)


def closing(total: int, lost: Sequence[Lost]) -> str:
    """Which of `total` rows did not run whole, and why: the last words of a command with several rows."""
    if not lost:
        return f"all {total} rows ran whole"
    lines = [f"{len(lost)} of {total} rows did not run whole:", *(f"  {row.row}: {row.why}" for row in lost)]
    return "\n".join(lines)
