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

import numpy as np
import pandas as pd
from scipy.special import ndtr

from harness.engine.numbers_from_runs import visited_nodes
from harness.errors import UserError
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.figures.figure import Figure
from reports.figures.plot import Axis, Bar, Line, Panel, Point
from reports.run_notes import run_notes
from reports.table_cell import Row

FEWEST = 8
"""With fewer questions no curve is fitted: nearly any would pass."""
RESAMPLES = 999
_MOST_COLUMNS = 40


@dataclass(frozen=True, slots=True)
class Fit:
    """A log-normal by the mean and deviation of its logarithm, and how well it fits."""

    mu: float
    sigma: float
    ks: float
    """The distance of Kolmogorov and Smirnov, as above."""
    p: float
    """Of a distance at least as large."""

    def density(self, x: float) -> float:
        """The height of the curve at x > 0."""
        from scipy.stats import lognorm

        return float(lognorm.pdf(x, self.sigma, scale=math.exp(self.mu)))


def node_counts(run: StoredRun) -> list[int]:
    """The number of nodes that the search of each answered question retrieved, up to the run's own
    stop."""
    return [visited_nodes(record) for record in run.records if record.error is None]


def fit(values: Sequence[int], seed: int = 0, resamples: int = RESAMPLES) -> Fit | str:
    """The log-normal fitted to whole numbers above 0; numbers of 0 are left out.

    Args:
        values: The number of nodes of each question.
        seed: Fixes the draws.
        resamples: The number of samples that are drawn out of the fitted curve.

    Returns:
        The fit, its p being (1 + samples that lie as far from their own fit) / (1 + resamples), or
        a sentence that says why there is none.
    """
    positive = sorted(value for value in values if value > 0)  # the order must not matter
    counts = np.array(positive, dtype=np.float64)
    if len(counts) < FEWEST:
        return f"no curve is fitted to {len(counts)} questions; it takes {FEWEST}"
    mu, sigma = _fit_log_normal(counts)
    if sigma < 1e-12:
        return f"no curve is fitted, as every question retrieved {counts[0]:.0f} nodes"
    distance = _ks_distance(counts, mu, sigma)
    generator = np.random.default_rng(seed)
    n_as_far = 0
    for _ in range(resamples):
        draws = generator.lognormal(mu, sigma, len(counts))
        sample = np.maximum(1.0, np.rint(draws))
        sample_mu, sample_sigma = _fit_log_normal(sample)
        sample_distance = _ks_distance(sample, sample_mu, sample_sigma)
        if sample_distance >= distance - 1e-12:
            n_as_far += 1
    p = (n_as_far + 1) / (resamples + 1)
    return Fit(mu=mu, sigma=sigma, ks=distance, p=p)


def _fit_log_normal(values: np.ndarray) -> tuple[float, float]:
    """The mean and the standard deviation of the logarithms of the values, (mu, sigma)."""
    logs = np.log(values)
    return float(logs.mean()), float(logs.std())


def _ks_distance(values: np.ndarray, mu: float, sigma: float) -> float:
    """The distance of Kolmogorov and Smirnov between whole numbers and a log-normal F.

    max |share of values <= k - F(k + 1/2)| over whole k; 0 where F has no spread.

    Args:
        values: Whole numbers, [n].
        mu: The mean of the logarithm under F.
        sigma: Its standard deviation under F.
    """
    if sigma < 1e-12:
        return 0.0
    numbers, counts = np.unique(values, return_counts=True)
    # Between two values that occur the shares are constant, so the ends decide.
    shares = np.cumsum(counts) / len(values)
    shares_before = np.concatenate([[0.0], shares[:-1]])
    fitted = ndtr((np.log(numbers + 0.5) - mu) / sigma)
    fitted_before = ndtr((np.log(numbers - 0.5) - mu) / sigma)
    distance = np.abs(shares - fitted).max()
    distance_before = np.abs(shares_before - fitted_before).max()
    return float(max(distance, distance_before))


def column_width(values: Sequence[int]) -> int:
    """How many whole numbers one column of a histogram takes, so that there are at most 40
    columns."""
    return max(1, math.ceil((max(values) - min(values) + 1) / _MOST_COLUMNS))


