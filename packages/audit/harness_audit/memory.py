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

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.config.schema import canonical
from harness.errors import UserError
from harness.stats.bootstrap import NOTHING, interval
from harness.stats.corpus_interval import corpus_interval
from harness.stats.paired_tests import equivalence, holm, paired_test
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.figures import plot
from reports.figures.figure import SAME, Figure, for_people
from reports.figures.plot import Axis, Line, Point

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
    originals = {
        _pair_key(run, facts.fingerprint(run)): run for run in runs if copy_of(run) is None
    }
    for run in runs:
        made = copy_of(run)
        original = None if made is None else originals.get(_pair_key(run, made.get("of")))
        if made is not None and original is not None:
            mark = run.config["method"].get("mark")
            yield Pair(
                facts.reference_names(run)[0] + (f" [{mark}]" if mark else ""), original, run
            )


def _pair_key(run: StoredRun, fingerprint: Any) -> str:
    """The key that the two runs of a pair share: settings and task, and the fingerprint of the
    original rows."""
    method = {key: value for key, value in run.config["method"].items() if key != "mark"}
    same = [method, run.config["seed"], run.config.get("failed")]
    return canonical(
        [
            *same,
            run.config.get("encoder"),
            run.config.get("reranker"),
            _evidence_key(run, fingerprint),
        ]
    )


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
    rows = [_pair_row(pair, score or facts.headline(pair.original)) for pair in pairs]
    oracles = {
        _copy_key(pair): pair
        for pair in pairs
        if facts.is_oracle(pair.original) and facts.is_oracle(pair.copy)
    }
    for row, pair in zip(rows, pairs, strict=True):
        row |= _copy_check(oracles.get(_copy_key(pair)), row["score"], margin)
        if row["check"] != "equivalent":
            row |= facts.interval_columns("recalled", NOTHING)
    for row, adjusted in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p_holm"] = adjusted
    return facts.as_floats(pd.DataFrame(rows))


_LEGEND = (
    "copy: the same questions with other names, years and numbers; drop: original minus copy with "
    "its 95 % interval "
    "(by document); recalled: drop / original; p: sign flips, p_holm: adjusted by Holm"
)


def _copy_key(pair: Pair) -> str:
    return canonical(
        [
            _evidence_key(pair.original, facts.fingerprint(pair.original)),
            facts.fingerprint(pair.copy),
        ]
    )


def _copy_check(pair: Pair | None, score: str, margin: float) -> dict[str, Any]:
    """Columns check and evidence of `frame`; pair: the runs on the evidence alone, None where there
    are none."""
    if pair is None:
        return {"check": "not checked", "evidence": None}
    before, after, clusters = _paired_scores(pair, score)
    apart = [a - b for a, b in zip(before, after, strict=True)]
    seed = int(pair.original.config["seed"])
    narrow, wide = (
        interval(apart, clusters, seed=seed, level=level, bounds=(-1.0, 1.0))
        for level in (0.90, 0.95)
    )
    if narrow.low is None or narrow.high is None or wide.low is None or wide.high is None:
        verdict = "undecided"
    else:
        verdict = equivalence((narrow.low, narrow.high), (wide.low, wide.high), (-margin, margin))
        verdict = verdict if verdict != "different" else "harder" if wide.low > 0 else "easier"
    return {"check": verdict, **facts.interval_columns("evidence", narrow)}


def _verdict_text(row: Mapping[str, Any], margin: float) -> str:
    """A sentence on a row of `frame`: whether the copy is harder, so whether its drop may be called
    recalled."""
    if row["check"] == "not checked":
        unknown = "it is not known whether the copy is harder, so no drop is called recalled"
        return f"{unknown}: run oracle-evidence with and without --set dataset.swap=entities"
    is_ = {
        "equivalent": "is no harder",
        "undecided": "may be harder",
        "harder": "is harder",
        "easier": "is easier",
    }
    yes = row["check"] == "equivalent"
    value, low, high = (100 * row[f"evidence{end}"] for end in ("", ".low", ".high"))
    span = (
        "with too few documents for an interval"
        if low != low
        else f"[{low:.1f}, {high:.1f}] (90 %)"
    )
    return (
        f"the copy {is_[row['check']]}{'' if yes else ', so no drop is called recalled'}: original "
        "minus copy on the "
        f"evidence alone is {value:+.1f} points {span}, {'' if yes else 'not '}shown to be "
        f"equivalent within {100 * margin:g} points (two one-sided tests at 5 %)"
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
    sections, panels = [], []
    ends = Axis("", ticks=(0, 1), labels=("original", "copy"), limits=(-0.25, 1.25))
    for (dataset, model, name), group in table.groupby(SAME, sort=False):
        rows = facts.records(group)
        said = dict.fromkeys(_verdict_text(row, margin) for row in rows)
        noted = group.assign(
            notes=pd.Series([(*said, _LEGEND)] * len(group), index=group.index, dtype=object)
        )
        hidden = [name for name in map(str, group) if name.startswith("evidence")]
        shown = noted.reset_index(drop=True)
        sections.append(for_people(f"{dataset} · {model}: {name}", shown, ["swap_seed", *hidden]))
        over = ("original", "copy")
        lines = [
            Line(
                str(row["method"]),
                [Point.of({**row, "x": x}, "x", one, 100) for x, one in enumerate(over)],
            )
            for row in rows
        ]
        panels += plot.panels(f"{dataset} · {model}", ends, Axis(f"{name} × 100", zero=True), lines)
    return Figure("Recalled rather than read", table, sections, panels)


def _paired_scores(pair: Pair, score: str) -> tuple[list[float], list[float], list[str]]:
    """(scores on the original, scores on the copy, clusters) of the questions that both runs of a
    pair have."""
    first, second = facts.scored(pair.original, score), facts.scored(pair.copy, score)
    second_scores = dict(zip(second.ids, second.values, strict=True))
    kept = [
        (v, second_scores[q], c)
        for q, v, c in zip(first.ids, first.values, first.clusters, strict=True)
        if q in second_scores
    ]
    return [a for a, _, _ in kept], [b for _, b, _ in kept], [cluster for _, _, cluster in kept]


def _pair_row(pair: Pair, score: str) -> dict[str, Any]:
    """Scores of original and copy on their common questions, the drop, and the drop as a share of
    the original's."""
    before, after, clusters = _paired_scores(pair, score)
    seed = int(pair.original.config["seed"])
    difference = [a - b for a, b in zip(before, after, strict=True)]
    recalled = corpus_interval(
        _share_lost, list(zip(before, after, strict=True)), clusters, seed=seed
    )
    made = copy_of(pair.copy) or {}
    return {
        **facts.head_columns(pair.original, pair.label),
        "recogniser": (made.get("recogniser") or {}).get("name"),
        "swap_seed": made.get("seed"),
        "score": score,
        "n": len(before),
        **facts.mean_columns("original", before, clusters, seed=seed),
        **facts.mean_columns("copy", after, clusters, seed=seed),
        **facts.mean_columns("drop", difference, clusters, seed=seed, bounds=(-1.0, 1.0)),
        "p": paired_test(before, after, clusters, seed=seed).p if before else None,
        **facts.interval_columns("recalled", recalled if sum(before) > 0 else NOTHING),
    }


def _share_lost(sums: Sequence[float]) -> float:
    """drop / original of sums (original, copy); a resample without any score on the original has no
    share to lose."""
    before, after = sums
    return 1 - after / before if before > 0 else 0.0
