"""How much of a score is recalled rather than read: runs over a data set beside runs over an
entity-swapped copy.

    table = frame(copy_pairs(runs))  one row for each method, its score on the original and on the copy

A copy has other names, years and numbers (entity_swap.py), so a reader that reads scores as on the
original and one that remembers does not. drop: original minus copy on the same questions,
bootstrapped by document; recalled: drop / original, a share of the score, with a bootstrap of the
ratio. Below 0: the copy was easier.

A copy also lacks what a reader knows of names while it reads (that Kelford is a town, that France
is French), and names nobody has ever written take more tokens: both are part of the drop. So a drop
is called recalled only where the copy is shown to be no harder: on the evidence alone, which leaves
nothing to recall or to find, the two scores are equivalent. Two one-sided tests at 5 % (D.
Schuirmann 1987), on paired differences with documents as clusters, must both reject a difference of
`margin`; how often they do at that border: docs/guide.md#memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from harness.config.schema import canonical_json
from harness.errors import UserError
from harness.stats.bootstrap import NOTHING, Interval, interval
from harness.stats.corpus_interval import corpus_interval
from harness.stats.paired_tests import equivalence, holm, paired_test
from harness.storage.manifest_file import SwappedCopy
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.figures import plot
from reports.figures.figure import COLUMNS_IN_TITLE, Figure, Titled, for_people
from reports.figures.plot import Axis, Line, Panel, Point

MARGIN = 0.05
"""Largest difference on the evidence alone that is called no difference, as a score: 5 points."""


@dataclass(frozen=True)
class Pair:
    """A run over a data set and the same run over its copy.

    Args:
        label: The method's name in tables.
        original: The run over the data set.
        copy: The run over its copy.
    """

    label: str
    original: StoredRun
    copy: StoredRun


def copy_of(run: StoredRun) -> SwappedCopy | None:
    """How the copy was made that the run is over, as its manifest says; None for a run over an
    original."""
    return run.manifest.dataset.twin


def copy_pairs(runs: Sequence[StoredRun]) -> Iterator[Pair]:
    """Yield each run over a copy with the run over the original that differs from it in nothing
    else, in the order of the runs. A copy without such a run is passed over."""
    original_by_key: dict[str, StoredRun] = {}
    for run in runs:
        if copy_of(run) is None:
            original_by_key[_pair_key(run, facts.rows_fingerprint(run))] = run
    for run in runs:
        swapped_copy = copy_of(run)
        if swapped_copy is None:
            continue
        original = original_by_key.get(_pair_key(run, swapped_copy.of))
        if original is not None:
            yield Pair(_label(run), original, run)


def _label(run: StoredRun) -> str:
    """The method's name in tables, "bm25", or "bm25 [mark]" for a run whose settings have a
    mark."""
    name = facts.reference_names(run)[0]
    mark = run.config.method.mark
    if not mark:
        return name
    return f"{name} [{mark}]"


def _pair_key(run: StoredRun, fingerprint: Any) -> str:
    """A text that is equal for the two runs of a pair and for no other run: method, settings, task,
    reader and rows.

    Args:
        run: Either run of the pair.
        fingerprint: The fingerprint of the original rows, also where the run is over a copy.
    """
    config = run.config.to_json()
    method = run.config.method.without("mark").to_json()  # the mark is a name in tables only
    settings = [config.get(key) for key in ("seed", "failed", "encoder", "reranker")]
    return canonical_json([method, *settings, _evidence_key(run, fingerprint)])


def _evidence_key(run: StoredRun, fingerprint: Any) -> str:
    """A text that is equal for all runs over the same questions with the same task and reader,
    whatever their methods. By it a run finds the run on the evidence alone.

    Args:
        run: The run.
        fingerprint: The fingerprint of the original rows, also where the run is over a copy.
    """
    return canonical_json([facts.task_settings(run), facts.reader_identity(run), fingerprint])


@dataclass(frozen=True)
class CopyCheck:
    """Whether a copy is harder, by the runs on the evidence alone.

    Args:
        verdict: equivalent (within the margin), undecided, harder, easier or not checked.
        evidence: Original minus copy on the evidence alone, with its 90 % interval; None where it
            is not checked.
    """

    verdict: str
    evidence: Interval | None = None

    def columns(self) -> dict[str, object]:
        """The verdict as the column check, and the difference on the evidence alone as evidence,
        evidence.low and evidence.high (evidence alone, None, where it is not checked)."""
        if self.evidence is None:
            return {"check": self.verdict, "evidence": None}
        return {"check": self.verdict, **facts.interval_columns("evidence", self.evidence)}


@dataclass(frozen=True)
class MemoryRow:
    """A row of the table: one pair of runs, over a data set and over its copy.

    Args:
        head: The first columns: dataset, method, model.
        copied: How the copy was made.
        score: The name of the score.
        n: How many questions both runs have.
        original: Mean score on the original.
        copy: Mean score on the copy.
        drop: Original minus copy.
        p: The p value of the drop; None without questions.
        recalled: Drop / original; NOTHING where the copy is not shown to be no harder.
        check: Whether the copy is shown to be no harder.
    """

    head: Mapping[str, object]
    copied: SwappedCopy
    score: str
    n: int
    original: Interval
    copy: Interval
    drop: Interval
    p: float | None
    recalled: Interval
    check: CopyCheck

    def columns(self) -> dict[str, object]:
        """The row as column -> value, by the columns that `frame` names, but for p_holm."""
        return {
            **self.head,
            "recogniser": self.copied.recogniser.name,
            "swap_seed": self.copied.seed,
            "score": self.score,
            "n": self.n,
            **facts.interval_columns("original", self.original),
            **facts.interval_columns("copy", self.copy),
            **facts.interval_columns("drop", self.drop),
            "p": self.p,
            **facts.interval_columns("recalled", self.recalled),
            **self.check.columns(),
        }


def frame(pairs: Sequence[Pair], score: str | None = None, margin: float = MARGIN) -> pd.DataFrame:
    """A table with a row for each pair, and the columns dataset, method, model, recogniser,
    swap_seed, score, n, original, copy, drop, p, recalled, check, evidence, p_holm (see
    `MemoryRow`). Numbers with an interval have further columns NAME.low and NAME.high.

    Args:
        pairs: The pairs.
        score: The name of the score; by default each run's headline.
        margin: Largest difference on the evidence alone that is called none.

    Raises:
        UnknownName: A run does not have the score.
    """
    return _table_of_rows(memory_rows(pairs, score, margin))


def memory_rows(pairs: Sequence[Pair], score: str | None, margin: float) -> list[MemoryRow]:
    """A row for each pair; each pair is checked with the pair of runs on the evidence alone over
    the same copy, if that is among them.

    Args:
        pairs: The pairs.
        score: The name of the score; None for each run's headline.
        margin: Largest difference on the evidence alone that is called none.

    Raises:
        UnknownName: A run does not have the score.
    """
    oracle_pair_by_key: dict[str, Pair] = {}
    for pair in pairs:
        if facts.is_oracle(pair.original) and facts.is_oracle(pair.copy):
            oracle_pair_by_key[_key_of_copy(pair)] = pair
    rows: list[MemoryRow] = []
    for pair in pairs:
        score_name = score or facts.headline_score(pair.original)
        check = _copy_check(oracle_pair_by_key.get(_key_of_copy(pair)), score_name, margin)
        rows.append(_row_of_pair(pair, score_name, check))
    return rows


def _table_of_rows(rows: Sequence[MemoryRow]) -> pd.DataFrame:
    """The rows as a table, with the column p_holm: their p values adjusted by Holm for all rows."""
    adjusted_p_values = iter(holm([row.p for row in rows if row.p is not None]))
    cells_of_rows: list[dict[str, object]] = []
    for row in rows:
        p_holm: float | None = None
        if row.p is not None:
            p_holm = next(adjusted_p_values)
        cells_of_rows.append({**row.columns(), "p_holm": p_holm})
    return facts.as_floats(pd.DataFrame(cells_of_rows))


_LEGEND = (
    "copy: the same questions with other names, years and numbers; drop: original minus copy with "
    "its 95 % interval "
    "(by document); recalled: drop / original; p: sign flips, p_holm: adjusted by Holm"
)


def _key_of_copy(pair: Pair) -> str:
    """A text that is equal for all pairs over the same questions and the same copy with the same
    reader, whatever their methods."""
    evidence = _evidence_key(pair.original, facts.rows_fingerprint(pair.original))
    return canonical_json([evidence, facts.rows_fingerprint(pair.copy)])


def _copy_check(pair: Pair | None, score: str, margin: float) -> CopyCheck:
    """Check whether a copy is harder than its original, by the scores on the evidence alone.

    Args:
        pair: The runs on the evidence alone; None where there are none, so nothing is checked.
        score: The name of the score.
        margin: Largest difference that is called none.
    """
    if pair is None:
        return CopyCheck(NOT_CHECKED)
    scores = _paired_scores(pair, score)
    seed = pair.original.config.seed
    bounds = (-1.0, 1.0)
    difference_90 = interval(
        scores.differences, scores.clusters, seed=seed, level=0.90, bounds=bounds
    )
    difference_95 = interval(
        scores.differences, scores.clusters, seed=seed, level=0.95, bounds=bounds
    )
    return CopyCheck(_verdict_on_copy(difference_90, difference_95, margin), difference_90)


def _verdict_on_copy(difference_90: Interval, difference_95: Interval, margin: float) -> str:
    """What the difference on the evidence alone says of the copy: "equivalent" where its 90 %
    interval lies within the margin (two one-sided tests at 5 %), "harder" or "easier" where its
    95 % interval leaves out 0, else "undecided"; that, too, without an interval.

    Args:
        difference_90: The difference, original minus copy, with its 90 % interval.
        difference_95: The same with its 95 % interval.
        margin: Largest difference that is called none.
    """
    if difference_90.low is None or difference_90.high is None:
        return "undecided"
    if difference_95.low is None or difference_95.high is None:
        return "undecided"
    ends_90 = difference_90.low, difference_90.high
    ends_95 = difference_95.low, difference_95.high
    verdict = equivalence(ends_90, ends_95, (-margin, margin))
    if verdict != "different":
        return verdict
    if difference_95.low > 0:
        return "harder"
    return "easier"


NOT_CHECKED = "not checked"
_PHRASE_BY_VERDICT = {
    "equivalent": "is no harder",
    "undecided": "may be harder",
    "harder": "is harder",
    "easier": "is easier",
}


def _verdict_text(check: CopyCheck, margin: float) -> str:
    """A sentence for people: whether the copy is harder, so whether its drop may be called
    recalled. With the difference, original minus copy, in points of the score.

    Args:
        check: What the runs on the evidence alone say.
        margin: Largest difference that is called none, as a score: 0.05 for 5 points.
    """
    if check.evidence is None or check.evidence.mean is None:
        reason = "it is not known whether the copy is harder, so no drop is called recalled"
        return f"{reason}: run oracle-evidence with and without --set dataset.swap=entities"
    consequence = ", so no drop is called recalled"
    shown_or_not = "not shown"
    if check.verdict == "equivalent":
        consequence = ""
        shown_or_not = "shown"
    interval_text = "with too few documents for an interval"
    low = check.evidence.low
    high = check.evidence.high
    if low is not None and high is not None:
        interval_text = f"[{100 * low:.1f}, {100 * high:.1f}] (90 %)"
    return (
        f"the copy {_PHRASE_BY_VERDICT[check.verdict]}{consequence}: original minus copy on the "
        f"evidence alone is {100 * check.evidence.mean:+.1f} points {interval_text}, "
        f"{shown_or_not} to be equivalent within {100 * margin:g} points (two one-sided tests at 5 %)"
    )


def figure(
    runs: Sequence[StoredRun],
    *,
    score: str | None,
    warn: Callable[[str], None],
    margin: float = MARGIN,
) -> Figure:
    """The figure of the pairs among the runs: a table and a drawing for each data set, model and
    score. A run over a copy without its original is left out with a warning.

    Args:
        runs: The runs.
        score: The name of the score; by default each run's headline.
        warn: Called with each warning.
        margin: Largest difference on the evidence alone that is called none.

    Raises:
        UserError: There is no pair.
        UnknownName: A run does not have the score.
    """
    pairs = list(copy_pairs(runs))
    if not pairs:
        missing = "there are no runs over a data set and over its copy that differ in nothing else"
        raise UserError(
            f"{missing}; run the same command with and without --set dataset.swap=entities"
        )
    _warn_of_single_copies(runs, pairs, warn)
    rows = memory_rows(pairs, score, margin)
    table = _table_of_rows(rows)
    sections: list[Titled] = []
    panels: list[Panel] = []
    for (dataset, model, score_name), group in table.groupby(COLUMNS_IN_TITLE, sort=False):
        title = f"{dataset} · {model}"
        rows_of_group = [rows[row_number] for row_number in group.index]
        verdicts = dict.fromkeys(_verdict_text(row.check, margin) for row in rows_of_group)
        shown_table = group.reset_index(drop=True)
        shown_table["notes"] = [(*verdicts, _LEGEND)] * len(shown_table)
        # The verdicts say the difference on the evidence.
        hidden_columns = [column for column in map(str, table) if column.startswith("evidence")]
        sections.append(
            for_people(f"{title}: {score_name}", shown_table, ["swap_seed", *hidden_columns])
        )
        y_axis = Axis(f"{score_name} × 100", starts_at_zero=True)
        panels += plot.panels(title, _X_AXIS, y_axis, list(map(_line_of_row, rows_of_group)))
    return Figure("Recalled rather than read", table, sections, panels)


def _warn_of_single_copies(
    runs: Sequence[StoredRun], pairs: Sequence[Pair], warn: Callable[[str], None]
) -> None:
    """Warn of each run over a copy that is in no pair.

    Args:
        runs: The runs.
        pairs: The pairs among them.
        warn: Called with each warning.
    """
    paths_in_pairs = {pair.copy.path for pair in pairs}
    for run in runs:
        if copy_of(run) is not None and run.path not in paths_in_pairs:
            warn(
                f"warning: left out: {run.path}: no run over the original; run its command without "
                "dataset.swap"
            )


_X_AXIS = Axis("", ticks=(0, 1), labels=("original", "copy"), limits=(-0.25, 1.25))


def _line_of_row(row: MemoryRow) -> Line:
    """The line of a method in the drawing: from its score on the original, at x = 0, to that on the
    copy, at x = 1."""
    ends = [_point_of_score(0, row.original), _point_of_score(1, row.copy)]
    return Line(str(row.head["method"]), ends)


def _point_of_score(x: float, score: Interval) -> Point:
    """A point of the drawing: a mean score times 100, with its interval, at `x`."""
    columns = {"x": x, **facts.interval_columns("score", score)}
    return Point.of(columns, "x", "score", 100)


@dataclass(frozen=True)
class PairedScores:
    """Scores of the questions that both runs of a pair have; a value for each question in each
    list.

    Args:
        original: Scores of the run over the original.
        copy: Scores of the run over the copy.
        clusters: The cluster of each question, by which it is resampled.
    """

    original: list[float] = field(default_factory=list)
    copy: list[float] = field(default_factory=list)
    clusters: list[str] = field(default_factory=list)

    @property
    def differences(self) -> list[float]:
        """The score on the original minus that on the copy, for each question."""
        return [a - b for a, b in zip(self.original, self.copy, strict=True)]


def _paired_scores(pair: Pair, score: str) -> PairedScores:
    """The scores of both runs of a pair on the questions that both have, in the order of the
    original's records."""
    original = facts.score_values(pair.original, score)
    copy = facts.score_values(pair.copy, score)
    copy_scores = dict(zip(copy.ids, copy.values, strict=True))
    paired = PairedScores()
    for question, value, cluster in zip(
        original.ids, original.values, original.clusters, strict=True
    ):
        if question in copy_scores:
            paired.original.append(value)
            paired.copy.append(copy_scores[question])
            paired.clusters.append(cluster)
    return paired


