import csv
import doctest
import io
import json
import re

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports import latex
from reports import table_formats as module
from reports.section import Section
from reports.table_formats import FORMATS, render, render_sections
from tests.reports.build import record, write_run

NASTY = "a|b <script>alert(1)</script> & $x_1$ 100% #1 {y} ~ ^ \\cmd `c` *d* [e](http://f)\nnew\x1b[31mline"


def table(**columns):
    return pd.DataFrame({"method": ["x"], "n": [3], **columns})


def test_docstring_shows_what_is_printed():
    result = doctest.testmod(module)
    assert (result.failed, result.attempted) == (0, 3)


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("mean", 0.41251, "41.3"),
        ("mean", -0.0001, "0.0"),
        ("watts", 0.41251, "0.41251"),
        ("difference", -0.0523, "-5.2"),
        ("tflops", 108.4, "108"),
        ("tflops.index", 0.01234, "0.0123"),
        ("tflops.index", 1.5e-7, "1.50e-07"),
        ("money", 4.1e-5, "0.0000410"),
        ("tflops", 0.0, "0"),
        ("tflops", 123456.0, "123456"),
        ("tokens.answer", 1234.6, "1235"),
        ("p", 0.0004, "<0.001"),
        ("p_holm", 0.0404, "0.040"),
        ("ratio", 0.2406, "0.24x"),
        ("seconds", 12.345, "12.3"),
        ("t_n", 3, "3"),
        ("t_p", 0.55, "0.55"),
        ("nodes", 48.04, "48.0"),
        ("trials", 3.0, "3"),
        *(
            (name, 1234.5, "1234.5")
            for name in ("requests", "requests.search", "requests.index", "retries")
        ),
    ],
)
def test_numbers(column, value, expected):
    cells = render(table(**{column: [value]}), "markdown").splitlines()[2].strip("| ").split(" | ")
    assert cells[-1] == expected


def test_intervals_need_both_ends_and_gaps_are_dashes():
    frame = pd.DataFrame(
        {"m": ["x", "y", "z"], "f1": [0.5, 0.25, None], "f1.low": [0.4, None, None]}
    )
    frame["f1.high"] = [0.6, None, None]
    frame["empty"] = [None, None, None]
    lines = render(frame, "text").splitlines()
    assert lines == ["m  f1", "x  50.0 [40.0, 60.0]", "y  25.0", "z  –"]


def test_footnotes_are_numbered_once_and_common_ones_carry_no_mark():
    frame = pd.DataFrame(
        {"m": list("xyz"), "notes": [("all", "two"), ("all", "one", "two"), ("all",)]}
    )
    lines = ["m  notes", "x  [1]", "y  [1], [2]", "z", "", "all", "[1] two", "[2] one"]
    assert render(frame, "text").splitlines() == lines


