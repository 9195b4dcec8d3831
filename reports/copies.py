"""One run in several folders: a copy, a copy that was changed, or the same run made twice.

is_copy(run, other)              whether every record of `run` is one of `other`, with the same settings
count_changed_in_copy(run, other)      how many records differ in two copies of one run
reproduction_note(run, other)         "the same run made twice: 58 of 60 answers are alike", or None
reproduction_notes(runs, labels)      the same for each run of a table that has an earlier one
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from harness.config.schema import canonical_json
from harness.storage.records import StoredRecord
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

    Equal answers of greedy runs that took other tokens or requests are counted behind it:
    ", but tokens of 3 of 60 questions differ". "two copies of one run: ..." where both have one id;
    None for runs of other settings.
    """
    settings_hash = run.manifest.hash
    if settings_hash is None or settings_hash != other.manifest.hash:
        return None
    answers = _answers_by_question(run)
    other_answers = _answers_by_question(other)
    shared_ids = answers.keys() & other_answers.keys()
    equal_ids = [
        question_id
        for question_id in shared_ids
        if answers[question_id].prediction == other_answers[question_id].prediction
    ]
    relation = "the same run made twice"
    if run.manifest.id and run.manifest.id == other.manifest.id:
        relation = "two copies of one run"
    sentence = f"{relation}: {len(equal_ids)} of {len(shared_ids)} answers are alike"
    if not _is_greedy(run):
        return sentence
    differing = _differing_costs(equal_ids, answers, other_answers)
    counts = [
        f"{name} of {count} of {len(shared_ids)} questions" for name, count in differing.items()
    ]
    if not counts:
        return sentence
    return f"{sentence}, but {' and '.join(counts)} differ"


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


class _Answer(NamedTuple):
    """The answer to a question, and what search and answer took of all models together.

    Attributes:
        prediction: The answer.
        tokens: Tokens read, from a cache or not, and written; None where replies were recalled.
        requests: The number of requests; None where replies were recalled.
    """

    prediction: str
    tokens: float | None
    requests: float | None


def _answers_by_question(run: StoredRun) -> dict[str, _Answer]:
    """Question id -> answer, of the questions that a run or a part of a run has."""
    question_ids = set(map(attrgetter("question_id"), run.records))
    whole_run = run.whole_run or run
    answers = {}
    for record in whole_run.records_with_texts:
        if record.question_id in question_ids:
            answers[record.question_id] = _answer_of(record)
    return answers


def _answer_of(record: StoredRecord) -> _Answer:
    """The answer of a record with its tokens and requests."""
    tokens = 0.0
    requests = 0.0
    for phase in record.usage.values():
        if phase.get("recalled"):
            return _Answer(record.prediction, None, None)
        tokens += (phase.get("tokens_in") or 0) + (phase.get("tokens_out") or 0)
        tokens += (phase.get("tokens_cached") or 0) + (phase.get("tokens_reused") or 0)
        requests += phase.get("requests") or 0
    return _Answer(record.prediction, tokens, requests)


def _is_greedy(run: StoredRun) -> bool:
    """Whether no model of the run draws its replies."""
    models = [run.config.model, *run.config.roles.values()]
    return not any(model.temperature for model in models)


def _differing_costs(
    question_ids: Sequence[str], answers: Mapping[str, _Answer], others: Mapping[str, _Answer]
) -> dict[str, int]:
    """In how many questions two runs took other "tokens" or other "requests"; only what differs.

    Args:
        question_ids: The questions to which both gave the same answer.
        answers: Question id -> answer of one run.
        others: The same of the other run.
    """
    counts: dict[str, int] = {}
    for name in ("tokens", "requests"):
        for question_id in question_ids:
            value = getattr(answers[question_id], name)
            other_value = getattr(others[question_id], name)
            if None not in (value, other_value) and value != other_value:
                counts[name] = counts.get(name, 0) + 1
    return counts
