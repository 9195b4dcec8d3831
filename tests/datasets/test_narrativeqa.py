"""NarrativeQA: official files in every form they come in, rows, and that a limit reads no story too
many."""

import gzip
import json
import zipfile

import pytest

from harness.datasets import load, narrativeqa_stories
from harness.errors import ConfigError, DataError
from tests.datasets import support
from tests.datasets.support import (
    as_csv,
    check_mistake,
    check_refused,
    config,
    official_stories,
    parquet,
    story_row,
    write_lines,
)

ROWS = [story_row(n) for n in range(6)]  # three stories with two questions each


def _config(data, **more):
    return config("narrativeqa", **{"data": str(data), "split": "test", **more})


def _load(data, limit=None, **more):
    return load(_config(data, **more), limit)


def _archives(folder):
    """The hub copy's two archives."""
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / "narrativeqa-master.zip", "w") as archive:
        for name, text in support.tables(ROWS).items():
            archive.writestr(f"narrativeqa-master/{name}", text)
    with zipfile.ZipFile(
        folder / "narrativeqa_full_text.zip", "w", zipfile.ZIP_DEFLATED
    ) as archive:
        for row in ROWS[::2]:
            archive.writestr(f"{row['document']['id']}.content", row["document"]["text"])
    return folder


def _lines(folder):
    official_stories(folder, ROWS)
    for path in (folder / "tmp").iterdir():
        path.unlink()
    rows = [
        {"document_id": row["document"]["id"], "text": row["document"]["text"]}
        for row in ROWS[::-2]
    ]
    (folder / "stories.jsonl.gz").write_bytes(
        gzip.compress("".join(json.dumps(r) + "\n" for r in rows).encode())
    )
    return folder


def _parquet(folder):
    folder.mkdir()
    (folder / "test-00000-of-00002.parquet").write_bytes(parquet(ROWS[:3]))
    (folder / "test-00001-of-00002.parquet").write_bytes(parquet(ROWS[3:]))
    return folder


