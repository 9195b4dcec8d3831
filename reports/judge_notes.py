"""What the scores of judges say, and which answers have none: notes below a table."""

from collections import Counter

import numpy as np

from harness.storage.record_notes import judgements_of
from harness.storage.run_folder import StoredRun

_MEANING_OF_KIND = {
    "claim-faithfulness": "share of an answer's claims that the shown texts support",
    "claim-correctness": "share of an answer's claims that agree with an accepted answer",
    "claim-completeness": "share of the accepted answer's claims that an answer states",
    "citation-recall": "share of an answer's statements that the texts they cite support",
    "citation-precision": "share of an answer's citations that are needed to support it",
}
"""Kind of judge -> what its score is."""


def judge_notes(run: StoredRun) -> list[str]:
    """A sentence for each judge by claims, citations or pairs on what its score is, and one for
    answers that a judge could not score."""
    notes: list[str] = []
    for name, entry in run.manifest.judges.items():
        kind = entry.kind
        if kind in _MEANING_OF_KIND:
            notes.append(f"{name}: {_MEANING_OF_KIND[kind]}")
        if kind == "pairwise":
            notes.append(
                f"{name}: share of questions on which its answer is preferred to that of "
                f"{entry.other_run}; a tie counts half"
            )
        notes += _unscored_note(run, name)
    return notes


def _unscored_note(run: StoredRun, judge: str) -> list[str]:
    """One sentence on the answers that a judge saw and gave no score, with how many of each verdict;
    [] for none.

    -> ["judge.m: 3 answers have no score (2 unclear, 1 unread)"]
    """
    n_by_verdict: Counter[str] = Counter()
    columns = run.columns
    is_unscored = np.ones(len(columns), dtype=bool)
    if judge in columns.scores:
        is_unscored = np.isnan(columns.scores[judge])
    for position in np.flatnonzero(is_unscored).tolist():
        judgement = judgements_of(columns.notes.of_record(position)).get(judge)
        if judgement:
            n_by_verdict[judgement["verdict"]] += 1
    if not n_by_verdict:
        return []
    reasons = [f"{count} {verdict}" for verdict, count in sorted(n_by_verdict.items())]
    answers = f"{n_by_verdict.total()} of {len(columns)} answers have no score"
    return [f"{judge}: {answers} ({', '.join(reasons)})"]
