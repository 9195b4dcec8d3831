"""The files and questions of one part of a run, which several processes write beside each other.

runner.run(plan, out, place=part_of(plan, Part(3, 16, ids)), ...)      records.3.jsonl, manifest.3.json, ...
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from harness import scorers
from harness.engine.plan import Plan
from harness.errors import UserError, WorkerLost
from harness.storage.files import check_writable, delete_drafts, read_lines
from harness.storage.kept_requests import REQUESTS
from harness.storage.lock import FolderLock
from harness.storage.part_files import TRIES, Part, part_name, write_order
from harness.storage.remote_runs import check_shared
from harness.storage.run_folder import DOCUMENTS, MANIFEST, RECORDS, RUN, SUMMARY, check_plain, read_json, run_yaml
from harness.storage.run_place import RunPlace
from harness.storage.shown_texts import TEXTS
from harness.types import Example

_REPLACED = (MANIFEST, SUMMARY, RECORDS, REQUESTS, "touch")  # files that are written by way of a draft


def part_of(plan: Plan, part: Part) -> Callable[[Path], RunPlace]:
    """Return a function from the run's folder to the PartPlace of `part`, as runner.run takes it."""
    return lambda folder: PartPlace(folder, plan, part)


class PartPlace(RunPlace):
    """One part of a run: every file but run.yaml is its own."""

    unwatched = RunPlace.unwatched | {RUN}

    def __init__(self, folder: Path, plan: Plan, part: Part) -> None:
        super().__init__(folder)
        self._plan, self._part = plan, part
        self.part = part.number

    def path(self, name: str) -> Path:
        """The part's file of that name; run.yaml is shared."""
        return self.folder / (name if name == RUN else part_name(name, self.part))

    def enter(self, stack: ExitStack) -> None:
        """Become the writer of the part. Raises as RunPlace.enter."""
        if not self.holds_run():  # else its manifest, which comes before any question, proves that it can be written
            check_writable(self.folder)
        stack.enter_context(FolderLock(self.folder, self.part))
        check_shared(self.folder)
        check_plain(self.folder, self.part)
        if not self._part.driven:
            FolderLock(self.folder).check_free()  # a writer of the whole run would ask the same questions
        delete_drafts(self.folder, [self.path(name).name for name in _REPLACED])

    def check_fits(self) -> None:
        """Write order.jsonl. Raises UserError where the merged records have other scores than this run."""
        before = read_json(self.folder / MANIFEST).get("scorers")
        if before and before != {name: scorers.version(name) for name in self._plan.config.dataset.scorers}:
            raise UserError(
                f"{self.folder} has scores of {', '.join(before)}, not of this run; first run: harness score "
                f"{self.folder}"
            )
        write_order(self.folder, [example.question.id for example in self._plan.dataset.examples])

    def remove(self) -> None:
        """Delete the part's files."""
        for name in (MANIFEST, SUMMARY, RECORDS, DOCUMENTS, TEXTS, REQUESTS):
            self.path(name).unlink(missing_ok=True)

    def run_yaml_is_shared(self, config: Mapping[str, Any]) -> bool:
        """Whether another part wrote the same run.yaml."""
        return self.holds_run() and bool(run_yaml(self.folder)["config"] == config)

    def questions(self, examples: Sequence[Example]) -> tuple[Example, ...]:
        """The questions of the part."""
        return tuple(example for example in examples if self.is_mine(example.question.id))

    def is_mine(self, question_id: str) -> bool:
        """Whether it is a question of the part."""
        return question_id in self._part.ids

    def records_of_others(self) -> Iterator[dict[str, Any]]:
        """The merged records of the part's questions."""
        return (r for r in read_lines(self.folder / RECORDS, "question_id") if self.is_mine(r["question_id"]))

    def check_not_given_up(self, question_id: str) -> None:
        """Raise WorkerLost for a question that several workers in a row did not survive."""
        if question_id in self._part.given_up:
            raise WorkerLost(f"{TRIES} workers in a row ended while they answered this question")

    def manifest(self, asked: int) -> dict[str, Any]:
        """The number of the part and how many there are, for manifest.json."""
        return {"shard": {"number": self.part, "of": self._part.of, "asked": asked}}
