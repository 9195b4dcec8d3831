import doctest
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from harness.stats import bootstrap as stats
from harness.stats import paired_tests, sign_flips
from harness.stats.best_of_several import compare_with_best, selection_bias
from harness.stats.bootstrap import interval, per_cluster
from harness.stats.paired_tests import detectable_difference, holm, paired_test, standard_error
from harness.stats.question_clusters import document_clusters
from harness.stats.resampling import Floats, resample_sums
from harness.stats.sign_flips import sign_flip_test

TRUE_RATE = 0.3


def clustered_scores(generator: np.random.Generator, documents: int) -> tuple[Floats, list[str]]:
    """F1-like scores: zero for most questions, 1 to 11 questions a document, documents easy or
    hard."""
    sizes = generator.integers(1, 12, documents)
    document = np.repeat(np.arange(documents), sizes)
    ease = generator.normal(0, 1, documents)[document]
    hit = (ease + generator.normal(0, 1, len(document))) / math.sqrt(2) > scipy_stats.norm.ppf(
        1 - TRUE_RATE
    )
    return np.where(hit, generator.uniform(0.2, 1.0, len(document)), 0.0), [
        f"d{i}" for i in document
    ]


class TestInterval:
    def test_doctests(self) -> None:
        results = [doctest.testmod(module) for module in (stats, paired_tests)]
        assert [(result.failed, result.attempted > 0) for result in results] == [
            (0, True),
            (0, True),
        ]

    def test_covers_the_truth_in_93_to_98_percent_of_simulated_clustered_data(self) -> None:
        generator = np.random.default_rng(5)
        truth = TRUE_RATE * 0.6
        hits = naive_hits = 0
        for trial in range(1500):
            values, clusters = clustered_scores(generator, 30)
            found = interval(values, clusters, seed=trial, resamples=400)
            hits += found.low <= truth <= found.high
            half = 1.96 * values.std(ddof=1) / math.sqrt(len(values))
            naive_hits += abs(values.mean() - truth) <= half
        assert 0.93 <= hits / 1500 <= 0.98
        assert naive_hits / 1500 < 0.85, (
            "the data must be clustered enough to fool an interval that ignores documents"
        )

    # So many clusters as 20,000 are merged.
    @pytest.mark.parametrize(
        ("n", "resamples"), [(200, 500), (200, 2000), (200, 8000), (20_000, 2000)]
    )
    def test_bootstrap_error_is_s_over_root_n_and_does_not_shrink_with_resamples(
        self, n: int, resamples: int
    ) -> None:
        values = np.random.default_rng(1).uniform(size=n)
        clusters = [f"d{i}" for i in range(n)]
        expected = values.std(ddof=1) / math.sqrt(n)
        totals = resample_sums(per_cluster(values, clusters), 0, resamples)
        assert (totals[:, 0] / totals[:, 1]).std() == pytest.approx(expected, rel=0.08)
        assert standard_error(values, clusters) == pytest.approx(expected, rel=1e-12)

    def test_doubled_questions_of_a_document_add_no_certainty(self) -> None:
        values, clusters = clustered_scores(np.random.default_rng(2), 40)
        once = interval(values, clusters)
        twice = interval(np.repeat(values, 2), [c for c in clusters for _ in (0, 1)])
        assert (twice.mean, twice.n) == (pytest.approx(once.mean), 2 * once.n)
        assert (twice.low, twice.high) == pytest.approx((once.low, once.high), abs=0.004)

    def test_agrees_with_scipy_on_independent_values(self) -> None:
        values = np.random.default_rng(3).uniform(size=150)
        ours = interval(values, [f"d{i}" for i in range(150)])
        theirs = scipy_stats.bootstrap(
            (values,), np.mean, n_resamples=9999, method="percentile", rng=1
        )
        assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=0.004)
        assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=0.004)

    def test_differences_of_methods_that_score_near_0_are_covered(self) -> None:
        """Twenty documents, of which few hold a question that one of the two answers: 367 of 400
        are too few."""
        rng, hits = np.random.default_rng(5), 0
        labels = np.repeat(np.arange(20), 5)
        for trial in range(400):
            first, second = (
                rng.random(100) < rng.beta(mean, 1 - mean, 20)[labels] for mean in (0.05, 0.01)
            )
            found = interval(first * 1.0 - second, labels, seed=trial, bounds=(-1.0, 1.0))
            hits += found.low <= 0.04 <= found.high
        assert hits >= 380

    @pytest.mark.parametrize(
        ("documents", "bounds"),
        [(3, (0.0, 1.0)), (5, (0.0, 1.0)), (10, (0.0, 1.0)), (6, (-1.0, 1.0)), (10, (-1.0, 1.0))],
    )
    def test_few_documents_are_covered(self, documents: int, bounds: tuple[float, float]) -> None:
        """Unequal sizes and correlated questions, where percentile intervals covered 75, 87 and 82
        %."""
        rng, hits = np.random.default_rng(7), 0
        truth = 0.3 if bounds[0] == 0 else 0.0
        for _ in range(400):
            labels = np.repeat(np.arange(documents), rng.integers(1, 12, documents)).astype(
                np.int32
            )
            one, other = (
                rng.random(len(labels)) < rng.beta(0.3, 0.7, documents)[labels] for _ in range(2)
            )
            values = one.astype(float) - (0.0 if bounds[0] == 0 else other.astype(float))
            found = interval(values, labels, bounds=bounds)
            hits += found.low is not None and found.low <= truth <= found.high
        assert hits / 400 >= 0.95, "with the errors or the quantiles of many documents 93 to 94 %"

    @pytest.mark.parametrize("bounds", [(0.0, 1.0), (-1.0, 1.0)])
    def test_a_few_documents_with_most_questions_are_covered(
        self, bounds: tuple[float, float]
    ) -> None:
        """With G - 1 degrees of freedom the scores were covered in 85 %."""
        rng, hits, down = np.random.default_rng(3), 0, bounds[0] < 0
        for _ in range(200):
            sizes = np.minimum(np.round(3 / rng.random(250) ** 0.8), 400).astype(int)
            labels = np.repeat(np.arange(250), sizes).astype(np.int32)
            one, other = (
                rng.random(len(labels)) < rng.beta(0.05, 0.95, 250)[labels] for _ in range(2)
            )
            found = interval(one.astype(float) - down * other, labels, bounds=bounds)
            hits += found.low <= 0.05 * (not down) <= found.high
        assert hits / 200 >= 0.9

    def test_rare_documents_that_are_wholly_wrong_are_covered(self) -> None:
        """A fifth of all samples show none of them. Where the variance between documents leaned to
        that of the scores seen, not to the largest, 91 % were covered."""
        rng, hits = np.random.default_rng(3), 0
        labels = np.repeat(np.arange(50), 40).astype(np.int32)
        scale = 0.3 / 0.7
        for _ in range(1000):
            chance = rng.beta(0.97 * scale, 0.03 * scale, 50)[labels]
            part = np.where(rng.random(2000) < 0.4, 1.0, rng.uniform(0.1, 0.9, 2000))
            found = interval((rng.random(2000) < chance) * part, labels)
            hits += found.low <= 0.97 * 0.7 <= found.high
        assert hits / 1000 >= 0.93

    def test_seed_decides_and_order_does_not(self) -> None:
        values, clusters = clustered_scores(np.random.default_rng(4), 30)
        order = np.random.default_rng(0).permutation(len(values))
        assert interval(values, clusters) == interval(values[order], [clusters[i] for i in order])
        costs = {"bounds": None, "resamples": 200}
        assert interval(values, clusters, seed=1, **costs) == interval(
            values, clusters, seed=1, **costs
        )
        assert interval(values, clusters, seed=1, **costs) != interval(
            values, clusters, seed=2, **costs
        )

    @pytest.mark.parametrize(
        ("values", "clusters", "expected"),
        [
            ([], [], (None, None, None, 0, 0)),
            ([0.4], ["d"], (0.4, None, None, 1, 1)),
            ([0.0, 1.0], ["d", "d"], (0.5, None, None, 2, 1)),
            ([0.0, 1.0], ["d", "e"], (0.5, None, None, 2, 2)),
        ],
    )
    def test_small_cases(
        self, values: list[float], clusters: list[str], expected: tuple[object, ...]
    ) -> None:
        found = interval(values, clusters)
        assert (found.mean, found.low, found.high, found.n, found.clusters) == expected

    def test_a_method_that_fails_wholly_in_a_tenth_of_10_documents_is_covered(self) -> None:
        """40 questions of each document; samples without such a document look even. Without an
        allowance for it 83 % were covered."""
        rng = np.random.default_rng(5)
        labels = np.repeat(np.arange(10), 40)

        def scores(share_of_good_documents: float) -> np.ndarray:
            scale = 0.3 / 0.7  # questions of a document correlate by 0.7
            shares = (share_of_good_documents * scale, (1 - share_of_good_documents) * scale)
            right = rng.random(400) < rng.beta(*shares, 10)[labels]
            part = np.where(rng.random(400) < 0.4, 1.0, rng.uniform(0.1, 0.9, 400))
            return right * part

        held = 0
        for _ in range(500):
            found = paired_test(scores(0.99), scores(0.9), labels)
            assert found.low is not None
            assert found.high is not None
            held += found.low <= 0.09 * 0.7 <= found.high
        assert held / 500 >= 0.92

    def test_an_interval_of_differences_is_that_of_the_test(self) -> None:
        rng = np.random.default_rng(6)
        labels = np.repeat(np.arange(9), 12)
        a, b = rng.random(108), rng.random(108)
        tested = paired_test(a, b, labels)
        found = interval(a - b, labels, bounds=(-1.0, 1.0))
        assert (found.low, found.high) == pytest.approx((tested.low, tested.high))

    def test_costs_with_heavy_tails_are_covered_in_nine_of_ten(self) -> None:
        """Lognormal with sigma 1.5, of which the bootstrap-t without expanded quantiles covered 84
        % here."""
        rng, labels = np.random.default_rng(4), np.arange(10, dtype=np.int32)
        made = [
            interval(rng.lognormal(0, 1.5, 10), labels, bounds=None, resamples=500)
            for _ in range(1000)
        ]
        assert np.mean([one.low <= math.exp(1.5**2 / 2) <= one.high for one in made]) >= 0.89

    @pytest.mark.parametrize(("value", "closed"), [(0.0, "low"), (1.0, "high")])
    def test_all_wrong_or_all_right_is_not_certainty(self, value: float, closed: str) -> None:
        found = interval([value] * 20, [f"d{i}" for i in range(20)])
        exact = scipy_stats.binomtest(int(20 * value), 20).proportion_ci(method="exact")
        assert (found.low, found.high) == (pytest.approx(exact.low), pytest.approx(exact.high))
        assert getattr(found, closed) == value
        unbounded = interval([value] * 20, [f"d{i}" for i in range(20)], bounds=None)
        assert (unbounded.low, unbounded.high) == (value, value)

    def test_one_mean_in_all_documents_is_not_certainty(self) -> None:
        unseen = 1 - 0.025 ** (1 / 3)  # of three documents: 0.7076
        for values, clusters in (
            ([0.3] * 3, "def"),
            ([0.3, 0.1, 0.5, 0.3], "deef"),
            ([0.1 + 0.2, 0.3, 0.3], "def"),
        ):
            found = interval(values, list(clusters))
            assert found.mean == pytest.approx(0.3)
            assert (found.low, found.high) == (
                pytest.approx(0.3 - unseen * 0.3),
                pytest.approx(0.3 + unseen * 0.7),
            )
        beyond = interval([3.0, 3.0, 3.0], ["d", "e", "f"])
        assert (beyond.low, beyond.high) == (3.0, 3.0), "of no score in this range"

    @pytest.mark.parametrize(
        ("values", "clusters", "sentence"),
        [
            ([1.0], ["a", "b"], "do not match"),
            ([math.nan], ["a"], "finite"),
            ([math.inf, 1.0], ["a", "b"], "finite"),
        ],
    )
    def test_refuses(self, values: list[float], clusters: list[str], sentence: str) -> None:
        with pytest.raises(ValueError, match=sentence):
            interval(values, clusters)

    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(
            st.tuples(st.floats(0, 1), st.sampled_from("abcdefghijk")), min_size=1, max_size=40
        ),
        st.integers(0, 9),
    )
    def test_ends_lie_around_the_mean_and_within_the_range(
        self, rows: list[tuple[float, str]], seed: int
    ) -> None:
        values, clusters = [v for v, _ in rows], [c for _, c in rows]
        for bounds in ((0.0, 1.0), (-1.0, 1.0), None):
            found = interval(values, clusters, seed=seed, resamples=200, bounds=bounds)
            assert found.mean == pytest.approx(np.mean(values), abs=1e-12)
            assert found == interval(
                values[::-1], clusters[::-1], seed=seed, resamples=200, bounds=bounds
            )
            assert (found.low is None) == (found.high is None)
            if bounds == (0.0, 1.0):
                assert (found.low is None) == (found.clusters < 3)
            if found.low is not None:
                low, high = bounds or (0.0, math.inf)
                assert low - 1e-12 <= found.low <= found.mean <= found.high <= high + 1e-12


