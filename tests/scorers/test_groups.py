"""Scores of one group of questions: who is in it, who is left out, and LongBench-E's own
figures."""

from collections import defaultdict

import pytest

from harness import scorers
from harness.scorers.longbench_eval import mean_score, scorer_e
from harness.types import Gold

ITEMS = [
    ("Ada", 100),
    ("nobody", 3000),
    ("Ada Velmark", 5000),
    ("Bert\nAda", 8500),
    ("Ada\nBert", 9000),
]


METRICS = [
    ("qasper", "qa_f1_score"), ("triviaqa", "qa_f1_score.first_line"), ("gov_report", "rouge_score"),
    ("samsum", "rouge_score.first_line"), ("trec", "classification_score.first_line"), ("lcc", "code_sim_score"),
    ("passage_count", "count_score"), ("passage_retrieval_en", "retrieval_score"),
]  # fmt: skip
REFERENCES = {"passage_count": "2", "passage_retrieval_en": "Paragraph 2"}


@pytest.mark.parametrize(("dataset", "metric"), METRICS)
def test_the_columns_are_what_longbench_e_prints(dataset, metric):
    gold, classes = REFERENCES.get(dataset, "Ada"), ["Ada", "Bert"]
    replies, lengths = [p.replace("Ada", gold) for p, _ in ITEMS], [n for _, n in ITEMS]
    official = scorer_e(
        replies, [[gold]] * len(ITEMS), dataset=dataset, lengths=lengths, all_classes=classes
    )
    names = [f"longbench.{metric}.{name}" for name in official]
    found = defaultdict(list)
    for prediction, length in zip(replies, lengths, strict=True):
        extra = {"length": length, "all_classes": classes}
        sheet = scorers.score_answer(names, prediction, (), Gold((gold,), extra=extra))
        for name, value in sheet.scores.items():
            found[name].append(value)
    ours = {name.rpartition(".")[2]: round(100 * sum(v) / len(v), 2) for name, v in found.items()}
    assert ours == official
    assert sum(map(len, found.values())) == len(ITEMS)


def test_the_first_line_is_scored_as_longbench_scores_triviaqa():
    for prediction, _ in ITEMS:
        value = scorers.score("longbench.qa_f1_score.first_line", prediction, ["Ada"])
        assert round(100 * value, 2) == mean_score([prediction], [["Ada"]], dataset="triviaqa")


OPTIONS = ["A mill", "A ship"]


@pytest.mark.parametrize(
    ("difficult", "scores"), [(0, {"easy": 1.0}), (1, {"hard": 1.0}), (None, {})]
)
def test_quality_by_difficulty(difficult, scores):
    extra = {"all_classes": OPTIONS} | ({} if difficult is None else {"difficult": difficult})
    asked = ["quality.accuracy.easy", "quality.accuracy.hard"]
    sheet = scorers.score_answer(asked, "(A)", (), Gold(("A mill",), extra=extra))
    assert sheet.scores == {f"quality.accuracy.{name}": value for name, value in scores.items()}
    assert set(sheet.flags) == {*asked} - {*sheet.scores}
    wrong = scorers.score(
        "quality.accuracy.hard", "(B)", ["A mill"], all_classes=OPTIONS, difficult=1
    )
    assert wrong == 0.0
