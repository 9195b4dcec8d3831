"""LongBench's rows: texts shared by questions, its own file for each data set, mistakes named."""

import json
import zipfile
from pathlib import Path

import pytest

from harness import scorers
from harness.config import presets
from harness.config.schema import DatasetConfig
from harness.datasets import load
from harness.errors import DataError
from harness.storage.summary import summarise
from harness.types import Gold
from tests.datasets.support import check_mistake, config, longbench, needs_real, real, write_lines


def _load(data, subset="musique", **more):
    return load(config("longbench", data=str(data), subset=subset, split="test", **more))


def test_rows_as_used(tmp_path):
    data = _load(write_lines(tmp_path / "r.jsonl", [longbench(2), longbench(3), longbench(4, all_classes=["A"])]))
    first, second, third = data.examples
    assert (first.question.id, first.question.text) == ("lb2", "Who built mill 2?")
    assert first.gold.answers == ("Ada", "Ada Velmark")
    assert first.gold.supporting == ()
    assert first.gold.extra == {"length": 12, "language": "en"}
    assert third.gold.extra["all_classes"] == ["A"]
    # Two questions on one text are two questions on one document, which is indexed once.
    assert first.question.document_ids == second.question.document_ids != third.question.document_ids
    assert data.documents[first.question.document_ids[0]].text == longbench(2)["context"]
    assert len(data.documents) == 2


def test_folder_and_archive_give_the_file_of_the_data_set(tmp_path):
    files = {"musique.jsonl": longbench(1), "musique_e.jsonl": longbench(2, dataset="musique_e"), "qasper.jsonl": {}}
    (tmp_path / "folder").mkdir()
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        for name, row in files.items():
            write_lines(tmp_path / "folder" / name, [row])
            archive.write(tmp_path / "folder" / name, f"data/{name}")
    folder, zipped = _load(tmp_path / "folder"), _load(tmp_path / "data.zip")
    assert [e.question.id for e in folder.examples] == ["lb1"]
    assert folder.fingerprint == zipped.fingerprint
    assert (folder.source, zipped.source) == ("musique.jsonl", "data.zip (data/musique.jsonl)")
    extended = _load(tmp_path / "folder" / "musique_e.jsonl")
    assert [e.question.id for e in extended.examples] == ["lb2"]


MISTAKES = [
    ({"_id": None}, "_id", "should be a string, is null"),
    ({"_id": ""}, "_id", "is empty"),
    ({"_id": "lb1"}, "question id", "'lb1' is also the id of the row at rows.jsonl, line 1"),
    ({"input": ""}, "input", "is empty"),
    ({"input": 3}, "input", "should be a string, is a number"),
    ({"context": " \n"}, "context", "is empty"),
    ({"answers": "Ada"}, "answers", "should be a list, is a string"),
    ({"answers": []}, "answers", "the row has no answer"),
    ({"answers": [" "]}, "answers", "the row has no answer"),
    ({"answers": [None]}, "answers[0]", "should be a string, is null"),
    ({"length": "12"}, "length", "should be a whole number, is a string"),
    ({"all_classes": "x"}, "all_classes", "should be a list, is a string"),
    ({"dataset": "qasper"}, "dataset", "the row is of 'qasper', not of 'musique'; give the file of 'musique'"),
    ({"context": "\ud800"}, None, "half a character"),
]


@pytest.mark.parametrize(("changes", "field", "problem"), MISTAKES)
def test_mistake_is_named(tmp_path, changes, field, problem):
    given = config("longbench", subset="musique", split="test")
    check_mistake(tmp_path, [longbench(1), longbench(2, **changes)], field, problem, given)


@pytest.mark.parametrize("key", ["_id", "input", "context", "answers"])
def test_missing_key(tmp_path, key):
    row = longbench(1)
    del row[key]
    with pytest.raises(DataError, match=f"line 1, field '{key}': is missing"):
        _load(write_lines(tmp_path / "r.jsonl", [row]))


