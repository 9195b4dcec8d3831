"""`harness list [KIND]`: what can be named, with a line about each. Reads YAML only; imports no implementation."""

from __future__ import annotations

import json as json_
from typing import Any

from harness.cli.common import columns
from harness.config import presets
from harness.errors import UnknownName

KINDS = ("methods", "datasets", "models", "encoders", "scorers", "suites", "profiles")


def main(kind: str | None, *, json: bool) -> int:
    """Print one kind, or all. Raises UnknownName for a kind that is none."""
    kinds = [find_kind(kind)] if kind else list(KINDS)
    found = {k: entries(k) for k in kinds}
    if json:
        print(json_.dumps(found[kinds[0]] if kind else found, indent=2, ensure_ascii=False))
        return 0
    width = max((len(n) for names in found.values() for n in names), default=0)
    for k in kinds:
        rows = [(name.ljust(width), summary) for name, summary in found[k].items()]
        body = columns(rows) if rows else "(none)"
        print(body if kind else f"{k}\n" + "\n".join("  " + line for line in body.splitlines()))
    return 0


def find_kind(kind: str) -> str:
    """A kind as listed; its singular is understood. Raises UnknownName."""
    for known in KINDS:
        if presets.fold(kind) in (known, known.rstrip("s")):
            return known
    raise UnknownName("kind", kind, KINDS)


def entries(kind: str) -> dict[str, str]:
    """Name -> one line, sorted by name."""
    if kind == "scorers":
        scorers = _scorers()
        return {name: scorers.summary(name) for name in sorted(scorers.names())}
    return presets.summaries(kind)


def _scorers() -> Any:
    from harness import scorers

    return scorers
