from __future__ import annotations

import itertools
import re
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.compressed_json import filled
from reports.drawing import svg
from reports.graph_layout import RADIUS, layout, lines_of, path, shade
from reports.search_graph import Graph, graph_of, read_graph, read_index
from reports.search_moves import walk
from reports.search_player import drawn
from tests.reports.searches import folder_of, index, keep, made, searched, step, steps

HOSTILE = "</svg><script>alert(1)</script>&amp;]]>\x00\x1b[31m\ud800\"'<!--"
SVG = "{http://www.w3.org/2000/svg}"


class TestGraphOf:
    def test_rows_are_levels_from_the_highest(self) -> None:
        assert made().rows() == {3: [6], 2: [4, 5], 1: [0, 1, 2, 3]}

    def test_chunks_stand_in_document_order(self) -> None:
        found = graph_of(index(span=[[13, 19], [9, 13], [5, 9], [0, 5], None, None, None]))
        assert found is not None
        assert found.rows()[1] == [3, 2, 1, 0]

    def test_names_of_rows(self) -> None:
        assert [made().row_name(level) for level in (3, 2, 1)] == ["level 3", "level 2", "chunks"]
        without = graph_of({name: value for name, value in index().items() if name != "span"})
        assert without is not None
        assert without.row_name(1) == "level 1"

    @pytest.mark.parametrize(
        "changes",
        [
            {"text": ["a"]},
            {"text": "abcdefg"},
            {"text": [1] * 7},
            {"level": [1.0] * 7},
            {"higher": np.asarray([9] * 7)},
            {"higher": np.asarray([-1] * 7)},
            {"higher": np.asarray([0.5] * 7)},
            {"lower": np.asarray([0])},
            {"weight": np.asarray([np.nan] * 7)},
            {"weight": np.asarray([["a"]])},
            {"higher": [[1], [2, 3]]},
        ],
    )
    def test_what_is_no_graph(self, changes: dict[str, Any]) -> None:
        assert graph_of(index(**changes)) is None

    @pytest.mark.parametrize("value", [None, [], {}, {"text": [], "level": []}, {"vectors": np.zeros(3)}])
    def test_another_index_is_no_graph(self, value: Any) -> None:
        assert graph_of(value) is None

    def test_no_edges_and_no_nodes(self) -> None:
        none: dict[str, Any] = {name: np.asarray([]) for name in ("higher", "lower", "weight")}
        assert graph_of({"text": ["a"], "level": [1], **none}) == Graph(("a",), (1,), ())
        empty = graph_of({"text": [], "level": [], **none})
        assert empty == Graph((), (), ())
        ET.fromstring(svg(empty, []))


class TestReadGraph:
    def test_the_graph_of_a_record_comes_from_the_cache(self, tmp_path: Path) -> None:
        run = searched(tmp_path / "r", keep(tmp_path / "c"))
        found = read_graph(run, run.records[0], tmp_path / "c")
        assert (found.graph, found.problem) == (made(), None)

    def test_a_missing_entry_is_said(self, tmp_path: Path) -> None:
        run = searched(tmp_path / "r", "0" * 64)
        found = read_graph(run, run.records[0], tmp_path / "c")
        assert found.graph is None
        assert found.problem == (
            f"The index of d0 is not in the cache {tmp_path / 'c'} any more (HARNESS_CACHE or HARNESS_HOME names "
            "another one)."
        )

    @pytest.mark.parametrize("key", ["", "../../etc", "0" * 63, "*" * 64])
    def test_a_key_is_never_a_path(self, key: str, tmp_path: Path) -> None:
        assert read_index(key, tmp_path) == (None, "has no key that could be looked up (documents.jsonl)")

    @pytest.mark.parametrize("name", ["data.json", "arrays.npz", "key.json", "checksums.json"])
    @pytest.mark.parametrize("harm", ["", "[]", None])
    def test_a_damaged_entry_is_said_and_left_alone(self, name: str, harm: str | None, tmp_path: Path) -> None:
        digest = keep(tmp_path)
        file = folder_of(tmp_path, digest) / name
        if harm is None:
            file.unlink()
        else:
            file.write_text(harm)
        value, problem = read_index(digest, tmp_path)
        assert value is None
        assert problem is not None
        assert problem.startswith("cannot be read from the cache: ")
        assert folder_of(tmp_path, digest).is_dir()

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"node": 7}, "it has no node 7"),
            ({"node": 3, "level": 2}, "its node 3 is of level 1, and the search saw level 2"),
            ({"shown": {"kind": "generated", "text": "another"}}, "its node 6 has another text"),
        ],
    )
    def test_steps_over_another_graph_are_not_drawn_on_this_one(
        self, change: dict[str, Any], said: str, tmp_path: Path
    ) -> None:
        run = searched(tmp_path / "r", keep(tmp_path / "c"), steps=[step("start", 6) | change])
        found = read_graph(run, run.records[0], tmp_path / "c")
        assert found.problem == f"The index of d0 is not the one that was searched ({said})."

    def test_another_kind_of_index_is_no_problem(self, tmp_path: Path) -> None:
        run = searched(tmp_path / "r", keep(tmp_path / "c", {"vectors": np.zeros((2, 3))}))
        found = read_graph(run, run.records[0], tmp_path / "c")
        assert (found.graph, found.problem) == (None, None)

    @pytest.mark.parametrize(
        ("changes", "there"),
        [
            ({"line": {"question_id": "q0"}}, True),
            ({"line": {"question_id": "q1"}}, False),
            ({"line": {"status": "failed"}}, False),
            ({"line": {"document_id": "d0+d1"}, "document_ids": ["d0", "d1"], "notes": {"joined": 2}}, True),
            ({"line": {"document_id": "d0+d1"}, "document_ids": ["d0", "d1"]}, False),
        ],
    )
    def test_which_line_of_the_documents_is_the_questions(
        self, changes: dict[str, Any], there: bool, tmp_path: Path
    ) -> None:
        run = searched(tmp_path / "r", keep(tmp_path / "c"), **changes)
        found = read_graph(run, run.records[0], tmp_path / "c")
        assert found.problem == (None if there else "documents.jsonl names no index of this question.")
        assert (found.graph is not None) is there

    def test_a_run_without_steps_has_no_graph_and_no_problem(self, tmp_path: Path) -> None:
        run = searched(tmp_path / "r", "0" * 64, steps=[])
        assert read_graph(run, run.records[0], tmp_path).problem is None