def figure(runs: Sequence[StoredRun], *, resamples: int = RESAMPLES) -> Figure:
    """The nodes that each run retrieved per question: a row of a table and a histogram a run.

    Columns:
        dataset, method, model, n, failed: The run and its questions.
        nodes, nodes.low, nodes.high: The mean and its 95 % interval, clustered by document.
        median, lowest, highest: Of the questions.
        mu, sigma, ks, p: The log-normal that `fit` finds, and its test.
        notes, run: What to know of the run, and its folder.

    Args:
        runs: Stored runs; those without nodes in their steps are left out.
        resamples: The number of samples that are drawn out of a fitted curve for its p.

    Raises:
        UserError: No run's steps name nodes.
    """
    searches = [run for run in runs if any(node_counts(run))]
    if not searches:
        raise UserError("no run here retrieved nodes step by step: their records name none")
    rows = []
    panels = []
    for run, label in zip(searches, facts.run_labels(searches), strict=True):
        values = node_counts(run)
        head = facts.first_cells(run, label)
        fitted = fit(values, run.config.seed, resamples)
        rows.append(_run_row(run, head, values, fitted))
        panels.append(histogram(" · ".join(map(str, head.values())), values, fitted))
    table = pd.DataFrame(rows).sort_values("dataset", kind="stable", ignore_index=True)
    return Figure("Nodes retrieved per question", facts.as_floats(table), panels=panels)


def _run_row(run: StoredRun, head: Row, values: Sequence[int], fitted: Fit | str) -> Row:
    """The row of a run in the figure's table.

    Args:
        run: A stored run.
        head: The first columns of the row.
        values: The number of nodes of each answered question.
        fitted: The fit, or why there is none.
    """
    clusters = facts.answered_clusters(run)
    seed = run.config.seed
    return {
        **head,
        "n": len(values),
        "failed": len(run.records) - len(values),
        **facts.mean_columns("nodes", list(map(float, values)), clusters, seed=seed, bounds=None),
        "median": float(np.median(values)),
        "lowest": min(values),
        "highest": max(values),
        **_fit_columns(fitted),
        "notes": (*_fit_notes(values, fitted), *run_notes(run)),
        "run": run.name,
    }


def _fit_columns(fitted: Fit | str) -> dict[str, float | None]:
    """The columns mu, sigma, ks and p of a fit; each is None where there is no fit."""
    if isinstance(fitted, str):
        return dict.fromkeys(("mu", "sigma", "ks", "p"))
    return asdict(fitted)


def _fit_notes(values: Sequence[int], fitted: Fit | str) -> list[str]:
    """Sentences on why there is no fit, and on questions without nodes that are left out of it."""
    notes = []
    if isinstance(fitted, str):
        notes.append(fitted)
    n_zero = sum(1 for value in values if value == 0)
    if n_zero:
        notes.append(
            f"{n_zero} of {len(values)} questions retrieved no node and are left out of the curve"
        )
    return notes


def histogram(title: str, values: Sequence[int], fitted: Fit | str) -> Panel:
    """A panel with the histogram of whole numbers, each in the middle of its column, and the fitted
    curve over it.

    Args:
        title: The title of the panel.
        values: The number of nodes of each question.
        fitted: The curve; none is drawn for a sentence that says why there is none.
    """
    width = column_width(values)
    smallest = min(values)
    bars = []
    for start in range(smallest, max(values) + 1, width):
        n_inside = sum(1 for value in values if start <= value < start + width)
        left = max(start - 0.5, 0.0)  # the axis does not go below 0
        right = start + width - 0.5
        bars.append(Bar(left, right, height=100 * n_inside / len(values)))
    x_min = bars[0].left
    x_max = bars[-1].right
    if smallest <= 0.2 * max(values):  # near enough to 0 to show it
        x_min = 0.0
    lines = []
    if isinstance(fitted, Fit):
        title = f"{title} · KS {fitted.ks:.3f}, p {fitted.p:.3f}"
        share_above_0 = sum(1 for value in values if value > 0) / len(values)
        percent_of_column = 100 * share_above_0 * width  # of a density of 1
        curve = _curve(fitted, percent_of_column, x_min, x_max)
        lines.append(Line("log-normal", curve, has_marks=False))
    return Panel(
        title,
        x=Axis("nodes retrieved per question", limits=(x_min, x_max)),
        left=Axis("questions, per cent", starts_at_zero=True),
        right=None,
        lines=lines,
        bars=bars,
    )


def _curve(fitted: Fit, scale: float, low: float, high: float) -> list[Point]:
    """Points of the fitted curve from its left to its right end.

    Args:
        fitted: The curve.
        scale: The factor of its height.
        low: Its left end.
        high: Its right end.
    """
    first = max(low, 0.01)  # the curve has no value at 0
    points = []
    for number in range(201):
        x = first + (high - first) * number / 200
        points.append(Point(x, scale * fitted.density(x)))
    return points