def _row_of_pair(pair: Pair, score: str, check: CopyCheck) -> MemoryRow:
    """Scores of original and copy on their common questions, the drop, and the drop as a share of
    the original's score.

    The share is left out (`recalled` is NOTHING) where the original scores 0, and where the check
    does not show that the copy is no harder: the drop may then come of that.

    Args:
        pair: The runs.
        score: The name of the score.
        check: Whether the copy is harder.
    """
    scores = _paired_scores(pair, score)
    original_scores = scores.original
    copy_scores = scores.copy
    clusters = scores.clusters
    seed = pair.original.config.seed
    p: float | None = None
    if original_scores:
        p = paired_test(original_scores, copy_scores, clusters, seed=seed).p
    recalled = NOTHING
    if sum(original_scores) > 0 and check.verdict == "equivalent":
        score_pairs = list(zip(original_scores, copy_scores, strict=True))
        recalled = corpus_interval(_lost_share, score_pairs, clusters, seed=seed)
    swapped_copy = copy_of(pair.copy)
    assert swapped_copy is not None  # copy_pairs makes no other pair
    return MemoryRow(
        head=facts.first_cells(pair.original, pair.label),
        copied=swapped_copy,
        score=score,
        n=len(original_scores),
        original=interval(original_scores, clusters, seed=seed),
        copy=interval(copy_scores, clusters, seed=seed),
        drop=interval(scores.differences, clusters, seed=seed, bounds=(-1.0, 1.0)),
        p=p,
        recalled=recalled,
        check=check,
    )


def _lost_share(sums: Sequence[float]) -> float:
    """The share of the original's score that is lost on the copy: [4.0, 3.0] -> 0.25.

    Args:
        sums: (sum of scores on the original, sum on the copy); 0 is returned where the first is 0,
            as some resamples have it.
    """
    sum_on_original, sum_on_copy = sums
    if sum_on_original <= 0:
        return 0.0
    return 1 - sum_on_copy / sum_on_original
