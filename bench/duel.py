"""Size, power and savings of `harness duel`: simulated pairs of methods, looked at after every document.

    python bench/duel.py                 10,000 pairs of each kind, about 3 minutes on one core
    python bench/duel.py --trials 500

Scores differ on about a third of the questions, by a whole or half a point; documents have 1 question, or 1 to 11 with
an advantage that changes from document to document. "population": documents are drawn anew in each trial, and the true
difference is that of the population. "table": the rows of a trial are fixed, with exactly that difference, and come in
random order. A run stops at the first look with p <= 5 %, or at the end.

wrong    null: stopped with a verdict. Effects: stopped with the wrong winner
settled  stopped with the right winner
saved    mean share of the questions that were not asked, runs that were not settled included (0 for them)
fixed    share settled by a z test with one look, at all questions: what continuous looking costs
"""

from __future__ import annotations

import argparse

import numpy as np

from harness.stats.sequential import PairedRace

KINDS = ("1 question a document", "1 to 11 questions a document")


def differences(rng: np.random.Generator, sizes: np.ndarray, effect: float, spread: float) -> np.ndarray:
    """Cluster sums of a - b, (clusters, trials); `spread`: how far the advantage of a document is from the mean."""
    totals = np.zeros(sizes.shape)
    share = effect + rng.uniform(-spread, spread, sizes.shape)
    for k in range(int(sizes.max())):
        value = np.where(rng.random(sizes.shape) < 0.6, 1.0, 0.5)
        draw = rng.random(sizes.shape)
        up = (0.35 + share / 0.8) / 2
        sign = np.where(draw < up, 1.0, np.where(draw < 0.35, -1.0, 0.0))
        totals += np.where(k < sizes, sign * value, 0.0)
    return totals


def simulate(
    target: str, kind: str, n: int, effect: float, trials: int, seed: int
) -> tuple[float, float, float, float]:
    """wrong, settled, saved, fixed of the module's docstring."""
    rng = np.random.default_rng(seed)
    single = kind == KINDS[0]
    clusters = n if single else n // 6
    sizes = np.ones((clusters, trials)) if single else rng.integers(1, 12, (clusters, trials)).astype(float)
    spread = 0.0 if single else 0.15
    totals = differences(rng, sizes, effect, spread)
    if target == "table":  # half of the clusters mirror the others around the effect, so that the table has exactly it
        half = clusters // 2
        clusters = 2 * half
        totals, sizes = totals[:half], sizes[:half]
        totals = np.concatenate([totals, 2 * effect * sizes - totals])
        sizes = np.concatenate([sizes, sizes])
        order = rng.random(sizes.shape).argsort(axis=0)
        totals, sizes = np.take_along_axis(totals, order, 0), np.take_along_axis(sizes, order, 0)
        totals = np.clip(totals, -sizes, sizes)
    race = PairedRace(sizes, finite=target == "table", candidates=np.zeros(trials))
    stopped, asked = np.zeros(trials), sizes.sum(axis=0)
    used = np.zeros(trials)
    for total, size in zip(totals, sizes, strict=True):
        race.add(total)
        used += size
        above, below = race.crossed(0.05)
        if target == "table" and race.complete:
            break  # at the end everything is known, and nothing is saved
        new = (stopped == 0) & (above | below)
        stopped[new], asked[new] = np.where(above[new], 1.0, -1.0), used[new]
    whole = sizes.sum(axis=0)
    residual = totals - totals.sum(axis=0) / whole * sizes
    z = totals.sum(axis=0) / np.sqrt((residual**2).sum(axis=0))
    wrong = (stopped != 0) if effect == 0 else stopped < 0
    settled = (stopped != 0) & ~wrong
    return wrong.mean(), settled.mean(), (1 - asked / whole).mean(), (np.abs(z) > 1.96).mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=10_000)
    trials = parser.parse_args().trials
    print(f"{trials} pairs each, alpha 5 %")
    print(f"{'target':<11}{'clusters':<30}{'n':>5} {'effect':>7} {'wrong':>7} {'settled':>8} {'saved':>7} {'fixed':>7}")
    for target in ("population", "table"):
        for kind in KINDS:
            for n in (200, 1000, 2500):
                for effect in (0.0, 0.05, 0.10):
                    cells = simulate(target, kind, n, effect, trials, seed=n)
                    shown = " ".join(f"{100 * cell:6.1f}%" for cell in cells)
                    print(f"{target:<11}{kind:<30}{n:>5} {100 * effect:>6.0f}  {shown}", flush=True)


if __name__ == "__main__":
    main()
