"""Requests that are longer than the window: QRMeM's own, and those of the other rows of its
tables."""

from pathlib import Path

import pytest
import yaml

from harness.config import suites
from harness.config.layers import Choices
from harness.config.resolve import resolve
from harness.errors import QuestionError
from harness.llm.scripted import Rule
from harness.types import Document, Question
from methods.compression import LLMLingua, LongLLMLingua
from methods.memwalker import MemWalker
from tests.methods.conftest import FakeTools, answered
from tests.methods.qrmem_memory import DOUBT, ENTITY, RELATION, asked, build
from tests.methods.table_model import Table

QUESTION = Question("q", "Who met Bob?", ("d",))


def test_lists_that_do_not_fit_the_window_are_cut_and_it_is_said():
    long = "they " + "often " * 40 + "met"
    text = "Here Ann met Bob and Cid."
    rules = [
        Rule(when="Summary the context", reply="s"),
        Rule(when=DOUBT, reply="none"),
        Rule(
            when=RELATION,
            reply=f"* Ann | Bob | {long}\n* Bob | Cid | they met\n* Ann | Cid | {long}",
        ),
        Rule(when=ENTITY, reply="none"),
    ]
    seen = []
    sizes = {"entity_tokens": 20, "relation_tokens": 150, "question_tokens": 150}
    for window in range(200, 640, 10):
        try:
            memory, tools = build(rules, text=text, window=window, **sizes)
        except QuestionError:
            seen.append("refused")
            continue
        (doubt,) = asked(tools, about=DOUBT)
        listed = [f"| {name} | " in doubt for name in ("Bob", "Cid")]
        cut = "the lists of 1 of 1 segments were cut to fit the window" in memory.notes
        missing = f"Ann | Cid | {long}" not in doubt
        assert cut or not missing
        # The first lines stay, names before relations, and the graph itself loses nothing.
        assert listed == sorted(listed, reverse=True)
        assert [name in doubt for name in ("* Ann\n", "* Bob\n", "* Cid\n")].count(
            False
        ) == 0 or not any(listed)
        assert len(memory.edges) == 3
        seen.append("cut" if missing else "whole")
    assert seen == sorted(seen, key=["refused", "cut", "whole"].index)
    assert set(seen) == {"refused", "cut", "whole"}
    assert not cut  # in the widest window


def test_relations_that_grow_too_long_to_be_fused_stand_side_by_side():
    long = "met " * 60
    rules = [
        Rule(when="Summary the context", reply="s"),
        Rule(when=RELATION, reply=f"* Ann | Bob | {long}"),
        Rule(reply="none"),
    ]
    params = {"segment_tokens": 4, "update": False, "open_entities": False, "relation_tokens": 80}
    seen = []
    for window in range(100, 900, 20):
        try:
            memory, tools = build(
                rules, text="Ann met Bob here. Ann met Bob there.", window=window, **params
            )
        except QuestionError:
            seen.append("refused")
            continue
        fused = bool(asked(tools, about="Two parts of a document"))
        assert memory.edges == [(0, 1, "none" if fused else " ".join([long.strip()] * 2))]
        assert memory.notes == (
            [] if fused else ["1 of 1 edges have relations that were never fused"]
        )
        seen.append("asked" if fused else "too long")
    assert seen == sorted(seen, key=["refused", "too long", "asked"].index)
    assert set(seen) == {"refused", "too long", "asked"}


@pytest.mark.parametrize("preset", ["memwalker-4k", "llmlingua-4k"])
def test_rows_of_qrmems_tables_have_its_window(preset):
    suite = suites.read_suite("pocket-qrmem-table1")
    family = preset.removesuffix("-4k")
    assert preset in suite.methods
    assert family not in suite.methods
    mapping = yaml.safe_load(
        (Path(__file__).parents[2] / "reports/paper/mapping.yaml").read_text()
    )["entries"]
    rows = [
        row for row in mapping if row["source"] == "003_QRMeM" and row["preset"].startswith(family)
    ]
    assert rows
    assert {row["preset"] for row in rows} == {preset}
    made, plain = (
        resolve(Choices(method=name, dataset="pocket/quality")).config.method
        for name in (preset, family)
    )
    assert made.params == {**plain.params, "window": 4096}


@pytest.mark.parametrize("fallback", [False, True])
def test_memwalkers_requests_stay_within_its_window(fallback):
    text = " ".join(f"Ann met Bob {n} times." for n in range(40))
    rules = [
        Rule(when=verb, reply="Ann met Bob and then " * 5) for verb in ("fluent summary", "Shorten")
    ]
    rules += [Rule(when="Which summary", reply="Action: 0"), Rule(reply="Action: -1")]
    sizes = {
        "segment_tokens": 20,
        "children": 3,
        "summary_tokens": 30,
        "reasoning": False,
        "fallback": fallback,
    }

    def longest(**params):
        tools = FakeTools(rules, window=8192)
        method = MemWalker(MemWalker.Config(**sizes, **params))
        answered(method, tools, Document("d", text), QUESTION)
        return max(e.new + e.cached + e.out for e in tools.meter.events)

    assert longest() > 250
    assert longest(window=200) <= 200


@pytest.mark.parametrize("method", [LLMLingua, LongLLMLingua])
def test_a_compressed_text_is_read_in_the_window(method):
    text = " ".join(f"w{n % 10}" for n in range(300))

    def read(**params):
        tools = FakeTools([Rule(reply="x")], compressor=Table(), window=8192)
        made = method(method.Config(rate=1.0, iterative_size=10, chunk_tokens=10, **params))
        answer, _ = answered(made, tools, Document("d", text), QUESTION)
        reader = [e for e in tools.meter.events if e.role == "reader"]
        return answer, max(e.new + e.cached + e.out for e in reader)

    whole, _ = read()
    cut, longest = read(window=150)
    assert sum(s.end - s.start for s in cut.shown) < sum(s.end - s.start for s in whole.shown)
    assert longest <= 150
