"""All printed values beside ours, the list of tables and figures, what a suite needs, and the
matrix of the documents."""

from pathlib import Path

import pytest

from harness.config import presets, suites
from harness.errors import UnknownName
from reports.paper.all_values import NOT_COMPARED, NOT_RUN, frame, tables, text
from reports.paper.matrix import put
from reports.paper.needs import needs
from reports.paper.printed import load
from reports.paper.tables_and_figures import (
    MADE_UP,
    find_table_or_figure,
    printed,
    tables_and_figures,
)
from tests.reports.paper_runs import answers, paper_run

ROOT = Path(__file__).resolve().parents[2]
F1 = "longbench.qa_f1_score"


def test_every_printed_value_is_there_once_without_runs():
    whole = frame([])
    mapped = {value.line for value in load()}
    assert len(whole) == len(printed()) == 1065
    assert (whole["verdict"] == NOT_RUN).sum() == len(mapped)
    left = whole[whole["verdict"] == NOT_COMPARED]
    assert all(len(notes) == 1 for notes in left["notes"])
    assert whole["ours"].isna().all()
    assert list(whole[whole["metric"] == "Top-X used by RAPTOR-CT"]["printed"]) == [
        20,
        42,
        12,
        22,
    ]  # printed as Top-20


def test_ours_stands_beside_the_printed_value_with_each_condition_that_differs(tmp_path):
    run = paper_run(tmp_path, "bm25", "musique", answers(40, F1, 0.287), sets={"method.k": 6})
    place, _ = find_table_or_figure("garlic-table1")
    ((title, table),) = tables([run], place)
    assert title == "GARLIC, Table 1: main results with BLEU-4"
    (row,) = table.query("row == 'BM25 top-5' and dataset == 'MuSiQue' and metric == 'F1'").to_dict(
        "records"
    )
    own = (28.7, "bm25", 40, "not comparable", 260)
    assert (row["printed"], row["method"], row["n"], row["verdict"], len(table)) == own
    assert row["ours"] == pytest.approx(28.7, abs=0.01)
    assert {"sample: 40 questions, the paper has 2417", "method: k is 6, the paper's is 5"} <= set(
        row["notes"]
    )
    both = [
        name for name, _ in tables([run], find_table_or_figure("pecan-table1")[0])
    ]  # PECAN runs GARLIC's rows too
    assert both == ["PECAN, Table 1: main results", title]
    for form, has in (
        ("html", "<td"),
        ("markdown", "| BM25 top-5 |"),
        ("latex", "BM25 top-5 &"),
        ("text", "[1]"),
    ):
        made = text([run], [(title, table)], form)
        assert has in made
        assert "sample: 40 questions, the paper has 2417" in made


def test_a_run_stands_beside_the_row_of_its_reader_and_place(tmp_path):
    reader = {"source": "lmsys/vicuna-13b-v1.5-16k", "name": "vicuna-13b-v1.5-16k"}
    sets = {"dataset.place": "tail", "model": "vicuna-13b-16k", "model.window": 16384}
    config = {f"model.{key}": one for key, one in reader.items()}
    run = paper_run(
        tmp_path,
        "full-context-16k",
        "longbench/musique",
        answers(6, F1, 0.1),
        sets=sets,
        config=config,
    )
    ((_, table),) = tables([run], find_table_or_figure("qrmem-table3")[0])
    ours = table[table["ours"].notna() & (table["metric"] == "F1")]
    assert list(ours["row"]) == ["Vicuna-13b-16k / Tail"]
    assert not any("place" in note or "reader" in note for note in ours["notes"].iloc[0])


def test_a_summary_comes_first(tmp_path):
    run = paper_run(tmp_path, "bm25", "musique", answers(8, F1, 0.287))
    (title, summary), *rest = tables([run])
    assert (title, len(summary)) == ("Summary", len(rest))
    assert rest[0][0].startswith("PECAN, Table 1")
    row = summary[summary["table"].str.startswith("GARLIC, Table 1")].iloc[0]
    assert (row["values"], row["not comparable"]) == ("260", "4")


def test_every_place_that_is_measured_has_a_suite_and_a_twin():
    known = presets.names("suites")
    for place in tables_and_figures():
        assert (place.name is None) == (place.drawing or place.look is not None), place.label
        if place.name is not None:
            assert {place.name, MADE_UP + place.name} <= {*known}
            assert all(
                name.startswith("pocket/")
                for name in suites.read_suite(MADE_UP + place.name).datasets
            )
            parts = suites.read_suite(place.name).parts or (suites.read_suite(place.name),)
            assert {part.profile for part in parts} == {"paper"}
            assert not any(name.startswith("pocket/") for part in parts for name in part.datasets)
    assert find_table_or_figure("Pocket_PECAN-table1")[1] == "pocket-pecan-table1"
    with pytest.raises(UnknownName, match=r"Did you mean 'qrmem-table6'.*harness reproduce --list"):
        find_table_or_figure("qrmem-table7")


def test_what_tables_need():
    found = needs(suites.read_suite("pecan-table1"))
    assert list(found.models) == ["Llama-3.1-8B-Instruct", "phi-2"]
    assert list(found.encoders) == ["mpnet", "dragon"]
    # 8.03 G parameters in bfloat16, and 131,072 tokens of 2 x 32 x 8 x 128 numbers; LongLLMLingua
    # has Phi-2 besides.
    llama = 2 * (8.03e9 + 2 * 32 * 8 * 128 * 131072)
    phi = 2 * (2.78e9 + 2 * 32 * 32 * 80 * 2048)
    assert found.gpu == pytest.approx(llama + phi, rel=0.01)
    # PECAN reads no more than its own window of 8,192.
    own = 2 * (8.03e9 + 2 * 32 * 8 * 128 * 8192) + 4 * 109e6
    assert needs(suites.read_suite("pecan-table3")).gpu == pytest.approx(own, rel=0.01)
    refiner = needs(suites.read_suite("longrefiner-table4"))
    assert {"bge-reranker", "bce-reranker", "e5", "mpnet"} <= set(refiner.encoders)
    assert refiner.documents["asqa"] == "retrieved/asqa-e5.jsonl"
    assert len(refiner.adapters) == 3
    served = needs(suites.read_suite("qrmem-table2"))
    assert served.entities
    assert served.gpu < 1e9


def test_the_matrix_of_the_documents_is_current():
    document = (ROOT / "docs" / "reproducing.md").read_text(encoding="utf-8")
    assert put(document) == document, "run: python -m reports.paper.matrix docs/reproducing.md"
    assert all((place.name or place.label) in document for place in tables_and_figures())
    with pytest.raises(ValueError, match="matrix"):
        put("no marks")
