"""A model that knows the right replies: a method's own code runs on it, and what it would have to say is written down.

    teacher = Teacher(text, pieces)                   a tokenizer and its chat template, as in harness.llm
    told = teacher.play(skill, scene)                 runs skill.play(scene, tools)
    told.ids                                          the context, token by token
    told.targets                                      positions of tokens that the model is to write
    told.asides                                       probes: (position, tokens, how many of the last are targets)

So a prompt can never differ between training and use: both come from the same lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from harness.cost.meter import Meter
from harness.errors import UserError
from harness.llm.template import cut, no_system
from harness.llm.text import Text
from harness.method import Scene, Skill, Task
from harness.models import LanguageModel, MeteredModel, Probe, Session, Span, Written
from harness.types import Question

WINDOW = 2048
"""Tokens that the pocket model's window holds."""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Aside:
    """A probe behind the first `at` tokens of the context; the last of `ids` is the right label's first token."""

    at: int
    ids: tuple[int, ...]


@dataclass
class Told:
    """What a method fed and what the model is to say: `targets` are indices into `ids`."""

    ids: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    asides: list[Aside] = field(default_factory=list)


class Teacher(LanguageModel):
    """A LanguageModel without weights; see the module's docstring."""

    def __init__(self, tokenizer: Any, name: str = "teacher", window: int = WINDOW) -> None:
        self.name, self.window, self.shape = name, window, None
        self.capabilities = frozenset({"attention", "probe", "score", "sampling"})
        self.identity, self.first_prompts = {}, {}
        pieces = cut(tokenizer.apply_chat_template, name, "26 Jul 2024")
        self.text = Text(tokenizer, name, pieces)
        self.plain: Callable[[str], tuple[int, ...]] = lru_cache(maxsize=4096)(lambda t: tuple(self.text.plain(t)))
        self.begin, self.mid = self.text.trusted(pieces.begin), self.text.trusted(pieces.mid)
        self.next = self.text.trusted(pieces.next)
        self.system = None if pieces.system is None else tuple(self.text.trusted(text) for text in pieces.system)
        self._scene: Scene | None = None
        self._told = Told()

    def play(self, skill: Skill, scene: Scene) -> Told:
        """What `skill` feeds and should get in `scene`.

        Raises UserError when it asks for more replies or verdicts than the scene has, or leaves some.
        """
        self._scene, self._told = scene, Told()
        replies, verdicts = iter(scene.replies), iter(scene.verdicts)
        self.next_reply: Callable[[], str] = lambda: _next(replies, skill, "replies")
        self.next_verdict: Callable[[], bool] = lambda: _next(verdicts, skill, "verdicts")
        skill.play(scene, SceneTools(self, scene))
        if next(replies, None) is not None or next(verdicts, None) is not None:
            raise UserError(f"the skill '{skill.name}' did not ask for all that its scene knows")
        return self._told

    def session(self, meter: Meter, role: str = "reader", adapter: str | None = None) -> TeacherSession:
        """Open the one context of a scene."""
        return TeacherSession(self, self._told)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Character range of every token of `text`."""
        return self.text.offsets(text)

    def count(self, text: str) -> int:
        """Number of tokens of `text`."""
        return len(self.plain(text))

    def turn_tokens(self) -> int:
        """Tokens of one user turn's frame."""
        return len(self.begin) + len(self.mid)

    def system_tokens(self, text: str) -> int:
        """Tokens that a system turn adds. Raises CannotRun where the chat template has no system role."""
        if self.system is None:
            raise no_system(self.name)
        return sum(map(len, self.system)) + self.count(text) - len(self.begin)


def _next(items: Iterator[T], skill: Skill, what: str) -> T:
    for item in items:
        return item
    raise UserError(f"the skill '{skill.name}' asks for more {what} than a scene of kind '{skill.scene}' has")


