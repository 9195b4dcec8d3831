"""What prompt compression asks of a compressor: a question is likely behind its text, and a text behind its question.

"compressor ranking"   scene "followed": the text, then the question and the restrictive sentence are scored
"compressor text"      scene "guessed":  the question (or nothing), then the text is scored, token by token

A model that learns replies only finds every text about equally surprising, and what is kept of it is chance.
"""

from __future__ import annotations

from functools import cache

from harness.method import Scene, Skill, Tools
from harness.prompts import Prompt
from methods.compression.show import SEPARATOR
from methods.compression.surprise import opened


def _text(scene: Scene, tools: Tools) -> None:
    text = scene.question.text
    with opened(tools.model("compressor")) as s:
        s.feed(text + SEPARATOR if text else "")
        s.score(scene.texts[0])


@cache
def ranking(restrictive: Prompt) -> Skill:
    """A question is likely behind its text; `restrictive` is the sentence behind the question."""

    def play(scene: Scene, tools: Tools) -> None:
        with opened(tools.model("compressor")) as s:
            s.feed(scene.texts[0])
            s.score(scene.question.text + restrictive.text)

    return Skill("compressor ranking", "followed", play)


TEXT = Skill("compressor text", "guessed", _text)
