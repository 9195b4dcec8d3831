"""One shard of a run: the questions of some documents, answered by a plain process into files of its own.

    harness run ... --shard 3/16   ──►  records.3.jsonl, documents.3.jsonl, manifest.3.json ...   in the run folder
    the last shard to end          ──►  merge (harness/scale/merge.py): records.jsonl, as one process would write it

parse_shard("3/16")                    (3, 16)
partition(examples, documents, 16)   16 lists of question ids; questions about the same documents stay together
part_of(plan, Part(3, 16, ids))      the `place` of runner.run for a process that writes this part beside others
"""

import heapq
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from harness import scorers
from harness.engine import runner
from harness.engine.plan import Plan
from harness.engine.progress import Progress
from harness.engine.runner import RunResult
from harness.errors import RunLocked, UserError
from harness.scale.merge import merge
from harness.storage.files import check_writable, delete_drafts
from harness.storage.json_lines import read_lines
from harness.storage.kept_requests import REQUESTS
from harness.storage.lock import FolderLock
from harness.storage.run_folder import DOCUMENTS, MANIFEST, RECORDS, RUN, SUMMARY, read_json, run_yaml
from harness.storage.run_place import RunPlace
from harness.storage.shard_files import Part, part_name, parts_in, write_order
from harness.storage.shown_texts import TEXTS
from harness.types import Document, Example

_MOST = 100_000
_MERGE_TRIES = 40  # times that a process tries to merge while another one closes its shard, 0.1 s apart
_REPLACED = (MANIFEST, SUMMARY, RECORDS, REQUESTS, "touch")  # files that are written by way of a draft


def parse_shard(text: str) -> tuple[int, int]:
    """ "3/16" as (3, 16). Raises UserError."""
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    number, of = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= of <= _MOST:
        raise UserError(f"--shard {text}: should be K/N with K from 1 to N, for example 3/16")
    return number, of


def partition(examples: Sequence[Example], documents: Mapping[str, Document], of: int) -> list[list[str]]:
    """Split the questions into `of` shards (lists of ids), the same for every caller; some may be empty.

    Questions about the same documents are in one shard, so that an index is built once. The largest groups are dealt
    out first, each to the shard that has least so far (Graham's LPT rule). The size of a group is its text, counted
    once for the index and once for each question.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for example in examples:
        groups.setdefault(tuple(sorted(example.question.document_ids)), []).append(example.question.id)
    sized = [
        ((1 + len(ids)) * (1 + sum(len(documents[d].text) for d in names)), n, ids)
        for n, (names, ids) in enumerate(groups.items())
    ]
    shards: list[list[str]] = [[] for _ in range(of)]
    load = [(0, n) for n in range(of)]
    for size, _, ids in sorted(sized, key=lambda group: (-group[0], group[1])):
        least, n = load[0]
        heapq.heapreplace(load, (least + size, n))
        shards[n] += ids
    return shards


def run_shard(
    plan: Plan, out: Path, number: int, of: int, *, progress: Progress, **options: Any
) -> tuple[RunResult, bool]:
    """Run shard `number` of `of`, and merge if it was the last one. Returns (its result, whether it merged).

    options: those of runner.run. The result of a merge is that of the whole run. Raises what runner.run raises, and
    UserError where the folder holds shards that were cut in another way.
    """
    folder = Path(out) / plan.folder
    asked = plan.dataset.examples[: plan.config.limit]
    shards = partition(asked, plan.dataset.documents, of)
    _check_same_division(folder, of, len(asked))
    part = Part(number, of, frozenset(shards[number - 1]))
    result = runner.run(plan, out, progress=progress, place=part_of(plan, part), **options)
    for _ in range(_MERGE_TRIES):
        if not _all_ended(folder, shards):
            return result, False
        try:
            summary = merge(folder, progress.note)
        except RunLocked:  # another process merges, or is about to release its shard
            time.sleep(0.1)
            continue
        return runner.RunResult(folder, summary, summary["n_failed"], result.save_problems), True
    return result, False


def _check_same_division(folder: Path, of: int, asked: int) -> None:
    """Raise UserError for shards that are not `of` of `asked` questions: questions would be asked twice."""
    if numbers := parts_in(folder)[:1]:  # all others were checked like this one
        shard = read_json(folder / part_name(MANIFEST, numbers[0])).get("shard") or {}
        if shard and (shard["of"], shard["asked"]) != (of, asked):
            raise UserError(
                f"{folder} holds shards of another division ({shard['of']} shards of {shard['asked']} questions; now "
                f"{of} of {asked}); first run: harness merge {folder}"
            )


def _all_ended(folder: Path, shards: Sequence[Sequence[str]]) -> bool:
    """Whether there are shards to merge, and every one ended; shards: the question ids of each."""
    if not (begun := set(parts_in(folder))):
        return False
    merged = {row["question_id"] for row in read_lines(folder / RECORDS, "question_id")}
    left = [number for number, ids in enumerate(shards, 1) if not merged.issuperset(ids)]
    if not begun.issuperset(left):  # most shards end while others are not begun: no summary need be read
        return False
    return all(read_json(folder / part_name(SUMMARY, number)).get("state") == "finished" for number in left)


def part_of(plan: Plan, part: Part) -> Callable[[Path], RunPlace]:
    """Return a function from the run's folder to the PartPlace of `part`, as runner.run takes it."""
    return lambda folder: PartPlace(folder, plan, part)


class PartPlace(RunPlace):
    """One part of a run: every file but run.yaml is its own."""

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
        """Whether this part has the question."""
        return question_id in self._part.ids

    def records_of_others(self) -> Iterator[dict[str, Any]]:
        """The merged records of the part's questions."""
        return (r for r in read_lines(self.folder / RECORDS, "question_id") if self.is_mine(r["question_id"]))

    def manifest(self, asked: int) -> dict[str, Any]:
        """{"shard": {"number", "of", "asked"}} for manifest.json: the part, of how many, of how many questions."""
        return {"shard": {"number": self.part, "of": self._part.of, "asked": asked}}
