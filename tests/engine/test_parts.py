"""Views, serialised values, progress and manifest, each on its own."""

import errno
import io
import re
import subprocess

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.api.notebook import Notebook
from harness.cost.flops import DEFAULT_CONVENTION
from harness.cost.meter import Meter
from harness.engine import manifest
from harness.engine.document_view import View
from harness.engine.made_documents import evidence_view, joined_view
from harness.engine.progress import CountedQuestion
from harness.engine.progress_line import ProgressLine
from harness.engine.tools import EngineTools, Models
from harness.stats.rng import derived_seed
from harness.storage.manifest_file import GitState, RunManifest
from harness.storage.serialize import dump, json_values, load
from harness.types import GAP, Answer, Document, Passage, Shown, Step, Support
from tests.engine.fakes import SCORER, make_plan

pytestmark = pytest.mark.usefixtures("fake_model")

TEXT = "0123456789" * 4


@st.composite
def cases(draw):
    """Documents of distinct characters, so that text found in a view has one origin only."""
    documents, at = [], 0x4E00
    for n in range(draw(st.integers(1, 3))):
        size = draw(st.integers(1, 30))
        text = "".join(chr(at + i) for i in range(size))
        at += size
        cut = draw(st.integers(0, size))
        documents.append(
            Document(f"d{n}", text, f"t{n}", (Passage("a", 0, cut), Passage("b", cut, size)))
        )
    spans = st.tuples(st.integers(0, 29), st.integers(1, 12))
    marks = [
        (d, a, n)
        for d in documents
        for a, n in draw(st.lists(spans, max_size=3))
        if a < len(d.text)
    ]
    return documents, [Support(d.id, a, min(a + n, len(d.text))) for d, a, n in marks]


@given(case=cases(), joined=st.booleans(), evidence=st.booleans(), data=st.data())
def test_what_is_shown_of_a_view_maps_back_to_the_same_text(case, joined, evidence, data):
    documents, supports = case
    view = View.unchanged(documents)
    if evidence:
        view = evidence_view(documents, supports)
    view = joined_view(view) if joined else view
    original = {d.id: d.text for d in documents}
    marked = {(s.document_id, i) for s in supports for i in range(s.start, s.end)}
    for d in view.documents:
        start = data.draw(st.integers(0, len(d.text)))
        end = data.draw(st.integers(start, len(d.text)))
        shown = Shown("span", d.id, start, end)
        generated = Shown("generated", text="sum", sources=((d.id, start, end),))
        back = view.with_original_spans(Answer("", shown=(shown, generated)))
        spans = [s for s in back.shown if s.kind == "span"]
        want = d.text[start:end].replace("\n", "")
        assert "".join(original[s.document_id][s.start : s.end] for s in spans) == want
        assert back.shown[-1].sources == tuple((s.document_id, s.start, s.end) for s in spans)
        if evidence:
            assert {(s.document_id, i) for s in spans for i in range(s.start, s.end)} <= marked
        for p in d.passages:
            assert 0 <= p.start <= p.end <= len(d.text)
    if evidence:
        assert sum(len(d.text.replace("\n", "")) for d in view.documents) == len(marked)


def test_a_joined_document_keeps_titles_and_passages():
    a, b = Document("a", "xy z", "A", (Passage("p", 0, 2),)), Document("b", "uvw", "B")
    one = joined_view(View.unchanged([a, b])).documents[0]
    assert (one.id, one.text, one.title) == ("a+b", f"xy z{GAP}uvw", "")
    assert [(p.title, one.text[p.start : p.end]) for p in one.passages] == [
        ("p", "xy"),
        ("B", "uvw"),
    ]
    many = joined_view(
        View.unchanged([Document(f"document {n}", "x") for n in range(50)])
    ).documents[0]
    assert len(many.id) < 60
    assert (
        many.id
        != joined_view(View.unchanged([Document(f"document {n}", "x") for n in range(51)]))
        .documents[0]
        .id
    )


def test_a_step_over_two_pieces_names_both():
    view = evidence_view([Document("a", TEXT)], [Support("a", 0, 4), Support("a", 20, 24)])
    across, inside = Shown("span", "a", 2, 8), Shown("span", "a", 6, 10)
    steps = Step("read", shown=across), Step("read", shown=inside), Step("stop")
    first, second, third = view.with_original_spans(Answer("", steps=steps)).steps
    assert first.shown.sources == (("a", 2, 4), ("a", 20, 22))
    assert (second.shown, third.shown) == (Shown("span", "a", 20, 24), None)


