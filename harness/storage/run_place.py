"""A run folder and its one writer: names of the files, who may write, which questions are asked.

    place = RunPlace(folder)      the whole run: records.jsonl and the other files of harness/storage/run_folder.py
    place.enter(stack)         lock the folder, and remove what a killed writer left half done
    place.path(RECORDS)        where a file is

A subclass may keep its records in files of its own and ask some of the questions alone (docs/architecture.md#points).
"""

import contextlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from harness.storage.files import check_writable, delete_drafts
from harness.storage.lock import FolderLock
from harness.storage.run_folder import RUN
from harness.storage.shard_files import check_no_parts
from harness.types import Example


class RunPlace:
    """The folder of a whole run. fresh: it held no run before; part: the number of a part of a run, None for all."""

    part: int | None = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fresh = True

    def path(self, name: str) -> Path:
        """The file `name` of the run."""
        return self.folder / name

    def enter(self, stack: ExitStack) -> None:
        """Become the writer until `stack` is closed.

        Raises RunLocked, SaveError (it cannot be written), and UserError for parts that are not merged.
        """
        check_writable(self.folder)
        stack.enter_context(FolderLock(self.folder))
        self.fresh = not self.holds_run()
        check_no_parts(self.folder)
        delete_drafts(self.folder, ("*",))

    def holds_run(self) -> bool:
        """Whether the folder holds a run."""
        return (self.folder / RUN).exists()

    def check_fits(self) -> None:
        """Raise UserError if the folder's run cannot be continued; called once its data are known to be the same."""

    def remove(self) -> None:
        """Delete a run in which no question was recorded."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # the data set's folder, unless it holds other runs
            self.folder.parent.rmdir()

    def run_yaml_is_shared(self, config: Mapping[str, Any]) -> bool:
        """Whether another writer of this run has written run.yaml with the same configuration."""
        return False

    def questions(self, examples: Sequence[Example]) -> tuple[Example, ...]:
        """Those of `examples` that this writer asks."""
        return tuple(examples)

    def is_mine(self, question_id: str) -> bool:
        """Whether this writer records the question."""
        return True

    def records_of_others(self) -> Iterator[dict[str, Any]]:
        """Yield records of this writer's questions from files of other writers."""
        return iter(())

    def manifest(self, asked: int) -> dict[str, Any]:
        """Keys that this writer adds to manifest.json. asked: number of questions of the whole run."""
        return {}