class TestPaired:
    def test_a_test_that_ignores_documents_rejects_too_often_where_ours_does_not(self) -> None:
        generator = np.random.default_rng(12)
        ours = naive = 0
        for trial in range(400):
            effect = np.repeat(generator.normal(0, 1, 20), 10)
            a, b = effect + generator.normal(0, 0.5, 200), np.zeros(200)
            ours += paired_test(a, b, [f"d{i // 10}" for i in range(200)], seed=trial).p <= 0.05
            naive += scipy_stats.ttest_rel(a, b).pvalue <= 0.05
        assert ours / 400 < 0.085
        assert naive / 400 > 0.3

    def test_p_without_unseen_documents_equals_scipys_permutation_test(self, monkeypatch) -> None:
        monkeypatch.setattr(sign_flips, "UNSEEN", 0.0)
        generator = np.random.default_rng(14)
        for n in (6, 10, 60):
            a, b = generator.normal(0.4, 1, n), generator.normal(0, 1, n)
            theirs = scipy_stats.permutation_test(
                (a, b),
                lambda x, y: np.mean(x - y),
                permutation_type="samples",
                n_resamples=9999,
                rng=1,
            )
            tolerance = 1e-12 if n <= sign_flips.EXACT_CLUSTERS else 0.02
            assert paired_test(a, b, [f"d{i}" for i in range(n)]).p == pytest.approx(
                theirs.pvalue, abs=tolerance
            )

    @pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
    @pytest.mark.parametrize("documents", [5, 6, 9, 14, 15, 40])
    def test_an_end_is_where_the_test_of_that_mean_reaches_its_level(self, documents, level):
        rng = np.random.default_rng(documents)
        sizes = rng.integers(1, 20, documents).astype(float)
        sums = sizes * np.round(rng.uniform(-0.3, 0.5, documents), 1)
        found = sign_flip_test(sums, sizes, level=level)
        if found.low is None:
            assert 2 / 2**documents > 1 - level
            return
        ends = ((found.low, -1e-6), (found.high, 1e-6))
        for end, out in ends[abs(found.low) == 1.0 : 2 - (abs(found.high) == 1.0)]:
            for shift, inside in ((0.0, True), (out, False)):
                moved = sign_flip_test(sums - (end + shift) * sizes, sizes)
                assert (moved.p >= 1 - level - 1e-12) == inside

    def test_samples_at_once_are_tested_as_each_alone(self) -> None:
        rng = np.random.default_rng(9)
        sizes = rng.integers(1, 9, (8, 40)).astype(float)
        sizes[0, :5] = 90.0  # outweighs the others
        sums = sizes * rng.uniform(-0.2, 0.6, (8, 40))
        sums[:, 5:10] = 0.25 * sizes[:, 5:10]  # no spread
        found = sign_flips.sign_flip_tests(
            sign_flips.flip_sets(8, np.random.default_rng(0)), sums, sizes
        )
        alone = [sign_flip_test(sums[:, k], sizes[:, k]) for k in range(40)]
        for one, other in zip(found, alone, strict=True):
            assert (one.low is None) == (other.low is None)
            assert one.p == other.p
            if one.low is not None:
                assert (one.low, one.high) == pytest.approx((other.low, other.high))

    def test_where_one_document_outweighs_the_others_nothing_is_tested(self) -> None:
        """With 14 questions beside 1 of each of five others all intervals are wide; from 20 on they
        held the truth in 77 to 94 %."""
        for questions, tested in ((10, True), (14, False), (40, False)):
            labels = [0] * questions + [1, 2, 3, 4, 5]
            values = np.linspace(0.5, 0.9, len(labels))
            found = paired_test(values, np.zeros(len(labels)), labels)
            assert (found.low is not None) == tested
            assert found.p == (2 / 64 if tested else 1.0)

    def test_p_is_below_5_percent_exactly_where_the_interval_leaves_0_out(self) -> None:
        rng = np.random.default_rng(8)
        for _ in range(600):
            labels = np.repeat(np.arange(30), rng.integers(1, 5, 30))
            labels = labels[labels < rng.integers(1, 30)].astype(np.int32)
            a, b = rng.random((2, len(labels))).round(1)
            b = np.where(rng.random(len(labels)) < rng.choice([0.0, 0.8, 1.0]), a, b)
            found = paired_test(np.minimum(1.0, a + 0.1), b, labels)
            outside = found.low is not None and not found.low <= 0.0 <= found.high
            assert (found.p < 0.05) == outside

    @pytest.mark.parametrize(
        ("difference", "clusters", "p"),
        [
            ([1.0, 1.0, 1.0], ["a", "b", "c"], 2 / 8),
            ([1.0, 1.0, 1.0], ["a", "a", "a"], 1.0),
            ([1.0, -1.0], ["a", "b"], 1.0),
            ([0.0, 0.0], ["a", "b"], 1.0),
            ([0.1, 0.2, -0.3], ["a", "b", "c"], 1.0),
            ([3.0, 1.0, -1.0], ["a", "b", "c"], 6 / 8),
            (
                [1.0] * 7 + [0.0] * 12,
                [f"d{i}" for i in range(19)],
                154 / 10_001,
            ),  # of 2 / 128 with all signs
        ],
    )
    def test_exact_by_hand(self, difference: list[float], clusters: list[str], p: float) -> None:
        found = paired_test(difference, [0.0] * len(difference), clusters)
        assert (found.p, found.difference) == (p, pytest.approx(np.mean(difference)))

    @pytest.mark.parametrize(
        ("a", "b", "low", "high"),
        [
            (
                1.0,
                0.0,
                1 - 2 * 0.52182,
                1.0,
            ),  # 1 - 0.025^(1/5) = 0.52182 of the documents may be of another kind
            (0.0, 1.0, -1.0, -1 + 2 * 0.52182),
            (0.7, 0.7, -0.52182, 0.52182),
            (0.75, 0.5, 0.25 - 1.25 * 0.52182, 0.25 + 0.75 * 0.52182),
            (
                100.0,
                0.0,
                100 - 200 * 0.52182,
                100.0,
            ),  # a scorer of one's own that counts in percent
        ],
    )
    def test_differences_that_are_all_alike_are_not_certainty(self, a, b, low, high):
        documents = [f"d{i}" for i in range(5)]
        found = paired_test([a] * 5, [b] * 5, documents)
        assert (found.low, found.high) == (
            pytest.approx(low, abs=2e-3),
            pytest.approx(high, abs=2e-3),
        )
        scale = max(1.0, a, b)
        assert found.p == pytest.approx(min(1.0, 2 * (1 + abs(a - b) / scale) ** -5))
        assert found.low <= found.difference <= found.high

    def test_an_interval_of_differences_that_are_alike_excludes_zero_where_the_test_does(
        self,
    ) -> None:
        """Of documents that all prefer one method by a whole point: significant from the sixth
        on."""
        for count in range(3, 12):
            found = paired_test([1.0] * count, [0.0] * count, [f"d{i}" for i in range(count)])
            assert (found.p <= 0.05) == (found.low > 0), count

    def test_p_is_never_zero_and_seeded(self) -> None:
        clusters = [f"d{i}" for i in range(40)]
        a = np.random.default_rng(0).normal(9, 1, 40)
        found = paired_test(a, np.zeros(40), clusters)
        assert found.p == 1 / 10_001
        assert found == paired_test(a, np.zeros(40), clusters)
        other = paired_test(a, np.zeros(40), clusters, seed=3)
        assert found.low != other.low

    def test_swapping_the_methods_turns_the_sign(self) -> None:
        a, clusters = clustered_scores(np.random.default_rng(15), 12)
        b = a[::-1]
        one, two = paired_test(a, b, clusters), paired_test(b, a, clusters)
        assert (one.difference, one.p) == (pytest.approx(-two.difference), two.p)

    def test_many_clusters_still_find_the_difference(self) -> None:
        generator = np.random.default_rng(16)
        a = generator.normal(0.02, 1, 100_000)
        found = paired_test(a, np.zeros(100_000), [f"d{i}" for i in range(100_000)])
        assert found.p < 0.001
        assert found.low > 0


