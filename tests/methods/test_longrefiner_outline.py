"""The outline language: what is written is read back, what is wrongly written still covers the
text."""

import json
import re
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.types import Document
from methods.longrefiner.config import LongRefinerConfig
from methods.longrefiner.filling import place_clips, share_covered
from methods.longrefiner.outline import Clip, Part, parse_outline, shorten_paragraph, write_outline
from methods.longrefiner.tree import Tree, build_tree
from tests.datasets.support import needs_real, real
from tests.methods.conftest import FakeTools

CONFIG = LongRefinerConfig(scoring="bm25", paragraph_words=1)
MODEL = FakeTools().model()


def section(title, *children):
    return Part("section", title, children)


def root(*children):
    return Part("root", "", children)


BOTH = root(section("S", Clip("a b", "c d"), Part("sub-section", "T", (Clip("e"),))))
READ = [
    ("the paper's spelling", "<section: S>a b <skip> c d<subsection: T>e</subsection: T></section: S>", BOTH),
    ("the released spelling", "<section: S>a b...c d<sub-section: T>e</sub-section: T></section: S>", BOTH),
    ("quoted titles", '<section: "S">a b<skip>c d<sub-section:"T">e</sub-section: "T"></section: "S">', BOTH),
    ("no closing tags", "<section: S>a b <skip> c d<sub-section: T>e", BOTH),
    ("closing tags of another title", "<section: S>a b...c d<sub-section: T>e</sub-section: X></section: Y>", BOTH),
    ("upper case and spaces", "< SECTION : S >a b ... c d\n<Sub-Section: T> e </sub-section>\n</section>", BOTH),
    ("an abstract alone", "<abstract>a<br>b</abstract>", root(Part("abstract", "", (Clip("a"), Clip("b"))))),
    ("lines are paragraphs", "<section: S>a\n\nb<br/>c</section: S>", root(section("S", *map(Clip, "abc")))),
    ("repeated titles", "<section: S>a</section: S><section: S>b</section: S>", root(*(section("S", Clip(x)) for x in "ab"))),
    ("a section closes its sub-sections", "<section: S><subsection: T>a</section: S>b",
     root(section("S", Part("sub-section", "T", (Clip("a"),))), Clip("b"))),
    ("a section in a section", "<section: S>a<section: U>b</section: U></section: S>",
     root(section("S", Clip("a")), section("U", Clip("b")))),
    ("a sub-section alone is a section", "<sub-section: T>a</sub-section: T>", root(section("T", Clip("a")))),
    ("text without tags", "a ... b", root(Clip("a", "b"))),
    ("an unknown tag is text", "<chapter: S>a</chapter>", root(Clip("<chapter: S>a</chapter>"))),
    ("an escaped tag is text", "&lt;br>a&#46;..b", root(Clip("<br>a...b"))),
    ("a mark without a tail", "<section: S>a <skip></section: S>", root(section("S", Clip("a")))),
    ("no title", "<section>a</section>", root(section("", Clip("a")))),
    ("nothing", "", root()),
]  # fmt: skip


@pytest.mark.parametrize(("text", "tree"), [row[1:] for row in READ], ids=[row[0] for row in READ])
def test_reading(text, tree):
    assert parse_outline(text) == tree


def test_clips_keep_eight_tokens_of_each_end():
    text = " ".join(f"w{i}" for i in range(17))
    tokens = [m.span() for m in re.finditer(r"\s*\S+", text)]
    assert shorten_paragraph(text, tokens, 8) == Clip(
        "w0 w1 w2 w3 w4 w5 w6 w7", "w9 w10 w11 w12 w13 w14 w15 w16"
    )
    assert shorten_paragraph(text, tokens[:16], 8) == Clip(text)


MARKS = '<br> <skip> ... .... &lt; &amp; &#46; " </section> > < : é 字'
awkward = st.sampled_from(["<section: x>", *MARKS.split()])
words = st.lists(awkward | st.text(min_size=1, max_size=6), min_size=1, max_size=5).map(" ".join)
tidy = words.map(lambda text: " ".join(text.split())).filter(bool)
clips = st.builds(Clip, tidy, st.none() | tidy)
titles = st.just("") | tidy
plain = st.lists(clips, max_size=3)
subs = st.builds(lambda t, c: Part("sub-section", t, tuple(c)), titles, plain)
sections = st.builds(
    lambda t, c: Part("section", t, tuple(c)), titles, st.lists(clips | subs, max_size=4)
)
abstracts = st.builds(lambda c: Part("abstract", "", tuple(c)), plain)
outlines = st.builds(
    lambda a, s: Part("root", "", (*a, *s)),
    st.lists(abstracts, max_size=1),
    st.lists(sections | clips, max_size=4),
)


@settings(max_examples=50, deadline=None)
@given(outlines, st.sampled_from(["<skip>", "..."]))
def test_a_written_outline_is_read_back(outline, mark):
    assert parse_outline(write_outline(outline, mark)) == outline


