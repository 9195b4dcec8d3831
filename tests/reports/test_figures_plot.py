"""Figures are drawn as SVG, PDF and PNG: valid, escaped, the same again; none of it loads a model
library."""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.text import Text

from reports.figures import plot
from reports.figures.plot import (
    FORMS,
    MAX_LINES_PER_PANEL,
    Axis,
    Bar,
    Line,
    Panel,
    Point,
    draw,
    inline_svg,
    panels,
    paper_style,
)
from reports.html_tables import tables_page
from tests.reports.figure_searches import searched, searched_run, settings

EVIL = "</svg></title><script>alert(1)</script>&\"'\x00"
SVG = "{http://www.w3.org/2000/svg}"


def panel(title="musique", name="pecan"):
    points = [Point(1, 2.0, 1.0, 3.0), Point(2, None), Point(3, 4.0)]
    lines = [
        Line(name, points),
        Line("b", [Point(1, 9.0, 9.5, 8.5)], on_right_axis=True),
        Line("c", points, has_marks=False),
    ]
    return Panel(
        title,
        Axis(title, ticks=(1, 2, 3)),
        Axis(name, starts_at_zero=True),
        Axis("z"),
        lines,
        [Bar(1, 2, 3.0)],
    )


def words(svg):
    return [e.text or "" for e in ET.fromstring(svg).iter(f"{SVG}text")]


@pytest.mark.parametrize("form", FORMS)
def test_equal_panels_are_equal_bytes_of_the_form(form):
    source = draw([panel()], "Curves", form)
    assert source[:5] == {"svg": b"<?xml", "pdf": b"%PDF-", "png": b"\x89PNG\r"}[form]
    assert source == draw([panel()], "Curves", form)
    assert b"Date" not in source, "no time of day in a file"
    if form == "pdf":  # several publishers refuse Type 3 fonts, matplotlib's default
        assert (b"/FontFile2" in source, b"/Type3" in source) == (True, False)


@pytest.mark.parametrize("cost", [0.013, 13.0, 1_300_000.0])
def test_titles_legends_and_names_of_axes_fit_into_the_figure(cost, monkeypatch):
    """Also where a reader's font is a twentieth wider, as text stays text in an SVG."""
    seen = []
    monkeypatch.setattr(plot, "figure_file", lambda figure, *_: seen.append(figure))
    score, spent = (
        Line("longbench.qa_f1_score", [Point(1, 50.0)]),
        Line("TFLOPs", [Point(1, cost)], on_right_axis=True),
    )
    title = "pecan on musique · Llama-3.1-8B-Instruct"
    names = (
        "stop patience t_n",
        f"{score.name} × 100",
        "TFLOPs a question, index included (all-params)",
    )
    axes = [Axis(name) for name in names]
    rivals = [
        Line(f"garlic with chunks of {i} tokens", [Point(1, 50.0 + i)]) for i in range(200, 206)
    ]
    draw([Panel(title, *axes, [score, spent, *rivals])], "Curves")
    (figure,) = seen
    figure.draw_without_rendering()
    names = {title, score.name, spent.name, *(axis.name for axis in axes)}
    written = [text for text in figure.findobj(Text) if text.get_text().replace("\n", " ") in names]
    assert len(written) == len(names)
    for text in (*written, figure.axes[0].get_legend()):
        box, along = text.get_window_extent(), int(text in written and text.get_rotation() == 90)
        assert min(box.min) >= 0, text
        assert box.max[along] + 0.05 * box.size[along] <= figure.bbox.size[along], text
        assert box.max[1 - along] <= figure.bbox.size[1 - along], text


@pytest.mark.parametrize(
    "name", ["pecan[$x_1$]", "$\\frac{1}{2}$", "_hidden", "a & <b>", "50 %", "{x}"]
)
def test_text_of_the_data_prints_as_it_is(name):
    assert words(draw([panel(name, name)], name)).count(name) == 4, (
        "title, both axes and the legend"
    )


