"""Qasper: both published forms give the same papers, answers follow the official evaluator,
evidence is found."""

import json

import pytest

from harness.datasets import load
from harness.datasets.qasper import parse_row
from harness.scorers import score
from tests.datasets import support
from tests.datasets.support import (
    check_mistake,
    config,
    needs_real,
    parquet,
    qasper,
    qasper_columns,
    real,
    write_lines,
)

TEXT = "Mills 1\nWe count mills.\n\nIntroduction\nMills grind.\n\nThey turn.\n\nData ::: Sources\nWe saw 1 mills."


def _answer(paper, question=0, annotator=0):
    return paper["qas"][question]["answers"][annotator]["answer"]


def _keyed(papers):
    return {p["id"]: {key: value for key, value in p.items() if key != "id"} for p in papers}


def test_a_paper_as_used():
    group = parse_row(qasper(1))
    document = group.document
    assert (document.id, document.title, document.text) == ("1901.1", "Mills 1", TEXT)
    assert [(p.title, TEXT[p.start : p.end]) for p in document.passages] == [
        ("Mills 1", "Mills 1\nWe count mills."),
        ("Introduction", "Introduction\nMills grind."),
        ("Introduction", "They turn."),
        ("Data ::: Sources", "Data ::: Sources\nWe saw 1 mills."),
    ]
    first, second = group.examples
    assert (first.question.id, first.question.document_ids) == ("q1a", ("1901.1",))
    assert first.gold.answers == ("grind, turn", "They grind")
    assert [TEXT[s.start : s.end] for s in first.gold.supporting] == ["Mills grind.", "They turn."]
    assert first.gold.extra == {"types": ["extractive", "abstractive"], "evidence_floats": 1}
    assert second.gold.answers == ("Yes", "Unanswerable")
    assert [TEXT[s.start : s.end] for s in second.gold.supporting] == ["Data ::: Sources"]
    assert second.gold.extra == {"types": ["boolean", "none"]}


ANSWERS = [
    ({"yes_no": False}, "No", "boolean"),
    ({"yes_no": True, "free_form_answer": "It is"}, "It is", "abstractive"),
    ({"free_form_answer": "x", "extractive_spans": ["a"]}, "a", "extractive"),
    ({"unanswerable": True, "extractive_spans": ["a"]}, "Unanswerable", "none"),
]


@pytest.mark.parametrize(("fields", "text", "kind"), ANSWERS)
def test_which_part_of_an_annotation_is_the_answer(fields, text, kind):
    paper = qasper(1)
    empty = {
        "unanswerable": False,
        "extractive_spans": [],
        "yes_no": None,
        "free_form_answer": "",
        "evidence": [],
    }
    paper["qas"][0]["answers"] = [{"answer": {**empty, **fields}}]
    gold = parse_row(paper).examples[0].gold
    assert (gold.answers, gold.extra["types"]) == ((text,), [kind])
    assert gold.supporting == ()


EVIDENCE = [
    ("We count mills.", "We count mills."),
    ("Mills 1", "Mills 1"),
    ("They  turn. ", "They turn."),
    ("saw 1", "saw 1"),
    ("Not in the paper.", None),
]


@pytest.mark.parametrize(("evidence", "found"), EVIDENCE)
def test_evidence_is_located(evidence, found):
    paper = qasper(1)
    for annotator in (0, 1):
        _answer(paper, 0, annotator)["evidence"] = [evidence]
    gold = parse_row(paper).examples[0].gold
    assert [TEXT[s.start : s.end] for s in gold.supporting] == ([found] if found else [])
    assert gold.extra.get("evidence_not_found") == (None if found else 1)


def test_a_paragraph_that_comes_twice_is_marked_once():
    paper = qasper(1)
    paper["full_text"][1]["paragraphs"] = ["Mills grind."]
    (first, _) = parse_row(paper).examples[0].gold.supporting
    assert first.start == TEXT.index("Mills grind.")


