"""What a run that resumes does before it asks: score stored answers where scorers changed, add or
remove texts.

Records of other scorers (name and version) are scored again: a mean over two scorers would be
meaningless.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from harness import datasets, scorers
from harness.config.schema import DatasetConfig
from harness.datasets.base import Dataset
from harness.engine.plan import PlannedRun
from harness.engine.scoring import score_record
from harness.errors import UserError
from harness.storage.record_texts import POINTER, gold_of, with_texts, without_texts
from harness.storage.records import StoredRecord
from harness.storage.run_store import RunStore
from harness.types import JUDGES, Gold, lacks_only_scores


def bring_up_to_date(
    store: RunStore, plan: PlannedRun, note: Callable[[str], None], retry_failed: bool
) -> None:
    """Score what is stored by the plan's scorers, and give it the texts that the plan keeps; `note`
    says what changed.

    retry_failed: score all again, too, if a scorer failed on one. Raises what `rescored` raises,
    and SaveError.
    """
    dataset, manifest = plan.config.dataset, store.manifest()
    unscored = dict(store.unscored)

    # 1. Scores of other scorers, or other versions of them.
    before, now = (
        manifest.scorers,
        {name: scorers.version(name) for name in dataset.scorers},
    )
    alike = before == now and all(_scored_by(record, now) for record in store.records())
    lacking = retry_failed and any(lacks_only_scores(record.error) for record in store.records())
    records = (
        {} if alike and not lacking else {record.question_id: record for record in store.records()}
    )
    if records:
        store.replace_records(rescored(records.values(), dataset, _gold_by_id(plan, records)))
        if not alike:
            was, by = (
                ", ".join(f"{name} {version}" for name, version in versions.items())
                for versions in (before, now)
            )
            note(
                f"stored scores came from {was or 'unrecorded scorers'}; {len(records)} scored "
                f"again with {by}"
            )
    if manifest.has_values and before != now:
        store.write_manifest(manifest.with_values(scorers=now))

    # 2. Answers that a stopped run left unscored.
    if unscored:
        for record in rescored(unscored.values(), dataset, _gold_by_id(plan, unscored)):
            store.append_record(record)
        note(f"scored {len(unscored)} answers that the stopped run left unscored")

    # 3. Texts that older versions did not keep, or that are no longer to be kept.
    update_texts(store, plan.dataset, dataset.keep_texts, note)


def _gold_by_id(plan: PlannedRun, records: Mapping[str, Any]) -> dict[str, Gold]:
    """Gold answers by question id; of all questions if `records` (by question id) go beyond the
    plan's limit."""
    gold = {example.question.id: example.gold for example in plan.dataset.examples}
    if records.keys() <= gold.keys():
        return gold
    return {
        example.question.id: example.gold
        for example in datasets.load(plan.config.dataset, None).examples
    }


def _scored_by(record: StoredRecord, names: Collection[str]) -> bool:
    """Whether a record's scores and flags come from exactly the scorers `names`; judges are
    ignored."""
    notes = record.notes
    scored = record.scores.keys() - (notes.get(JUDGES) or {}).keys()
    flagged = notes.get("flags") or {}
    return scored <= {*names} and (record.error is not None or {*names} <= scored | flagged.keys())


def rescored(
    records: Iterable[StoredRecord],
    dataset: DatasetConfig,
    gold: Mapping[str, Gold] | None,
    keep: Sequence[str] = (),
) -> Iterator[StoredRecord]:
    """Yield the records with new scores. gold: by question id, or None to use those in the records
    themselves.

    keep: scorers whose scores stay. Raises UserError for a question that the data set does not have
    any more.
    """
    for record in records:
        answers = gold_of(record) if gold is None else gold.get(record.question_id)
        if answers is None:
            raise UserError(f"question '{record.question_id}' is not in the data set any more")
        yield score_record(record, dataset, answers, keep)


def update_texts(
    store: RunStore, dataset: Dataset, keep: bool, note: Callable[[str], None]
) -> None:
    """Add the data set's texts that records of a run folder lack, or with keep=False remove all;
    report by `note`.

    Records of older versions lack them. With `keep`, questions not in `dataset` stay as they are.
    Raises SaveError.
    """
    examples = {example.question.id: example for example in dataset.examples}
    records = {record.question_id: record for record in store.records()}
    texts: dict[str, str] = {}
    changed = 0
    for name, record in records.items():
        if keep and record.gold is None and name in examples:
            records[name], long_texts = with_texts(record, examples[name], dataset.documents)
            texts |= long_texts
        elif not keep and (
            record.gold is not None
            or any(piece["text"] or piece.get(POINTER) for piece in record.pieces())
        ):
            records[name] = without_texts(record)
        changed += records[name] is not record
    if changed:
        store.keep_texts(texts)
        store.replace_records(records.values())
        note(
            f"texts of the data set were {'added to' if keep else 'taken out of'} {changed} records"
        )
    if not keep:
        store.drop_texts()
        manifest = store.manifest()
        if manifest.first_prompts:
            store.write_manifest(manifest.without("first_prompts"))
