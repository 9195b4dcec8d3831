import json

import pytest

from bench.parity import Found, Stage, is_near, pecan
from bench.parity.__main__ import KEPT, page
from bench.parity.rows import Rows
from tests.docs.pages import ROOT


def test_the_page_is_what_the_stored_results_give() -> None:
    assert (ROOT / "docs" / "parity.md").read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.json")), ids=lambda path: path.stem)
def test_every_difference_says_its_reason(path) -> None:
    for name, stage in json.loads(path.read_text(encoding="utf-8"))["stages"].items():
        if stage["equal"] < stage["compared"]:
            assert stage["reason"], name


def test_a_stage_counts_equal_items() -> None:
    found = Found()
    found.each("ranks", [[1, 2], [3]], [[1, 2], [4]])
    found.add("scores", 1.0, 1.0 + 1e-12)
    found.sets("kept", [1, 2, 3], [3, 4])
    assert found == {"ranks": Stage(2, 1), "scores": Stage(1, 1), "kept": Stage(2, 1)}
    with pytest.raises(ValueError):
        found.each("ranks", [1, 2], [1])


@pytest.mark.parametrize(
    ("a", "b"), [(1.0, 1.001), ([1, 2], [1]), ("a", "b"), ([0.0, 1.0], [0.0, 1.1])]
)
def test_values_that_differ_are_not_the_same(a: object, b: object) -> None:
    assert not is_near(a, b)


def test_pecan_builds_and_searches_as_a_second_reading_of_the_paper_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = Found()
    monkeypatch.setitem(pecan.PARAMS, "reserve", 40)  # the second reading writes without a cache
    pecan.compare(None, Rows(), found, documents=1, questions=1, tokens=200)
    assert all(stage.equal == stage.compared > 0 for stage in found.values())
    assert len(found) == 5
