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
from harness.storage.run_files import MANIFEST, RECORDS, SUMMARY, Part, parts_in, read_json
from harness.types import Document, Example

_MOST = 100_000
_MERGE_TRIES = (
    40  # times that a process tries to merge while another one closes its shard, 0.1 s apart
)


def parse_shard(text: str) -> tuple[int, int]:
    """ "3/16" as (3, 16). Raises UserError."""
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    number, of = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= of <= _MOST:
        raise UserError(f"--shard {text}: should be K/N with K from 1 to N, for example 3/16")
    return number, of


def partition(
    examples: Sequence[Example], documents: Mapping[str, Document], of: int
) -> list[list[str]]:
    """Split the questions into `of` shards (lists of ids), the same for every caller; some may be
    empty.

    Questions about the same documents are in one shard, so that an index is built once. The largest
    groups are dealt out first, each to the shard that has least so far (Graham's LPT rule). The
    size of a group is its text, counted once for the index and once for each question.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for example in examples:
        groups.setdefault(tuple(sorted(example.question.document_ids)), []).append(
            example.question.id
        )
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
    plan: PlannedRun, out: Path, number: int, of: int, *, progress: Progress, **options: Any
) -> tuple[runner.RunResult, bool]:
    """Run shard `number` of `of`, and merge if it was the last one. Returns (its result, whether it
    merged).

    options: those of runner.run. The result of a merge is that of the whole run. Raises what
    runner.run raises, and UserError where the folder holds shards that were cut in another way, or
    records of other scorers.
    """
    folder = Path(out) / plan.folder
    asked = plan.dataset.examples[: plan.config.limit]
    shards = partition(asked, plan.dataset.documents, of)
    part = Part(number, of, len(asked), frozenset(shards[number - 1]))
    _check_fits(plan, folder, part)
    check_writable(folder)
    order = b"".join(
        json_line({"question_id": example.question.id}) for example in plan.dataset.examples
    )
    before = folder / ORDER
    if not before.exists() or before.stat().st_size < len(
        order
    ):  # that of a larger --limit has more questions
        write_atomic(before, order)
    result = runner.run(plan, out, progress=progress, part=part, **options)
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


def _check_fits(plan: PlannedRun, folder: Path, part: Part) -> None:
    """Raise UserError for shards of another division, as questions would be asked twice, and for
    other scorers."""
    if parts := parts_in(folder)[:1]:  # all others were checked like this one
        before = read_json(parts[0] / MANIFEST).get("shard") or {}
        if before and (before["of"], before["asked"]) != (part.of, part.asked):
            raise UserError(
                f"{folder} holds shards of another division ({before['of']} shards of "
                f"{before['asked']} questions; now "
                f"{part.of} of {part.asked}); first run: harness merge {folder}"
            )
    scored = read_json(folder / MANIFEST).get("scorers")
    if scored and scored != {name: scorers.version(name) for name in plan.config.dataset.scorers}:
        raise UserError(
            f"{folder} has scores of {', '.join(scored)}, not of this run; first run: harness "
            f"score {folder}"
        )


def _all_ended(folder: Path, shards: Sequence[Sequence[str]]) -> bool:
    """Whether there are shards to merge, and every one ended; shards: the question ids of each."""
    if not (parts := parts_in(folder)):
        return False
    merged = {row["question_id"] for row in read_lines(folder / RECORDS, "question_id")}
    left = sum(not merged.issuperset(ids) for ids in shards)
    # Most shards end while others are not begun: no summary need be read then.
    return len(parts) >= left and all(
        read_json(part / SUMMARY).get("state") == "finished" for part in parts
    )
