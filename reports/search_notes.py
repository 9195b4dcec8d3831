"""Sentences below a table on the searches of a run, and on runs whose searches are the same."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.storage.record_columns import RecordColumns, SearchSummary
from harness.storage.run_folder import StoredRun

_CUT = re.compile(r"(\d+) of \d+ summaries were cut at (\d+) tokens")
"""In the note of a search's start, as graph construction writes it (methods/pecan/build.py)."""


def search_notes(columns: RecordColumns) -> list[str]:
    """Sentences on searches that visited every node, probes that were ties, declined questions and
    cut summaries."""
    answered: list[SearchSummary] = []
    documents: list[tuple[str, ...]] = []
    for place in np.flatnonzero(columns.answered).tolist():
        search = columns.searches.of(place)
        if search is not None:
            answered.append(search)
            documents.append(columns.documents.of(place))
    return [
        *_exhausted(answered),
        *_ties(answered),
        *_declined(answered),
        *_cut_summaries(answered, documents),
    ]


def _share(count: int, total: int, noun: str) -> str:
    """ "3 of 12 searches (25 %)" """
    return f"{count} of {total} {noun} ({100 * count / total:.0f} %)"


def _exhausted(searches: Sequence[SearchSummary]) -> list[str]:
    exhausted = sum(search.stop_reason == "exhausted" for search in searches)
    if not exhausted:
        return []
    return [f"{_share(exhausted, len(searches), 'searches')} visited every node"]


def _ties(searches: Sequence[SearchSummary]) -> list[str]:
    probes = sum(search.probes for search in searches)
    ties = sum(search.ties for search in searches)
    if not ties:
        return []
    return [f"{_share(ties, probes, 'probes')} are ties: P(Yes) is 0.5"]


def _declined(searches: Sequence[SearchSummary]) -> list[str]:
    routed = sum(search.is_accepted or search.is_declined for search in searches)
    if not routed:
        return []
    part = _share(sum(search.is_declined for search in searches), routed, "questions")
    return [f"{part} were declined at first and answered from the whole document"]


def _cut_summaries(
    searches: Sequence[SearchSummary], documents: Sequence[tuple[str, ...]]
) -> list[str]:
    """What graph construction cut; each document counts once."""
    cut_of_documents: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for search, searched in zip(searches, documents, strict=True):
        cut_of_documents[searched] = _CUT.findall(search.notes)
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


def declined(columns: RecordColumns) -> int:
    """Number of questions whose first request was declined, so that a second one read the whole
    document."""
    return columns.searches.count(lambda search: search is not None and search.is_declined)


@dataclass(frozen=True)
class _Visited:
    """The nodes that the searches of a run visited, a hash for each question with a search."""

    dataset: str
    n_questions: int
    nodes: Mapping[str, str]


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
    columns = run.columns
    if not columns.searches.count(lambda search: search is not None and search.nodes):
        return None
    nodes: dict[str, str] = {}
    for question_id, search in zip(columns.ids, columns.searches.by_record(), strict=True):
        if search is not None:
            nodes[question_id] = search.nodes
    return _Visited(run.config.dataset.name, len(columns), nodes)
