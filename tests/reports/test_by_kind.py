"""Runs divided by the kind of their questions."""

import pytest

from harness.errors import UnknownName, UserError
from harness.storage.run_folder import read_run
from reports import frames
from reports.by_kind import kind_of_question, split_by_kind
from reports.compare import side_by_side
from reports.main_table import frame
from reports.page import page
from tests.reports.build import SCORE, built, record, write_run

HOPS = [2, 2, 2, 3, 3, None]


def run(root, method, **more):
    rows = []
    for i, hops in enumerate(HOPS):
        gold = {
            "answers": ["May 1901" if i % 2 else "Ada"],
            "supporting": [],
            "extra": {"hops": hops},
        }
        texts = {
            "question": "Who?",
            "gold": gold,
            "document_characters": [4000 * (i + 1)],
            "document_ids": ["d"],
        }
        rows.append(record(i, i / 10, **texts))
    return read_run(
        write_run(
            root, rows, method=method, documents=[built("d", 6.0)] * (method == "pecan"), **more
        )
    )


def test_each_kind_has_a_table_with_its_questions(tmp_path):
    table = frame(split_by_kind([run(tmp_path, "pecan"), run(tmp_path, "full-context")], "hops"))
    rows = {(row["dataset"], row["method"]): row for row in table.to_dict("records")}
    assert [
        (name, row["n"], row[SCORE]) for (name, method), row in rows.items() if method == "pecan"
    ] == [
        ("musique, hops 2", 3, pytest.approx(0.1)),
        ("musique, hops 3", 2, pytest.approx(0.35)),
    ]
    left = "1 of 6 questions tell no hops and are in no table"
    assert all(left in row["notes"] for row in rows.values())
    # The index is shared by all six questions of the run, not by those of a kind.
    assert rows["musique, hops 2", "pecan"]["ratio"] == pytest.approx((1.5 + 6.0 / 6) / 1.5)


@pytest.mark.parametrize(
    ("by", "kinds"),
    [
        ("length", ["1k to 2k", "2k to 4k", "2k to 4k", "4k to 8k"]),
        ("answer", ["text", "number", "text", "number"]),
    ],
)
def test_kinds_that_every_data_set_has(by, kinds, tmp_path):
    assert [kind_of_question(row, by) for row in run(tmp_path, "pecan").records][:4] == kinds


def test_differences_are_corrected_over_all_kinds(tmp_path):
    runs = [run(tmp_path, name) for name in ("pecan", "full-context")]
    pairs = side_by_side(split_by_kind(runs, "hops")).pairs
    assert [pair.test.n for pair in pairs] == [3, 2]


def test_a_kind_that_no_question_has_is_refused_with_those_that_they_have(tmp_path):
    stored = run(tmp_path, "pecan")
    with pytest.raises(UserError, match="tells its level; they tell: hops, length, answer"):
        split_by_kind([stored], "level")
    with pytest.raises(UnknownName, match="hops"):
        split_by_kind([stored], "hop")
    bare = read_run(write_run(tmp_path / "bare", [record(0, 1.0)]))
    with pytest.raises(UserError, match="they tell: nothing"):
        split_by_kind([bare], "hops")


def test_frames_and_the_page_have_them(tmp_path):
    stored = run(tmp_path, "pecan")
    assert list(frames.records_frame(stored)["hops"])[:5] == ["2", "2", "2", "3", "3"]
    assert "level" not in frames.records_frame(stored)
    made = page([stored])
    assert f"{SCORE} by hops" in made
    assert "mean.low" not in made  # kinds are no data sets: no mean over them
    assert "each weighs the same" not in made
    assert "2 (n = 3)" in made


def test_a_run_of_another_task_adds_no_column_to_the_kinds(tmp_path, command):
    run(tmp_path / "runs", "pecan")
    run(tmp_path / "runs", "full-context")
    other = {"name": "musique", "scorers": [SCORE], "instruction": "Say yes or no."}
    run(tmp_path / "runs", "bm25", settings={"dataset": other})
    file = tmp_path / "page.html"
    code, _, err = command("report", str(tmp_path / "runs"), "--html", str(file))
    assert code == 0, err
    text = file.read_text()
    assert f"{SCORE} by hops" in text
    assert "should not be ranked with" in text
    assert "asked_otherwise" not in text
