"""What a run that resumes does before it asks: score stored answers where scorers changed, find what is answered.

Records of other scorers (name and version) are scored again: a mean over two scorers would be meaningless.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from harness import datasets, scorers
from harness.engine.plan import Plan
from harness.engine.progress import COUNTED, Progress
from harness.engine.record_texts import update_texts
from harness.engine.scoring import rescored
from harness.engine.spending_limits import Budget
from harness.storage.run_files import MANIFEST, RECORDS
from harness.storage.run_store import RunStore
from harness.types import JUDGES, Example, Gold, has_answer, lacks_only_scores


def bring_up_to_date(store: RunStore, plan: Plan, note: Callable[[str], None], retry_failed: bool) -> None:
    """Score what is stored by the plan's scorers, and give it the texts that the plan keeps; `note` says what changed.

    retry_failed: score all again, too, if a scorer failed on one. Raises what `rescored` raises, and SaveError.
    """
    dataset, manifest = plan.config.dataset, store.manifest()
    unscored = dict(store.unscored)

    # 1. Scores of other scorers, or other versions of them.
    before, now = manifest.get("scorers") or {}, {name: scorers.version(name) for name in dataset.scorers}
    alike = before == now and all(_scored_by(record, now) for record in store.lines(RECORDS))
    lacking = retry_failed and any(lacks_only_scores(record["error"]) for record in store.lines(RECORDS))
    records = {} if alike and not lacking else {record["question_id"]: record for record in store.lines(RECORDS)}
    if records:
        store.replace_records(rescored(records.values(), dataset, _gold_by_id(plan, records)))
        if not alike:
            was, by = (", ".join(f"{name} {version}" for name, version in each.items()) for each in (before, now))
            note(f"stored scores came from {was or 'unrecorded scorers'}; {len(records)} scored again with {by}")
    if manifest and before != now:
        store.write(MANIFEST, {**manifest, "scorers": now})

    # 2. Answers that a stopped run left unscored.
    if unscored:
        for record in rescored(unscored.values(), dataset, _gold_by_id(plan, unscored)):
            store.append_record(record)
        note(f"scored {len(unscored)} answers that the stopped run left unscored")

    # 3. Texts that older versions did not keep, or that are no longer to be kept.
    update_texts(store, plan.dataset, dataset.keep_texts, note)


def _gold_by_id(plan: Plan, records: Mapping[str, Any]) -> dict[str, Gold]:
    """Gold answers by question id; of all questions if `records` (by question id) go beyond the plan's limit."""
    gold = {example.question.id: example.gold for example in plan.dataset.examples}
    if records.keys() <= gold.keys():
        return gold
    return {example.question.id: example.gold for example in datasets.load(plan.config.dataset, None).examples}


def _scored_by(record: dict[str, Any], names: Collection[str]) -> bool:
    """Whether a record's scores and flags are by exactly the scorers `names`; those of judges do not count."""
    notes = record.get("notes") or {}
    scored = record["scores"].keys() - (notes.get(JUDGES) or {}).keys()
    flagged = notes.get("flags") or {}
    return scored <= {*names} and (record["error"] is not None or {*names} <= scored | flagged.keys())


def answered_ids(
    store: RunStore,
    examples: Sequence[Example],
    starts: Sequence[Mapping[str, Any]],
    progress: Progress,
    budget: Budget,
    retry_failed: bool,
) -> tuple[set[str], dict[str, dict[str, Any]]]:
    """Return (ids of questions that need no answer, {id of a question to ask again: what its earlier tries sent}).

    `progress` counts the first, `budget` what all of them sent. starts: of the manifest; retry_failed: ask questions
    without an answer again.
    """
    asked = {example.question.id for example in examples}
    # The last record of a question counts; only what is counted of a record is held in memory.
    keys = (*COUNTED, "notes")
    records = {
        record["question_id"]: {key: record[key] for key in keys} for record in store.lines(RECORDS, merged=True)
    }
    tried = {}
    for question_id in [question_id for question_id in records if question_id in asked]:
        sent = budget.spend_record(record := records[question_id])
        if retry_failed and not has_answer(record):  # an answer that could not be scored was paid for
            tried[question_id] = sent
        else:
            progress.seen(record)
    if kept := len(records.keys() & asked - tried.keys()):
        # Another writer's records may be there at the first start of this one.
        days = [start["started"][:10] for start in starts]
        when = " on " + " to ".join(dict.fromkeys([days[0], days[-1]])) if days else " by other shards"
        progress.note(f"{kept} of {len(asked)} answers were stored{when}")
    if beyond := len(records.keys() - asked):
        progress.note(f"the run folder holds {beyond} questions beyond --limit; they count in its summary")
    return records.keys() - tried.keys(), tried
