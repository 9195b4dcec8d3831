"""Sentences below a table on the searches of a run, and on runs whose searches are the same."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from harness.storage.run_folder import StoredRun

_CUT = re.compile(r"(\d+) of \d+ summaries were cut at (\d+) tokens")
"""In the note of a search's start, as graph construction writes it (methods/pecan/build.py)."""


def search_notes(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sentences on searches that visited every node, probes that were ties, declined questions and
    cut summaries."""
    answered = [record for record in records if record["error"] is None and record["steps"]]
    whole = sum(record["stop_reason"] == "exhausted" for record in answered)
    probes = [
        p for record in answered for step in record["steps"] if (p := step.get("p_yes")) is not None
    ]
    ties, lines = sum(p == 0.5 for p in probes), list[str]()

    def share(count: int, of: int, noun: str, words: str) -> None:
        """Add a sentence on a part of something that there is."""
        lines.append(f"{count} of {of} {noun} ({100 * count / of:.0f} %) {words}")

    if whole:
        share(whole, len(answered), "searches", "visited every node")
    if ties:
        share(ties, len(probes), "probes", "are ties: P(Yes) is 0.5")
    if routed := sum(
        any(s.get("action") in ("accept", "decline") for s in r["steps"]) for r in answered
    ):
        share(
            declined(answered),
            routed,
            "questions",
            "were declined at first and answered from the whole document",
        )
    cut = {
        tuple(r["document_ids"]): _CUT.findall(" ".join(s.get("note") or "" for s in r["steps"]))
        for r in answered
    }
    if calls := sum(
        int(count) for notes in cut.values() for count, _ in notes
    ):  # each document counts once
        limits = ", ".join(sorted({limit for notes in cut.values() for _, limit in notes}))
        place = f"in {sum(map(bool, cut.values()))} of {len(cut)} indexes"
        dropped = "an unfinished last point is dropped where there are others"
        lines.append(f"{calls} summaries, {place}, were cut at {limits} tokens; {dropped}")
    return lines


def declined(records: Sequence[Mapping[str, Any]]) -> int:
    """Number of questions whose first request was declined, so that a second one read the whole
    document."""
    return sum(
        any(step.get("action") == "decline" for step in record["steps"]) for record in records
    )


def same_nodes_notes(runs: Sequence[StoredRun], labels: Sequence[str]) -> list[list[str]]:
    """For each run a sentence that names the runs of its data set that visited the same nodes as
    it, if there are any.

    labels: what the sentence calls the runs. A node is its number, level and tokens, because graphs
    may differ.
    """
    visited: list[Any] = []
    for run in runs:
        steps = {
            record["question_id"]: record["steps"] for record in run.records if record["steps"]
        }
        nodes = {
            name: {
                (step["node"], step["level"], step["tokens"])
                for step in own
                if step["node"] is not None
            }
            for name, own in steps.items()
        }
        same = run.config["dataset"]["name"], len(run.records), nodes
        visited.append(same if any(nodes.values()) else None)
    alike = [
        [label for label, own in zip(labels, visited, strict=True) if own and own == seen]
        for seen in visited
    ]
    return [
        [f"{', '.join(names)} visited the same nodes in every question"] * (len(names) > 1)
        for names in alike
    ]
