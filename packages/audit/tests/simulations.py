"""Simulations behind docs/guide.md: rankings by `harness duel`, and the check of copies of `harness
report memory`.

python -m packages.audit.tests.simulations [--trials 10000]
"""

import argparse
import math
from dataclasses import astuple, dataclass
from itertools import combinations, product
from statistics import NormalDist

import numpy as np
from harness_audit.sequential import PairedRace, extend_ranking

from harness.stats.bootstrap import interval
from harness.stats.paired_tests import equivalence
from harness.stats.resampling import Floats, student_quantile

CONTESTED = (
    0.7  # share of questions on which methods answer independently; all answer alike on the others
)


@dataclass(frozen=True)
class Rankings:
    """error: share of trials with any wrong verdict; shown: pairs of different methods told apart,
    a share of them;
    complete: trials that tell all of these; saved: answers that were not asked, a share of all."""

    error: float
    shown: float
    complete: float
    saved: float


def means(scenario: str, methods: int, gap: float = 0.1) -> Floats:
    """The methods' true means: tied, one ahead by `gap`, or each `gap` above the next."""
    steps = {
        "tied": np.zeros(methods),
        "one ahead": np.eye(methods)[0],
        "apart": np.arange(methods)[::-1],
    }[scenario]
    return np.asarray(0.5 + gap * (steps - steps.mean()))


def rankings(
    true: Floats, questions: int, trials: int, seed: int = 0, alpha: float = 0.05
) -> Rankings:
    """Duels of methods with these true means over questions that are documents of their own, scored
    0 or 1."""
    rng, methods = np.random.default_rng(seed), len(true)
    chances = 0.5 + (true - 0.5) / CONTESTED
    a, b = np.asarray(list(combinations(range(methods), 2))).T
    race = PairedRace(np.ones(questions), candidates=np.zeros((trials, len(a))))
    evidence, better = (
        np.zeros((trials, methods, methods)),
        np.zeros((trials, methods, methods), dtype=bool),
    )
    asked = 0
    for _ in range(questions):
        still = ~(better | better.transpose(0, 2, 1) | np.eye(methods, dtype=bool))
        if not still.any():
            break
        asked += int(still.any(axis=2).sum())
        alike = np.where(rng.random((trials, 1)) < 0.5, 1.0, 0.0)
        own = rng.random((trials, methods)) < chances
        right = np.where(rng.random((trials, 1)) < CONTESTED, own, alike)
        race.add(right[:, a] - right[:, b])
        # A settled pair's race has ended.
        for (i, j), capital in zip(((a, b), (b, a)), race.logs, strict=True):
            evidence[:, i, j] = np.where(still[:, i, j], capital, evidence[:, i, j])
        most = np.where(still, evidence, 0.0).max(axis=(1, 2))
        needed = np.log((methods * (methods - 1) - better.sum(axis=(1, 2))) / alpha)
        for trial in np.flatnonzero(most >= needed):
            extend_ranking(better[trial], evidence[trial], alpha)
    above = true[:, None] - true > 1e-9
    ranked = better[:, above]
    return Rankings(
        float((better & ~above).any(axis=(1, 2)).mean()),
        float(ranked.mean()) if above.any() else math.nan,
        float(ranked.all(axis=1).mean()) if above.any() else math.nan,
        1 - asked / (trials * methods * questions),
    )


