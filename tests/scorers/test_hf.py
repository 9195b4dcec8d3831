"""Scorers as metrics of Hugging Face `evaluate`, without the hub."""

import os

import pytest

from harness.errors import CannotRun, UnknownName, UserError
from harness.scorers import ScoreError, lookup, names
from tests.scorers.support import NO_JIEBA

evaluate = pytest.importorskip("evaluate", reason="the optional package evaluate is not installed")
hf = pytest.importorskip("harness.scorers.hf")


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """Any look-up on a network fails at once."""
    import socket

    def refuse(*_):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def compute(name, predictions, references, path, **extra):
    metric = hf.as_evaluate_metric(name, cache_dir=str(path))
    assert isinstance(metric, evaluate.Metric)
    return metric.compute(predictions=predictions, references=references, **extra)


FACT = {"title": "A", "sent_id": 0}
SPAN = {"document_id": "d", "start": 0, "end": 10}
SEEN = {"kind": "span", "document_id": "d", "start": 0, "end": 5, "sources": []}
WRITTEN = {"kind": "generated", "document_id": "", "start": 0, "end": 0, "sources": [SPAN]}


@pytest.mark.parametrize(
    ("name", "predictions", "references", "extra", "expected"),
    [
        ("musique.answer_f1", ["the Beatles", "x"], [["Beatles", "b"], ["y"]], {}, [1.0, 0.0]),
        ("hotpotqa.em", ["Paris", "x"], ["paris", "y"], {}, [1.0, 0.0]),
        (
            "longbench.classification_score",
            ["City"],
            [["City"]],
            {"all_classes": ["City", "State"]},
            [1.0],
        ),
        (
            "longbench.code_sim_score",
            ["xaxbxc"],
            [["abcx"]],
            {"backend": "python-Levenshtein"},
            [0.6],
        ),
        ("rouge_score.rougeL", ["the cat"], [["the cat"]], {}, [1.0]),
        ("alce.str_em", ["x y"], [[["x"], ["z", "q"]]], {}, [0.5]),
        ("musique.support_f1", [[8]], [[8, 12]], {}, [2 / 3]),
        ("qasper.paragraph_f1_score", [["p"], []], [["p"], []], {}, [1.0, 1.0]),
        ("hotpotqa.sp_recall", [[FACT]], [[FACT, {"title": "B", "sent_id": 1}]], {}, [0.5]),
        ("evidence_recall", [[SEEN], [WRITTEN]], [[SPAN], [SPAN]], {}, [1.0, 0.0]),
        ("evidence_recall_sources", [[WRITTEN]], [[SPAN]], {}, [1.0]),
    ],
)
def test_items(name, predictions, references, extra, expected, tmp_path):
    result = compute(name, predictions, references, tmp_path, **extra)
    assert result["scores"] == pytest.approx(expected)
    assert result[name] == pytest.approx(sum(expected) / len(expected))
    assert result["flags"] == {}


@pytest.mark.parametrize(
    ("name", "predictions", "references", "extra", "value"),
    [
        ("hf_bleu.corpus_bleu1", ["a b", "c d"], [["a b"], ["c e"]], {}, 0.75),
        ("flashrag.dataset_em", ["a b", "c"], [["b"], ["d"]], {}, 0.5),
        ("longbench.scorer", ["x"], [["x"]], {"dataset": "qasper"}, 100.0),
        ("flashrag.retrieval_recall_top1", [["x y", "z"]], [["z"]], {}, 0.0),
    ],
)
def test_lists(name, predictions, references, extra, value, tmp_path):
    assert compute(name, predictions, references, tmp_path, **extra) == {name: pytest.approx(value)}


def test_an_undefined_score_counts_zero_and_is_flagged(tmp_path):
    result = compute("hf_bleu.bleu1", ["", "a"], [["x"], ["a"]], tmp_path)
    assert result["scores"] == [0.0, 1.0]
    assert result["hf_bleu.bleu1"] == 0.5
    assert list(result["flags"]) == [0]


def test_an_item_without_marks_is_left_out_of_the_mean(tmp_path):
    result = compute("evidence_recall", [[SEEN], []], [[SPAN], []], tmp_path)
    assert result == {
        "evidence_recall": 1.0,
        "scores": [1.0, None],
        "flags": {1: "no supporting marks"},
    }


def test_batches(tmp_path):
    metric = hf.as_evaluate_metric("hotpotqa.em", cache_dir=str(tmp_path))
    for prediction, gold in (("a b", ["b"]), ("x", ["y"])):
        metric.add(prediction=prediction, reference=gold)
    assert metric.compute()["hotpotqa.em"] == 0.5


def test_every_scorer_but_a_normaliser_is_a_metric(tmp_path):
    for name in names():
        if lookup(name).kind in ("text", "searches"):
            with pytest.raises(UserError, match="no metric"):
                hf.as_evaluate_metric(name, cache_dir=str(tmp_path))
        elif NO_JIEBA and "jieba" in lookup(name).packages:
            with pytest.raises(CannotRun, match="pip install jieba"):
                hf.as_evaluate_metric(name, cache_dir=str(tmp_path))
        else:
            metric = hf.as_evaluate_metric(name, cache_dir=str(tmp_path))
            assert lookup(name).summary in metric.description


def test_bad_calls(tmp_path):
    with pytest.raises(UnknownName, match=r"hotpotqa\.em"):
        hf.as_evaluate_metric("hotpotqa.emm")
    with pytest.raises(ScoreError, match="takes no dataset"):
        compute("hotpotqa.em", ["a"], [["a"]], tmp_path, dataset="qasper")
    with pytest.raises(ScoreError, match="needs all_classes"):
        compute("longbench.classification_score", ["a"], [["a"]], tmp_path)
    with pytest.raises(UserError, match="'span' or 'generated'"):
        compute("evidence_recall", [[{**SEEN, "kind": "seen"}]], [[SPAN]], tmp_path)


def test_nothing_is_left_in_the_callers_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    compute("hotpotqa.em", ["a"], [["a"]], tmp_path / "cache")
    assert os.listdir(tmp_path) == ["cache"]
