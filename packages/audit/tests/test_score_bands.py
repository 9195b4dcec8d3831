"""Score bands: which scorers apply, lowest and highest means."""

import pytest
from harness_audit import score_bands

from harness.errors import UserError
from harness.storage.run_folder import read_run
from reports.gold_rows import runs_with_rows
from tests.reports.build import answered, record, write_run

F1 = "longbench.qa_f1_score"
GOLD = "Mira Toren"
RIGHT, LONG, WRONG = GOLD, f"It may well have been {GOLD} who did it in the end", "Ardun"


def run(root, method, answers, *, extra=None, **more):
    """A run whose records hold questions and gold answers; None is a failed question."""
    rows = []
    for n, answer in enumerate(answers):
        gold = {"answers": [GOLD], "supporting": [], "extra": extra or {}}
        fields = {"prediction": answer or "", "scores": {F1: _f1(answer)}}
        rows.append(answered(n, None if answer is None else 0.0, gold, **fields))
    dataset = {"name": "musique", "format": "retrieved", "scorers": [F1]}
    settings = {"dataset": dataset} | more
    return read_run(
        write_run(root, rows, method=method, settings=settings, manifest={"scorers": {F1: "1"}})
    )


def _f1(answer):
    words = (answer or "").split()
    hits = len(set(words) & set(GOLD.split()))
    return 2 * hits / (len(words) + 2) if hits else 0.0


def of(*runs):
    return score_bands.analyse_runs(runs_with_rows(runs, None, print))


def test_means_under_every_scorer_and_their_range_in_each_family(tmp_path):
    (band,) = of(run(tmp_path, "short", [RIGHT, WRONG] * 30), run(tmp_path, "long", [LONG] * 60))
    assert band.methods == ["short", "long"]
    assert len(band.means) >= 16
    assert band.means["flashrag.em"] == {"short": 0.5, "long": 0.0}
    ((_, table),) = score_bands.sections([band])
    short, long = table.to_dict("records")
    assert [(row["containment"], row["exact match"]) for row in (short, long)] == [
        ("50.0", "50.0"),
        ("100.0", "0.0"),
    ]
    assert " to " in long["F1"], "normalisations differ"
    assert (short["rank"], long["rank"]) == ("1 to 2", "1 to 2")
    rows = score_bands.frame([band])
    acc = rows[(rows["scorer"] == "flashrag.acc") & (rows["method"] == "long")].iloc[0]
    assert (acc["score"], acc["rank"], acc["family"], acc["n"]) == (1.0, 1, "containment", 60)


def test_failed_questions_and_questions_in_common(tmp_path):
    (band,) = of(
        run(tmp_path, "a", [RIGHT, None, RIGHT, RIGHT]), run(tmp_path, "b", [RIGHT, RIGHT])
    )
    assert (band.n, band.all_answered_same_questions) == (2, False)
    assert band.means["flashrag.acc"] == {"a": 0.5, "b": 1.0}
    (skipped,) = of(run(tmp_path / "s", "a", [RIGHT, None], failed="skip"))
    assert (skipped.n, skipped.means["musique.answer_em"]["a"]) == (1, 1.0)
    with pytest.raises(UserError, match="no question in common"):
        of(
            run(tmp_path / "x", "a", [None], failed="skip"),
            run(tmp_path / "x", "b", [RIGHT], failed="skip"),
        )


def test_which_scorers_apply(tmp_path):
    options = run(tmp_path, "options", [RIGHT], extra={"all_classes": [GOLD, WRONG]})
    dataset = {"name": "dureader", "scorers": ["longbench.rouge_zh_score", "evidence_recall"]}
    chinese = read_run(write_run(tmp_path / "zh", [record(0, 1.0)], settings={"dataset": dataset}))
    nested = run(tmp_path / "n", "nested", [RIGHT], extra={"short_answers": [[GOLD]]})

    def names(one):
        return set(
            score_bands.applicable_scorers(
                one, [e.gold for e in runs_with_rows([one], None, print)[0][1].examples.values()]
            )
        )

    assert names(options) == {F1}
    assert set(score_bands.applicable_scorers(chinese, [])) & {F1, "evidence_recall"} == set()
    assert {"longbench.rouge_zh_score", "flashrag.acc"} <= set(
        score_bands.applicable_scorers(chinese, [])
    )
    assert {"alce.str_em", "alce.str_hit"} <= names(nested)
    assert "alce.str_em" not in names(run(tmp_path / "p", "plain", [RIGHT]))
