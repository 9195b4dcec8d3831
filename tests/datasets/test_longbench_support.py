"""LongBench's supporting passages, looked up in the original rows by question and title, and moved."""

import json

import pytest

from harness.datasets import load
from harness.errors import ConfigError, DataError
from tests.datasets.support import config, write_lines

PASSAGES = [("Ada", "Ada was born.\n\nShe wrote."), ("Bo", "Bo ran."), ("Cy ", "Cy sat."), ("Bo", "Bo met Ada.")]
CONTEXT = "\n\n".join(f"Passage {n}:\n{title}\n{text}" for n, (title, text) in enumerate(PASSAGES, 1))
ORIGINAL = {
    "_id": "o1", "question": "Who  met Ada?", "answer": "Bo",
    "supporting_facts": [["ada", 0], ["Bo", 0]], "context": [["ada", ["Ada was born."]], ["Bo", ["Bo met Ada."]]],
}  # fmt: skip


def row(number, question):
    return {"_id": f"l{number}", "input": question, "context": CONTEXT, "answers": ["Bo"], "dataset": "hotpotqa"}


def data(folder, originals=None, **options):
    lines = write_lines(folder / "lb.jsonl", [row(1, "Who met Ada?"), row(2, "Who sat?")])
    (folder / "original.json").write_text(json.dumps(originals or [ORIGINAL]))
    given = {"support": str(folder / "original.json"), **options}
    return load(config("longbench", data=str(lines), subset="hotpotqa", split="test", options=given))


@pytest.mark.parametrize(("place", "order"), [("head", "Ada Bo Bo Cy"), ("tail", "Bo Cy Ada Bo")])
def test_supporting_passages_are_moved_and_numbered_anew(tmp_path, place, order):
    made = data(tmp_path, place=place)
    (example,) = made.examples
    document = made.documents[example.question.document_ids[0]]
    lines = document.text.split("\n")
    assert [lines[at + 1] for at, line in enumerate(lines) if line.startswith("Passage ")] == order.split()
    assert [line for line in lines if line.startswith("Passage ")] == [f"Passage {n}:" for n in (1, 2, 3, 4)]
    shown = [document.text[span.start : span.end] for span in example.gold.supporting]
    assert [text.split("\n", 1)[1] for text in shown] == ["Ada\nAda was born.\n\nShe wrote.", "Bo\nBo met Ada."]
    assert made.skipped == {"not among the original data set's rows": 1}
    assert made.source == f"lb.jsonl, support at the {place}"


def test_without_a_place_the_text_is_as_it_was(tmp_path):
    made = data(tmp_path)
    assert {document.text for document in made.documents.values()} == {CONTEXT}
    assert not any(example.gold.supporting for example in made.examples)


def test_what_cannot_be_looked_up_is_said(tmp_path):
    other = {**ORIGINAL, "supporting_facts": [["Zed", 0]], "context": [["Zed", ["Zed."]]]}
    with pytest.raises(DataError, match="whose supporting passages are not in the text"):
        data(tmp_path, [other], place="head")
    with pytest.raises(ConfigError, match=r"marks no supporting passages.*--set dataset.support=FILE"):
        data(tmp_path, place="head", support=None)
    with pytest.raises(DataError, match=r"original.json, row 1.*supporting_facts"):
        data(tmp_path, [{**ORIGINAL, "supporting_facts": [["nowhere", 0]]}], place="head")
