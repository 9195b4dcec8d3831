""" "F1" is not one metric: the same pair under each origin's rules, and quirks of published code that are kept."""

import pytest

from harness.scorers import score

PAIRS = [
    # prediction, gold, LongBench, FlashRAG
    ("Yes, he was born in Paris", "yes", 2 / 7, 0.0),
    ("no", "No one", 2 / 3, 0.0),
    ("mother-in-law", "mother in law", 0.0, 0.0),
    ("‘Abbas’", "Abbas", 0.0, 0.0),
    ("The Beatles\n\nQuestion: next", "Beatles", 0.5, 0.5),
    ("", "", 0.0, 0.0),
]


@pytest.mark.parametrize(("prediction", "gold", "longbench", "flashrag"), PAIRS)
def test_f1_by_origin(prediction, gold, longbench, flashrag):
    assert score("longbench.qa_f1_score", prediction, [gold]) == pytest.approx(longbench)
    assert score("flashrag.f1", prediction, [gold]) == pytest.approx(flashrag)
    assert score("hotpotqa.f1", prediction, [gold]) == pytest.approx(flashrag)


@pytest.mark.parametrize(
    ("metric", "value"),
    [("longbench.qa_f1_score", 0.0), ("musique.answer_f1", 1.0), ("hotpotqa.f1", 0.0), ("qasper.token_f1_score", 0.0)],
)
def test_empty_against_empty_by_origin(metric, value):
    assert score(metric, "", [""]) == value


@pytest.mark.parametrize(("metric", "value"), [("triviaqa.em", 1.0), ("hotpotqa.em", 0.0)])
def test_a_hyphen_is_a_space_for_triviaqa_only(metric, value):
    assert score(metric, "mother-in-law", ["mother in law"]) == value


def test_containment_is_by_character():
    assert score("flashrag.acc", "a party", ["art"]) == 1.0
    assert score("flashrag.acc", "anything", ["the"]) == 1.0  # normalises to nothing, which everything contains


@pytest.mark.parametrize(
    ("prediction", "gold", "classes", "value"),
    [
        # "Number" is dropped as part of the gold name; "Other number" is not part of it and stays
        ("Number of something", "Number of something", ["Number", "Number of something"], 1.0),
        # the published loop skips the entry after a dropped one: of two neighbours inside the gold name one survives
        ("abc", "abc", ["a", "b", "abc"], 1 / 2),
        ("abc", "abc", ["a", "x", "b", "abc"], 1 / 2),
        ("abc", "abc", ["abc", "a", "b"], 1 / 2),
        ("b", "abc", ["a", "b", "abc"], 0.0),
    ],
)
def test_classification_keeps_the_published_walk(prediction, gold, classes, value):
    assert score("longbench.classification_score", prediction, [gold], all_classes=classes) == pytest.approx(value)


@pytest.mark.parametrize(
    ("extra", "value"), [({}, 0.2), ({"backend": "difflib"}, 0.2), ({"backend": "python-Levenshtein"}, 0.6)]
)
def test_code_similarity_depends_on_the_backend(extra, value):
    # difflib takes the first longest block, the one-letter "x"; the longest common subsequence is "abc"
    assert score("longbench.code_sim_score", "xaxbxc", ["abcx"], **extra) == value


@pytest.mark.parametrize(
    ("dataset", "prediction", "value"),
    [("triviaqa", "\nParis\nQuestion: x", 100.0), ("hotpotqa", "\nParis\nQuestion: x", 50.0)],
)
def test_only_few_shot_sets_are_cut_to_the_first_line(dataset, prediction, value):
    assert score("longbench.scorer", [prediction], [["Paris"]], dataset=dataset) == value


@pytest.mark.parametrize(("length", "bucket"), [(3999, "0-4k"), (4000, "4-8k"), (7999, "4-8k"), (8000, "8k+")])
def test_length_classes(length, bucket):
    value = score("longbench.scorer_e", ["x"], [["x"]], dataset="qasper", lengths=[length])
    assert value == {"0-4k": None, "4-8k": None, "8k+": None} | {bucket: 100.0}


def test_qasper_evidence():
    assert score("qasper.paragraph_f1_score", [], []) == 1.0
    assert score("qasper.paragraph_f1_score", ["p"], []) == 0.0
    assert score("qasper.paragraph_f1_score", ["p", "q", "q"], ["p"]) == pytest.approx(2 / 3)


def test_flashrag_lists():
    assert score("flashrag.dataset_em", ["a b", "x"], [["b"], ["y"]]) == 0.5
    texts, golds = [["Paris is", "Rome"], ["x", "y", "z"]], [["paris"], ["z"]]
    assert score("flashrag.retrieval_recall_top1", texts, golds) == 0.5
    assert score("flashrag.retrieval_recall_top3", texts, golds) == 1.0
    assert score("flashrag.retrieval_precision_top3", texts, golds) == pytest.approx((1 / 2 + 1 / 3) / 2)