class TestEscapes:
    def test_markdown(self):
        out = render(table(f1=[0.5], name=[NASTY], notes=[(NASTY,)]), "markdown")
        assert "<" not in out
        row = out.splitlines()[2]
        assert len(re.findall(r"(?<!\\)\|", row)) == 5
        assert "\\[e\\](http://f) new[31mline".replace("[31m", "\\[31m") in row
        assert "\x1b" not in out

    def test_latex(self):
        out = render(table(name=[NASTY]), "latex")
        row = out.partition("\\midrule\n")[2].splitlines()[0]
        assert r"a\textbar{}b \textless{}script\textgreater{}" in row
        assert (
            r"\& \$x\_1\$ 100\% \#1 \{y\} \textasciitilde{} \textasciicircum{} \textbackslash{}cmd"
            in row
        )
        assert len(re.findall(r"(?<!\\)&", row)) == 2

    @pytest.mark.parametrize("start", ["[1] x", "*x"])
    def test_latex_line_breaks_keep_their_hands_off_the_next_line(self, start):
        frame = pd.DataFrame({"method": ["x", start], "notes": [("one",), ("two",)]})
        assert not re.search(r"\\\\\s*[\[*]", render(frame, "latex"))

    @pytest.mark.parametrize("start", ["=1+1", "+1", "-1", "@a", "\t=1", "\r=1", " =1", "＝1"])
    def test_csv_formulas(self, start):
        out = render(pd.DataFrame({"=head": [start], "f1": [-0.5]}), "csv")
        head, row = csv.reader(io.StringIO(out))
        assert head[0] == "'=head"
        assert row[0].startswith("'")
        assert float(row[1]) == -0.5

    def test_csv_numbers_are_whole_and_absent_ones_empty(self):
        out = render(pd.DataFrame({"f1": [1 / 3, None], "notes": [("a, b", "c"), ()]}), "csv")
        assert out == 'f1,notes\n0.3333333333333333,"a, b; c"\n,\n'

    def test_json(self):
        out = render(table(f1=[float("nan")], name=[NASTY], notes=[("</script>",)]), "json")
        assert "<" not in out
        assert json.loads(out) == [
            {"method": "x", "n": 3, "f1": None, "name": NASTY, "notes": ["</script>"]}
        ]

    def test_half_a_surrogate_pair_can_be_written_in_every_format(self):
        for name in FORMATS:
            assert render(table(notes=[("a\ud800b",)]), name).encode()

    def test_text_keeps_its_columns_with_wide_and_control_characters(self):
        frame = pd.DataFrame({"a": ["文字", "x\x1b[2J\u202e"], "n": [1, 20]})
        assert render(frame, "text").splitlines() == ["a      n", "文字   1", "x[2J  20"]

    @settings(max_examples=50)
    @given(st.text(max_size=30), st.text(max_size=30))
    def test_any_text_keeps_the_shape_of_every_table(self, cell, note):
        frame = pd.DataFrame({"m": [cell, "y"], "f1": [0.5, 0.25], "notes": [(note,), ()]})
        rows = list(csv.reader(io.StringIO(render(frame, "csv"))))
        assert [len(r) for r in rows] == [3, 3, 3]
        assert not rows[1][0].startswith(("=", "+", "-", "@", "\t", "\r"))
        assert json.loads(render(frame, "json"))[0]["m"] == cell
        markdown = render(frame, "markdown").split("\n")
        assert [len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in markdown[:4]] == [
            4,
            4,
            4,
            4,
        ]
        assert not re.search(r"<", render(frame, "markdown"))
        (row, _) = render(frame, "latex").split("\\midrule\n")[1].split(" \\\\\n")[:2]
        assert len(re.findall(r"(?<!\\)&", row)) == 2
        assert len(render(frame, "text").split("\n")) == 6


def test_many_marks_of_a_row_are_ranges():
    """A row of 40 footnotes is no wider than one of three."""
    notes = [tuple(f"note {i}" for i in range(6)), ("note 0", "note 5"), ()]
    table = pd.DataFrame({"method": ["a", "b", "c"], "notes": notes})
    lines = render(table, "text").splitlines()
    assert lines[1].endswith("  [1]-[6]")
    assert lines[2].endswith("  [1], [6]")
    assert lines[-1] == "[6] note 5"


def test_text_for_a_narrow_terminal_folds_and_other_formats_do_not():
    frame = table(mean=[0.5], ratio=[2.0], notes=[("a sentence of its own",)])
    assert render(frame, "text", 18) == (
        "method  n  mean\nx       3  50.0\n\nmethod  ratio\nx       2.00x\n\na sentence of its\n   "
        " own\n"
    )
    assert (
        render(frame, "text", 3).count("method") == 3
    )  # a column that is too wide has a block of its own
    assert render(frame, "markdown", 18) == render(frame, "markdown")


def _papers(**columns):
    return render(pd.DataFrame({"method": ["a", "b", "c", "oracle"], **columns}), "latex")


