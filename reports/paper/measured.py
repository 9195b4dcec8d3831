"""What a run, or several together, measured of a printed value, in the paper's units (scores times
100)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from harness import scorers
from harness.stats.bootstrap import LEVEL, Interval, Labels, interval
from harness.storage.run_folder import StoredRun
from reports import costs, facts
from reports.paper.mapping import Metric
from reports.paper.printed import Value

WORDING = 30
"""Tokens of a reading prompt that are wording: ours takes some 114 with Llama's template, printed
costs imply 84."""
WIDE, NARROW = (
    LEVEL,
    0.90,
)  # the levels of the two intervals: see harness.stats.paired_tests.equivalence


@dataclass(frozen=True)
class Measured:
    """What was measured, with its 95 % interval (wide) and its 90 % interval (narrow); None where
    there is none.

    wording: TFLOPs of WORDING tokens of the answer, 0 for what is no cost of answering.
    """

    value: float | None = None
    wide: tuple[float, float] | None = None
    narrow: tuple[float, float] | None = None
    wording: float = 0.0


def measure(value: Value, run: StoredRun) -> Measured:
    """What the run measured for a printed value; an empty Measured where it has nothing."""
    entry, metric = value.entry, value.metric
    if metric.requests:
        return _mean_value(costs.request_counts(run), facts.answered_clusters(run), run)
    if metric.corpus is not None:
        corpus = metric.corpus
        has_corpus_score = corpus in facts.corpus_scores(run)
        return (
            _with_intervals(lambda level: facts.corpus(run, corpus, level=level), 100.0)
            if has_corpus_score
            else Measured()
        )
    if metric.score is not None:
        name = score_of(metric, run)
        if name is None or name not in facts.score_names(run):
            return Measured()
        column = facts.scored(run, name)
        return _mean_value(column.values, column.clusters, run, bounds=(0.0, 1.0), scale=100.0)
    if not metric.phases:
        return Measured()
    convention = metric.asked or metric.convention
    search = _search_tflops(run, convention)
    built = costs.phase_costs(run, "index", convention).tflops
    # Each document is a cluster.
    index = (
        Measured()
        if built is None
        else _mean_value(built, [str(i) for i in range(len(built))], run)
    )
    if entry.per_document:
        return index
    return (
        search
        if entry.questions_per_document is None
        else _plus_index(index, search, entry.questions_per_document)
    )


def mean_over_datasets(parts: Sequence[Measured]) -> Measured:
    """The mean over data sets, each counting the same, as papers take it, with intervals by
    facts.mean_of_samples.

    Without a value where a part has none, without an interval where a part has none.
    """
    values = [part.value for part in parts if part.value is not None]
    if len(parts) == 1 or len(values) < len(parts):
        return parts[0] if len(parts) == 1 else Measured()
    middle, wide = facts.mean_of_samples(values, [part.wide for part in parts])
    _, narrow = facts.mean_of_samples(values, [part.narrow for part in parts])
    return Measured(middle, wide, narrow, sum(part.wording for part in parts) / len(parts))


def score_of(metric: Metric, run: StoredRun) -> str | None:
    """The run's score for a metric: its first choice, else one that measures the same."""
    names = facts.score_names(run)
    return next((name for name in (metric.score, *metric.instead) if name in names), metric.score)


def scorer_of(corpus: str) -> str:
    """The scorer of single answers whose counts add up to a scorer of all of them."""
    return next(name for name in scorers.names() if scorers.lookup(name).corpus == corpus)


def _with_intervals(find: Callable[[float], Interval], scale: float) -> Measured:
    """The value and both its intervals, times `scale`; find: level of an interval -> value with
    it."""
    wide, narrow = find(WIDE), find(NARROW)

    def ends(estimate: Interval) -> tuple[float, float] | None:
        return (
            None
            if estimate.low is None or estimate.high is None
            else (scale * estimate.low, scale * estimate.high)
        )

    return Measured(None if wide.mean is None else scale * wide.mean, ends(wide), ends(narrow))


def _mean_value(
    values: Sequence[float],
    clusters: Labels,
    run: StoredRun,
    bounds: tuple[float, float] | None = None,
    scale: float = 1.0,
) -> Measured:
    """The mean of `values`, times `scale`, with both its intervals; bounds: as in
    harness.stats.bootstrap.interval."""
    seed = int(run.config.get("seed") or 0)
    return _with_intervals(
        lambda level: interval(values, clusters, seed=seed, level=level, bounds=bounds), scale
    )


def _search_tflops(run: StoredRun, convention: str) -> Measured:
    """TFLOPs of search and answer per question, without an index; no value where a model's sizes
    are unknown."""
    spent = costs.phase_costs(run, "answer", convention)
    search, answer = costs.phase_costs(run, "search", convention).tflops, spent.tflops
    if search is None or answer is None:
        return Measured()
    wording = WORDING * sum(answer) / (sum(spent.tokens) or 1)
    both = [s + a for s, a in zip(search, answer, strict=True)]
    return replace(_mean_value(both, facts.answered_clusters(run), run), wording=wording)


def _plus_index(index: Measured, search: Measured, questions: int) -> Measured:
    """index / questions + search. A document that is dear to index is dear to search, so the
    half-widths are added: the interval holds at least its level whatever the correlation."""
    if index.value is None or search.value is None:
        return Measured()

    def ends(
        a: tuple[float, float] | None, b: tuple[float, float] | None
    ) -> tuple[float, float] | None:
        return (
            None if a is None or b is None else (a[0] / questions + b[0], a[1] / questions + b[1])
        )

    wide, narrow = ends(index.wide, search.wide), ends(index.narrow, search.narrow)
    return Measured(index.value / questions + search.value, wide, narrow, search.wording)
