"""The run folder: torn and damaged files, what readers get, and files that are replaced whole."""

import errno
import functools
import gzip
import json
import os
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.engine.progress import Silent
from harness.errors import DataError, SaveError, UserError
from harness.storage import files
from harness.storage.json_lines import json_line, read_with_older
from harness.storage.records import IndexLine
from harness.storage.run_folder import find_runs, read_question, read_run, reduced_to_numbers
from harness.storage.run_store import RunStore
from tests.engine.fakes import SCORER, comparable, go, make_plan

pytestmark = pytest.mark.usefixtures("fake_model")


@pytest.fixture
def finished(tmp_path):
    return go(make_plan(), tmp_path / "out").folder


def rows(folder):
    return [comparable(row) for row in read_run(folder).records]


TAILS = {
    "half a line": lambda whole: whole[: len(whole) // 2],
    "one byte": lambda whole: whole[:1],
    "no line end": lambda whole: whole[:-1],
    "zeros": lambda whole: b"\0" * 300,
    "zeros and a line end": lambda whole: b"\0" * 300 + b"\n",
    "another object": lambda whole: b'{"a": 1}\n',
    "cut inside a character": lambda whole: '{"question_id": "ä'.encode()[:-1],
}


@pytest.mark.parametrize("tail", [*TAILS, "an older record of each question"])
def test_streamed_records_and_one_alone_are_those_of_the_whole_run(tail, finished):
    path = finished / "records.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    older = [line.replace(b'"stop_reason": "', b'"stop_reason": "older ') for line in lines]
    path.write_bytes(
        b"".join([*lines[:-1], TAILS[tail](lines[-1])] if tail in TAILS else [*older, *lines])
    )
    whole, streamed = read_run(finished), read_run(finished, hold="nothing")
    assert list(streamed.records) == whole.records == streamed.records[:]
    assert (streamed.notes, len(streamed.records)) == (whole.notes, len(whole.records))
    for record in whole.records:
        assert read_question(finished, record.question_id).records == [record]
    assert len(read_question(finished, "another").records) == len(whole.records)


def test_the_numbers_of_many_records_are_packed_and_those_of_the_last_try(finished):
    first = json.loads((finished / "records.jsonl").read_text().splitlines()[0])

    def lines(numbers, reason):
        return [
            json_line({**first, "question_id": f"q{n}", "stop_reason": reason}) for n in numbers
        ]

    (finished / "records.jsonl").write_bytes(
        b"".join(lines(range(1024), "") + lines((1023, 3, 64, 3), "again"))
    )
    tracemalloc.start()
    run = read_run(finished, hold="numbers")
    packed, held = run.records, tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert run.records_with_texts[3].prediction == first["prediction"]
    assert held < 600 * len(packed)
    assert (
        list(packed) == packed[:] == [reduced_to_numbers(row) for row in read_run(finished).records]
    )
    assert [n for n, row in enumerate(packed) if row.stop_reason] == [3, 64, 1023]
    assert packed[-1] == packed[1023]


def test_records_that_were_replaced_while_they_are_streamed_are_an_error(finished):
    run = read_run(finished, hold="nothing")
    path = finished / "records.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[::-1]))
    with pytest.raises(DataError, match="replaced while it was read"):
        list(run.records)


@pytest.mark.parametrize("name", ["records.jsonl", "documents.jsonl"])
@pytest.mark.parametrize("tail", TAILS)
def test_a_torn_last_line_is_repaired(tail, name, finished):
    want, documents = rows(finished), read_run(finished).index_lines
    path = finished / name
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + TAILS[tail](lines[-1]))
    progress = Silent()
    whole = tail == "no line end"
    stored = read_run(finished)
    assert len(stored.notes) == (0 if whole else 1), "a reader is told"
    if name == "records.jsonl":
        assert len(stored.records) == (6 if whole else 5)
    go(make_plan(), finished.parents[1], progress=progress)
    assert [n for n in progress.notes if "was torn; repaired" in n]
    assert rows(finished) == want
    assert read_run(finished).index_lines[0] == documents[0]
    assert path.read_bytes().endswith(b"\n")


