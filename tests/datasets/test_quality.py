"""QuALITY: official rows and the hub copy's, labels from 1 and from 0, pages with HTML, mistakes
named."""

import copy
import json

import pytest

from harness import scorers
from harness.datasets import load
from tests.datasets.support import check_mistake, config, needs_real, parquet, real, write_lines


def article(number=1, **changes):
    """A valid article with an easy and a hard question; odd and even numbers after another share
    their text."""
    base = {
        "article_id": f"2{number // 2:04}",
        "set_unique_id": f"set{number}",
        "title": "Builders",
    }
    about = {"options": ["A mill", "A ship", "A tower", "A bridge"]}
    easy = {"question": f"What was built ({number})?", "gold_label": 1, "difficult": 0}
    hard = {"question": "What was not?", "gold_label": 4, "difficult": 1}
    asked = [
        {**about, "question_unique_id": f"set{number}_{n}", **q} for n, q in ((1, easy), (2, hard))
    ]
    text = f"Ada built a mill in the year {number // 2}."
    return copy.deepcopy({**base, "article": text, "questions": asked, **changes})


def single(**changes):
    """A valid row of the hub copy."""
    row = {
        "article": "Ada built a mill.",
        "question": "What?",
        "options": ["A ship", "A mill"],
        "answer": 1,
    }
    return {**row, "hard": True, **changes}


def _load(path, **more):
    return load(config("quality", data=str(path), **more))


def test_official_rows(tmp_path):
    data = _load(write_lines(tmp_path / "r.jsonl", [article(2), article(3), article(4)]))
    first, second, *_ = data.examples
    assert [e.question.id for e in data.examples[:3]] == ["set2_1", "set2_2", "set3_1"]
    assert first.question.options == ("A mill", "A ship", "A tower", "A bridge")
    assert (first.gold.answers, second.gold.answers) == (("A mill",), ("A bridge",))
    assert first.gold.extra == {
        "gold_label": 1,
        "all_classes": [*first.question.options],
        "difficult": 0,
    }
    assert second.gold.extra["difficult"] == 1
    # Two writers' questions on one article are asked about one document.
    assert data.examples[0].question.document_ids == data.examples[2].question.document_ids
    assert len(data.documents) == 2
    assert data.documents[first.question.document_ids[0]].title == "Builders"


def test_rows_of_the_hub_copy_count_from_zero(tmp_path):
    rows = [
        single(),
        single(question="Which?", answer=0, hard=False),
        single(question="Who?", hard=None),
    ]
    path = tmp_path / "validation-00000-of-00001.parquet"
    path.write_bytes(parquet(rows))
    data = _load(path)
    assert [e.gold.answers[0] for e in data.examples] == ["A mill", "A ship", "A mill"]
    assert [e.gold.extra["gold_label"] for e in data.examples] == [2, 1, 2]
    assert [e.gold.extra.get("difficult") for e in data.examples] == [1, 0, None]
    assert len({e.question.id for e in data.examples}) == 3
    assert len(data.documents) == 1
    assert data.fingerprint == _load(write_lines(tmp_path / "r.jsonl", rows)).fingerprint


PAGES = [
    ("<p>One <i>two</i>.</p><p>Three &amp; four</p>", "One two.\n\nThree & four"),
    ("<h1>T</h1><script>var x;</script>text", "# T\n\ntext"),
    ("no page: a < b and c > d, <i> alone", "no page: a < b and c > d, <i> alone"),
    ("A  text\n\n as it is.", "A  text\n\n as it is."),
]


@pytest.mark.parametrize(("given", "text"), PAGES)
def test_articles_of_html_become_markdown_and_texts_stay(tmp_path, given, text):
    data = _load(write_lines(tmp_path / "r.jsonl", [article(2, article=given)]))
    (document,) = data.documents.values()
    assert document.text == text


def _changed(at=1, **changes):
    row = article(2)
    row["questions"][at].update(changes)
    return row


MISTAKES = [
    (article(2, article="<p> </p>"), "article", "is empty"),
    (_changed(question=""), "questions[1].question", "is empty"),
    (
        _changed(question_unique_id="set9_1"),
        "question id",
        "'set9_1' is also the id of the row at rows.jsonl, line 1",
    ),
    (
        _changed(gold_label=None),
        "questions[1].gold_label",
        "those of the test split are not published",
    ),
    (_changed(gold_label=0), "questions[1].gold_label", "should be 1 to 4, is 0"),
    (_changed(gold_label="1"), "questions[1].gold_label", "should be a whole number, is a string"),
    (_changed(options=["A mill"]), "questions[1].options", "should be 2 to 26 options, are 1"),
    (_changed(options=["A", " ", "C", "D"]), "questions[1].options[1]", "is blank"),
    (_changed(difficult=2), "questions[1].difficult", "should be 0 or 1, is 2"),
    (single(answer=2), "answer", "should be 0 to 1, is 2"),
    (single(answer=None), "answer", "not published"),
    (single(hard="no"), "hard", "should be true or false, is a string"),
    (single(options=[]), "answer", "should be 0 to -1"),
]


@pytest.mark.parametrize(("row", "field", "problem"), MISTAKES)
def test_mistake_is_named(tmp_path, row, field, problem):
    check_mistake(tmp_path, [article(9), row], field, problem, config("quality"))


@needs_real
@pytest.mark.parametrize(
    ("name", "articles"), [("quality_v1.0.1_sample.jsonl", 1), ("leval_quality_converted.jsonl", 8)]
)
def test_real_rows_give_the_golden_accuracy(name, articles):
    lines = real("golden", "dataset_eval.jsonl").read_text("utf-8").splitlines()
    (golden,) = [row for row in map(json.loads, lines) if row["data_file"] == f"quality/{name}"]
    data = _load(real("data", "quality", name))
    assert (len(data), len(data.documents)) == (golden["value"]["n"], articles)
    right = {"quality.accuracy": [], "quality.accuracy.hard": []}
    for example in data.examples:
        chosen = golden["predictions"].get(example.question.id)
        reply = "" if chosen is None else f"({chr(64 + chosen)})"
        for scorer, value in scorers.score_answer(right, reply, (), example.gold).scores.items():
            right[scorer].append(value)
    accuracy, hard = right.values()
    assert sum(accuracy) / len(accuracy) == pytest.approx(golden["value"]["accuracy"])
    assert len(hard) == golden["value"].get("n_hard", 0)
    if hard:
        assert sum(hard) / len(hard) == pytest.approx(golden["value"]["accuracy_hard"])
    text = next(iter(data.documents.values())).text
    assert "<p" not in text
    assert "&amp;" not in text
