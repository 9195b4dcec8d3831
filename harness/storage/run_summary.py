"""The numbers of a run, from its records alone, so that they can be computed again at any time.

summarise(records, documents).to_json() -> {
    "n_total": 200, "n_scored": 198, "n_failed": 2, "n_truncated": 31, "failed_count_as": "zero",
    "n_not_parsed": 3,                          only with an answer schema: replies that do not follow it, scored 0
    "n_without_prefix": 12,                     only if the task asks for one: replies without it, scored whole
    "replies": {"empty": 3},                    only if some lack something (`count_problem_replies`)
    "interval_rule": "1",                       by which the intervals were made (harness.stats)
    "scores": {"longbench-f1": {"mean": 0.41, "low": 0.36, "high": 0.46, "n": 200}},
                                                95 % interval by cluster; n: questions that have this score
    "usage": {"search": {...}, "answer": {...}},    mean an answered question
    "index": {"documents": 40, "built": 12, "hit": 28, "failed": 0,
              "usage": {...}, "usage_per_document": {...}},
    "texts_cut": {"texts": 412, "cut": 260},    only where an encoder cut texts: all that it was given, and those cut
    "errors": {"WindowExceeded": 2}}            failed questions by the type of their error
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.cost.usage import PhaseUsage, Usage, add_usage, texts_and_cut
from harness.stats import INTERVAL_RULE
from harness.stats.bootstrap import interval
from harness.stats.question_clusters import cluster_numbers
from harness.storage.records import IndexIdentity, IndexLine, StoredRecord
from harness.storage.stored_config import StoredConfig
from harness.storage.summary_file import CutTexts, IndexSummary, RunSummary, ScoreMean
from harness.types import ANSWER_PREFIX, NOT_SAID, PREFIX_MISSING, SCHEMA_NOT_FOLLOWED


def summarise(
    records: Iterable[StoredRecord],
    documents: Iterable[IndexLine],
    config: StoredConfig | None = None,
) -> RunSummary:
    """Compute the numbers of summary.json from a run's records and index lines.

    A failed question scores 0, as its record says, or is left out where the run's setting `failed`
    is "skip". n_scored + n_failed = n_total. Costs are those of questions answered and of indexes
    built or found in the cache, since a cached index knows what building it cost. Costs of failed
    questions are left out: they stopped midway.

    Args:
        records: One a question, streamed, of which memory holds about 30 bytes each.
        documents: Lines of documents.jsonl.
        config: The run's settings, of which count: `failed`, the bootstrap's `seed`, and the data
            set's format, which says what questions are resampled as one
            (harness.stats.question_clusters). None: a failed question scores 0, seed 0.
    """
    counts = _RunCounts(config)
    clusters = counts.count_records(records)
    counts.count_indexes(documents)
    return counts.summary(clusters)


class _ScoreColumn:
    """The values of one score: `values[i]` is that of scored question `question_numbers[i]`, counted
    from 0 among the questions whose scores count.
    """

    def __init__(self) -> None:
        """Begin without values."""
        self.values = array("d")
        self.question_numbers = array("I")

    def mean(self, clusters: NDArray[np.int32], seed: int) -> ScoreMean:
        """The mean of the score with its 95 % interval.

        Args:
            clusters: For every scored question of the run, the number of its cluster; int32, shape
                (questions,).
            seed: The seed of the bootstrap.
        """
        own_clusters = clusters[np.frombuffer(self.question_numbers, dtype=np.uint32)]
        estimate = interval(np.frombuffer(self.values), own_clusters, seed=seed)
        return ScoreMean(mean=estimate.mean, low=estimate.low, high=estimate.high, n=estimate.n)


class _EncoderTextCounts:
    """Texts that encoders and rerankers were given for questions, failed ones too, and indexes."""

    def __init__(self) -> None:
        """Begin at 0 texts; `given` becomes None once a question or index did not count its
        texts.
        """
        self.given: int | None = 0  # None: an older run or index did not count them
        self.cut = 0

    def add(self, usage: Usage) -> None:
        """Add the texts that one question or index gave to encoders, and how many of them were
        cut. Once one has not counted its texts, `given` is None.
        """
        given, cut = texts_and_cut([usage])
        self.cut += cut
        if given is None or self.given is None:
            self.given = None
        else:
            self.given += given


class _RunCounts:
    """What is counted in one pass over the records and one over the indexes."""

    def __init__(self, config: StoredConfig | None) -> None:
        """Begin all counts at 0; the settings say how failed questions count and which counts are
        shown.
        """
        self.failed_count_as = "zero"
        self.seed = 0
        self.dataset_format = ""
        self.has_schema = False
        if config is not None:
            self.failed_count_as = config.failed
            self.seed = config.seed
            self.dataset_format = config.dataset.format or ""
            self.has_schema = config.dataset.answer_schema is not None
        # Of records.
        self.n_records = 0
        self.n_truncated = 0
        self.errors = Counter[str]()  # by type
        self.answer_prefixes = Counter[str]()  # by "found" or "missing"
        self.n_schema_not_followed = 0  # replies
        self.usage: Usage = {}
        self.score_columns: dict[str, _ScoreColumn] = {}  # by score
        self.answered_scores: set[str] = set()  # scores that answered questions have
        self.absent_scores: set[str] = set()  # scores that its replies do not allow
        # Of indexes.
        self.index_counts = {"built": 0, "hit": 0, "failed": 0}
        self.indexed_documents: set[str] = set()
        self.index_usage: Usage = {}
        # Of both.
        self.replies = Counter[str]()
        self.encoder_texts = _EncoderTextCounts()

    def count_records(self, records: Iterable[StoredRecord]) -> NDArray[np.int32]:
        """Count each record, and number the clusters in which questions are resampled.

        Returns:
            For each question whose scores count, the number of its cluster; shape (questions,).
        """
        scored_questions = self._count_and_yield_scored(records)  # counts each as it is read
        return cluster_numbers(self.dataset_format, scored_questions)

    def _count_and_yield_scored(
        self, records: Iterable[StoredRecord]
    ) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield (question id, its document ids) of the records whose scores count; every record is
        counted as it passes.

        A failed question's scores do not count where the run's setting `failed` is "skip".
        """
        n_scored = 0
        for record in records:
            self._count_record(record)
            is_left_out = record.error is not None and self.failed_count_as != "zero"
            if is_left_out:
                continue
            for name, value in record.scores.items():
                column = self.score_columns.setdefault(name, _ScoreColumn())
                column.values.append(value)
                column.question_numbers.append(n_scored)
            n_scored += 1
            yield record.question_id, record.document_ids

    def _count_record(self, record: StoredRecord) -> None:
        """Add a record to the counts; a failed one adds nothing to the costs."""
        self.n_records += 1
        if record.truncated is not None:
            self.n_truncated += 1
        prefix = record.notes.get(ANSWER_PREFIX)
        if prefix is not None:
            self.answer_prefixes[str(prefix)] += 1
        if SCHEMA_NOT_FOLLOWED in record.notes:
            self.n_schema_not_followed += 1
        self.replies.update(count_problem_replies(record.usage))
        self.encoder_texts.add(record.usage)
        if record.error is not None:
            self.errors[record.error["type"]] += 1
            return
        add_usage(self.usage, record.usage)
        self.answered_scores.update(record.scores)
        self.absent_scores.update(_absent_scores(record))

    def count_indexes(self, lines: Iterable[IndexLine]) -> None:
        """Count the lines of documents.jsonl and add up what the indexes cost.

        An index that failed in several starts counts as failed once, and only as failed where a
        later start built it; what that cost is added nevertheless.
        """
        failed_indexes = set[IndexIdentity]()
        for line in lines:
            if line.identity not in failed_indexes:
                self.index_counts[line.status] += 1
            if line.failed:
                failed_indexes.add(line.identity)
                continue
            self.indexed_documents.add(line.document_id)
            add_usage(self.index_usage, line.usage)
            self.encoder_texts.add(line.usage)
        self.replies.update(count_problem_replies(self.index_usage))

    def summary(self, clusters: NDArray[np.int32]) -> RunSummary:
        """Make the summary of all that was counted. Counts that few runs have, such as of replies
        without an answer prefix, are keys of it only where there is something to count.

        Args:
            clusters: What count_records returned.
        """
        n_failed = self.errors.total()
        summary = RunSummary(
            n_total=self.n_records,
            n_scored=self.n_records - n_failed,
            n_failed=n_failed,
            n_truncated=self.n_truncated,
            failed_count_as=self.failed_count_as,
            interval_rule=INTERVAL_RULE,
            scores=self._score_means(clusters),
            usage=_divided_numbers(self.usage, self.n_records - n_failed),
            index=self._index_summary(),
            errors=dict(sorted(self.errors.items())),
        )
        if self.answer_prefixes:
            summary = summary.with_values(n_without_prefix=self.answer_prefixes[PREFIX_MISSING])
        if self.has_schema:
            summary = summary.with_values(n_not_parsed=self.n_schema_not_followed)
        if self.replies:
            summary = summary.with_values(replies=dict(self.replies))
        if self.encoder_texts.cut:
            cut = CutTexts(texts=self.encoder_texts.given, cut=self.encoder_texts.cut)
            summary = summary.with_values(texts_cut=cut)
        return summary

    def _score_means(self, clusters: NDArray[np.int32]) -> dict[str, ScoreMean]:
        """The mean of each score by its name.

        A score that no answered question has, as the application's replies do not allow it, is left
        out: failed questions alone would give it a mean of 0.
        """
        absent = self.absent_scores - self.answered_scores
        scores = {}
        for name, column in self.score_columns.items():
            if name not in absent:
                scores[name] = column.mean(clusters, self.seed)
        return scores

    def _index_summary(self) -> IndexSummary:
        """Sum up the indexes: how many were built, found and failed, and what they cost."""
        return IndexSummary(
            documents=len(self.indexed_documents),
            built=self.index_counts["built"],
            hit=self.index_counts["hit"],
            failed=self.index_counts["failed"],
            usage=self.index_usage,
            usage_per_document=_divided_numbers(self.index_usage, len(self.indexed_documents)),
        )


