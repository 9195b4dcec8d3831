"""QRMeM's navigations: known answers worked by hand, on memories made by hand and a model that
replays a table."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import WindowExceeded
from harness.llm.scripted import Rule
from harness.types import Document, Question, Shown
from methods.qrmem import QRMeM
from methods.qrmem.config import QRMeMConfig
from methods.qrmem.search import choose_first_segments, drop_until_all_fit
from tests.methods.conftest import FakeTools
from tests.methods.qrmem_graph import (
    QUESTION,
    SEGMENTS,
    SPANS,
    TEXT,
    Overlap,
    choose,
    memory,
    no,
    yes,
)


def go(*replies, question=QUESTION, window=8192, text=TEXT, **params):
    encoder = Overlap()
    own = {k: params.pop(k) for k in ("edges", "names", "places") if k in params}
    rules = [Rule(when="Read the text and answer", reply=reply, once=True) for reply in replies]
    rules += params.pop("rules", [])
    rules += [
        Rule(when="Read the text below", reply="read"),
        Rule(when="from what you know", reply="guess"),
    ]
    tools = FakeTools(rules, window=window, similarity=encoder)
    method = QRMeM(QRMeMConfig(**{"reasoning_tokens": 20, **params}))
    index = memory(encoder, **own, segments=SEGMENTS if text else []).to_index()
    found = method.answer(question, [Document("d", text)], [index], tools)
    asked = [p for p in tools.reader.prompts if "Read the text and answer" in p]
    return found, asked, encoder, tools


def moves(answer):
    return [(s.action, s.node) for s in answer.steps]


def spans(*numbers):
    return tuple(Shown("span", "d", *SPANS[k]) for k in numbers)


def test_entities_that_the_question_does_not_name_are_reached():
    reasons = ("It is by Toren, whose birthplace is missing.", "The river is missing.")
    answer, asked, encoder, _ = go(*map(no, reasons), yes("the Une"))
    assert (answer.text, answer.stop_reason) == ("the Une", "answered")
    # Velindra -> Toren brings segments 1 and 3; Toren -> Kelford brings segment 2.
    assert moves(answer) == [
        ("start", None), ("segment", 0), ("ask", None),
        ("expand", 1), ("segment", 1), ("segment", 3), ("ask", None),
        ("expand", 2), ("segment", 2), ("ask", None),
    ]  # fmt: skip
    assert answer.shown == spans(0, 1, 2, 3)
    assert answer.steps[0].note == "entities of the question: Velindra"
    assert answer.steps[3].note == "Velindra ; Toren is its author ; Toren"
    assert answer.steps[7].note == "Toren ; his birthplace ; Kelford"
    assert answer.steps[2].note == "It is by Toren, whose birthplace is missing."
    through = [s.note for s in answer.steps if s.action == "segment"]
    assert through == ["through Velindra", "through Toren", "through Toren", "through Kelford"]
    assert [s.scores["answers"] for s in answer.steps if s.action == "ask"] == [0, 0, 1]
    # The query is the question, the reason, and the growing set of entities.
    assert encoder.queries[1:] == [
        f"{QUESTION.text}\nIt is by Toren, whose birthplace is missing.\nVelindra",
        f"{QUESTION.text}\nThe river is missing.\nVelindra, Toren",
    ]
    shown = "\n\n".join(SEGMENTS)
    assert f"Text:\n\n{shown}\n\nQuestion: {QUESTION.text}\n\nThe text ends here." in asked[2], (
        "in document order"
    )


def test_without_reflection_the_query_is_the_question_alone():
    answer, asked, encoder, _ = go(no("It is by Toren."), no("x"), yes("the Une"), reflection=False)
    assert answer.text == "the Une"
    assert len(asked) == 3
    assert set(encoder.queries) == {QUESTION.text}


def test_the_reason_can_choose_another_edge():
    question = Question("q", "What of Toren?", ("d",))
    reflected, *_ = go(no("Who likes him?"), question=question, max_trials=1)
    plain, *_ = go(no("Who likes him?"), question=question, max_trials=1, reflection=False)
    # "toren" is in all three edges, "likes" and "him" in the last; of equals the first is taken.
    assert [
        [s.node for s in found.steps if s.action == "expand"] for found in (reflected, plain)
    ] == [[4], [0]]


def test_without_navigation_nobody_is_asked_whether_it_answers():
    answer, asked, _, tools = go(navigation="none")
    assert (answer.text, answer.stop_reason, asked) == ("read", "no navigation", [])
    assert answer.shown == spans(0)
    assert len(tools.reader.prompts) == 1


@pytest.mark.parametrize(("trials", "asks"), [(0, 1), (1, 2), (2, 3)])
def test_after_the_last_trial_what_is_there_is_read(trials, asks):
    answer, asked, *_ = go(*[no("?")] * 9, max_trials=trials)
    assert (answer.text, answer.stop_reason, len(asked)) == ("read", "max trials", asks)
    assert sum(s.action == "expand" for s in answer.steps) == trials


@pytest.mark.parametrize(
    ("share", "begins", "asks"),
    [
        ({}, [0], 2),
        ({"start_share": 1}, [0, 1], 1),
    ],  # the default, and the whole room for what the question names
)
def test_a_start_that_takes_the_whole_room_leaves_navigation_nothing(share, begins, asks):
    question = Question(
        "q", "Which river of Toren?", ("d",)
    )  # Toren stands in three segments, and the room holds two
    answer, asked, *_ = go(
        *[no("the river is missing")] * 3, question=question, window=134, max_trials=2, **share
    )
    found = moves(answer)
    assert found[: len(begins) + 1] == [("start", None), *(("segment", k) for k in begins)]
    assert len(asked) == asks
    assert [s.note for s in answer.steps if s.action == "segment"][len(begins) :] == [
        "through Kelford"
    ] * (asks - 1)


def test_an_update_that_brings_nothing_is_not_asked_the_same_again():
    answer, asked, *_ = go(no("a"), yes("b"), places=[[0], [0], [1], [2], [3]], max_trials=2)
    assert (answer.text, len(asked)) == ("b", 2)
    assert answer.steps[3].note.endswith("(nothing new to read)")
    answer, asked, *_ = go(no("a"), places=[[0], [0], [1], [2], [3]], max_trials=1)
    assert (answer.stop_reason, len(asked)) == ("max trials", 1)


def test_no_edge_leads_on():
    answer, asked, *_ = go(no("a"), edges=[(3, 2, "x")])
    assert (answer.text, answer.stop_reason, len(asked)) == ("read", "no edge leads on", 1)
    answer, *_ = go(no("a"), no("b"), edges=[(0, 1, "x")])
    assert answer.stop_reason == "no edge leads on"


@pytest.mark.parametrize(
    ("room", "kept"), [(30, {1: 0.5, 2: 0.9, 3: 0.5}), (29, {1: 0.5, 2: 0.9}), (20, {1: 0.5, 2: 0.9}), (19, {2: 0.9}), (9, {})]
)  # fmt: skip
def test_the_filter_at_the_windows_edge(room, kept):
    # Segment 0 has 5 tokens, 1 has 5, 2 has 10, 3 has 10: of two equal scores the later segment
    # goes first.
    lengths = {0: 5, 1: 5, 2: 10, 3: 10}
    assert drop_until_all_fit([0], {1: 0.5, 2: 0.9, 3: 0.5}, lengths, room) == kept


@given(
    st.dictionaries(st.integers(0, 9), st.floats(-1, 1), max_size=8),
    st.lists(st.integers(1, 9), min_size=10, max_size=10),
    st.integers(0, 60),
)
def test_what_is_filtered_out_scores_no_more_than_what_stays(added, sizes, room):
    lengths = dict(enumerate(sizes))
    kept = drop_until_all_fit([], added, lengths, room)
    gone = set(added) - set(kept)
    assert sum(lengths[k] for k in kept) <= room
    assert all(added[k] <= min(kept.values(), default=1) for k in gone)
    if gone:
        best = max(gone, key=lambda k: (added[k], -k))
        assert sum(lengths[k] for k in kept) + lengths[best] > room


@pytest.mark.parametrize(
    ("room", "share", "kept"),
    [
        (25, 0.5, [0, 1, 2]),
        (24, 1.0, [1, 2]),
        (24, 0.5, [2]),
        (20, 1.0, [1, 2]),
        (9, 1.0, [0]),
        (4, 1.0, []),
    ],
)
def test_start_segments_that_do_not_fit(room, share, kept):
    # Tokens 5, 10, 10; similarity 0.1, 0.2, 0.3.
    assert (
        choose_first_segments(
            [0, 1, 2],
            {0: 5, 1: 10, 2: 10},
            room,
            share=share,
            similarity=np.array([0.1, 0.2, 0.3]),
        )
        == kept
    )


def test_segments_that_no_longer_fit_leave_by_their_score():
    # With all four segments the request of 20 + 8 tokens of reply is at the edge of the window; one
    # token less, and one of the segments that Toren brought (score of its edge) goes for the one
    # that Kelford brings.
    replies = (no("birthplace?"), no("river?"), yes("the Une"))
    whole = next(w for w in range(100, 400) if shown_at(w, *replies) == 4)
    answer, asked, *_ = go(*replies, window=whole)
    assert answer.shown == spans(0, 1, 2, 3)
    answer, asked, *_ = go(*replies, window=whole - 1)
    assert len(answer.shown) == 3
    scores = {
        s.node: s.scores["similarity"] for s in answer.steps if s.action == "segment" and s.node
    }
    left = ({1, 2, 3} - {SPANS.index((s.start, s.end)) for s in answer.shown}).pop()
    assert left not in scores or scores[left] == min(scores.values())
    assert SEGMENTS[left] not in asked[2]


def shown_at(window, *replies, **params):
    """How many segments are shown in a window of this size; 0 where it is too short."""
    try:
        return len(go(*replies, window=window, **params)[0].shown)
    except WindowExceeded:
        return 0


def test_an_entity_in_every_segment():
    question = Question("q", "What does Toren like?", ("d",))
    everywhere = [[0], [0, 1, 2, 3], [1], [2], [3]]
    answer, *_ = go(yes("x"), question=question, places=everywhere)
    assert len(answer.shown) == 4
    frame = next(
        w
        for w in range(101, 400)
        if shown_at(w, yes("x"), question=question, places=everywhere) == 4
    )
    answer, *_ = go(yes("x"), question=question, places=everywhere, window=frame - 1)
    assert 1 <= len(answer.shown) < 4
    assert "of 4 segments fit" in answer.steps[0].note


def test_replies_that_never_parse_end_the_search_with_a_recorded_fallback():
    answer, asked, *_ = go(*["I do not know."] * 9)
    assert (answer.text, answer.stop_reason) == ("read", "replies never parsed")
    assert len(asked) == 5, "once, and four times more"
    assert answer.steps[-1].scores == {"replies": 5, "updates": 0, "ended": 1}
    assert answer.steps[-1].note.count("invalid reply 'I do not know.'") == 5
    assert answer.shown == spans(0)


def test_a_reply_that_parses_at_last_is_taken():
    answer, asked, *_ = go("?", "??", yes("Toren"))
    assert (answer.text, len(asked)) == ("Toren", 3)
    assert answer.steps[-1].scores == {"answers": 1, "replies": 3, "updates": 0, "ended": 1}


def test_no_entity_of_the_question_and_none_at_all():
    question = Question("q", "Who comes from where?", ("d",))
    answer, *_ = go(yes("x"), question=question, fallback_k=2)
    assert answer.shown == spans(0, 1), (
        "segment 1 shares two words, the others none: the first of them"
    )
    assert (
        answer.steps[0].note
        == "the memory has no entity of the question: it begins with the most similar segments"
    )
    answer, *_ = go(no("x"), question=question, names=[], places=[], edges=[], fallback_k=1)
    assert (answer.stop_reason, answer.shown) == ("no edge leads on", spans(1))


def test_nothing_to_read():
    answer, *_ = go(no("x"), text="", names=[], places=[], edges=[])
    assert (answer.text, answer.stop_reason, answer.shown) == (
        "guess",
        "no edge leads on: no text fits",
        (),
    )


def test_a_choice_without_options_is_asked_as_a_question_and_one_with_them_shows_them():
    _, asked, *_ = go(yes("x"))
    assert "Options:" not in asked[0]
    answer, asked, *_ = go(
        yes("(B) Une"), question=Question("q", "Which river is by Kelford?", ("d",), ("Ain", "Une"))
    )
    assert "Options:\n(A) Ain\n(B) Une" in asked[0]
    assert answer.text == "(B) Une"


def test_an_answer_is_no_longer_than_the_task_allows():
    answer, *_ = go(yes("a b c d e f g h i j"))
    assert answer.text == "a b c d e f g h"


def test_entity_trial():
    rules = choose("* Toren\n* the Une\n* Nobody")
    answer, _, _, tools = go(
        no("It is by Toren."), yes("the Une"), navigation="entity-trial", rules=rules
    )
    assert (answer.text, answer.stop_reason) == ("the Une", "answered")
    assert answer.shown == spans(0, 1, 2, 3), (
        "the segments of Toren and of the Une; Velindra was not named again"
    )
    (prompt,) = [p for p in tools.reader.prompts if "Choose the entities" in p]
    assert (
        "question: It is by Toren.\n\nEntities chosen so far:\n* Velindra\n\nOther entities of the"
        in prompt
    )
    assert "document:\n* Toren\n* Kelford" in prompt
    assert answer.steps[3].note == "Toren, Une"


@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        (["* Velindra"], "the entities did not change"),
        (["none"], "the entities did not change"),
        (["* Nobody"], "the entities did not change"),
        (["?"] * 5, "replies never parsed"),
        (["* Toren", "* Toren\n* Velindra\n* Mira"], "the segments did not change"),
    ],
)
def test_entity_trial_that_leads_nowhere(chosen, reason):
    answer, *_ = go(*[no("x")] * 9, navigation="entity-trial", rules=choose(*chosen))
    assert (answer.text, answer.stop_reason) == ("read", reason)


def test_entity_trial_stops_after_its_trials():
    answer, asked, *_ = go(
        *[no("x")] * 9, navigation="entity-trial", max_trials=1, rules=choose("* Une")
    )
    assert (answer.stop_reason, len(asked), answer.shown) == ("max trials", 2, spans(2))


def test_graph_expansion():
    rules = [Rule(when="Turn a question", reply="* On which river lies Kelford?")]
    answer, asked, encoder, tools = go(
        navigation="graph-expansion", quantile=0.5, top_k=1, rules=rules
    )
    assert (answer.text, answer.stop_reason, asked) == ("read", "expanded", [])
    # Similarity to the question: "is", "author" ... of each edge; the median lets the better half
    # in.
    prompt = tools.reader.prompts[0]
    assert "Entities:\n* Velindra\n* Toren" in prompt
    assert "Relations:\n* Velindra ; Toren is its author ; Toren" in prompt
    assert encoder.queries[-1] == f"{QUESTION.text}\nOn which river lies Kelford?"
    assert answer.shown == spans(2)


def test_graph_expansion_without_an_elaborated_question():
    rules = [Rule(when="Turn a question", reply="?")]
    answer, _, encoder, _ = go(navigation="graph-expansion", top_k=2, rules=rules)
    assert encoder.queries[-1] == QUESTION.text
    assert "no elaborated question" in next(s for s in answer.steps if s.action == "elaborate").note
    assert len(answer.shown) == 2
