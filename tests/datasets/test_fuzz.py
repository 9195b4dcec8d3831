"""Whatever a file holds: it loads, or it is a DataError; every row is an example, a counted skip,
or that error.

A file of which nothing was changed must load, so that no loader passes by refusing.
"""

import copy
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.datasets import load
from harness.errors import DataError
from tests.datasets.support import (
    columns,
    config,
    hotpot,
    longbench,
    musique,
    qasper,
    qasper_columns,
    story_row,
)

# Any text that JSON can spell, half characters included.
TEXT = st.text(st.characters(exclude_categories=()), max_size=6)
VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
SETTINGS = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def _places(value, path=()):
    """Every path into a nested value."""
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(deeper for key, inner in inside for deeper in _places(inner, (*path, key)))]


@st.composite
def _mutated(draw, rows):
    """Rows of which some have one value replaced or removed, and whether all are as they were."""
    before = copy.deepcopy(rows)
    out = []
    for row in copy.deepcopy(rows):
        path = draw(st.sampled_from(_places(row)))
        action = draw(st.sampled_from(["keep", "keep", "replace", "remove", "flip"]))
        if action == "flip" and "answerable" in row:
            row["answerable"] = False
        if action in ("replace", "remove") and not path:
            out.append(draw(VALUE))
            continue
        if action in ("replace", "remove"):
            holder = row
            for key in path[:-1]:
                holder = holder[key]
            if action == "replace":
                holder[path[-1]] = draw(VALUE)
            else:
                del holder[path[-1]]
        out.append(row)
    return out, json.dumps(out) == json.dumps(before)  # True == 1, but they are different rows


def _load(family, path, content):
    path.write_bytes(content)
    try:
        return load(config(family, data=str(path)))
    except DataError as error:
        sentence = str(error)
    assert path.name in sentence
    assert "\n" not in sentence
    return None


def _as_text(rows, form):
    if form == "mapping":
        rows = {
            f"{n}": {k: v for k, v in p.items() if k != "id"} if isinstance(p, dict) else p
            for n, p in enumerate(rows)
        }
    return json.dumps(rows) if form != "lines" else "".join(json.dumps(row) + "\n" for row in rows)


FORMS = {
    "musique": [musique(n) for n in range(3)],
    "hotpotqa": [hotpot(n) for n in range(3)],
    "hotpotqa columns": [columns(hotpot(n)) for n in range(3)],
    "qasper": [qasper(n) for n in range(3)],
    "qasper columns": [qasper_columns(qasper(n)) for n in range(3)],
    "longbench": [longbench(n) for n in range(4)],
    "narrativeqa": [story_row(n) for n in range(4)],
}


@pytest.mark.parametrize("name", FORMS)
@SETTINGS
@given(data=st.data())
def test_rows_of_which_some_are_changed(name, data, tmp_path):
    """Every document is asked about, spans lie in it, ids differ."""
    family = name.partition(" ")[0]
    rows, whole = data.draw(_mutated(FORMS[name]))
    form = data.draw(st.sampled_from(["list", "lines", "mapping"][: 3 if name == "qasper" else 2]))
    found = _load(
        family,
        tmp_path / ("r.jsonl" if form == "lines" else "r.json"),
        _as_text(rows, form).encode(),
    )
    if found is None:
        assert not whole
        return
    if family in ("musique", "hotpotqa"):  # a question a row
        assert len(found.examples) + sum(found.skipped.values()) == len(rows)
        assert len(found.examples) == len(rows) or not whole
    assert found.examples
    assert {d for e in found.examples for d in e.question.document_ids} == set(found.documents)
    assert len({e.question.id for e in found.examples}) == len(found.examples)
    for example in found.examples:
        document = found.documents[example.question.document_ids[0]]
        (
            example.question.text + document.text + document.title + "".join(example.gold.answers)
        ).encode()
        assert all(answer.strip() for answer in example.gold.answers)
        assert all(0 <= p.start < p.end <= len(document.text) for p in document.passages)
        assert all(document.text[s.start : s.end].strip() for s in example.gold.supporting)


GOOD = {
    "r.json": ("qasper", _as_text([qasper(1)], "mapping").encode(), 2),
    "r.jsonl": ("musique", _as_text([musique(1)], "lines").encode(), 1),
    "r.jsonl.gz": ("musique", _as_text([musique(1)], "lines").encode(), 1),
}


@pytest.mark.parametrize("name", GOOD)
@SETTINGS
@given(scribble=st.binary(max_size=60), at=st.integers(0, 400))
def test_torn_and_scribbled_bytes(name, scribble, at, tmp_path):
    family, good, count = GOOD[name]
    for content in (scribble, good[:at] + scribble, good[:at] + scribble + good[at:]):
        found = _load(family, tmp_path / name, content)
        if found is None:
            assert content != good or name.endswith(".gz")
        else:
            assert len(found.examples) + sum(found.skipped.values()) == count