def _absent_scores(record: StoredRecord) -> list[str]:
    """The names of scores that a record lacks because the application does not say what it used."""
    return [name for name, flag in record.flags.items() if flag == NOT_SAID]


def count_problem_replies(usage: Mapping[str, PhaseUsage]) -> dict[str, int]:
    """Count the replies with a problem, or with reasoning that was left out, over all phases.

    {"answer": {"replies": {"empty": 1, "unfinished": 2}}, "search": {"replies": {"unfinished": 5}}}
        -> {"empty": 1, "unfinished": 2}

    Replies that were cut at their limit ("unfinished") count in the phase "answer" alone.
    """
    n_by_problem: Counter[str] = Counter()
    for phase, costs in usage.items():
        for problem, count in (costs.get("replies") or {}).items():
            if problem != "unfinished" or phase == "answer":
                n_by_problem[problem] += count
    return dict(n_by_problem)


def reply_sentences(replies: Mapping[str, float], config: StoredConfig) -> list[str]:
    """Say how many replies had each kind of problem: {"empty": 3} -> ["empty replies: 3"].

    Args:
        replies: Kind of problem -> number, as in a summary.
        config: The run's settings, which the advice names.
    """
    sentences = {
        "refused": "refusals: {}",
        "thought": f"replies whose limit went into thinking: {{}}; {_thinking_advice(config)}",
        "reasoned": "replies with reasoning before the answer, which is left out: {}; "
        "model.keep_thinking=true leaves it in",
        "empty": "empty replies: {}",
        "unread": "replies that the method could not read: {}",
        "unsearched": "answers without a single tool call: {}",
        "unfinished": f"replies cut at their limit ({_answer_limit(config)}): {{}}",
    }
    shown: list[str] = []
    for problem, sentence in sentences.items():
        if replies.get(problem):
            shown.append(sentence.format(replies[problem]))
    return shown


