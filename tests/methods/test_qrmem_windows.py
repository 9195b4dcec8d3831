"""QRMeM's requests that are longer than the window: what is left out of them, and what is said of it."""

from __future__ import annotations

from harness.errors import QuestionError
from harness.llm.scripted import Rule
from tests.methods.test_qrmem import DOUBT, ENTITY, RELATION, asked, build


def test_lists_that_do_not_fit_the_window_are_cut_and_it_is_said():
    long = "they " + "often " * 40 + "met"
    text = "Here Ann met Bob and Cid."
    rules = [
        Rule(when="Summarise", reply="s"),
        Rule(when=DOUBT, reply="none"),
        Rule(when=RELATION, reply=f"* Ann | Bob | {long}\n* Bob | Cid | they met\n* Ann | Cid | {long}"),
        Rule(when=ENTITY, reply="none"),
    ]
    seen = []
    for window in range(200, 640, 10):
        try:
            memory, tools = build(
                rules, text=text, window=window, entity_tokens=20, relation_tokens=150, question_tokens=150
            )
        except QuestionError:
            seen.append("refused")
            continue
        (doubt,) = asked(tools, about=DOUBT)
        told = [f"| {name} | " in doubt for name in ("Bob", "Cid")]
        cut = "the lists of 1 of 1 segments were cut to fit the window" in memory.notes
        missing = f"Ann | Cid | {long}" not in doubt
        assert cut or not missing
        # The first lines stay, names before relations, and the graph itself loses nothing.
        assert told == sorted(told, reverse=True)
        assert [name in doubt for name in ("* Ann\n", "* Bob\n", "* Cid\n")].count(False) == 0 or not any(told)
        assert len(memory.edges) == 3
        seen.append("cut" if missing else "whole")
    assert seen == sorted(seen, key=["refused", "cut", "whole"].index)
    assert set(seen) == {"refused", "cut", "whole"}
    assert not cut  # in the widest window


def test_relations_that_grow_too_long_to_be_fused_stand_side_by_side():
    long = "met " * 60
    rules = [Rule(when="Summarise", reply="s"), Rule(when=RELATION, reply=f"* Ann | Bob | {long}"), Rule(reply="none")]
    params = {"segment_tokens": 4, "update": False, "open_entities": False, "relation_tokens": 80}
    seen = []
    for window in range(100, 900, 20):
        try:
            memory, tools = build(rules, text="Ann met Bob here. Ann met Bob there.", window=window, **params)
        except QuestionError:
            seen.append("refused")
            continue
        fused = bool(asked(tools, about="Two parts of a document"))
        assert memory.edges == [(0, 1, "none" if fused else " ".join([long.strip()] * 2))]
        assert memory.notes == ([] if fused else ["1 of 1 edges have relations that were never fused"])
        seen.append("asked" if fused else "too long")
    assert seen == sorted(seen, key=["refused", "too long", "asked"].index)
    assert set(seen) == {"refused", "too long", "asked"}
