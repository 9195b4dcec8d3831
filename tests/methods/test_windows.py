"""The window rows: which end of a text stays, and which of several windows gives the answer."""

import pytest
from harness_training.method_skills import skills_of

from harness.errors import WindowExceeded
from harness.llm.scripted import Rule
from harness.method import Task
from harness.types import Document, Question
from methods.long_context import ClosedBook, FullContext, SlidingWindow
from methods.reading import room_for_text
from tests.methods.conftest import FakeTools, answered

TEXT = " ".join(str(i) for i in range(400))
QUESTION = Question("q", "Which number?", ("d",))
REPLY = [Rule(reply="x")]


def answer(method, tools=None, text=TEXT, question=QUESTION):
    found, _ = answered(method, tools or FakeTools(REPLY), Document("d", text), question)
    return [text[s.start : s.end] for s in found.shown], found


@pytest.mark.parametrize(
    ("side", "shown", "cut"),
    [
        ("left", ["0 1 2 3 4"], "right"),
        ("right", ["395 396 397 398 399"], "left"),
        ("ends", ["0 1", "398 399"], "middle"),  # int(5 / 2) at each end
    ],
)
def test_the_end_that_stays(side, shown, cut):
    found, result = answer(FullContext(FullContext.Config(max_tokens=5, keep=side)))
    assert [part.strip() for part in found] == shown
    kept = sum(len(part.split()) for part in shown)
    assert result.truncated == {"side": cut, "tokens_before": 400, "tokens_after": kept}
    assert result.stop_reason == "truncated"


def test_the_halves_of_a_long_text_are_joined_directly():
    tools = FakeTools(REPLY)
    shown, _ = answer(FullContext(FullContext.Config(max_tokens=4)), tools)
    assert shown == ["0 1", " 398 399"] or shown == ["0 1", "398 399"]
    assert f"Text:\n{''.join(shown)}\n\nThe text ends here." in tools.reader.prompts[0]


@pytest.mark.parametrize(("more", "reason"), [(0, "whole"), (1, "truncated")])
def test_a_text_that_just_fits_is_not_cut(more, reason):
    tools = FakeTools(REPLY, window=150)
    room = room_for_text(
        QUESTION, tools, tools.model()
    )  # nothing is kept for a separator: the halves have none
    text = " ".join(["w"] * (room + more))
    assert answer(FullContext(FullContext.Config()), tools, text)[1].stop_reason == reason


@pytest.mark.parametrize("side", ["left", "right", "ends"])
def test_a_window_below_the_models_own_holds_prompt_and_answer(side):
    tools = FakeTools(REPLY, window=8192)
    found, _ = answer(FullContext(FullContext.Config(window=150, keep=side)), tools)
    used = len(tools.reader.offsets(tools.reader.prompts[0])) + tools.task.max_answer_tokens
    assert 140 <= used <= 150
    assert sum(len(part.split()) for part in found) > 50
    whole, result = answer(FullContext(FullContext.Config(window=150, keep=side)), text="a b c")
    assert (whole, result.stop_reason, result.truncated) == (["a b c"], "whole", None)


def test_a_question_that_a_small_window_cannot_hold():
    with pytest.raises(WindowExceeded, match="more than method.window=40; raise it"):
        answer(FullContext(FullContext.Config(window=40)))
    with pytest.raises(WindowExceeded, match="raise model.window"):
        answer(FullContext(FullContext.Config(window=4096)), FakeTools(REPLY, window=40))


def slide(replies, text="w0 w1 w2 w3 w4 w5 w6 w7 w8 w9", task=None, window=8192, **config):
    """Each reply belongs to the window that begins with its word."""
    tools = FakeTools(
        [Rule(when=f"{word} ", reply=said) for word, said in replies.items()] + REPLY, window=window
    )
    tools.task = task or tools.task
    return *answer(SlidingWindow(SlidingWindow.Config(**config)), tools, text), tools


