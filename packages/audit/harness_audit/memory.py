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

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from harness.config.schema import canonical
from harness.errors import UserError
from harness.stats.bootstrap import NOTHING, Interval, interval
from harness.stats.corpus_interval import corpus_interval
from harness.stats.paired_tests import equivalence, holm, paired_test
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.figures import plot
from reports.figures.figure import SAME, Figure, Titled, for_people
from reports.figures.plot import Axis, Line, Panel, Point

MARGIN = 0.05
"""Largest difference on the evidence alone that is called no difference, as a score: 5 points."""


@dataclass(frozen=True)
class Pair:
    """A run over a data set and the same run over its copy. label: the method's name in tables."""

    label: str
    original: StoredRun
    copy: StoredRun


def copy_of(run: StoredRun) -> dict[str, Any] | None:
    """What the manifest says of the copy that the run is over; None for an original."""
    return run.manifest.dataset.twin


def copy_pairs(runs: Sequence[StoredRun]) -> Iterator[Pair]:
    """Each run over a copy with the run over the original that differs in nothing else, in the
    order of the runs."""
    originals: dict[str, StoredRun] = {}
    for run in runs:
        if copy_of(run) is None:
            originals[_pair_key(run, facts.fingerprint(run))] = run
    for run in runs:
        made = copy_of(run)
        if made is None:
            continue
        original = originals.get(_pair_key(run, made.get("of")))
        if original is not None:
            yield Pair(_label(run), original, run)


def _label(run: StoredRun) -> str:
    """ "bm25", or "bm25 [mark]" for a run whose settings have a mark."""
    name = facts.reference_names(run)[0]
    mark = run.config.method.mark
    if not mark:
        return name
    return f"{name} [{mark}]"


def _pair_key(run: StoredRun, fingerprint: Any) -> str:
    """The key that the two runs of a pair share: settings and task, and the fingerprint of the
    original rows."""
    config = run.config.to_json()
    method = run.config.method.without("mark").to_json()
    settings = [config.get(key) for key in ("seed", "failed", "encoder", "reranker")]
    return canonical([method, *settings, _evidence_key(run, fingerprint)])


def _evidence_key(run: StoredRun, fingerprint: Any) -> str:
    """The key that a run shares with the run on the evidence alone over the same questions: task,
    reader, rows."""
    return canonical([facts.task(run), facts.reader(run), fingerprint])


def frame(pairs: Sequence[Pair], score: str | None = None, margin: float = MARGIN) -> pd.DataFrame:
    """A row a pair: dataset, method, model, seed of the copy, score, n, original, copy, drop, p,
    p_holm, recalled.

    check: equivalent (within `margin`, a difference of scores), undecided, harder, easier or not
    checked, by what the evidence alone gives (evidence: original minus copy, with its 90 %
    interval); but for the first, recalled is missing. Numbers with an interval have .low and .high.
    Raises UnknownName for a score that a run does not have.
    """
    oracles: dict[str, Pair] = {}
    for pair in pairs:
        if facts.is_oracle(pair.original) and facts.is_oracle(pair.copy):
            oracles[_copy_key(pair)] = pair
    rows = []
    for pair in pairs:
        row = _pair_row(pair, score or facts.headline(pair.original))
        row.update(_copy_check(oracles.get(_copy_key(pair)), row["score"], margin))
        if row["check"] != "equivalent":
            row.update(facts.interval_columns("recalled", NOTHING))
        rows.append(row)
    adjusted = holm([row["p"] for row in rows])
    return facts.as_floats(pd.DataFrame(rows).assign(p_holm=adjusted))


_LEGEND = (
    "copy: the same questions with other names, years and numbers; drop: original minus copy with "
    "its 95 % interval "
    "(by document); recalled: drop / original; p: sign flips, p_holm: adjusted by Holm"
)


def _copy_key(pair: Pair) -> str:
    """The key that all pairs over the same questions and copy share, for the same reader."""
    evidence = _evidence_key(pair.original, facts.fingerprint(pair.original))
    return canonical([evidence, facts.fingerprint(pair.copy)])


def _copy_check(pair: Pair | None, score: str, margin: float) -> dict[str, Any]:
    """Columns check and evidence of `frame`; pair: the runs on the evidence alone, None where there
    are none."""
    if pair is None:
        return {"check": "not checked", "evidence": None}
    scores = _paired_scores(pair, score)
    seed = pair.original.config.seed
    bounds = (-1.0, 1.0)
    narrow = interval(scores.differences, scores.clusters, seed=seed, level=0.90, bounds=bounds)
    wide = interval(scores.differences, scores.clusters, seed=seed, level=0.95, bounds=bounds)
    columns: dict[str, Any] = {"check": _verdict(narrow, wide, margin)}
    columns.update(facts.interval_columns("evidence", narrow))
    return columns


def _verdict(narrow: Interval, wide: Interval, margin: float) -> str:
    """equivalent, undecided, harder or easier: the copy, by the difference on the evidence alone.

    Args:
        narrow: The difference, original minus copy, with its 90 % interval.
        wide: The same with its 95 % interval.
        margin: Largest difference that is called none.
    """
    if narrow.low is None or narrow.high is None or wide.low is None or wide.high is None:
        return "undecided"
    verdict = equivalence((narrow.low, narrow.high), (wide.low, wide.high), (-margin, margin))
    if verdict != "different":
        return verdict
    return "harder" if wide.low > 0 else "easier"


