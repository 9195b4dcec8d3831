"""From answers on disk to their records: score them, append them, show the progress.

Only here does gold meet the answer. Called in the thread of the run; of several questions in
flight, those that have been answered meanwhile are recorded together, with one sync of the disk.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from harness.engine.answer_question import Unscored
from harness.engine.open_run import OpenRun
from harness.engine.progress import CountedQuestion
from harness.engine.scoring import score_record
from harness.errors import FirstFailure
from harness.parallel.phases import phase
from harness.storage.failures import error_in_one_line
from harness.storage.records import StoredRecord

_MAX_WAIT_SECONDS = 0.05
"""So long a scored answer waits for others to be written with."""


class RecordAnswer:
    """Records the answers of a run.

    Attributes:
        run: The run.
        recorded: How many answers this start has recorded.
    """

    def __init__(self, run: OpenRun, fail_fast: bool = False) -> None:
        """Begin with no answer recorded. fail_fast: whether the first question that failed ends the
        run."""
        self.run = run
        self.recorded = 0
        self._fail_fast = fail_fast

    def __call__(self, answers: Sequence[Unscored | None]) -> None:
        """Score answers, append their records to records.jsonl and show them as done: all together,
        but those that are scored already where scoring takes long (_MAX_WAIT_SECONDS). None stands
        for a question that was not asked, and is left out.

        Raises FirstFailure for a failed question where `fail_fast`.
        """
        records: list[StoredRecord] = []
        batch_start = time.monotonic()
        try:
            for answer in answers:
                if answer is None:
                    continue
                records.append(self._scored(answer))
                if time.monotonic() - batch_start > _MAX_WAIT_SECONDS:
                    self.append_and_show(records)
                    records = []
                    batch_start = time.monotonic()
        finally:  # also where one cannot be scored
            self.append_and_show(records)

    def _scored(self, answer: Unscored) -> StoredRecord:
        """The record of an answer with its scores added."""
        with phase("scores"):
            return score_record(answer.record, self.run.plan.config.dataset, answer.example.gold)

    def append_and_show(self, records: Sequence[StoredRecord]) -> None:
        """Write the records to records.jsonl, and show them as done once they are on disk. Also
        writes the first prompt of each model to the manifest, where texts may be kept.

        Raises FirstFailure, under `fail_fast`, where one of the questions failed.
        """
        if not records:
            return
        self.run.store.append_records(records)
        for record in records:
            self.recorded += 1
            self.run.progress.count_recorded(CountedQuestion.from_record(record))
        if self.run.plan.config.dataset.keep_texts:
            self.run.manifest.write_new_first_prompts(self.run.models.first_prompts())
        if self._fail_fast:
            for record in records:
                self._stop_at_failure(record)

    def _stop_at_failure(self, record: StoredRecord) -> None:
        """Raise FirstFailure where the record says that its question failed; called under
        --fail-fast."""
        failure = record.error
        if failure is None:
            return
        sentence = (
            f"question '{record.question_id}' failed, and --fail-fast stops there: "
            f"{error_in_one_line(failure)}"
        )
        raise FirstFailure(sentence, failure.get("traceback", ""))
