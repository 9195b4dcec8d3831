"""The one-paragraph summary that methods without a prompt of their own share.

Tree methods (RAPTOR, MemWalker) and summary memories ask for one; those whose paper prints a prompt use that instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.llm.base import MeteredModel
from harness.method import Scene, Skill, Tools

__all__ = ["PROMPTS", "SKILLS", "summarise"]

HEAD = "Summarise the text below in one paragraph. Keep all names and numbers.\n\nText:\n"
TAIL = "\n\nThe text ends here. Write the summary in one paragraph.\n\nSummary:"
PROMPTS = {"summary head": HEAD, "summary tail": TAIL}


def summarise(texts: Sequence[str], model: MeteredModel, max_tokens: int) -> str:
    """One paragraph about `texts`, at most `max_tokens` tokens (or what the window leaves), stripped."""
    with model.session() as s:
        s.user(HEAD)
        for i, text in enumerate(texts):
            s.feed("\n" if i else "")
            s.feed(text)
        s.feed(TAIL)
        return s.write(min(max_tokens, s.room() - model.turn_tokens())).text.strip()


def _summary(scene: Scene, tools: Tools) -> None:
    model = tools.model("builder")
    summarise(scene.texts, model, model.window)


SKILLS = [Skill("summary", "summary", _summary)]
