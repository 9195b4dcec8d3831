"""`harness list [KIND]`: the names of each kind with a line about each. Reads YAML; imports no implementation."""

from __future__ import annotations

import json as json_
from typing import Annotated

import typer

from harness.cli.options import Json
from harness.cli.output import columns
from harness.config import presets
from harness.errors import UnknownName

KINDS = ("methods", "datasets", "models", "encoders", "scorers", "suites", "profiles")


def list_(
    kind: Annotated[str | None, typer.Argument(metavar="KIND", help=", ".join(KINDS) + ".", show_default="all")] = None,
    json: Json = False,
) -> int:
    """List methods, data sets, models, encoders, scorers, suites and profiles."""
    kinds = [find_kind(kind)] if kind else list(KINDS)
    listed = {k: entries(k) for k in kinds}
    if json:
        print(json_.dumps(listed[kinds[0]] if kind else listed, indent=2, ensure_ascii=False))
        return 0
    width = max((len(n) for names in listed.values() for n in names), default=0)
    for k in kinds:
        rows = [(name.ljust(width), summary) for name, summary in listed[k].items()]
        body = columns(rows) if rows else "(none)"
        print(body if kind else f"{k}\n" + "\n".join("  " + line for line in body.splitlines()))
    return 0


def find_kind(kind: str) -> str:
    """A kind as listed, from its plural or singular. Raises UnknownName."""
    for known in KINDS:
        if presets.fold(kind) in (known, known.rstrip("s")):
            return known
    raise UnknownName("kind", kind, KINDS)


def entries(kind: str) -> dict[str, str]:
    """Name -> one line, sorted by name."""
    if kind == "scorers":
        from harness import scorers

        return {name: scorers.summary(name) for name in sorted(scorers.names())}
    return presets.summaries(kind)
