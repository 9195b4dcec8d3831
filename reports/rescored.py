"""Scores computed again from the stored answers, so that a verdict or a comparison rests on answers
alone.

    rescored(run, "flashrag.em")
        -> RescoredScore("3 of 20 scores flashrag.em are not those of the ...", all_checked=True)

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
from reports.gold_rows import known_golds

_SAME = 1e-9


class RescoredScore(NamedTuple):
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
        self._config = _config_of(run, name)
        self._all_checked = self._config is not None
        self._broken: str | None = None  # why the scorer failed
        self._golds = cache(lambda: _golds_of(run))  # loaded for the first record without its own
        self._checked = 0
        self._different = 0  # of the checked ones: not as stored

    @property
    def is_possible(self) -> bool:
        """Whether the scorer is installed here and can score the run's answers."""
        return self._config is not None

    def add(self, record: StoredRecord) -> None:
        """Score a record again, and count whether the score is the stored one.

        After a record that the scorer fails on, no further one is scored. Failed questions are left
        out.
        """
        if self._config is None or self._broken is not None or record.error is not None:
            return
        try:
            gold = gold_of(record) or self._golds().get(record.question_id)
            if gold is None:
                self._all_checked = False
                return
            fresh = score_record(record, self._config, gold)
        except STOPS:
            raise
        except Exception as error:  # noqa: BLE001 - a record that came from others may hold anything
            reason = error_in_one_line(describe_failure(error))
            question = record.question_id
            self._broken = (
                f"{self.name} cannot score the stored answer of '{question}' again: {reason}"
            )
            self._all_checked = False
            return
        self._checked += 1
        if not self._are_alike(record, fresh):
            self._different += 1

    def _are_alike(self, record: StoredRecord, fresh: StoredRecord) -> bool:
        """Whether the new score, and for BLEU the counts that a score of the corpus sums, are those
        stored."""
        if self._counts(record) != self._counts(fresh):
            return False
        return _is_same(fresh.scores.get(self.name), record.scores.get(self.name))

    def _counts(self, record: StoredRecord) -> list[float] | None:
        """The counts of an answer that a score of the corpus sums (BLEU); None for another
        score."""
        return score_counts_of(record.notes).get(self.name)

    @property
    def result(self) -> RescoredScore:
        """What was found in the records that were added so far."""
        if self._broken is not None:
            return RescoredScore(self._broken, all_checked=False)
        if not self._different:
            return RescoredScore(None, self._all_checked)
        sentence = (
            f"{self._different} of {self._checked} scores {self.name} are not those of the stored "
            "answers; run: harness score RUN"
        )
        return RescoredScore(sentence, self._all_checked)


def rescored(run: StoredRun, name: str) -> RescoredScore:
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


def _golds_of(run: StoredRun) -> Mapping[str, Gold]:
    """Question id -> gold answers by the run's data set; {} where that is not at hand."""
    return known_golds(run) or {}


def _config_of(run: StoredRun, name: str) -> DatasetConfig | None:
    """The run's data set with this scorer alone; None where the scorer or the data set cannot be
    used here."""
    if name not in scorers.names() or scorers.problems([name]):
        return None
    try:
        config = dataset_of_run(run.config, run.path.name)
    except UserError:
        return None
    return config.model_copy(update={"scorers": (name,)})


def _is_same(score: float | None, stored: float | None) -> bool:
    """Whether a score is the stored one; where one of the two is None, whether both are."""
    if score is None or stored is None:
        return score is stored
    return math.isclose(score, stored, abs_tol=_SAME)