def _shipped(name, data):
    fields = {
        key: value for _, values in presets.read("datasets", f"longbench/{name}") for key, value in values.items()
    }
    return DatasetConfig.model_validate({**fields, "data": str(data)})


def test_scores_by_length_are_columns_of_their_own(tmp_path):
    lengths = {1: 3999, 2: 4000, 3: 7999, 4: 8000, 5: None}
    rows = [longbench(n, length=length, dataset="qasper_e") for n, length in lengths.items()]
    shipped = _shipped("qasper_e", write_lines(tmp_path / "qasper_e.jsonl", rows))
    names = shipped.scorers[:4]
    assert names[1:] == tuple(f"longbench.qa_f1_score.{bucket}" for bucket in ("0-4k", "4-8k", "8k+"))
    predictions = ["Ada", "Ada", "nobody", "Ada", "Ada"]
    sheets = [
        scorers.score_record(names, text, (), example.gold)
        for text, example in zip(predictions, load(shipped).examples, strict=True)
    ]
    assert [sheet.scores.get(names[0]) for sheet in sheets] == [1, 1, 0, 1, 1]
    assert [sheet.scores.get(names[1]) for sheet in sheets] == [1, None, None, None, None]
    assert [sheet.scores.get(names[2]) for sheet in sheets] == [None, 1, 0, None, None]
    assert [sheet.scores.get(names[3]) for sheet in sheets] == [None, None, None, 1, None]
    assert set(sheets[4].flags.values()) == {"not of this group"}
    records = [
        {
            "question_id": str(n),
            "document_ids": ["d"],
            "scores": s.scores,
            "usage": {},
            "truncated": None,
            "error": None,
        }
        for n, s in enumerate(sheets)
    ]
    means = {name: score["mean"] for name, score in summarise(records, [])["scores"].items()}
    assert means == {names[0]: 0.8, names[1]: 1.0, names[2]: 0.5, names[3]: 1.0}


COUNTS = {"narrativeqa": 2, "qasper": 6, "hotpotqa": 8, "musique": 4, "2wikimqa": 7, "triviaqa": 7}
COUNTS |= {"multifieldqa_en": 4, "multifieldqa_zh": 37, "dureader": 3}
COUNTS |= {"passage_count": 2, "passage_retrieval_en": 12, "passage_retrieval_zh": 12, "trec": 3}


@needs_real
@pytest.mark.parametrize(("name", "count"), COUNTS.items())
def test_real_rows_through_the_shipped_config(name, count):
    shipped = _shipped(name, real("data", "longbench"))
    data = load(shipped)
    raw = [json.loads(line) for line in real("data", "longbench", f"{name}.jsonl").read_text("utf-8").splitlines()]
    assert (len(data), data.source) == (count, f"{name}.jsonl")
    for example, row in zip(data.examples, raw, strict=True):
        assert (example.question.id, example.question.text) == (row["_id"], row["input"] or shipped.options["question"])
        assert example.gold.answers == tuple(dict.fromkeys(row["answers"]))
        assert data.documents[example.question.document_ids[0]].text == row["context"]


def test_a_question_is_asked_where_a_row_asks_nothing(tmp_path):
    shipped = _shipped("gov_report", write_lines(tmp_path / "gov_report.jsonl", [longbench(1, input="", dataset=None)]))
    (example,) = load(shipped).examples
    assert example.question.text == shipped.options["question"]
    with pytest.raises(DataError, match="field 'input': is empty"):
        load(shipped.model_copy(update={"options": {}}))


@pytest.mark.parametrize(
    ("name", "reply", "score"),
    [
        ("trec", "Date\nType: Number", 1.0),
        ("lsht", "\nDate or Number\nDate", 0.5),
        ("samsum", "Ada came home.\nDialogue: more", 1.0),
    ],
)
def test_the_first_line_of_a_few_shot_reply_is_scored(name, reply, score):
    gold = Gold(("Ada came home.",) if name == "samsum" else ("Date",), extra={"all_classes": ["Date", "Number"]})
    first, *_ = _shipped(name, Path()).scorers
    assert scorers.score_record([first], reply, (), gold).scores[first] == pytest.approx(score)