class TestLayout:
    def test_places_worked_by_hand(self) -> None:
        plan = layout(made())
        assert (plan.width, plan.height) == (848, 432)
        assert [(s.x, s.y) for s in plan.spots] == [
            (167, 388), (357, 388), (547, 388), (737, 388), (262, 236), (642, 236), (452, 84),
        ]  # fmt: skip
        assert list(plan.bands) == [(3, 84), (2, 236), (1, 388)]
        assert [e[2] for e in plan.edges] == [0.3, 0.36, 0.5, 0.5, 0.6, 0.7]
        assert plan.left_out == 1
        assert path(plan.spots[6], plan.spots[4]) == "M452 112C452 160 262 160 262 208"
        # (.3 - .05) / .65 = .385: the third of six shades, 0.6 + 4.4 * .385 pixels
        assert [shade(w, plan) for w in (0.3, 0.7)] == [(2, 2.3), (5, 5.0)]

    @pytest.mark.parametrize(("least", "drawn_"), [(0.0, 7), (0.04, 6), (0.5, 2), (0.7, 0)])
    def test_edges_above_the_least_weight(self, least: float, drawn_: int) -> None:
        plan = layout(made(), least)
        assert (len(plan.edges), plan.left_out) == (drawn_, 7 - drawn_)

    @settings(max_examples=25, deadline=None)
    @given(st.integers(1, 1500))
    def test_nodes_of_a_row_never_touch_and_keep_their_order(self, n: int) -> None:
        plan = layout(Graph(("x",) * n, (1,) * n, ()))
        spots = plan.spots
        assert all(a.x < b.x for a, b in itertools.pairwise(spots))
        assert spots[0].x - spots[0].width / 2 > 0
        assert spots[-1].x + max(spots[-1].width / 2, RADIUS) <= plan.width
        assert all(0 < s.y < plan.height for s in spots)
        for i, a in enumerate(spots):
            for b in spots[i + 1 : i + 10]:
                need = max(a.width, 2 * RADIUS)
                assert abs(a.x - b.x) >= need or abs(a.y - b.y) >= 2 * RADIUS

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
    def test_labels(self, text: str, pixels: float, lines: list[str]) -> None:
        assert lines_of(text, pixels) == lines

    @settings(max_examples=60, deadline=None)
    @given(st.text(max_size=200), st.floats(1, 300))
    def test_labels_fit(self, text: str, pixels: float) -> None:
        lines = lines_of(text, pixels)
        assert len(lines) <= 3
        assert all(len(line) <= max(3, pixels / 6.2) for line in lines)


