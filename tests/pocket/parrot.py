"""A model that says what it is told, and skills that tell it: known answers for the exam."""

from collections.abc import Callable, Sequence
from typing import Any

from harness.cost.meter import Meter
from harness.method import Task, Tools
from harness.method.hooks import Scene, Skill
from harness.models import Decoding, LanguageModel, Probe, Session, Span, Written

TASK = Task(instruction="Answer.", max_answer_tokens=8)


class Parrot(Session):
    """Writes what it was fed last; P(first label) is the number it was fed last."""

    def __init__(self, meter: Meter, role: str) -> None:
        super().__init__("parrot", 10_000, meter, role)
        self.last, self.asked = "", 0

    def _open(self, turn: str) -> None: ...

    def _append(self, text: str) -> Span:
        self.last = text
        return Span(0, 0)

    def _first_token(self, label: str) -> str:
        return label

    def _probe(self, labels: Sequence[str], firsts: Sequence[str], after: str) -> Probe:
        p = float(self.last)
        return Probe({labels[0]: p, labels[1]: 1 - p}, {})

    def _write(self, how: Decoding, watch: Sequence[Span]) -> Written:
        self.asked = how.max_tokens
        return Written(self.last, Span(0, 0), "stop")

    def _check_window(self, tokens: int) -> None: ...

    def _save(self) -> Any: ...
    def _restore(self, state: Any) -> None: ...

    def length(self) -> int:
        return 0


class Parrots(LanguageModel):
    def __init__(self) -> None:
        self.name, self.capabilities, self.window, self.shape = "parrot", frozenset(), 10_000, None
        self.identity, self.first_prompts = {}, {}
        self.opened: list[Parrot] = []

    def session(self, meter: Meter, role: str = "reader", adapter: str | None = None) -> Parrot:
        self.opened.append(Parrot(meter, role))
        return self.opened[-1]

    def offsets(self, text: str) -> list[tuple[int, int]]:
        return [(i, i + 1) for i in range(len(text))]

    def turn_tokens(self) -> int:
        return 2


def skill(name: str, scene: str, says: Callable[[Scene], list[str]]) -> Skill:
    """A skill whose parrot probes and writes what `says` gives: as many numbers as verdicts, then the replies."""

    def play(scene: Scene, tools: Tools) -> None:
        with tools.model().session() as s:
            told = says(scene)
            for p in told[: len(scene.verdicts)]:
                s.user(p)
                s.probe(["Yes", "No"])
                s.reply("")
            for text in told[len(scene.verdicts) :]:
                s.user(text)
                s.write(100_000)

    return Skill(name, scene, play)


def knowing(scene: Scene) -> list[str]:
    return [str(float(v)) for v in scene.verdicts] + list(scene.replies)
