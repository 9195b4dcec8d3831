"""Whatever a file holds: it loads, or it is a DataError; every row is an example, a counted skip, or that error.

A file of which nothing was changed must load, so that no loader passes by refusing.
"""

from __future__ import annotations

import copy
import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.datasets import load
from harness.datasets.base import Dataset
from harness.errors import DataError
from tests.datasets.support import columns, config, hotpot, longbench, musique, qasper, qasper_columns, story_row

# Any text that JSON can spell, half characters included.
TEXT = st.text(st.characters(exclude_categories=()), max_size=6)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 40) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
SETTINGS = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path into a nested value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deeper for key, inner in inside for deeper in _places(inner, (*path, key)))]


@st.composite
def _mutated(draw: st.DrawFn, rows: list[dict[str, Any]]) -> tuple[list[Any], bool]:
    """Rows of which some have one value replaced or removed, and whether all are as they were."""
    before = copy.deepcopy(rows)
    out: list[Any] = []
    for row in rows:
        path = draw(st.sampled_from(_places(row)))
        action = draw(st.sampled_from(["keep", "keep", "replace", "remove", "flip"]))
        if action == "flip" and "answerable" in row:
            row["answerable"] = False
        if action in ("replace", "remove") and not path:
            out.append(draw(VALUE))
            continue
        if action in ("replace", "remove"):
            holder: Any = row
            for key in path[:-1]:
                holder = holder[key]
            if action == "replace":
                holder[path[-1]] = draw(VALUE)
            else:
                del holder[path[-1]]
        out.append(row)
    return out, json.dumps(out) == json.dumps(before)  # True == 1, but they are different rows


def _load(family: str, name: str, content: bytes) -> Dataset | None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        try:
            return load(config(family, data=str(path)))
        except DataError as error:
            message = str(error)
    assert name in message
    assert "\n" not in message
    return None


def _check(family: str, rows: list[Any], whole: bool, as_list: bool) -> None:
    text = json.dumps(rows) if as_list else "".join(json.dumps(row) + "\n" for row in rows)
    data = _load(family, "r.json" if as_list else "r.jsonl", text.encode())
    if data is None:
        assert not whole
        return
    assert len(data.examples) == len(rows) or not whole
    assert len(data.examples) + sum(data.skipped.values()) == len(rows)
    assert len(data.documents) == len(data.examples)
    for example in data.examples:
        document = data.documents[example.question.id]
        (example.question.text + document.text + "".join(example.gold.answers)).encode()
        assert all(0 <= p.start < p.end <= len(document.text) for p in document.passages)
        assert {(s.start, s.end) for s in example.gold.supporting} <= {(p.start, p.end) for p in document.passages}


@SETTINGS
@given(st.data(), st.booleans())
def test_musique_rows(data: st.DataObject, as_list: bool) -> None:
    _check("musique", *data.draw(_mutated([musique(n) for n in range(3)])), as_list)


@SETTINGS
@given(st.data(), st.booleans(), st.booleans())
def test_hotpot_rows(data: st.DataObject, as_list: bool, by_columns: bool) -> None:
    rows = [hotpot(n) for n in range(3)]
    _check("hotpotqa", *data.draw(_mutated([columns(row) for row in rows] if by_columns else rows)), as_list)


def _check_shared(family: str, text: str, whole: bool) -> None:
    """Where questions share documents: every document is asked about, spans lie in it, ids differ."""
    data = _load(family, "r.json", text.encode())
    if data is None:
        assert not whole
        return
    assert data.examples
    assert {d for e in data.examples for d in e.question.document_ids} == set(data.documents)
    assert len({e.question.id for e in data.examples}) == len(data.examples)
    for example in data.examples:
        document = data.documents[example.question.document_ids[0]]
        (example.question.text + document.text + document.title + "".join(example.gold.answers)).encode()
        assert all(a.strip() for a in example.gold.answers)
        assert all(0 <= p.start < p.end <= len(document.text) for p in document.passages)
        assert all(document.text[s.start : s.end].strip() for s in example.gold.supporting)


@SETTINGS
@given(st.data(), st.sampled_from(["list", "lines", "mapping", "columns"]))
def test_qasper_papers(data: st.DataObject, form: str) -> None:
    papers = [qasper(n) for n in range(3)]
    rows, whole = data.draw(_mutated([qasper_columns(p) for p in papers] if form == "columns" else papers))
    if form == "mapping":
        text = json.dumps(
            {
                f"{n}": {k: v for k, v in p.items() if k != "id"} if isinstance(p, dict) else p
                for n, p in enumerate(rows)
            }
        )
    else:
        text = json.dumps(rows) if form == "list" else "".join(json.dumps(row) + "\n" for row in rows)
    _check_shared("qasper", text, whole)


@SETTINGS
@given(st.data(), st.sampled_from([("longbench", longbench), ("narrativeqa", story_row)]))
def test_rows_that_share_a_text(data: st.DataObject, family: tuple[str, Any]) -> None:
    rows, whole = data.draw(_mutated([family[1](n) for n in range(4)]))
    _check_shared(family[0], "".join(json.dumps(row) + "\n" for row in rows), whole)


@SETTINGS
@given(st.binary(max_size=60), st.integers(0, 400))
def test_torn_and_scribbled_papers(scribble: bytes, at: int) -> None:
    good = json.dumps({"1": {k: v for k, v in qasper(1).items() if k != "id"}}).encode()
    for content in (good[:at] + scribble, good[:at] + scribble + good[at:]):
        data = _load("qasper", "r.json", content)
        assert len(data.examples) == 2 if data is not None else content != good


@SETTINGS
@given(st.sampled_from(["r.jsonl", "r.json", "r.jsonl.gz"]), st.binary(max_size=60), st.integers(0, 400))
def test_torn_and_scribbled_bytes(name: str, scribble: bytes, at: int) -> None:
    good = (json.dumps(musique(1)) + "\n").encode()
    for content in (scribble, good[:at] + scribble, good[:at] + scribble + good[at:]):
        data = _load("musique", name, content)
        if data is None:
            assert content != good or name == "r.jsonl.gz"
        else:
            assert len(data.examples) + sum(data.skipped.values()) == 1
