"""Open-domain questions with retrieved documents: every published form, where documents come from,
mistakes named."""

import json

import pytest

from harness import scorers
from harness.config.layers import Choices
from harness.datasets import load, retrieved
from harness.datasets.find_files import Source
from harness.datasets.open_rows import parse_question
from harness.datasets.rows import NO_DOCUMENTS, RowError
from harness.engine.plan import plan_choices
from harness.errors import CannotRun, ConfigError, DataError, HarnessError
from tests.datasets.support import (
    check_mistake,
    check_refused,
    config,
    needs_real,
    real,
    write_lines,
)

DOCS = [
    {"title": "Mills", "text": "Ada built the mill."},
    {"id": "7", "contents": "Ships\nBert built the ship."},
]
PAIRS = [
    {"question": "a", "short_answers": ["Ada", ""]},
    {"question": "b", "short_answers": ["Bert"]},
]
ASQA = {
    "ambiguous_question": "Who?",
    "qa_pairs": PAIRS,
    "annotations": [{"long_answer": "Ada and Bert."}],
}
TRIVIA = {
    "Question": "Who?",
    "QuestionId": "tc_1",
    "Answer": {"Value": "Ada", "Aliases": ["Ada V.", "Ada"]},
}

WHO = {"question": "Who?"}
SHORT = {"short_answers": [["Ada"], ["Bert"]]}
KILT = {
    "id": "k1",
    "input": "Who? ",
    "output": [{"answer": "Ada"}, {"provenance": []}, {"answer": "A."}],
}
FORMS = {
    "flashrag": ({**WHO, "id": "test_0", "golden_answers": ["Ada", "A."]}, "test_0", "Ada|A.", {}),
    "flashrag asqa": (
        {**WHO, "id": 1, "golden_answers": ["A."], "metadata": {"qa_pairs": PAIRS}},
        "1",
        "A.",
        SHORT,
    ),
    "nq-open": ({**WHO, "answer": ["Ada", "Ada"]}, None, "Ada", {}),
    "hotpotqa": (
        {**WHO, "_id": "5a1", "answer": "Ada", "context": [["x", ["y"]]]},
        "5a1",
        "Ada",
        {},
    ),
    "dpr": ({**WHO, "answers": ["Ada"], "ctxs": []}, None, "Ada", {}),
    "alce": ({**WHO, "answer": "Ada", "docs": [], "sample_id": "s1"}, "s1", "Ada", {}),
    "alce asqa": ({**WHO, "answer": "Ada", "qa_pairs": PAIRS, "docs": []}, None, "Ada", SHORT),
    "kilt": (KILT, "k1", "Ada|A.", {}),
    "popqa": (
        {**WHO, "id": 3, "possible_answers": '["Ada", "A."]', "prop": "job"},
        "3",
        "Ada|A.",
        {"type": "job"},
    ),
    "asqa": ({"id": "-5", **ASQA}, "-5", "Ada and Bert.", SHORT),
    "triviaqa": (TRIVIA, "tc_1", "Ada|Ada V.", {}),
    "triviaqa columns": (
        {**WHO, "question_id": "q", "answer": {"value": "A", "aliases": ["B"]}},
        "q",
        "A|B",
        {},
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_its_question(form):
    raw, id_, answers, extra = FORMS[form]
    row = parse_question(raw)
    found = (row.question, row.answers, row.gold_extra())
    assert found == ("Who?", tuple(answers.split("|")), extra)
    # One without an id gets one that is made of its question alone.
    assert row.id == (id_ or parse_question({"question": "Who?", "answer": "other"}).id)
    assert id_ is not None or row.id.startswith("q-")


MISTAKES = [
    ({"question": "Who?"}, "answer", "is missing (it may also be called answers"),
    ({"question": "", "answer": "x"}, "question", "is empty"),
    ({"question": 3, "answer": "x"}, "question", "should be a string, is a number"),
    ({"question": "Who?", "golden_answers": []}, "golden_answers", "the row has no answer"),
    (
        {"question": "Who?", "golden_answers": ["x"], "id": True},
        "id",
        "a string or a whole number, is true",
    ),
    ({"question": "Who?", "golden_answers": ["x"], "id": " "}, "id", "is empty"),
    (
        {"question": "Who?", "golden_answers": ["x"], "metadata": 3},
        "metadata",
        "should be an object, is a number",
    ),
    ({"question": "Who?", "answer": 3}, "answer", "should be a list, is a number"),
    (
        {"question": "Who?", "possible_answers": "[Ada"},
        "possible_answers",
        "starts with '[' but is no JSON list",
    ),
    ({"input": "Who?", "output": "Ada"}, "output", "should be a list, is a string"),
    ({**ASQA, "annotations": [{}]}, "annotations[0].long_answer", "is missing"),
    ({**ASQA, "qa_pairs": [{}]}, "qa_pairs[0].short_answers", "should be a list, is null"),
    ({"Question": "Who?"}, "Answer", "is missing (test splits are published without"),
    (
        {"Question": "Who?", "Answer": {"Value": "x", "Aliases": [3]}},
        "Answer.Aliases[0]",
        "should be a string",
    ),
]


@pytest.mark.parametrize(("raw", "field", "problem"), MISTAKES)
def test_a_bad_question_is_named(raw, field, problem):
    with pytest.raises(RowError) as caught:
        parse_question(raw)
    assert caught.value.field == field
    assert problem in str(caught.value)


def _load(path, limit=None, **more):
    options = {key: more.pop(key) for key in ("documents", "top", "files") if key in more}
    return load(config("retrieved", data=str(path), options=options, **more), limit)


def question(number=1, **more):
    return {
        "id": f"q{number}",
        "question": f"Who built {number}?",
        "golden_answers": ["Ada"],
        **more,
    }


IN_ROWS = [
    {"ctxs": DOCS},
    {"docs": DOCS},
    {"paragraphs": DOCS},
    {"documents": DOCS},
    {"retrieval_result": DOCS},
    {"output": {"retrieval_result": DOCS}},
    {"ctxs": {"title": ["Mills", "Ships"], "text": [DOCS[0]["text"], "Bert built the ship."]}},
    {
        "entity_pages": {
            "title": ["Mills", "x", "Ships"],
            "wiki_context": [DOCS[0]["text"], "", "Bert built the ship."],
        }
    },
]


@pytest.mark.parametrize("given", IN_ROWS, ids=lambda given: next(iter(given)))
def test_documents_in_rows(tmp_path, given):
    data = _load(write_lines(tmp_path / "r.jsonl", [question(**given)]))
    first, second = (data.documents[id_] for id_ in data.examples[0].question.document_ids)
    assert (first.title, first.text) == ("Mills", "Mills\nAda built the mill.")
    assert (second.title, second.text) == ("Ships", "Ships\nBert built the ship.")
    assert [(p.title, p.start, p.end) for p in first.passages] == [("Mills", 0, len(first.text))]


def test_shared_marked_repeated_and_cut_documents(tmp_path):
    gold = {**DOCS[0], "isgold": True}
    rows = [question(1, ctxs=[*DOCS, DOCS[0]]), question(2, ctxs=[DOCS[1], gold])]
    path = write_lines(tmp_path / "r.jsonl", rows)
    data = _load(path)
    first, second = data.examples
    assert first.question.document_ids == second.question.document_ids[::-1]
    assert len(data.documents) == 2
    assert first.gold.supporting == ()
    (support,) = second.gold.supporting
    assert (support.document_id, support.start) == (second.question.document_ids[1], 0)
    assert support.end == len(data.documents[support.document_id].text)
    best = _load(path, top=1)
    assert [e.question.document_ids for e in best.examples] == [
        ids.question.document_ids[:1] for ids in data.examples
    ]
    assert best.examples[1].gold.supporting == ()
    assert best.fingerprint != data.fingerprint
    one = _load(path, limit=1)
    assert (one.fingerprint, len(one)) == (data.fingerprint, 1)


APART = {
    "by question": ("d.json", {"Who built  1?": DOCS}),
    "by id": ("d.json", {"q1": DOCS}),
    "rows by question": ("d.jsonl", [{"question": "Who built 1?", "docs": DOCS}]),
    "rows by id": ("d.jsonl", [{"id": "q1", "output": {"retrieval_result": DOCS}}]),
    "list": ("d.json", [{"query": "Who built 1?", "ctxs": DOCS}]),
}


@pytest.mark.parametrize("form", APART)
def test_documents_apart_from_the_questions(tmp_path, form):
    name, value = APART[form]
    place = tmp_path / name
    write_lines(place, value) if name.endswith("jsonl") else place.write_text(json.dumps(value))
    questions = write_lines(
        tmp_path / "r.jsonl", [question(1, ctxs=[{"text": "not these"}]), question(2)]
    )
    data = _load(questions, documents=str(place))
    assert [(e.question.id, len(e.question.document_ids)) for e in data.examples] == [
        ("q1", 2),
        ("q2", 0),
    ]
    assert {d.title for d in data.documents.values()} == {"Mills", "Ships"}
    assert data.skipped == {}
    assert data.notes == (f"1 of 2 questions are {NO_DOCUMENTS}: they are answered from no text",)
    assert data.source == f"r.jsonl with {name}"


def test_official_files_of_triviaqa_and_their_pages(tmp_path):
    pages = [{"Filename": "Mills.txt", "Title": "Mills"}, {"Filename": "Gone.txt", "Title": "Gone"}]
    whole = {"Data": [{**TRIVIA, "EntityPages": pages}], "Domain": "Wikipedia", "Version": 1.0}
    (tmp_path / "wikipedia-dev.json").write_text(json.dumps(whole, indent=2))
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "Mills.txt").write_text("Ada built the mill.")
    rows = write_lines(
        tmp_path / "pages.jsonl", [{"Filename": "Mills.txt", "text": "Ada built the mill."}]
    )
    made = [
        _load(tmp_path / "wikipedia-dev.json", documents=str(p))
        for p in (tmp_path / "evidence", rows)
    ]
    assert made[0].fingerprint == made[1].fingerprint
    assert [d.text for d in made[0].documents.values()] == ["Mills\nAda built the mill."]
    whole["Data"][0]["EntityPages"] = [{"Filename": "../pages.jsonl", "Title": "Out"}]
    (tmp_path / "wikipedia-dev.json").write_text(json.dumps(whole))
    with pytest.raises(DataError, match="none of the 1 questions is in"):
        _load(tmp_path / "wikipedia-dev.json", documents=str(tmp_path / "evidence"))


def test_official_file_of_asqa(tmp_path):
    path = tmp_path / "ASQA.json"
    path.write_text(
        json.dumps({"train": {"1": ASQA}, "dev": {"2": ASQA, "3": {**ASQA, "docs": DOCS}}})
    )
    (tmp_path / "d.json").write_text(json.dumps({"2": DOCS, "3": DOCS}))
    data = _load(path, documents=str(tmp_path / "d.json"))
    assert [e.question.id for e in data.examples] == ["2", "3"]
    message = "no split 'test' among train, dev; set dataset.split"
    check_refused(config("retrieved", data=str(path), split="test"), message)


def test_the_table_of_popqa(tmp_path):
    head, line = "id\tquestion\tpossible_answers\tprop", '5\tWho?\t"[""Ada"", ""A.""]"\tjob'
    (tmp_path / "popQA.tsv").write_text(f"{head}\n{line}\n", encoding="utf-8")
    (tmp_path / "d.json").write_text(json.dumps({"5": DOCS}))
    (example,) = _load(tmp_path / "popQA.tsv", documents=str(tmp_path / "d.json")).examples
    assert (example.question.id, example.gold.answers) == ("5", ("Ada", "A."))
    (tmp_path / "popQA.tsv").write_text(f"{head}\n{line}\n6\tWho?\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 3: has not the 4 columns of the header"):
        _load(tmp_path / "popQA.tsv", documents=str(tmp_path / "d.json"))


BAD = [
    ({"ctxs": "x"}, "ctxs", "should be a list, is a string"),
    ({"ctxs": [3]}, "ctxs[0]", "should be an object, is a number"),
    ({"ctxs": [{"title": "x"}]}, "ctxs[0].text", "is missing (it may also be called contents)"),
    ({"docs": [{"text": ""}]}, "docs[0].text", "is empty"),
    ({"docs": [{"text": "x", "title": 3}]}, "docs[0].title", "should be a string, is a number"),
    ({"docs": [{"text": "\ud800"}]}, None, "half a character"),
    (
        {"id": "q1", "ctxs": DOCS},
        "question id",
        "'q1' is also the id of the row at rows.jsonl, line 1",
    ),
]


@pytest.mark.parametrize(("given", "field", "problem"), BAD)
def test_a_bad_document_is_named(tmp_path, given, field, problem):
    rows = [question(1, ctxs=DOCS), question(2, **given)]
    check_mistake(tmp_path, rows, field, problem, config("retrieved"))


PLACES = [
    ("gone.json", "", "no such file or folder; dataset.documents names the retrieved documents"),
    ("d.txt", "x", "not a data file by its name"),
    (
        "d.jsonl",
        '{"question": "Who?"}\n',
        "line 1: a row needs an id or a question, and one of ctxs",
    ),
    ("d.jsonl", '{"docs": []}\n', "line 1: a row needs an id or a question"),
    ("d.jsonl", '{"Filename": "x"}\n', "line 1, field 'text': should be the text of the page"),
    ("d.jsonl", "{\n", "line 1: broken JSON"),
    ("d.jsonl", "", "the file has no rows"),
    ("d.json", '{"Who built 1?": 3}', "should be a list, is a number"),
    ("d.json", '{"Who built 1?": [', "broken JSON"),
    ("d.json", '{"Who built 9?": []}', "none of the 1 questions is in"),
]


@pytest.mark.parametrize(("name", "content", "problem"), PLACES)
def test_bad_places_of_documents(tmp_path, name, content, problem):
    if content or name == "d.jsonl":
        (tmp_path / name).write_text(content)
    data = str(write_lines(tmp_path / "r.jsonl", [question(1)]))
    check_refused(
        config("retrieved", data=data, options={"documents": str(tmp_path / name)}), problem
    )


def test_questions_alone_say_how_to_give_documents(tmp_path, monkeypatch):
    path = write_lines(tmp_path / "r.jsonl", [question(1), question(2)])
    with pytest.raises(
        DataError, match=r"the 2 questions come without .*--set dataset\.documents=FILE"
    ):
        _load(path)
    # Rows of the hub that bring none cannot be had as they are, so that a twin may stand in for
    # them.
    monkeypatch.setattr(
        retrieved, "find_source", lambda *_: Source((path,), "owner/name (nq/test.jsonl)", "c0ffee")
    )
    with pytest.raises(CannotRun, match="the 2 questions come without retrieved documents"):
        load(config("retrieved", hub="owner/name"))


def test_questions_alone_are_enough_for_a_method_that_reads_nothing(tmp_path):
    path = write_lines(tmp_path / "r.jsonl", [question(1), question(2)])
    plan = plan_choices(
        Choices(method="closed-book", dataset="nq", data=str(path), profile="pocket")
    )
    assert [e.question.document_ids for e in plan.dataset.examples] == [(), ()]
    assert plan.config.dataset.options["documents"] == ()
    with pytest.raises(HarnessError, match="the 2 questions come without retrieved documents"):
        plan_choices(Choices(method="bm25", dataset="nq", data=str(path), profile="pocket"))


@pytest.mark.parametrize("before", ["", '"version": "v2.0", ', '"name": "x", "version": 1.1, '])
def test_rows_in_a_list_named_data_are_read(tmp_path, before):
    rows = [question(1, ctxs=DOCS), question(2, ctxs=DOCS)]
    (tmp_path / "r.json").write_text(f'{{{before}"data": {json.dumps(rows)}, "more": 1}}')
    assert (
        _load(tmp_path / "r.json").fingerprint
        == _load(write_lines(tmp_path / "r.jsonl", rows)).fingerprint
    )


def test_options_are_checked(tmp_path):
    path = write_lines(tmp_path / "r.jsonl", [question(1, ctxs=DOCS)])
    for options, problem in (
        ({"top": 0}, "greater than or equal to 1"),
        ({"documens": "x"}, "documents"),
    ):
        check_refused(config("retrieved", data=str(path), options=options), problem, ConfigError)


@needs_real
def test_answers_of_triviaqa_give_what_the_official_evaluation_gives():
    lines = map(json.loads, real("golden", "dataset_eval.jsonl").read_text("utf-8").splitlines())
    (golden,) = [row for row in lines if row["metric"] == "triviaqa.evaluate_triviaqa"]
    pages = str(real("data", "triviaqa", "evidence_wikipedia.jsonl"))
    data = _load(real("data", golden["data_file"]), documents=pages)
    given = {
        e.question.id: (golden["predictions"].get(e.question.id), e.gold.answers)
        for e in data.examples
    }
    for key, scorer in (("exact_match", "triviaqa.em"), ("f1", "triviaqa.f1")):
        values = [scorers.score(scorer, *one) for one in given.values() if one[0] is not None]
        assert 100 * sum(values) / golden["value"]["denominator"] == pytest.approx(
            golden["value"][key]
        )
