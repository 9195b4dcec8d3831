"""How often the 95 % intervals hold the truth, how wide they are, and what the tests find.

    python -m bench.coverage [--trials 300] [--tables 10000] [--values scores --documents 6,10]

One table, a row for each kind of value and number of documents, over all settings: questions per
document (1, 5, 40, 1 to 11, 1 to 40, lognormal up to 40), correlation within documents (0, 0.1, 0.3,
0.7), scores of 0 and 1 or like F1, and means near 0, in the middle and near 1.

    coverage    share of intervals that hold the truth, of those shown: lowest of all settings; the
                lowest of the five lowest, with ten times as many fresh samples; mean
    shown       share of samples that get an interval
    width       median, mean and largest width over that of the true standard error with Student's t
    size        largest and mean share of p < 0.05 between equal methods
    power       mean share of p < 0.05 at the difference that `detectable` promises for 80 %, over
                all promises; and the share of samples that get one

The lowest of hundreds of settings lies below the truth by luck: with 300 trials it would be 0.913
if each of 192 covered exactly 0.95. So the lowest are measured again. A line has random numbers of
its own: --values and --documents give the same lines as the whole table.

Then: of --tables made-up tables of two methods, how many have p < 0.05 and an interval that holds 0,
or the other way round; how often any of 20 equal methods is separated from the best; and by how much
the best of several is too high, beside what `selection_bias` says.
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import stats

from harness.stats.best_of_several import compare_with_best, selection_bias
from harness.stats.bootstrap import Interval, interval, per_cluster
from harness.stats.paired_tests import detectable_difference, paired_test
from harness.stats.resampling import Floats
from harness.stats.sign_flips import FlipTest, flip_sets, sign_flip_tests

SIZES = ("1", "5", "40", "1-11", "1-40", "lognormal")
CORRELATIONS = (0.0, 0.1, 0.3, 0.7)
ONE_METHOD = ((0.03,), (0.3,), (0.5,), (0.97,))
PAIRS = ((0.5, 0.5), (0.5, 0.4), (0.05, 0.01), (0.97, 0.93), (0.99, 0.9), (0.8, 0.6))
SIGMAS = (0.5, 1.0, 1.5, 2.0)
AGAIN = 5  # settings of lowest coverage that are measured again
DIFFICULTY = 0.2  # standard deviation of what a document adds to the chance of every method
SAMPLES_AT_ONCE = 32  # whose arrays of 10,001 sets fit in the cache of a core
F1_MEAN = 0.7  # mean of a score like F1 that is not 0: 1 in 40 %, else between 0.1 and 0.9


@dataclass(frozen=True)
class Setting:
    """How samples are made.

    Args:
        sizes: How many questions each document has, one of SIZES.
        correlation: How much scores within a document agree, from 0 to 1.
        means: Mean scores of one method, or of two.
        like_f1: Whether scores also lie between 0 and 1.
        sigma: Standard deviation of the logarithm of costs.
    """

    sizes: str
    correlation: float
    means: tuple[float, ...] = ()
    like_f1: bool = False
    sigma: float = 0.0


@dataclass
class Row:
    """What was found in one setting.

    Args:
        coverage: Share of the shown intervals that hold the truth.
        shown: Share of samples that get an interval.
        width: Mean width over that of the true standard error.
        size: Share of p < 0.05 where two methods are equal.
        power: Share of p < 0.05 at the difference that was promised.
        promised: Share of samples that get such a promise.
    """

    coverage: float
    shown: float
    width: float
    size: float = math.nan
    power: float = math.nan
    promised: float = math.nan


def draw_question_counts(kind: str, documents: int, rng: np.random.Generator) -> Floats:
    """Draw how many questions each document has.

    Args:
        kind: "lognormal", one number such as "5", or a range such as "1-40".
        documents: How many documents.
        rng: Draws the numbers.
    """
    if kind == "lognormal":
        return np.clip(np.round(rng.lognormal(1.5, 1.0, documents)), 1, 40)
    low, _, high = kind.partition("-")
    return rng.integers(int(low), int(high or low) + 1, documents).astype(np.float64)


def labels_of(counts: Floats) -> np.ndarray:
    """The number of the document of each question: [2, 1] questions -> [0, 0, 1]."""
    return np.repeat(np.arange(len(counts)), counts.astype(int)).astype(np.int32)


def draw_scores(
    mean: float, correlation: float, like_f1: bool, labels: np.ndarray, rng: np.random.Generator
) -> Floats:
    """Draw scores, of which the share `mean` is not 0; the chance of a document is drawn from a
    beta distribution.

    Args:
        mean: Share of scores that are not 0.
        correlation: How much scores within a document agree.
        like_f1: Whether scores that are not 0 also lie between 0 and 1.
        labels: The number of the document of each question.
        rng: Draws the scores.
    """
    chance = np.full(len(labels), mean)
    if correlation:
        concentration = (1 - correlation) / correlation
        n_documents = labels.max() + 1
        chance_of_document = rng.beta(mean * concentration, (1 - mean) * concentration, n_documents)
        chance = chance_of_document[labels]
    scores = (rng.random(len(labels)) < chance).astype(np.float64)
    if like_f1:  # of those that are not 0, 40 % stay 1
        partial_scores = rng.uniform(0.1, 0.9, len(labels))
        scores *= np.where(rng.random(len(labels)) < 0.4, 1.0, partial_scores)
    return scores


def mean_of_scores_above_0(setting: Setting) -> float:
    """The mean of a score that is not 0."""
    if setting.like_f1:
        return F1_MEAN
    return 1.0


def true_error(values: Floats, truth: float, labels: np.ndarray) -> float:
    """The squared error of a sample's mean around the truth, by document.

    Args:
        values: The scores of the sample.
        truth: The mean that is true.
        labels: The number of the document of each score.
    """
    residuals = np.bincount(labels, weights=values - truth)
    return float((residuals**2).sum()) / len(values) ** 2


def row_of_intervals(
    found: Sequence[Interval | FlipTest], errors: list[float], truth: float, documents: int
) -> Row:
    """Coverage, shown share and width of the intervals of one setting.

    The width is the mean one over that of the true standard error with Student's t. Where no
    sample shows an interval, coverage and width are NaN.

    Args:
        found: The interval, or the test with one, of each sample.
        errors: The squared error of each sample's mean.
        truth: What the intervals should hold.
        documents: How many documents a sample has.
    """
    holds_truth: list[bool] = []
    widths: list[float] = []
    for interval_or_test in found:
        low = interval_or_test.low
        high = interval_or_test.high
        if low is None or high is None:
            continue
        holds_truth.append(low - 1e-12 <= truth <= high + 1e-12)  # but for rounding
        widths.append(high - low)
    if not holds_truth:
        return Row(coverage=math.nan, shown=0.0, width=math.nan)
    true_standard_error = math.sqrt(np.mean(errors))
    true_width = 2 * stats.t.ppf(0.975, documents - 1) * true_standard_error
    return Row(
        coverage=float(np.mean(holds_truth)),
        shown=len(holds_truth) / len(found),
        width=float(np.mean(widths)) / true_width,
    )


def measure_scores(setting: Setting, documents: int, trials: int, rng: np.random.Generator) -> Row:
    """Measure the intervals of one method's mean score in one setting, over `trials` samples."""
    share_above_0 = setting.means[0]
    true_mean = share_above_0 * mean_of_scores_above_0(setting)
    intervals: list[Interval] = []
    errors: list[float] = []
    for _ in range(trials):
        labels = labels_of(draw_question_counts(setting.sizes, documents, rng))
        scores = draw_scores(share_above_0, setting.correlation, setting.like_f1, labels, rng)
        intervals.append(interval(scores, labels))
        errors.append(true_error(scores, true_mean, labels))
    return row_of_intervals(intervals, errors, true_mean, documents)


