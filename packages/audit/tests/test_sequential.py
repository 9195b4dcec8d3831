"""The anytime-valid comparison: against its formula written out, and by simulation."""

import math

import numpy as np
import pytest
from harness_audit.sequential import FRACTIONS, STEP, PairedRace, extend_ranking

from packages.audit.tests.simulations import called_equivalent, means, races, rankings

VALUES = (1.0, 0.0, -0.5, 1.0, 1.0, 0.0, 1.0, 0.25, -1.0, 1.0, 1.0, 0.0)


def race(totals, sizes=None, *, finite=False, of=0):
    made = PairedRace(sizes or [1] * max(of, len(totals)), finite=finite)
    for total in totals:
        made.add(total)
    return made


def capital(values, mean: float, n: int | None) -> list[float]:
    """The capital against `mean` as the paper writes it: values x in [0, 1], m_t of section 5 if n
    is given.

    Constant fractions f / m_t of the capital are bet that the mean is larger, equal shares on each
    f.
    """
    x, m = [(1 + v) / 2 for v in values], (1 + mean) / 2
    out, capitals = [], [1.0] * len(FRACTIONS)
    for t, value in enumerate(x):
        m_t = m if n is None else (n * m - sum(x[:t])) / (n - t)
        capitals = [
            k * (1 + f / m_t * (value - m_t)) for k, f in zip(capitals, FRACTIONS, strict=True)
        ]
        out.append(sum(capitals) / len(capitals))
    return out


@pytest.mark.parametrize("n", [None, 50])
def test_the_p_value_and_the_interval_are_those_of_the_capital_written_out(n: int | None) -> None:
    made = race(VALUES, of=50, finite=n is not None)
    above, below = max(capital(VALUES, 0.0, n)), max(capital([-v for v in VALUES], 0.0, n))
    assert made.p == pytest.approx(min(1.0, 2 / max(above, below)))
    assert made.mean == pytest.approx(sum(VALUES) / len(VALUES))
    low, high = made.interval(0.2)
    assert max(capital(VALUES, low, n)) >= 2 / 0.2 > max(capital(VALUES, low + STEP, n))
    mirrored = [-v for v in VALUES]
    assert max(capital(mirrored, -high, n)) >= 2 / 0.2 > max(capital(mirrored, -high + STEP, n))


def test_the_interval_narrows_and_holds_the_mean() -> None:
    widths = [
        high - low for k in range(1, len(VALUES)) for low, high in [race(VALUES[:k]).interval()]
    ]
    assert widths == sorted(widths, reverse=True)
    low, high = race(VALUES * 40).interval()
    assert low < sum(VALUES) / len(VALUES) < high
    assert high - low < 0.25
    assert race(VALUES * 40).p < 1e-6
    turned = race([1.0] * 9 + [-1.0] * 10)  # shown early, by a p value that stays
    assert turned.p < 0.05
    assert turned.evidence[0] > turned.evidence[1]
    assert turned.mean < 0
    assert race([1.0]).interval()[1] == 1.0


def test_the_full_table_is_known_exactly_at_its_end() -> None:
    sizes = [3, 1, 2, 4]
    made = race([1.5, -1.0, 0.0, 1.0], sizes, finite=True)
    low, high = made.interval()
    assert made.complete
    assert made.mean == 0.15
    assert low <= 0.15 <= high <= low + 2 * STEP
    assert made.p == 0.0
    tied = race([1.0, -1.0], finite=True)
    assert (tied.p, tied.interval()) == (1.0, (-STEP, STEP))


def test_the_population_is_not_known_at_the_end() -> None:
    low, high = race([1.0, 1.0, 0.0]).interval()
    assert low < 0
    assert high == 1.0
    assert race([1.0, 1.0, 0.0]).p > 0.3


def test_mistakes() -> None:
    with pytest.raises(ValueError, match=r"scores must lie in \[0, 1\]"):
        race([2.5], [2])


