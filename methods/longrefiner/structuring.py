"""Task 2, once a document: the model writes its outline, and the outline is filled from the text (LongRefiner 3.2)."""

from __future__ import annotations

from harness.errors import WindowExceeded
from harness.method import Tools
from harness.models import MeteredModel
from harness.prompts import feed, prompt_tokens
from harness.types import Document
from methods.chunks import Span, keep
from methods.longrefiner import prompts
from methods.longrefiner.config import LongRefinerConfig
from methods.longrefiner.grammar import Part, parse
from methods.longrefiner.pages import body, joined
from methods.longrefiner.tree import Tree, build

_SHARE = 0.4  # of a short window, for the outline
_SPARE = 64  # tokens of an outline beside twice those of its text: a longer one repeats itself


def body_start(document: Document) -> int:
    """The start of the text after a first line with the document's title; 0 without such a line or other text."""
    line, _, body = document.text.partition("\n")
    titled = bool(line.strip()) and line.strip().strip('"') == document.title.strip()
    return len(document.text) - len(body.lstrip()) if titled and body.strip() else 0


def text_spans(document: Document, keep_headings: bool) -> list[Span]:
    """The spans of a document that are structured: without its title line and, unless they are kept, headings."""
    start = body_start(document)
    spans = [] if keep_headings else [(start + a, start + b) for a, b in body(document.text[start:])]
    return spans if any(document.text[a:b].strip() for a, b in spans) else [(start, len(document.text))]


def structure(document: Document, config: LongRefinerConfig, tools: Tools) -> Tree:
    """The tree of `document` without its title line, as the released code makes it.

    Source: docs/methods/longrefiner.md#longrefiner-title.

    Without an outline that matches the text, the tree has chunks of sentences. Raises WindowExceeded if the prompt
    alone fills the window.
    """
    outer = Tree(kept=text_spans(document, config.keep_headings))
    tree = _structured(outer.view(document).text, config, tools)
    tree.kept = joined([span for a, b in tree.kept for span in outer.original(a, b)]) if tree.kept else outer.kept
    return tree


def _structured(text: str, config: LongRefinerConfig, tools: Tools) -> Tree:
    """The tree of a text."""
    model = tools.model("refiner")
    if not config.structuring or not text.strip():
        return build(text, Part("root"), config, model)
    frame = prompt_tokens(prompts.structuring(["", ""], config), model)
    room = model.window - frame
    outline = min(config.outline_tokens, int(room * _SHARE))
    if outline < 1:
        raise WindowExceeded(
            f"the window of '{model.name}' ({model.window} tokens) has no room for a document beside the prompt of "
            f"{frame} tokens that asks for its outline; raise model.window or set method.structuring=false"
        )
    spans, tokens = keep(text, min(config.document_tokens, room - outline), model)
    seen = [text[a:b] for a, b in spans]
    most = min(config.outline_tokens, 2 * tokens + _SPARE)
    written, finish = tools.keep("outline", lambda: _written(seen, most, config, model))
    tree = build(text, parse(written), config, model)
    if spans != [(0, len(text))]:
        read = sum(map(model.count, seen))
        tree.notes.append(f"the outline is of {read} of {tokens} tokens, the middle was left out")
    if finish == "length":
        tree.notes.append("the outline ended at its limit of tokens")
    return tree


def _written(texts: list[str], most: int, config: LongRefinerConfig, model: MeteredModel) -> tuple[str, str]:
    """The outline as the model writes it, and why it ended."""
    with model.session(config.adapter("structuring", model)) as s:
        feed(s, prompts.structuring(texts, config))
        out = s.write(min(most, s.room() - model.turn_tokens()))
    return out.text, out.finish