def races(
    gap: float, sizes: Floats, halves: bool, finite: bool, seed: int = 0
) -> tuple[float, float, float]:
    """Duels of two methods whose scores differ on 35 % of the questions: settled, saved, settled by
    an ordinary test.

    gap: of their means; sizes: (clusters, trials), questions of each; halves: scores are 0, 0.5 and
    1, not 0 and 1;
    finite: about the table. Where the methods are equal, such a race is about the table's own mean.
    """
    rng, (clusters, trials) = np.random.default_rng(seed), sizes.shape
    sums, tilt = np.zeros(sizes.shape), gap / (0.75 if halves else 1.0)
    for question in range(int(sizes.max())):
        drawn, step = (
            rng.random(sizes.shape),
            np.where(rng.random(sizes.shape) < 0.5 * halves, 0.5, 1.0),
        )
        signs = np.where(drawn < (0.35 + tilt) / 2, 1.0, np.where(drawn < 0.35, -1.0, 0.0))
        sums += np.where(question < sizes, signs * step, 0.0)
    mean = sums.sum(axis=0) / sizes.sum(axis=0)
    race = PairedRace(
        sizes, finite=finite, candidates=mean if finite and not gap else np.zeros(trials)
    )
    settled, asked = np.zeros(trials, dtype=bool), np.zeros(trials)
    for total, size in zip(sums, sizes, strict=True):
        asked += np.where(settled, 0.0, size)
        race.add(total)
        settled |= np.maximum(*race.logs) >= math.log(2 / 0.05)
    error = np.sqrt(
        ((sums - mean * sizes) ** 2).sum(axis=0) * clusters / (clusters - 1)
    ) / sizes.sum(axis=0)
    plain = np.abs(mean / error) > student_quantile(0.975, clusters - 1)
    return float(settled.mean()), 1 - float((asked / sizes.sum(axis=0)).mean()), float(plain.mean())


def called_equivalent(
    apart: float, documents: int, questions: int, trials: int, margin: float = 0.05
) -> float:
    """How often a copy that is harder by `apart` is called no harder; its documents have 1 to
    `questions` each.

    Differences of a document's questions are related: each turns on a difficulty that is partly the
    document's.
    """
    rng, found = np.random.default_rng(documents), 0
    for trial in range(trials):
        labels = np.repeat(np.arange(documents), rng.integers(1, questions + 1, documents)).astype(
            np.int32
        )
        shared = rng.normal(0.0, 0.6, documents)[labels] + rng.normal(0.0, 0.8, len(labels))
        high, low = (NormalDist().inv_cdf(0.12 + sign * apart / 2) for sign in (1, -1))
        values = np.where(shared > -high, 1.0, np.where(shared < low, -1.0, 0.0))
        ends = interval(values, labels, seed=trial, level=0.90, bounds=(-1.0, 1.0))
        found += equivalence((ends.low, ends.high), (-1.0, 1.0), (-margin, margin)) == "equivalent"
    return found / trials


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=10_000)
    trials = parser.parse_args().trials
    for halves, (clusters, most, finite) in product(
        (False, True), ((200, 1, 0), (1000, 1, 0), (167, 11, 0), (1000, 1, 1))
    ):
        rng, label = (
            np.random.default_rng(1),
            f"pair, {clusters} documents of 1 to {most}, {'table' if finite else 'population'}",
        )
        for gap in (0.0, 0.05, 0.1):
            sizes = rng.integers(1, most + 1, (clusters, trials)).astype(float)
            shares = (f"{share:.3f}" for share in races(gap, sizes, halves, bool(finite)))
            print(f"{label}, {'0, 0.5, 1' if halves else '0, 1'}, {gap}:", *shares, flush=True)
    for documents, questions in ((100, 1), (100, 5), (400, 1), (400, 5)):
        shares = (called_equivalent(apart, documents, questions, trials) for apart in (0.05, 0.0))
        print(
            f"copies, {documents} documents of 1 to {questions}:",
            *(f"{s:.4f}" for s in shares),
            flush=True,
        )
    for methods in (4, 8):
        for scenario in ("tied", "one ahead", "apart"):
            parts = [
                astuple(rankings(means(scenario, methods), 1000, 500, seed))
                for seed in range(trials // 500)
            ]
            print(f"{methods} methods, {scenario}: {np.mean(parts, axis=0).round(4)}", flush=True)


if __name__ == "__main__":
    main()
