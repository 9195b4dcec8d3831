"""Lines of a run folder as typed values: what is parsed is written back byte for byte."""

from pathlib import Path

import pytest

from harness.errors import DataError
from harness.storage.json_lines import json_line
from harness.storage.records import read_index_lines, read_records

LINES = [
    {"document_id": "d", "key": "9f", "status": "built", "usage": {"index": {"tokens_in": 3}}},
    {"document_id": "d", "key": "9f", "status": "hit", "usage": {}, "question_id": "q"},
    {"document_id": "d", "status": "failed", "usage": {}},  # an older run
    {"document_id": "ü", "key": "0", "status": "hit", "usage": {}, "newer": {"a": [None, 1.5]}},
]


def stored(folder, lines):
    path = folder / "documents.jsonl"
    path.write_bytes(b"".join(map(json_line, lines)))
    return path.read_bytes()


def test_index_lines_of_any_version_are_written_back_byte_for_byte(tmp_path):
    before = stored(tmp_path, LINES)
    lines = list(read_index_lines(tmp_path))
    assert b"".join(json_line(line.to_json()) for line in lines) == before
    assert [line.owner for line in lines] == [("d", None), ("d", "q"), ("d", None), ("ü", None)]
    assert [line.failed for line in lines] == [False, False, True, False]


def test_an_unknown_status_of_an_index_is_named_with_its_line(tmp_path):
    stored(tmp_path, [LINES[0], LINES[0] | {"status": "lost"}, LINES[1]])
    with pytest.raises(DataError, match="line 2.*status"):
        list(read_index_lines(tmp_path))


OLD = Path(__file__).with_name("old_runs")


@pytest.mark.parametrize(
    "path", sorted(OLD.rglob("records.jsonl")), ids=lambda path: path.parent.name
)
def test_records_of_runs_of_earlier_versions_are_written_back_byte_for_byte(path):
    records = list(read_records(path))
    assert b"".join(json_line(record.to_json()) for record in records) == path.read_bytes()


def test_records_are_written_back_with_keys_of_other_versions_in_their_places(tmp_path):
    record = {
        "newer": {"a": [None, 1.5]},
        "question_id": "ü\u2028",
        "document_ids": [],
        "prediction": "\ud800",
        "scores": {"em": 1},
        "between": True,
        "usage": {"answer": {"tokens_in": 3, "newer": {"x": 1}}},
        "shown": [{"kind": "span", "newer": 1}],
        "stop_reason": "",
        "steps": [{"action": "start", "newer": 1}],
        "error": None,
        "notes": {"newer": 1},
    }
    path = tmp_path / "records.jsonl"
    path.write_bytes(json_line(record))
    (read,) = read_records(path)
    assert json_line(read.to_json()) == path.read_bytes()
    assert read.other == {"newer": {"a": [None, 1.5]}, "between": True}
    assert (read.gold, read.truncated, read.document_characters) == (None, None, None)