def draw_scores_of_two_methods(
    setting: Setting, labels: np.ndarray, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Draw the scores of two methods on the same questions: (scores of a, scores of b)."""
    a, b = setting.means
    return (
        draw_scores(a, setting.correlation, setting.like_f1, labels, rng),
        draw_scores(b, setting.correlation, setting.like_f1, labels, rng),
    )


@dataclass(frozen=True)
class Samples:
    """Samples of the differences of two methods.

    Args:
        sums: (documents, samples), the sum of differences of each document.
        sizes: (documents, samples), the questions of each document.
        question_spreads: (samples,), the standard deviation of the differences of questions.
        errors: (samples,), the squared error of each sample's mean.
    """

    sums: Floats
    sizes: Floats
    question_spreads: Floats
    errors: Floats


def draw_samples(setting: Setting, documents: int, count: int, rng: np.random.Generator) -> Samples:
    """Draw `count` samples of the differences of two methods, each of documents that are drawn
    anew."""
    truth = true_difference(setting)
    sums = np.empty((documents, count))
    counts = np.empty((documents, count))
    question_spreads = np.empty(count)
    errors = np.empty(count)
    for sample in range(count):
        labels = labels_of(draw_question_counts(setting.sizes, documents, rng))
        scores_a, scores_b = draw_scores_of_two_methods(setting, labels, rng)
        differences = scores_a - scores_b
        sums[:, sample], counts[:, sample] = per_cluster(differences, labels)
        question_spreads[sample] = differences.std()
        errors[sample] = true_error(differences, truth, labels)
    return Samples(sums=sums, sizes=counts, question_spreads=question_spreads, errors=errors)


def true_difference(setting: Setting) -> float:
    """The difference of the two methods' means that is true."""
    return (setting.means[0] - setting.means[1]) * mean_of_scores_above_0(setting)


def sign_flip_tests_of(sums: Floats, counts: Floats, question_spreads: Floats) -> list[FlipTest]:
    """The test of each sample, as `paired_test` makes it, computed in blocks of samples.

    Args:
        sums: (documents, samples), the sum of differences of each document.
        counts: (documents, samples), the questions of each document.
        question_spreads: (samples,), the standard deviation of the differences of questions.
    """
    flips = flip_sets(len(sums), np.random.default_rng(0))
    tests = []
    for start in range(0, sums.shape[1], SAMPLES_AT_ONCE):
        chosen = slice(start, start + SAMPLES_AT_ONCE)
        tests += sign_flip_tests(
            flips,
            sums[:, chosen],
            counts[:, chosen],
            question_spread=question_spreads[chosen],
        )
    return tests


def measure_differences(
    setting: Setting, documents: int, trials: int, rng: np.random.Generator
) -> Row:
    """Measure the intervals of the difference of two methods in one setting; where they are equal,
    also the size of the test."""
    samples = draw_samples(setting, documents, trials, rng)
    tests = sign_flip_tests_of(samples.sums, samples.sizes, samples.question_spreads)
    truth = true_difference(setting)
    row = row_of_intervals(tests, list(samples.errors), truth, documents)
    if truth == 0.0:
        row.size = share_rejected(tests)
    return row


def share_rejected(tests: list[FlipTest]) -> float:
    """The share of tests with p < 0.05."""
    return float(np.mean([test.p < 0.05 for test in tests]))


def promised_power(
    setting: Setting, documents: int, trials: int, rng: np.random.Generator
) -> tuple[float, float]:
    """What the promises of `detectable_difference` are worth in one setting.

    Returns:
        (share of p < 0.05 in samples that are shifted by what another sample was promised; share of
        samples that get a promise).
    """
    n_promised_to = max(10, trials // 20)
    others = draw_samples(setting, documents, 5 * n_promised_to, rng)
    powers: list[float] = []
    for _ in range(n_promised_to):
        labels = labels_of(draw_question_counts(setting.sizes, documents, rng))
        a, b = draw_scores_of_two_methods(setting, labels, rng)
        promised = detectable_difference(a - b, labels)
        if promised is None:
            continue
        drawn = rng.choice(5 * n_promised_to, SAMPLES_AT_ONCE, replace=False)
        counts = others.sizes[:, drawn]
        shifted_sums = others.sums[:, drawn] + promised * counts
        tests = sign_flip_tests_of(shifted_sums, counts, others.question_spreads[drawn])
        powers.append(share_rejected(tests))
    if not powers:
        return math.nan, 0.0
    return float(np.mean(powers)), len(powers) / n_promised_to


def measure_costs(setting: Setting, documents: int, trials: int, rng: np.random.Generator) -> Row:
    """Measure the intervals of the mean of lognormal costs in one setting, over `trials` samples.

    The logarithm of a cost has a part that all questions of a document share.
    """
    sigma = setting.sigma
    correlation = setting.correlation
    true_mean = math.exp(sigma**2 / 2)  # of a lognormal distribution
    intervals: list[Interval] = []
    errors: list[float] = []
    for trial in range(trials):
        labels = labels_of(draw_question_counts(setting.sizes, documents, rng))
        document_part = rng.standard_normal(documents)[labels]
        own_part = rng.standard_normal(len(labels))
        logs = math.sqrt(correlation) * document_part + math.sqrt(1 - correlation) * own_part
        costs = np.exp(sigma * logs)
        intervals.append(interval(costs, labels, seed=trial, bounds=None, resamples=500))
        errors.append(true_error(costs, true_mean, labels))
    return row_of_intervals(intervals, errors, true_mean, documents)


def settings_of(what: str) -> list[Setting]:
    """All settings of a kind of value: "scores", "differences" or "costs"."""
    if what == "costs":
        grid = product(SIZES, (0.0, 0.5), SIGMAS)
        return [Setting(kind, correlation, sigma=sigma) for kind, correlation, sigma in grid]
    means: Sequence[tuple[float, ...]] = ONE_METHOD
    if what == "differences":
        means = PAIRS
    return [Setting(*one) for one in product(SIZES, CORRELATIONS, means, (False, True))]


MEASURES = {
    "scores": measure_scores,
    "differences": measure_differences,
    "costs": measure_costs,
}


def measured_line(what: str, documents: int, trials: int) -> str:
    """Measure all settings of a kind of value, then the AGAIN ones with the lowest coverage again
    with ten times as many fresh samples; the line of the table.

    Of two equal methods, whose row has the size of the test, the power of what is promised is
    measured, too.

    Args:
        what: "scores", "differences" or "costs".
        documents: How many documents a sample has.
        trials: How many samples a setting gets.
    """
    rng = np.random.default_rng(documents)
    measure = MEASURES[what]
    settings = settings_of(what)
    rows = [measure(setting, documents, trials, rng) for setting in settings]
    coverage = column(rows, "coverage")
    if np.isnan(coverage).all():
        return f"{what:12}{documents:6}   no interval is shown"
    lowest_settings = [settings[place] for place in np.argsort(coverage)[:AGAIN]]
    measured_again = [
        measure(setting, documents, 10 * trials, rng).coverage for setting in lowest_settings
    ]
    for row, setting in zip(rows, settings, strict=True):
        methods_are_equal = not math.isnan(row.size)
        if methods_are_equal:
            row.power, row.promised = promised_power(setting, documents, trials, rng)
    return table_line(what, documents, rows, float(np.nanmin(measured_again)))


def count_contradictions(tables: int, rng: np.random.Generator) -> int:
    """How many of so many made-up tables of two methods have a p and an interval that say different
    things of a difference of 0."""
    count = 0
    for _ in range(tables):
        documents = int(rng.integers(1, 60))
        kind = str(rng.choice(SIZES))
        correlation = float(rng.choice(CORRELATIONS))
        labels = labels_of(draw_question_counts(kind, documents, rng))
        means = PAIRS[rng.integers(len(PAIRS))]
        like_f1 = bool(rng.random() < 0.5)
        setting = Setting(kind, correlation, means, like_f1)
        scores_a, scores_b = draw_scores_of_two_methods(setting, labels, rng)
        is_tie = rng.random(len(labels)) < rng.choice([0.0, 0.8, 1.0])
        test = paired_test(scores_a, np.where(is_tie, scores_a, scores_b), labels)
        shows_interval = test.low is not None and test.high is not None
        leaves_out_0 = shows_interval and not test.low <= 0.0 <= test.high
        count += leaves_out_0 != (test.p < 0.05)
    return count


def share_of_family_errors(
    methods: int, documents: int, trials: int, rng: np.random.Generator
) -> float:
    """How often any of several equal methods is called worse than the best, as a share of the
    trials.

    Args:
        methods: How many methods.
        documents: How many documents, of one question each.
        trials: How many tables are made.
        rng: Draws them.
    """
    n_wrong = 0
    labels = np.arange(documents, dtype=np.int32)
    for _ in range(trials):
        chance_of_document = rng.beta(1, 1, documents)
        scores_of_methods: dict[str, Floats] = {}
        for method in range(methods):
            is_right = rng.random(documents) < chance_of_document
            scores_of_methods[str(method)] = is_right * 1.0
        comparison = compare_with_best(scores_of_methods, labels)
        some_are_separated = len(comparison.inseparable) < methods
        n_wrong += some_are_separated
    return n_wrong / trials


@dataclass(frozen=True)
class JointIntervals:
    """Intervals of the differences of several methods from the best one.

    Args:
        coverage: In how many of the tables all intervals hold the true differences, as a share.
        contradictions: How many intervals leave 0 out beside a p of 0.05 or more, or the reverse.
        separated: How many methods are separated from the best one, as a share.
    """

    coverage: float
    contradictions: int
    separated: float


def draw_scores_of_several_methods(
    methods: int, documents: int, spread: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Draw scores of 0 and 1 of several methods, which share how hard each document is.

    Args:
        methods: How many.
        documents: Of one question each.
        spread: Standard deviation of the methods' chances, around 0.5.
        rng: Draws them.

    Returns:
        The true mean of each method, (methods,), and the scores, (documents, methods).
    """
    chances = np.clip(0.5 + spread * rng.standard_normal(methods), 0.05, 0.95)
    # The true means are those over as good as all documents.
    difficulty_of_all = rng.normal(0.0, DIFFICULTY, (20_000, 1))
    means = np.clip(chances + difficulty_of_all, 0.0, 1.0).mean(axis=0)
    difficulty = rng.normal(0.0, DIFFICULTY, (documents, 1))
    is_right = rng.random((documents, methods)) < np.clip(chances + difficulty, 0.0, 1.0)
    return means, is_right.astype(np.float64)


def measure_joint_intervals(
    methods: int, documents: int, spread: float, trials: int, rng: np.random.Generator
) -> JointIntervals:
    """Compare several methods with the best one in made-up tables of scores of 0 and 1.

    Args:
        methods: How many.
        documents: Of one question each, whose difficulty all methods share.
        spread: Standard deviation of the methods' chances, around 0.5.
        trials: How many tables are made.
        rng: Draws them.
    """
    n_tables_that_hold = 0
    n_contradictions = 0
    n_separated = 0
    labels = np.arange(documents, dtype=np.int32)
    for _ in range(trials):
        means, scores = draw_scores_of_several_methods(methods, documents, spread, rng)
        scores_of_methods = {str(method): scores[:, method] for method in range(methods)}
        comparison = compare_with_best(scores_of_methods, labels)
        mean_of_best = means[int(comparison.best)]
        all_hold = True
        for method, row in enumerate(comparison.rows):
            if row.name == comparison.best or row.low is None or row.high is None:
                continue
            true_difference_from_best = float(means[method] - mean_of_best)
            all_hold = all_hold and row.low <= true_difference_from_best <= row.high
            leaves_out_0 = row.low > 0.0 or row.high < 0.0
            is_separated = row.p < 0.05
            n_contradictions += leaves_out_0 != is_separated
            n_separated += is_separated
        n_tables_that_hold += all_hold
    return JointIntervals(
        coverage=n_tables_that_hold / trials,
        contradictions=n_contradictions,
        separated=n_separated / trials / (methods - 1),
    )


def measure_selection_bias(
    methods: int, documents: int, spread: float, trials: int, rng: np.random.Generator
) -> tuple[float, float]:
    """(by how much the best of several methods is too high, what `selection_bias` says of that),
    means over samples of scores of 0 and 1.

    Args:
        methods: How many.
        documents: Of one question each, whose difficulty all methods share.
        spread: Standard deviation of the methods' chances, around 0.5.
        trials: Samples.
        rng: Draws them.
    """
    true_biases: list[float] = []
    estimated_biases: list[float] = []
    labels = np.arange(documents, dtype=np.int32)
    for _ in range(trials):
        true_means, scores = draw_scores_of_several_methods(methods, documents, spread, rng)
        best = int(scores.mean(axis=0).argmax())
        true_biases.append(float(scores[:, best].mean() - true_means[best]))
        scores_of_methods = {str(method): scores[:, method] for method in range(methods)}
        estimated_biases.append(selection_bias(scores_of_methods, labels))
    return float(np.mean(true_biases)), float(np.mean(estimated_biases))


def column(rows: list[Row], name: str) -> Floats:
    """The attribute `name` of each row, as an array."""
    return np.array([getattr(row, name) for row in rows])


def table_line(what: str, documents: int, rows: list[Row], lowest: float) -> str:
    """The line of the table for a kind of value and number of documents; the size of the test is
    left out where no row has one, and the power of promises where there are none.

    Args:
        what: The kind of value.
        documents: How many documents.
        rows: What was found in each setting.
        lowest: The lowest coverage of the lowest settings, measured again.
    """
    coverage, shown, width = (column(rows, name) for name in ("coverage", "shown", "width"))
    text = f"{what:12}{documents:6}{np.nanmin(coverage):10.3f}{lowest:7.3f}"
    text += f"{np.nanmean(coverage):7.3f}{shown.mean():7.2f}"
    text += f"{np.nanmedian(width):8.2f}{np.nanmean(width):6.2f}{np.nanmax(width):6.2f}"
    size, power, promised = (column(rows, name) for name in ("size", "power", "promised"))
    if np.isnan(size).all():
        return text
    text += f"{np.nanmax(size):9.3f}{np.nanmean(size):7.3f}"
    if np.nansum(promised) == 0.0:
        return text
    mean_power_of_promises = np.nansum(power * promised) / np.nansum(promised)
    return text + f"{mean_power_of_promises:8.2f}{np.nanmean(promised):6.2f}"


def main() -> None:
    """Print the whole table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--values", default="scores,costs,differences", help="kinds of values")
    parser.add_argument("--documents", default="3,4,5,6,8,10,20,30,50,100,200")
    options = parser.parse_args()
    print(f"{options.trials} trials of each setting")
    print(
        f"{'':12}documents  coverage             shown   width              size         power promised"
    )
    print(f"{'':12}         lowest  again   mean         median mean  most   largest   mean   mean")
    for what in filter(None, options.values.split(",")):
        for documents in map(int, options.documents.split(",")):
            print(measured_line(what, documents, options.trials), flush=True)
    rng = np.random.default_rng(1)
    if options.tables:
        count = count_contradictions(options.tables, rng)
        print(f"p and interval disagree in {count} of {options.tables} tables", flush=True)
        for documents in (10, 30, 100):
            share = share_of_family_errors(20, documents, options.trials, rng)
            print(f"any of 20 equal methods separated, {documents} documents: {100 * share:.1f} %")
        for methods, documents, spread in product((3, 5, 20), (10, 30, 100), (0.0, 0.1, 0.3)):
            joint = measure_joint_intervals(methods, documents, spread, options.trials, rng)
            print(
                f"{methods} methods, spread {100 * spread:.0f}, {documents} documents:"
                f" all intervals hold {joint.coverage:.3f}, {100 * joint.separated:.0f} % separated,"
                f" {joint.contradictions} contradictions",
                flush=True,
            )
        for methods, documents, spread in product((2, 3, 5, 20), (30, 100), (0.0, 0.1)):
            truth, said = measure_selection_bias(methods, documents, spread, options.trials, rng)
            which = (
                f"the best of {methods} methods, spread {100 * spread:.0f}, {documents} documents"
            )
            print(f"{which}: {100 * truth:.1f} points too high, {100 * said:.1f} said", flush=True)


if __name__ == "__main__":
    main()
