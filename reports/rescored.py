"""Scores computed again from the stored answers, so that a verdict or a comparison rests on answers
alone.

    rescore(run, "flashrag.em")
        -> RescoringResult("3 of 20 scores flashrag.em are not those of the ...", all_checked=True)

Several scores are computed in one pass by a Rescoring each, as reports/checks.py does.
"""

import math
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from harness import scorers
from harness.config.schema import DatasetConfig
from harness.config.yaml_tree import dataset_of_run
from harness.engine.scoring import score_record
from harness.errors import UserError
from harness.storage.failures import STOPS, describe_failure, error_in_one_line
from harness.storage.record_notes import score_counts_of
from harness.storage.record_texts import gold_of
from harness.storage.records import StoredRecord
from harness.storage.run_folder import StoredRun
from harness.types import Gold
from reports.gold_rows import load_golds

_SCORE_TOLERANCE = 1e-9


class RescoringResult(NamedTuple):
    """What computing a score of a run again has found.

    Attributes:
        problem: A sentence where scores, or their counts for a score of the corpus, are not those
            of the stored answers, or where the scorer fails; else None.
        all_checked: Whether every answer was checked: not where the gold answers were not kept and
            the data set is not at hand, or the scorer is a model, the user's own function or not
            installed.
    """

    problem: str | None
    all_checked: bool


class Rescoring:
    """One score of a run, computed again record by record.

    Args:
        run: A stored run; where its records hold no gold answers, those of its data set are used,
            if that is at hand.
        name: A score that the run has.
    """

    def __init__(self, run: StoredRun, name: str) -> None:
        """Choose the scorer; no record is scored yet, and gold answers are loaded when one needs
        them."""
        self.name = name
        self._dataset = _dataset_with_scorer(run, name)
        self._all_checked = self._dataset is not None
        self._scorer_failure: str | None = None  # why the scorer failed
        self._load_golds = cache(lambda: _golds_by_question(run))  # once, if a record lacks them
        self._n_checked = 0
        self._n_different = 0  # records checked whose score is not the stored one

    @property
    def is_possible(self) -> bool:
        """Whether the scorer is installed here and can score the run's answers."""
        return self._dataset is not None

    def add(self, record: StoredRecord) -> None:
        """Score a record again, and count whether the score is the stored one.

        Failed questions are left out. Where the scorer fails, the reason is kept for `result`, and
        no further record is scored.
        """
        if self._dataset is None or self._scorer_failure is not None:
            return
        if record.error is not None:
            return
        try:
            gold = gold_of(record) or self._load_golds().get(record.question_id)
            if gold is None:
                self._all_checked = False
                return
            new_record = score_record(record, self._dataset, gold)
        except STOPS:
            raise
        except Exception as error:  # noqa: BLE001 - a record that came from others may hold anything
            reason = error_in_one_line(describe_failure(error))
            question = record.question_id
            self._scorer_failure = (
                f"{self.name} cannot score the stored answer of '{question}' again: {reason}"
            )
            self._all_checked = False
            return
        self._n_checked += 1
        if not self._has_stored_score(record, new_record):
            self._n_different += 1

    def _has_stored_score(self, record: StoredRecord, new_record: StoredRecord) -> bool:
        """Whether the new score, and for BLEU the counts that a score of the corpus sums, are those
        stored."""
        if self._corpus_counts(record) != self._corpus_counts(new_record):
            return False
        return _are_same_scores(new_record.scores.get(self.name), record.scores.get(self.name))

    def _corpus_counts(self, record: StoredRecord) -> list[float] | None:
        """The counts of an answer that a score of the corpus sums (BLEU); None for another
        score."""
        return score_counts_of(record.notes).get(self.name)

    @property
    def result(self) -> RescoringResult:
        """What was found in the records that were added so far."""
        if self._scorer_failure is not None:
            return RescoringResult(self._scorer_failure, all_checked=False)
        if not self._n_different:
            return RescoringResult(None, self._all_checked)
        sentence = (
            f"{self._n_different} of {self._n_checked} scores {self.name} are not those of the "
            "stored answers; run: harness score RUN"
        )
        return RescoringResult(sentence, self._all_checked)


def rescore(run: StoredRun, name: str) -> RescoringResult:
    """What computing the score `name` of a run again finds; its records are read for it.

    Args:
        run: A stored run, with or without the gold answers of its questions.
        name: A score that the run has.
    """
    rescoring = Rescoring(run, name)
    if rescoring.is_possible:
        for record in run.records_with_texts:
            rescoring.add(record)
    return rescoring.result


def _golds_by_question(run: StoredRun) -> Mapping[str, Gold]:
    """Question id -> gold answers by the run's data set; {} where that is not at hand."""
    return load_golds(run) or {}


def _dataset_with_scorer(run: StoredRun, name: str) -> DatasetConfig | None:
    """The run's data set with this scorer alone; None where the scorer or the data set cannot be
    used here."""
    if name not in scorers.names() or scorers.problems([name]):
        return None
    try:
        dataset = dataset_of_run(run.config, run.path.name)
    except UserError:
        return None
    return dataset.model_copy(update={"scorers": (name,)})


def _are_same_scores(score: float | None, stored: float | None) -> bool:
    """Whether a score is the stored one; where one of the two is None, whether both are."""
    if score is None or stored is None:
        return score is stored
    return math.isclose(score, stored, abs_tol=_SCORE_TOLERANCE)