@pytest.mark.parametrize("form", ["mapping", "pretty", "list", "lines", "columns", "parquet"])
def test_every_form_gives_the_same_papers(tmp_path, form):
    papers = [qasper(1), qasper(2)]
    path = tmp_path / ("r.parquet" if form == "parquet" else "r.json")
    if form in ("lines", "columns"):
        write_lines(path, papers if form == "lines" else [qasper_columns(p) for p in papers])
    elif form == "parquet":
        path.write_bytes(parquet([qasper_columns(p) for p in papers]))
    else:
        value = papers if form == "list" else _keyed(papers)
        path.write_text(json.dumps(value, indent=1 if form == "pretty" else None))
    plain = load(config("qasper", data=str(write_lines(tmp_path / "plain.jsonl", papers))))
    data = load(config("qasper", data=str(path)))
    assert (data.fingerprint, data.examples) == (plain.fingerprint, plain.examples)
    assert data.documents == plain.documents
    assert list(data.documents) == ["1901.1", "1902.1"]


def _set(key, value):
    return lambda paper: paper.__setitem__(key, value)


MISTAKES = [
    (lambda p: p.pop("id"), "id", "is missing"),
    (_set("full_text", "text"), "full_text", "should be a list, is a string"),
    (
        _set("full_text", {"section_name": ["a"], "paragraphs": []}),
        "full_text",
        "section_name 1, paragraphs 0",
    ),
    (lambda p: p.update(title=" ", abstract="", full_text=[]), None, "the document is empty"),
    (_set("qas", [3]), "qas[0]", "should be an object, is a number"),
    (lambda p: p["qas"][1].pop("answers"), "qas[1].answers", "is missing"),
    (lambda p: p["qas"][1].update(answers=[]), "qas[1].answers", "the question has no answer"),
    (
        lambda p: p["qas"][1].update(answers={"answer": [1], "worker_id": []}),
        "qas[1].answers",
        "differ in length",
    ),
    (lambda p: p["qas"][0].update(question=""), "qas[0].question", "is empty"),
    (
        lambda p: p["qas"][0].update(question_id="q1a"),
        "question id",
        "'q1a' is also the id of the row at",
    ),
    (
        lambda p: _answer(p).update(yes_no="yes"),
        "qas[0].answers[0].answer.yes_no",
        "true or false, is a string",
    ),
    (
        lambda p: _answer(p).update(extractive_spans=[]),
        "qas[0].answers[0].answer",
        "is neither unanswerable nor",
    ),
    (lambda p: _answer(p).update(extractive_spans=[" "]), "qas[0].answers[0].answer", "is blank"),
    (_set("title", "half \ud800"), None, "half a character (\\ud800)"),
    (_set("id", "1901.1"), None, "the document '1901.1' has another text in an earlier row"),
]


@pytest.mark.parametrize(("change", "field", "problem"), MISTAKES)
def test_mistake_is_named(tmp_path, change, field, problem):
    bad = qasper(2)
    change(bad)
    check_mistake(tmp_path, [qasper(1), bad, qasper(3)], field, problem, config("qasper"))


BROKEN = [
    ('{"1": {}', "broken JSON: Expecting ',' delimiter"),
    ('{"1": {}, 2: {}}', "broken JSON: Expecting property name"),
    ('{"1": {}} x', "broken JSON: Extra data"),
    ('{"1": {}, "1": {}}', "broken JSON: the key '1' is given twice"),
    ('{"1": 3}', "row 1: a row should be a JSON object, is a number"),
    ('{"1": {"id": "2"}}', "row 1: its key is '1' and its 'id' another"),
    ('{"1": {}}', "row 1, field 'title': is missing"),
    ("{}", "line 1, field 'id': is missing"),
]


@pytest.mark.parametrize(("content", "problem"), BROKEN)
def test_a_broken_object_of_papers_is_one_sentence(tmp_path, content, problem):
    (tmp_path / "r.json").write_text(content)
    support.check_refused(config("qasper", data=str(tmp_path / "r.json")), problem)


@needs_real
def test_answers_give_what_the_official_evaluator_gives():
    path = real("data", "qasper", "qasper-train-v0.3-sample.json")
    data = load(config("qasper", data=str(path)))
    rows = [
        json.loads(line)
        for line in real("golden", "dataset_eval.jsonl").read_text("utf-8").splitlines()
    ]
    golden = [
        row
        for row in rows
        if row["metric"] == "qasper.evaluate" and row["data_file"].endswith(path.name)
    ]
    assert golden
    for row in golden:
        given = row["predictions"]
        asked = [
            (given[e.question.id]["answer"], e.gold.answers)
            for e in data.examples
            if e.question.id in given
        ]
        values = [score("qasper.token_f1_score", *one) for one in asked]
        assert sum(values) / len(data.examples) == pytest.approx(row["value"]["Answer F1"])
