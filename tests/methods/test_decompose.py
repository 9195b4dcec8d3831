"""DECOM and the summary baseline: known answers on a model that replays a table."""

import pytest

from harness.errors import QuestionError
from harness.llm.scripted import Rule
from harness.types import Document, Question, Shown
from methods.decompose import Decompose, fill_in_answers
from methods.summarised import Summarised
from methods.summary import condense, condense_to_one_summary
from tests.methods.conftest import FakeTools, answered

SEGMENTS = [
    "Toren wrote Velindra last winter.",
    "Kelford is home to Toren.",
    "Mira sold two green boats.",
]
TEXT = " ".join(SEGMENTS)
SPANS = [(0, 33), (33, 59), (59, 86)]
QUESTION = Question("q", "Where lives the author of Velindra?", ("d",))


@pytest.mark.parametrize(
    ("question", "answers", "filled"),
    [
        ("Where was #1 born?", ["Toren"], "Where was Toren born?"),
        ("Is #2 or #1 older?", ["Ann", "Bo"], "Is Bo or Ann older?"),
        ("Who is #3?", ["Ann"], "Who is #3?"),
        ("Who is #0?", ["Ann"], "Who is #0?"),
        ("Who is #1?", [""], "Who is #1?"),
        ("Who is #1?", ["#1"], "Who is #1?"),
        ("Who is #12?", ["Ann"], "Who is #12?"),
    ],
)
def test_earlier_answers_are_put_in(question, answers, filled):
    assert fill_in_answers(question, answers) == filled


def decomposed(*rules, question=QUESTION, text=TEXT, window=8192, **params):
    tools = FakeTools(rules, window=window)
    method = Decompose(Decompose.Config(**{"segment_tokens": 5, "k": 1, **params}))
    return answered(method, tools, Document("d", text), question)[0], tools.reader.prompts


def test_two_steps():
    answer, prompts = decomposed(
        Rule(when="Simplify a question", reply="* Who wrote Velindra?\n* Where is the home of #1?"),
        Rule(when="Question: Who wrote Velindra?\nAnswer:", reply="Toren"),
        Rule(when="Question: Where is the home of Toren?\nAnswer:", reply="Kelford"),
        Rule(when="Question: Where lives the author of Velindra?\nAnswer:", reply="in Kelford"),
    )
    assert (answer.text, answer.stop_reason) == ("in Kelford", "2 sub-questions")
    assert len(prompts) == 4
    # BM25 gives the first question the segment with both of its words, the second one that with
    # "home".
    assert "Text:\nToren wrote Velindra last winter.\n" in prompts[1]
    assert "Text:\nKelford is home to Toren.\n" in prompts[2]
    steps_text = "Who wrote Velindra? Toren\nWhere is the home of Toren? Kelford"
    assert f"Text:\n{steps_text}\n\nThe text ends here." in prompts[3]
    sources = tuple(("d", *SPANS[k]) for k in (0, 1))
    assert answer.shown == (
        Shown("span", "d", *SPANS[0]), Shown("span", "d", *SPANS[1]),
        Shown("generated", "d", text=steps_text, sources=sources),
    )  # fmt: skip
    assert [(s.action, s.node) for s in answer.steps] == [
        ("decompose", None),
        ("sub-question", 1),
        ("sub-question", 2),
    ]


@pytest.mark.parametrize(("reply", "requests"), [("I cannot.", 5), ("none", 1)])
def test_without_sub_questions_the_question_is_asked(reply, requests):
    answer, prompts = decomposed(Rule(when="Simplify", reply=reply), Rule(reply="Kelford"))
    assert (answer.text, answer.stop_reason) == ("Kelford", "1 sub-questions")
    assert sum("Simplify" in p for p in prompts) == requests
    assert answer.steps[0].note.endswith("no sub-questions: the question is asked as it is")


def test_no_more_sub_questions_than_allowed_and_an_empty_text():
    answer, prompts = decomposed(
        Rule(when="Simplify", reply="* a?\n* b?\n* c?"), Rule(reply="x"), text="", most=2
    )
    assert answer.stop_reason == "2 sub-questions"
    assert answer.steps[0].note == "2 of 3 sub-questions are asked"
    assert [s.kind for s in answer.shown] == ["generated"]
    assert "Answer a question from what you know" in prompts[1]


