"""Coverage of the intervals of kappa and of prediction-powered means, in made-up tables.

    python -m bench.agreement --trials 500

Documents have one or three answers, which agree within a document or not; a judge is lenient (it calls
some wrong answers right) or noisy (it errs both ways). Width is the mean width of the interval.
"""

import argparse
from dataclasses import dataclass
from itertools import product

import numpy as np

from harness.stats.agreement import kappa
from harness.stats.bootstrap import interval
from harness.stats.prediction_powered import prediction_powered
from harness.stats.resampling import Floats

RATES = (0.5, 0.8, 0.95)
ACCURACIES = (0.75, 0.9)
CORRELATIONS = (0.0, 0.5)
SHEETS = ((30, 1, 10), (60, 1, 20), (20, 3, 20), (60, 3, 60), (200, 1, 40), (200, 1, 100))
"""Documents, answers of each, labels."""


@dataclass(frozen=True)
class Setting:
    """How answers and ratings are made up.

    Args:
        documents: How many documents.
        each: How many answers of each document.
        rate: The share of right answers.
        accuracy: How often a rater judges an answer right.
        correlation: How much answers about one document agree, from 0 to 1.
    """

    documents: int
    each: int
    rate: float
    accuracy: float
    correlation: float

    @property
    def clusters(self) -> np.ndarray:
        """The number of the document of each answer."""
        return np.repeat(np.arange(self.documents), self.each).astype(np.int32)


def right_answers(setting: Setting, rng: np.random.Generator) -> Floats:
    """Draw which answers are right: 1 for right ones, else 0, one value an answer."""
    rates = np.full(setting.documents, setting.rate)
    if setting.correlation:
        strength = (1 - setting.correlation) / setting.correlation
        rates = rng.beta(setting.rate * strength, (1 - setting.rate) * strength, setting.documents)
    drawn = rng.random(setting.documents * setting.each)
    return (drawn < rates[setting.clusters]).astype(np.float64)


def rated(right: Floats, accuracy: float, lenient: bool, rng: np.random.Generator) -> Floats:
    """Draw what a rater says of answers: 1 for right, else 0.

    Args:
        right: Which answers are right.
        accuracy: How often the rater says so.
        lenient: Whether mistakes only call wrong answers right; else they err both ways.
        rng: Draws the mistakes.
    """
    mistaken = np.ones_like(right) if lenient else 1 - right
    return np.where(rng.random(len(right)) < accuracy, right, mistaken)


def true_kappa(setting: Setting) -> float:
    """The kappa that two noisy raters of this setting have in truth, by formula."""
    right, wrong = setting.accuracy, 1 - setting.accuracy
    alike = right**2 + wrong**2
    yes = setting.rate * right + (1 - setting.rate) * wrong
    chance = yes**2 + (1 - yes) ** 2
    return (alike - chance) / (1 - chance)


def of_kappa(setting: Setting, trials: int, rng: np.random.Generator) -> str:
    """Measure the intervals of kappa of two raters in one setting, over `trials` tables; a line of
    the first table."""
    truth = true_kappa(setting)
    hits, widths = [], []
    for _ in range(trials):
        right = right_answers(setting, rng)
        one = rated(right, setting.accuracy, False, rng).tolist()
        other = rated(right, setting.accuracy, False, rng).tolist()
        found = kappa(one, other, setting.clusters)
        if found.low is None or found.high is None:
            continue
        hits.append(found.low <= truth <= found.high)
        widths.append(found.high - found.low)
    return line(setting, hits, widths, trials)


def of_labels(
    setting: Setting, labels: int, lenient: bool, trials: int, rng: np.random.Generator
) -> str:
    """Measure the intervals of the share of right answers, prediction-powered, in one setting; a
    line of the second table.

    Args:
        setting: How answers are made up.
        labels: How many answers a person has labelled.
        lenient: Whether the judge's mistakes only call wrong answers right.
        trials: How many tables.
        rng: Draws them.
    """
    hits, widths, alone = [], [], []
    for _ in range(trials):
        right = right_answers(setting, rng)
        judged = rated(right, setting.accuracy, lenient, rng)
        chosen = np.sort(rng.permutation(len(right))[:labels])
        given: list[float | None] = [None] * len(right)
        for place in chosen:
            given[place] = float(right[place])
        found = prediction_powered(judged.tolist(), given, setting.clusters)
        by_labels = interval(right[chosen], setting.clusters[chosen])
        assert by_labels.low is not None
        assert by_labels.high is not None
        alone.append(by_labels.high - by_labels.low)
        if found.low is None or found.high is None:
            continue
        hits.append(found.low <= setting.rate <= found.high)
        widths.append(found.high - found.low)
    kind = "lenient" if lenient else "noisy"
    text = line(setting, hits, widths, trials)
    return f"{text}  {kind:8}{labels:5} labels, alone {np.mean(alone):.2f}"


def line(setting: Setting, hits: list[bool], widths: list[float], trials: int) -> str:
    """A line of a table: setting, coverage, share of tables that show an interval, and its width.

    Args:
        setting: The setting.
        hits: For each interval that is shown, whether it holds the truth.
        widths: The width of each of these.
        trials: How many tables were made.
    """
    text = f"{setting.documents:6}{setting.each:3}{setting.rate:6}{setting.accuracy:6}"
    text += f"{setting.correlation:5}"
    if not hits:
        return f"{text}   no interval is shown"
    return f"{text}{np.mean(hits):8.3f}{len(hits) / trials:6.2f}{np.mean(widths):6.2f}"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=500)
    trials = parser.parse_args().trials
    rng = np.random.default_rng(0)
    print("documents, answers of each, rate, accuracy, correlation; coverage, shown, width")
    print("kappa of two raters")
    for documents, each in product((20, 30, 50, 100), (1, 3)):
        for rate, accuracy in product(RATES, ACCURACIES):
            for correlation in CORRELATIONS[: 1 + (each > 1)]:
                setting = Setting(documents, each, rate, accuracy, correlation)
                print(of_kappa(setting, trials, rng), flush=True)
    print("share of right answers, prediction-powered")
    for (documents, each, labels), rate, accuracy in product(SHEETS, RATES, ACCURACIES):
        for correlation, lenient in product(CORRELATIONS[: 1 + (each > 1)], (True, False)):
            setting = Setting(documents, each, rate, accuracy, correlation)
            print(of_labels(setting, labels, lenient, trials, rng), flush=True)


if __name__ == "__main__":
    main()
