"""Nodes retrieved per question: how often each number occurs, and the log-normal that fits best
(PECAN, figure 3).

    fit([12, 17, 9, 30])   ->  Fit(mu=2.66, sigma=0.44, ks=..., p=...)

    mu = mean(log x)     sigma = sqrt(mean((log x - mu)^2))        maximum likelihood, no shift

A number of nodes is whole, a log-normal is not, so the distance of Kolmogorov and Smirnov is taken
between the share of questions with at most k nodes and the fitted curve at k + 1/2. Its usual p
value is wrong here twice, as the curve was fitted to the same numbers and these are whole: p comes
from numbers drawn out of the fitted curve, rounded to whole ones (at least 1), and fitted again
(parametric bootstrap; W. Stute et al., Metrika 40, 1993). Questions count as independent of each
other, also those about one document.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr

from harness.engine.numbers_from_runs import visited_nodes
from harness.errors import UserError
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.figures.figure import Figure
from reports.figures.plot import Axis, Line, Panel, Point

FEWEST = 8  # with fewer questions no curve is fitted: nearly any would pass

RESAMPLES = 999
_MOST_COLUMNS = 40  # of a histogram, at most


@dataclass(frozen=True, slots=True)
class Fit:
    """A log-normal by the mean and deviation of its logarithm; ks: see above; p: of a ks at least
    as large."""

    mu: float
    sigma: float
    ks: float
    p: float

    def density(self, x: float) -> float:
        """The curve's height at x > 0."""
        from scipy.stats import lognorm

        return float(lognorm.pdf(x, self.sigma, scale=math.exp(self.mu)))


def node_counts(run: StoredRun) -> list[int]:
    """Nodes retrieved for each answered question, the first ones included, up to the stop of the
    run itself."""
    return [visited_nodes(record) for record in run.records if record["error"] is None]


def fit(values: Sequence[int], seed: int = 0, resamples: int = RESAMPLES) -> Fit | str:
    """The fit to whole numbers, or a sentence that says why there is none. Numbers of 0 are left
    out.

    p is (1 + draws that lie as far from their own fit) / (1 + resamples), fixed by `seed`.
    """
    counts = np.array(
        sorted(v for v in values if v > 0), dtype=np.float64
    )  # their order is no part of the result
    if len(counts) < FEWEST:
        return f"no curve is fitted to {len(counts)} questions; it takes {FEWEST}"
    mu, sigma = _fit_log_normal(counts)
    if sigma < 1e-12:
        return f"no curve is fitted, as every question retrieved {counts[0]:.0f} nodes"
    distance = _ks_distance(counts, mu, sigma)
    generator = np.random.default_rng(seed)
    hits = 0
    for _ in range(resamples):
        sample = np.maximum(1.0, np.rint(generator.lognormal(mu, sigma, len(counts))))
        hits += _ks_distance(sample, *_fit_log_normal(sample)) >= distance - 1e-12
    return Fit(mu, sigma, distance, (hits + 1) / (resamples + 1))


def _fit_log_normal(values: np.ndarray) -> tuple[float, float]:
    """(mu, sigma): mean and standard deviation of the logarithms."""
    logs = np.log(values)
    return float(logs.mean()), float(logs.std())


def _ks_distance(values: np.ndarray, mu: float, sigma: float) -> float:
    """max |share of values <= k - F(k + 1/2)| over whole k, F being the log-normal of mu and sigma;
    0 for no spread."""
    numbers, counts = np.unique(values, return_counts=True)
    shares = np.cumsum(counts) / len(values)
    if sigma < 1e-12:
        return 0.0
    above, before = (ndtr((np.log(numbers + half) - mu) / sigma) for half in (0.5, -0.5))
    step = np.concatenate([[0.0], shares[:-1]])  # between two values that occur the ends decide
    return float(max(np.abs(shares - above).max(), np.abs(step - before).max()))


def column_width(values: Sequence[int]) -> int:
    """Whole nodes in one column of a histogram, so that there are at most 40 columns."""
    return max(1, math.ceil((max(values) - min(values) + 1) / _MOST_COLUMNS))


def figure(runs: Sequence[StoredRun], *, resamples: int = RESAMPLES) -> Figure:
    """A row and a histogram for each run that retrieved nodes; resamples: as in `fit`.

    dataset method model n failed · nodes nodes.low nodes.high (mean, 95 % interval clustered by
    document) · median · lowest · highest · mu · sigma · ks · p · notes · run. Raises UserError
    where no run's steps name nodes.
    """
    searches = [run for run in runs if any(node_counts(run))]
    if not searches:
        raise UserError("no run here retrieved nodes step by step: their records name none")
    rows, panels = [], []
    for run, label in zip(searches, facts.labels(searches), strict=True):
        values, head = node_counts(run), facts.head_columns(run, label)
        fitted = fit(values, int(run.config["seed"]), resamples)
        curve = fitted if isinstance(fitted, Fit) else None
        rows.append(_run_row(run, head, values, fitted))
        panels.append(histogram(" · ".join(map(str, head.values())), values, curve))
    table = pd.DataFrame(rows).sort_values("dataset", kind="stable", ignore_index=True)
    return Figure("Nodes retrieved per question", facts.as_floats(table), panels=panels)


def _run_row(
    run: StoredRun, head: dict[str, Any], values: Sequence[int], fitted: Fit | str
) -> dict[str, Any]:
    """The row of a run; head: its first columns; values: as `node_counts`; fitted: the fit, or why
    there is none."""
    answered = facts.answered_clusters(run)
    notes = [fitted] if isinstance(fitted, str) else []
    if zero := sum(v == 0 for v in values):
        notes.append(
            f"{zero} of {len(values)} questions retrieved no node and are left out of the curve"
        )
    return {
        **head,
        "n": len(values),
        "failed": len(run.records) - len(values),
        **facts.mean_columns(
            "nodes", list(map(float, values)), answered, seed=int(run.config["seed"]), bounds=None
        ),
        "median": float(np.median(values)),
        "lowest": min(values),
        "highest": max(values),
        **(
            dict.fromkeys(("mu", "sigma", "ks", "p")) if isinstance(fitted, str) else asdict(fitted)
        ),
        "notes": (*notes, *facts.notes(run)),
        "run": run.name,
    }


def histogram(title: str, values: Sequence[int], fit: Fit | None) -> Panel:
    """A panel with the histogram of whole numbers, each in the middle of its column, and the fitted
    curve over it."""
    width, first = column_width(values), min(values)
    bars = []
    for start in range(first, max(values) + 1, width):
        share = 100 * sum(start <= v < start + width for v in values) / len(values)
        bars.append(
            (max(start - 0.5, 0.0), start + width - 0.5, share)
        )  # the axis does not go below 0
    low, high = 0.0 if first <= 0.2 * max(values) else bars[0][0], bars[-1][1]
    lines = []
    if fit is not None:
        title = f"{title} · KS {fit.ks:.3f}, p {fit.p:.3f}"
        share_above_0 = sum(v > 0 for v in values) / len(values)
        first_x = max(low, 0.01)
        places = [first_x + (high - first_x) * i / 200 for i in range(201)]
        curve = [Point(x, 100 * share_above_0 * width * fit.density(x)) for x in places]
        lines.append(Line("log-normal", curve, marks=False))
    x = Axis("nodes retrieved per question", limits=(low, high))
    return Panel(title, x, Axis("questions, per cent", zero=True), None, lines, bars)