def test_a_drawing_is_valid_and_escaped_alone_and_in_a_page():
    source = draw([panel(EVIL, EVIL)] * 3, EVIL)
    root = ET.fromstring(source)
    assert [float(v) for v in root.attrib["viewBox"].split()] == [0, 0, 504, 432], (
        "two panels in a row, in points"
    )
    assert not [e for e in root.iter() if e.tag.endswith("script")]
    html = tables_page(
        EVIL, inline_svg(source), [(EVIL, pd.DataFrame({"method": [EVIL], "n": [3]}))]
    )
    assert "<script" not in html
    drawing = inline_svg(source)
    assert 'style="' not in drawing, "a page's policy forbids style attributes"
    text = 'a style="fill: #ffffff" b'
    assert text in inline_svg(draw([panel(text)], "t")), "text is not touched"
    assert "http" not in drawing
    used = set(re.findall(r'href="#([^"]*)"', drawing)) | set(
        re.findall(r"url\(#([^)]*)\)", drawing)
    )
    assert used <= set(re.findall(r'id="([^"]*)"', drawing))
    ET.fromstring(drawing)


def test_a_missing_value_is_a_gap_in_the_line():
    def strokes(*heights):
        points = [Point(x, y) for x, y in enumerate(heights)]
        source = draw(
            [Panel("t", Axis("x"), Axis("y"), None, [Line("a", points, has_marks=False)])], "t"
        ).decode()
        (path,) = re.findall(r'd="([^"]*)" [^>]*fill: none; stroke: #0072b2', source)
        return path.count("M")

    assert strokes(1, 2, 3, 4) == 1
    assert strokes(1, 2, None, 3, 4) == 2


def test_axes_have_the_ticks_and_the_ends_that_are_asked_for():
    def ticks(x, places):
        line = Line("a", [Point(place, 1000.0 * i) for i, place in enumerate(places)])
        return words(draw([Panel("t", x, Axis("y", starts_at_zero=True), None, [line])], "t"))

    assert ticks(Axis("x", ticks=(1, 2, 8)), [1, 2, 8])[:3] == ["1", "2", "8"]
    assert ticks(Axis("x", limits=(0, 1)), [0.2, 0.7])[:6] == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    assert ticks(Axis("x", is_logarithmic=True), [3, 7])[:3] == ["2", "5", "10"], (
        "a tick is in sight over less than a decade"
    )
    assert ticks(Axis("x", is_logarithmic=True), [1, 1e6])[:3] == ["1", "10", "100"]
    assert "2,000" in ticks(Axis("x"), [1, 2, 3])


def test_lines_differ_in_colour_mark_and_dash():
    with paper_style():
        from matplotlib import rcParams

        cycle = rcParams["axes.prop_cycle"].by_key()
    assert {key: len({str(v) for v in values}) for key, values in cycle.items()} == {
        "color": MAX_LINES_PER_PANEL, "marker": MAX_LINES_PER_PANEL, "linestyle": MAX_LINES_PER_PANEL
    }  # fmt: skip
    lines = [Line(str(i), []) for i in range(MAX_LINES_PER_PANEL + 1)]
    parts = [
        panels("t", Axis("x"), Axis("y"), lines[:count])
        for count in (0, MAX_LINES_PER_PANEL, MAX_LINES_PER_PANEL + 1)
    ]
    assert [[(part.title, len(part.lines)) for part in own] for own in parts] == [
        [], [("t", 6)], [("t (1 of 2)", 6), ("t (2 of 2)", 1)]
    ]  # fmt: skip


def test_figures_load_no_model_library_and_tables_no_matplotlib(tmp_path):
    rows = [searched(i, [0.1] * (i + 2), stop=i + 1) for i in range(9)]
    searched_run(tmp_path / "results", rows, settings=settings(record_stops=2))
    code = (
        "import sys; from harness.cli.main import _run_command; "
        "loaded = lambda *names: print([m for m in names if m in sys.modules]); "
        "_run_command(['report', 'queries', '--out', 'q.md']); loaded('matplotlib'); "
        "_run_command(['report', 'curves', '--out', 'c.svg']); "
        "_run_command(['report', 'results', '--html', 'p.html', '--paper']); "
        "loaded('torch', 'transformers', 'datasets', 'mlflow', 'matplotlib.pyplot')"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["[]", "[]"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "c.svg",
        "p.html",
        "q.md",
        "results",
    ]