names = st.text(max_size=3).filter(lambda k: not k.startswith("__"))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=10,
)
ARRAYS = [
    np.arange(6.0).reshape(2, 3),
    np.zeros((0, 4), np.float16),
    np.array(["a", "ä"]),
    np.array(3),
]


@given(value=values, array=st.sampled_from(ARRAYS))
def test_what_is_serialised_comes_back_equal(value, array):
    packed = dump({"value": value, "arrays": [array, {"same": array}]})
    assert packed == dump({"value": value, "arrays": [array, {"same": array}]}), (
        "equal values, equal bytes"
    )
    got = load(*packed)
    assert repr(got["value"]) == repr(value)  # repr: NaN is equal to itself
    for back in (got["arrays"][0], got["arrays"][1]["same"]):
        assert back.dtype == array.dtype
        np.testing.assert_array_equal(back, array)
    if got["arrays"][0].size and got["arrays"][0].dtype.kind == "f":
        got["arrays"][0][...] = 9
        assert load(*packed)["arrays"][0].max() != 9, "every load is a copy"


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": [1, {2}]}, r"index\.a\[1\] is a set"),
        ({"a": {1: "x"}}, r"index\.a has the key 1"),
        ({"a": b"x"}, r"index\.a is a bytes"),
        ({"a": np.array([object()])}, r"index\.a is an array of Python objects"),
        ({"__array__": "0"}, r"reserved"),
        ({"a": lambda: 0}, r"index\.a is a function"),
    ],
)
def test_what_cannot_be_serialised_is_refused_with_its_place(value, place):
    with pytest.raises(TypeError, match=place):
        dump(value)


def test_plain_turns_numpy_into_json_and_names_what_is_lost():
    lost = []
    value = {"a": (np.float32(0.5), np.int64(2)), "b": [float("inf")], "c": np.bool_(True)}
    assert json_values(value, lost) == {"a": [0.5, 2], "b": [None], "c": True}
    assert lost == ["b[0]"]


def question(score=0.5, failed=False, **more):
    usage = {
        "answer": {"tokens_in": 900, "tokens_out": 100, "flops": {DEFAULT_CONVENTION: 2e12}, **more}
    }
    return CountedQuestion("q", failed, {SCORER: score}, usage)


def begun(total, stream=None, name=""):
    """The progress of a run over `total` questions."""
    progress = ProgressLine(stream or io.StringIO(), name)
    progress.start(total, SCORER)
    return progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_line_says_what_is_done():
    progress = begun(4)
    progress.count_stored(question(1.0))
    progress.count_recorded(question(0.0, failed=True))
    progress.show_step(1, 3, "indexing")
    assert progress.line().startswith(f"2/4 · 1 failed · 2k tokens · 4 TFLOPs · {SCORER} 50.0 · ")
    assert progress.line().endswith(" s left · indexing 1/3")


def test_the_mean_score_is_over_the_questions_that_have_one():
    progress = begun(4)
    progress.count_stored(CountedQuestion("without a gold answer", False, {}, {}))
    assert SCORER not in progress.line()
    progress.count_stored(question(1.0))
    progress.count_stored(question(0.0))
    assert progress.line().endswith(f" · {SCORER} 50.0")


def test_flops_that_were_not_counted_are_no_zero():
    progress = begun(3)
    progress.count_stored(question())
    assert "· 2 TFLOPs ·" in progress.line()
    progress.count_recorded(question(uncounted=1, flops={DEFAULT_CONVENTION: 0.0}))
    assert f"· 2k tokens · {SCORER} 50.0" in progress.line()
    progress.count_recorded(question())
    assert "TFLOPs" not in progress.line(), "a part of the sum is missing for good"


@pytest.mark.parametrize(("total", "most"), [(200, 11), (5, 5), (1, 1)])
def test_a_log_gets_a_line_about_every_tenth(total, most):
    progress = begun(total, stream := io.StringIO())
    for _ in range(total):
        progress.count_recorded(question())
    progress.stop()
    lines = stream.getvalue().splitlines()
    assert 1 <= len(lines) <= most
    assert lines[-1].startswith(f"{total}/{total} ")
    assert "\r" not in stream.getvalue()


