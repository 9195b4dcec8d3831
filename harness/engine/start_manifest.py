"""The manifest of a run while one start of it works: written at its begin, with each model's first
prompt, and at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.engine import manifest as manifests
from harness.engine.plan import PlannedRun
from harness.storage.run_files import MANIFEST, Part
from harness.storage.run_store import RunStore
from harness.storage.summary_file import EarlyStop


class StartManifest:
    """Keeps manifest.json as this start has it. value: its content.

    Args:
        plan: The run.
        store: Its folder.
        command: Words of the command line.
        part: The part of the questions that this process asks, None for all.
    """

    def __init__(
        self, plan: PlannedRun, store: RunStore, command: list[str], part: Part | None = None
    ) -> None:
        self._store = store
        described = manifests.describe(plan)
        self._dataset: dict[str, Any] = described["dataset"]
        self.value = manifests.with_start(store.manifest(), described, command)
        if part is not None:
            self.value |= part.described

    @property
    def skipped(self) -> dict[str, int]:
        """Rows that the loader left out, by reason."""
        skipped: dict[str, int] = self.value["dataset"].get("skipped") or {}
        return skipped

    @property
    def earlier_starts(self) -> list[dict[str, Any]]:
        """The starts before this one."""
        starts: list[dict[str, Any]] = self.value["starts"]
        return starts[:-1]

    def set_dataset_of_this_start(self) -> None:
        """Describe the questions of this start, also where an earlier start had a larger limit.

        For a start that asks every stored question: without this, a run that was stopped below a
        limit of 50 and finished with a limit of 20 would be finished with 20 of 50 questions.
        """
        self.value = {**self.value, "dataset": self._dataset}

    def begin(self, in_flight: int | None) -> None:
        """Write the manifest of a start that begins.

        Args:
            in_flight: Questions in flight at most; None where nothing is to be asked, so that the
                code of this start makes no answer.
        """
        this_start = self.value["starts"][-1]
        if in_flight is None:
            this_start.pop("changed", None)
        else:
            this_start["parallel"] = in_flight
        self._store.write(MANIFEST, self.value)

    def keep_first_prompts(self, prompts: Mapping[str, dict[str, Any]]) -> None:
        """Write the first prompts (role -> prompt) of roles that the manifest has none of."""
        before = self.value
        self.value = manifests.with_first_prompts(before, prompts)
        if self.value is not before:
            self._store.write(MANIFEST, self.value)

    def add_worker(self, there: Mapping[str, Any]) -> None:
        """Add what differs on a worker's machine, `there` being the manifest that it made."""
        self.value = {**self.value, "gpu": self.value.get("gpu") or there.get("gpu")}
        changed = manifests.changes(self.value, there)
        if changed:
            *starts, last = self.value["starts"]
            last = {**last, "changed": last.get("changed", {}) | changed}
            self.value["starts"] = [*starts, last]

    def end(self, state: str, early_stop: EarlyStop | None, served: Sequence[str]) -> None:
        """Write the manifest of a start that ended.

        Args:
            state: "finished", "interrupted" or "stopped".
            early_stop: Why it stopped; None for no reason.
            served: What each server of a fleet did, a sentence each.
        """
        extra: dict[str, Any] = {}
        if early_stop is not None:
            extra["stopped_early"] = early_stop.to_json()
        if served:
            extra["served"] = list(served)
        self.value = manifests.with_end(self.value, state, extra)
        self._store.write(MANIFEST, self.value)
