"""Sentences below a table on the searches of a run, and on runs whose searches are the same."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from harness.storage.record_columns import RecordColumns, SearchSummary
from harness.storage.run_folder import StoredRun

_CUT_SUMMARIES_NOTE = re.compile(r"(\d+) of \d+ summaries were cut at (\d+) tokens")
"""In the note of a search's start, as graph construction writes it (methods/pecan/build.py)."""


def search_notes(columns: RecordColumns) -> list[str]:
    """Sentences on the searches of a run's answered questions.

    They tell of searches that visited every node, probes that were ties, declined questions and cut
    summaries; [] where there are none of these.
    """
    counts = _SearchCounts()
    cuts_by_documents: dict[tuple[str, ...], list[_CutSummaries]] = {}
    for position in np.flatnonzero(columns.answered).tolist():
        search = columns.searches.of_record(position)
        if search is not None:
            counts.add(search)
            documents = columns.documents.of_record(position)
            cuts_by_documents[documents] = _parse_cut_summaries(search.notes)
    return [*counts.sentences(), *_cut_summaries_note(cuts_by_documents)]


class _CutSummaries(NamedTuple):
    """Summaries of an index that graph construction cut at one number of tokens."""

    number: int
    tokens: int


def _parse_cut_summaries(notes: str) -> list[_CutSummaries]:
    """The cut summaries that the notes of a search tell of: "3 of 40 summaries were cut at 512
    tokens" -> [_CutSummaries(3, 512)]."""
    matches = _CUT_SUMMARIES_NOTE.findall(notes)
    return [_CutSummaries(int(number), int(tokens)) for number, tokens in matches]


@dataclass
class _SearchCounts:
    """What happened in the searches of a run, counted.

    Attributes:
        searches: All searches.
        exhausted: Searches that visited every node.
        probes: Steps with a P(Yes).
        ties: Probes whose P(Yes) is 0.5.
        routed: Searches whose first request was accepted or declined.
        declined: Searches whose first request was declined.
    """

    searches: int = 0
    exhausted: int = 0
    probes: int = 0
    ties: int = 0
    routed: int = 0
    declined: int = 0

    def add(self, search: SearchSummary) -> None:
        """Count a search: whether it visited every node ("exhausted"), its probes and ties, and whether
        its first request was one that may decline ("routed")."""
        self.searches += 1
        self.probes += search.probes
        self.ties += search.ties
        if search.stop_reason == "exhausted":
            self.exhausted += 1
        if search.is_accepted or search.is_declined:
            self.routed += 1
        if search.is_declined:
            self.declined += 1

    def sentences(self) -> list[str]:
        """A sentence for each of these that happened: every node visited, ties, questions
        routed."""
        sentences = []
        if self.exhausted:
            searches = _part_in_words(self.exhausted, self.searches, "searches")
            sentences.append(f"{searches} visited every node")
        if self.ties:
            sentences.append(
                f"{_part_in_words(self.ties, self.probes, 'probes')} are ties: P(Yes) is 0.5"
            )
        if self.routed:
            searches = _part_in_words(self.declined, self.routed, "questions")
            sentences.append(
                f"{searches} were declined at first and answered from the whole document"
            )
        return sentences


def _part_in_words(count: int, total: int, noun: str) -> str:
    """A part of a whole in a sentence: "3 of 12 searches (25 %)".

    Args:
        count: The part.
        total: The whole, above 0.
        noun: What is counted.
    """
    return f"{count} of {total} {noun} ({100 * count / total:.0f} %)"


def _cut_summaries_note(
    cuts_by_documents: Mapping[tuple[str, ...], Sequence[_CutSummaries]],
) -> list[str]:
    """One sentence on the summaries that graph construction cut; [] where it cut none.

    Args:
        cuts_by_documents: Documents of an index -> its summaries that were cut.
    """
    n_summaries = 0
    n_indexes = 0
    limits = set()
    for cuts in cuts_by_documents.values():
        if cuts:
            n_indexes += 1
        for cut in cuts:
            n_summaries += cut.number
            limits.add(str(cut.tokens))
    if not n_summaries:
        return []
    indexes = f"in {n_indexes} of {len(cuts_by_documents)} indexes"
    summaries = (
        f"{n_summaries} summaries, {indexes}, were cut at {', '.join(sorted(limits))} tokens"
    )
    return [f"{summaries}; an unfinished last point is dropped where there are others"]


def count_declined(columns: RecordColumns) -> int:
    """Number of questions whose first request was declined, so that a second one read the whole
    document."""
    return columns.searches.count(lambda search: search is not None and search.is_declined)


@dataclass(frozen=True)
class _VisitedNodes:
    """The nodes that the searches of a run visited; equal for runs that visited the same.

    Attributes:
        dataset: The name of the data set.
        n_questions: The number of recorded questions, also of those without a search.
        nodes: Question id -> a hash of the nodes that its search visited, "" for none.
    """

    dataset: str
    n_questions: int
    nodes: Mapping[str, str]


def same_nodes_notes(runs: Sequence[StoredRun], labels: Sequence[str]) -> list[list[str]]:
    """For each run a sentence that names the runs of its data set that visited the same nodes.

    Args:
        runs: Stored runs.
        labels: What the sentence calls each of them.

    Returns:
        [sentence] for each run; [] where no other run visited the same nodes.
    """
    nodes_by_run = [_visited_nodes(run) for run in runs]
    notes: list[list[str]] = []
    for visited in nodes_by_run:
        same_labels = []  # with that of the run itself
        for label, other_visited in zip(labels, nodes_by_run, strict=True):
            if visited is not None and other_visited == visited:
                same_labels.append(label)
        if len(same_labels) > 1:
            notes.append([f"{', '.join(same_labels)} visited the same nodes in every question"])
        else:
            notes.append([])
    return notes


def _visited_nodes(run: StoredRun) -> _VisitedNodes | None:
    """The nodes that the searches of a run visited; None where they visited no node at all."""
    columns = run.columns
    n_searches_with_nodes = columns.searches.count(
        lambda search: search is not None and search.nodes
    )
    if not n_searches_with_nodes:
        return None
    nodes_hash_by_question: dict[str, str] = {}
    for question_id, search in zip(columns.ids, columns.searches.by_record(), strict=True):
        if search is not None:
            nodes_hash_by_question[question_id] = search.nodes
    return _VisitedNodes(run.config.dataset.name, len(columns), nodes_hash_by_question)