@pytest.mark.parametrize(
    "bad", [b"{torn\n", b"\0\n", b"[1]\n", b'{"question_id": 3}\n', b"\xff\xfe\n", b"\n"]
)
def test_a_damaged_line_before_the_last_is_named(bad, finished):
    path = finished / "records.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    damaged = b"".join([*lines[:2], bad, *lines[3:]])
    path.write_bytes(damaged)
    with pytest.raises(DataError, match=r"records\.jsonl, line 3: not "):
        read_run(finished)
    with pytest.raises(UserError, match=r"records\.jsonl, line 3: not "):
        go(make_plan(), finished.parents[1])
    assert path.read_bytes() == damaged, "nothing was touched"


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("usage.answer.tokens_in", "many", "should be a valid number"),
        ("usage.answer.flops.full", [1], "should be a valid number"),
        ("scores", {SCORER: "high"}, "should be a valid number"),
        ("steps", ["go"], "should be a valid object"),
        ("shown", [{"start": "first"}], "should be a valid integer"),
        ("gold.answers", "x", "should be a valid list"),
    ],
)
def test_a_wrong_value_at_any_depth_of_a_record_is_named_with_its_line(
    place, value, message, finished
):
    lines = (finished / "records.jsonl").read_bytes().splitlines(keepends=True)
    record = json.loads(lines[1])
    *above, last = place.split(".")
    functools.reduce(dict.__getitem__, above, record)[last] = value
    (finished / "records.jsonl").write_bytes(b"".join([lines[0], json_line(record), *lines[2:]]))
    for use in (lambda: read_run(finished), lambda: go(make_plan(), finished.parents[1])):
        with pytest.raises(
            DataError,
            match=rf"records\.jsonl, line 2, field '{place}\S*': {message}; such a record",
        ):
            use()


DAMAGED = [
    (name, content)
    for name in ("manifest.json", "run.yaml", "summary.json")
    for content in ("{", "[]")
]


@pytest.mark.parametrize(
    ("name", "content"), [*DAMAGED, ("summary.json", '{"index": {"documents": "many"}}')]
)
def test_a_damaged_file_is_named(name, content, finished):
    (finished / name).write_text(content)
    with pytest.raises(DataError, match=f"{name}.*{'documents' if 'documents' in content else ''}"):
        read_run(finished)


@pytest.mark.parametrize(
    "name", ["manifest.json", "summary.json", "records.jsonl", "documents.jsonl"]
)
def test_a_run_that_was_killed_can_be_read(name, finished):
    (finished / name).unlink()
    stored = read_run(finished)
    assert len(stored.records) == (0 if name == "records.jsonl" else 6)


def test_what_is_no_run_is_said(tmp_path, finished):
    with pytest.raises(UserError, match="is not a run folder"):
        read_run(tmp_path)
    with pytest.raises(UserError, match="there is no folder"):
        find_runs(tmp_path / "nothing")
    assert find_runs(tmp_path) == find_runs(finished) == [finished]


def test_a_damaged_manifest_stops_the_next_start_with_a_sentence(finished):
    (finished / "manifest.json").write_text("{")
    with pytest.raises(DataError, match="delete it and run the same command again"):
        go(make_plan(), finished.parents[1])
    (finished / "manifest.json").unlink()
    assert go(make_plan(), finished.parents[1]).summary.n_total == 6


