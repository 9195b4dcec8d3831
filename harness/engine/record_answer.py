"""From an answer on disk to its record: score it, append it, show the progress.

Only here does gold meet the answer. Called in the thread of the run, one answer after the other.
"""

from __future__ import annotations

from typing import Any

from harness.engine.answer_question import Unscored
from harness.engine.open_run import OpenRun
from harness.engine.scoring import score_record
from harness.errors import FirstFailure
from harness.storage.failures import one_line


class RecordAnswer:
    """Records the answers of a run. recorded: how many this start has recorded.

    fail_fast: whether the first question that failed ends the run.
    """

    def __init__(self, run: OpenRun, fail_fast: bool = False) -> None:
        self.run = run
        self.recorded = 0
        self._fail_fast = fail_fast

    def __call__(self, unscored: Unscored | None) -> None:
        """Score, append and count an answer; nothing for None, a question that was not asked.

        Raises FirstFailure for a failed question where `fail_fast`.
        """
        if unscored is None:
            return
        config = self.run.plan.config
        record = score_record(unscored.record, config.dataset, unscored.example.gold)
        self.append(record)
        if config.dataset.keep_texts:
            self.run.manifest.keep_first_prompts(self.run.models.first_prompts())
        if self._fail_fast:
            self._stop_at_failure(record)

    def append(self, record: dict[str, Any]) -> None:
        """Write one line of records.jsonl and show it."""
        self.run.store.append_record(record)
        self.recorded += 1
        self.run.progress.done(record)

    def _stop_at_failure(self, record: dict[str, Any]) -> None:
        failure = record["error"]
        if failure is None:
            return
        sentence = (
            f"question '{record['question_id']}' failed, and --fail-fast stops there: "
            f"{one_line(failure)}"
        )
        raise FirstFailure(sentence, failure.get("traceback", ""))
