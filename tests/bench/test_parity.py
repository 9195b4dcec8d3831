from __future__ import annotations

import pytest

from bench.parity import Stage, pecan, same, stage
from bench.parity.__main__ import page
from bench.parity.rows import Rows
from tests.docs.pages import ROOT


def test_the_page_is_what_the_stored_results_give() -> None:
    assert (ROOT / "docs" / "parity.md").read_text(encoding="utf-8") == page()


def test_a_stage_counts_equal_items_and_needs_a_reason_only_where_some_differ() -> None:
    assert stage("ranks", [[1, 2], [3]], [[1, 2], [4]], "ties", "kept") == Stage("ranks", 2, 1, "ties", "kept")
    assert stage("ranks", [1.0], [1.0 + 1e-12], "ties", "kept") == Stage("ranks", 1, 1)


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.001), ([1, 2], [1]), ("a", "b"), ([0.0, 1.0], [0.0, 1.1])])
def test_values_that_differ_are_not_the_same(a: object, b: object) -> None:
    assert not same(a, b)


def test_sequences_of_different_lengths_are_not_compared() -> None:
    with pytest.raises(ValueError):
        stage("ranks", [1, 2], [1])


def test_pecan_builds_and_searches_as_a_second_reading_of_the_paper_does() -> None:
    stages = list(pecan.run(None, Rows(), documents=1, questions=3, tokens=200))
    assert [s.equal for s in stages] == [s.compared for s in stages]
    assert [s.compared > 0 for s in stages] == [True] * 5
