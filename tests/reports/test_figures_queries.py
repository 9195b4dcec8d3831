"""Shared index costs against the papers' own arithmetic, and token counts; both with their
commands."""

import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from harness.config import registry
from harness.config.schema import DatasetConfig
from harness.datasets import load
from reports.figures.queries import break_even, cost_column, frame
from tests.reports.build import built, mistake, record, usage
from tests.reports.figure_searches import searched_run

# PECAN, table A4: index of a document, search + answer of a query, whole document; then 1, 2, 4, 8
# queries a document.
A4 = {
    "NarrativeQA": (2042.8, 31.0, 3361.9, [2073.8, 1052.4, 541.7, 286.4], 1),
    "Qasper": (136.6, 66.9, 92.5, [203.5, 135.2, 101.1, 84.0], 6),
    "HotpotQA": (40.2, 16.0, 23.6, [56.2, 36.1, 26.1, 21.0], 6),
    "MuSiQue": (66.7, 30.9, 40.6, [97.6, 64.3, 47.6, 39.2], 7),
}


registry.trust("tests.datasets.own_format:parse_row")  # as if a preset of the user named it


def indexed(root, index, query, **changes):
    """Two documents with two questions each; TFLOPs of a document's index and of a query."""
    rows = [
        record(i, 0.5, usage={"search": usage(query - 0.5), "answer": usage(0.5)}) for i in range(4)
    ]
    documents = [] if index is None else [built(d, index) for d in ("d0", "d1")]
    return searched_run(root, rows, documents=documents, **changes)


@pytest.mark.parametrize("name", A4)
def test_the_papers_table(tmp_path, name):
    index, query, whole, printed, least = A4[name]
    runs = [indexed(tmp_path, None, whole, method="full-context"), indexed(tmp_path, index, query)]
    row = next(r for r in frame(runs).to_dict("records") if r["method"] == "pecan")
    assert [row[cost_column(k)] for k in (1, 2, 4, 8)] == pytest.approx(
        printed, abs=0.0751
    )  # printed with one digit
    assert (row["break even"], row["tflops.reference"]) == (least, pytest.approx(whole))
    assert row["questions per document"] == 2


@hypothesis_settings(deadline=None)
@given(st.floats(0, 1e4), st.floats(0, 1e3), st.floats(0, 1e3).filter(lambda v: v == 0 or v > 1e-9))
def test_break_even_is_the_first_number_that_pays(index, query, reference):
    found = break_even(index, query, reference)
    if found is None:
        assert query >= reference
        return
    assert index / found + query <= reference * (1 + 1e-9)
    assert found == 1 or index / (found - 1) + query > reference * (1 - 1e-9)


def test_where_there_is_no_break_even_a_note_says_why(tmp_path):
    dear = indexed(tmp_path, 1.0, 50.0)
    (alone,) = frame([dear]).to_dict("records")
    assert alone["notes"][-1].startswith(
        "no break-even: no run of full-context with known FLOPs on this data set"
    )
    rows = frame([dear, indexed(tmp_path, None, 40.0, method="full-context")]).to_dict("records")
    assert "the index never pays" in rows[0]["notes"][-1]
    twice = [indexed(tmp_path, None, 40.0, method="full-context", hash8=f"{i}" * 8) for i in (1, 2)]
    assert "2 runs of full-context" in frame([dear, *twice]).to_dict("records")[0]["notes"][-1]


def test_an_index_of_a_question_is_not_shared(tmp_path):
    rows = [record(i, 0.5, usage={"search": usage(1.0), "answer": usage(0.5)}) for i in range(4)]
    documents = [built(f"d{i // 2}", 3.0, key=f"{i}", question_id=f"q{i}") for i in range(4)]
    (row,) = frame([searched_run(tmp_path, rows, documents=documents)]).to_dict("records")
    assert [row[cost_column(k)] for k in (1, 8)] == pytest.approx([4.5, 4.5])
    assert any("belongs to a question" in note for note in row["notes"])


