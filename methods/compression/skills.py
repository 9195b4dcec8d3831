"""What prompt compression asks of a compressor: a question is likely behind its text, and a text behind its question.

"compressor ranking"   scene "followed": the text, then the question and the restrictive sentence are scored
"compressor text"      scene "guessed":  the question (or nothing), then the text is scored, token by token

A model that learns replies only finds every text about equally surprising, and what is kept of it is chance.
"""

from __future__ import annotations

from harness.method import Scene, Skill, Tools
from methods.compression.ranking import RESTRICTIVE
from methods.compression.show import SEPARATOR
from methods.compression.surprise import opened

__all__ = ["RANKING", "TEXT"]


def _ranking(scene: Scene, tools: Tools) -> None:
    with opened(tools.model("compressor")) as s:
        s.feed(scene.texts[0])
        s.score(scene.question.text + RESTRICTIVE)


def _text(scene: Scene, tools: Tools) -> None:
    asked = scene.question.text
    with opened(tools.model("compressor")) as s:
        s.feed(asked + SEPARATOR if asked else "")
        s.score(scene.texts[0])


RANKING = Skill("compressor ranking", "followed", _ranking)
TEXT = Skill("compressor text", "guessed", _text)
