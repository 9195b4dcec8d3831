"""The one-paragraph summary that methods without a prompt of their own share.

Tree methods (RAPTOR, MemWalker) and summary memories ask for one; those whose paper prints a prompt use that instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from harness.errors import WindowExceeded
from harness.llm.base import MeteredModel
from harness.method import Scene, Skill, Tools

__all__ = ["PROMPTS", "SKILLS", "Summary", "frame_tokens", "summarise", "summarise_watched"]

HEAD = "Summarise the text below in one paragraph. Keep all names and numbers.\n\nText:\n"
TAIL = "\n\nThe text ends here. Write the summary in one paragraph.\n\nSummary:"
PROMPTS = {"summary head": HEAD, "summary tail": TAIL}


class Summary(NamedTuple):
    """text: stripped; attention: mean over layers, heads and tokens of the text to each summarised one, [texts] (None
    where it was not watched); cut: ended by the limit of tokens.
    """

    text: str
    attention: np.ndarray | None
    cut: bool


def frame_tokens(model: MeteredModel) -> int:
    """Tokens of a request beside the texts (each on a line of its own) and the summary."""
    return model.turn_tokens() + model.count(HEAD) + model.count(TAIL)


def summarise(texts: Sequence[str], model: MeteredModel, max_tokens: int) -> str:
    """One paragraph about `texts`, at most `max_tokens` tokens (or what the window leaves), stripped."""
    return _write(texts, model, max_tokens, watch=False).text


def summarise_watched(texts: Sequence[str], model: MeteredModel, max_tokens: int) -> Summary:
    """As `summarise`, with the attention of the summary to each of `texts`; needs the capability "attention"."""
    return _write(texts, model, max_tokens, watch=True)


def _write(texts: Sequence[str], model: MeteredModel, max_tokens: int, watch: bool) -> Summary:
    with model.session() as s:
        s.user(HEAD)
        spans = []
        for i, text in enumerate(texts):
            s.feed("\n" if i else "")
            spans.append(s.feed(text))
        s.feed(TAIL)
        left = min(max_tokens, s.room() - model.turn_tokens())
        if left < 1:
            raise WindowExceeded(
                f"{s.length()} tokens of text and prompt leave no room for a summary in the window of {model.window} "
                f"of '{model.name}'; summarise less at once, or raise model.window"
            )
        out = s.write(left, watch=spans if watch else ())
    text = out.text.strip()
    start = len(out.text) - len(out.text.lstrip())
    row = out.attention_between(start, start + len(text)) if watch else None
    return Summary(text, row, out.finish == "length")


def _summary(scene: Scene, tools: Tools) -> None:
    model = tools.model("builder")
    summarise(scene.texts, model, model.window)


SKILLS = [Skill("summary", "summary", _summary)]
