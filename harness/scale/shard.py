"""One shard of a run: the questions of some documents, answered by a plain process.

    harness run ... --shard 3/16   ──►  parts/3-of-16/records.jsonl ...    in the run folder (storage/run_files.py)
    the last shard to end          ──►  merge (harness/scale/merge.py): records.jsonl, as one process would write it

parse_shard("3/16")                    ShardNumber(3, 16)
partition(examples, documents, 16)     16 lists of question ids; questions about the same documents stay together
"""

import heapq
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

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

_MAX_SHARDS = 100_000
# Times that a process tries to merge while another one closes its shard, 0.1 s apart.
_MERGE_TRIES = 40


class ShardNumber(NamedTuple):
    """Which of the shards of a run: ShardNumber(3, 16) is the third of sixteen."""

    number: int
    n_shards: int


def parse_shard(text: str) -> ShardNumber:
    """Parse the number of a shard: "3/16" -> ShardNumber(3, 16). Raises UserError."""
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if match is not None:
        number = int(match[1])
        n_shards = int(match[2])
        if 1 <= number <= n_shards <= _MAX_SHARDS:
            return ShardNumber(number, n_shards)
    raise UserError(f"--shard {text}: should be K/N with K from 1 to N, for example 3/16")


def partition(
    examples: Sequence[Example], documents: Mapping[str, Document], n_shards: int
) -> list[list[str]]:
    """Split the questions into shards: for each the ids of its questions. Every process gets the
    same split; a shard may be empty.

    Questions about the same documents are in one shard, so that an index is built once. The largest
    groups are dealt out first, each to the shard that has least so far (Graham's LPT rule). The
    size of a group is its text, counted once for the index and once for each question.

    Args:
        examples: The questions.
        documents: The documents of the data set, by id.
        n_shards: How many shards.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for example in examples:
        document_ids = tuple(sorted(example.question.document_ids))
        groups.setdefault(document_ids, []).append(example.question.id)
    sized_groups: list[_SizedGroup] = []
    for document_ids, question_ids in groups.items():
        characters = sum(len(documents[document_id].text) for document_id in document_ids)
        times_read = 1 + len(question_ids)  # by the index, and by each question
        sized_groups.append(_SizedGroup(question_ids, times_read * (1 + characters)))
    sized_groups.sort(key=lambda group: group.size, reverse=True)  # equal ones keep their order
    shards: list[list[str]] = [[] for _ in range(n_shards)]
    heap_of_loads = [_Load(0, index) for index in range(n_shards)]
    for group in sized_groups:
        least = heap_of_loads[0]
        heapq.heapreplace(heap_of_loads, _Load(least.size + group.size, least.shard_index))
        shards[least.shard_index] += group.question_ids
    return shards


@dataclass(frozen=True)
class _SizedGroup:
    """Questions about the same documents.

    Attributes:
        question_ids: The questions.
        size: What they take to answer, in characters.
    """

    question_ids: list[str]
    size: int


class _Load(NamedTuple):
    """What a shard has so far; the order of loads is that of their sizes.

    Attributes:
        size: What its questions take to answer, in characters.
        shard_index: The shard, from 0.
    """

    size: int
    shard_index: int


@dataclass(frozen=True)
class EndedShard:
    """What running a shard gave.

    Attributes:
        result: The result of the shard; after a merge, that of the whole run.
        is_merged: Whether all shards were merged, as this one was the last.
    """

    result: runner.RunResult
    is_merged: bool


def run_shard(
    plan: PlannedRun,
    out: Path,
    shard: ShardNumber,
    *,
    command: list[str],
    progress: Progress,
    options: runner.AskOptions | None = None,
) -> EndedShard:
    """Run one shard of a run, and merge all if it was the last one.

    Args:
        plan: The run.
        out: The results folder.
        shard: Which shard of how many.
        command: Words of the command line, for the manifest.
        progress: Shows what is done.
        options: How questions are asked; None for the defaults.

    Returns:
        The result of the whole run where this merged it, else that of the shard: other shards have
        not ended, or another process merges.

    Raises:
        UserError: The folder holds shards that were cut in another way, or records of other
            scorers. Also what runner.run raises.
    """
    folder = Path(out) / plan.folder
    examples = plan.dataset.examples[: plan.config.limit]
    shards = partition(examples, plan.dataset.documents, shard.n_shards)
    ids_of_shard = frozenset(shards[shard.number - 1])
    part = Part(
        number=shard.number,
        n_parts=shard.n_shards,
        n_questions=len(examples),
        question_ids=ids_of_shard,
    )
    _check_fits(plan, folder, part)
    check_writable(folder)
    _write_order(folder / ORDER, plan.dataset.examples)
    options = replace(options or runner.AskOptions(), part=part)
    result = runner.run(plan, out, command=command, progress=progress, options=options)
    for _ in range(_MERGE_TRIES):
        if not _all_ended(folder, shards):
            return EndedShard(result, is_merged=False)
        try:
            summary = merge(folder, progress.note)
        except RunLocked:  # another process merges, or is about to release its shard
            time.sleep(0.1)
            continue
        n_failed = summary.n_failed or 0
        merged = runner.RunResult(folder, summary, n_failed, result.save_problems)
        return EndedShard(merged, is_merged=True)
    return EndedShard(result, is_merged=False)


def _write_order(path: Path, examples: Sequence[Example]) -> None:
    """Write the ids of the questions in the order of the data set, a line each.

    A file of a larger --limit, which has more of them, stays.
    """
    lines = [json_line({"question_id": example.question.id}) for example in examples]
    content = b"".join(lines)
    if not path.exists() or path.stat().st_size < len(content):
        write_atomic(path, content)


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
        stored_division = read_manifest(parts[0]).shard  # the others were checked alike
        is_other_division = stored_division is not None and (
            stored_division.of != part.n_parts or stored_division.asked != part.n_questions
        )
        if stored_division is not None and is_other_division:
            raise UserError(
                f"{folder} holds shards of another division ({stored_division.of} shards of "
                f"{stored_division.asked} questions; now {part.n_parts} of {part.n_questions}); "
                f"first run: harness merge {folder}"
            )
    stored_versions = read_manifest(folder).scorers
    versions = {name: scorers.version(name) for name in plan.config.dataset.scorers}
    if stored_versions and stored_versions != versions:
        raise UserError(
            f"{folder} has scores of {', '.join(stored_versions)}, not of this run; first run: harness "
            f"score {folder}"
        )


def _all_ended(folder: Path, shards: Sequence[Sequence[str]]) -> bool:
    """Whether there are shards to merge, and every shard has ended: it has a folder whose summary
    says so, or its questions are all among the merged records.

    Args:
        folder: The run folder.
        shards: The question ids of each shard.
    """
    parts = part_folders(folder)
    if not parts:
        return False
    merged_ids = {row["question_id"] for row in read_lines(folder / RECORDS, "question_id")}
    n_not_merged = sum(not merged_ids.issuperset(ids) for ids in shards)
    # Most shards end while others are not begun: no summary is read then.
    if len(parts) < n_not_merged:
        return False
    return all(read_summary(part).is_finished for part in parts)
