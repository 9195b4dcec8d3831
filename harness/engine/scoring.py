"""Score a reply by each of the data set's scorers, with notes about what was odd.

scorers.score           one scorer's value of an answer
scorers.score_answer    a sheet of several scorers' values of an answer
score_reply             the verdict on a reply: the answer in it, judged by the data set's scorers
score_record            the record of a question with its scores, whether it was answered or not

verdict = score_reply(config.dataset, answer.text, answer.shown, gold)
verdict.scores    {"flashrag.acc": 1.0, ...}: a value that is no finite number counts 0 and is flagged
verdict.notes
    {"flags": {scorer: why}}                        a scorer flags the answer
    {"answer_prefix": "found", "scored": "Mira"}    a prefix is required, and stands in the reply
    {"answer_prefix": "missing"}                    a prefix is required, and does not
    {"scored": "Mira"}                              a schema is required, and the reply follows it
    {"answer_schema": "it is no JSON"}              a schema is required, and it does not: the score is 0
    {"counts": {scorer: [...]}}                     sums over all answers give a score of the corpus (BLEU)

unanswered_verdict(config.dataset, gold)             the same for a question without an answer: every score is 0
score_record(record, config.dataset, gold)           a record with the scores of its answer, or of none
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from harness import scorers
from harness.assertions import Assertions, failed_assertions
from harness.config.schema import DatasetConfig
from harness.datasets.answer_prefix import text_after
from harness.datasets.answer_schema import NotFollowed, answer_in
from harness.errors import UserError
from harness.storage.failures import STOPS, describe_failure, error_in_one_line
from harness.storage.record_notes import flags_of, score_counts_of
from harness.storage.records import StoredRecord, parse_searches, parse_shown
from harness.storage.summary_file import RunSummary
from harness.types import (
    ANSWER_PREFIX,
    LOGGED_SCORE_PREFIX,
    PREFIX_MISSING,
    SCHEMA_NOT_FOLLOWED,
    SCORE_COUNTS,
    SCORING,
    Gold,
    RecordedSearch,
    Shown,
    lacks_only_scores,
)

T = TypeVar("T")

ASSERTIONS_NOTE = "failed_assertions"
ASSERTIONS_SCORER = "assertions"  # the scorer, and its input in Gold.extra
SCORING_NOTES = (
    "flags",
    ANSWER_PREFIX,
    SCHEMA_NOT_FOLLOWED,
    "scored",
    SCORE_COUNTS,
    ASSERTIONS_NOTE,
)
"""Keys of a record's notes that come from scoring."""


@dataclass(frozen=True)
class Verdict:
    """The result of scoring one answer.

    Attributes:
        scores: Scorer -> its value.
        notes: What to add to the notes of the record.
    """

    scores: dict[str, float]
    notes: dict[str, object] = field(default_factory=dict)


def score_reply(
    dataset: DatasetConfig,
    reply: str,
    shown: Sequence[Shown],
    gold: Gold,
    seconds: float | None = None,
    searches: Sequence[RecordedSearch] | None = None,
) -> Verdict:
    """Score a reply: its text after the data set's answer prefix where one is required, the answer
    in it where a schema is (planning refuses both), else all of it. A reply that does not follow
    the schema scores 0. The verdict's notes say what was scored and, of a row with assertions,
    which of them fail. Raises what a scorer raises.

    Args:
        dataset: The settings of the question's data set.
        reply: The reply.
        shown: What the reader was shown.
        gold: The gold answers of the question.
        seconds: How long the reply took, None where unknown.
        searches: The question's searches; None where its run searches nothing.
    """
    notes: dict[str, object] = {}
    text = reply
    if dataset.answer_schema is not None:
        try:
            text = answer_in(reply, dataset)
        except NotFollowed as problem:
            verdict = unanswered_verdict(dataset, gold)
            return replace(verdict, notes={**verdict.notes, SCHEMA_NOT_FOLLOWED: str(problem)})
        notes["scored"] = text
    if dataset.answer_prefix is not None:
        text = _text_after_prefix(reply, dataset.answer_prefix, notes)
    score_sheet = scorers.score_answer(dataset.scorers, text, shown, gold, seconds, searches)
    if ASSERTIONS_SCORER in gold.extra and ASSERTIONS_SCORER in score_sheet.scores:
        assertions = Assertions.from_json(gold.extra[ASSERTIONS_SCORER])
        failed_sentences = failed_assertions(assertions, text, seconds)
        if failed_sentences:
            notes[ASSERTIONS_NOTE] = failed_sentences
    return _verdict_of(score_sheet, notes)