class TestFamily:
    @pytest.mark.parametrize(
        ("given_p", "adjusted"),
        [
            ([], []),
            ([0.04], [0.04]),
            ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
            ([0.9, 0.8], [1.0, 1.0]),
            ([0.02, 0.02], [0.04, 0.04]),
        ],
    )
    def test_holm_by_hand(self, given_p: list[float], adjusted: list[float]) -> None:
        assert holm(given_p) == pytest.approx(adjusted)


class TestBestOfSeveral:
    def test_of_two_methods_p_is_that_of_the_paired_test(self) -> None:
        for seed in range(30):
            a, clusters = clustered_scores(np.random.default_rng(seed), 5 + seed)
            b = a[::-1]
            found = compare_with_best({"a": a, "b": b}, clusters)
            other = next(row for row in found.rows if row.name != found.best)
            assert other.p == paired_test(a, b, clusters).p

    def test_twenty_equal_methods_are_seldom_separated(self) -> None:
        """Against the best one, chosen by the data, Holm separates one in 11 % of such tables."""
        rng, labels, wrong = np.random.default_rng(2), np.arange(12, dtype=np.int32), 0
        for _ in range(60):
            ease = rng.random(12)
            columns = {str(k): (rng.random(12) < ease) * 1.0 for k in range(20)}
            wrong += len(compare_with_best(columns, labels).inseparable) < 20
        assert wrong <= 6

    def test_a_clear_loser_is_separated_and_named_with_its_interval(self) -> None:
        rng, labels = np.random.default_rng(3), np.arange(60, dtype=np.int32)
        good, equal = (rng.random((2, 60)) < 0.8) * 1.0
        found = compare_with_best({"bad": np.zeros(60), "good": good, "equal": equal}, labels)
        assert set(found.inseparable) == {"good", "equal"}
        bad = found.rows[0]
        assert bad.high < 0 < 1 - bad.p

    @pytest.mark.parametrize("documents", [7, 30])
    def test_p_is_below_5_percent_exactly_where_the_interval_leaves_0_out(
        self, documents: int
    ) -> None:
        """Bonferroni's interval around a max-type p contradicted it in a fifth of separated
        pairs."""
        rng, labels = np.random.default_rng(7), np.arange(documents, dtype=np.int32)
        separated = 0
        for _ in range(40):
            chances = np.clip(0.5 + 0.3 * rng.standard_normal(6), 0.05, 0.95)
            scores = (rng.random((documents, 6)) < chances) * 1.0
            columns = dict(zip(map(str, range(6)), scores.T, strict=True))
            for row in compare_with_best(columns, labels).rows:
                if row.low is None:
                    assert row.p >= 0.05
                    continue
                assert row.low <= row.difference <= row.high
                assert (row.p < 0.05) == (row.low > 0 or row.high < 0)
                separated += row.p < 0.05
        assert separated > 20

    def test_there_is_no_interval_where_so_few_documents_reject_no_difference(self) -> None:
        rng, labels = np.random.default_rng(3), np.arange(6, dtype=np.int32)
        scores = (rng.random((6, 10)) < 0.5) * 1.0
        found = compare_with_best(dict(zip(map(str, range(10)), scores.T, strict=True)), labels)
        others = [row for row in found.rows if row.name != found.best]
        assert {(row.low, row.high) for row in others} == {(None, None)}

    def test_intervals_of_all_pairs_hold_the_true_differences(self) -> None:
        rng, labels = np.random.default_rng(8), np.arange(40, dtype=np.int32)
        chances = np.array([0.2, 0.5, 0.6, 0.8, 0.85])
        held = 0
        for _ in range(100):
            scores = (rng.random((40, 5)) < chances) * 1.0
            found = compare_with_best(dict(zip(map(str, range(5)), scores.T, strict=True)), labels)
            truths = chances - chances[int(found.best)]
            pairs = zip(found.rows, truths, strict=True)
            held += all(row.low <= truth <= row.high for row, truth in pairs)
        assert held >= 90

    def test_two_versions_of_one_method_do_not_widen_the_intervals_of_others(self) -> None:
        """They differ in three answers. What unseen documents may add to that pair counted for
        every pair, and doubled the intervals of all."""
        rng, labels = np.random.default_rng(10), np.arange(100, dtype=np.int32)
        a, b, c = (rng.random((3, 100)) < [[0.65], [0.55], [0.45]]) * rng.uniform(0.5, 1.0, 100)
        version_of_c = c.copy()
        version_of_c[:3] += (0.3, 0.01, 0.02)
        methods = {"a": a, "b": b, "c": c}
        without = compare_with_best(methods, labels).by_name()["b"]
        beside = compare_with_best({**methods, "version of c": version_of_c}, labels).by_name()["b"]
        assert None not in (without.low, without.high, beside.low, beside.high)
        assert beside.high - beside.low < 1.2 * (without.high - without.low)


