"""A summary of some texts in one request: the prompts that methods share, and how they are sent.

SUMMARY     methods whose papers print no prompt for it (docs/methods/shared.md#shared-summary)
DETAILED    RAPTOR and the trees that follow it (docs/methods/raptor.md#raptor-summary)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from harness.errors import WindowExceeded
from harness.method import Scene, Skill, Tools
from harness.models import MeteredModel
from harness.prompts import Prompt, feed, prompt_tokens

SUMMARY = Prompt(
    "summary",
    "Summarise the text below in one paragraph. Keep all names and numbers.\n\nText:\n{text}\n\nThe text ends here. "
    "Write the summary in one paragraph.\n\nSummary:",
)
DETAILED = Prompt(
    "summary",
    "Summarise the text below, and keep as many of its important details as you can.\n\nText:\n{text}\n\nThe text ends "
    "here. Write the summary.\n\nSummary:",
)


class Summary(NamedTuple):
    """text: stripped; attention: mean over layers, heads and tokens of the text to each summarised one, [texts] (None
    where it was not watched); cut: ended by the limit of tokens.
    """

    text: str
    attention: np.ndarray | None
    cut: bool


def frame_tokens(model: MeteredModel, prompt: Prompt) -> int:
    """Tokens of a request beside the texts (each on a line of its own) and the summary."""
    return prompt_tokens(prompt.fill(text=[]), model)


def summarise(texts: Sequence[str], model: MeteredModel, max_tokens: int, prompt: Prompt) -> str:
    """One paragraph about `texts`, at most `max_tokens` tokens (or what the window leaves), stripped."""
    return _write(texts, model, max_tokens, prompt, watch=False).text


def summarise_watched(texts: Sequence[str], model: MeteredModel, max_tokens: int, prompt: Prompt) -> Summary:
    """As `summarise`, with the attention of the summary to each of `texts`; needs the capability "attention"."""
    return _write(texts, model, max_tokens, prompt, watch=True)


def _write(texts: Sequence[str], model: MeteredModel, max_tokens: int, prompt: Prompt, watch: bool) -> Summary:
    before, behind = prompt.around("text")
    with model.session() as s:
        feed(s, before)
        spans = []
        for i, text in enumerate(texts):
            s.feed("\n" if i else "")
            spans.append(s.feed(text))
        for piece in behind:
            s.feed(piece)
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


@cache
def skills(prompt: Prompt) -> list[Skill]:
    """A summary as `prompt` asks for it."""

    def summary(scene: Scene, tools: Tools) -> None:
        model = tools.model("builder")
        summarise(scene.texts, model, model.window, prompt)

    return [Skill("summary", "summary", summary)]


SKILLS = skills(SUMMARY)
