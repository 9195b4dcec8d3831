"""One shard of a run: the questions of some documents, answered by a plain process.

    harness run ... --shard 3/16   ──►  parts/3-of-16/records.jsonl ...    in the run folder (storage/run_files.py)
    the last shard to end          ──►  merge (harness/scale/merge.py): records.jsonl, as one process would write it

parse_shard("3/16")                    (3, 16)
partition(examples, documents, 16)     16 lists of question ids; questions about the same documents stay together
"""

import heapq
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import scorers
from harness.engine import runner
from harness.engine.plan import PlannedRun
from harness.engine.progress import Progress
from harness.errors import RunLocked, UserError
from harness.scale.merge import ORDER, merge
from harness.storage.files import check_writable, write_atomic
from harness.storage.json_lines import json_line, read_lines
from harness.storage.run_files import RECORDS, Part, part_folders, read_manifest, read_summary
from harness.types import Document, Example

_MOST = 100_000
# Times that a process tries to merge while another one closes its shard, 0.1 s apart.
_MERGE_TRIES = 40


def parse_shard(text: str) -> tuple[int, int]:
    """Parse the number of a shard: "3/16" -> (3, 16). Raises UserError."""
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if match is not None:
        number = int(match[1])
        of = int(match[2])
        if 1 <= number <= of <= _MOST:
            return number, of
    raise UserError(f"--shard {text}: should be K/N with K from 1 to N, for example 3/16")


def partition(
    examples: Sequence[Example], documents: Mapping[str, Document], of: int
) -> list[list[str]]:
    """Split the questions into `of` shards, lists of ids; the same for
    every caller, some may be empty.

    Questions about the same documents are in one shard, so that an index is built once. The largest
    groups are dealt out first, each to the shard that has least so far (Graham's LPT rule). The
    size of a group is its text, counted once for the index and once for each question.

    Args:
        examples: The questions.
        documents: The documents of the data set, by id.
        of: How many shards.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for example in examples:
        names = tuple(sorted(example.question.document_ids))
        groups.setdefault(names, []).append(example.question.id)
    sized: list[_SizedGroup] = []
    for names, ids in groups.items():
        characters = sum(len(documents[name].text) for name in names)
        times_read = 1 + len(ids)  # by the index, and by each question
        sized.append(_SizedGroup(ids, times_read * (1 + characters)))
    sized.sort(key=lambda group: group.size, reverse=True)  # equal ones stay in their order
    shards: list[list[str]] = [[] for _ in range(of)]
    loads = [(0, number) for number in range(of)]  # a heap of (size so far, shard)
    for group in sized:
        smallest, number = loads[0]
        heapq.heapreplace(loads, (smallest + group.size, number))
        shards[number] += group.ids
    return shards


@dataclass(frozen=True)
class _SizedGroup:
    """Questions about the same documents.

    Attributes:
        ids: The questions.
        size: What they take to answer, in characters.
    """

    ids: list[str]
    size: int


def run_shard(
    plan: PlannedRun, out: Path, number: int, of: int, *, progress: Progress, **options: Any
) -> tuple[runner.RunResult, bool]:
    """Run one shard of a run, and merge all if it was the last one.

    Args:
        plan: The run.
        out: The results folder.
        number: The number of the shard, from 1.
        of: How many shards there are.
        progress: Shows what is done.
        options: Those of runner.run.

    Returns:
        (the result of the shard, or after a merge that of the whole run; whether it merged)

    Raises:
        UserError: The folder holds shards that were cut in another way, or records of other
            scorers. Also what runner.run raises.
    """
    folder = Path(out) / plan.folder
    asked = plan.dataset.examples[: plan.config.limit]
    shards = partition(asked, plan.dataset.documents, of)
    part = Part(
        number=number,
        n_parts=of,
        n_questions=len(asked),
        question_ids=frozenset(shards[number - 1]),
    )
    _check_fits(plan, folder, part)
    check_writable(folder)
    _write_order(folder / ORDER, plan.dataset.examples)
    result = runner.run(plan, out, progress=progress, part=part, **options)
    for _ in range(_MERGE_TRIES):
        if not _all_ended(folder, shards):
            return result, False
        try:
            summary = merge(folder, progress.note)
        except RunLocked:  # another process merges, or is about to release its shard
            time.sleep(0.1)
            continue
        return runner.RunResult(folder, summary, summary.n_failed or 0, result.save_problems), True
    return result, False


def _write_order(path: Path, examples: Sequence[Example]) -> None:
    """Write the ids of the questions in the order of the data set, a line each.

    A file of a larger --limit, which has more of them, stays.
    """
    lines = [json_line({"question_id": example.question.id}) for example in examples]
    order = b"".join(lines)
    if not path.exists() or path.stat().st_size < len(order):
        write_atomic(path, order)


def _check_fits(plan: PlannedRun, folder: Path, part: Part) -> None:
    """Raise UserError where a shard does not fit what the run folder holds.

    That is: shards of another division, as questions would be asked twice, or other scorers.

    Args:
        plan: The run.
        folder: The run folder.
        part: The shard to run.
    """
    parts = part_folders(folder)
    if parts:
        before = read_manifest(parts[0]).shard  # the others were checked alike
        is_other_division = before is not None and (
            before.of != part.n_parts or before.asked != part.n_questions
        )
        if before is not None and is_other_division:
            raise UserError(
                f"{folder} holds shards of another division ({before.of} shards of "
                f"{before.asked} questions; now {part.n_parts} of {part.n_questions}); first run: "
                f"harness merge {folder}"
            )
    scored = read_manifest(folder).scorers
    here = {name: scorers.version(name) for name in plan.config.dataset.scorers}
    if scored and scored != here:
        raise UserError(
            f"{folder} has scores of {', '.join(scored)}, not of this run; first run: harness "
            f"score {folder}"
        )


def _all_ended(folder: Path, shards: Sequence[Sequence[str]]) -> bool:
    """Whether there are shards to merge, and every shard has ended.

    Args:
        folder: The run folder.
        shards: The question ids of each shard.
    """
    parts = part_folders(folder)
    if not parts:
        return False
    merged = {row["question_id"] for row in read_lines(folder / RECORDS, "question_id")}
    left = sum(not merged.issuperset(ids) for ids in shards)
    if len(parts) < left:  # most shards end while others are not begun: no summary is read then
        return False
    return all(read_summary(part).is_finished for part in parts)
