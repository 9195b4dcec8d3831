"""How often the 95 % intervals hold the truth, by simulation: python -m bench.coverage [--trials
1000]

Scores: 0/1, or F1 with many zeros, of which 5, 30, 50 and 95 % are not 0; 1 or 5 questions a
document, 1 to 11, lognormal sizes, or heavy tails (a few documents have most questions);
correlation within a document of 0, 0.1 and 0.5. Differences: of two such methods, 0.04 apart.
Costs: lognormal, alike within a document or not. Printed: documents, lowest and mean coverage over
all settings, mean width.
"""

import argparse
from itertools import product

import numpy as np

from harness.stats.bootstrap import interval

SIZES = ("1", "5", "1-11", "lognormal", "heavy")


def sizes(kind: str, documents: int, rng: np.random.Generator) -> np.ndarray:
    if kind == "1-11":
        return rng.integers(1, 12, documents)
    if kind == "lognormal":
        return np.maximum(1, np.round(rng.lognormal(1.5, 1.0, documents))).astype(int)
    if kind == "heavy":
        return np.minimum(np.round(3 / rng.random(documents) ** 0.8), 400).astype(int)
    return np.full(documents, int(kind))


def scores(
    mean: float, correlation: float, whole: bool, labels: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Scores with this mean (0.7 of it unless whole); the chance of a document is drawn from a beta
    distribution."""
    chance = np.full(len(labels), mean)
    if correlation:
        scale = (1 - correlation) / correlation
        chance = rng.beta(mean * scale, (1 - mean) * scale, labels.max() + 1)[labels]
    right = whole | (rng.random(len(labels)) < 0.4)
    return np.where(
        rng.random(len(labels)) < chance,
        np.where(right, 1.0, rng.uniform(0.1, 0.9, len(labels))),
        0.0,
    )


def covered(make, truth: float, trials: int, **options) -> tuple[float, float]:
    """Share of trials whose interval holds the truth, and the mean width."""
    found = [interval(*make(), seed=trial, **options) for trial in range(trials)]
    hits = np.mean([f.low - 1e-12 <= truth <= f.high + 1e-12 for f in found])
    return float(hits), float(np.mean([f.high - f.low for f in found]))


def simulate(what: str, documents: int, trials: int) -> list[tuple[float, float]]:
    rng, results = np.random.default_rng(documents), []
    if what == "costs":
        for kind, sigma, correlation in product(
            ("1", "5", "lognormal"), (0.5, 1.0, 1.5), (0.0, 0.5)
        ):

            def make(kind=kind, sigma=sigma, correlation=correlation):
                labels = np.repeat(np.arange(documents), sizes(kind, documents, rng)).astype(
                    np.int32
                )
                alike, own = (
                    rng.standard_normal(documents)[labels],
                    rng.standard_normal(len(labels)),
                )
                return np.exp(
                    sigma * (correlation**0.5 * alike + (1 - correlation) ** 0.5 * own)
                ), labels

            results.append(
                covered(make, float(np.exp(sigma**2 / 2)), trials, bounds=None, resamples=1000)
            )
        return results
    for kind, correlation, mean, whole in product(
        SIZES, (0.0, 0.1, 0.5), (0.05, 0.3, 0.5, 0.95), (False, True)
    ):

        def make(kind=kind, correlation=correlation, mean=mean, whole=whole):
            labels = np.repeat(np.arange(documents), sizes(kind, documents, rng)).astype(np.int32)
            values = scores(mean, correlation, whole, labels, rng)
            if what == "differences":
                values = values - scores(mean - 0.04, correlation, whole, labels, rng)
            return values, labels

        truth = (0.04 if what == "differences" else mean) * (1.0 if whole else 0.7)
        bounds = (-1.0, 1.0) if what == "differences" else (0.0, 1.0)
        results.append(covered(make, truth, trials, bounds=bounds))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=1000)
    trials = parser.parse_args().trials
    for what, numbers in (
        ("scores", (3, 5, 10, 50, 200)),
        ("differences", (3, 5, 10, 20, 50, 200)),
        ("costs", (8, 10, 20, 50, 100)),
    ):
        for documents in numbers:
            hits, widths = np.transpose(simulate(what, documents, trials))
            shown = f"lowest {hits.min():.3f}, mean {hits.mean():.3f}, width {widths.mean():.2f}"
            print(f"{what}, {documents} documents: {shown}", flush=True)


if __name__ == "__main__":
    main()
