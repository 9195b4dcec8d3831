"""Sentences below a table on how the searches of a run ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def searches(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """How many searches ended with every node visited, and how many probes were ties, a sentence each."""
    answered = [record for record in records if record["error"] is None and record["steps"]]
    ended = sum(record["stop_reason"] == "exhausted" for record in answered)
    asked = [p for record in answered for step in record["steps"] if (p := step.get("p_yes")) is not None]
    ties, found = sum(p == 0.5 for p in asked), []
    if ended:
        found.append(f"{ended} of {len(answered)} searches ({100 * ended / len(answered):.0f} %) visited every node")
    if ties:
        found.append(f"{ties} of {len(asked)} probes ({100 * ties / len(asked):.0f} %) are ties: P(Yes) is 0.5")
    return found
