"""How often the 95 % intervals hold the truth, by simulation: python -m bench.coverage [--trials 600]

Scores: 0/1, or 0, 0.5 and 1, with means of 0.1, 0.3, 0.5 and 0.9; 1 or 5 questions a document, 1 to 11, or lognormal
sizes; correlation within a document of 0, 0.1 and 0.5. Differences: of two such methods, 0.09 apart. Costs: lognormal.
Printed: documents, lowest and mean coverage over all settings, mean width.
"""

import argparse
from itertools import product

import numpy as np

from harness.stats.bootstrap import interval

SIZES = ("1", "5", "1-11", "lognormal")


def sizes(kind: str, documents: int, rng: np.random.Generator) -> np.ndarray:
    if kind == "1-11":
        return rng.integers(1, 12, documents)
    if kind == "lognormal":
        return np.maximum(1, np.round(rng.lognormal(1.5, 1.0, documents))).astype(int)
    return np.full(documents, int(kind))


def scores(mean: float, correlation: float, halves: bool, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Scores with this mean (0.75 of it with halves); the chance of a document is drawn from a beta distribution."""
    if correlation:
        scale = (1 - correlation) / correlation
        chance = rng.beta(mean * scale, (1 - mean) * scale, labels.max() + 1)[labels]
    else:
        chance = np.full(len(labels), mean)
    drawn = rng.random(len(labels))
    return np.where(drawn < chance / 2, 1.0, np.where(drawn < chance, 0.5 if halves else 1.0, 0.0))


def covered(make, truth: float, trials: int, **options) -> tuple[float, float]:
    """Share of trials whose interval holds the truth, and the mean width."""
    found = [interval(*make(), seed=trial, **options) for trial in range(trials)]
    hits = np.mean([f.low - 1e-12 <= truth <= f.high + 1e-12 for f in found])
    return float(hits), float(np.mean([f.high - f.low for f in found]))


def simulate(what: str, documents: int, trials: int) -> list[tuple[float, float]]:
    rng, results = np.random.default_rng(documents), []
    if what == "costs":
        for sigma in (0.5, 1.0, 1.5):
            labels = np.arange(documents).astype(np.int32)
            make = lambda s=sigma, d=labels: (rng.lognormal(0, s, documents), d)  # noqa: E731
            results.append(covered(make, float(np.exp(sigma**2 / 2)), trials, bounds=None, resamples=1000))
        return results
    for kind, correlation, mean, halves in product(SIZES, (0.0, 0.1, 0.5), (0.1, 0.3, 0.5, 0.9), (False, True)):

        def make(kind=kind, correlation=correlation, mean=mean, halves=halves):
            labels = np.repeat(np.arange(documents), sizes(kind, documents, rng)).astype(np.int32)
            values = scores(mean, correlation, halves, labels, rng)
            if what == "differences":
                values = values - scores(mean - 0.09, correlation, halves, labels, rng)
            return values, labels

        truth = (0.09 if what == "differences" else mean) * (0.75 if halves else 1.0)
        bounds = (-1.0, 1.0) if what == "differences" else (0.0, 1.0)
        results.append(covered(make, truth, trials, bounds=bounds))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=600)
    trials = parser.parse_args().trials
    for what, numbers in (
        ("scores", (3, 5, 10, 50, 200)),
        ("differences", (3, 5, 10, 50, 200)),
        ("costs", (8, 10, 20, 50, 100)),
    ):
        for documents in numbers:
            hits, widths = np.transpose(simulate(what, documents, trials))
            shown = f"lowest {hits.min():.3f}, mean {hits.mean():.3f}, width {widths.mean():.2f}"
            print(f"{what}, {documents} documents: {shown}", flush=True)


if __name__ == "__main__":
    main()