def test_options_are_shown_once_at_the_end():
    question = Question("q", "Where?", ("d",), ("Kelford", "Rome"))
    _, prompts = decomposed(
        Rule(when="Simplify", reply="* Who?"), Rule(reply="x"), question=question
    )
    assert ["(A) Kelford" in p for p in prompts] == [False, False, True]


CONTEXT = 'The context is """\n'
SHORT = [Rule(when=f"{CONTEXT}{s}", reply=f"in short {i}") for i, s in enumerate(SEGMENTS)]


def summarised(*rules, window=8192, question=QUESTION, text=TEXT, **params):
    tools = FakeTools([*SHORT, *rules, Rule(when="Question:", reply="Kelford")], window=window)
    method = Summarised(
        Summarised.Config(**{"segment_tokens": 5, "summary_tokens": 5, "reserve": 10, **params})
    )
    return *answered(method, tools, Document("d", text), question), tools.reader.prompts


def test_summaries_that_fit_are_read_as_they_are():
    answer, index, prompts = summarised()
    assert (answer.text, answer.stop_reason, answer.truncated) == ("Kelford", "whole", None)
    assert index["pieces"] == [[f"in short {i}", *SPANS[i]] for i in range(3)]
    assert "Text:\nin short 0\n\nin short 1\n\nin short 2\n\nThe text ends here" in prompts[-1]
    assert answer.shown[1] == Shown(
        "generated", "d", text="in short 1", sources=(("d", *SPANS[1]),)
    )


def test_summaries_that_do_not_fit_are_summarised_again():
    # Three summaries of 3 tokens and a line's end each are 12; in twos they are two, the second of
    # them as it was.
    joined = [("both", 0, 1), ("in short 2", 2, 2)]
    for room, found, requests in (
        (12, [(f"in short {n}", n, n) for n in range(3)], 3),
        (11, joined, 4),
    ):
        tools = FakeTools([*SHORT, Rule(when=f"{CONTEXT}in short 0\nin short 1\n", reply="both")])
        pieces = condense(SEGMENTS, room, 5, tools, tools.model())
        assert [(p.text, p.first_segment, p.last_segment) for p in pieces] == found
        assert len(tools.reader.prompts) == requests


@pytest.mark.parametrize(
    ("count", "pieces"),
    [
        (18, 18),  # 18 summaries of 200 tokens and a line's end each are 3,618
        (19, 10),  # 1.03 of the room: twos, and one over
        (36, 18),
        (37, 13),  # 2.01 of it: threes; the whole of them fit one request of 8,192
        (50, 17),
    ],
)
def test_no_more_neighbours_are_joined_than_must_be(count, pieces):
    segments = [f"s{i} " + "word " * 599 for i in range(count)]
    tools = FakeTools([Rule(reply=" ".join(["so"] * 200))])
    found = condense(segments, 18 * 201, 200, tools, tools.model())
    assert len(found) == pieces
    assert [p.first_segment for p in found] == [0, *(p.last_segment + 1 for p in found[:-1])]
    assert found[-1].last_segment == count - 1


def test_a_request_is_no_longer_than_the_window_it_was_given():
    tools = FakeTools([Rule(reply="so it is said")])
    segments = [f"s{i} " + "word " * 29 for i in range(12)]
    assert condense_to_one_summary(segments, 5, tools, tools.model(), window=100) == "so it is said"
    longest = max(len(tools.reader.offsets(p)) for p in tools.reader.prompts)
    assert longest + 5 <= 100 < longest + 5 + 30
    with pytest.raises(
        QuestionError, match=r"method.window \(80 tokens\) does not hold a segment of 31 tokens"
    ):
        condense(segments, 0, 5, tools, tools.model(), window=80)


def test_one_summary_of_all():
    tools = FakeTools([*SHORT, Rule(when="in short 0\nin short 1\nin short 2", reply="all  of it")])
    assert condense_to_one_summary(SEGMENTS, 5, tools, tools.model()) == "all of it"
    assert condense_to_one_summary([], 5, tools, tools.model()) == ""
    assert len(tools.shared) == 4


def test_an_empty_text_and_a_question_that_leaves_no_room():
    answer, index, _ = summarised(text="")
    assert (answer.stop_reason, answer.shown, index["pieces"]) == ("the text is empty", (), [])
    answer, *_ = summarised(question=Question("q", "why " * 50, ("d",)), window=100)
    assert answer.stop_reason == "truncated"
    assert answer.truncated == {
        "side": "right",
        "tokens_before": 9,
        "tokens_after": 3 * len(answer.shown),
    }
    assert len(answer.shown) < 3
