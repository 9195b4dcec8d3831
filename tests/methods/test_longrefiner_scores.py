"""Scores and choice on a tree worked by hand.

0 abstract          1 paragraph .6
2 section Early     3 paragraph .2   4 sub-section School   5 paragraph .8   6 paragraph .3
7 section Late      8 paragraph .1
9 chunk .9
"""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.types import Document
from methods.longrefiner.scores import (
    global_scores,
    local_scores,
    normalised,
    selectable_titles,
)
from methods.longrefiner.select import choose_by_code, choose_nodes
from methods.longrefiner.shown import NodePlace, ShownText
from methods.longrefiner.tree import Node, Tree
from tests.methods.conftest import FakeTools

TEXT = "a1 a2. e1 e2. s1 s2. t1 t2. l1 l2. c1 c2."  # two words a leaf, and two tokens
ROWS = [
    ("abstract", "", 0, 6, -1), ("paragraph", "", 0, 6, 0),
    ("section", "Early", 7, 27, -1), ("paragraph", "", 7, 13, 2), ("sub-section", "School", 14, 27, 2),
    ("paragraph", "", 14, 20, 4), ("paragraph", "", 21, 27, 4),
    ("section", "Late", 28, 34, -1), ("paragraph", "", 28, 34, 7), ("chunk", "", 35, 41, -1),
]  # fmt: skip
TREE = Tree([Node(*row) for row in ROWS])
LEAVES = [0.6, 0.2, 0.8, 0.3, 0.1, 0.9]
MODEL = FakeTools().model()


def showing(titles=False, documents=None, trees=None, part_titles="none"):
    return ShownText(
        documents or [Document("d", TEXT, "Mira Tal")], trees or [TREE], MODEL, titles, part_titles
    )


def test_local_scores_are_means_of_children():
    #                                          abs  p   Early         p   School p   p   Late p   chunk
    assert local_scores(TREE, LEAVES) == pytest.approx(
        [0.6, 0.6, 0.375, 0.2, 0.55, 0.8, 0.3, 0.1, 0.1, 0.9]
    )
    # Early = mean(.2, mean(.8, .3)) either way: it has one paragraph of its own. With a second of
    # .5 it has not.
    more = Tree(
        [*TREE.nodes[:4], Node("paragraph", "", 13, 14, 2), *(shifted(n) for n in TREE.nodes[4:])]
    )
    leaves = [0.6, 0.2, 0.5, 0.8, 0.3, 0.1, 0.9]
    assert local_scores(more, leaves)[2] == pytest.approx((0.2 + 0.5 + 0.55) / 3)
    # The released code: a section's own paragraphs count as one sub-section.
    assert local_scores(more, leaves, "code")[2] == pytest.approx(((0.2 + 0.5) / 2 + 0.55) / 2)


def shifted(node):
    return Node(node.kind, node.title, node.start, node.end, node.parent + (node.parent >= 4))


GLOBAL = [
    # selected, rule, GS of each node
    ({"early"}, "paper", [0, 0, 1, 0.5, 0.5, 0.25, 0.25, 0, 0, 0]),
    ({"school"}, "paper", [0, 0, 0, 0, 1, 0.5, 0.5, 0, 0, 0]),
    ({"early", "school"}, "paper", [0, 0, 1, 0.5, 1, 0.5, 0.5, 0, 0, 0]),
    ({"abstract", "late"}, "paper", [1, 1, 0, 0, 0, 0, 0, 1, 1, 0]),
    ({"", "nothing"}, "paper", [0] * 10),
    # The released code: a section without sub-sections gives its paragraph all.
    ({"late"}, "code", [0, 0, 0, 0, 0, 0, 0, 1, 1, 0]),
]


@pytest.mark.parametrize(("selected", "rule", "expected"), GLOBAL)
def test_global_scores_are_handed_down(selected, rule, expected):
    assert global_scores(TREE, selected, rule) == pytest.approx(expected)


def test_a_repeated_title_selects_every_part_of_that_name():
    tree = Tree(
        [
            Node(n.kind, "Early" if n.title == "Late" else n.title, n.start, n.end, n.parent)
            for n in TREE.nodes
        ]
    )
    found = global_scores(tree, {"early"})
    assert (found[2], found[7]) == (1, 1)
    assert selectable_titles(TREE.nodes[0]) == {"abstract"}


def test_one_scale_for_all_documents():
    one, two = normalised([np.array([1.0, 3.0]), np.array([5.0, 2.0])])
    assert (one.tolist(), two.tolist()) == ([0, 0.5], [1, 0.25])
    assert [x.tolist() for x in normalised([np.array([2.0, 2.0])])] == [[0, 0]]
    assert normalised([]) == []