def trials(count: int, sizes: np.ndarray, mean: float, rng: np.random.Generator) -> np.ndarray:
    """Sums by cluster, (clusters, count); larger documents favour one method, so that sizes and
    values are related."""
    tilt = mean + 0.15 * (sizes - sizes.mean()) / sizes.max()
    draws = rng.random((int(sizes.max()), *sizes.shape))
    signs = np.where(draws < (0.6 + tilt) / 2, 1.0, np.where(draws < 0.6, -1.0, 0.0))
    inside = np.arange(int(sizes.max()))[:, None, None] < sizes
    return np.asarray((signs * inside).sum(axis=0))


@pytest.mark.parametrize("finite", [False, True])
def test_looking_after_every_document_is_wrong_in_5_percent_at_most(finite: bool) -> None:
    rng = np.random.default_rng(7)
    count, sizes = 2000, rng.integers(1, 5, (60, 2000)).astype(float)
    totals = trials(count, sizes, 0.0, rng)
    # population: the ratio over the four sizes that `tilt` makes; table: the ratio of the trial's
    # own rows.
    each = np.arange(1.0, 5.0)
    tilt = 0.15 * (each - sizes.mean()) / 4
    true = (
        totals.sum(axis=0) / sizes.sum(axis=0)
        if finite
        else np.full(count, (tilt * each).sum() / each.sum())
    )
    made = PairedRace(sizes, finite=finite, candidates=true)
    for total in totals[: 60 - finite]:
        made.add(total)
    bar = math.log(2 / 0.05)
    assert 0 < np.mean(np.maximum(*made.logs) >= bar) <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / count)
    # A difference of 40 points is seen.
    power = PairedRace(sizes, finite=finite, candidates=true - 0.4)
    for total in totals[:-1]:
        power.add(total)
    assert np.mean(power.logs[0] >= bar) > 0.95


@pytest.mark.parametrize(
    ("shares", "ranked"),
    [
        ({(0, 1): 1.0}, []),  # the first of 6 ordered pairs needs a capital of 6 / alpha
        ({(0, 1): 6.0}, [(0, 1)]),
        ({(0, 1): 6.0, (1, 2): 4.9}, [(0, 1)]),  # the next 5 / alpha
        ({(0, 1): 6.0, (1, 2): 5.0}, [(0, 1), (0, 2), (1, 2)]),  # and the third follows
        ({(0, 1): 9.0, (1, 2): 8.0, (2, 0): 7.0}, [(0, 1), (0, 2), (1, 2)]),  # no circle
        ({(0, 1): 9.0, (1, 0): 8.0}, [(0, 1)]),
    ],
)
def test_a_ranking_grows_by_capital_and_by_order(shares, ranked):
    better, evidence = np.zeros((3, 3), dtype=bool), np.zeros((3, 3))
    for place, share in shares.items():
        evidence[place] = math.log(share / 0.05) + 1e-9
    shown = extend_ranking(better, evidence, 0.05)
    assert [(int(i), int(j)) for i, j in np.argwhere(better)] == ranked
    assert set(shown) <= set(shares)


def test_fewer_duels_are_settled_of_scores_0_or_1_than_of_fractions() -> None:
    whole, halves = (races(0.1, np.ones((200, 500)), each, False) for each in (False, True))
    assert (round(whole[0], 1), round(halves[0], 1)) == (0.3, 0.6)
    assert races(0.0, np.ones((200, 500)), False, False)[0] <= 0.05 + 2 * math.sqrt(
        0.05 * 0.95 / 500
    )


def test_a_simulated_ranking_is_wrong_in_5_percent_at_most() -> None:
    tied = rankings(means("tied", 4), 150, trials=400)
    assert tied.error <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 400)
    apart = rankings(means("apart", 4, gap=0.2), 150, trials=100)
    assert apart.error <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 100)
    assert apart.shown > 0.8
    assert apart.saved > 0.1


def test_a_twin_that_is_harder_by_the_margin_is_called_no_harder_in_5_percent_at_most() -> None:
    assert called_equivalent(0.05, 100, 3, trials=200) <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 200)
    assert called_equivalent(0.0, 600, 3, trials=20) > 0.7
