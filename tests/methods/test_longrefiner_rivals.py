"""LongRefiner's rivals: cuts by rule, cuts by perplexity, and the best segments up to a budget."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.types import Document, Question
from methods.packing import sentences
from methods.segmenting import (
    JinaSegments,
    MetaChunking,
    SegmentConfig,
    SentenceSegments,
    packed_segments,
    perplexities,
    perplexity_segments,
    segment_ends,
)
from tests.methods.conftest import FakeTools

MODEL = FakeTools().model()
QUESTION = Question("q", "Where is the bridge?", ("d",))


def texts(text, spans):
    return [text[a:b] for a, b in spans]


CUTS = [
    ("all of it fits", "A b. C d.\n\nE f.", 6, ["A b. C d.\n\nE f."]),
    ("blank lines come first", "A b. C d.\n\nE f.", 4, ["A b. C d.", "E f."]),
    ("then lines", "A b\nC d. E f", 4, ["A b", "C d. E f"]),
    ("then sentences", "A b c. D e f. G h i.", 6, ["A b c. D e f.", "G h i."]),
    ("a token that begins before the cut", " \na a", 1, ["a", "a"]),
    ("then tokens", "a b c d e f g", 3, ["a b c", "d e f", "g"]),
    ("neighbours are packed", "A.\n\nB.\n\nC.\n\nD e f.", 3, ["A.\n\nB.\n\nC.", "D e f."]),
    ("no text", " \n\n ", 3, []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "size", "found"), [row[1:] for row in CUTS], ids=[row[0] for row in CUTS]
)
def test_cuts_by_rule(text, size, found):
    assert texts(text, packed_segments(text, size, MODEL)) == found


pieces = st.lists(
    st.sampled_from(["a", "bb", "c.", "d!", " ", "\n", "\n\n", "字。"]), max_size=30
).map("".join)


@settings(max_examples=100, deadline=None)
@given(pieces, st.integers(1, 6))
def test_segments_cover_every_word_in_order(text, size):
    for spans in (
        packed_segments(text, size, MODEL),
        perplexity_segments(text, 0.5, size, MODEL, 4),
    ):
        assert "".join("".join(texts(text, spans)).split()) == "".join(text.split())
        assert all(a < b for a, b in spans)
        assert spans == sorted(spans)
    assert all(MODEL.count(t) <= size for t in texts(text, packed_segments(text, size, MODEL)))


class Trailing:
    """A tokenizer whose tokens keep the white space behind them."""

    def offsets(self, text):
        return [m.span() for m in re.finditer(r"\S+\s*", text)]


def test_other_cuts_have_another_version():
    # Cuts are stored under the version: change this pair together.
    text = "a b\nc d"
    assert (JinaSegments.index_version, texts(text, packed_segments(text, 2, Trailing()))) == (
        "3",
        ["a b", "c", "d"],
    )


MINIMA = [
    # perplexities, threshold, sentences that end a segment
    ([3, 1, 3], 0.5, [1]),
    ([1.3, 1, 1.6], 0.5, [1]),  # the rise is enough
    ([1.6, 1, 1.3], 0.5, [1]),  # the fall is enough
    ([1.3, 1, 1.3], 0.5, []),
    ([1.3, 1, 1.3], 0.0, [1]),
    ([1.5, 1, 1.2], 0.5, [1]),  # just the threshold
    ([2, 1, 1, 2], 0.5, [1]),  # a plateau ends behind its first
    ([1.2, 1, 1, 2], 0.5, []),  # where the fall is enough
    ([1, 2, 3], 0.5, []),
    ([1, 1, 1], 0.0, []),
    ([3, 1, 3, 1, 3], 0.5, [1, 3]),
    ([1, 2], 0.5, []),
    ([], 0.5, []),
]


@pytest.mark.parametrize(("ppl", "threshold", "ends"), MINIMA)
def test_minima(ppl, threshold, ends):
    assert segment_ends(ppl, threshold) == ends


def test_perplexity_is_the_mean_of_a_sentences_tokens_without_the_first_of_all():
    # The scripted model's n-th token of a scored text has the log-probability -n.
    text, spans = "a b. c d e. f.", [(0, 4), (5, 11), (12, 14)]
    assert perplexities(text, spans, MODEL, 100, 100) == pytest.approx([2.0, (3 + 4 + 5) / 3, 6.0])
    # Windows of whole sentences behind what is left of 24 tokens.
    assert perplexities(text, spans, MODEL, 24, 5) == pytest.approx([2.0, 4.0, 1.0])
    # Where nothing is left for what comes before, each window begins as a text does.
    assert perplexities(text, spans, MODEL, 5, 5) == pytest.approx([2.0, 2.0, 0.0])
    # A sentence that fills more than a window is scored by what fits.
    assert perplexities("a b c d e f g.", [(0, 14)], MODEL, 3, 3) == pytest.approx([2.5])
    assert perplexities("", [], MODEL, 3, 3) == []


class Warming:
    """A model that finds a token the likelier the more tokens, up to 8, stand before it; counts
    what it encodes."""

    window, name = 4096, "warming"

    def __init__(self):
        self.encoded, self.behind, self.scored = 0, 0, []

    def turn_tokens(self):
        return 0

    def offsets(self, text):
        self.encoded += len(text)
        return [m.span() for m in re.finditer(r"\s*\S+", text)]

    def count(self, text):
        return len(self.offsets(text))

    def session(self):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.behind = 0

    def begin_text(self):
        self.behind = 0

    def user(self, text=""):
        self.behind = len(text.split())

    def score(self, text):
        self.scored.append((self.behind, len(text.split())))
        return [-1.0 - max(0, 8 - self.behind - i) for i in range(len(text.split()))]


def test_a_new_window_is_no_cold_start():
    # 300 sentences of 4 tokens: once warm all are alike, so no window's edge is a minimum.
    text = " ".join(f"w{i} is so long." for i in range(300))
    model = Warming()
    ppl = perplexities(text, sentences(text), model, 200, 80)
    assert ppl[2:] == pytest.approx([1.0] * 298)
    assert segment_ends(ppl, 0.5) == [2], "only where the text itself has become warm"
    assert model.scored == [(min(80 * k, 112), 80) for k in range(15)]
    # The text is encoded as a whole once, and once more in windows, not once a sentence.
    assert model.encoded <= 2.1 * len(text)


def test_the_window_of_a_short_model_is_shared_with_what_comes_before():
    text = " ".join(f"w{i} is so long." for i in range(100))
    model = Warming()
    model.window = 108
    warm = text.index("w3") - 1
    assert perplexity_segments(text, 0.5, 4000, model, 8192) == [(0, warm), (warm + 1, len(text))]
    assert [n for _, n in model.scored] == [48] * 8 + [16]
    assert all(behind == 42 for behind, _ in model.scored[1:])


def made(kind, **params):
    return kind(kind.Config(**{"scoring": "bm25", "segment_tokens": 8, "budget": 12, **params}))


DOCUMENTS = (
    Document(
        "d", "The bridge is in Kelford. It is old. Nobody knows who built it. Rain fell.", "Kelford"
    ),
    Document("e", "A school is in Toren. Its bridge fell down. Nothing stands there.", "Toren"),
)


def ask(method, documents=DOCUMENTS, **more):
    tools = FakeTools(({"reply": "Kelford"},), **more)
    indexes = [method.index(d, tools) for d in documents]
    return method.answer(QUESTION, list(documents), indexes, tools), tools


@pytest.mark.parametrize(
    ("kind", "params"),
    [(JinaSegments, {}), (MetaChunking, {}), (SentenceSegments, {"sentences": 1})],
)
def test_the_best_segments_are_read_under_their_titles(kind, params):
    found, tools = ask(made(kind, **params))
    assert found.text == "Kelford"
    first = found.steps[0]
    assert (first.shown.document_id, first.shown.start) == ("d", 0)
    assert "Kelford\nThe bridge is" in tools.reader.prompts[-1]
    scores = [s.scores["score"] for s in found.steps]
    assert scores == sorted(scores, reverse=True)
    assert sum(s.tokens for s in found.steps) + len(found.steps) - 1 <= 12
    assert found.stop_reason == "budget"
    _, tools = ask(made(kind, titles=False, **params))
    assert "Text:\nThe bridge is" in tools.reader.prompts[-1]


def test_what_is_there_twice_is_ranked_once_and_nothing_may_fit():
    found, _ = ask(made(JinaSegments, budget=500), (*DOCUMENTS, DOCUMENTS[0]))
    spans = [(s.shown.document_id, s.shown.start) for s in found.steps]
    assert len(spans) == len(set(spans))
    assert found.stop_reason == "exhausted"
    assert ask(made(JinaSegments, budget=1))[0].stop_reason == "budget: not even one segment fits"
    assert ask(made(MetaChunking), (Document("d", ""),))[0].stop_reason == "no text"


def test_sentences_of_a_segment():
    index = made(SentenceSegments, sentences=2).index(DOCUMENTS[0], FakeTools())
    text = DOCUMENTS[0].text
    assert [text[a:b] for a, b in index["segments"]] == [
        "The bridge is in Kelford. It is old.", "Nobody knows who built it. Rain fell.",
    ]  # fmt: skip
    assert SegmentConfig().segment_tokens == 500
