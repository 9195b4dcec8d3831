"""QRMeM's memory: known answers worked by hand, on a model that replays a table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from harness.llm.scripted import Rule
from harness.types import Question
from methods.qrmem import prompts, replies
from methods.qrmem.build import QuestionPool, rouge_l
from methods.qrmem.memory import (
    SubGraph,
    collect_relations,
    join_names_to_entities,
    name_key,
    stands_in,
)
from tests.methods.qrmem_memory import (
    DOUBT,
    ENTITY,
    FIRST,
    RELATION,
    RULES,
    SECOND,
    TEXT,
    asked,
    build,
)


def test_two_segments_become_one_graph():
    memory, tools = build()
    assert [TEXT[a:b].strip() for a, b in memory.segments] == [FIRST, SECOND]
    # "Toren" is part of one longer name only, so it is one entity with it; "a castle" and "Rome"
    # are not in the text.
    assert memory.names == ["Ann Toren", "Velindra", "winter", "Kelford"]
    assert memory.mentions == [["Ann Toren", "Toren"], ["Velindra"], ["winter"], ["Kelford"]]
    assert memory.places == [[0, 1], [0, 1], [0], [1]]
    assert memory.edges == [
        (
            0,
            1,
            "Ann Toren wrote Velindra, which was printed.",
        ),  # stated the other way round in the second segment
        (1, 2, "Velindra was written in winter."),
        (1, 3, "printed there"),
    ]
    assert memory.edge_text(2) == "Velindra ; printed there ; Kelford"
    assert memory.document_summary == "about a poet"
    assert memory.notes == []
    first, second = asked(tools, about="Two parts of a document")
    assert (
        f"Part 1:\n{FIRST}\n\nRelation in part 1: Ann Toren wrote it.\n\nPart 2:\n{SECOND}\n\n"
        in first
    )
    assert "Relation in part 2: It is a work of Toren." in first
    assert "[reply]* Is it the same work?\n[user]Answer these questions" in second


def test_a_question_like_one_in_the_pool_stays_out():
    memory, _ = build()
    # "When was it all written?" has 4 of 5 words in common with the first (0.889); of the second
    # segment's three the first is no question, and the last is "When was it written?" but for one
    # word of four (0.75).
    assert memory.questions == ["When was it written?", "Who printed it?"]


@given(st.lists(st.sampled_from("abcd"), max_size=7), st.lists(st.sampled_from("abcd"), max_size=7))
def test_rouge_l_is_that_of_the_published_package(first, second):
    scorer = RougeScorer(["rougeL"])
    expected = scorer.score(" ".join(first), " ".join(second))["rougeL"].fmeasure
    assert rouge_l(first, second) == pytest.approx(expected)


def test_the_pool_is_asked_as_a_whole_and_its_bound_is_open():
    pool = QuestionPool(0.6)
    assert pool.add_if_new("A b c d e?")
    assert not pool.add_if_new("A b c x y?"), "0.6 is not below 0.6"
    assert pool.add_if_new("A b x y z?"), "0.4"
    assert not pool.add_if_new("x y z v?"), "like the second, not like the first"
    assert not pool.add_if_new("???")
    assert pool.questions == ["A b c d e?", "A b x y z?"]


def test_without_update_nobody_asks_questions():
    memory, tools = build(update=False)
    assert not asked(tools, about=DOUBT)
    assert not asked(tools, about="Pay attention")
    assert (memory.questions, "winter" in memory.names, len(memory.edges)) == ([], False, 2)
    assert asked(tools, about="Two parts of a document"), "relations are fused all the same"


def test_memories_share_the_summary_and_the_graphs_before_their_update():
    _, tools = build([*RULES, Rule(when="", reply="none")])

    def more(**params):
        """The memory, and the prompts that it took beside those of the memories before it."""
        tools.kept.clear()  # parts of an unfinished index are its own
        before = len(tools.reader.prompts)
        memory, _ = build(tools=tools, **params)
        return memory, {
            prompt.split("[user]")[1].split()[0] for prompt in tools.reader.prompts[before:]
        }

    alone, fresh = build(update=False)
    assert len(asked(fresh, about=ENTITY)) == 2
    plain, heads = more(update=False)
    for name in ("segments", "names", "mentions", "places", "edges", "document_summary", "notes"):
        assert getattr(plain, name) == getattr(alone, name)
    assert heads == {"Two"}, "only what is fused is new"
    # Other entities make other graphs; the summary is that of the document, whatever is asked.
    assert more(open_entities=False)[1] == {"Describe", "Look", "Two"}
    assert more(question=Question("q2", "Who printed Velindra?", ("d",)))[1] == {
        "Find",
        "Describe",
        "Look",
        "Two",
    }
    assert "#" in more(summary_tokens=7)[1]


def test_without_open_entities_the_recogniser_finds_them_alone():
    memory, tools = build(open_entities=False)
    assert not asked(tools, about=ENTITY)
    assert memory.names == ["Ann Toren", "Velindra", "Kelford"]
    assert asked(tools, about=RELATION)


@pytest.mark.parametrize(
    ("segments", "names"),
    [
        ([["the Toren", "Toren's", "TOREN"]], [["the Toren", "Toren's", "TOREN"]]),
        ([["Ranieri"], ["Claudio Ranieri"]], [["Claudio Ranieri", "Ranieri"]]),
        (
            [["Valencia", "Valencia CF", "Jose Valencia"]],
            [["Valencia"], ["Valencia CF"], ["Jose Valencia"]],
        ),
        ([["A. Bo Cid", "Bo Cid", "Bo"]], [["A. Bo Cid", "Bo Cid", "Bo"]]),
        ([["1999", "3 May 1999", "May"]], [["1999"], ["3 May 1999"], ["May"]]),
        ([["--", ""]], []),
        ([["the", "The The"]], [["the", "The The"]]),
    ],
)
def test_disambiguation(segments, names):
    graphs = [SubGraph(list(found)) for found in segments]
    found = join_names_to_entities(graphs, [""] * len(segments))
    assert sorted(map(sorted, found.mentions)) == sorted(map(sorted, names))
    assert found.entity_of_key.keys() == {
        name_key(n) for names_ in segments for n in names_ if name_key(n)
    }


def test_relations_of_one_pair_are_gathered_and_those_of_one_entity_dropped():
    graphs = [
        SubGraph(
            ["Ann Bo", "Cid"],
            [("Ann Bo", "Cid", "x"), ("Ann Bo", "Cid", "x"), ("Cid", "Ann Bo", "y")],
        ),
        SubGraph(["Bo", "Cid", "Ann Bo"], [("Cid", "Bo", "z"), ("Bo", "Ann Bo", "self")]),
    ]
    entities = join_names_to_entities(graphs, ["", ""])
    assert collect_relations(graphs, entities) == {(0, 1): [(0, "x y"), (1, "z")]}


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [("Ann", "Ann.", True), ("Ann", "Anna, Ann's", True), ("Ann", "Anna", False), ("ann", "Ann", False),
     ("", "x", False), ("北京", "在北京的人", True), ("Dr.", "Dr.No", True)],
)  # fmt: skip
def test_occurs(name, text, found):
    assert stands_in(name, text) is found


@pytest.mark.parametrize(
    ("parse", "reply", "found"),
    [
        (replies.parse_names, "* [Toren]\n- 'Kelford',\n3. Mira", ["Toren", "Kelford", "Mira"]),
        (replies.parse_names, "None.", []),
        (replies.parse_names, "I cannot do that", None),
        (replies.parse_triples, "* A | B | a to b | more", [("A", "B", "a to b | more")]),
        (replies.parse_triples, "* A and B", None),
        (replies.parse_triples, "* A | B |\n* none", None),
        (replies.parse_triples, "none", []),
        (replies.parse_questions, "* Who?\n* well", ["Who?"]),
        (replies.parse_questions, "* well", None),
        (replies.parse_sentence, "\n * A wrote B.\nmore", "A wrote B."),
        (replies.parse_sentence, " \n", None),
        (
            replies.parse_verdict,
            "Reasoning: no\ntown.\nAction: -1",
            replies.Verdict("no town.", None),
        ),
        (replies.parse_verdict, "Action: -2\nAnswer: Kelford", replies.Verdict("", "Kelford")),
        (
            replies.parse_verdict,
            "Reasoning: x\nAction: -2",
            None,
        ),  # as MemWalker's, whose tests have the rest
    ],
)
def test_replies(parse, reply, found):
    assert parse(reply) == found


@pytest.mark.parametrize(
    ("text", "names", "message"),
    [
        (
            "Ann Toren and Toren's Torens",
            ["Toren", "Ann Toren"],
            "[Ann Toren] and [Toren]'s Torens",
        ),
        ("Ann Toren and Toren's Torens", [], "Ann Toren and Toren's Torens"),
        ("Ann Toren and Toren's Torens", ["a.*"], "Ann Toren and Toren's Torens"),
        # Chinese does not part its words, so a name stands wherever it is written.
        ("王安在IBM工作，王安石不在。", ["王安", "IBM"], "[王安]在[IBM]工作，[王安]石不在。"),
        ("王安在IBMX工作", ["IBM"], "王安在IBMX工作"),
        ("Ann Ann Toren", ["Ann", "Ann Toren"], "[Ann] [Ann Toren]"),
    ],
)
def test_marked(text, names, message):
    assert prompts.with_names_in_brackets(text, names) == message


def test_replies_that_never_parse():
    rules = [Rule(when="Summary the context", reply="s"), Rule(reply="I would rather not.")]
    memory, tools = build(rules, text=FIRST, retries=4)
    assert len(asked(tools, about=ENTITY)) == 5, "once, and four times more"
    assert memory.names == ["Ann Toren", "Velindra"], "the recogniser's"
    assert memory.edges == []
    assert memory.notes == [
        "first entities of 1 of 1 segments were never understood",
        "first relations of 1 of 1 segments were never understood",
        "questions of 1 of 1 segments were never understood",
    ]


def test_relations_that_are_never_fused_stand_side_by_side():
    rules = [
        r
        for r in RULES
        if r.when not in ("Answer these questions for yourself", "Two parts of a document")
    ]
    memory, _ = build([*rules, Rule(reply=" ")])
    assert memory.edges[0] == (0, 1, "Ann Toren wrote it. It is a work of Toren.")
    assert memory.notes == ["1 of 3 edges have relations that were never fused"]


def test_three_segments_are_fused_one_after_the_other():
    text = "Ann met Bob here. Ann met Bob there. Ann met Bob again."
    rules = [
        Rule(when="Summary the context", reply="s"),
        Rule(when=RELATION, reply="* Ann | Bob | met", once=True),
        Rule(when=RELATION, reply="* Ann | Bob | met there", once=True),
        Rule(when=RELATION, reply="* Ann | Bob | met again", once=True),
        Rule(
            when="Relation in part 1: both\n\nPart 2:\nAnn met Bob again.",
            reply="* Same?",
            once=True,
        ),
        Rule(
            when="Part 2:\nAnn met Bob there.\n\nRelation in part 2: met there\n\nWhat",
            reply="* Same?",
            once=True,
        ),
        Rule(when="Relation in part 1: both", reply="thrice"),
        Rule(when="Answer these", reply="both"),
    ]
    memory, _ = build(rules, text=text, segment_tokens=4, update=False, open_entities=False)
    assert memory.edges == [(0, 1, "thrice")]


def test_what_was_never_understood_is_said_of_a_shared_graph_too():
    rules = [
        Rule(when=ENTITY, reply="?"),
        Rule(when=RELATION, reply="?"),
        Rule(when="", reply="none"),
    ]
    memory, tools = build(rules, retries=0)
    plain, _ = build(update=False, tools=tools, retries=0)
    lost = "first entities of 2 of 2 segments were never understood"
    assert lost in memory.notes
    assert lost in plain.notes


def test_a_text_without_entities_and_an_empty_one():
    rules = [Rule(when="Summary the context", reply="s"), Rule(reply="none")]
    memory, tools = build(rules, text="nothing is named in here")
    assert (memory.names, memory.edges, memory.notes) == ([], [], ["no entity was found"])
    assert not asked(tools, about=RELATION)
    memory, tools = build(rules, text="")
    assert memory.notes == ["the document has no text, so there is nothing to read"]
    assert tools.reader.prompts == []


def test_a_memory_without_a_question():
    with pytest.raises(LookupError, match="built for a question"):
        build(question=None)
