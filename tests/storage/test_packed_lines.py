"""Compressed JSON lines: what a kill leaves is cut, any other damage is one sentence."""

import gzip
import json
import os
import random

import pandas as pd
import pytest

from harness.errors import DataError, UserError
from harness.storage.packed_lines import append_packed, cut_torn_member, read_packed

ROWS = [[{"key": f"k{n}", "text": f"täxt\u2028 {n} \ud800" * 50}] for n in range(4)]


def write(path, *members):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for rows in members:
        append_packed(fd, path, rows)
    os.close(fd)


def keys(path, notes=None):
    return [row["key"] for row in read_packed(path, "key", notes)]


@pytest.fixture
def path(tmp_path):
    write(tmp_path / "side.jsonl.gz", *ROWS)
    return tmp_path / "side.jsonl.gz"


def test_what_is_appended_is_read_by_this_program_and_by_others(path):
    assert list(read_packed(path, "key")) == [row for rows in ROWS for row in rows]
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    assert [json.loads(line)["key"] for line in lines if line] == ["k0", "k1", "k2", "k3"]
    plain = path.with_name("plain.jsonl.gz")
    write(plain, [{"key": "a", "text": "b"}], [{"key": "c", "text": "d"}])
    assert pd.read_json(plain, lines=True)["key"].tolist() == ["a", "c"]
    assert list(read_packed(path.with_name("none.gz"), "key")) == []
    write(path.with_name("again.gz"), *ROWS)
    assert path.with_name("again.gz").read_bytes() == path.read_bytes()


def test_a_torn_end_is_left_out_and_cut_wherever_it_is_torn(path):
    whole = path.read_bytes()
    last = whole.rindex(b"\x1f\x8b\x08\x00")
    for end in range(last + 1, len(whole)):
        path.write_bytes(whole[:end])
        notes = []
        assert keys(path, notes) == ["k0", "k1", "k2"]
        assert notes == ["side.jsonl.gz: the last part is torn and left out"]
    assert (cut_torn_member(path) or "").endswith(f"repaired by cutting {len(whole) - 1 - last} bytes")
    assert path.read_bytes() == whole[:last]
    assert cut_torn_member(path) is None
    write(path, ROWS[3])
    assert path.read_bytes() == whole


@pytest.mark.parametrize("tail", [b"\0" * 700, b"{torn", b"\x1f\x8b\x08\x00" + b"\0" * 40])
def test_a_tail_that_is_no_data_is_torn(path, tail):
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    assert keys(path) == ["k0", "k1", "k2", "k3"]
    assert cut_torn_member(path)
    assert path.read_bytes() == whole


def test_any_flipped_bit_before_the_last_part_is_named_or_changes_nothing(path):
    whole = path.read_bytes()
    last = whole.rindex(b"\x1f\x8b\x08\x00")
    draw = random.Random(0)
    named = 0
    for _ in range(200):
        at = draw.randrange(last)
        damaged = bytearray(whole)
        damaged[at] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        try:
            found = list(read_packed(path, "key"))
        except DataError:
            named += 1
            with pytest.raises(UserError):
                cut_torn_member(path)
            assert path.read_bytes() == damaged, "nothing is cut"
        else:  # a bit of a header that says nothing about the content, or that makes a header of the last one
            assert found == [row for rows in ROWS for row in rows][: len(found)]
    assert named > 150


@pytest.mark.parametrize(
    ("member", "problem"),
    [
        (b"{}\n", "not an object with a 'key'"),
        (b"[1]\n", "no JSON object"),
        (b"{torn\n", "not valid JSON"),
    ],
)
def test_what_is_no_row_is_one_sentence(path, member, problem):
    path.write_bytes(gzip.compress(member, mtime=0))
    with pytest.raises(DataError, match=problem):
        keys(path)
