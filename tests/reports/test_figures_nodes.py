"""Counts of nodes, the fit against scipy, its p value where the truth is known, and the command."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scipy import stats

from harness.errors import UserError
from reports.figures import nodes
from reports.figures.nodes import Fit, column_width, figure, fit, node_counts
from tests.reports.build import record
from tests.reports.figure_searches import searched, searched_run, settings


def walks(lengths):
    """A question for each number of nodes; two nodes more were only seen by the recording."""
    return [
        searched(i, [0.1] * (n + 2), ["x"] * (n + 2), stop=n - 1) for i, n in enumerate(lengths)
    ]


@pytest.mark.parametrize(
    "lengths", [[2, 3, 3, 5, 8, 13, 21, 34], [1, 1, 1, 1, 1, 1, 1, 2], list(range(1, 60))]
)
def test_the_fit_is_scipys_maximum_likelihood(lengths):
    found = fit(lengths, resamples=20)
    assert isinstance(found, Fit)
    shape, _, scale = stats.lognorm.fit(lengths, floc=0)
    assert (found.sigma, np.exp(found.mu)) == pytest.approx((shape, scale), rel=1e-6)
    assert found.density(3.0) == pytest.approx(stats.lognorm.pdf(3.0, shape, scale=scale), rel=1e-6)
    # The distance over whole numbers, by its definition.
    share = [np.mean(np.array(lengths) <= k) for k in range(max(lengths) + 9)]
    curve = stats.lognorm.cdf(np.arange(len(share)) + 0.5, shape, scale=scale)
    assert found.ks == pytest.approx(np.abs(share - curve).max(), rel=1e-6)


def test_p_is_high_for_a_log_normal_and_low_for_two_heaps():
    generator = np.random.default_rng(3)
    smooth = np.maximum(1, np.rint(generator.lognormal(2.5, 0.6, 300))).astype(int).tolist()
    heaps = [4] * 150 + [40] * 150
    found = [fit(values, resamples=199) for values in (smooth, heaps)]
    p = [one.p for one in found if isinstance(one, Fit)]
    assert p[0] > 0.05
    assert p[1] == 1 / 200
    assert fit(smooth, resamples=199) == fit(list(reversed(smooth)), resamples=199)


def test_p_values_of_true_log_normals_are_about_uniform():
    """Of 60 samples from rounded log-normals about 10 % have p <= 0.1; 16 or more would happen once
    in 2,000 times."""
    generator = np.random.default_rng(5)
    small = 0
    for seed in range(60):
        values = np.maximum(1, np.rint(generator.lognormal(2.0, 0.4, 60))).astype(int).tolist()
        found = fit(values, seed, resamples=59)
        small += found.p <= 0.1
    assert 1 <= small <= 15


@pytest.mark.parametrize(
    ("lengths", "sentence"),
    [
        ([3, 4, 5], "no curve is fitted to 3 questions; it takes 8"),
        ([7] * 20, "no curve is fitted, as every question retrieved 7 nodes"),
        ([0] * 20 + [1, 2], "no curve is fitted to 2 questions; it takes 8"),
    ],
)
def test_too_few_or_all_alike_is_a_sentence(lengths, sentence):
    assert fit(lengths) == sentence


@hypothesis_settings(deadline=None)
@given(st.lists(st.integers(1, 500), min_size=1, max_size=80))
def test_a_histogram_holds_every_question_once(lengths):
    panel = nodes.histogram("t", lengths, "no curve is fitted")
    assert sum(height for _, _, height in panel.bars) == pytest.approx(100)
    assert len(panel.bars) <= 40
    assert all(a[1] == b[0] for a, b in itertools.pairwise(panel.bars))
    assert column_width(lengths) >= 1


def test_only_what_the_run_itself_retrieved_is_counted(tmp_path):
    run = searched_run(
        tmp_path, [*walks([3, 5]), record(9, None)], settings=settings(record_stops=4)
    )
    assert node_counts(run) == [3, 5]
    made = figure([run])
    (row,) = made.whole.to_dict("records")
    assert (
        row["nodes"],
        row["median"],
        row["lowest"],
        row["highest"],
        row["n"],
        row["failed"],
    ) == (4, 4, 3, 5, 2, 1)
    assert made.panels[0].lines == []
    assert row["notes"][0] == "no curve is fitted to 2 questions; it takes 8"
    with pytest.raises(UserError, match="retrieved nodes step by step"):
        figure([searched_run(tmp_path / "b", [record(0, 0.5)])])


def test_the_command(tmp_path, command):
    made = figure(
        [searched_run(tmp_path, walks([2, 3, 3, 5, 8, 13, 21, 34, 4, 5]), settings=settings())],
        resamples=30,
    )
    (row,) = made.whole.to_dict("records")
    assert (row["nodes"], row["median"], 0 < row["p"] <= 1) == (pytest.approx(9.8), 5.0, True)
    assert " 9.8 " in command("report", "nodes", str(tmp_path))[1]
    (panel,) = made.panels
    assert {(start, end, round(height)) for start, end, height in panel.bars} >= {
        (1.5, 2.5, 10),
        (2.5, 3.5, 20),
    }
    assert len(panel.lines) == 1