def whole(tree, text):
    """Leaves in order, none over another, every character that is no white space in one of them."""
    spans = [(tree.nodes[i].start, tree.nodes[i].end) for i in tree.leaves()]
    assert all(0 <= a < b <= len(text) for a, b in spans)
    assert all(b <= c for (_, b), (c, _) in pairwise(spans))
    assert share_covered(spans, text) == 1.0
    children = tree.children()
    for i, node in enumerate(tree.nodes):
        assert node.parent < i
        assert node.is_leaf == (not children[i])
        if not node.is_leaf:
            assert (node.start, node.end) == (
                tree.nodes[children[i][0]].start,
                tree.nodes[children[i][-1]].end,
            )


tags = ["<abstract>", "</abstract>", "<section: A>", "</section: A>", "<sub-section: B>", "</sub-section: B>", "<br>", "<skip>",
        "...", "<section: ", "</", ">", "one two", "three.", "four five", "\n", "zzz"]  # fmt: skip
parts = st.sampled_from(
    ["one two", "three.", "four five", "\n", "\n\n", "<br>", "<section: A>", "...", "字。"]
)
texts = st.lists(parts, max_size=20)


@settings(max_examples=100, deadline=None)
@example("<section: A> <skip> ...", "\n ...")  # the text before the first clip is white space alone
@given(
    st.lists(st.sampled_from(tags), max_size=25).map(" ".join) | st.text(max_size=60),
    texts.map(" ".join),
)
def test_any_output_yields_nodes_that_cover_the_document(output, text):
    tree = build_tree(text, parse_outline(output), CONFIG, MODEL)
    whole(tree, text)
    assert Tree.from_index(json.loads(json.dumps(tree.to_index()))) == tree
    tree = build_tree(
        text,
        parse_outline(output),
        CONFIG.model_copy(update={"unmatched": "drop", "leaf_tokens": None}),
        MODEL,
    )
    assert all(a < b <= c for (a, b), (c, _) in pairwise([*tree.kept, (len(text), 0)]))
    whole(tree, tree.kept_document(Document("d", text)).text if tree.kept else "")


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(2, 30), min_size=1, max_size=3), min_size=1, max_size=5))
def test_the_outline_of_a_text_places_all_of_it(sizes):
    """Distinct words, so that there is one place for every clip: each paragraph comes back
    exactly."""
    number = iter(range(10_000))
    paragraphs = [
        [" ".join(f"w{next(number)}" for _ in range(size)) for size in part] for part in sizes
    ]
    text = "\n\n".join(p for part in paragraphs for p in part)

    def short(p):
        return shorten_paragraph(p, [m.span() for m in re.finditer(r"\s*\S+", p)], 8)

    outline = root(*(section(f"S{i}", *map(short, part)) for i, part in enumerate(paragraphs)))
    tree = build_tree(text, parse_outline(write_outline(outline)), CONFIG, MODEL)
    whole(tree, text)
    assert tree.placed == tree.structured == 1.0
    parts = [n for n in tree.nodes if not n.is_leaf]
    assert [n.title for n in parts] == [f"S{i}" for i in range(len(sizes))]
    assert [text[n.start : n.end] for n in parts] == ["\n\n".join(part) for part in paragraphs]


def spans_of(text, *clipped):
    return [None if span is None else text[slice(*span)] for span in place_clips(clipped, text)]


