"""One run in several folders: a copy, a copy that was changed, or the same run made twice.

is_copy(run, other)              whether every record of `run` is one of `other`, with the same settings
changed_in_copy(run, other)      how many records differ in two copies of one run
reproduction(run, other)         "the same run made twice: 58 of 60 answers are alike", or None
reproductions(runs, labels)      the same for each run of a table that has an earlier one
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
    if any(one.kind != "neutral" for one in differences(run, other)):
        return False
    return _contents(run).items() <= _contents(other).items()


def _contents(run: StoredRun) -> dict[str, int]:
    """Question id -> a hash of its record, texts included."""
    return {record.question_id: hash(canonical_json(record)) for record in run.records_with_texts}


def changed_in_copy(run: StoredRun, other: StoredRun) -> int:
    """How many questions that both have differ in their records, where the two folders are copies
    of one run; 0 where they are not."""
    number = run.manifest.id
    if number is None or number != other.manifest.id or run.path == other.path:
        return 0
    theirs = _contents(other)
    changed = 0
    for question_id, content in _contents(run).items():
        if theirs.get(question_id, content) != content:
            changed += 1
    return changed


def reproduction(run: StoredRun, other: StoredRun) -> str | None:
    """How many answers two runs of the same settings share, in words.

        -> "the same run made twice: 58 of 60 answers are alike"

    "two copies of one run: ..." where both have one id; None for runs of other settings.
    """
    recorded = run.manifest.hash
    if recorded is None or recorded != other.manifest.hash:
        return None
    ours = _predictions(run)
    theirs = _predictions(other)
    shared = ours.keys() & theirs.keys()
    alike = ours.items() & theirs.items()
    what = "the same run made twice"
    if run.manifest.id and run.manifest.id == other.manifest.id:
        what = "two copies of one run"
    return f"{what}: {len(alike)} of {len(shared)} answers are alike"


def reproductions(runs: Sequence[StoredRun], labels: Sequence[str]) -> list[str | None]:
    """For each run, how many answers it shares with the first run of the same settings before it.

    Args:
        runs: The runs of a table.
        labels: Their names there.

    Returns:
        A sentence for each run, "bm25 and bm25: the same run made twice: ..."; None for the first
        of
        its settings.
    """
    first: dict[str, int] = {}
    sentences: list[str | None] = []
    for place, run in enumerate(runs):
        earlier = first.setdefault(f"{run.path.name} {run.manifest.hash}", place)
        same = None
        if earlier != place:
            same = reproduction(run, runs[earlier])
        if same is None:
            sentences.append(None)
        else:
            sentences.append(f"{labels[place]} and {labels[earlier]}: {same}")
    return sentences


def _predictions(run: StoredRun) -> dict[str, str]:
    """Question id -> answer, of the questions that a run or a part of a run has."""
    questions = set(map(attrgetter("question_id"), run.records))
    whole = run.whole_run or run
    found = {}
    for record in whole.records_with_texts:
        if record.question_id in questions:
            found[record.question_id] = record.prediction
    return found