FORMS = {
    "official": lambda folder: official_stories(folder, ROWS),
    "archives": _archives,
    "lines": _lines,
    "rows": lambda folder: write_lines(folder.with_suffix(".jsonl"), ROWS),
    "parquet": _parquet,
    "qaps.csv": lambda folder: official_stories(folder, ROWS) / "qaps.csv",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_questions(tmp_path, form):
    data, plain = (
        _load(FORMS[form](tmp_path / "nqa")),
        _load(official_stories(tmp_path / "plain", ROWS)),
    )
    assert (data.examples, dict(data.documents)) == (plain.examples, dict(plain.documents))
    assert len(data) == 6
    assert [d.text for d in data.documents.values()] == [
        f"Story {n}.\nAda went home." for n in range(3)
    ]
    first = data.examples[0]
    assert first.question.id == "000000000000-0cf6146d"
    assert first.question.document_ids == data.examples[1].question.document_ids == ("0" * 40,)
    assert first.gold.answers == ("home", "to her home")
    assert first.gold.extra == {"kind": "gutenberg"}
    assert data.documents["0" * 40].title == "Book 0"


@pytest.mark.parametrize("form", FORMS)
def test_limit_changes_no_fingerprint(tmp_path, form):
    path = FORMS[form](tmp_path / "nqa")
    whole = _load(path)
    for limit in (1, 2, 3, 9):
        part = _load(path, limit)
        assert part.fingerprint == whole.fingerprint
        assert part.examples == whole.examples[:limit]
        assert len(part.documents) == (min(limit, 6) + 1) // 2


@pytest.mark.parametrize("form", FORMS)
def test_fingerprint_sees_stories_beyond_the_limit(tmp_path, form, monkeypatch):
    before = _load(FORMS[form](tmp_path / "a"), 1).fingerprint
    for row in ROWS[4:]:
        monkeypatch.setitem(row["document"], "text", "Story 2.\nAda went away.")
    assert _load(FORMS[form](tmp_path / "b"), 1).fingerprint != before


@pytest.mark.parametrize("form", ["official", "archives"])
def test_limit_decodes_no_story_too_many(tmp_path, form, monkeypatch):
    path = FORMS[form](tmp_path / "nqa")
    seen = []
    plain = narrativeqa_stories.decode_story
    monkeypatch.setattr(
        narrativeqa_stories,
        "decode_story",
        lambda data, name: seen.append(data) or plain(data, name),
    )
    _load(path, 2)
    assert len(seen) == 1
    _load(path, 3)
    assert len(seen) == 3


def test_limit_needs_no_story_beyond_it(tmp_path):
    folder = official_stories(tmp_path / "nqa", ROWS)
    (folder / "tmp" / f"{ROWS[5]['document']['id']}.content").unlink()
    assert len(_load(folder, 4)) == 4
    message = f"qaps.csv, line 6, field 'document_id': the story '{2:040}' is not there; put {2:040}.content into 'nqa' or its "
    check_refused(
        _config(folder),
        f"{message}tmp/, or narrativeqa_full_text.zip into 'nqa'; mend or remove the row",
    )


def test_rows_beyond_the_limit_are_not_parsed(tmp_path):
    path = write_lines(tmp_path / "r.jsonl", [ROWS[0], ROWS[1], "{broken"])
    assert len(_load(path, 2)) == 2
    with pytest.raises(DataError, match="line 3: broken JSON"):
        _load(path, 3)


def test_splits(tmp_path):
    folder = official_stories(tmp_path / "nqa", ROWS, split="valid")
    for split in ("validation", "valid", "dev"):
        assert len(_load(folder, split=split)) == 6
    with pytest.raises(
        DataError, match=r"qaps\.csv: has no question of the set 'test' \(dataset\.split=test\)"
    ):
        _load(folder)


BYTES = [
    (b"a\r\nb\rc", "a\nb\nc"),
    (b"\xef\xbb\xbfcaf\xc3\xa9", "café"),
    (b"caf\xe9", "café"),
    (gzip.compress(b"packed", mtime=0), "packed"),
    (b"<html><pre>INT. HOUSE</pre>", "<html><pre>INT. HOUSE</pre>"),
    (b"*** START OF THIS PROJECT ***\nx", "*** START OF THIS PROJECT ***\nx"),
]


@pytest.mark.parametrize(("data", "text"), BYTES)
def test_stories_are_decoded_and_not_cleaned(tmp_path, data, text):
    folder = official_stories(tmp_path / "nqa", ROWS[:1])
    (folder / "tmp" / f"{0:040}.content").write_bytes(data)
    assert _load(folder).documents["0" * 40].text == text


def test_a_question_that_is_asked_twice_keeps_two_ids(tmp_path):
    ids = [
        e.question.id for e in _load(write_lines(tmp_path / "r.jsonl", [ROWS[0], ROWS[0]])).examples
    ]
    assert ids == ["000000000000-0cf6146d", "000000000000-0cf6146d-2"]


def test_a_second_answer_may_be_missing_or_the_same(tmp_path):
    answers = ("home", " "), ("x", "x")
    rows = [
        story_row(n, answers=[{"text": text} for text in both]) for n, both in enumerate(answers)
    ]
    for data in (
        _load(write_lines(tmp_path / "r.jsonl", rows)),
        _load(official_stories(tmp_path / "f", rows)),
    ):
        assert [e.gold.answers for e in data.examples] == [("home",), ("x",)]


ROW_MISTAKES = [
    ({"document": "x"}, "document", "should be an object, is a string"),
    ({"document": {"id": "a"}}, "document.text", "is missing"),
    ({"document": {"id": "a", "text": " "}}, "document.text", "is empty"),
    (
        {"document": {"id": f"{0:040}", "text": "x"}},
        "document.text",
        "has another text in an earlier row",
    ),
    ({"document": {"id": "a", "text": "\ud800"}}, None, "half a character"),
    ({"question": {"text": ""}}, "question.text", "is empty"),
    ({"answers": [{"text": ""}]}, "answers", "the row has no answer"),
    ({"answers": {"text": ["a"], "tokens": []}}, "answers", "differ in length"),
]


@pytest.mark.parametrize(("changes", "field", "problem"), ROW_MISTAKES)
def test_row_mistake_is_named(tmp_path, changes, field, problem):
    given = config("narrativeqa", split="test")
    check_mistake(tmp_path, [ROWS[0], {**story_row(1), **changes}], field, problem, given)


Q = {"document_id": f"{0:040}", "set": "test", "question": "Why?", "answer1": "so", "answer2": ""}
HEAD = ",".join(Q)
TABLES = [
    ("qaps.csv", as_csv([{**Q, "question": " "}]), "qaps.csv, line 2, field 'question': is empty"),
    (
        "qaps.csv",
        as_csv([{**Q, "answer1": ""}]),
        "qaps.csv, line 2, field 'answer1': the row has no answer",
    ),
    (
        "qaps.csv",
        as_csv([{**Q, "document_id": "z"}]),
        "field 'document_id': 'z' is not a document of this set",
    ),
    ("qaps.csv", f"{HEAD}\na,test\n", "line 2, field 'question': is missing: the row has"),
    ("qaps.csv", "", "qaps.csv, line 1: has no column 'document_id' (it has none)"),
    ("documents.csv", "set\n", "documents.csv, line 1: has no column 'document_id'"),
    (
        "stories.jsonl",
        '{"document_id": "a"}\n',
        "stories.jsonl, line 1: needs 'document_id' and 'text'",
    ),
]


@pytest.mark.parametrize(("name", "text", "problem"), TABLES)
def test_table_mistake_is_named(tmp_path, name, text, problem):
    folder = official_stories(tmp_path / "nqa", ROWS)
    (folder / name).write_text(text, newline="")
    check_refused(_config(folder), problem)


def test_what_else_can_be_wrong_with_a_folder(tmp_path):
    folder = official_stories(tmp_path / "nqa", ROWS)
    given = _config(folder)
    (folder / "tmp" / f"{0:040}.content").write_bytes(b" \n")
    check_refused(given, f"the story '{0:040}' is empty")
    check_refused(_config(folder, revision="main"), "only rows from the hub have one", ConfigError)
    check_refused(
        _config(folder, options={"file": "x"}),
        "unknown key 'file'; did you mean 'files'",
        ConfigError,
    )
    (folder / "narrativeqa_full_text.zip").write_bytes(b"x")
    check_refused(given, "not a readable zip archive")
    (folder / "narrativeqa_full_text.zip").unlink()
    (folder / "qaps.csv").write_bytes(
        b"document_id,set,question,answer1,answer2\na,test,\xff,x,y\n"
    )
    check_refused(given, "not UTF-8")
    (folder / "documents.csv").unlink()
    check_refused(given, "nqa: the folder has no documents.csv")
