import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.search_graph import Graph, _read_cached_graph, parse_graph, read_graph
from reports.search_player import draw_graph_json, label_lines
from tests.reports.searches import folder_of, index, keep, made, searched, step


class TestGraphOf:
    def test_rows_are_levels_from_the_highest_and_chunks_stand_in_document_order(self):
        assert made().nodes_by_level() == {3: [6], 2: [4, 5], 1: [0, 1, 2, 3]}
        assert [made().level_name(level) for level in (3, 2, 1)] == ["level 3", "level 2", "chunks"]
        assert parse_graph(
            index(span=[[13, 19], [9, 13], [5, 9], [0, 5], *[None] * 3])
        ).nodes_by_level()[1] == [3, 2, 1, 0]
        spanless = {name: value for name, value in index().items() if name != "span"}
        assert parse_graph(spanless).level_name(1) == "level 1"

    @pytest.mark.parametrize(
        "value", [None, [], {}, {"text": [], "level": []}, {"vectors": np.zeros(3)}]
    )
    def test_another_index_is_no_graph(self, value):
        assert parse_graph(value) is None

    def test_no_edges_and_no_nodes(self):
        none = {name: np.asarray([]) for name in ("higher", "lower", "weight")}
        assert parse_graph({"text": ["a"], "level": [1], **none}) == Graph(("a",), (1,), ())
        empty = parse_graph({"text": [], "level": [], **none})
        assert empty == Graph((), (), ())
        assert draw_graph_json(empty)["spots"] == []


class TestReadGraph:
    @pytest.fixture(autouse=True)
    def _cache(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "c"))

    def test_the_graph_of_a_record_comes_from_the_cache(self, tmp_path, monkeypatch):
        run = searched(tmp_path / "r", keep(tmp_path / "c"))
        found = read_graph(run, run.records[0], {})
        assert (found.graph, found.problem) == (made(), None)
        monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "d"))
        gone = read_graph(run, run.records[0], {})
        fix = "(HARNESS_CACHE or HARNESS_HOME names another one)."
        said = f"The index of d0 is not in the cache {tmp_path / 'd'} any more {fix}"
        assert (gone.graph, gone.problem) == (None, said)

    @pytest.mark.parametrize("key", ["", "../../etc", "0" * 63, "*" * 64])
    def test_a_key_is_never_a_path(self, key):
        found = _read_cached_graph(key)
        assert found.problem == "has no key that could be looked up (documents.jsonl)"

    @pytest.mark.parametrize("name", ["data.json", "arrays.npz", "key.json"])
    @pytest.mark.parametrize("harm", ["", None])
    def test_a_damaged_entry_is_said_and_left_alone(self, name, harm, tmp_path):
        digest = keep(tmp_path / "c")
        file = folder_of(tmp_path / "c", digest) / name
        if harm is None:
            file.unlink()
        else:
            file.write_text(harm)
        found = _read_cached_graph(digest)
        assert found.graph is None
        assert found.problem.startswith("cannot be read from the cache: ")
        assert folder_of(tmp_path / "c", digest).is_dir()

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"node": 7}, "it has no node 7"),
            ({"node": 3, "level": 2}, "its node 3 is of level 1, and the search saw level 2"),
            ({"shown": {"kind": "generated", "text": "another"}}, "its node 6 has another text"),
        ],
    )
    def test_steps_over_another_graph_are_not_drawn_on_this_one(self, change, said, tmp_path):
        run = searched(tmp_path / "r", keep(tmp_path / "c"), steps=[step("start", 6) | change])
        found = read_graph(run, run.records[0], {})
        assert found.problem == f"The index of d0 is not the one that was searched ({said})."

    def test_another_kind_of_index_or_no_steps_are_no_problem(self, tmp_path):
        key = keep(tmp_path / "c", {"vectors": np.zeros((2, 3))})
        for run in (searched(tmp_path / "r", key), searched(tmp_path / "s", "0" * 64, steps=[])):
            found = read_graph(run, run.records[0], {})
            assert (found.graph, found.problem) == (None, None)

    @pytest.mark.parametrize(
        ("changes", "there"),
        [
            ({"line": {"question_id": "q0"}}, True),
            ({"line": {"question_id": "q1"}}, False),
            ({"line": {"status": "failed"}}, False),
            (
                {
                    "line": {"document_id": "d0+d1"},
                    "document_ids": ["d0", "d1"],
                    "notes": {"joined": 2},
                },
                True,
            ),
            ({"line": {"document_id": "d0+d1"}, "document_ids": ["d0", "d1"]}, False),
        ],
    )
    def test_which_line_of_the_documents_is_the_questions(self, changes, there, tmp_path):
        run = searched(tmp_path / "r", keep(tmp_path / "c"), **changes)
        found = read_graph(run, run.records[0], {})
        assert found.problem == (
            None if there else "documents.jsonl names no index of this question."
        )
        assert (found.graph is not None) is there


class TestLayout:
    def test_places_worked_by_hand(self):
        drawing = draw_graph_json(made())
        assert (drawing["width"], drawing["height"], drawing["left_out"]) == (848, 432, 1)
        assert [(x, y) for x, y, *_ in drawing["spots"]] == [
            (167, 388), (357, 388), (547, 388), (737, 388), (262, 236), (642, 236), (452, 84),
        ]  # fmt: skip
        assert drawing["spots"][6] == [452, 84, 178, 56]
        assert drawing["bands"] == [["level 3", 84], ["level 2", 236], ["chunks", 388]]
        assert [e[2] for e in drawing["edges"]] == [0.3, 0.36, 0.5, 0.5, 0.6, 0.7]
        # (.3 - .05) / .65 = .385: the third of six shades, 0.6 + 4.4 * .385 pixels
        assert [drawing["edges"][i] for i in (0, -1)] == [[6, 5, 0.3, 2, 2.3], [6, 4, 0.7, 5, 5.0]]
        assert drawing["nodes"][0] == [1, "zero", ["zero"]]

    @settings(max_examples=25, deadline=None)
    @given(st.integers(1, 1500))
    def test_nodes_of_a_row_never_touch_and_keep_their_order(self, n):
        drawing = draw_graph_json(Graph(("x",) * n, (1,) * n, ()))
        spots = drawing["spots"]
        assert all(a[0] < b[0] for a, b in itertools.pairwise(spots))
        assert spots[0][0] - spots[0][2] / 2 > 0
        assert spots[-1][0] + max(spots[-1][2] / 2, 9) <= drawing["width"]
        assert all(0 < y < drawing["height"] for _, y, *_ in spots)
        for i, a in enumerate(spots):
            for b in spots[i + 1 : i + 10]:
                assert abs(a[0] - b[0]) >= max(a[2], 2 * 9) or abs(a[1] - b[1]) >= 2 * 9

    @pytest.mark.parametrize(
        ("text", "pixels", "lines"),
        [
            ("", 62, []),
            ("one two three", 62, ["one two", "three"]),
            ("one two three four five six", 62, ["one two", "three four", "five six"]),
            ("one two three four five six seven", 62, ["one two", "three four", "five six…"]),
            ("abcdefghijklmnop", 62, ["abcdefghij", "klmnop"]),
            ("长文档问答", 37.2, ["长文档", "问答"]),
        ],
    )
    def test_labels(self, text, pixels, lines):
        assert label_lines(text, pixels) == lines