# Local scores alone: chunk .9, leaf 5 (.8), abstract (.6), School (.55), Early (.375) ... Tokens:
# two a leaf; pieces that do not touch have a separator of one token between.
PAPER = [
    # budget, nodes taken, texts, reason
    (1, [], [], "budget"),
    (2, [9], ["c1 c2."], "budget"),
    (4, [9], ["c1 c2."], "budget"),
    (5, [9, 5], ["s1 s2.", "c1 c2."], "budget"),
    (8, [9, 5, 0], ["a1 a2.", "s1 s2.", "c1 c2."], "budget"),
    (10, [9, 5, 0, 4], ["a1 a2.", "s1 s2. t1 t2.", "c1 c2."], "budget"),
    # Early brings its own paragraph, which joins all of them: one separator less.
    (11, [9, 5, 0, 4, 2], ["a1 a2. e1 e2. s1 s2. t1 t2.", "c1 c2."], "budget"),
    (12, [9, 5, 0, 4, 2, 7], ["a1 a2. e1 e2. s1 s2. t1 t2. l1 l2. c1 c2."], "exhausted"),
]


@pytest.mark.parametrize(("budget", "nodes", "texts", "reason"), PAPER)
def test_the_papers_choice_at_every_budget(budget, nodes, texts, reason):
    show = showing()
    found = choose_nodes(show, [local_scores(TREE, LEAVES)], budget)
    assert ([node for _, node in found.nodes], found.reason) == (nodes, reason)
    assert [show.text(piece) for piece in found.pieces] == texts
    assert show.count_tokens(found.pieces) <= budget


def test_a_part_that_does_not_fit_makes_way_for_its_paragraphs():
    scores = [np.array([0, 0, 9.0, 1, 8, 2, 3, 0, 0, 0])]
    assert [n for _, n in choose_nodes(showing(), scores, 2).nodes] == [6]
    # The best paragraph does not fit: "stop" ends there, "skip" goes on to one that does.
    text = "one two three four five. six."
    tree = Tree([Node("chunk", "", 0, 24), Node("chunk", "", 25, 29)])
    show = showing(documents=[Document("d", text)], trees=[tree])
    assert choose_nodes(show, [np.array([2.0, 1.0])], 3).nodes == ()
    assert choose_nodes(show, [np.array([2.0, 1.0])], 3, skips_long_paragraphs=True).nodes == (
        (0, 1),
    )


def test_titles_count_and_stand_once_a_document():
    documents = [Document("x", TEXT, "Mira Tal"), Document("y", "Toren\nq1 q2. q3 q4.", "Toren")]
    other = Tree([Node("chunk", "", 0, 12), Node("chunk", "", 13, 19)])
    show = showing(True, documents, [TREE, other])
    scores = [local_scores(TREE, LEAVES), np.array([2.0, 0.0])]
    # Toren's first leaf begins with its title (3 tokens); "Mira Tal" is two more above the chunk;
    # one separator.
    found = choose_nodes(show, scores, 8)
    assert [show.text(piece) for piece in found.pieces] == ["Mira Tal\nc1 c2.", "Toren\nq1 q2."]
    assert show.count_tokens(found.pieces) == 8
    assert [show.text(piece) for piece in choose_nodes(show, scores, 7).pieces] == ["Toren\nq1 q2."]
    assert [(s.document_id, s.start, s.end) for s in show.shown(found.pieces)] == [
        ("x", 35, 41),
        ("y", 0, 12),
    ]


SCORES = local_scores(TREE, LEAVES)
CODE = [
    # scores, budget, nodes: by score 9 5 0 1 4 2 6 3 7 8 with 2 2 2 2 4 6 2 2 2 2 tokens, the last
    # one dropped
    (SCORES, 2, [9]),  # 4 are pre-selected: 9 and 5; 5 overdraws and is dropped
    (SCORES, 4, [9, 5]),  # 8: 9 5 0 1; 9 and 5 fill the budget to 0, 0 overdraws and ends it
    (
        SCORES,
        6,
        [9, 5],
    ),  # 12: 9 5 0 1 4; School does not fit in the place of paragraph 5 and is passed over, so 0 is the last
    (SCORES, 8, [9, 0]),  # 16: 9 5 0 1 4; School replaces paragraph 5 at the end, and is dropped
    # Leaves 1 3 5 6 8 9 come first, then parts 0 4 2 7 take the places of theirs: School (4) is in
    # Early (2) by then.
    (np.ones(10), 100, [9, 0, 2]),
]


@pytest.mark.parametrize(("scores", "budget", "nodes"), CODE)
def test_the_released_choice(scores, budget, nodes):
    found = choose_by_code(showing(), [scores], budget)
    assert [node for _, node in found.nodes] == nodes


