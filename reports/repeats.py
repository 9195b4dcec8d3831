"""Runs that differ in their seed alone, as one run whose scores and costs are means over the
repeats.

A question's score is the mean over the repeats, so an interval over documents holds for the mean of
as many runs. How far the repeats lie apart is a note of the run: the standard deviation of their
means (n - 1 in the denominator). So is what a repeat lacks: questions, answers, the code or
packages of most.

Where the reader drew its replies, a question has two more kinds of scores beside each score, which
get intervals alike:

score.vote      the score of the answer that most repeats gave
                (self-consistency, Wang et al. 2023, arXiv 2203.11171)
score.pass@k    the expected best score of k of the repeats, k = 2, 4, 8, ... and all
                (`expected_best_of_k`)
"""

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from harness.config.schema import canonical_json
from harness.cost.usage import Usage
from harness.scorers.squad import normalize_answer
from harness.storage.records import StoredRecord
from harness.storage.run_folder import StoredRun
from reports.comparability import notes_on_versions
from reports.prices import notes_on_prices
from reports.settings import is_number

RecordsOfRepeats = Sequence[StoredRecord]
"""The records of one question, one a repeat."""


def average_over_seeds(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """One run for each group of runs whose settings differ in nothing but the seed, in the order of
    their first ones.

    Only questions that every repeat has are in it. Records are those of the repeat with the lowest
    seed, with mean scores and costs; a question that failed in a repeat counts 0 there.
    """
    runs_by_settings: dict[str, list[StoredRun]] = {}
    for run in runs:
        settings = canonical_json({**run.config.to_json(), "seed": None})
        runs_by_settings.setdefault(settings, []).append(run)
    return [_mean_of_repeats(repeats) for repeats in runs_by_settings.values()]


def expected_best_of_k(scores: Sequence[float], k: int) -> float:
    """Mean, over all ways to draw k of n scores, of the best one drawn: sum of C(i - 1, k - 1) s_i
    / C(n, k), s sorted.

    Without bias for what k new draws would give. For scores of 0 and 1 with c ones it is pass@k, 1
    - C(n - c, k) / C(n, k) (Chen et al. 2021, arXiv 2107.03374, equation 1).

    >>> expected_best_of_k([0, 1, 0], 2), expected_best_of_k([0.5, 0.2], 2)
    (0.6666666666666666, 0.5)
    """
    weighted_sum = 0.0
    for position, score in enumerate(sorted(scores)):
        weighted_sum += math.comb(position, k - 1) * score
    return weighted_sum / math.comb(len(scores), k)


def _mean_of_repeats(runs: Sequence[StoredRun]) -> StoredRun:
    """One run for repeats: that with the lowest seed, with mean records of the questions that all
    have.

    Notes on the spread of the repeats are added, and where the reader drew its replies
    (temperature), votes and pass@k. A run without repeats is returned as it is.

    Args:
        runs: The repeats, whose settings differ in nothing but the seed.
    """
    repeats = sorted(runs, key=_seed)
    first_repeat = repeats[0]
    if len(repeats) == 1:
        return first_repeat
    shared_questions = _shared_questions(repeats)
    drawn_scores: Sequence[str] = ()
    if first_repeat.config.model.temperature:
        drawn_scores = first_repeat.config.dataset.scorers
    records = [_mean_record(question, drawn_scores) for question in shared_questions.questions]
    notes = [
        _spread_note(repeats, shared_questions.questions),
        *_notes_on_incomplete_repeats(shared_questions),
        *_notes_on_versions_of_repeats(repeats),
    ]
    distinct_notes = dict.fromkeys(notes)
    return replace(
        first_repeat,
        records=records,
        notes=(*first_repeat.notes, *distinct_notes),
        repeats=tuple(repeats),
    )


def _seed(run: StoredRun) -> int:
    """The seed of a run, by which repeats are sorted."""
    return run.config.seed


@dataclass(frozen=True)
class _SharedQuestions:
    """The questions that every repeat has.

    Args:
        questions: The records of each, one a repeat, in the order of the first repeat.
        n_dropped: How many questions only some repeats have.
    """

    questions: Sequence[RecordsOfRepeats]
    n_dropped: int


def _shared_questions(repeats: Sequence[StoredRun]) -> _SharedQuestions:
    """The questions that every repeat has, and how many others there are."""
    records_by_question: dict[str, list[StoredRecord]] = {}
    for run in repeats:
        for record in run.records:
            records_by_question.setdefault(record.question_id, []).append(record)
    questions = [
        records for records in records_by_question.values() if len(records) == len(repeats)
    ]
    return _SharedQuestions(questions, len(records_by_question) - len(questions))


def _spread_note(repeats: Sequence[StoredRun], questions: Sequence[RecordsOfRepeats]) -> str:
    """One sentence on how many repeats there are, and the standard deviation of their means.

        -> "mean of 3 repeats (seeds 0, 1, 2); standard deviation of their means, in points: f1 1.2"

    Args:
        repeats: The runs.
        questions: The records of each question, one a repeat.
    """
    records_by_repeat = list(zip(*questions, strict=True))
    deviations = []
    for name in _score_names(questions):
        means = [_mean_points(records, name) for records in records_by_repeat]
        deviations.append(f"{name} {statistics.stdev(means):.2f}")
    seeds = ", ".join(str(run.config.seed) for run in repeats)
    note = f"mean of {len(repeats)} repeats (seeds {seeds})"
    if not deviations:
        return note
    return f"{note}; standard deviation of their means, in points: {', '.join(deviations)}"


def _mean_points(records: RecordsOfRepeats, name: str) -> float:
    """The mean of a score over records of one repeat, times 100."""
    return 100 * statistics.fmean(_scores_or_zero(records, name))


def _scores_or_zero(records: RecordsOfRepeats, name: str) -> list[float]:
    """The score of this name of each record; 0 where a record does not have it."""
    return [record.scores.get(name, 0.0) for record in records]


def _score_names(questions: Sequence[RecordsOfRepeats]) -> list[str]:
    """The names of all scores, repeat by repeat, each once."""
    names: dict[str, None] = {}  # an ordered set
    records_by_repeat = zip(*questions, strict=True)
    for records in records_by_repeat:
        for record in records:
            names.update(dict.fromkeys(record.scores))
    return list(names)


def _notes_on_incomplete_repeats(questions: _SharedQuestions) -> list[str]:
    """Sentences on questions that failed in some repeats, or are not in all of them."""
    notes = []
    n_failed = sum(1 for records in questions.questions if _failed_in_some(records))
    if n_failed:
        notes.append(
            f"{n_failed} of {len(questions.questions)} questions failed in a part of the repeats and "
            "count 0 there"
        )
    if questions.n_dropped:
        notes.append(f"{questions.n_dropped} questions are not in every repeat and in no number")
    return notes


def _failed_in_some(records: RecordsOfRepeats) -> bool:
    """Whether a question failed in some of its repeats, and was answered in others."""
    return 0 < _count_failed(records) < len(records)


def _count_failed(records: RecordsOfRepeats) -> int:
    """The number of repeats in which a question failed."""
    return sum(record.error is not None for record in records)


def _notes_on_versions_of_repeats(repeats: Sequence[StoredRun]) -> list[str]:
    """Sentences on repeats with other code, packages or prices than most."""
    # Such a sentence is "RUN was made with ..."; which of the repeats it is does not matter.
    versions = [sentence for sentence in notes_on_versions(repeats) if sentence]
    prices = [sentence for sentence in notes_on_prices(repeats) if sentence]
    notes = [f"a repeat was {sentence.partition(' was ')[2]}" for sentence in versions]
    notes += [f"of a repeat, {sentence}" for sentence in prices]
    return notes


def _mean_record(records: RecordsOfRepeats, drawn_scores: Sequence[str]) -> StoredRecord:
    """The records of one question as one, with mean scores and costs.

    A score is the mean over the repeats that have it. The record has an error only where the
    question failed in every repeat.

    Args:
        records: The records of the question, one a repeat.
        drawn_scores: Scores that also get a vote and pass@k, as the reader drew its replies.
    """
    # A failed question has zeros; one that lacks a score was not scored by it.
    values_by_score: dict[str, list[float]] = {}
    usages = []
    for record in records:
        usages.append(record.usage)
        for name, value in record.scores.items():
            values_by_score.setdefault(name, []).append(value)
    scores: dict[str, float] = {}
    for name, values in values_by_score.items():
        scores[name] = statistics.fmean(values)
    for name in values_by_score:
        if name in drawn_scores and not name.startswith("evidence_"):
            scores |= _vote_and_best(name, records)
    error = None
    if _count_failed(records) == len(records):
        error = records[0].error
    usage = cast(Usage, _mean_value(usages))
    return replace(records[0], scores=scores, usage=usage, error=error)


def _vote_and_best(name: str, records: RecordsOfRepeats) -> dict[str, float]:
    """The scores of a question that several drawn replies give: {"f1.vote": 1.0, "f1.pass@2":
    0.9}."""
    values = _scores_or_zero(records, name)
    scores = {f"{name}.vote": values[_position_of_voted_answer(records)]}
    for k in _numbers_of_repeats(len(records)):
        scores[f"{name}.pass@{k}"] = expected_best_of_k(values, k)
    return scores


def _position_of_voted_answer(records: RecordsOfRepeats) -> int:
    """The place of the first repeat that gave the answer which most repeats gave.

    Of answers with as many votes, the first one wins; failed repeats have no vote unless all
    failed.
    """
    answers = [_normalized_answer(record) for record in records]
    votes = []
    for answer, record in zip(answers, records, strict=True):
        if record.error is None:
            votes.append(answer)
    n_votes_by_answer = Counter(votes or answers)
    [(voted_answer, _)] = n_votes_by_answer.most_common(1)
    return answers.index(voted_answer)


def _normalized_answer(record: StoredRecord) -> str:
    """The answer that was scored, normalised so that equal answers are equal texts."""
    return normalize_answer(record.scored_text)


def _numbers_of_repeats(n_repeats: int) -> list[int]:
    """The numbers of repeats for pass@k: 2, 4, 8, ... below n, and n; 6 -> [2, 4, 6]."""
    numbers = []
    number = 2
    while number < n_repeats:
        numbers.append(number)
        number *= 2
    return [*numbers, n_repeats]


def _mean_value(values: Sequence[object]) -> object:
    """The mean of values of one key of several usages, for mappings key by key.

        [{"tokens_in": 2, "why": "a"}, {"tokens_in": 4}] -> {"tokens_in": 3.0, "why": "a"}

    A number is averaged over the values that have it; anything else is taken from the first value.
    """
    first_value = values[0]
    if isinstance(first_value, dict):
        return _mean_mapping([value for value in values if isinstance(value, dict)])
    if is_number(first_value):
        return statistics.fmean(value for value in values if is_number(value))
    return first_value


def _mean_mapping(mappings: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """The mean of each key of the first mapping over the mappings that have it, as
    `_mean_value`."""
    means = {}
    for key in mappings[0]:
        means[key] = _mean_value([mapping[key] for mapping in mappings if key in mapping])
    return means
