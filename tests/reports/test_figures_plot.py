"""Axes hold what they are given, drawings are valid and closed, and none of it loads a model library."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from reports.figures.plot import Bar, Line, Panel, Point, draw, linear, logarithmic, steps
from reports.figures.sheet import page, picture, told
from reports.render import render
from tests.reports.figure_searches import searched, searched_run, settings

EVIL = "</svg></title><script>alert(1)</script>&\"'\x00"


@hypothesis_settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9), st.booleans())
def test_a_linear_axis_holds_its_values_between_round_ticks(values: list[float], zero: bool) -> None:
    values = [abs(v) for v in values] if zero else values
    axis = linear("x", values, zero=zero)
    assert all(-1e-6 <= axis.share(v) <= 1 + 1e-6 for v in values)
    assert 2 <= len(axis.ticks) <= 9
    assert not zero or axis.low == 0


@hypothesis_settings(deadline=None)
@given(st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=9))
def test_a_logarithmic_axis_holds_its_values(values: list[float]) -> None:
    axis = logarithmic("x", values)
    assert all(0 < axis.share(v) < 1 for v in values)
    assert axis.share((axis.low * axis.high) ** 0.5) == pytest.approx(0.5)


def test_places_worked_by_hand() -> None:
    assert linear("x", [31.2, 44.9]).ticks == (30, 35, 40, 45)
    assert linear("x", [0.0021, 0.0079], zero=True).ticks == (0, 0.002, 0.004, 0.006, 0.008)
    assert linear("x", [7]).ticks == (6.4, 6.6, 6.8, 7.0, 7.2, 7.4, 7.6)
    axis = steps("t_n", range(1, 9))
    assert axis.ticks == (1, 2, 3, 4, 5, 6, 7, 8)
    assert 0 < axis.share(1) < 0.1


def test_a_drawing_is_valid_escaped_and_the_same_again() -> None:
    points = [Point(1, 2.0, 1.0, 3.0, EVIL), Point(2, None), Point(3, 4.0)]
    lines = [Line(EVIL, points), Line("b", [Point(1, 9.0)], right=True), Line("c", points, marks=False)]
    panel = Panel(EVIL, steps(EVIL, [1, 2, 3]), linear("y", [1, 4]), linear("z", [9]), lines, [Bar(1, 2, 3.0, EVIL)])
    source = picture(draw([panel] * 3, EVIL))
    root = ET.fromstring(source)
    assert root.attrib["viewBox"] == "0 0 1120 760"
    assert not [e for e in root.iter() if e.tag.endswith("script")]
    # The line breaks at the missing point: two pens down, none across.
    paths = [e.attrib["d"] for e in root.iter() if e.tag.endswith("path") and "line k0" in e.attrib.get("class", "")]
    assert any(d.count("M") == 2 and "L" not in d for d in paths)
    assert source == picture(draw([panel] * 3, EVIL))
    html = page(EVIL, draw([panel], EVIL), [(EVIL, pd.DataFrame({"method": [EVIL], "n": [3]}))])
    assert "<script" not in html
    with pytest.raises(ValueError, match="needs a panel"):
        draw([], "nothing")


def test_numbers_of_the_figures_are_written_as_what_they_are() -> None:
    table = pd.DataFrame({"t_n": [3], "t_p": [0.55], "nodes": [48.04], "nodes.low": [40.0], "nodes.high": [51.0]})
    assert render(told(table), "text").splitlines()[1].split() == ["3", "0.55", "48.0", "[40.0,", "51.0]"]
    assert render(told(pd.DataFrame({"t_p": [None, 0.5], "n": [1, 2]})), "text").splitlines()[1].split() == ["–", "1"]


def test_figures_load_no_model_library(tmp_path: Path) -> None:
    rows = [searched(i, [0.1] * (i + 2), stop=i + 1) for i in range(9)]
    searched_run(tmp_path / "results", rows, settings=settings())
    code = (
        "import sys; from harness.cli.main import _main; "
        "_main(['report', 'nodes', '--out', 'n.html']); _main(['report', 'queries', '--out', 'q.md']); "
        "_main(['report', 'curves', '--out', 'c.svg']); "
        "print([m for m in ('torch', 'transformers', 'datasets', 'mlflow', 'matplotlib', 'scipy') if m in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.svg", "n.html", "q.md", "results"]