def test_an_atomic_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "summary.json"
    files.write_atomic(path, b"old")

    def full(fd):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(SaveError, match="No space left on device; make room"):
        files.write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_of_a_file_share_no_draft(tmp_path):
    path = tmp_path / "model.json"
    with files.replacing(path) as slow:
        slow.write(b"slow")
        files.write_atomic(path, b"fast")
    assert path.read_bytes() == b"slow"
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_of_a_folder_leave_the_first_ones(tmp_path):
    folder = tmp_path / "entry"
    with files.new_folder(folder, "HARNESS_CACHE") as slow:
        (slow / "data.json").write_text("slow")
        with files.new_folder(folder, "HARNESS_CACHE") as fast:
            (fast / "data.json").write_text("fast")
    assert (folder / "data.json").read_text() == "fast"
    assert list(tmp_path.iterdir()) == [folder]


def test_a_summary_that_cannot_be_written_is_reported(tmp_path, monkeypatch):
    write = files.write_atomic

    def refuse(path, data, **how):
        if path.name == "summary.json":
            raise SaveError("cannot write summary.json")
        write(path, data, **how)

    monkeypatch.setattr("harness.storage.run_store.write_atomic", refuse)
    result = go(make_plan(), tmp_path)
    assert result.save_problems == ["cannot write summary.json"]
    assert result.summary.n_scored == 6
    assert len(read_run(result.folder).records) == 6


def test_records_that_cannot_be_sorted_are_a_problem_of_saving(monkeypatch, tmp_path):
    def refuse(*_):
        raise SaveError("cannot write records.jsonl")

    monkeypatch.setattr("harness.storage.run_store.RunStore.sort_records", refuse)
    result = go(make_plan(), tmp_path)
    assert (result.save_problems, result.failed) == (["cannot write records.jsonl"], 0)


def test_a_writer_whose_block_has_ended_writes_nothing(finished):
    """A thread that still waits for a server comes back when the run is over."""
    row = replace(read_run(finished).records[0], question_id="late")
    with RunStore.open(finished, None, print) as store:
        pass
    before = {path.name: path.read_bytes() for path in finished.iterdir()}
    store.append_answer(row)
    store.append_record(row)
    store.append_texts({"0": "long"})
    store.append_index_line(IndexLine("late", None, "built", {}))
    assert {path.name: path.read_bytes() for path in finished.iterdir()} == before


def test_drafts_of_a_killed_writer_are_removed(finished):
    draft = finished / ".summary.json.1234.tmp"
    draft.write_text("{")
    go(make_plan(), finished.parents[1])
    assert not draft.exists()


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None, exclude_categories=())),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


def test_a_folder_that_moves_away_while_it_is_opened_is_one_sentence(tmp_path, monkeypatch):
    def gone(folder):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))

    monkeypatch.setattr(os, "listdir", gone)
    with (
        pytest.raises(SaveError, match="No such file"),
        RunStore.open(tmp_path / "run", None, lambda _: None),
    ):
        pass


@settings(max_examples=40)
@given(value=json_values)
def test_a_line_is_one_line_and_comes_back(value):
    line = json_line(value)
    assert line.count(b"\n") == 1
    assert json.loads(line) == value


def test_rows_that_older_versions_compressed_come_before_newer_ones(tmp_path):
    path, old = tmp_path / "texts.jsonl", tmp_path / "texts.jsonl.gz"
    whole = b"".join(gzip.compress(json_line({"sha256": n})) for n in "ab")
    old.write_bytes(whole[:-3])
    path.write_bytes(json_line({"sha256": "c"}) + b'{"sha')
    assert [row["sha256"] for row in read_with_older(path, "sha256")] == ["a", "b", "c"]
    old.write_bytes(whole[:12] + b"\0\0" + whole[14:])
    with pytest.raises(DataError, match="texts.jsonl.gz: damaged"):
        list(read_with_older(path, "sha256"))


def test_a_compressed_row_without_its_key_is_a_damage_that_names_the_file(tmp_path):
    older_file = tmp_path / "texts.jsonl.gz"
    older_file.write_bytes(gzip.compress(json_line({"text": "no checksum"})))
    with pytest.raises(DataError, match="texts.jsonl.gz: damaged .*not an object with a 'sha256'"):
        list(read_with_older(tmp_path / "texts.jsonl", "sha256"))
