"""LongBench's rows: texts shared by questions, its own file for each data set, supporting passages,
mistakes named."""

import json
from pathlib import Path

import pytest

from harness import scorers
from harness.config import presets
from harness.config.schema import DatasetConfig
from harness.datasets import load
from harness.errors import ConfigError, DataError
from harness.types import Gold
from tests.datasets.support import (
    check_mistake,
    check_refused,
    config,
    longbench,
    needs_real,
    real,
    write_lines,
)


def _load(data, subset="musique", **more):
    return load(config("longbench", data=str(data), subset=subset, split="test", **more))


def test_rows_as_used(tmp_path):
    data = _load(
        write_lines(
            tmp_path / "r.jsonl", [longbench(2), longbench(3), longbench(4, all_classes=["A"])]
        )
    )
    first, second, third = data.examples
    assert (first.question.id, first.question.text) == ("lb2", "Who built mill 2?")
    assert first.gold.answers == ("Ada", "Ada Velmark")
    assert first.gold.supporting == ()
    assert first.gold.extra == {"length": 12, "language": "en"}
    assert third.gold.extra["all_classes"] == ["A"]
    # Two questions on one text are two questions on one document, which is indexed once.
    assert (
        first.question.document_ids == second.question.document_ids != third.question.document_ids
    )
    assert data.documents[first.question.document_ids[0]].text == longbench(2)["context"]
    assert len(data.documents) == 2


MISTAKES = [
    ({"_id": None}, "_id", "should be a string, is null"),
    ({"_id": "lb1"}, "question id", "'lb1' is also the id of the row at rows.jsonl, line 1"),
    ({"input": ""}, "input", "is empty"),
    ({"context": " \n"}, "context", "is empty"),
    ({"answers": []}, "answers", "the row has no answer"),
    ({"length": "12"}, "length", "should be a whole number, is a string"),
    (
        {"dataset": "qasper"},
        "dataset",
        "the row is of 'qasper', not of 'musique'; give the file of 'musique'",
    ),
    ({"context": "\ud800"}, None, "half a character"),
]


@pytest.mark.parametrize(("changes", "field", "problem"), MISTAKES)
def test_mistake_is_named(tmp_path, changes, field, problem):
    given = config("longbench", subset="musique", split="test")
    check_mistake(tmp_path, [longbench(1), longbench(2, **changes)], field, problem, given)


def _shipped(name, data):
    fields = {
        k: v
        for _, values in presets.read("datasets", f"longbench/{name}")
        for k, v in values.items()
    }
    return DatasetConfig.model_validate({**fields, "data": str(data)})


@pytest.mark.parametrize("length", [3999, 4000, 7999, 8000, None])
def test_a_row_is_scored_in_the_column_of_its_length(tmp_path, length):
    rows = [longbench(1, length=length, dataset="qasper_e")]
    shipped = _shipped("qasper_e", write_lines(tmp_path / "qasper_e.jsonl", rows))
    sheet = scorers.score_answer(shipped.scorers[:4], "Ada", (), load(shipped).examples[0].gold)
    mine = {3999: [".0-4k"], 4000: [".4-8k"], 7999: [".4-8k"], 8000: [".8k+"], None: []}[length]
    assert sheet.scores == {f"longbench.qa_f1_score{end}": 1.0 for end in ["", *mine]}
    assert set(sheet.flags.values()) == {"not of this group"}


COUNTS = {"narrativeqa": 2, "qasper": 6, "hotpotqa": 8, "musique": 4, "2wikimqa": 7, "triviaqa": 7}
COUNTS |= {"multifieldqa_en": 4, "multifieldqa_zh": 37, "dureader": 3}
COUNTS |= {"passage_count": 2, "passage_retrieval_en": 12, "passage_retrieval_zh": 12, "trec": 3}


@needs_real
@pytest.mark.parametrize(("name", "count"), COUNTS.items())
def test_real_rows_through_the_shipped_config(name, count):
    shipped = _shipped(name, real("data", "longbench"))
    data = load(shipped)
    raw = [
        json.loads(line)
        for line in real("data", "longbench", f"{name}.jsonl").read_text("utf-8").splitlines()
    ]
    assert (len(data), data.source) == (count, f"{name}.jsonl")
    for example, row in zip(data.examples, raw, strict=True):
        assert (example.question.id, example.question.text) == (
            row["_id"],
            row["input"] or shipped.options["question"],
        )
        assert example.gold.answers == tuple(dict.fromkeys(row["answers"]))
        assert data.documents[example.question.document_ids[0]].text == row["context"]


