"""The sign-flip test of a mean difference over documents, and the interval that inverts it.

    sums, sizes of documents ──► means of random halves ──► FlipTest(low, high, p)

**Null.** The mean difference is d: taken from d, each document is as likely to differ upwards as
downwards. Then flipping the sign of any documents' residuals S_g - d n_g gives an equally likely
sample. The statistic is the total of the residuals over the root of their sum of squares, which no
flip changes.

**Interval.** A set F of documents is flipped. The flipped total is as far from 0 as the observed
one exactly if d lies between the mean over F and the mean over the other documents. So p(d) is the
share of sets whose two means enclose d, and the interval holds every d with p(d) >= 0.05: its ends
are means of subsets ("typical values", J. A. Hartigan, JASA 64, 1969). p and interval cannot
contradict each other.

**What few documents did not show.** Where most documents agree, the sample says little about rare
ones that do not. Each mean may be off by half of so many unseen documents, of typical size and
with the largest possible difference:

    UNSEEN (1 - K / (0.6 G)) / K, at least 0        K = (sum of R)^2 / sum of R^2

R are the distances from the median document. K counts the documents that carry the spread: 1 where
one document differs, about 0.6 G where differences are normal. Where all documents differ by the
same amount (all ties included) nothing is known of the spread, and p and interval are those of
`_without_spread`.

**What documents that look alike did not show.** Where a document has many questions, its mean lies
close to those of the others unless its questions agree; whether a rare document is wholly other
cannot be seen in few. So each mean may also be off by half of

    RARE s (1 - s_G / s)^2, at least 0

s is the spread of questions and s_G that of the documents' means: 0 where each document has one
question, or where questions of a document agree. Without it, the interval of 10 documents of 40
questions held the true difference in 0.83 of samples where one method fails wholly in a tenth of
the documents (bench/README.md).

**One document with most of the questions.** Where the documents weigh less than two equal ones (40
questions of one, 1 of each of five others), the mean is that of the one, and the others do not show
how far it lies from the truth: 95 % intervals held it in 77 to 92 %. Nothing is tested then: p is
1, and there is no interval.

All 2^G sets are used up to EXACT_CLUSTERS documents, else DRAWS random ones and the empty one (B.
Phipson and G. K. Smyth 2010). With fewer than 6 documents no p is below 0.05, so there is no 95 %
interval. Simulations: python -m bench.coverage.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.stats.resampling import BLOCK, EQUAL, Floats, merge_clusters

EXACT_CLUSTERS = 14  # up to here all sets are used: 2^14 = 16,384
DRAWS = 10_000
EVEN_SHARE = 0.6  # K / G of normal differences
FEWEST_WEIGHED = 2.0  # documents of equal size, in which fewer say nothing of each other
RARE = 0.5  # documents, chosen by simulation
UNSEEN = 1.5  # documents, chosen by simulation: 0 covers 75 % where methods score near 0
_NO_SPREAD = 1e-12


@dataclass(frozen=True, slots=True)
class FlipTest:
    """The two-sided p of "the mean is 0", and the interval of the mean; its ends are None where the
    test rejects no mean at this level."""

    low: float | None
    high: float | None
    p: float


NOT_TESTED = FlipTest(None, None, 1.0)


def sign_flip_test(
    sums: Floats,
    sizes: Floats,
    *,
    span: float = 1.0,
    question_spread: float = 0.0,
    level: float = 0.95,
    seed: int = 0,
) -> FlipTest:
    """Test "the mean of sum / size is 0" over documents, and invert the test to an interval.

    Args:
        sums: (G,) the sum of the differences of each document.
        sizes: (G,) its number of questions.
        span: The largest difference that there can be; 1 for scores in [0, 1].
        question_spread: The standard deviation of the differences of questions; 0 makes no
            allowance for documents that look alike.
        level: Coverage of the interval.
        seed: Fixes the random sets of documents.
    """
    if one_outweighs(sizes):
        return NOT_TESTED
    means = sums / sizes
    if np.ptp(means) <= EQUAL * span:
        return _without_spread(float(means[0]), len(sums), span, level)
    generator = np.random.default_rng(seed)
    sums, sizes = merge_clusters([sums, sizes], generator)
    flips = flip_sets(len(sums), generator)
    return sign_flip_tests(
        flips,
        sums[:, None],
        sizes[:, None],
        span=span,
        question_spread=question_spread,
        level=level,
    )[0]


def sign_flip_tests(
    flips: Floats,
    sums: Floats,
    sizes: Floats,
    *,
    span: float = 1.0,
    question_spread: float | Floats = 0.0,
    level: float = 0.95,
) -> list[FlipTest]:
    """The sign-flip test in several samples that have the same number of documents, at most
    MOST_GROUPS.

    Args:
        flips: (sets, G) which documents each set flips, from `flip_sets`.
        sums: (G, samples) the sum of the differences of each document.
        sizes: (G, samples) its number of questions.
        span: The largest difference that there can be.
        question_spread: The standard deviation of the differences of questions, of all samples or
            (samples,) of each.
        level: Coverage of the intervals.

    Returns:
        The test of each sample.
    """
    unseen = unseen_weight(sums, sizes, span, question_spread)
    lows, highs = enclosed(flips @ sums, flips @ sizes, sums, sizes, unseen)
    p_values = ((lows <= 0.0) & (highs >= 0.0)).mean(axis=0)
    rank = math.ceil(len(lows) * (1.0 - level) - 1e-9) - 1
    low_ends = np.partition(lows, rank, axis=0)[rank]
    high_ends = -np.partition(-highs, rank, axis=0)[rank]
    means = sums / sizes
    tests = []
    for sample_index, (low, high) in enumerate(zip(low_ends, high_ends, strict=True)):
        if one_outweighs(sizes[:, sample_index]):
            tests.append(NOT_TESTED)
        elif np.ptp(means[:, sample_index]) <= EQUAL * span:
            tests.append(_without_spread(float(means[0, sample_index]), len(sums), span, level))
        elif math.isinf(low) or math.isinf(high):
            tests.append(FlipTest(None, None, float(p_values[sample_index])))
        else:
            low_end = max(float(low), -span)
            high_end = min(float(high), span)
            tests.append(FlipTest(low_end, high_end, float(p_values[sample_index])))
    return tests


def spread_of_questions(differences: Sequence[float] | Floats) -> float:
    """The standard deviation of the differences of questions, to the last digit the same in any
    order of theirs."""
    return float(np.sort(differences).std())


def one_outweighs(sizes: NDArray[np.number]) -> bool:
    """Whether the documents weigh less than two equal ones, so that one of them decides nearly
    alone.

    By Kish's effective number (1965), (sum of n)^2 / sum of n^2.

    Args:
        sizes: (G,) the number of questions of each document.
    """
    weights = np.asarray(sizes, dtype=np.float64)
    return bool(weights.sum() ** 2 < FEWEST_WEIGHED * (weights @ weights) * (1.0 - EQUAL))


def flip_sets(n_documents: int, generator: np.random.Generator) -> Floats:
    """Which documents each set flips: (sets, n_documents) of 0 and 1; the first set is empty.

    All sets up to EXACT_CLUSTERS documents, else DRAWS random ones. Of a set and its complement one
    is enough, so all sets are those without the last document.

    Args:
        n_documents: The number of documents.
        generator: Draws the random sets.
    """
    if n_documents <= EXACT_CLUSTERS:
        set_numbers = np.arange(2 ** (n_documents - 1))
        # Bit d of a set's number says whether the set has document d.
        bits = (set_numbers[:, None] >> np.arange(n_documents)) & 1
        return bits.astype(np.float64)
    flips = np.zeros((DRAWS + 1, n_documents))
    rows_per_block = max(1, BLOCK // n_documents)
    for start in range(1, DRAWS + 1, rows_per_block):
        n_rows = min(rows_per_block, DRAWS + 1 - start)
        bytes_of_row = math.ceil(n_documents / 8)
        packed = generator.integers(0, 256, (n_rows, bytes_of_row), dtype=np.uint8)
        flips[start : start + n_rows] = np.unpackbits(packed, axis=1)[:, :n_documents]
    return flips


def carrying_documents(sums: Floats, sizes: Floats) -> Floats:
    """How many documents carry the spread of each column: K = (sum of R)^2 / sum of R^2, 1 or
    more.

    R are the documents' distances from the median document; K is 1 where one document differs.

    Args:
        sums: (G, ...) the sums of each document.
        sizes: (G, ...) its number of questions.
    """
    distances = np.abs(sums - np.median(sums / sizes, axis=0) * sizes)
    squares = np.maximum((distances**2).sum(axis=0), 1e-300)
    return np.asarray(np.maximum(distances.sum(axis=0) ** 2 / squares, 1.0))


def unseen_weight(
    sums: Floats, sizes: Floats, span: float, question_spread: float | Floats = 0.0
) -> Floats:
    """How far documents that the sample does not show may move the total of each column.

    Two kinds are added up: UNSEEN (1 - K / (0.6 G)) / K documents (K of `carrying_documents`) of
    typical size and with the largest difference, none where the spread is that of normal
    differences; and those of `_rare_weight`.

    Args:
        sums: (G, ...) the sums of each document.
        sizes: (G, ...) its number of questions.
        span: The largest difference of a question.
        question_spread: The standard deviation of the differences of questions, of all columns or
            of each.
    """
    n_carrying = carrying_documents(sums, sizes)
    typical_size = (sizes**2).sum(axis=0) / sizes.sum(axis=0)
    n_carrying_if_normal = EVEN_SHARE * sizes.sum(axis=0) / typical_size
    # 0 where the spread is that of normal values.
    lacking_share = np.maximum(1.0 - n_carrying / n_carrying_if_normal, 0.0)
    of_uneven_spread = UNSEEN * span * typical_size * lacking_share / n_carrying
    return np.asarray(of_uneven_spread + _rare_weight(sums, sizes, question_spread))


def _rare_weight(sums: Floats, sizes: Floats, question_spread: float | Floats) -> Floats:
    """How far a rare document may move the total, where those of the sample look alike.

    RARE s (1 - s_G / s)^2 for a document of typical size: s is the spread of questions, s_G that of
    the documents' means, sqrt(G / (G - 1) * sum_g (S_g - m n_g)^2 / sum_g n_g^2).

    Args:
        sums: (G, ...) the sums of each document, S_g.
        sizes: (G, ...) its number of questions, n_g.
        question_spread: s, of all columns or of each.
    """
    n_documents = len(sums)
    squared_sizes = (sizes**2).sum(axis=0)
    residuals = sums - sums.sum(axis=0) / sizes.sum(axis=0) * sizes
    freedom = max(n_documents - 1, 1)  # one document has no residual
    variance = (residuals**2).sum(axis=0) / squared_sizes * n_documents / freedom
    spread_of_documents = np.sqrt(variance)
    ratio = spread_of_documents / np.maximum(question_spread, _NO_SPREAD)
    likeness = np.maximum(1.0 - ratio, 0.0)
    typical_size = squared_sizes / sizes.sum(axis=0)
    return np.asarray(RARE * question_spread * typical_size * likeness**2)


def enclosed(
    flipped_sums: Floats, flipped_sizes: Floats, sums: Floats, sizes: Floats, unseen: Floats
) -> tuple[Floats, Floats]:
    """For each set of flipped documents, the lowest and the highest mean that it does not speak
    against.

    These are the mean over the flipped documents and that over the others, each moved outwards by
    half of what unseen documents may add.

    Args:
        flipped_sums: (sets, samples) the sum over the flipped documents.
        flipped_sizes: (sets, samples) their number of questions.
        sums: (G,) or (G, samples) the sums of each document.
        sizes: Of the same shape, its number of questions.
        unseen: () or (samples,) what unseen documents may add, from `unseen_weight`.

    Returns:
        Two arrays (sets, samples); -inf and inf for the empty set.
    """
    half_unseen = unseen / 2.0
    other_sums = sums.sum(axis=0) - flipped_sums
    other_sizes = sizes.sum(axis=0) - flipped_sizes
    flipped_count = np.maximum(flipped_sizes, 1e-300)  # no division by 0 for the empty set
    other_count = np.maximum(other_sizes, 1e-300)
    lows = np.minimum(
        (flipped_sums - half_unseen) / flipped_count, (other_sums - half_unseen) / other_count
    )
    highs = np.maximum(
        (flipped_sums + half_unseen) / flipped_count, (other_sums + half_unseen) / other_count
    )
    empty = (flipped_sizes <= 0.0) | (other_sizes <= 0.0)
    lows[np.abs(lows) < EQUAL] = 0.0  # means that differ from 0 by the order of additions
    highs[np.abs(highs) < EQUAL] = 0.0
    return np.where(empty, -np.inf, lows), np.where(empty, np.inf, highs)


def _without_spread(mean: float, n_documents: int, span: float, level: float) -> FlipTest:
    """The test where all documents differ by the same amount.

    A kind of document that makes up the share q of all is missing from G of them with probability
    (1 - q)^G. So many unseen documents may differ by as much as they can, which moves the mean by q
    times its distance to that bound. Where every document is won wholly by one method, p is that of
    the sign test, 2 / 2^G.

    Args:
        mean: The difference of each document.
        n_documents: The number of documents, G.
        span: The largest difference that there can be.
        level: Coverage of the interval.
    """
    distance = abs(mean) + span
    p = min(1.0, 2.0 * (span / distance) ** n_documents)
    unseen_share = 1.0 - ((1.0 - level) / 2.0) ** (1.0 / n_documents)
    return FlipTest(mean - unseen_share * (mean + span), mean + unseen_share * (span - mean), p)
