"""The verdict as a statement of equivalence: which intervals show what, and the option --margin."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.stats.bootstrap import interval
from harness.stats.corpus_interval import corpus_interval
from harness.stats.paired_tests import equivalence
from reports.paper import frame
from reports.paper.measured import Measured, _with_intervals
from reports.paper.printed import load
from reports.paper.verdicts import verdict
from tests.reports.build import built, record, usage
from tests.reports.paper_runs import answers, paper_run

F1 = "longbench.qa_f1_score"


def value(method, metric):
    """A value of GARLIC's table 1 on MuSiQue."""
    own = [
        v
        for v in load()
        if v.paper.name == "GARLIC" and [rule.dataset for rule in v.rules] == ["musique"]
    ]
    return next(v for v in own if (v.entry.method, v.label) == (method, metric))


SCORE, COST = value("BM25 top-5", "F1"), value("BM25 top-5", "TFLOPs")


def ours(middle, narrow, wide):
    return Measured(middle, (middle - wide, middle + wide), (middle - narrow, middle + narrow))


class TestVerdict:
    @pytest.mark.parametrize(
        ("apart", "narrow", "wide", "word"),
        [
            (0.0, 2.04, 2.4, "equivalent (within 2 points)"),
            (1.0, 1.0, 1.2, "equivalent (within 2 points)"),
            # Significantly apart, and all the same within the margin.
            (1.0, 0.1, 0.2, "equivalent (within 2 points)"),
            (-1.0, 1.04, 1.2, "equivalent (within 2 points)"),
            (0.0, 2.06, 2.4, "undecided (about 1,010 questions needed)"),
            (1.0, 1.06, 1.3, "undecided (about 1,020 questions needed)"),
            (2.05, 0.5, 0.6, "undecided (the difference is as great as the margin)"),
            (3.0, 0.8, 0.96, "undecided (about 1,030 questions needed)"),
            (3.0, 0.7, 0.94, "differs (by more than 2 points)"),
            (-3.0, 0.7, 0.94, "differs (by more than 2 points)"),
        ],
    )
    def test_margin_and_printed_digit(self, apart, narrow, wide, word):
        """28.7 stands for 28.65 to 28.75, so the region is 26.65 to 30.75."""
        sentence = verdict(SCORE, ours(SCORE.printed + apart, narrow, wide), 1000)
        kind, _, rest = sentence.partition(" (")
        assert kind == word.partition(" (")[0]
        assert rest == word.partition(" (")[2] or rest.startswith("about ")

    def test_a_cost_has_a_relative_margin(self):
        half = 0.02 * COST.printed + 0.05
        assert verdict(COST, ours(COST.printed, half - 0.01, half), 10) == "equivalent (within 2 %)"
        assert verdict(COST, ours(COST.printed, half + 0.01, half), 10).startswith("undecided")
        assert verdict(COST, ours(COST.printed * 1.1, 0.1, 0.1), 10) == "differs (by more than 2 %)"
        assert (
            verdict(COST, ours(COST.printed * 1.1, 0.1, 0.1), 10, margin=12)
            == "equivalent (within 12 %)"
        )

    def test_without_an_interval_nothing_is_shown(self):
        for labels in ("abcd", "aaaa"):  # no resample changes the value; one document
            found = _with_intervals(
                lambda level, of=labels: corpus_interval(sum, [[1.0]] * 4, [*of], level=level), 1.0
            )
            assert verdict(SCORE, found, 4).startswith(
                "undecided (no interval: too few documents, or no spread"
            )

    def test_about_how_many_questions(self):
        """Twice as narrow takes four times as many: 2.05 is the reach, so 4.1 has to be halved."""
        assert (
            verdict(SCORE, ours(SCORE.printed, 4.1, 5.0), 1000)
            == "undecided (about 4,000 questions needed)"
        )

    @given(st.floats(-10, 10), st.floats(0, 10), st.floats(1, 3))
    def test_never_both(self, apart, half, wider):
        word = equivalence(
            (apart - half, apart + half), (apart - half * wider, apart + half * wider), (-2.0, 2.0)
        )
        assert (word == "equivalent") == (
            abs(apart) + half <= 2.0 or (apart - half >= -2.0 and apart + half <= 2.0)
        )
        assert word != "different" or abs(apart) > 2.0

    def test_the_error_of_both_verdicts_is_kept(self):
        """At the very margin, 5 % of samples are called equivalent and 2.5 % different, whatever
        their size."""
        generator, found = np.random.default_rng(3), []
        for trial in range(600):
            scores = generator.normal(0.5, 0.3, 60)
            clusters = [str(i) for i in range(60)]
            how = {"seed": trial, "resamples": 300, "bounds": None}
            narrow, wide = (interval(scores, clusters, level=level, **how) for level in (0.9, 0.95))
            found.append(
                equivalence((narrow.low, narrow.high), (wide.low, wide.high), (-math.inf, 0.5))
            )
        assert found.count("equivalent") / 600 == pytest.approx(0.05, abs=0.02)
        assert found.count("different") / 600 == pytest.approx(0.025, abs=0.015)


def test_index_costs_have_intervals_over_documents(tmp_path):
    rows = [record(i, None, usage={"search": usage(30.9)}, error=None) for i in range(2417)]
    spent = [66.7 + (0.1 if i % 2 else -0.1) for i in range(1209)]
    documents = [built(f"d{i}", one) for i, one in enumerate(spent)]
    run = paper_run(tmp_path, "pecan", "musique", rows, documents=documents)
    table = frame([run]).set_index("row")
    alone = table.loc["PECAN Attention Graph Construction"]
    same = "equivalent (within 2 %; weights and costs not checked)"
    assert (alone["ours"], alone["verdict"]) == (pytest.approx(66.7, abs=1e-3), same)
    assert 66.6 < alone["ours.low"] < 66.7 < alone["ours.high"] < 66.8
    shared = table.loc["PECAN Attention Graph Construction + Graph Search, 2 queries per document"]
    assert (shared["ours"], shared["verdict"]) == (pytest.approx(66.7 / 2 + 30.9, abs=1e-3), same)
    # The search costs the same for all questions: half of the index's interval is all there is.
    assert shared["ours.high"] - shared["ours"] == pytest.approx(
        (alone["ours.high"] - alone["ours"]) / 2
    )


class TestMargin:
    @pytest.fixture
    def results(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        paper_run(
            tmp_path / "results", "bm25", "musique", answers(2417, F1, SCORE.printed / 100 + 0.012)
        )
        return tmp_path

    def test_is_an_option(self, results, command):
        code, out, _ = command("report", "--paper")
        assert code == 0
        assert "equivalent (within 2 points; weights and scores not checked)" in out
        assert "The papers print neither intervals nor scores of single questions" in out
        out = command("report", "--paper", "--margin", "0.5")[1]
        assert "differs (by more than 0.5 points; weights and scores not checked)" in out
        assert "within 0.5 points of the printed value (0.5 % for costs" in out
