"""Answer keys damaged on purpose: how many of the damaged gold answers `harness audit-data` finds.

python -m tests.reports.damaged_keys RUNS [--seeds 20] [--share 0.05]

far: the gold answer of another question of the same kind; near: another name of the question's own evidence.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from harness import scorers
from harness.datasets.kinds import answer_kind
from harness.entities.recogniser import recogniser
from harness.scorers.squad import normalize_answer
from harness.storage.run_folder import StoredRun
from harness.types import Example
from reports import answer_keys, facts
from reports.answer_keys import differ, evidence_of
from reports.gold_rows import Rows

Pairs = Sequence[tuple[StoredRun, Rows]]


def damaged(pairs: Pairs, how: str, share: float, seed: int) -> tuple[Pairs, set[str]]:
    """The runs with so many gold answers replaced, scored anew by their headline; and the ids of these questions."""
    draw = random.Random(f"{how} {seed}")
    rows = pairs[0][1]
    asked = [record["question_id"] for record in pairs[0][0].records]
    changed: dict[str, Example] = {}
    for name in draw.sample(asked, len(asked)):
        if len(changed) == round(share * len(asked)):
            break
        example = rows.examples[name]
        gold = example.gold.answers
        others = [rows.examples[q].gold.answers for q in asked] if how == "far" else _names(rows, example)
        others = [o for o in others if answer_kind(o) == answer_kind(gold) and differ(o, gold)]
        if others:
            changed[name] = replace(example, gold=replace(example.gold, answers=draw.choice(others)))
    found = []
    for run, own in pairs:
        headline = facts.headline(run)
        records = []
        for record in run.records:
            if record["question_id"] in changed and record["error"] is None:
                gold = changed[record["question_id"]].gold
                score = scorers.score_record([headline], record["prediction"], (), gold).scores
                record = {**record, "scores": {**record["scores"], **score}}
            records.append(record)
        found.append((replace(run, records=records), replace(own, examples={**own.examples, **changed})))
    return found, set(changed)


def _names(rows: Rows, example: Example) -> list[tuple[str, ...]]:
    found = recogniser("rules").names(evidence_of(rows, example))
    return [(name,) for name in found if normalize_answer(name)]


def measured(pairs: Pairs, how: str, share: float, seeds: int) -> dict[str, tuple[int, int, int]]:
    """Reason, and "any" -> damaged keys named, undamaged ones named, damaged keys; over all seeds."""
    hits: Counter[str] = Counter()
    false: Counter[str] = Counter()
    total = 0
    for seed in range(seeds):
        changed, ids = damaged(pairs, how, share, seed)
        (audit,) = answer_keys.of_runs(changed)
        total += len(ids)
        for name, reasons in audit.suspects.items():
            (hits if name in ids else false).update(["any", *reasons])
    return {reason: (hits[reason], false[reason], total) for reason in sorted({*hits, *false, "any"})}


def main() -> None:
    """Print precision and recall by reason."""
    from harness.cli.stored_runs import stored_runs
    from reports.gold_rows import rows_of

    parser = argparse.ArgumentParser()
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--data")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--share", type=float, default=0.05)
    given = parser.parse_args()
    runs, _ = stored_runs(given.runs)
    runs.sort(key=lambda run: -len(run.records))
    pairs = list(zip(runs, rows_of(runs, data=given.data, whole=True), strict=True))
    for how in ("far", "near"):
        for reason, (hits, false, total) in measured(pairs, how, given.share, given.seeds).items():
            precision = f"{hits / (hits + false):.2f}" if hits + false else "-"
            print(f"{how:5} {reason:20} precision {precision} ({hits} of {hits + false}), recall {hits / total:.2f}")


if __name__ == "__main__":
    main()
