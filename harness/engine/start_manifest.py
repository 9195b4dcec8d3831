"""The manifest of a run while one start of it works: written at its begin, with each model's first
prompt, and at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.engine import manifest as manifests
from harness.engine.plan import PlannedRun
from harness.storage.manifest_file import FirstPrompt, RunManifest, Start
from harness.storage.run_files import Part
from harness.storage.run_store import RunStore
from harness.storage.summary_file import EarlyStop


class StartManifest:
    """Writes manifest.json while a start of a run works.

    Attributes:
        manifest: The content of the file, as this start has it.
    """

    def __init__(
        self, plan: PlannedRun, store: RunStore, command: list[str], part: Part | None = None
    ) -> None:
        """Add this start to the manifest of the folder, in memory; nothing is written yet.

        Args:
            plan: The run.
            store: Its folder.
            command: Words of the command line.
            part: The part of the questions that this process asks, None for all.
        """
        self._store = store
        described = manifests.describe(plan)
        self._dataset = described.dataset
        self.manifest = manifests.with_start(store.manifest(), described, command)
        if part is not None:
            self.manifest = self.manifest.with_values(shard=part.shard)

    @property
    def skipped(self) -> dict[str, int]:
        """Reason -> how many rows the loader left out for it."""
        return self.manifest.dataset.skipped

    @property
    def earlier_starts(self) -> list[Start]:
        """The starts before this one."""
        return self.manifest.starts[:-1]

    def set_dataset_of_this_start(self) -> None:
        """Describe the questions of this start, also where an earlier start had a larger limit.

        For a start that asks every stored question: without this, a run that was stopped below a
        limit of 50 and finished with a limit of 20 would be finished with 20 of 50 questions.
        """
        self.manifest = self.manifest.with_values(dataset=self._dataset)

    def write_begin(self, in_flight: int | None) -> None:
        """Write the manifest of a start that begins.

        Args:
            in_flight: Questions in flight at most; None where nothing is to be asked. Then nothing
                is recorded as changed, since the code of this start makes no answer.
        """
        this_start = self.manifest.last_start.without("changed")
        if in_flight is not None:
            this_start = self.manifest.last_start.with_values(parallel=in_flight)
        self._write(self.manifest.with_last_start(this_start))

    def write_new_first_prompts(self, prompts: Mapping[str, FirstPrompt]) -> None:
        """Write the first prompts (role -> prompt) of roles that the manifest has none of.

        With them the GPU is recorded, where the manifest has none.
        """
        manifest = manifests.with_first_prompts(self.manifest, prompts)
        if manifest is not self.manifest:
            self._write(manifest)

    def add_differences_of_worker(self, workers_manifest: RunManifest) -> None:
        """Record in the last start what differs on a worker's machine, such as versions of
        packages; in memory, nothing is written yet.

        The worker's GPU becomes the run's where this machine has none.
        """
        if not self.manifest.gpu:
            self.manifest = self.manifest.with_values(gpu=workers_manifest.gpu)
        changed = manifests.changed_keys(self.manifest, workers_manifest)
        if changed.has_values:
            last = self.manifest.last_start.with_changes(changed)
            self.manifest = self.manifest.with_last_start(last)

    def write_end(self, state: str, early_stop: EarlyStop | None, served: Sequence[str]) -> None:
        """Write the manifest of a start that ended.

        Args:
            state: "finished", "interrupted" or "stopped".
            early_stop: Why questions were left on purpose; None where none were.
            served: What each server of a fleet did, a sentence each.
        """
        last = self.manifest.last_start
        if early_stop is not None:
            last = last.with_values(stopped_early=early_stop)
        if served:
            last = last.with_values(served=list(served))
        self._write(manifests.with_end(self.manifest.with_last_start(last), state))

    def _write(self, manifest: RunManifest) -> None:
        """Write a manifest to the folder; it becomes `manifest`."""
        self.manifest = manifest
        self._store.write_manifest(manifest)