def _thinking_advice(config: StoredConfig) -> str:
    """The setting to change so that a model has more tokens to think with: "raise
    model.thinking.tokens, now 512".
    """
    thinking = config.model.thinking
    if thinking is not None:
        return f"raise model.thinking.tokens, now {thinking.tokens}"
    return "set model.thinking.tokens=4096"


def _answer_limit(config: StoredConfig) -> str:
    """The setting that cuts answers, with its value: "dataset.max_answer_tokens=32".

    Of two limits it is the lower one.
    """
    answer_limit = config.dataset.max_answer_tokens
    model_limit = config.model.max_tokens
    if answer_limit and model_limit:
        if model_limit <= answer_limit:
            return f"model.max_tokens={model_limit}"
        return f"dataset.max_answer_tokens={answer_limit}"
    if model_limit:
        return f"model.max_tokens={model_limit}"
    if answer_limit:
        return f"dataset.max_answer_tokens={answer_limit}"
    return "dataset.max_answer_tokens"


def _divided_numbers(value: Any, divisor: int) -> Any:
    """A copy of nested mappings with all numbers divided; a divisor of 0 leaves them as they are.

    ({"search": {"seconds": 6.0}}, 2) -> {"search": {"seconds": 3.0}}
    """
    if isinstance(value, dict):
        return {key: _divided_numbers(inner, divisor) for key, inner in value.items()}
    if not divisor:
        return value
    return value / divisor
