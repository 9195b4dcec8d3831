"""What a run that resumes does before it asks: score stored answers where scorers changed, add or
remove texts.

Records of other scorers (name and version) are scored again: a mean over two scorers would be
meaningless.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from harness import datasets, scorers
from harness.config.schema import DatasetConfig
from harness.datasets.base import Dataset
from harness.engine.plan import PlannedRun
from harness.engine.scoring import score_record
from harness.errors import UserError
from harness.storage.added_texts import with_dataset_texts
from harness.storage.record_texts import CHECKSUM_KEY, gold_of, without_texts
from harness.storage.records import StoredRecord
from harness.storage.run_store import RunStore
from harness.types import Gold, lacks_only_scores

Note = Callable[[str], None]
"""Gets a sentence on what was changed."""


def bring_up_to_date(store: RunStore, plan: PlannedRun, note: Note, retry_failed: bool) -> None:
    """Score what a run folder holds by the plan's scorers, and give it the texts that the plan
    keeps.

    Args:
        store: Writes the folder; its records, manifest and texts are replaced where they differ.
        plan: The run as it is now.
        note: Gets a sentence on each change.
        retry_failed: Whether to score all again, too, if a scorer failed on one.

    Raises:
        UserError: A stored question is not in the data set any more, or cannot be scored.
        SaveError: A file cannot be written.
    """
    unscored_answers = dict(store.unscored_answers)  # a copy: the store removes those scored
    _rescore_records(store, plan, note, retry_failed)
    _score_unscored(store, plan, note, unscored_answers)
    update_texts(store, plan.dataset, plan.config.dataset.keep_texts, note)


def _rescore_records(store: RunStore, plan: PlannedRun, note: Note, retry_failed: bool) -> None:
    """Score all records again where other scorers, or other versions of them, scored any; also
    writes the versions of today to the manifest.

    Args:
        store: Writes the folder.
        plan: The run as it is now.
        note: Gets a sentence on what was scored again.
        retry_failed: Whether to score all again, too, if a scorer failed on one.
    """
    manifest = store.manifest()
    stored_versions = manifest.scorers
    current_versions = {name: scorers.version(name) for name in plan.config.dataset.scorers}
    is_up_to_date = stored_versions == current_versions
    if is_up_to_date:
        is_up_to_date = all(_scored_by(record, current_versions) for record in store.records())
    retries = False
    if retry_failed:
        retries = any(lacks_only_scores(record.error) for record in store.records())
    records: dict[str, StoredRecord] = {}
    if retries or not is_up_to_date:
        records = {record.question_id: record for record in store.records()}
    if records:
        gold = _gold_by_id(plan, records)
        store.replace_records(rescored(records.values(), plan.config.dataset, gold))
    if records and not is_up_to_date:
        old_scorers = _with_versions(stored_versions) or "unrecorded scorers"
        note(
            f"stored scores came from {old_scorers}; {len(records)} scored again with "
            f"{_with_versions(current_versions)}"
        )
    if manifest.has_values and stored_versions != current_versions:
        store.write_manifest(manifest.with_values(scorers=current_versions))


def _with_versions(versions: Mapping[str, str | None]) -> str:
    """Scorers with their versions: "longbench.qa_f1_score 1, flashrag.acc 2"."""
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _score_unscored(
    store: RunStore, plan: PlannedRun, note: Note, unscored_answers: Mapping[str, StoredRecord]
) -> None:
    """Score the answers that a stopped run left unscored, and append their records.

    Args:
        store: Writes the folder.
        plan: The run as it is now.
        note: Gets a sentence on how many were scored.
        unscored_answers: Question id -> the record of its answer, without scores.
    """
    if not unscored_answers:
        return
    gold = _gold_by_id(plan, unscored_answers)
    for record in rescored(unscored_answers.values(), plan.config.dataset, gold):
        store.append_record(record)
    note(f"scored {len(unscored_answers)} answers that the stopped run left unscored")


def _gold_by_id(plan: PlannedRun, records: Mapping[str, StoredRecord]) -> dict[str, Gold]:
    """Question id -> its gold answers. Where a record belongs to a question beyond the plan's
    limit, the data set is read again without the limit.

    Args:
        plan: The run as it is now.
        records: Records by question id.
    """
    gold = {example.question.id: example.gold for example in plan.dataset.examples}
    if records.keys() <= gold.keys():
        return gold
    whole = datasets.load(plan.config.dataset, None)  # all rows
    return {example.question.id: example.gold for example in whole.examples}


def _scored_by(record: StoredRecord, scorer_names: Collection[str]) -> bool:
    """Whether a record has a score, or a flag why there is none, from each of these scorers and
    from no other one; judges are ignored. A question without an answer needs none."""
    scored_names = record.scores.keys() - record.judgements.keys()
    expected_names = set(scorer_names)
    if not scored_names <= expected_names:
        return False
    has_no_answer = record.error is not None
    return has_no_answer or expected_names <= scored_names | record.flags.keys()


def rescored(
    records: Iterable[StoredRecord],
    dataset: DatasetConfig,
    gold: Mapping[str, Gold] | None,
    kept_scorers: Sequence[str] = (),
) -> Iterator[StoredRecord]:
    """Yield the records with new scores, each scored as it is asked for.

    Args:
        records: The records as they are stored.
        dataset: The settings of their data set, with its scorers.
        gold: Gold answers by question id; None to use those in the records themselves.
        kept_scorers: Scorers whose scores stay.

    Raises:
        UserError: The data set does not have a question any more.
    """
    for record in records:
        gold_answers = gold_of(record) if gold is None else gold.get(record.question_id)
        if gold_answers is None:
            raise UserError(f"question '{record.question_id}' is not in the data set any more")
        yield score_record(record, dataset, gold_answers, kept_scorers)


def update_texts(store: RunStore, dataset: Dataset, keep_texts: bool, note: Note) -> None:
    """Make the records of a run folder hold the data set's texts, or none of them.

    Args:
        store: Writes the folder.
        dataset: Has the texts; a question that it does not have stays as it is.
        keep_texts: True adds texts where records lack them, as those of older versions do; False
            removes all, with the texts of requests and first prompts.
        note: Gets a sentence on how many records were changed.

    Raises:
        SaveError: A file cannot be written.
    """
    if keep_texts:
        _add_texts(store, dataset, note)
    else:
        _remove_texts(store, note)


def _add_texts(store: RunStore, dataset: Dataset, note: Note) -> None:
    """Add the data set's texts to the records that have none: question, gold answers and what was
    shown.

    Args:
        store: Writes the folder.
        dataset: Has the texts; a question that it does not have stays as it is.
        note: Gets a sentence on how many records were changed.
    """
    examples = {example.question.id: example for example in dataset.examples}
    records = {record.question_id: record for record in store.records()}
    long_texts: dict[str, str] = {}  # by checksum, which records hold in place of them
    n_changed = 0
    for question_id, record in records.items():
        if record.gold is None and question_id in examples:
            example = examples[question_id]
            with_texts, long_texts_of_record = with_dataset_texts(
                record, example, dataset.documents
            )
            records[question_id] = with_texts
            long_texts |= long_texts_of_record
            n_changed += 1
    if n_changed:
        store.append_texts(long_texts)
        store.replace_records(records.values())
        note(f"texts of the data set were added to {n_changed} records")


def _remove_texts(store: RunStore, note: Note) -> None:
    """Remove the data set's texts from all files of the folder: from the records, with the files of
    long texts and of requests, and with the first prompts in the manifest."""
    records = {record.question_id: record for record in store.records()}
    n_changed = 0
    for question_id, record in records.items():
        if _has_texts(record):
            records[question_id] = without_texts(record)
            n_changed += 1
    if n_changed:
        store.replace_records(records.values())
        note(f"texts of the data set were taken out of {n_changed} records")
    store.drop_texts()
    manifest = store.manifest()
    if manifest.first_prompts:
        store.write_manifest(manifest.without("first_prompts"))


def _has_texts(record: StoredRecord) -> bool:
    """Whether a record holds gold answers, or a text that was shown."""
    if record.gold is not None:
        return True
    return any(piece["text"] or piece.get(CHECKSUM_KEY) for piece in record.pieces())