def test_a_table_for_a_paper_marks_the_best_and_the_second_of_each_score():
    out = _papers(
        **{
            "longbench.qa_f1_score": [0.5, 0.7, 0.50001, 0.9],
            "longbench.qa_f1_score.low": [None] * 4,
        },
        **{"x.low": [0.1] * 4, "x": [0.2, None, 0.1, 0.3]},
        **{"tflops.search": [1.0, 2.0, 3.0, 4.0], "upper_bound": [False, False, False, True]},
    )
    rows = out.partition("\\midrule\n")[2].splitlines()
    assert r"Method & longbench.qa\_f1\_score & X & TFLOPs search" in out
    assert r"\caption{Best values are bold, second ones underlined.}" in out
    assert r"\footnotesize\raggedright oracle: an upper bound, never marked as best\par" in out
    first = [row.split(" & ")[1] for row in rows[:4]]
    assert first == [r"\underline{50.0}", r"\textbf{70.0}", r"\underline{50.0}", "90.0"]
    assert [row.split(" & ")[2] for row in rows[:4]] == [
        r"\textbf{20.0}",
        "--",
        r"\underline{10.0}",
        "30.0",
    ]
    assert [row.split(" & ")[3] for row in rows[:2]] == [r"1.00 \\", r"2.00 \\"]


def test_differences_have_no_best():
    assert r"\textbf" not in _papers(difference=[0.1, 0.2, 0.3, 0.4], mean=[0.1, 0.2, 0.3, 0.4])


def test_scores_and_names_of_data_sets_stay_as_they_are_in_heads():
    scores = ["longbench.qa_f1_score", "musique.answer_em"]
    costs = ["tflops.search", "money.run", "evidence_recall"]
    assert latex.short_headings(["method", *scores, *costs, "law_qa"], ["law_qa"]) == [
        "Method",
        *scores,
        "TFLOPs search",
        "Money run",
        "Evidence recall",
        "law_qa",
    ]


def test_notes_of_every_row_are_below_a_table_for_a_paper_and_name_no_command():
    note = "ratio: cost against full-context (or --reference), whole; the model is small; harness train pecan mends it"
    out = _papers(x=[0.1] * 4, notes=[(note,)] * 4)
    assert r"\caption{}" in out
    below = out.partition(r"\end{tabular}")[2]
    assert r"\raggedright ratio: cost against full-context, whole; the model is small\par" in below
    sentences = (
        "ratio: cost against full-context (or --reference), whole; harness train pecan mends it"
    )
    assert out.splitlines()[1] == f"% {sentences}"


def test_a_table_for_a_paper_has_counts_of_failures_and_notes_only_where_asked():
    frame = pd.DataFrame(
        {"method": ["a", "b"], "failed": [1, 0], "texts_cut": [2, 0], "notes": [("odd",), ()]}
    )
    assert "Method & Failed & Texts cut & Notes" in render(frame, "latex")
    out = render_sections([Section("", frame, named_columns=())], "latex")
    assert r"Method \\" in out
    assert "% odd\n" in out


def test_a_dagger_stands_at_the_value_where_p_is_small():
    columns = {"musique": [0.5, 0.25, 0.4, 0.9], "musique.p": [0.01, 0.2, None, None]}
    columns["musique.low"] = [None] * 4
    lines = render(pd.DataFrame({"method": list("abcd"), **columns})).splitlines()[1:]
    assert [line.split()[1] for line in lines] == ["50.0†", "25.0", "40.0", "90.0"]
    assert r"& \underline{50.0$^{\dagger}$} \\" in _papers(**columns)


def test_a_warning_about_every_run_stands_once_and_in_no_caption(tmp_path, command):
    warning = (
        "the adapter 'model.adapter' of 'tiny' has seen the prompts of some methods more often"
    )
    for dataset in ("musique", "qasper"):
        rows = [record(n, 1.0) for n in range(6)]
        write_run(tmp_path, rows, dataset=dataset, manifest={"warnings": [warning]})
    for form in ("text", "md"):
        _, out, _ = command("report", str(tmp_path), "--format", form)
        assert " ".join(out.split()).count(warning) == 1, form
    _, out, _ = command("report", str(tmp_path), "--format", "latex")
    captions = [line for line in out.splitlines() if r"\caption" in line]
    assert len(captions) == 2
    assert out.count(warning) == 2, "each table in LaTeX has its own notes"
    assert not any(warning in caption for caption in captions)