class TeacherSession(Session):
    """Writes down what is fed; `write` and `probe` take what is right from the scene."""

    def __init__(self, model: Teacher, told: Told) -> None:
        if told.ids:
            raise UserError("a skill opens one session only; make two skills of it")
        self._model, self._told = model, told
        self._ended = False  # what was written ended its turn, so the next one only begins
        self._between: Sequence[int] | None = None  # behind a system turn: what stands before the user turn

    def _add(self, ids: Iterable[int]) -> Span:
        start = len(self._told.ids)
        self._told.ids.extend(ids)
        return Span(start, len(self._told.ids))

    def system(self, text: str) -> Span:
        """Begin with a system turn. Raises CannotRun where the chat template has no system role."""
        if self._told.ids:
            raise ValueError("system() comes before everything else in a context")
        if self._model.system is None:
            raise no_system(self._model.name)
        before, self._between = self._model.system
        self._add(before)
        return self._add(self._model.plain(text))

    def user(self, text: str = "") -> Span:
        """Open a user turn."""
        head = self._model.next if self._told.ids else self._model.begin
        if self._between is not None:
            head, self._between = list(self._between), None
        self._add(head[1:] if self._ended else head)
        self._ended = False
        return self._add(self._model.plain(text))

    def feed(self, text: str, watch: Sequence[Span] = ()) -> Span:
        """Append text."""
        span = self._add(self._model.plain(text))
        return Span(span.start, span.end, None, (0.0,) * len(watch))

    def flush(self) -> None:
        """Nothing is queued."""

    def probe(self, labels: Sequence[str], after: str = "") -> Probe:
        """Write down which label is right: the first where the scene says so, else the second."""
        right = labels[0] if self._model.next_verdict() else labels[1]
        ids = (*self._model.mid, *self._model.plain(after), self._model.plain(right)[0])
        self._told.asides.append(Aside(len(self._told.ids), ids))
        p = {label: float(label == right) for label in labels}
        return Probe(p, p)

    def reply(self, text: str) -> Span:
        """What the model is taken to have said: context, not a target."""
        self._add(self._model.mid)
        return self._add(self._model.plain(text))

    def write(
        self,
        max_tokens: int,
        stop: Sequence[str] = (),
        *,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int = 0,
        watch: Sequence[Span] = (),
        begin: str = "",
    ) -> Written:
        """Reply as the scene says, and end the turn; both are targets."""
        text = self._model.next_reply()
        self._add((*self._model.mid, *self._model.plain(begin)))
        span = self._add(self._model.plain(text))
        # The end of the turn is the first token of what the template puts between turns.
        self._told.targets += range(span.start, self._add(self._model.next[:1]).end)
        self._ended = True
        return Written(text, span, "stop")

    def score(self, text: str) -> list[float]:
        """All of `text` is what the model is to find likely; nothing can follow it."""
        span = self._add(self._model.plain(text))
        self._told.targets += range(span.start, span.end)
        return [0.0] * (span.end - span.start)

    def branch(self) -> AbstractContextManager[None]:
        """Not asked of a teacher."""
        raise UserError("a skill cannot branch; make two skills of it")

    def length(self) -> int:
        """Tokens so far."""
        return len(self._told.ids)

    def room(self) -> int:
        """Tokens left in the window."""
        return self._model.window - len(self._told.ids)

    def close(self) -> None:
        """Nothing to free."""


class SceneTools:
    """harness.method.Tools for one scene: a skill asks `model`, whatever the role, and nothing else."""

    def __init__(self, model: LanguageModel, scene: Scene) -> None:
        self.task: Task = scene.task
        self.question: Question | None = scene.question
        self.meter, self.seed = Meter(), 0
        self._model = model

    def model(self, role: str = "reader") -> MeteredModel:
        """The one model."""
        return MeteredModel(self._model, self.meter, role)

    def encoder(self, role: str = "encoder") -> Any:
        """Not for a skill."""
        raise UserError("a skill asks a language model only, not an encoder")

    def reranker(self, role: str = "reranker") -> Any:
        """Not for a skill."""
        raise UserError("a skill asks a language model only, not a reranker")

    def map(self, fn: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """One after the other."""
        return [fn(item) for item in items]

    def keep(self, key: str, fn: Callable[[], Any]) -> Any:
        """Nothing is kept."""
        return fn()

    def phase(self, name: str) -> AbstractContextManager[None]:
        """As the meter's."""
        return self.meter.phase(name)

    def progress(self, done: int, total: int, what: str) -> None:
        """Nobody is told."""
