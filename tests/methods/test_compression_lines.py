"""Contexts as FlashRAG cuts them, a line each, for LongLLMLingua and LLMLingua-2; and the presets
of both."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from harness.llm.scripted import Rule
from harness.types import Document, Passage, Question
from methods.compression import LLMLingua2, LongLLMLingua, lingua2
from methods.compression.classifier import Tokenized
from methods.compression.contexts import titled_line_spans
from tests.methods.conftest import FakeTools
from tests.methods.table_model import Table

QUESTION = Question("q", "Who rowed?", ("d",))
LONG = " ".join(f"w{i % 10}" for i in range(700))


def document(*pages):
    """Pages under their titles with a blank line between, as several documents are joined to
    one."""
    text, passages = "", []
    for title, body in pages:
        start = len(text) + 2 * bool(text)
        text = "\n\n".join(part for part in (text, f"{title}\n{body}" if title else body) if part)
        passages.append(Passage(title, start, len(text)))
    return Document("d", text, passages=tuple(passages))


@pytest.mark.parametrize(
    ("pages", "contexts"),
    [
        ((("Mira", "a b.\nc d."), ("Toren", "e f.")), ["Mira\na b.", "c d.", "Toren\ne f."]),
        ((("", "a b.\n\nc d."),), ["a b.", "c d."]),
        ((("Mira", "\n  a b.  \n"),), ["Mira\n\n  a b."]),
        ((("Mira", ""), ("Toren", "e f.")), ["Mira\n\n\nToren", "e f."]),  # a page of a title alone
        ((("", ""),), []),
    ],
)
def test_a_title_stands_before_the_first_line_of_its_page(pages, contexts):
    found = document(*pages)
    assert [found.text[a:b] for a, b in titled_line_spans(found)] == contexts


def ranked(window, **settings):
    """The contexts that LongLLMLingua ranked, in the order of the text."""
    tools = FakeTools([Rule(reply="Mira")], compressor=Table(window=window), window=20_000)
    method = LongLLMLingua(LongLLMLingua.Config(target_tokens=5000, **settings))
    given = document(("Mira", LONG), ("Toren", "w3 w4.\nw5 w6."))
    result = method.answer(QUESTION, [given], [{}], tools)
    spans = sorted((s.shown.start, s.shown.end) for s in result.steps if s.action == "context")
    return [given.text[a:b] for a, b in spans]


def test_a_line_is_one_context_whatever_its_length():
    assert ranked(8192, contexts="titled-lines") == [f"Mira\n{LONG}", "Toren\nw3 w4.", "w5 w6."]
    # Before, and with "lines": a title alone, and a line of 700 tokens in parts of 300.
    assert [len(text.split()) for text in ranked(8192, contexts="lines")] == [
        1,
        300,
        300,
        100,
        1,
        2,
        2,
    ]


def test_a_line_that_the_compressors_window_does_not_hold_is_cut_there():
    first, second, *rest = ranked(600, contexts="titled-lines")
    assert 500 < len(first.split()) < 600
    assert (first + second).split() == ["Mira", *LONG.split()]
    assert rest == ["Toren\nw3 w4.", "w5 w6."]


class Digits:
    """A token is a word with the space before it; "w7" is kept with probability 0.7. Counts its
    requests."""

    max_tokens, style = 100, "metaspace"

    def __init__(self):
        self.requests = 0

    def tokenize(self, text):
        spans = [m.span() for m in re.finditer(r"\S+", text)]
        return Tokenized([f"\u2581{text[a:b]}" for a, b in spans], spans)

    def keep_probabilities(self, tokens):
        self.requests += 1
        return np.array([int(token[-1]) / 10 for token in tokens])


# Means .8, .2, .5 and .4 of four tokens each.
LINES = "w9 w9 w7 w7\nw1 w3 w2 w2\nw5 w5 w4 w6\nw4 w4 w4 w4"


@pytest.mark.parametrize(
    ("settings", "wanted", "requests"),
    [
        # Twice 5 of 16 tokens: percentile int(100 * 0.375) = 37 of .2 .4 .5 .8 is .411, so two
        # lines stay: 8 tokens. Then 5 of 8: percentile int(37.5 + 1) = 38 of 9 9 7 7 is .7, of 5 5
        # 4 6 it is .5; words above it.
        ({"target_tokens": 5}, "w9 w9\n\nw6", 4),
        # A rate of 0.5: contexts at (0.5 + 1) / 2, the percentile 25 is .35; percentile 51 of each
        # line.
        ({"rate": 0.5}, "w9 w9\n\nw6", 4),
        ({"rate": 0.5, "use_context_level_filter": False}, "w9 w9\n\nw3\n\nw6", 4),
        # 20 tokens are more than there are: all stays.
        ({"target_tokens": 20}, LINES.replace("\n", "\n\n"), 4),
        # One context of all 16: percentile int(68.75 + 1) = 69 is .5.
        ({"target_tokens": 5, "contexts": "whole"}, "w9 w9 w7 w7 w6", 1),
    ],
)
def test_lines_of_the_lowest_mean_are_left_out_first(settings, wanted, requests, monkeypatch):
    classifier = Digits()
    monkeypatch.setattr(lingua2, "load_classifier", lambda *_: classifier)
    monkeypatch.setattr(
        lingua2, "locate_and_hash_weights", lambda _: SimpleNamespace(identity="digits")
    )
    method = LLMLingua2(LLMLingua2.Config(**{"contexts": "titled-lines", **settings}))
    index = method.index(Document("d", LINES), FakeTools())
    text = "".join(
        piece if isinstance(piece, str) else LINES[slice(*piece)] for piece in index["pieces"]
    )
    assert text.split() == wanted.split()
    assert text.count("\n\n") == wanted.count("\n\n")
    assert index["tokens"] == [16, len(wanted.split())]
    assert classifier.requests == requests