def test_a_log_gets_a_line_every_minute_of_a_long_index(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("harness.engine.progress_line.time.monotonic", lambda: clock[0])
    progress = begun(2, stream := io.StringIO())
    for second in range(0, 200, 10):
        clock[0] = second
        progress.show_step(second, 200, "chunks")
    ends = [line.rpartition(" · ")[2] for line in stream.getvalue().splitlines()]
    assert ends == ["chunks 60/200", "chunks 120/200", "chunks 180/200"]


def test_a_notebook_gets_a_bar_with_the_same_line(capsys):
    progress = Notebook()
    progress.start(2, SCORER)
    progress.count_recorded(question(1.0))
    progress.count_recorded(question(1.0))
    progress.stop()
    shown = capsys.readouterr().err
    assert shown.rpartition("\r")[2].startswith("2/2 ")
    assert progress.line() in shown


def test_a_terminal_gets_one_line_rewritten_and_notes_above_it():
    progress = begun(2, stream := Terminal())
    progress.count_recorded(question())
    progress.note("repaired")
    progress.count_recorded(question())
    progress.stop()
    note, last, *rest = (part.rpartition("\r\x1b[K")[2] for part in stream.getvalue().split("\n"))
    assert (note, last[:4], rest) == ("repaired", "2/2 ", [""])


def test_a_score_is_left_to_the_result_and_nothing_repeats_a_row_that_was_stored():
    progress = begun(1, stream := Terminal(), "bm25 on musique")
    progress.count_stored(question(1.0))
    progress.note("1 of 1 answers were stored on 2026-01-02")
    progress.stop()
    shown = stream.getvalue().replace("\r\x1b[K", "")
    assert shown == "bm25 on musique: 1 of 1 answers were stored on 2026-01-02\n"
    progress.add_to_total(1)
    progress.count_recorded(question(1.0))
    progress.stop()
    last = stream.getvalue().split("\x1b[K")[-1].rstrip()
    assert re.fullmatch(r"bm25 on musique 2/2 · 2k tokens · 4 TFLOPs · \S+ m?s", last)


class Closing(Terminal):
    """A terminal whose window is closed once "read" stands there; `tried` counts the writes that
    failed."""

    tried = 0

    def write(self, text):
        if "read" in self.getvalue():
            self.tried += 1
            raise OSError(errno.EIO, "Input/output error")
        return super().write(text)


def test_a_closed_terminal_is_tried_once_and_the_count_goes_on():
    progress = begun(2, stream := Closing())
    progress.note("read")
    progress.count_recorded(question(1.0))
    progress.note("nobody reads this")
    progress.count_recorded(question(0.0, failed=True))
    progress.stop()
    assert stream.tried == 1
    assert "read" in stream.getvalue()
    assert progress.line().startswith("2/2 · 1 failed · 2k tokens · 4 TFLOPs · ")


def test_a_later_start_says_what_had_changed():
    described = manifest.describe(make_plan())
    first = manifest.with_end(manifest.with_start(RunManifest(), described, ["a"]), "interrupted")
    assert first.finished is None
    second = manifest.with_start(first, described.with_values(python="9.9"), ["b"])
    assert (second.command, second.python) == (["a"], described.python)
    assert [s.changed for s in second.starts] == [None, RunManifest(python="9.9")]
    assert manifest.with_end(second, "finished").finished is not None


def test_git_state_is_that_of_its_own_checkout_only(tmp_path):
    def git(*words):
        call = ["git", "-c", "user.name=n", "-c", "user.email=e", "-C", str(tmp_path), *words]
        subprocess.run(call, check=True, capture_output=True)

    assert manifest.git_state(tmp_path) is None
    git("init", "-q")
    assert manifest.git_state(tmp_path) == GitState(commit=None, dirty=False)
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "file").write_text("x")
    git("add", ".")
    git("commit", "-qm", "one")
    state = manifest.git_state(tmp_path)
    assert (len(state.commit), state.dirty) == (40, False)
    (tmp_path / "file").write_text("y")
    assert manifest.git_state(tmp_path).dirty
    assert manifest.git_state(tmp_path / "site-packages") is None


def test_seeds_depend_on_every_part():
    assert (
        len(
            {
                derived_seed(*parts)
                for parts in ((0, "a", "b"), (0, "ab"), (1, "a", "b"), (0, "b", "a"))
            }
        )
        == 4
    )


def test_an_undeclared_role_is_refused():
    plan = make_plan()
    tools = EngineTools(Models(plan, print), Meter(), plan.task, lambda *args: None)
    with pytest.raises(LookupError, match="role 'builder', but its 'needs' declares only: reader"):
        tools.model("builder")
    with pytest.raises(LookupError, match="cannot be used while answering"):
        tools.keep("x", dict)
    assert tools.map(str, [1, 2]) == ["1", "2"]
