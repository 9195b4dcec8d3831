"""A paired comparison that may be looked at after every document, and stopped whenever it is
settled.

    race = PairedRace(sizes, finite=False)       sizes: questions of each cluster, in the random order of the run
    race.add(total)                              the sum of a - b over the next cluster's questions
    race.p, race.interval(0.05), race.mean       valid at every moment, whatever rule stops the run

An ordinary test holds for one look at a number of questions fixed before; looked at after every
question and stopped at the first p below 5 %, it is wrong far more often. This one bets against
each candidate mean difference d: its capital is a nonnegative martingale if d is the true one, so
it ever reaches 1 / alpha with probability alpha at most (J. Ville 1939). The interval holds every d
whose capital has not: a confidence sequence.

**Source.** I. Waudby-Smith and A. Ramdas, "Estimating means of bounded random variables by
betting", JRSS B 86(1), 2024 (arXiv 2010.09686): the hedged capital process and Theorem 3 for its
confidence sequence, section 5 for sampling without replacement, and the mixture over a grid of
constant bets ("diversified Kelly") for the bets.

With cluster g of size n_g and sum S_g of differences in [-n_g, n_g], let R_g(d) = S_g - d n_g. If d
is the mean over questions, sum S_g / sum n_g, then R has mean 0 over clusters, for sizes as unequal
as they may be: a ratio, linearised exactly. Let m be the largest size. The bet of the fraction f
that the mean is above d multiplies the capital by

    1 + f (R_g(d) - c) / (m (1 + d) + c)          which is at least 1 - f

where c is what the next R has as its mean if d is true. It decreases in d, so the candidates that
are not rejected are an interval. The other side is the same with -S and -d; each side has half of
alpha (hedging).

finite=False   clusters as draws from a population of documents like these: c = 0. What `harness compare` is about. It
               assumes that no cluster of the population is larger than the largest of the data set.
finite=True    clusters in random order without replacement, and nothing beyond them: c = -(sum of the R so far) /
               (number of clusters left), and m is the largest size left. It says what the full
               table would show, which is known exactly once all clusters are used.

With clusters of one this equals, to rounding, the capital of `betting_mart` in the authors' package
confseq for the same bets (docs/guide.md#duel). Clusters of very different sizes cost power, not
validity (where no unseen one is larger): bets follow the largest one.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harness.stats.resampling import Floats

FRACTIONS = (0.06, 0.12, 0.25, 0.5, 0.98)
"""The bets of the mixture. Equal shares of the capital cost at most log 5 of its logarithm against
the best of them."""
STEP = 0.0025  # between candidates: an end of an interval is rounded outwards by a quarter of a point at most
_ROUNDING_TOLERANCE = 1e-12  # smaller differences are rounding errors


class _OneSidedBets:
    """The capital of bets that a mean difference is above each of some candidate values.

    Candidates and totals are matched element by element, so that one object also runs many
    simulations at once.

    Attributes:
        candidates: The candidate values.
        largest_log_capital: For each candidate, the logarithm of the largest capital so far.
    """

    def __init__(self, candidates: Floats) -> None:
        """Begin with a capital of 1 for each of the candidates, an array of any shape."""
        self.candidates = candidates
        # A first axis for the fractions that are bet; each starts with a capital of 1, so log 0.
        self._fractions = np.asarray(FRACTIONS).reshape(-1, *[1] * candidates.ndim)
        self._log_capital_by_fraction: Floats = np.zeros((len(FRACTIONS), *candidates.shape))
        self.largest_log_capital: Floats = np.zeros(candidates.shape)

    def add(self, total: Floats, size: Floats, expected: Floats, largest: Floats) -> None:
        """Bet on the next cluster: updates the capital and `largest_log_capital`.

        For a candidate d and each fraction f that is bet, the capital is multiplied by

            1 + f (total - d size - expected) / (largest (1 + d) + expected)          at least 1 - f

        The bet is left out (a gain of 0) where it has nothing to lose: there the candidate is the
        lowest possible mean.

        Args:
            total: The sum of differences over the cluster's questions.
            size: How many questions it has.
            expected: The mean of (total - d size) if d is true, of the candidates' shape; 0 where
                clusters are drawn from a population.
            largest: The size of the largest cluster that there may be.
        """
        largest_loss = largest * (1.0 + self.candidates) + expected
        can_lose = largest_loss > _ROUNDING_TOLERANCE
        gain = total - self.candidates * size - expected
        relative_gain = gain / np.where(can_lose, largest_loss, 1.0)
        relative_gain = np.maximum(relative_gain, -1.0)  # less is a rounding error
        relative_gain = np.where(can_lose, relative_gain, 0.0)
        self._log_capital_by_fraction += np.log1p(self._fractions * relative_gain)
        # The logarithm of the mean capital of all fractions, without overflow.
        largest_log = self._log_capital_by_fraction.max(axis=0)
        log_of_mean = largest_log + np.log(
            np.exp(self._log_capital_by_fraction - largest_log).mean(axis=0)
        )
        self.largest_log_capital = np.maximum(self.largest_log_capital, log_of_mean)

    def exclude(self, least_possible: Floats | float) -> None:
        """Reject every candidate below `least_possible`, the least mean that is still possible: its
        `largest_log_capital` becomes infinite."""
        self.largest_log_capital = np.where(
            self.candidates < least_possible - _ROUNDING_TOLERANCE, np.inf, self.largest_log_capital
        )


class PairedRace:
    """A sequential test of the mean of a - b: takes the sums of differences cluster by cluster, and
    says at every moment what may be concluded so far.

    Attributes:
        clusters: How many clusters were added.
    """

    def __init__(
        self,
        sizes: Sequence[int] | Floats,
        *,
        finite: bool = False,
        candidates: Floats | None = None,
    ) -> None:
        """Begin without a cluster.

        Args:
            sizes: (G,) questions of each cluster in the order of the run, all at least 1.
            finite: Whether the conclusions are about these clusters alone; else they are about a
                population that these are drawn from.
            candidates: Mean differences that are tested, by default every STEP from -1 to 1.
        """
        self.sizes = np.asarray(sizes, dtype=np.float64)
        self.finite = finite
        if candidates is None:
            steps = round(1.0 / STEP)
            candidates = np.arange(-steps, steps + 1) / steps
        self._above = _OneSidedBets(candidates)
        self._below = _OneSidedBets(-candidates)
        # At g the largest of the sizes g, g + 1, ...
        self._largest_left = np.maximum.accumulate(self.sizes[::-1], axis=0)[::-1]
        self.clusters = 0
        self._difference_sum: Floats = np.zeros(())
        self._n_questions: Floats = np.zeros(())

    def add(self, difference_sum: float | Floats) -> None:
        """Add the next cluster: bet on it that the mean is above and that it is below each
        candidate. With `finite`, means are excluded too that the questions left cannot lead to.

        A bet against d needs the mean that (sum - d questions) of the next cluster has if d is
        true: 0 for draws from a population; with `finite`, minus the sum of these values so far,
        shared among the clusters left.

        Args:
            difference_sum: The sum of a - b over the cluster's questions.

        Raises:
            ValueError: Scores in [0, 1] cannot have such a sum.
        """
        n_in_cluster = self.sizes[self.clusters]
        cluster_sum = np.asarray(difference_sum, dtype=np.float64)
        if not (np.abs(cluster_sum) <= n_in_cluster * (1.0 + 1e-9)).all():
            raise ValueError(
                f"a sum of {difference_sum} over {n_in_cluster:g} questions: scores must lie in [0, 1]"
            )
        largest_size = self._largest_left[0]  # of all clusters
        if self.finite:
            largest_size = self._largest_left[self.clusters]
        # The bets that the mean is below d are bets that that of b - a is above -d.
        for bets, sign in ((self._above, 1.0), (self._below, -1.0)):
            expected = np.zeros(())
            if self.finite:
                centred_sum = sign * self._difference_sum - bets.candidates * self._n_questions
                expected = -centred_sum / (len(self.sizes) - self.clusters)
            bets.add(sign * cluster_sum, n_in_cluster, expected, largest_size)
        self._difference_sum = self._difference_sum + cluster_sum
        self._n_questions = self._n_questions + n_in_cluster
        self.clusters += 1
        if self.finite:
            n_questions = self.sizes.sum(axis=0)
            questions_left = n_questions - self._n_questions  # each adds from -1 to 1
            self._above.exclude((self._difference_sum - questions_left) / n_questions)
            self._below.exclude((-self._difference_sum - questions_left) / n_questions)

    @property
    def n(self) -> int:
        """How many questions the clusters that were added have."""
        return int(self._n_questions)

    @property
    def mean(self) -> float | None:
        """The mean of a - b over the questions so far; None before the first."""
        if self.clusters == 0:
            return None
        return float(self._difference_sum / self._n_questions)

    @property
    def complete(self) -> bool:
        """Whether every cluster was added."""
        return self.clusters == len(self.sizes)

    @property
    def p(self) -> float:
        """The anytime-valid two-sided p value of a mean difference of 0: 2 / the largest capital so
        far, at most 1."""
        log_of_largest_capital = max(self.evidence)
        return min(1.0, 2.0 * math.exp(-log_of_largest_capital))

    @property
    def evidence(self) -> tuple[float, float]:
        """The evidence against a mean of 0: logarithms of the largest capital so far of the bets
        (that the mean is above 0, that it is below 0)."""
        index_of_zero = int(np.argmin(np.abs(self._above.candidates)))
        above, below = self.logs
        return float(above[index_of_zero]), float(below[index_of_zero])

    @property
    def logs(self) -> tuple[Floats, Floats]:
        """For each candidate, logarithms of the largest capital so far of the bets (that the mean
        is above it, that it is below it)."""
        return self._above.largest_log_capital, self._below.largest_log_capital

    def interval(self, alpha: float = 0.05) -> tuple[float, float]:
        """The confidence sequence at this moment, (low, high): the intervals of all moments hold
        the true mean with probability 1 - alpha together. Its ends are the nearest candidates that
        are rejected, on either side: those whose capital has reached 2 / alpha; else -1 or 1.

        Args:
            alpha: The probability that any of them misses it, at most.
        """
        log_threshold = math.log(2.0 / alpha)  # each of the two sides has half of alpha
        candidates = self._above.candidates
        too_low = candidates[self._above.largest_log_capital >= log_threshold]
        too_high = candidates[self._below.largest_log_capital >= log_threshold]
        low = float(too_low.max(initial=-1.0))
        high = float(too_high.min(initial=1.0))
        return low, high


def extend_ranking(
    better: NDArray[np.bool], evidence: Floats, alpha: float
) -> list[tuple[int, int]]:
    """Mark in better[i, j], "i is shown to be better than j", what `evidence` now shows, and what
    follows from it.

    Args:
        better: (M, M), what earlier looks have shown; changed in place.
        evidence: (M, M), at [i, j] `PairedRace.evidence` for a mean of i - j above 0: the logarithm
            of the capital of its bets.
        alpha: Largest probability of any wrong pair.

    Returns:
        The (i, j) that are shown by their own evidence, not implied by others.

    Of the M (M - 1) ordered pairs, with k in `better`, the next needs a capital of (M (M - 1) - k)
    / alpha; what follows from two of them (a above b above c) is added with them, and costs
    nothing.

    The probability that `better` ever holds a pair (i, j) whose true mean of i - j is 0 or less is
    at most alpha. For consider the first such false pair. The k pairs before it are true, so it
    does not follow from them, and at most M (M - 1) - k pairs are false; its own capital has
    reached their number / alpha. A false pair's capital is a nonnegative supermartingale from 1,
    which ever does so with probability alpha / their number at most (Ville 1939); so that any of
    them does has alpha at most. This is Holm's procedure over ordered pairs as a sequential
    rejection (J. Goeman and A. Solari, "The sequential rejection principle of familywise error
    control", Annals of Statistics 38(6), 2010). Over unordered pairs it would need less, but it
    would not be proved for the direction of a verdict (J. Shaffer, "Control of directional errors
    with stagewise multiple test procedures", Annals of Statistics 8, 1980).
    """
    is_same_method = np.eye(len(better), dtype=bool)
    shown: list[tuple[int, int]] = []
    ordered_pairs = len(better) * (len(better) - 1)
    while True:
        evidence_of_open_pairs = np.where(better | better.T | is_same_method, -np.inf, evidence)
        # The open pair with the most evidence.
        flat_index = evidence_of_open_pairs.argmax()
        i, j = map(int, np.unravel_index(flat_index, better.shape))
        pairs_not_shown = ordered_pairs - better.sum()
        if evidence_of_open_pairs[i, j] < math.log(pairs_not_shown / alpha):
            return shown
        shown.append((i, j))
        # Whatever is better than i is better than all that j is better than.
        i_and_above = better[:, i] | is_same_method[i]
        j_and_below = better[j] | is_same_method[j]
        better |= np.outer(i_and_above, j_and_below)
