"""Passages that a retriever of the user's own found (--retriever), as a method shows them.

    Hit("setup.md", "The warranty ...", 7.2)  ->  Shown("quote", text="The warranty ...")    what the reader sees
                                                  Shown("source", text="setup.md")           its page
                                                  Step("retrieve", 0, {"retriever": 7.2})    its place and score

Where the text is in the documents is found afterwards (harness/engine/named_sources.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.method import Hit, Tools
from harness.types import Document, Shown, Step

MAX_HITS = 100
"""Passages that are asked for where a method shows as many as fit, or lets a reranker choose."""


def texts_of(hits: Sequence[Hit]) -> list[str]:
    """The texts of passages that a retriever found, in their order."""
    return [text_of(hit) for hit in hits]


def text_of(hit: Hit) -> str:
    """The text of a passage. The retriever may leave it None; the engine has filled it in before a
    method sees the hit."""
    assert hit.text is not None
    return hit.text


def shown_hits(hits: Sequence[Hit]) -> tuple[Shown, ...]:
    """What the reader sees of the passages: a "quote" with the text of each, then a "source" with
    the name of the page of each that has one."""
    quotes: list[Shown] = []
    pages: list[Shown] = []
    for hit in hits:
        quotes.append(Shown("quote", text=text_of(hit)))
        if hit.page:
            pages.append(Shown("source", text=hit.page))
    return (*quotes, *pages)


def retrieve_steps_of_hits(hits: Sequence[Hit], tools: Tools) -> list[Step]:
    """A step "retrieve" of the trace for each passage that was found, best first.

    Each has the passage's rank (from 0) as its node, the retriever's score, the tokens of its
    text, what the question has cost so far, its text, and its page as a note.
    """
    model, flops = tools.model(), tools.meter.flops()
    steps: list[Step] = []
    for rank, hit in enumerate(hits):
        text = text_of(hit)
        scores: dict[str, float] = {}
        if hit.score is not None:
            scores["retriever"] = hit.score
        shown = Shown("quote", text=text)
        step = Step("retrieve", rank, scores=scores, tokens=model.count(text), flops=flops)
        steps.append(replace(step, shown=shown, note=hit.page))
    return steps


def in_document_order(hits: Sequence[Hit], documents: Sequence[Document]) -> list[Hit]:
    """The passages in the order in which their texts stand in the documents, one after another;
    those whose text is in none come last."""
    whole_text = "\n\n".join(document.text for document in documents)

    def first_character(hit: Hit) -> int:
        """The first character of a hit's text in `whole_text`; the length of that where it is not
        found."""
        position = whole_text.find(text_of(hit).strip())
        if position < 0:
            return len(whole_text)
        return position

    return sorted(hits, key=first_character)
