"""Intervals of kappa and of prediction-powered means: their coverage in made-up tables, and what they
need."""

import numpy as np
import pytest

from harness.stats.agreement import kappa
from harness.stats.bootstrap import interval
from harness.stats.prediction_powered import prediction_powered

TRIALS = 300


@pytest.mark.parametrize(("rate", "truth"), [(0.5, 0.64), (0.95, 0.251)])
def test_the_interval_of_kappa_covers_the_true_one(rate, truth):
    """Two raters who err on one of ten; (alike - chance) / (1 - chance) by hand."""
    rng = np.random.default_rng(1)
    places = np.repeat(np.arange(30), 2)
    hits = shown = 0
    for _ in range(TRIALS):
        right = rng.random(60) < rate
        one = np.where(rng.random(60) < 0.9, right, ~right)
        other = np.where(rng.random(60) < 0.9, right, ~right)
        found = kappa(one.tolist(), other.tolist(), places)
        if found.low is not None:
            shown += 1
            hits += found.low <= truth <= found.high
    assert shown > 0.5 * TRIALS
    assert hits >= 0.93 * shown


def test_answers_of_one_document_are_one_observation():
    """Ten copies of a document widen nothing and narrow nothing."""
    one, other = [1, 1, 0, 0, 1] * 6, [1, 0, 0, 0, 1] * 6
    alone = kappa(one, other, range(30))
    copies = kappa(one * 10, other * 10, [*range(30)] * 10)
    assert (copies.low, copies.high) == pytest.approx((alone.low, alone.high))


@pytest.mark.parametrize(
    ("one", "other"),
    [([1, 0] * 9, [1, 1] * 9), ([1, 0] * 30, [1, 0] * 30), ([1] * 58 + [0] * 2, [1] * 59 + [0])],
)
def test_no_interval_of_kappa_where_little_is_known(one, other):
    assert kappa(one, other, range(len(one))).low is None


@pytest.mark.parametrize("rate", [0.5, 0.9])
def test_labels_of_some_and_a_lenient_judge_of_all_cover_the_truth(rate):
    rng = np.random.default_rng(2)
    places = np.repeat(np.arange(60), 2).astype(np.int32)
    hits, width, width_of_labels, judges_hits = 0, 0.0, 0.0, 0
    for _ in range(TRIALS):
        right = (rng.random(120) < rate).astype(float)
        judged = np.where(rng.random(120) < 0.7, right, 1.0)
        chosen = np.sort(rng.permutation(120)[:40])
        labels = [None] * 120
        for place in chosen:
            labels[place] = float(right[place])
        found = prediction_powered(judged.tolist(), labels, places)
        hits += found.low <= rate <= found.high
        width += found.high - found.low
        alone = interval(right[chosen], places[chosen])
        width_of_labels += alone.high - alone.low
        by_judge = interval(judged, places)
        judges_hits += by_judge.low <= rate <= by_judge.high
    assert hits >= 0.93 * TRIALS
    assert width < width_of_labels
    assert judges_hits < 0.93 * TRIALS  # the judge alone is too kind


def test_copies_of_documents_do_not_narrow_a_prediction_powered_mean():
    judged = [1.0, 1.0, 0.0, 1.0] * 10
    labels = [1.0, 0.0, 0.0, None] * 10
    alone = prediction_powered(judged, labels, np.arange(40, dtype=np.int32))
    copies = prediction_powered(judged * 5, labels * 5, np.arange(200, dtype=np.int32) % 40)
    assert (copies.low, copies.high) == pytest.approx((alone.low, alone.high))


def test_where_all_are_labelled_the_labels_are_what_counts():
    labels = [1.0, 0.0, 1.0, 1.0] * 5
    found = prediction_powered([1.0] * 20, labels, np.arange(20, dtype=np.int32))
    assert found == interval(labels, range(20))


def test_few_labelled_documents_give_no_interval():
    labels = [1.0, 0.0, *[None] * 30]
    found = prediction_powered([1.0] * 32, labels, np.arange(32, dtype=np.int32))
    assert (found.mean, found.low, found.n) == (0.5, None, 2)