def _text_after_prefix(reply: str, prefix: str, notes: dict[str, object]) -> str:
    """The text of a reply after the answer prefix, all of it where the prefix is missing. Also
    writes into `notes` which of the two it is.

    Args:
        reply: The reply.
        prefix: "Answer:".
        notes: Gets whether the prefix is there, and the text after it.
    """
    answer = text_after(reply, prefix)
    if answer is None:
        notes[ANSWER_PREFIX] = PREFIX_MISSING
        return reply
    notes[ANSWER_PREFIX] = "found"
    notes["scored"] = answer
    return answer


def _verdict_of(score_sheet: scorers.ScoreSheet, notes: Mapping[str, object]) -> Verdict:
    """The verdict of a score sheet, whose flags and counts are added to the notes: a score that is
    no finite number counts 0 and is flagged.

    Args:
        score_sheet: The scores, flags and counts of the scorers.
        notes: The notes of the verdict so far.
    """
    scores: dict[str, float] = {}
    flags = dict(score_sheet.flags)
    for name, value in score_sheet.scores.items():
        if math.isfinite(value):
            scores[name] = float(value)
        else:
            scores[name] = 0.0
            flags.setdefault(name, f"{value} counts as 0")
    all_notes = dict(notes)
    if flags:
        all_notes["flags"] = flags
    if score_sheet.counts:
        all_notes[SCORE_COUNTS] = score_sheet.counts
    return Verdict(scores, all_notes)


def unanswered_verdict(dataset: DatasetConfig, gold: Gold) -> Verdict:
    """The verdict on a question without an answer: 0 by every scorer that applies to it, and, for
    scores of a whole corpus (BLEU), the counts of an empty answer."""
    scores = {name: 0.0 for name in dataset.scorers if scorer_applies(name, gold)}
    counting_scorers = [name for name in dataset.scorers if scorers.lookup(name).counts]
    score_sheet = _score_empty_answer(counting_scorers, gold)
    if score_sheet is None or not score_sheet.counts:
        return Verdict(scores)
    return Verdict(scores, {SCORE_COUNTS: score_sheet.counts})


def scorer_applies(name: str, gold: Gold) -> bool:
    """Whether scorer `name` counts a question with these gold answers, answered or not: tried with
    an empty answer.

    A group's scorer leaves out the questions of other groups, and evidence recall those without
    supporting marks. A scorer that fails on the empty answer counts the question. Raises
    UnknownName and CannotRun.
    """
    score_sheet = _score_empty_answer([name], gold)
    return score_sheet is None or name in score_sheet.scores


def _score_empty_answer(names: Sequence[str], gold: Gold) -> scorers.ScoreSheet | None:
    """The scores of an empty answer by the named scorers; None where one of them fails on it.

    It counts as an answer that never comes, so that it is within no limit of seconds.
    """
    never = math.inf
    try:
        return scorers.score_answer(names, "", (), gold, seconds=never)
    except STOPS:
        raise
    except Exception:  # noqa: BLE001 - a user's scorer may break on an empty answer; the question failed all the same
        return None


def _answer_seconds(record: StoredRecord) -> float | None:
    """How long a question took: the seconds of its phases search and answer together; None where
    its record says neither."""
    phase_usages = [record.usage.get(phase, {}) for phase in ("search", "answer")]
    known_seconds = [float(phase["seconds"]) for phase in phase_usages if "seconds" in phase]
    if not known_seconds:
        return None
    return sum(known_seconds)


