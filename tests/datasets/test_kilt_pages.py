"""KILT's knowledge source: its pages as text, and as the documents that retrieved ids name."""

import gzip
import json

import pytest

from harness.datasets import load
from harness.datasets.kilt_text import wiki_text
from harness.errors import DataError
from tests.datasets.support import config, parquet, write_lines


def page(number):
    """A line of kilt_knowledgesource.json about a made-up mill."""
    text = [
        f"Mill {number}\n",
        f"Mill {number} was built by Ada.\n",
        "Section::::History.\n",
        "It burnt down.\n",
    ]
    text += ["Section::::History.:Early years.\n", "BULLET::::- a wheel\n"]
    anchors = [
        {
            "text": "Ada",
            "href": "Ada",
            "paragraph_id": 1,
            "start": 0,
            "end": 3,
            "wikipedia_id": "999",
        }
    ]
    ids = {"_id": str(number), "wikipedia_id": str(number), "wikipedia_title": f"Mill {number}"}
    return {**ids, "text": text, "anchors": anchors, "categories": "Mills", "history": {}}


TEXT = "Mill 7\nMill 7 was built by Ada.\n== History ==\nIt burnt down.\n=== Early years ===\n- a wheel"
ASKED = {
    "id": "q1",
    "input": "Who built 7?",
    "output": [{"answer": "Ada", "provenance": [{"wikipedia_id": "8"}]}],
}


def _load(path, *documents):
    places = [str(one) for one in documents]
    return load(
        config(
            "retrieved",
            data=str(path),
            options={"documents": places if len(places) > 1 else places[0]},
        )
    )


def _texts(data):
    return [data.documents[id_].text for id_ in data.examples[0].question.document_ids]


@pytest.mark.parametrize(
    ("paragraphs", "text"),
    [
        (["Mill\n", "One.\n", " \n", "Two."], "One.\nTwo."),
        (["Mills\n", "One."], "Mills\nOne."),
        (
            ["Section::::A.", "Section::::A.:B.", "Section::::A.:B.:C."],
            "== A ==\n=== B ===\n==== C ====",
        ),
        (["Section::::St. Mary", "BULLET::::- x", "a::::b"], "== St. Mary ==\n- x\na::::b"),
        ([], ""),
    ],
)
def test_paragraphs_headings_and_items(paragraphs, text):
    assert wiki_text(paragraphs, "Mill") == text


def _source(folder, form):
    pages = [page(1), page(7), page(8)]
    if form == "gz":
        path = folder / "pages.jsonl.gz"
        path.write_bytes(gzip.compress("".join(json.dumps(one) + "\n" for one in pages).encode()))
        return path
    if form == "parquet":  # the hub's copy keeps paragraphs as a column
        keys = ("wikipedia_id", "wikipedia_title")
        rows = [{**{k: one[k] for k in keys}, "text": {"paragraph": one["text"]}} for one in pages]
        (folder / "pages.parquet").write_bytes(parquet(rows))
        return folder / "pages.parquet"
    return write_lines(
        folder / ("kilt_knowledgesource.json" if form == "official" else "pages.jsonl"), pages
    )


BY_KILT = [{"provenance": [{"wikipedia_id": "7"}, {"wikipedia_id": "1"}]}, {"answer": "Ada"}]
RETRIEVED = {
    "ids": {"id": "q1", "docs": [{"wikipedia_id": "7"}, {"wikipedia_id": 1, "score": 3.0}]},
    "a retriever of KILT": {**ASKED, "output": BY_KILT},
}


@pytest.mark.parametrize("form", ["official", "jsonl", "gz", "parquet"])
@pytest.mark.parametrize("retrieved", RETRIEVED)
def test_pages_by_the_ids_that_were_retrieved(tmp_path, form, retrieved):
    rows = write_lines(tmp_path / "nq-dev-kilt.jsonl", [ASKED])
    found = write_lines(tmp_path / "found.jsonl", [RETRIEVED[retrieved]])
    source = _source(tmp_path, form)
    for places in ((found, source), (source, found)):
        assert _texts(_load(rows, *places)) == [TEXT, TEXT.replace("7", "1")]
    assert (
        _load(rows, found, source).source == f"nq-dev-kilt.jsonl with found.jsonl and {source.name}"
    )


def test_pages_by_the_ids_in_the_rows(tmp_path):
    row = {
        "id": "q1",
        "question": "Who?",
        "golden_answers": ["Ada"],
        "ctxs": [{"id": "7"}, {"text": "Bert."}],
    }
    data = _load(write_lines(tmp_path / "r.jsonl", [row]), _source(tmp_path, "official"))
    assert _texts(data) == [TEXT, "Bert."]


def test_gold_provenance_in_the_rows_is_never_read(tmp_path):
    second = {
        **ASKED,
        "id": "q2",
        "output": [{"answer": "Ada"}, {"provenance": [{"wikipedia_id": "7"}]}],
    }
    rows = write_lines(tmp_path / "nq-dev-kilt.jsonl", [ASKED, second])
    with pytest.raises(
        DataError,
        match=r"none of the 2 questions names retrieved pages of kilt.*=\[RETRIEVED,PAGES\]",
    ):
        _load(rows, _source(tmp_path, "official"))


def test_a_page_that_is_not_there_and_a_broken_one(tmp_path):
    rows = write_lines(tmp_path / "r.jsonl", [ASKED])
    found = write_lines(tmp_path / "found.jsonl", [{"id": "q1", "docs": [{"wikipedia_id": "12"}]}])
    source = _source(tmp_path, "official")
    with pytest.raises(
        DataError, match="the page 12 is not in found.jsonl and kilt_knowledgesource.json"
    ):
        _load(rows, found, source)
    with source.open("a") as out:
        out.write('{"wikipedia_id": "12", \n{"wikipedia_id": "13", \n')
    with pytest.raises(DataError, match="line 4: broken JSON"):
        _load(rows, found, source)
    folder = tmp_path / "evidence"
    folder.mkdir()
    with pytest.raises(DataError, match="a folder of pages stands alone"):
        _load(rows, found, folder)
