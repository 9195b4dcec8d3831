"""MRCR, OOLONG, Loong, LongBench Pro and HELMET: official rows as used, and mistakes named.

Their scorers equal the authors' code on 39,385 and 40,000 (OOLONG) and 55,280 made-up replies
(LongBench Pro; 5,600 more with repeated gold lines), and on 4,000 of HELMET.
"""

import pytest

from harness.datasets import load
from harness.scorers import score
from tests.datasets import support
from tests.datasets.support import check_mistake, config, write_lines


def first_of(tmp_path, form, *rows):
    """The first question of rows, and its document's text."""
    data = load(config(form, data=str(write_lines(tmp_path / "r.jsonl", list(rows)))))
    example = data.examples[0]
    return example, data.documents[example.question.document_ids[0]].text, data


def test_a_chat_of_mrcr_is_a_document_and_its_last_message_the_question(tmp_path):
    example, text, _ = first_of(tmp_path, "mrcr", support.mrcr(1), support.mrcr(2))
    assert text.startswith("User: Write of mills\n\nAssistant: Ada built it.\n\nUser: Write")
    assert example.question.text == "Prepend x1 to the 2nd (1 indexed) text of mills."
    assert [text[m.start : m.end] for m in example.gold.supporting] == ["Assistant: Bo left."]
    assert example.gold.extra == {"prefix": "x1", "type": "2 needles"}
    replies = [("x1Bo left.", 1.0), ("Bo left.", 0.0), (" x1Bo left.", 0.0), ("x1Bo", 4 / 10)]
    assert [
        score("mrcr.match", reply, example.gold.answers, prefix="x1") for reply, _ in replies
    ] == [pytest.approx(value) for _, value in replies]


@pytest.mark.parametrize(
    ("answer", "gold"),
    [("['spam']", "spam"), ("[7]", "7"), ("[datetime.date(2023, 5, 1)]", "2023-05-01")],
)
def test_gold_answers_of_oolong_are_read_as_python_writes_them(tmp_path, answer, gold):
    example, _, data = first_of(
        tmp_path, "oolong", support.oolong(1, answer=answer), support.oolong(2)
    )
    assert example.gold.answers == (gold,)
    assert len(data.documents) == 1
    example, _, _ = first_of(tmp_path, "oolong", support.oolong(answer="84", answer_type=None))
    assert (example.gold.answers, example.gold.extra) == (("84",), {})


@pytest.mark.parametrize(
    ("reply", "gold", "kind", "value"),
    [
        ("Label: [spam]", "spam", "LABEL", 1.0),
        ("It is the label spam I believe", "spam", "LABEL", 0.0),
        ("Answer: **9**", "7", "NUMERIC", 0.75**2),
        ("Answer: spam is more common than ham", "more common than", "COMPARISON", 1.0),
        ("Date: May 1, 2023", "2023-05-01", "DATE", 1.0),
        ("Date: May 2023", "2023-05-01", "DATE", 0.0),
        (" " * 25, "spam", "LABEL", 0.0),
    ],
)
def test_scores_of_oolong_synth(reply, gold, kind, value):
    assert score("oolong.synth", reply, [gold], answer_type=f"ANSWER_TYPE.{kind}") == value


@pytest.mark.parametrize(
    ("reply", "gold", "value"),
    [
        ("So \\boxed{83}", "84", 0.75),
        ("\\boxed{\\text{ada}}", "Ada", 1.0),
        ("\\boxed{Ada, Bo}", "Ada, Cy", 0.5),
        ("84", "84", 0.0),
        ("Ada", "Ada", 1.0),
    ],
)
def test_scores_of_oolong_real(reply, gold, value):
    assert score("oolong.real", reply, [gold]) == value


def test_the_question_of_loong_is_its_template_without_the_documents(tmp_path):
    example, text, _ = first_of(tmp_path, "loong", support.loong(1, set=2), support.loong(2))
    assert text == support.loong()["docs"]
    assert example.question.text == "#Papers:\n\n\nFind what it cites.\n\n#The paper:\nMill 1"
    assert example.gold.answers == ("{'Reference': ['Bo']}",)
    marks = {"type": "clustering", "level": "paper", "set": 2, "judge": "loong/rating"}
    rated = "#Papers:\n{docs}\n\nFind what it cites.\n\n#The paper:\nMill 1"
    assert example.gold.extra == {**marks, "question": rated}


@pytest.mark.parametrize(
    ("task", "reply", "value"),
    [
        ("T1.1", "bo\nada", 0.8597186998521972),
        ("T2.1", "[Answer]\nBo\nAda", 0.0),
        ("T3.1", "So: x\n[Answer]\n ADA ", 1.0),
        ("T4.1", "Ada", None),
        ("T5.1", "Ada\nCy", 0.5),
        ("T8.1", "Cy\nada", 0.5),
    ],
)
def test_a_task_of_longbench_pro_has_its_metric(tmp_path, task, reply, value):
    row = support.longbench_pro(1, secondary_task=f"{task} Task")
    example, _, _ = first_of(tmp_path, "longbench-pro", row, support.longbench_pro(2))
    marks = {key: example.gold.extra[key] for key in ("lines", "type")}
    found = score("longbench_pro.score", reply, example.gold.answers, **marks)
    assert found == (value if value is None else pytest.approx(value))


def test_pairs_of_repeated_gold_lines_of_longbench_pro_count_0_above_1():
    marks = {"lines": [" Cy", "Bo", "Ada", "Ada", "bo "], "type": "T2.1 Global Timeline"}
    assert score("longbench_pro.score", "Ada\nBo", ["x"], **marks) == 0.0
    assert score("longbench_pro.score", "Cy\nBo\nAda\nDi", ["x"], **marks) == 1.0


def test_a_question_of_helmet_comes_with_its_passages_at_several_depths(tmp_path):
    row = support.helmet(1)
    turned = {**row, "ctxs": row["ctxs"][::-1]}
    _, text, data = first_of(tmp_path, "helmet", row, turned, {**support.helmet(2), "s_pop": 1000})
    shown = ["Document (Title: Mill): Ada built mill 1.", "Document (Title: Bo): Bo left."]
    assert text == "\n\n".join(shown)
    (document,) = [d for d in data.documents.values() if d.text == text]
    assert [text[p.start : p.end] for p in document.passages] == shown
    assert len(data) == 2
    assert data.skipped == {"of a subject with 1,000 views or more": 1}


@pytest.mark.parametrize(
    ("form", "changes", "field", "problem"),
    [
        ("mrcr", {"prompt": "x"}, "prompt", "should be a JSON list of messages"),
        ("oolong", {"answer": "spam"}, "answer", "should be a list in Python's form"),
        ("loong", {"docs": " "}, "docs", "is empty"),
        ("longbench-pro", {"answer": []}, "answer", "the row has no answer"),
        ("helmet", {"ctxs": [{"text": "x"}]}, "ctxs[0].title", "is missing"),
    ],
)
def test_mistake_is_named(tmp_path, form, changes, field, problem):
    make = getattr(support, form.replace("-", "_"))
    check_mistake(tmp_path, [make(1), make(2, **changes)], field, problem, config(form))
