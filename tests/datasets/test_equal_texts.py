"""Questions about equal texts share a document: its index, and its cluster in statistics."""

import json

from harness.config.schema import DatasetConfig
from harness.datasets.loading import load


def rows_of(tmp_path, books, limit=None):
    """The data set of one question a number in `books`, whose text has this number."""
    rows = []
    for n, book in enumerate(books):
        texts = [("A", f"Text {book}.", False), ("B", "The bridge is old.", True)]
        paragraphs = [
            {"idx": i, "title": title, "paragraph_text": text, "is_supporting": supports}
            for i, (title, text, supports) in enumerate(texts)
        ]
        rows.append(
            {"id": f"q{n}", "question": f"How old? {n}", "answer": "old", "answer_aliases": [], "answerable": True}
        )
        rows[-1]["paragraphs"] = paragraphs
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = {"instruction": "Answer.", "max_answer_tokens": 8, "scorers": ["hotpotqa.em"]}
    return load(DatasetConfig(name="own", format="musique", data=str(tmp_path / "rows.jsonl"), **asked), limit)


def test_questions_about_equal_texts_share_the_first_document(tmp_path):
    found = rows_of(tmp_path, [0, 1, 0, 2, 1, 0])
    assert list(found.documents) == ["q0", "q1", "q3"]
    assert [e.question.document_ids for e in found.examples] == [
        (name,) for name in ("q0", "q1", "q0", "q3", "q1", "q0")
    ]
    assert [e.question.id for e in found.examples] == [f"q{n}" for n in range(6)]
    for example in found.examples:
        (mark,) = example.gold.supporting
        assert (mark.document_id,) == example.question.document_ids
        assert found.documents[mark.document_id].text[mark.start : mark.end] == "B\nThe bridge is old."
    assert found.notes == ("3 of 6 documents have the text of an earlier one and are that one",)


def test_different_texts_stay_apart_and_a_limit_changes_no_id(tmp_path):
    assert rows_of(tmp_path, [0, 1, 2]).notes == ()
    first, whole = rows_of(tmp_path, [0, 0, 1], limit=2), rows_of(tmp_path, [0, 0, 1])
    assert [e.question for e in first.examples] == [e.question for e in whole.examples][:2]
    assert first.fingerprint == whole.fingerprint
