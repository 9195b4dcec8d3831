"""Score bands: which scorers apply, lowest and highest means, and the pairs that change order."""

import pytest
from harness_audit import score_bands

from harness.errors import UserError
from harness.storage.run_folder import read_run
from reports.gold_rows import with_rows
from reports.table_formats import render_sections
from tests.reports.build import answered, record, write_run

F1 = "longbench.qa_f1_score"
GOLD = "Mira Toren"
RIGHT, LONG, WRONG = GOLD, f"It may well have been {GOLD} who did it in the end", "Ardun"


def run(root, method, answers, *, extra=None, **more):
    """A run whose records hold questions and gold answers; None is a failed question."""
    rows = []
    for n, answer in enumerate(answers):
        gold = {"answers": [GOLD], "supporting": [], "extra": extra or {}}
        told = {"prediction": answer or "", "scores": {F1: _f1(answer)}}
        rows.append(answered(n, None if answer is None else 0.0, gold, **told))
    dataset = {"name": "musique", "format": "retrieved", "scorers": [F1]}
    settings = {"dataset": dataset} | more
    return read_run(write_run(root, rows, method=method, settings=settings, manifest={"scorers": {F1: "1"}}))


def _f1(answer):
    words = (answer or "").split()
    hits = len(set(words) & set(GOLD.split()))
    return 2 * hits / (len(words) + 2) if hits else 0.0


def of(*runs):
    return score_bands.analyse_runs(with_rows(runs, None, print))


def test_a_ranking_that_no_scorer_changes(tmp_path):
    (band,) = of(run(tmp_path, "good", [RIGHT] * 8), run(tmp_path, "bad", [WRONG] * 6 + [RIGHT] * 2))
    assert band.methods == ["good", "bad"]
    assert band.reversals == ()
    told = "The ranking does not depend on the scorer: no pair of 2 methods changes order over "
    assert band.sentence.startswith(told)
    assert len(band.means) >= 16
    assert band.means["flashrag.em"] == {"good": 1.0, "bad": 0.25}


def test_containment_turns_a_pair_around(tmp_path):
    pair = run(tmp_path, "short", [RIGHT, WRONG] * 30), run(tmp_path, "long", [LONG] * 60)
    (band,) = of(*pair)
    (turned,) = band.reversals
    assert (turned.a, turned.b, turned.clear) == ("short", "long", True)
    assert {F1, "flashrag.em", "rouge_score.rougeL"} <= set(turned.above)
    assert turned.below == ("flashrag.acc",)
    assert "depends on the scorer: 1 of 1 pair changes order" in band.sentence
    assert "1 clearly" in band.sentence
    assert "within F1 (8 scorers) none; within exact match (5 scorers) none" in band.sentence
    text = render_sections(score_bands.sections([band]))
    assert "pairs that change order" in text
    assert "1 to 2" in text  # the rank of both
    assert "0.0 to 50.0" not in text.splitlines()[1]
    rows = score_bands.frame([band])
    acc = rows[(rows["scorer"] == "flashrag.acc") & (rows["method"] == "long")].iloc[0]
    assert (acc["score"], acc["rank"], acc["family"], acc["n"]) == (1.0, 1, "containment", 60)


def test_a_pair_that_changes_by_chance_is_not_clear(tmp_path):
    (band,) = of(run(tmp_path, "short", [RIGHT] + [WRONG] * 7), run(tmp_path, "long", [LONG] * 2 + [WRONG] * 6))
    assert [one.clear for one in band.reversals] == [False]
    assert "none clearly" in band.sentence


def test_failed_questions_and_questions_in_common(tmp_path):
    (band,) = of(run(tmp_path, "a", [RIGHT, None, RIGHT, RIGHT]), run(tmp_path, "b", [RIGHT, RIGHT]))
    assert (band.n, band.same) == (2, False)
    assert band.means["flashrag.acc"] == {"a": 0.5, "b": 1.0}
    (skipped,) = of(run(tmp_path / "s", "a", [RIGHT, None], failed="skip"))
    assert (skipped.n, skipped.means["musique.answer_em"]["a"]) == (1, 1.0)
    assert skipped.sentence.startswith("One method alone has no ranking")
    with pytest.raises(UserError, match="no question in common"):
        of(run(tmp_path / "x", "a", [None], failed="skip"), run(tmp_path / "x", "b", [RIGHT], failed="skip"))


def test_which_scorers_apply(tmp_path):
    options = run(tmp_path, "options", [RIGHT], extra={"all_classes": [GOLD, WRONG]})
    dataset = {"name": "dureader", "scorers": ["longbench.rouge_zh_score", "evidence_recall"]}
    chinese = read_run(write_run(tmp_path / "zh", [record(0, 1.0)], settings={"dataset": dataset}))
    nested = run(tmp_path / "n", "nested", [RIGHT], extra={"short_answers": [[GOLD]]})

    def names(one):
        return set(
            score_bands.applicable_scorers(one, [e.gold for e in with_rows([one], None, print)[0][1].examples.values()])
        )

    assert names(options) == {F1}
    assert set(score_bands.applicable_scorers(chinese, [])) & {F1, "evidence_recall"} == set()
    assert {"longbench.rouge_zh_score", "flashrag.acc"} <= set(score_bands.applicable_scorers(chinese, []))
    assert {"alce.str_em", "alce.str_hit"} <= names(nested)
    assert "alce.str_em" not in names(run(tmp_path / "p", "plain", [RIGHT]))