class TestDrawing:
    def drawing(self, **changes: Any) -> ET.Element:
        return ET.fromstring(svg(made(), walk(steps(), made()), changes.pop("marked", frozenset({1})), **changes))

    def test_every_part_is_drawn(self) -> None:
        root = self.drawing()
        paths = root.findall(f".//{SVG}path")
        edges = [p for p in paths if str(p.get("class")).startswith("edge") and p.find(f"{SVG}title") is not None]
        assert [p.findtext(f"{SVG}title") for p in edges] == [
            "#6 to #5: weight 0.300", "#4 to #1: weight 0.360", "#5 to #1: weight 0.500", "#5 to #2: weight 0.500",
            "#4 to #0: weight 0.600", "#6 to #4: weight 0.700",
        ]  # fmt: skip
        thick = [float(str(p.get("stroke-width"))) for p in edges]
        assert thick == sorted(thick)
        taken = [p.get("d") for p in paths if p.get("class") == "taken"]
        assert len(taken) == 5
        assert taken[0] == "M452 112C452 160 262 160 262 208"
        groups = root.findall(f".//{SVG}g[{SVG}title]")
        assert [g.get("class") for g in groups] == [
            "node later", "node supporting visited", "node visited", "node visited", "node visited", "node visited",
            "node visited",
        ]  # fmt: skip
        numbers = [g.findtext(f"{SVG}text[@class='number']") for g in groups]
        assert numbers == ["6", "2", "4", "5", "1", "3", "0"]
        assert groups[4].findtext(f"{SVG}title") == "#4 · level 2, step 1\npoints of zero and one"
        assert [t.text for t in root.findall(f".//{SVG}text[@class='soft']")][-3:] == ["level 3", "level 2", "chunks"]

    def test_supporting_chunks_are_marked(self) -> None:
        root = self.drawing(marked={1, 2})
        marks = root.findall(f".//{SVG}path[@class='mark']")
        assert len(marks) == 2

    def test_an_edge_that_is_not_drawn_is_not_coloured_either(self) -> None:
        root = self.drawing(least=0.5)
        assert len(root.findall(f".//{SVG}path[@class='taken']")) == 2

    def test_equal_arguments_give_equal_bytes(self) -> None:
        moves = walk(steps(), made())
        assert svg(made(), moves, {3, 1, 2}) == svg(made(), moves, {2, 3, 1})

    def test_hostile_texts_stay_texts(self) -> None:
        graph = graph_of(index(text=[HOSTILE] * 7))
        assert graph is not None
        source = svg(graph, walk(steps(), graph), {0})
        root = ET.fromstring(source.encode())
        assert {e.tag.removeprefix(SVG) for e in root.iter()} == {
            "svg", "title", "style", "g", "text", "path", "rect", "circle",
        }  # fmt: skip
        assert "</svg><script>alert(1)</script>&amp;]]>\ufffd\ufffd[31m\ufffd" in "".join(root.itertext())
        assert set(re.findall(r"https?://[^\s\"']+", source)) == {"http://www.w3.org/2000/svg"}
        assert not re.search(r" on\w+=|href|url\(|@import", source)

    @settings(max_examples=40, deadline=None)
    @given(st.text(max_size=60))
    def test_any_text_is_valid_xml(self, text: str) -> None:
        graph = Graph((text, text), (2, 1), ((0, 1, 1.0),))
        ET.fromstring(svg(graph, []).encode())

    def test_three_hundred_nodes_are_drawn_in_less_than_a_second(self) -> None:
        graph = big(200, 100)
        found = [step("start", None) | {"node": n, "level": graph.level[n]} for n in range(299, 219, -1)]
        begun = time.process_time()
        source = svg(graph, walk(found, graph), set(range(0, 200, 10)))
        assert time.process_time() - begun < 1
        root = ET.fromstring(source)
        assert len(root.findall(f".//{SVG}g[{SVG}title]")) == 300
        assert float(str(root.get("width"))) <= 1600
        assert len(source) < 1_000_000

    def test_a_move_to_node_zero_from_step_zero_loses_nothing(self) -> None:
        assert filled(node=0, parent=0, p_yes=0.0, edge=None, note="", later=False) == {
            "node": 0,
            "parent": 0,
            "p_yes": 0.0,
        }

    def test_the_page_draws_the_same_places(self) -> None:
        told = drawn(made())
        assert told["spots"][6] == [452, 84, 178, 56]
        assert told["edges"][-1] == [6, 4, 0.7, 5, 5.0]
        assert told["bands"] == [["level 3", 84], ["level 2", 236], ["chunks", 388]]
        assert told["nodes"][0] == [1, "zero", ["zero"]]


def big(chunks: int, points: int) -> Graph:
    """Points over batches of 20 chunks, with edges that fall off."""
    edges = []
    for point in range(points):
        begin = point * chunks // points // 20 * 20
        edges += [(chunks + point, begin + (point + k) % 20, 0.5 ** (k + 1)) for k in range(20)]
    text = tuple(f"node {i} " + "word " * 200 for i in range(chunks + points))
    spans = tuple((i * 10, i * 10 + 10) if i < chunks else None for i in range(chunks + points))
    return Graph(text, (1,) * chunks + (2,) * points, tuple(edges), spans)
