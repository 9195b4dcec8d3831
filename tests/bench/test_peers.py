"""bench.peers: tools take turns, ratios are of the same turn, and what was left undone is no figure."""

import sys

from bench import peers
from bench.servers import Taken


def given(folder, **sizes):
    """A bench with the project's own Python in the place of the peers'."""
    asked = {"questions": 1, "passages": 1, "texts": 1, "repeats": 1}
    return peers.Given(sys.executable, folder, **{**asked, **sizes})


def test_a_ratio_is_the_median_of_the_turns_ratios():
    tools = [peers.Tool("one", list), peers.Tool("two", list)]
    turns = [
        [Taken(1, 1, 10), Taken(2, 1, 20)],
        [Taken(10, 4, 10), Taken(30, 2, 40)],
        [Taken(2, 2, 10), Taken(8, 6, 30)],
    ]
    lines = list(peers.Rows(peers.Comparison("work", tools), turns).lines())
    assert lines == [
        "| work | one | 2.0 [1.0, 10.0] | 2.0 [1.0, 4.0] | 10 | 1.00 [1.00, 1.00] | 1.00 [1.00, 1.00] | 3 |",
        "| work | two | 8.0 [2.0, 30.0] | 2.0 [1.0, 6.0] | 30 | 3.00 [2.00, 4.00] | 1.00 [0.50, 3.00] | 3 |",
    ]


def test_a_turn_in_which_a_tool_left_work_undone_is_left_out_and_said(tmp_path, capsys):
    def undone(out):
        raise RuntimeError(f"{out.name} is not there")

    tool = peers.Tool("lazy", lambda _out: [sys.executable, "-c", ""], undone)
    rows = peers.measured(peers.Comparison("work", [tool]), given(tmp_path))
    assert list(rows.lines()) == []
    assert capsys.readouterr().err == "work: left out a turn: out is not there\n"


def test_both_bm25_programs_index_and_search(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "QUERIES", 3)
    monkeypatch.setattr(peers, "VOCABULARY", 1000)
    rows = peers.search_words(given(tmp_path, passages=40))
    works = [(each.comparison.work, len(each.turns)) for each in rows]
    assert works == [("BM25 index of 40 passages", 1), ("3 searches in it", 1)]
    assert (tmp_path / "own.index" / "index.json").exists()