class TestSelectionBias:
    def test_of_twenty_equal_methods_it_is_what_the_best_one_exceeds_the_truth_by(self) -> None:
        """Without shrinking the means it would be a third less."""
        rng, labels = np.random.default_rng(4), np.arange(30, dtype=np.int32)
        exceeds, said = [], []
        for _ in range(30):
            scores = (rng.random((20, 30)) < 0.5) * 1.0
            exceeds.append(scores.mean(axis=1).max() - 0.5)
            said.append(selection_bias(dict(zip(map(str, range(20)), scores, strict=True)), labels))
        assert np.mean(said) == pytest.approx(np.mean(exceeds), rel=0.12)

    @pytest.mark.parametrize("methods", [2, 3])
    def test_of_few_equal_methods_it_is_no_third_too_small(self, methods: int) -> None:
        """Without shrinking the means it is about two thirds of the expected maximum of normal
        errors."""
        rng, labels, said = np.random.default_rng(6), np.arange(30, dtype=np.int32), []
        for _ in range(100):
            scores = (rng.random((methods, 30)) < 0.5) * 1.0
            columns = dict(zip(map(str, range(methods)), scores, strict=True))
            said.append(selection_bias(columns, labels))
        expected = {2: 0.5642, 3: 0.8463}[methods] * 0.5 / math.sqrt(30)
        assert 0.78 <= np.mean(said) / expected <= 1.05

    def test_without_a_choice_there_is_none(self) -> None:
        rng, labels = np.random.default_rng(5), np.arange(30, dtype=np.int32)
        scores = (rng.random(30) < 0.5) * 1.0
        assert selection_bias({"a": scores, "b": scores}, labels) == pytest.approx(0.0, abs=1e-12)
        assert selection_bias({"a": np.ones(30), "b": scores * 0.1}, labels) < 1e-12


