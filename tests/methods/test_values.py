"""Replies as models spell them: lists, objects and labelled lines."""

import pytest

from methods.hipporag import triples_in
from methods.memwalker.replies import parse_choice
from methods.retry import numbers_in, parse_list
from methods.values import values_in

ANN = ("ann", "born in", "orb")
TRIPLES = [
    ('[["Ann", "born in", "Orb"]]', [ANN]),
    ("[['Ann', 'born in', 'Orb'],]", [ANN]),
    ('{"triples": [["Ann", "born in", "Orb"]]}', [ANN]),
    ('[("Ann", "born in", "Orb")]', [ANN]),
    ("- ('Ann', 'born in', 'Orb')\n- ('Bob', 'born in', 1907)", [ANN, ("bob", "born in", "1907")]),
    ('["Ann", "born in", "Orb"]\n["Ann", "is", -2.5]', [ANN, ("ann", "is", "2 5")]),
    ('```json\n[["Ann", "born in", "Orb"],\n]\n``` These are 1 of [3].', [ANN]),
    ('[{"subject": "Ann", "predicate": "born in", "object": "Orb"}]', [ANN]),
    ("[{'object': 'Orb', 'subject': 'Ann', 'relation': 'born in'}]", [ANN]),
    ('[{head: "Ann", relation: "born in", tail: "Orb"}]', [ANN]),
    ("[['Ann's mill', 'is in', 'Orb']]", [("ann s mill", "is in", "orb")]),
    (
        '[["Ann", "called \\"A\\"", "Orb"], ["Ann", "is "A"", "B"]]',
        [("ann", "called  a", "orb"), ("ann", "is  a", "b")],
    ),
    ("I can't list all (see below): [[“Ann”, “born in”, “Orb”]]", [ANN]),
    ('[["Ann", "born in", "Orb"], ["Ann", "born', [ANN]),
    ('[["Ann", "born in", "Orb", "1907"], ["Ann", "born in"], ["Ann", null, "Orb"]]', None),
    ('[["", "x", "y"]]', []),
    ("[]", []),
    ('{"triples": []}', []),
    ("Ann was born in Orb.", None),
    ("[" * 3000, []),
    ("['" * 3000, None),
]


@pytest.mark.parametrize(("reply", "found"), TRIPLES, ids=[row[0][:40] for row in TRIPLES])
def test_triples(reply, found):
    assert triples_in(reply) == found


LINES = [
    *(
        (text, [1, 3])
        for text in (
            "Facts: 1, 3",
            "**Facts:** 1, 3",
            "**Facts**: 1 and 3",
            "facts: 1,3",
            "- Facts: 1, 3",
        )
    ),
    *(
        (text, [1, 3])
        for text in (
            "> FACTS: [1, 3]",
            '{"facts": [1, 3]}',
            "Facts:\n1\n3\n\n2 is not.",
            "Facts:\n- 1\n- 3",
        )
    ),
    *((text, [1, 3]) for text in ("__Facts:__ 1, 3", "**Facts**\n1, 3", "_Facts_: #1 and [3]")),
    *(
        (text, [1, 3])
        for text in ("1, 3", "[1, 3]", "These help.\n\n## Facts: 1, 3\nBecause of 2.")
    ),
    *(
        (text, [])
        for text in ("Facts: none", "**Facts:** None of them.", "facts: []", "Facts:\n(none)")
    ),
    *(
        (text, None)
        for text in ("I do not know.", "Facts 1", "The 3 facts help.", "", "Facts:", "Artefacts: 1")
    ),
]


@pytest.mark.parametrize(("reply", "found"), LINES, ids=[row[0][:40] for row in LINES])
def test_numbers_behind_a_label(reply, found):
    assert numbers_in(reply, "Facts") == found


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("- Ann\n* Orb\n1. Bo", ["Ann", "Orb", "Bo"]),
        ('["Ann", "Orb"]', ["Ann", "Orb"]),
        ("{'names': ['Ann', 'Orb']}", ["Ann", "Orb"]),
        ('"Ann", "Orb"', ["Ann", "Orb"]),
        ("- none", []),
        ("None.", []),
        ("[]", []),
        ("Ann and Orb", None),
        ("Ann (1907)", None),
    ],
)
def test_items_of_a_list(reply, found):
    assert parse_list(reply) == found


@pytest.mark.parametrize(
    "reply",
    ["Action: 1", "**Action:** 1", "- action: 1.", "Action: **1**", "Why not.\n**Action**: 1"],
)
def test_actions(reply):
    assert parse_choice(reply, 2) == 1


def test_outer_values_come_before_those_inside():
    assert values_in("a {'b': [1, 'c', x], d: ()} e") == [
        {"b": [1, "c", None], "d": []},
        [1, "c", None],
        [],
    ]