def score_record(
    record: StoredRecord, dataset: DatasetConfig, gold: Gold, kept_scorers: Sequence[str] = ()
) -> StoredRecord:
    """A record, scored again. What happens depends on its `error`:

    None                    scored before; if a scorer fails now, that is raised
    "stage": "scoring"      answered, but not scored (NOT_SCORED_YET), or a scorer failed; the error
                            is cleared, or replaced by that of a scorer that fails now
    any other               the question was not answered: it scores 0, and the error stays

    Args:
        record: The record; it is not changed.
        dataset: Its scorers.
        gold: The gold answers of the question.
        kept_scorers: Names of scores that are not computed again; they come first.
    """
    error = record.error
    if error is not None and not lacks_only_scores(error):
        verdict = unanswered_verdict(dataset, gold)
    else:
        verdict, error = _verdict_on_answer(record, dataset, gold)
    not_computed_again = _scores_not_computed_again(record, kept_scorers)
    scores = {**verdict.scores, **_entries_of(record.scores, not_computed_again)}
    order = [*kept_scorers, *scores]
    return replace(
        record,
        scores={name: scores[name] for name in order if name in scores},
        error=error,
        notes=_notes_of_scored(record, verdict, not_computed_again),
    )


def _verdict_on_answer(
    record: StoredRecord, dataset: DatasetConfig, gold: Gold
) -> tuple[Verdict, dict[str, str] | None]:
    """The verdict on an answer, and the record's error from now on: None, or that a scorer fails
    ({"type", "message", ..., "stage": "scoring"}), where the answer scores 0.

    Args:
        record: A record with an answer.
        dataset: The settings of its data set, with the scorers.
        gold: The gold answers of the question.

    Raises:
        UserError: A scorer of the user's own fails on an answer that was scored before. Also what
            another scorer raises on one.
    """
    shown = [parse_shown(piece) for piece in record.shown]
    seconds = _answer_seconds(record)
    searches = parse_searches(record.searches)
    try:
        return score_reply(dataset, record.prediction, shown, gold, seconds, searches), None
    except STOPS:
        raise
    except Exception as broken:  # a scorer of the user may raise anything
        failure = describe_failure(broken)
        was_scored_before = record.error is None
        if was_scored_before:
            sentence = (
                f"question '{record.question_id}' could not be scored, and no record was changed"
            )
            has_own_scorer = any(":" in name for name in dataset.scorers)
            if has_own_scorer:
                raise UserError(f"{sentence}: {error_in_one_line(failure)}") from broken
            broken.add_note(sentence)
            raise
        return unanswered_verdict(dataset, gold), {**failure, **SCORING}


def _scores_not_computed_again(record: StoredRecord, kept_scorers: Sequence[str]) -> set[str]:
    """The names of scores that are not computed again: those of judges, of other tools (their names
    begin with LOGGED_SCORE_PREFIX), and `kept_scorers`."""
    names_of_other_tools = [name for name in record.scores if name.startswith(LOGGED_SCORE_PREFIX)]
    return {*record.judgements, *kept_scorers, *names_of_other_tools}


def _notes_of_scored(
    record: StoredRecord, verdict: Verdict, not_computed_again: set[str]
) -> dict[str, object]:
    """The record's notes with those of a new verdict in place of an earlier verdict's, but for the
    flags and counts of scores that are not computed again.

    Args:
        record: The record as it was before.
        verdict: The new verdict.
        not_computed_again: Names of these scores.
    """
    notes = {key: value for key, value in record.notes.items() if key not in SCORING_NOTES}
    notes |= verdict.notes
    flags_that_stay = _entries_of(record.flags, not_computed_again)
    if flags_that_stay:
        notes["flags"] = {**flags_of(verdict.notes), **flags_that_stay}
    counts_that_stay = _entries_of(score_counts_of(record.notes), not_computed_again)
    if counts_that_stay:
        notes[SCORE_COUNTS] = {**score_counts_of(verdict.notes), **counts_that_stay}
    return notes


def _entries_of(values: Mapping[str, T], names: set[str]) -> dict[str, T]:
    """The entries of `values` whose key is one of `names`."""
    return {name: value for name, value in values.items() if name in names}


def warnings_of_silent_scorers(names: Sequence[str], summary: RunSummary) -> list[str]:
    """A warning for each scorer of the user's own ("module:function") that gave no question of a
    summary a score."""
    if not summary.has_values:
        return []
    return [
        f"warning: no question has a score by {name}, as it returned None for each"
        for name in names
        if ":" in name and name not in summary.scores
    ]
