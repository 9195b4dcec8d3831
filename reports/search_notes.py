"""Sentences below a table on the searches of a run, and on runs whose searches are the same."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.storage.records import StoredRecord
from harness.storage.run_folder import StoredRun

_CUT = re.compile(r"(\d+) of \d+ summaries were cut at (\d+) tokens")
"""In the note of a search's start, as graph construction writes it (methods/pecan/build.py)."""


def search_notes(records: Sequence[StoredRecord]) -> list[str]:
    """Sentences on searches that visited every node, probes that were ties, declined questions and
    cut summaries."""
    answered = [record for record in records if record.error is None and record.steps]
    return [
        *_exhausted(answered),
        *_ties(answered),
        *_declined(answered),
        *_cut_summaries(answered),
    ]


def _share(count: int, total: int, noun: str) -> str:
    """ "3 of 12 searches (25 %)" """
    return f"{count} of {total} {noun} ({100 * count / total:.0f} %)"


def _exhausted(records: Sequence[StoredRecord]) -> list[str]:
    exhausted = sum(record.stop_reason == "exhausted" for record in records)
    if not exhausted:
        return []
    return [f"{_share(exhausted, len(records), 'searches')} visited every node"]


def _ties(records: Sequence[StoredRecord]) -> list[str]:
    probes = 0
    ties = 0
    for record in records:
        for step in record.steps:
            p_yes = step.get("p_yes")
            probes += p_yes is not None
            ties += p_yes == 0.5
    if not ties:
        return []
    return [f"{_share(ties, probes, 'probes')} are ties: P(Yes) is 0.5"]


def _declined(records: Sequence[StoredRecord]) -> list[str]:
    routed = _count_with(records, "accept", "decline")
    if not routed:
        return []
    part = _share(declined(records), routed, "questions")
    return [f"{part} were declined at first and answered from the whole document"]


def _count_with(records: Sequence[StoredRecord], *actions: str) -> int:
    """How many searches have a step that is one of these actions."""
    count = 0
    for record in records:
        taken = {step.get("action") for step in record.steps}
        count += not taken.isdisjoint(actions)
    return count


def _cut_summaries(records: Sequence[StoredRecord]) -> list[str]:
    """What graph construction cut; each document counts once."""
    cut_of_documents: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for record in records:
        notes = " ".join(step.get("note") or "" for step in record.steps)
        cut_of_documents[tuple(record.document_ids)] = _CUT.findall(notes)
    summaries, n_indexes = 0, 0
    limits = set()
    for found in cut_of_documents.values():
        n_indexes += bool(found)
        for count, limit in found:
            summaries += int(count)
            limits.add(limit)
    if not summaries:
        return []
    place = f"in {n_indexes} of {len(cut_of_documents)} indexes"
    cut = f"{summaries} summaries, {place}, were cut at {', '.join(sorted(limits))} tokens"
    return [f"{cut}; an unfinished last point is dropped where there are others"]


def declined(records: Sequence[StoredRecord]) -> int:
    """Number of questions whose first request was declined, so that a second one read the whole
    document."""
    return _count_with(records, "decline")


_Node = tuple[int, int | None, int]
"""Number, level and tokens of a node, as graphs may differ."""


@dataclass(frozen=True)
class _Visited:
    """The nodes that the searches of a run visited, by question."""

    dataset: str
    n_questions: int
    nodes: Mapping[str, set[_Node]]


def same_nodes_notes(runs: Sequence[StoredRun], labels: Sequence[str]) -> list[list[str]]:
    """For each run a sentence that names the runs of its data set that visited the same nodes as
    it, if there are any; labels: what the sentence calls the runs."""
    visited = list(map(_visited, runs))
    notes: list[list[str]] = []
    for own in visited:
        alike: list[str] = []
        if own is not None:
            pairs = zip(labels, visited, strict=True)
            alike = [label for label, other in pairs if other == own]
        if len(alike) > 1:
            notes.append([f"{', '.join(alike)} visited the same nodes in every question"])
        else:
            notes.append([])
    return notes


def _visited(run: StoredRun) -> _Visited | None:
    """What the searches of a run visited; None for no node at all."""
    nodes: dict[str, set[_Node]] = {}
    for record in run.records:
        if not record.steps:
            continue
        seen = nodes.setdefault(record.question_id, set())
        for step in record.steps:
            if step["node"] is not None:
                seen.add((step["node"], step["level"], step["tokens"]))
    if not any(nodes.values()):
        return None
    return _Visited(run.config["dataset"]["name"], len(run.records), nodes)