def test_the_released_choice_drops_the_last_where_all_fits_and_keeps_the_order_of_scores():
    scores = [np.array([0, 0, 0, 0, 0, 0, 0, 2.0, 1.0, 3.0])]
    tree = Tree([Node("chunk", "", 0, 6), Node("chunk", "", 7, 13), Node("chunk", "", 14, 20)])
    show = showing(trees=[tree])
    found = choose_by_code(show, [np.array([1.0, 3.0, 2.0])], 100)
    assert ([node for _, node in found.nodes], found.reason) == ([1, 2], "exhausted")
    assert [show.text(p) for p in found.pieces] == ["e1 e2.", "s1 s2."]
    assert choose_by_code(showing(), scores, 1).nodes == ()


HEADED = [
    # part_titles, leaves, texts; Early is read whole with leaves 3 5 6, its sub-section School with
    # 5 6
    ("paper", (3, 5, 6), ["Early\ne1 e2.\nSchool\ns1 s2. t1 t2."]),
    ("code", (3, 5, 6), ["e1 e2.\nSubsection 1: School\ns1 s2. t1 t2."]),
    ("none", (3, 5, 6), ["e1 e2. s1 s2. t1 t2."]),
    ("paper", (5, 6), ["School\ns1 s2. t1 t2."]),
    ("code", (5, 6), ["s1 s2. t1 t2."]),
    ("paper", (3, 5), ["e1 e2. s1 s2."]),
    ("paper", (1, 8, 9), ["a1 a2.", "Late\nl1 l2. c1 c2."]),
    ("code", (1, 8, 9), ["a1 a2.", "l1 l2. c1 c2."]),
]


@pytest.mark.parametrize(("rule", "leaves", "texts"), HEADED)
def test_a_part_that_is_read_whole_stands_under_its_title(rule, leaves, texts):
    show = showing(part_titles=rule)
    found = show.join_leaves([NodePlace(0, leaf) for leaf in leaves])
    assert [show.text(piece) for piece in found] == texts
    assert show.count_tokens(found) == sum(len(text.split()) for text in texts) + len(texts) - 1


@pytest.mark.parametrize(
    ("rule", "node", "text"),
    [
        ("paper", 4, "Mira Tal\nSchool\ns1 s2. t1 t2."),
        ("code", 4, "s1 s2. t1 t2."),
        ("code", 2, "Mira Tal\ne1 e2.\nSubsection 1: School\ns1 s2. t1 t2."),
    ],
)
def test_a_node_on_its_own(rule, node, text):
    show = showing(True, part_titles=rule)
    assert show.text(show.node_piece(0, node)) == text


def test_titles_of_parts_count_in_the_budget():
    scores = [local_scores(TREE, LEAVES)]
    # "a1 a2." + "School s1 s2. t1 t2." + "c1 c2." with two separators: the title is the eleventh
    # token.
    assert [n for _, n in choose_nodes(showing(part_titles="paper"), scores, 10).nodes] == [9, 5, 0]
    found = choose_nodes(showing(part_titles="paper"), scores, 11)
    assert [n for _, n in found.nodes] == [9, 5, 0, 4]
    assert [n for _, n in choose_nodes(showing(part_titles="none"), scores, 10).nodes] == [
        9,
        5,
        0,
        4,
    ]


def test_a_text_that_begins_with_its_title_gets_no_second_one():
    text = "Early\nq1 q2. q3 q4."
    tree = Tree([Node("section", "Early", 0, len(text)), Node("paragraph", "", 0, len(text), 0)])
    show = showing(documents=[Document("d", text)], trees=[tree], part_titles="paper")
    assert show.text(show.node_piece(0, 0)) == text


numbers = st.floats(-5, 5, allow_nan=False)


@settings(max_examples=50, deadline=None)
@given(st.lists(numbers, min_size=6, max_size=6), st.sets(st.sampled_from(["abstract", "early", "school", "late"])),
       st.floats(0, 1), st.integers(1, 14))  # fmt: skip
def test_whatever_the_scores_the_budget_holds_and_nothing_is_shown_twice(
    leaves, selected, weight, budget
):
    show = showing()
    total = local_scores(TREE, leaves) + weight * global_scores(TREE, selected)
    found = choose_nodes(show, [total], budget)
    assert show.count_tokens(found.pieces) <= budget
    spans = [(piece.start, piece.end) for piece in found.pieces]
    assert spans == sorted(spans)
    assert all(b <= c for (_, b), (c, _) in pairwise(spans))
    whole = choose_nodes(show, [total], 12)
    assert [(p.start, p.end) for p in whole.pieces] == [(0, 41)]
