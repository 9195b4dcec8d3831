"""GIST (ReadAgent): pages, gists and the look-up, worked by hand on a model that replays a
table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import QuestionError
from harness.llm.scripted import Rule
from harness.types import Document, Question, Shown
from methods.gist import Gist, PageCutter
from tests.methods.conftest import FakeTools, answered

LINES = [
    "Ann bakes bread here.",
    "Ann sells bread there.",
    "Bob sails far away.",
    "Bob sees many islands.",
    "Cid sleeps.",
]
TEXT = "\n".join(LINES)
QUESTION = Question("q", "Who sails?", ("d",))
# A page closes behind 9 words, labels from the 4th word on; a rest of fewer than 7 words is one page.
SIZES = {"page_words": 9, "least_words": 4, "last_words": 7, "gist_tokens": 5}
FIRST = (
    "Text:\nAnn bakes bread here. \n<1>\nAnn sells bread there. \n<2>\nBob sails far away. "
    "\n<3>\nBob sees many islands.\n...\n\nThe text ends"
)
SECOND = (
    f"Text:\n...\n{LINES[0]}\n{LINES[1]}\nBob sails far away. \n<3>\nBob sees many islands. "
    "\n<4>\nCid sleeps. \n<5>\n\n\nThe text ends"
)
BREAKS = [Rule(when=FIRST, reply="Break: 2"), Rule(when=SECOND, reply="Break: <4>")]
WHAT = {"Ann": "bread", "Bob": "sea", "Cid": "nap"}
GISTS = [
    Rule(when=f"DO NOT explain your reason.\n\nPassage:\n{who}", reply=f"{who}: {what}")
    for who, what in WHAT.items()
]
READ = Rule(when="Read the text below", reply="Bob")


def gist(*rules, text=TEXT, question=QUESTION, window=8192, **params):
    tools = FakeTools([*rules, READ, Rule(when="from what you know", reply="guess")], window=window)
    method = Gist(Gist.Config(**{**SIZES, **params}))
    return *answered(method, tools, Document("d", text), question), tools.reader.prompts


def looked(reply):
    return Rule(when="A text was read page by page", reply=reply)


def test_pages_gists_and_a_look_up():
    answer, index, prompts = gist(*BREAKS, *GISTS, looked("Pages: 1"))
    assert [TEXT[a:b] for a, b in index["pages"]] == [
        "\n".join(LINES[:2]),
        "\n".join(LINES[2:4]),
        LINES[4],
    ]
    assert index["gists"] == ["Ann: bread", "Bob: sea", "Cid: nap"]
    assert index["notes"] == []
    lookup = next(p for p in prompts if "page by page" in p)
    assert (
        "Page 0: Ann: bread\n\nPage 1: Bob: sea\n\nPage 2: Cid: nap\n\nQuestion: Who sails?\n\n"
        in lookup
    )
    assert (
        "Text:\nAnn: bread\n\nBob sails far away.\nBob sees many islands.\n\nCid: nap\n\nThe text"
        in prompts[-1]
    )
    (a, b), (c, d), (e, f) = index["pages"]
    assert answer.shown == (
        Shown("generated", "d", text="Ann: bread", sources=(("d", a, b),)),
        Shown("span", "d", c, d),
        Shown("generated", "d", text="Cid: nap", sources=(("d", e, f),)),
    )
    assert (answer.text, answer.stop_reason) == ("Bob", "1 pages looked up")
    assert [(s.action, s.node) for s in answer.steps] == [("look-up", None), ("page", 1)]


@pytest.mark.parametrize(
    ("reply", "pages", "note"),
    [
        ("Pages: 1, 7, 1, 0", [1, 0], "pages 1, 0; 1 of 3 numbers were dropped"),
        ("Pages: none", [], "pages none"),
        ("Pages: 2 1 0", [2, 1], "pages 2, 1; 1 of 3 numbers were dropped"),
        ("page one", [], "; ".join(["invalid reply 'page one'"] * 5 + ["pages none"])),
    ],
)
def test_what_a_look_up_names(reply, pages, note):
    answer, *_ = gist(*BREAKS, *GISTS, looked(reply), most_pages=2)
    assert [s.node for s in answer.steps[1:]] == pages
    assert answer.steps[0].note == note


@pytest.mark.parametrize("reply", ["Break: 9", "behind Bob", "Break: 0", ""])
def test_a_page_break_that_is_none_ends_the_page_at_its_last_label(reply):
    _, index, prompts = gist(Rule(when="Read a part", reply=reply), *GISTS, looked("Pages: 0"))
    assert [TEXT[a:b] for a, b in index["pages"]] == ["\n".join(LINES[:3]), "\n".join(LINES[3:])]
    assert index["notes"] == ["1 of 2 pages end at their last label, for want of a reply with one"]
    assert sum("Read a part" in p for p in prompts) == 1, (
        "asked once; the rest is too short to be asked about"
    )


def paged(text, most, least, last):
    return PageCutter(text, Gist.Config(page_words=most, least_words=least, last_words=last))


@given(st.lists(st.integers(0, 30), max_size=12), st.integers(2, 20), st.integers(0, 10))
def test_units_hold_all_words_and_fit_a_page(sizes, most, least):
    least = min(least, most - 1)
    text = "\n".join(" ".join(f"w{i}." if i % 7 == 6 else f"w{i}" for i in range(n)) for n in sizes)
    pages = paged(text, most, least, 3)
    assert sum(pages.unit_words) == len(text.split())
    assert all(n <= 2 * most for n in pages.unit_words)
    assert " ".join(text[a:b] for a, b in pages.units).split() == text.split()
    start = 0
    while start < len(pages.units):
        end = pages._latest_page_end(start)
        labels = pages._offered_labels(start, end)
        assert start < end <= len(pages.units)
        assert labels[-1] == end
        assert sum(pages.unit_words[start : end - 1]) < most or end == start + 1
        assert sum(pages.unit_words[start:end]) >= most or end == len(pages.units)
        start = end


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("a\nb\n\nc\n\n \nd\n\n\n\ne\n", ["a\nb\n\nc", "d", "e"]),
        ("a\nb\n\nc", ["a\nb", "c"]),
        ("a\n b", ["a", "b"]),
        ("a", ["a"]),
    ],
)
def test_paragraphs_are_the_demos_else_blocks_else_lines(text, units):
    pages = paged(text, 600, 280, 350)
    assert [text[a:b].strip() for a, b in pages.units] == units


def test_a_request_that_does_not_fit_leaves_out_the_page_before_then_the_next_paragraph():
    pages = PageCutter(TEXT, Gist.Config(**SIZES))
    seen = []
    for window in range(60, 200):
        model = FakeTools(window=window).model()
        request = "".join(pages._request_that_fits(2, 4, "Ann bakes.", model))
        seen.append(("...\nAnn bakes." in request, "Cid sleeps.\n..." in request))
    assert list(dict.fromkeys(seen)) == [(False, False), (False, True), (True, True)]


# 300 paragraphs of 96 characters without white space, that is 12 words each.
BOAT = "\u8239\u5728\u6cb3\u4e0a\u6162\u6162\u5730\u8d70\u7740\u5230\u3002"
CHINESE = "\n".join([BOAT * 8 + "\u6cb3" * 8] * 300)


def test_a_text_without_white_space_has_pages():
    pages = paged(CHINESE, 600, 280, 350)
    assert (len(pages.units), set(pages.unit_words)) == (300, {12})
    spans = pages.cut_pages(FakeTools([Rule(reply="none")]).model(), FakeTools())
    assert [round((b - a) / 97) for a, b in spans] == [50] * 6
    gaps = zip(spans, [*spans[1:], (len(CHINESE), 0)], strict=True)
    assert all(not CHINESE[b:c].strip() for (_, b), (c, _) in gaps)


@pytest.mark.parametrize(
    "text",
    ["x" * 1000, "a b " + "x" * 500 + " c", "\u6cb3" * 999 + "\u3002", "http://" + "ab/" * 90],
)
def test_a_word_longer_than_a_page_is_cut(text):
    pages = paged(text, 12, 4, 3)
    assert all(0 < n <= 12 for n in pages.unit_words)
    assert all(b - a <= 12 * 8 + 7 for a, b in pages.units)
    assert "".join("".join(text[a:b] for a, b in pages.units).split()) == "".join(text.split())


LONG = "\n".join(f"{name} " * 39 + f"{name}." for name in ("Ann", "Bob", "Cid"))


def test_pages_that_do_not_fit_go_the_last_named_first():
    whole = next(w for w in range(100, 400) if looked_up(w) == ([1, 0], "2 pages looked up"))
    # A page has 40 tokens and its gist 2, so a window of 38 tokens less has room for one page.
    assert looked_up(whole - 1) == looked_up(whole - 38) == ([1], "1 of 2 pages fit")
    assert looked_up(whole - 39) == ([], "0 of 2 pages fit")


def looked_up(window):
    try:
        rules = [*GISTS, looked("Pages: 1, 0")]
        answer, *_ = gist(
            *rules,
            text=LONG,
            window=window,
            page_words=40,
            least_words=10,
            last_words=1,
            reply_tokens=4,
        )
    except QuestionError:
        return None
    return [s.node for s in answer.steps[1:]], answer.stop_reason


def test_an_empty_text_asks_nothing():
    answer, index, prompts = gist(text=" \n ")
    assert (answer.text, index["pages"], len(prompts)) == ("guess", [], 1)