FILLS = [
    ("white space may differ", "a  b\nc d. x", [Clip("a b", "d.")], ["a  b\nc d."]),
    ("dots of the text itself", "go on.... He went.", [Clip("go on", ".... He went.")], ["go on.... He went."]),
    ("a mark beside a full stop", "It ends. More. It was so.", [Clip("It ends", ". It was so.")], ["It ends. More. It was so."]),
    ("a clip that is nowhere", "a b c", [Clip("x y", "z"), Clip("a b c")], [None, "a b c"]),
    ("a wrong clip that would eat all", "a b. c d. e f.", [Clip("a", "f."), Clip("a b."), Clip("c d."), Clip("e f.")],
     [None, "a b.", "c d.", "e f."]),
    ("two that are alike", "x y. x y.", [Clip("x y."), Clip("x y.")], ["x y.", "x y."]),
    ("a third has no place left", "x y. x y.", [Clip("x y."), Clip("x y."), Clip("x y.")], ["x y.", "x y.", None]),
    ("the outer four words", "a b c d E e f g h i", [Clip("a b c d wrong", "wrong f g h i")], ["a b c d E e f g h i"]),
    ("the tail that reaches farthest", "a. b. a. b. c", [Clip("a.", "b.")], ["a. b. a. b."]),
    ("but not over the next", "a. b. a. b. c", [Clip("a.", "b."), Clip("a.", "c")], ["a. b.", "a. b. c"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "clipped", "found"), [row[1:] for row in FILLS], ids=[row[0] for row in FILLS]
)
def test_filling(text, clipped, found):
    assert spans_of(text, *clipped) == found


GAPS = [
    # (text, outline, config, nodes as (kind, title, text))
    ("front text is the abstract", "Intro here. Body b.", "<section: S>Body b.</section: S>",
     [("abstract", "", "Intro here."), ("chunk", "", "Intro here."), ("section", "S", "Body b."), ("paragraph", "", "Body b.")]),
    ("a short gap goes with what is before it", "One a. lost. Two b.", "<abstract>One a.</abstract><section: S>Two b.",
     [("abstract", "", "One a. lost."), ("paragraph", "", "One a. lost."), ("section", "S", "Two b."),
      ("paragraph", "", "Two b.")]),
    ("nothing parses", "One. Two. Three.", "no outline at all", [("chunk", "", "One. Two."), ("chunk", "", "Three.")]),
    ("no clip is in the text", "One. Two. Three.", "<section: S>other ... words</section: S>",
     [("chunk", "", "One. Two."), ("chunk", "", "Three.")]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "output", "nodes"), [row[1:] for row in GAPS], ids=[row[0] for row in GAPS]
)
def test_gaps(text, output, nodes):
    tree = build_tree(
        text,
        parse_outline(output),
        LongRefinerConfig(scoring="bm25", paragraph_words=20, chunk_sentences=2),
        MODEL,
    )
    assert [(n.kind, n.title, text[n.start : n.end]) for n in tree.nodes] == nodes
    whole(tree, text)


def test_a_long_gap_belongs_to_what_both_sides_have_in_common():
    gap = "Some five words are here. " * 4
    text = f"One a. {gap}Two b. {gap}Three c."
    output = "<section: S><sub-section: T>One a.</sub-section><sub-section: U>Two b.</sub-section></section><section: V>Three c."
    tree = build_tree(
        text, parse_outline(output), LongRefinerConfig(scoring="bm25", paragraph_words=10), MODEL
    )
    levels = [(n.kind, n.title, n.parent) for n in tree.nodes]
    assert levels == [
        ("section", "S", -1), ("sub-section", "T", 0), ("paragraph", "", 1), ("chunk", "", 0), ("sub-section", "U", 0),
        ("paragraph", "", 4), ("chunk", "", -1), ("section", "V", -1), ("paragraph", "", 7),
    ]  # fmt: skip


def test_paragraphs_are_put_together_until_they_have_enough_words():
    text = "a b c. d e. f g h i j k. l."
    output = "<section: S>a b c.<br>d e.<br>f g h i j k.<br>l.</section: S>"
    tree = build_tree(
        text, parse_outline(output), LongRefinerConfig(scoring="bm25", paragraph_words=4), MODEL
    )
    assert [text[n.start : n.end] for n in tree.nodes if n.is_leaf] == [
        "a b c. d e.",
        "f g h i j k.",
        "l.",
    ]


def test_a_long_paragraph_is_several_leaves():
    text = "One two three. Four five six. Seven eight nine."
    outline = parse_outline(f"<section: S>{text}</section: S>")
    for tokens, leaves in (
        (6, ["One two three. Four five six.", "Seven eight nine."]),
        (None, [text]),
    ):
        tree = build_tree(text, outline, CONFIG.model_copy(update={"leaf_tokens": tokens}), MODEL)
        assert [text[n.start : n.end] for n in tree.nodes if n.is_leaf] == leaves


@pytest.mark.parametrize("text", ["", "  \n ", "x", "字" * 3000, "." * 20_000, "a b " * 5000])
def test_awkward_texts_are_covered(text):
    for output in ("", "<section: S>" + text[:40], "<abstract>a ... b</abstract>"):
        whole(
            build_tree(
                text,
                parse_outline(output),
                LongRefinerConfig(scoring="bm25", leaf_tokens=50),
                MODEL,
            ),
            text,
        )


# A section without text in the document; the other seven empty ones of the outlines have some.
BARE = ("Winners and nominees",)


@needs_real
@pytest.mark.parametrize("row", range(10))
def test_released_samples(row):
    sample = json.loads(
        real("data", "longrefiner", "step2_doc-structuring.json").read_text("utf-8")
    )[row]
    text, output = sample["input"], sample["output"]
    tree = build_tree(text, parse_outline(output), LongRefinerConfig(scoring="bm25"), MODEL)
    whole(tree, text)
    assert tree.structured >= 0.98
    assert tree.placed >= 0.93
    for kind, pattern in (
        ("section", r"<section: (.*?)>"),
        ("sub-section", r"<sub-section: (.*?)>"),
    ):
        named = [title for title in re.findall(pattern, output) if title not in BARE]
        assert [n.title for n in tree.nodes if n.kind == kind] == [
            " ".join(title.split()) for title in named
        ]
    assert parse_outline(write_outline(parse_outline(output))) == parse_outline(output)
