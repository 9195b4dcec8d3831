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
    """Draw which answers are right: 1 for right ones, else 0, one value an answer.

    With a correlation the chance of a document is drawn from a beta distribution.
    """
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
    """The kappa that two noisy raters of this setting have in truth, by formula: how often they
    agree beyond chance, as a share of what is possible."""
    right, wrong = setting.accuracy, 1 - setting.accuracy
    alike = right**2 + wrong**2
    yes = setting.rate * right + (1 - setting.rate) * wrong
    chance = yes**2 + (1 - yes) ** 2
    return (alike - chance) / (1 - chance)


def kappa_line(setting: Setting, trials: int, rng: np.random.Generator) -> str:
    """Measure the intervals of kappa of two noisy raters in one setting, over `trials` made-up
    tables; a line of the first table."""
    truth = true_kappa(setting)
    holds_truth: list[bool] = []
    widths: list[float] = []
    for _ in range(trials):
        right = right_answers(setting, rng)
        first_ratings = rated(right, setting.accuracy, lenient=False, rng=rng).tolist()
        second_ratings = rated(right, setting.accuracy, lenient=False, rng=rng).tolist()
        found = kappa(first_ratings, second_ratings, setting.clusters)
        if found.low is None or found.high is None:
            continue  # no interval is shown
        holds_truth.append(found.low <= truth <= found.high)
        widths.append(found.high - found.low)
    return table_line(setting, holds_truth, widths, trials)


def prediction_powered_line(
    setting: Setting, n_labels: int, lenient: bool, trials: int, rng: np.random.Generator
) -> str:
    """Measure the intervals of the share of right answers, prediction-powered, in one setting; a
    line of the second table, at its end the mean width of an interval of the labels alone.

    Args:
        setting: How answers are made up.
        n_labels: How many answers a person has labelled.
        lenient: Whether the judge's mistakes only call wrong answers right.
        trials: How many tables are made up.
        rng: Draws them.
    """
    holds_truth: list[bool] = []
    widths: list[float] = []
    widths_of_labels_alone: list[float] = []
    for _ in range(trials):
        right = right_answers(setting, rng)
        judged = rated(right, setting.accuracy, lenient, rng)
        labelled = np.sort(rng.permutation(len(right))[:n_labels])
        label_of_answer: list[float | None] = [None] * len(right)
        for answer in labelled:
            label_of_answer[answer] = float(right[answer])
        found = prediction_powered(judged.tolist(), label_of_answer, setting.clusters)
        by_labels_alone = interval(right[labelled], setting.clusters[labelled])
        assert by_labels_alone.low is not None
        assert by_labels_alone.high is not None
        widths_of_labels_alone.append(by_labels_alone.high - by_labels_alone.low)
        if found.low is None or found.high is None:
            continue  # no interval is shown
        holds_truth.append(found.low <= setting.rate <= found.high)
        widths.append(found.high - found.low)
    judge = "lenient" if lenient else "noisy"
    text = table_line(setting, holds_truth, widths, trials)
    mean_width_alone = np.mean(widths_of_labels_alone)
    return f"{text}  {judge:8}{n_labels:5} labels, alone {mean_width_alone:.2f}"


def table_line(setting: Setting, holds_truth: list[bool], widths: list[float], trials: int) -> str:
    """A line of a table: setting, coverage, share of tables that show an interval, and its mean
    width.

    Args:
        setting: The setting.
        holds_truth: For each interval that is shown, whether it holds the truth.
        widths: The width of each of these.
        trials: How many tables were made up.
    """
    text = f"{setting.documents:6}{setting.each:3}{setting.rate:6}{setting.accuracy:6}"
    text += f"{setting.correlation:5}"
    if not holds_truth:
        return f"{text}   no interval is shown"
    coverage = np.mean(holds_truth)
    share_shown = len(holds_truth) / trials
    return f"{text}{coverage:8.3f}{share_shown:6.2f}{np.mean(widths):6.2f}"


def correlations_of(answers_of_document: int) -> tuple[float, ...]:
    """The correlations that are tried: single answers of documents have none."""
    if answers_of_document == 1:
        return CORRELATIONS[:1]
    return CORRELATIONS


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
            for correlation in correlations_of(each):
                setting = Setting(documents, each, rate, accuracy, correlation)
                print(kappa_line(setting, trials, rng), flush=True)
    print("share of right answers, prediction-powered")
    for (documents, each, n_labels), rate, accuracy in product(SHEETS, RATES, ACCURACIES):
        for correlation, lenient in product(correlations_of(each), (True, False)):
            setting = Setting(documents, each, rate, accuracy, correlation)
            line = prediction_powered_line(setting, n_labels, lenient, trials, rng)
            print(line, flush=True)


if __name__ == "__main__":
    main()