def test_a_question_is_asked_where_a_row_asks_nothing(tmp_path):
    shipped = _shipped(
        "gov_report",
        write_lines(tmp_path / "gov_report.jsonl", [longbench(1, input="", dataset=None)]),
    )
    (example,) = load(shipped).examples
    assert example.question.text == shipped.options["question"]
    check_refused(shipped.model_copy(update={"options": {}}), "field 'input': is empty")


FEW_SHOT = [("trec", "Date\nType: Number", 1.0), ("lsht", "\nDate or Number\nDate", 0.5)]


@pytest.mark.parametrize(
    ("name", "reply", "score"), [*FEW_SHOT, ("samsum", "Ada came home.\nDialogue: more", 1.0)]
)
def test_the_first_line_of_a_few_shot_reply_is_scored(name, reply, score):
    gold = Gold(
        ("Ada came home.",) if name == "samsum" else ("Date",),
        extra={"all_classes": ["Date", "Number"]},
    )
    first, *_ = _shipped(name, Path()).scorers
    assert scorers.score_answer([first], reply, (), gold).scores[first] == pytest.approx(score)


PASSAGES = [
    ("Ada", "Ada was born.\n\nShe wrote."),
    ("Bo", "Bo ran."),
    ("Cy ", "Cy sat."),
    ("Bo", "Bo met Ada."),
]
CONTEXT = "\n\n".join(
    f"Passage {n}:\n{title}\n{text}" for n, (title, text) in enumerate(PASSAGES, 1)
)
ORIGINAL = {
    "_id": "o1", "question": "Who  met Ada?", "answer": "Bo",
    "supporting_facts": [["ada", 0], ["Bo", 0]], "context": [["ada", ["Ada was born."]], ["Bo", ["Bo met Ada."]]],
}  # fmt: skip


def row(number, question):
    return {
        "_id": f"l{number}",
        "input": question,
        "context": CONTEXT,
        "answers": ["Bo"],
        "dataset": "hotpotqa",
    }


def data(folder, originals=None, **options):
    lines = write_lines(folder / "lb.jsonl", [row(1, "Who met Ada?"), row(2, "Who sat?")])
    (folder / "original.json").write_text(json.dumps(originals or [ORIGINAL]))
    given = {"support": str(folder / "original.json"), **options}
    return load(
        config("longbench", data=str(lines), subset="hotpotqa", split="test", options=given)
    )


@pytest.mark.parametrize(("place", "order"), [("head", "Ada Bo Bo Cy"), ("tail", "Bo Cy Ada Bo")])
def test_supporting_passages_are_moved_and_numbered_anew(tmp_path, place, order):
    made = data(tmp_path, place=place)
    (example,) = made.examples
    document = made.documents[example.question.document_ids[0]]
    lines = document.text.split("\n")
    assert [
        lines[at + 1] for at, line in enumerate(lines) if line.startswith("Passage ")
    ] == order.split()
    assert [line for line in lines if line.startswith("Passage ")] == [
        f"Passage {n}:" for n in (1, 2, 3, 4)
    ]
    shown = [document.text[span.start : span.end] for span in example.gold.supporting]
    assert [text.split("\n", 1)[1] for text in shown] == [
        "Ada\nAda was born.\n\nShe wrote.",
        "Bo\nBo met Ada.",
    ]
    assert made.skipped == {"not among the original data set's rows": 1}
    assert made.source == f"lb.jsonl, support at the {place}"


def test_what_cannot_be_looked_up_is_said(tmp_path):
    other = {**ORIGINAL, "supporting_facts": [["Zed", 0]], "context": [["Zed", ["Zed."]]]}
    with pytest.raises(DataError, match="whose supporting passages are not in the text"):
        data(tmp_path, [other], place="head")
    with pytest.raises(
        ConfigError, match=r"marks no supporting passages.*--set dataset.support=FILE"
    ):
        data(tmp_path, place="head", support=None)
    with pytest.raises(DataError, match=r"original.json, row 1.*supporting_facts"):
        data(tmp_path, [{**ORIGINAL, "supporting_facts": [["nowhere", 0]]}], place="head")