def test_the_first_answer_that_is_no_refusal():
    said = ("Unanswerable.", "This is unanswerable here", "Mira", "Tal", "unanswerable")
    replies = {f"w{2 * i}": reply for i, reply in enumerate(said)}
    shown, result, tools = slide(replies)
    assert [part.split() for part in shown] == [[f"w{i}", f"w{i + 1}"] for i in range(0, 10, 2)]
    assert (result.text, result.stop_reason) == ("Mira", "window 3 of 5")
    steps = [(s.action, s.node, s.tokens, s.note) for s in result.steps]
    assert steps == [("window", i, 2, reply) for i, reply in enumerate(said)]
    assert len(tools.reader.prompts) == 5  # table 6 of QRMeM: five requests a question
    assert all(
        p.count("Answer 'unanswerable' where the text does not say.") == 2
        for p in tools.reader.prompts
    )
    assert result.truncated is None


def test_where_every_window_refuses_that_is_the_answer():
    _, result, _ = slide(dict.fromkeys(["w0", "w2", "w4", "w6", "w8"], "Unanswerable, sorry"))
    assert (result.text, result.stop_reason) == ("unanswerable", "every window refused")


@pytest.mark.parametrize("silence", ["", " \n ", "...", "--"])
def test_an_empty_reply_is_no_answer(silence):
    _, result, _ = slide({"w0": silence, "w2": "Mira", "w4": "Tal", "w6": silence, "w8": silence})
    assert (result.text, result.stop_reason) == ("Mira", "window 2 of 5")
    _, result, _ = slide({"w0": "", **dict.fromkeys(["w2", "w4", "w6", "w8"], "Unanswerable")})
    assert (result.text, result.stop_reason) == (
        "unanswerable",
        "every window refused, 1 of them with an empty reply",
    )


def test_an_instruction_that_has_a_refusal_stays_as_it_is():
    task = Task(instruction="Answer, or say 'unanswerable'.", max_answer_tokens=8)
    _, _, tools = slide({}, task=task)
    assert "Answer 'unanswerable'" not in tools.reader.prompts[0]
    assert tools.reader.prompts[0].count("Answer, or say 'unanswerable'.") == 2


@pytest.mark.parametrize(
    ("text", "config", "count"),
    [
        (TEXT, {}, 5),
        (TEXT, {"windows": 1}, 1),
        ("a b c", {}, 3),  # fewer tokens than windows
        (
            TEXT,
            {"windows": 2, "window": 160},
            None,
        ),  # more than two, as one of 200 words would not fit
    ],
)
def test_windows_cover_the_text(text, config, count):
    tools = FakeTools(REPLY)
    shown, _ = answer(SlidingWindow(SlidingWindow.Config(**config)), tools, text)
    assert "".join(shown) == text
    assert len(shown) == count if count else len(shown) > 2
    limit = config.get("window", 8192)
    for prompt in tools.reader.prompts:
        assert len(tools.reader.offsets(prompt)) + tools.task.max_answer_tokens <= limit


def test_no_text_and_no_room():
    assert (
        answer(SlidingWindow(SlidingWindow.Config()), text="")[1].stop_reason == "the text is empty"
    )
    with pytest.raises(WindowExceeded, match="method.window=30"):
        answer(SlidingWindow(SlidingWindow.Config(window=30)))


def test_the_skill_prompts_are_the_shared_ones():
    # The embedded model was trained on these: a window is asked as a text is.
    found = {skill.name for skill in skills_of(SlidingWindow(SlidingWindow.Config()))}
    assert found == {skill.name for skill in skills_of(FullContext(FullContext.Config()))}


def test_closed_book_sees_no_text_and_options_are_lettered():
    tools = FakeTools(REPLY)
    _, found = answer(
        ClosedBook(ClosedBook.Config()),
        tools,
        question=Question("q", "who?", ("d",), ("Ann", "Bob")),
    )
    assert found.shown == ()
    assert "399" not in tools.reader.prompts[0]
    assert tools.reader.prompts[0].endswith("Question: who?\nOptions:\n(A) Ann\n(B) Bob\nAnswer:")
