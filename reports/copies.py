"""One run in several folders: a copy, a copy that was changed, or the same run made twice.

is_copy(run, other)              whether every record of `run` is one of `other`, with the same settings
changed_in_copy(run, other)      how many records differ in two copies of one run
reproduction(run, other)         "the same run made twice: 58 of 60 answers are alike", or None
"""

from harness.config.schema import canonical
from harness.storage.records import StoredRecord
from harness.storage.run_folder import StoredRun
from reports.differences import differences


def is_copy(run: StoredRun, other: StoredRun) -> bool:
    """Whether `run` is a copy of `other`, or of its beginning: one id, settings that differ in
    nothing that counts, and the same records, texts included."""
    if run.config["dataset"]["name"] != other.config["dataset"]["name"]:
        return False
    if run.path.name != other.path.name or run.manifest.get("id") != other.manifest.get("id"):
        return False
    if any(one.kind != "neutral" for one in differences(run, other)):
        return False
    theirs = {record.question_id: _content(record) for record in other.whole_records}
    ours = {record.question_id: _content(record) for record in run.whole_records}
    return all(theirs.get(question) == content for question, content in ours.items())


def _content(record: StoredRecord) -> int:
    return hash(canonical(record))


def changed_in_copy(run: StoredRun, other: StoredRun) -> int:
    """How many questions of both have other records, where both folders are copies of one run; 0
    where they are not."""
    number = run.manifest.get("id")
    if number is None or number != other.manifest.get("id") or run.path == other.path:
        return 0
    theirs = {record.question_id: _content(record) for record in other.whole_records}
    changed = 0
    for record in run.whole_records:
        question = record.question_id
        changed += question in theirs and theirs[question] != _content(record)
    return changed


def reproduction(run: StoredRun, other: StoredRun) -> str | None:
    """What a second run of the same settings says of the first; None for runs of other settings."""
    hashes = [one.manifest.get("hash") for one in (run, other)]
    if hashes[0] is None or hashes[0] != hashes[1]:
        return None
    ours, theirs = _predictions(run), _predictions(other)
    shared = ours.keys() & theirs.keys()
    alike = sum(ours[question] == theirs[question] for question in shared)
    what = "the same run made twice"
    if run.manifest.get("id") and run.manifest.get("id") == other.manifest.get("id"):
        what = "two copies of one run"
    return f"{what}: {alike} of {len(shared)} answers are alike"


def _predictions(run: StoredRun) -> dict[str, str]:
    """Question id -> answer, of the questions of a run, or of the part of one that it is."""
    questions = {record.question_id for record in run.records}
    found = {}
    for record in (run.whole or run).whole_records:
        if record.question_id in questions:
            found[record.question_id] = record.prediction
    return found
