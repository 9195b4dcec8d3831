"""The skills of compressors.

A compressor learns to find a question likely after its text, and a text after its question; a
model that learns replies only finds every text about equally surprising.

"compressor ranking"   scene "followed": the text, then the question and the restrictive sentence are scored
"compressor text"      scene "guessed":  the question (or nothing), then the text is scored, token by token
"""

from harness.method import MethodConfig, Tools
from harness_training.method_skills import reading
from harness_training.tasks import Scene, Skill
from methods.compression.contexts import RESTRICTIVE_SENTENCE
from methods.compression.show import SEPARATOR
from methods.compression.surprise import open_context


def _play_text(scene: Scene, tools: Tools) -> None:
    """Let the compressor score a scene's text after its question, or after nothing where there is
    none."""
    with open_context(tools.model("compressor")) as session:
        session.feed(_question_before(scene.question.text))
        session.score(scene.texts[0])


def _question_before(question: str) -> str:
    """The question with the separator after it, as it stands before a text; "" for none."""
    if not question:
        return ""
    return question + SEPARATOR


def _play_ranking(scene: Scene, tools: Tools) -> None:
    """Let the compressor score a scene's question and the restrictive sentence after its text."""
    with open_context(tools.model("compressor")) as session:
        session.feed(scene.texts[0])
        session.score(scene.question.text + RESTRICTIVE_SENTENCE)


_RANKING = Skill("compressor ranking", "followed", _play_ranking)
_TEXT = Skill("compressor text", "guessed", _play_text)


def text_skills(config: MethodConfig) -> list[Skill]:
    """The skills "answer", "choose" and "compressor text"."""
    return [*reading.skills(config), _TEXT]


def ranking_skills(config: MethodConfig) -> list[Skill]:
    """The skills "answer", "choose", "compressor ranking" and "compressor text"."""
    return [*reading.skills(config), _RANKING, _TEXT]