class TestDetectable:
    @pytest.mark.parametrize("documents", [6, 8, 10, 20, 60])
    def test_a_difference_of_this_size_is_found_four_times_in_five(self, documents: int) -> None:
        """On average over first samples; the formula of many documents promised 0.28 at 6."""
        rng, found = np.random.default_rng(documents), []
        labels = np.arange(documents, dtype=np.int32)
        for _ in range(40):
            promised = detectable_difference(rng.normal(0, 0.1, documents), labels)
            if promised is None:  # fewer than three documents carry the spread
                continue
            for _ in range(6):
                values = rng.normal(promised, 0.1, documents)
                found.append(paired_test(values, np.zeros(documents), labels).p < 0.05)
        assert 0.72 <= np.mean(found) <= 0.92

    def test_a_spread_that_two_documents_carry_promises_nothing(self) -> None:
        """With one question each, promises of 0.9 at six documents were kept in a fifth."""
        assert detectable_difference([0.3, 0.0, 0.0, 0.0, 0.0, -0.3], range(6)) is None
        assert detectable_difference([0.2, -0.2, 0.1, 0.0, -0.1, 0.1], range(6)) is not None

    def test_nothing_is_promised_where_one_document_outweighs_the_others(self) -> None:
        means = [0.6, 0.6, 0.1, 0.2, 0.9, 1.0]
        assert detectable_difference(means, range(6)) is not None
        assert detectable_difference([0.6] * 39 + means, [0] * 39 + list(range(6))) is None

    def test_more_tests_detect_less(self) -> None:
        values, labels = np.random.default_rng(1).normal(0, 1, 20), [f"d{i}" for i in range(20)]
        one, ten = (detectable_difference(values, labels, tests) for tests in (1, 10))
        assert one is not None
        assert ten is not None
        assert ten > 1.25 * one

    @pytest.mark.parametrize(
        ("documents", "tests", "spread", "known"),
        [
            (5, 1, 0.3, False),
            (6, 1, 0.3, True),
            (6, 2, 0.3, False),
            (7, 2, 0.3, True),
            (6, 1, 0.95, False),
        ],
        ids=["five", "six", "six for Holm", "seven for Holm", "above 1"],
    )
    def test_nothing_is_promised_that_cannot_be_found(
        self, documents, tests, spread, known
    ) -> None:
        values = np.random.default_rng(5).normal(0, spread, documents)
        assert (
            detectable_difference(values, [f"d{i}" for i in range(documents)], tests) is not None
        ) == known

    @pytest.mark.parametrize(
        ("values", "clusters"), [([], []), ([1.0, 0.5], ["a", "a"]), ([0.0] * 8, list("abcdefgh"))]
    )
    def test_unknown_spread_is_not_zero(self, values: list[float], clusters: list[str]) -> None:
        assert detectable_difference(values, clusters) is None


class TestClusters:
    @pytest.mark.parametrize(
        ("documents", "clusters"),
        [
            ([], []),
            ([("a",), ("a",), ("b",)], ["a", "a", "b"]),
            ([("b", "c"), ("c", "d"), ("a",)], ["b", "b", "a"]),
            ([("x",), ("y",), ("y", "x")], ["x", "x", "x"]),
        ],
    )
    def test_questions_that_share_a_document_belong_together(self, documents, clusters):
        assert document_clusters(documents) == clusters

    def test_questions_without_documents_stand_alone(self) -> None:
        assert len(set(document_clusters([(), (), ("a",)]))) == 3

    @given(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=3), max_size=10), st.randoms())
    def test_order_of_questions_does_not_matter(
        self, documents: list[list[str]], random: object
    ) -> None:
        documents = [d for d in documents if d]
        order = list(range(len(documents)))
        random.shuffle(order)
        plain = document_clusters(documents)
        assert document_clusters([documents[i] for i in order]) == [plain[i] for i in order]
        for i, left in enumerate(documents):
            for j, right in enumerate(documents):
                if set(left) & set(right):
                    assert plain[i] == plain[j]
