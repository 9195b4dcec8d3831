"""What a run that resumes does before it asks: score stored answers where scorers changed, find what is answered.

Records of other scorers (name and version) are scored again: a mean over two scorers would be meaningless.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness import datasets, scorers
from harness.cost.usage import sent
from harness.engine.plan import Plan
from harness.engine.progress import COUNTED, Progress
from harness.engine.record_texts import update_texts
from harness.engine.rescore import rescored
from harness.engine.spending_limits import Budget
from harness.storage.failures import has_answer, lacks_only_scores
from harness.storage.run_folder import MANIFEST
from harness.storage.run_schema import JUDGES
from harness.storage.run_store import RunStore
from harness.types import Example, Gold


def rescore_outdated(store: RunStore, plan: Plan, note: Callable[[str], None], *, unscored_too: bool = False) -> None:
    """Score all records again, and say so by `note`, if names or versions of their scorers are not the plan's.

    unscored_too: also if a scorer failed on one of them. Raises what `rescored` raises, and SaveError.
    """
    now = {name: scorers.version(name) for name in plan.config.dataset.scorers}
    manifest = store.manifest()
    before: dict[str, str] = manifest.get("scorers") or {}
    alike = before == now and all(_scored_by(row, now) for row in store.records())
    if alike and not (unscored_too and any(lacks_only_scores(row["error"]) for row in store.records())):
        return
    rows = {row["question_id"]: row for row in store.records()}
    if rows:
        store.replace(rescored(rows.values(), plan.config.dataset, _gold_by_id(plan, rows)))
        if not alike:
            note(f"the records were of {_versions_text(before)}: {len(rows)} scored again by {_versions_text(now)}")
    if manifest and before != now:
        store.write(MANIFEST, {**manifest, "scorers": now})


def score_unscored(store: RunStore, plan: Plan, note: Callable[[str], None]) -> None:
    """Score and record answers that a stopped run left, bring all texts up to date. Raises as `rescored`, SaveError."""
    if left := store.unscored_answers():
        gold = _gold_by_id(plan, {row["question_id"]: row for row in left})
        for row in rescored(left, plan.config.dataset, gold):
            store.append_record(row)
        note(f"answers of a run that was stopped, scored now: {len(left)}")
    update_texts(store, plan.dataset, plan.config.dataset.keep_texts, note)


def answered_ids(
    store: RunStore,
    examples: Sequence[Example],
    starts: Sequence[Mapping[str, Any]],
    progress: Progress,
    budget: Budget,
    retry_failed: bool,
) -> tuple[set[str], dict[str, dict[str, Any]]]:
    """(Ids of the questions that need not be asked, question to be asked again -> what its tries sent so far).

    `progress` counts those of `examples`, `budget` what they sent, those to be asked again included.

    starts: earlier ones, of the manifest; retry_failed: leave out the questions without an answer.
    """
    question_ids = {example.question.id for example in examples}
    # The last record of a question counts; only the counted keys of a record are held in memory.
    stored = store.known_records()
    rows = {}
    for row in stored:
        counted = {key: row[key] for key in COUNTED}
        rows[row["question_id"]] = {**counted, "notes": {"earlier": _earlier(row)}}
    # An answer that could not be scored was paid for: the question is not asked again.
    again = {q for q, row in rows.items() if retry_failed and q in question_ids and not has_answer(row)}
    for question_id, row in rows.items():
        if question_id in question_ids:
            budget.spend_record(row)
            if question_id not in again:
                progress.seen(row)
    tried = {name: sent(rows[name]["usage"], _earlier(rows[name])) for name in again}
    if kept := len(rows.keys() & question_ids - again):
        # Another writer's records may be there at the first start of this one.
        days = [start["started"][:10] for start in starts]
        when = " on " + " to ".join(dict.fromkeys([days[0], days[-1]])) if days else " by other shards"
        progress.note(f"{kept} of {len(question_ids)} answers were stored{when}")
    if beyond := len(rows.keys() - question_ids):
        progress.note(f"the run folder holds {beyond} questions beyond --limit; they count in its summary")
    return rows.keys() - again, tried


def _earlier(row: Mapping[str, Any]) -> dict[str, Any]:
    """What earlier tries of a record's question sent, {} for none."""
    return dict((row.get("notes") or {}).get("earlier") or {})


def _scored_by(row: dict[str, Any], names: Mapping[str, str]) -> bool:
    """Whether a record has a score or flag by each scorer of `names` (-> version), and others by judges only."""
    notes = row.get("notes") or {}
    held = row["scores"].keys() - (notes.get(JUDGES) or {}).keys()
    flagged = notes.get("flags") or {}
    return held <= names.keys() and (row["error"] is not None or names.keys() <= held | flagged.keys())


def _gold_by_id(plan: Plan, rows: Mapping[str, Any]) -> dict[str, Gold]:
    """Gold answers by question id; of all questions if `rows` (by question id) go beyond the plan's limit."""
    gold = {example.question.id: example.gold for example in plan.dataset.examples}
    if rows.keys() <= gold.keys():
        return gold
    return {example.question.id: example.gold for example in datasets.load(plan.config.dataset, None).examples}


def _versions_text(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items()) or "scorers that are not recorded"
