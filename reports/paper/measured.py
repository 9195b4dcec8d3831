"""What a run, or several together, measured of a printed value, in the paper's units (scores times
100)."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from harness import scorers
from harness.stats.bootstrap import LEVEL, Interval, Labels, interval
from harness.storage.run_folder import StoredRun
from reports import costs, facts
from reports.paper.mapping import Metric
from reports.paper.printed import Value

WORDING_TOKENS = 30
"""Tokens of a reading prompt that are wording: ours takes some 114 with Llama's template, printed
costs imply 84."""
# The levels of the two intervals: see harness.stats.paired_tests.equivalence.
WIDE_LEVEL = LEVEL
NARROW_LEVEL = 0.90


@dataclass(frozen=True)
class Measured:
    """What was measured, with its intervals; each part is None where there is none."""

    value: float | None = None
    interval_95: tuple[float, float] | None = None
    """The 95 % interval."""
    interval_90: tuple[float, float] | None = None
    """The 90 % interval."""
    wording_tflops: float = 0.0
    """TFLOPs of WORDING_TOKENS tokens of the answer; 0 for what is no cost of answering."""


def measure(printed_value: Value, run: StoredRun) -> Measured:
    """What the run measured of a printed value; an empty Measured where it has nothing of it."""
    metric = printed_value.metric
    if metric.requests:
        return _mean_value(costs.request_counts(run), facts.answered_clusters(run), run)
    if metric.corpus is not None:
        return _corpus_score(metric.corpus, run)
    if metric.score is not None:
        return _mean_score(metric, run)
    if metric.phases:
        return _cost(printed_value, run)
    return Measured()


def _corpus_score(corpus_score: str, run: StoredRun) -> Measured:
    """A score of all answers together with its intervals, times 100; empty where the run lacks
    it."""
    if corpus_score not in facts.corpus_score_sources(run):
        return Measured()
    estimate_at_level = partial(facts.corpus_score_interval, run, corpus_score)
    return _with_intervals(estimate_at_level, scale=100.0)


def _mean_score(metric: Metric, run: StoredRun) -> Measured:
    """The mean of the metric's score over the questions with its intervals, times 100; empty where
    the run lacks it."""
    name = find_score_name(metric, run)
    if name is None or name not in facts.score_names(run):
        return Measured()
    column = facts.score_values(run, name)
    return _mean_value(column.values, column.clusters, run, bounds=(0.0, 1.0), scale=100.0)


def _cost(printed_value: Value, run: StoredRun) -> Measured:
    """TFLOPs with their intervals, as the printed value counts them: of a document's index, of a
    question, or of a question with its share of the index."""
    entry = printed_value.entry
    metric = printed_value.metric
    convention = metric.requested_convention or metric.convention
    if entry.per_document:
        return _index_tflops(run, convention)
    search = _search_tflops(run, convention)
    if entry.questions_per_document is None:
        return search
    return _plus_index(_index_tflops(run, convention), search, entry.questions_per_document)


def _index_tflops(run: StoredRun, convention: str) -> Measured:
    """Mean TFLOPs of the indexes of a document, with intervals that take each document as one
    observation."""
    tflops_of_documents = costs.phase_costs(run, "index", convention).tflops
    if tflops_of_documents is None:
        return Measured()
    each_its_own_cluster = list(map(str, range(len(tflops_of_documents))))
    return _mean_value(tflops_of_documents, each_its_own_cluster, run)


def mean_over_datasets(parts: Sequence[Measured]) -> Measured:
    """The mean over data sets, each counting the same, as papers take it.

    Its intervals follow from those of the parts (facts.mean_of_samples). It has no value where a
    part has none, and no interval where a part has none.
    """
    if len(parts) == 1:
        return parts[0]
    values = []
    ends_95 = []
    ends_90 = []
    sum_of_wording_tflops = 0.0
    for part in parts:
        if part.value is None:
            return Measured()
        values.append(part.value)
        ends_95.append(part.interval_95)
        ends_90.append(part.interval_90)
        sum_of_wording_tflops += part.wording_tflops
    mean, interval_95 = facts.mean_of_samples(values, ends_95)
    _, interval_90 = facts.mean_of_samples(values, ends_90)
    mean_wording_tflops = sum_of_wording_tflops / len(parts)
    return Measured(mean, interval_95, interval_90, wording_tflops=mean_wording_tflops)


def find_score_name(metric: Metric, run: StoredRun) -> str | None:
    """The run's score for a metric: the first choice that it has, else one that measures the same;
    the first choice where it has neither."""
    names = facts.score_names(run)
    for name in (metric.score, *metric.instead):
        if name in names:
            return name
    return metric.score


def counting_scorer(corpus: str) -> str:
    """The scorer of single answers whose counts add up to a scorer of all answers:
    "hf_bleu.corpus_bleu4" -> "hf_bleu.bleu4"."""
    return next(name for name in scorers.names() if scorers.lookup(name).corpus == corpus)


def _with_intervals(estimate_at_level: Callable[..., Interval], scale: float) -> Measured:
    """A value with its 95 % and 90 % interval, times `scale`.

    Args:
        estimate_at_level: Called with level=0.95, gives the value with its interval at that level.
        scale: The factor of the value and both intervals.
    """
    estimate_95 = estimate_at_level(level=WIDE_LEVEL)
    estimate_90 = estimate_at_level(level=NARROW_LEVEL)
    if estimate_95.mean is None:
        return Measured()
    return Measured(
        value=scale * estimate_95.mean,
        interval_95=_scaled_ends(estimate_95, scale),
        interval_90=_scaled_ends(estimate_90, scale),
    )


def _scaled_ends(estimate: Interval, scale: float) -> tuple[float, float] | None:
    """The ends of an interval, times `scale`; None for no interval."""
    if estimate.low is None or estimate.high is None:
        return None
    return scale * estimate.low, scale * estimate.high


def _mean_value(
    values: Sequence[float],
    clusters: Labels,
    run: StoredRun,
    bounds: tuple[float, float] | None = None,
    scale: float = 1.0,
) -> Measured:
    """A mean with its 95 % and 90 % interval.

    Args:
        values: One a question or document.
        clusters: The cluster of each.
        run: The run that they are of, whose seed the intervals take.
        bounds: The lowest and highest possible value; None for any.
        scale: The factor of the mean and its intervals.
    """
    seed = run.config.seed
    estimate_at_level = partial(interval, values, clusters, seed=seed, bounds=bounds)
    return _with_intervals(estimate_at_level, scale)


def _search_tflops(run: StoredRun, convention: str) -> Measured:
    """Mean TFLOPs of search and answer per question, without an index; empty where a model's sizes
    are unknown.

    Also has the TFLOPs of the tokens by which the prompts of the paper may be worded otherwise.
    """
    answer_costs = costs.phase_costs(run, "answer", convention)
    search_tflops = costs.phase_costs(run, "search", convention).tflops
    answer_tflops = answer_costs.tflops
    if search_tflops is None or answer_tflops is None:
        return Measured()
    answer_tokens = sum(answer_costs.tokens) or 1
    wording_tflops = WORDING_TOKENS * sum(answer_tflops) / answer_tokens
    search_and_answer = list(map(operator.add, search_tflops, answer_tflops))
    mean = _mean_value(search_and_answer, facts.answered_clusters(run), run)
    return replace(mean, wording_tflops=wording_tflops)


def _plus_index(index: Measured, search: Measured, n_questions: int) -> Measured:
    """The cost of a question with its share of the index: index / questions + search.

    A document that is dear to index is dear to search, so the half-widths are added: the interval
    holds at least its level whatever the correlation.

    Args:
        index: TFLOPs of the index of a document.
        search: TFLOPs of a question.
        n_questions: The number of questions that share the index.
    """
    if index.value is None or search.value is None:
        return Measured()
    return Measured(
        value=index.value / n_questions + search.value,
        interval_95=_added_ends(index.interval_95, search.interval_95, n_questions),
        interval_90=_added_ends(index.interval_90, search.interval_90, n_questions),
        wording_tflops=search.wording_tflops,
    )


def _added_ends(
    index: tuple[float, float] | None, search: tuple[float, float] | None, n_questions: int
) -> tuple[float, float] | None:
    """The lower and upper end of index / questions + search; None where one has no interval.

    Args:
        index: The ends of the cost of an index.
        search: The ends of the cost of a question.
        n_questions: The number of questions that share the index.
    """
    if index is None or search is None:
        return None
    index_low, index_high = index
    search_low, search_high = search
    return index_low / n_questions + search_low, index_high / n_questions + search_high