def test_a_question_over_several_documents_needs_all_their_indexes(tmp_path):
    rows = [
        record(0, 0.5, document_ids=["d0", "d1"]),
        record(1, 0.5, document_ids=["d0", "d1"], notes={"joined": 2}),
    ]
    (row,) = frame([searched_run(tmp_path, rows, documents=[built("d0", 2.0)])], [1]).to_dict(
        "records"
    )
    assert row[cost_column(1)] == pytest.approx(1.5 * 2.0 + 1.5)
    assert "a question needs the index of 1.5 documents on average" in row["notes"]


@pytest.fixture
def call(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)

    return partial(command, "report")


def test_the_command_queries(call, tmp_path):
    indexed(tmp_path / "results", 66.7, 30.9)
    indexed(tmp_path / "results", None, 40.6, method="full-context")
    code, out, _ = call("queries", "--per-document", "1,100")
    assert code == 0
    line = next(line for line in out.splitlines() if line.startswith("pecan"))
    assert line.split()[:6] == ["pecan", "4", "2", "66.7", "30.9", "97.6"]
    assert "7" in line.split()
    whole = json.loads(call("queries", "--format", "json")[1])
    assert {f"tflops.k={k}" for k in (1, 2, 4, 8)} <= set(whole[0])
    code, out, _ = call("queries", "--paper")
    assert code == 0
    assert "printed and measured" in out
    printed = json.loads(call("queries", "--paper", "--format", "json")[1])
    found = {
        row["row"]: (row["printed"], row["ours"]) for row in printed if row["metric"] == "TFLOPs"
    }
    ours = 66.7 / 8 + 30.9
    name = "PECAN Attention Graph Construction + Graph Search, 8 queries per document"
    assert found[name] == (39.2, pytest.approx(ours))
    for arguments, sentence in (
        (["--per-document", "0"], "--per-document 0: should be whole numbers from 1 on"),
        (["--per-document", "1.5"], "--per-document 1.5: should be whole numbers"),
    ):
        assert sentence in mistake(call("queries", *arguments))


def test_the_command_tokens(call, tmp_path):
    """A token of the scripted model is a word; "T" is the title of every document."""
    (tmp_path / "rows.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in range(3)))
    (tmp_path / "model.yaml").write_text("replies: [{reply: x}]")
    config = DatasetConfig(
        name="squares", format="tests.datasets.own_format:parse_row", data="rows.jsonl", instruction="Answer.",
        max_answer_tokens=4, scorers=("longbench.qa_f1_score",),
    )  # fmt: skip
    model = {"name": "scripted", "backend": "scripted", "script": "model.yaml"}
    made = {"dataset": config.model_dump(mode="json"), "model": model}
    manifest = {"dataset": {"fingerprint": load(config).fingerprint}}
    rows = [record(i, 0.5, question_id=f"row-{i}", document_ids=[f"row-{i}"]) for i in range(2)]
    run = searched_run(
        tmp_path / "results", rows, dataset="squares", settings=made, manifest=manifest
    )
    code, out, err = call("tokens", "--format", "json")
    assert (code, err) == (0, "")
    # "Squares\nThe square of 2 is 4.": 7 words; "what is the square of 2?": 6; the answer: 1.
    found = {
        r["kind"]: (r["n"], r["tokens.min"], r["tokens.mean"], r["tokens.max"])
        for r in json.loads(out)
    }
    assert found == {"document": (2, 7, 7, 7), "question": (2, 6, 6, 6), "answer": (2, 1, 1, 1)}
    code, out, _ = call("tokens", str(run.path))
    assert code == 0
    assert "of the 3 questions of squares, 2 were asked and are counted" in out
    (tmp_path / "rows.jsonl").unlink()
    assert "the rows of squares are not available" in mistake(call("tokens"))
