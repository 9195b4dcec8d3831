"""Questions about equal texts share a document: its index, and its cluster in statistics."""

from harness.datasets import load
from tests.datasets.support import config, musique, write_lines


def rows_of(tmp_path, books, limit=None):
    """The data set of one question a number in `books`, whose text has this number."""
    rows = [musique(book, id=f"q{n}", question=f"How old? {n}") for n, book in enumerate(books)]
    return load(config(data=str(write_lines(tmp_path / "rows.jsonl", rows))), limit)


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
        assert (
            found.documents[mark.document_id]
            .text[mark.start : mark.end]
            .startswith("Mill 1\nText 1 of row")
        )
    assert found.notes == (
        "3 of 6 documents have the same text as an earlier one and are merged with it",
    )


def test_different_texts_stay_apart_and_a_limit_changes_no_id(tmp_path):
    assert rows_of(tmp_path, [0, 1, 2]).notes == ()
    first, whole = rows_of(tmp_path, [0, 0, 1], limit=2), rows_of(tmp_path, [0, 0, 1])
    assert [e.question for e in first.examples] == [e.question for e in whole.examples][:2]
    assert first.fingerprint == whole.fingerprint
