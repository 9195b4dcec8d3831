"""What the verbs share: finding run folders, choices from flags, plain tables.

>>> print(columns([("bm25", "top-5 chunks"), ("pecan", "a graph")]))
bm25   top-5 chunks
pecan  a graph
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from harness.config.yaml_tree import assignments
from harness.errors import ConfigError, printable

if TYPE_CHECKING:
    from harness.cli.flags import Flags
    from harness.config.layers import Choices


def columns(rows: Iterable[Sequence[str]], widest: int = 44, gap: str = "  ") -> str:
    """Rows of text with their columns aligned; a cell over `widest` characters pushes only its own row."""
    rows = [[printable(cell) for cell in row] for row in rows]
    if not rows:
        return ""
    widths = [min(widest, max(len(row[i]) for row in rows)) for i in range(len(rows[0]) - 1)]
    return "\n".join(
        gap.join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[-1]]).rstrip() for row in rows
    )


def mean_text(score: dict[str, Any]) -> str:
    """{"mean": 0.41, "low": 0.36, "high": 0.46} -> "41.00 [36.00, 46.00]"; what is undefined is left out."""
    mean, low, high = (None if score[k] is None else f"{100 * score[k]:.2f}" for k in ("mean", "low", "high"))
    return (mean or "-") + (f" [{low}, {high}]" if low and high else "")


def mean_texts(summary: dict[str, Any]) -> dict[str, str]:
    """The means of a summary.json by score, as text; over how many questions where that is not all of them."""
    skip = summary.get("failed_count_as") == "skip"
    counted = summary.get("n_scored" if skip else "n_total")
    found = {}
    for name, score in summary.get("scores", {}).items():
        few = "" if score["n"] == counted else f" over {score['n']} of {counted} questions"
        found[name] = mean_text(score) + few
    return found


def split(names: Iterable[str]) -> list[str]:
    """["a,b", "c"] -> ["a", "b", "c"], each once, in order."""
    found = [part.strip() for name in names for part in name.split(",")]
    return list(dict.fromkeys(name for name in found if name))


def sets_of(texts: Iterable[str]) -> dict[str, Any]:
    """["method.k=3"] -> {"method.k": Raw("3")}. Raises ConfigError for what is no assignment, or given twice."""
    found, problems = assignments(texts, "--set ")
    if problems:
        raise ConfigError(problems)
    return found


def choices(flags: Flags, method: str | None = None, dataset: str | None = None) -> Choices:
    """The flags as Choices, for one method and one data set. Raises UserError for a suite that cannot be read."""
    from harness.config import suites
    from harness.config.layers import Choices

    return Choices(
        method=method,
        dataset=dataset,
        data=flags.data,
        model=flags.model,
        profile=flags.profile,
        limit=flags.limit,
        seed=flags.seed,
        sets=sets_of(flags.sets),
        files=tuple(flags.config),
        require_full=flags.require_full,
        suite=None if flags.suite is None else suites.read(flags.suite),
    )