_IS = {
    "equivalent": "is no harder",
    "undecided": "may be harder",
    "harder": "is harder",
    "easier": "is easier",
}


def _verdict_text(row: Mapping[str, Any], margin: float) -> str:
    """A sentence on a row of `frame`: whether the copy is harder, so whether its drop may be called
    recalled."""
    if row["check"] == "not checked":
        unknown = "it is not known whether the copy is harder, so no drop is called recalled"
        return f"{unknown}: run oracle-evidence with and without --set dataset.swap=entities"
    consequence = ", so no drop is called recalled"
    shown = "not shown"
    if row["check"] == "equivalent":
        consequence = ""
        shown = "shown"
    span = "with too few documents for an interval"
    low = 100 * row["evidence.low"]
    high = 100 * row["evidence.high"]
    if not math.isnan(low):
        span = f"[{low:.1f}, {high:.1f}] (90 %)"
    return (
        f"the copy {_IS[row['check']]}{consequence}: original minus copy on the evidence alone is "
        f"{100 * row['evidence']:+.1f} points {span}, {shown} to be equivalent within "
        f"{100 * margin:g} points (two one-sided tests at 5 %)"
    )


def figure(
    runs: Sequence[StoredRun],
    *,
    score: str | None,
    warn: Callable[[str], None],
    margin: float = MARGIN,
) -> Figure:
    """The figure of the pairs among the runs; a copy without its original is left out with a
    warning.

    Raises UserError where there is no pair, UnknownName for a score that a run does not have.
    """
    pairs = list(copy_pairs(runs))
    if not pairs:
        missing = "there are no runs over a data set and over its copy that differ in nothing else"
        raise UserError(
            f"{missing}; run the same command with and without --set dataset.swap=entities"
        )
    paired = {pair.copy.path for pair in pairs}
    for run in runs:
        if copy_of(run) is not None and run.path not in paired:
            warn(
                f"warning: left out: {run.path}: no run over the original; run its command without "
                "dataset.swap"
            )
    table = frame(pairs, score, margin)
    sections: list[Titled] = []
    panels: list[Panel] = []
    for (dataset, model, name), group in table.groupby(SAME, sort=False):
        title = f"{dataset} · {model}"
        rows = facts.records(group)
        verdicts = dict.fromkeys(_verdict_text(row, margin) for row in rows)
        shown = group.reset_index(drop=True)
        shown["notes"] = [(*verdicts, _LEGEND)] * len(shown)
        hidden = [name for name in map(str, table) if name.startswith("evidence")]
        sections.append(for_people(f"{title}: {name}", shown, ["swap_seed", *hidden]))
        y = Axis(f"{name} × 100", zero=True)
        panels += plot.panels(title, _ENDS, y, list(map(_line_of, rows)))
    return Figure("Recalled rather than read", table, sections, panels)


_ENDS = Axis("", ticks=(0, 1), labels=("original", "copy"), limits=(-0.25, 1.25))


def _line_of(row: Mapping[str, Any]) -> Line:
    """The line of a method from its score on the original, at 0, to that on the copy, at 1."""
    original = Point.of({**row, "x": 0}, "x", "original", 100)
    copy = Point.of({**row, "x": 1}, "x", "copy", 100)
    return Line(str(row["method"]), [original, copy])


@dataclass(frozen=True)
class PairedScores:
    """Scores of the questions that both runs of a pair have, and the clusters of the questions."""

    original: list[float] = field(default_factory=list)
    copy: list[float] = field(default_factory=list)
    clusters: list[str] = field(default_factory=list)

    @property
    def differences(self) -> list[float]:
        """Original minus copy."""
        return [a - b for a, b in zip(self.original, self.copy, strict=True)]


def _paired_scores(pair: Pair, score: str) -> PairedScores:
    """The scores of a pair on its common questions, in the order of the original's records."""
    original = facts.scored(pair.original, score)
    copy = facts.scored(pair.copy, score)
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


def _pair_row(pair: Pair, score: str) -> dict[str, Any]:
    """Scores of original and copy on their common questions, the drop, and the drop as a share of
    the original's."""
    scores = _paired_scores(pair, score)
    before, after, clusters = scores.original, scores.copy, scores.clusters
    seed = pair.original.config.seed
    made = copy_of(pair.copy) or {}
    row = facts.head_columns(pair.original, pair.label)
    row["recogniser"] = (made.get("recogniser") or {}).get("name")
    row["swap_seed"] = made.get("seed")
    row["score"] = score
    row["n"] = len(before)
    row.update(facts.mean_columns("original", before, clusters, seed=seed))
    row.update(facts.mean_columns("copy", after, clusters, seed=seed))
    bounds = (-1.0, 1.0)
    row.update(facts.mean_columns("drop", scores.differences, clusters, seed=seed, bounds=bounds))
    row["p"] = None
    if before:
        row["p"] = paired_test(before, after, clusters, seed=seed).p
    recalled = NOTHING
    if sum(before) > 0:
        both = list(zip(before, after, strict=True))
        recalled = corpus_interval(_share_lost, both, clusters, seed=seed)
    row.update(facts.interval_columns("recalled", recalled))
    return row


def _share_lost(sums: Sequence[float]) -> float:
    """drop / original of sums (original, copy); a resample without any score on the original has no
    share to lose."""
    before, after = sums
    if before <= 0:
        return 0.0
    return 1 - after / before
