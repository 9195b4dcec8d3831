"""One run in several folders: a copy, a copy that was changed, or the same run made twice.

is_copy(run, other)              whether every record of `run` is one of `other`, with the same settings
count_changed_in_copy(run, other)      how many records differ in two copies of one run
reproduction_note(run, other)         "the same run made twice: 58 of 60 answers are alike", or None
reproduction_notes(runs, labels)      the same for each run of a table that has an earlier one
"""

from collections.abc import Sequence
from operator import attrgetter

from harness.config.schema import canonical_json
from harness.storage.run_folder import StoredRun
from reports.differences import differences


def is_copy(run: StoredRun, other: StoredRun) -> bool:
    """Whether `run` is a copy of `other`, or of its first records.

    It has the same id and name, settings that differ in nothing that counts, and all its records,
    texts included, are records of `other`.
    """
    if run.config.dataset.name != other.config.dataset.name:
        return False
    if run.path.name != other.path.name or run.manifest.id != other.manifest.id:
        return False
    if any(difference.kind != "neutral" for difference in differences(run, other)):
        return False
    return _record_hashes(run).items() <= _record_hashes(other).items()


def _record_hashes(run: StoredRun) -> dict[str, int]:
    """Question id -> a hash of its record, texts included."""
    return {record.question_id: hash(canonical_json(record)) for record in run.records_with_texts}


def count_changed_in_copy(run: StoredRun, other: StoredRun) -> int:
    """How many questions that both have differ in their records, where the two folders are copies
    of one run; 0 where they are not."""
    run_id = run.manifest.id
    are_copies = run_id is not None and run_id == other.manifest.id
    if not are_copies or run.path == other.path:
        return 0
    other_hashes = _record_hashes(other)
    n_changed = 0
    for question_id, record_hash in _record_hashes(run).items():
        if question_id in other_hashes and other_hashes[question_id] != record_hash:
            n_changed += 1
    return n_changed


def reproduction_note(run: StoredRun, other: StoredRun) -> str | None:
    """How many answers two runs of the same settings share, in words.

        -> "the same run made twice: 58 of 60 answers are alike"

    "two copies of one run: ..." where both have one id; None for runs of other settings.
    """
    settings_hash = run.manifest.hash
    if settings_hash is None or settings_hash != other.manifest.hash:
        return None
    predictions = _predictions_by_question(run)
    other_predictions = _predictions_by_question(other)
    shared_ids = predictions.keys() & other_predictions.keys()
    equal_predictions = predictions.items() & other_predictions.items()  # of the same question
    relation = "the same run made twice"
    if run.manifest.id and run.manifest.id == other.manifest.id:
        relation = "two copies of one run"
    return f"{relation}: {len(equal_predictions)} of {len(shared_ids)} answers are alike"


def reproduction_notes(runs: Sequence[StoredRun], labels: Sequence[str]) -> list[str | None]:
    """For each run, how many answers it shares with the first run of the same settings before it.

    Args:
        runs: The runs of a table.
        labels: Their names there.

    Returns:
        A sentence for each run, "bm25 and bm25: the same run made twice: ..."; None for the first
        of its settings.
    """
    first_by_settings: dict[str, int] = {}
    sentences: list[str | None] = []
    for position, run in enumerate(runs):
        name_and_settings = f"{run.path.name} {run.manifest.hash}"
        first_position = first_by_settings.setdefault(name_and_settings, position)
        note = None
        if first_position != position:
            note = reproduction_note(run, runs[first_position])
        if note is None:
            sentences.append(None)
        else:
            sentences.append(f"{labels[position]} and {labels[first_position]}: {note}")
    return sentences


def _predictions_by_question(run: StoredRun) -> dict[str, str]:
    """Question id -> answer, of the questions that a run or a part of a run has."""
    question_ids = set(map(attrgetter("question_id"), run.records))
    whole_run = run.whole_run or run
    predictions = {}
    for record in whole_run.records_with_texts:
        if record.question_id in question_ids:
            predictions[record.question_id] = record.prediction
    return predictions
