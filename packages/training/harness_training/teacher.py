"""A stand-in for a model that gives the right replies, and records what a method's own code sends
to it.

    teacher = Teacher(tokenizer)
    transcript = teacher.play(skill, scene)           runs skill.play(scene, tools)
    transcript.ids                                    the context, token by token
    transcript.targets                                positions of the tokens that the model is to write
    transcript.probes                                 a ProbeTarget for each probe

Prompts cannot differ between training and use, as the same code writes both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from harness.cost.meter import Meter
from harness.errors import UserError
from harness.llm.template import SystemTurnTokens, cut_template, no_system_error, turn_frame
from harness.llm.text import Text
from harness.method import Task
from harness.models import Decoding, LanguageModel, MeteredModel, Probe, Session, Span, Written
from harness.types import Question, SearchHit
from harness_training.tasks import Scene, Skill

WINDOW = 2048
"""Tokens that the pocket model's window holds."""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class ProbeTarget:
    """What a model is to answer to a probe.

    Args:
        at: The probe comes after so many tokens of the context.
        ids: Its tokens; the last one begins the right label.
    """

    at: int
    ids: tuple[int, ...]


@dataclass
class Transcript:
    """The tokens of one session.

    Args:
        ids: The context: what the method fed, and the right replies.
        targets: Indices into `ids` of the tokens that the model is to write.
        probes: What it is to answer to each probe.
    """

    ids: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    probes: list[ProbeTarget] = field(default_factory=list)


class Teacher(LanguageModel):
    """A LanguageModel without weights that gives a scene's right replies and records what it was
    sent."""

    def __init__(self, tokenizer: Any, name: str = "teacher", window: int = WINDOW) -> None:
        """Prepare the tokenizer and the tokens of its chat template: what stands before the first
        user turn, before a reply, before the next user turn, and around a system turn (None where
        the template has none). What a model needs besides (shape, identity) is empty.

        Args:
            tokenizer: A tokenizer of transformers, or a harness.llm.fast_tokenizer.FastTokenizer.
            name: The name of the model, for messages.
            window: Most tokens that a skill may fill.
        """
        self.name = name
        self.window = window
        self.shape = None
        self.capabilities = frozenset({"attention", "probe", "score", "sampling"})
        self.identity = {}
        self.first_prompts = {}
        # The last argument is the date that a template may print.
        pieces = cut_template(
            tokenizer.chat_template, tokenizer.special_tokens_map, name, "26 Jul 2024"
        )
        self.text = Text(tokenizer, name, pieces)
        # Text -> its token ids, without control tokens; cached.
        self.plain: Callable[[str], tuple[int, ...]] = lru_cache(maxsize=4096)(
            lambda t: tuple(self.text.encode_data(t))
        )
        self.before_first_user_ids = self.text.encode_template(pieces.before_first_user)
        self.before_reply_ids = self.text.encode_template(pieces.before_reply)
        self.before_next_user_ids = self.text.encode_template(pieces.before_next_user)
        self.system_turn_ids: SystemTurnTokens | None = None
        if pieces.system is not None:
            before_system = self.text.encode_template(pieces.system.before)
            after_system = self.text.encode_template(pieces.system.after)
            self.system_turn_ids = SystemTurnTokens(before_system, after_system)
        self._transcript = Transcript()

    def play(self, skill: Skill, scene: Scene) -> Transcript:
        """Run a skill in a scene, and return the tokens that it fed, with the right replies and its
        probes. While it runs, its requests are answered by the scene's replies and verdicts in
        turn, and recorded.

        Raises:
            UserError: The skill asks for more replies or verdicts than the scene has, or for fewer.
        """
        self._transcript = Transcript()
        replies = iter(scene.replies)
        verdicts = iter(scene.verdicts)
        self.next_reply: Callable[[], str] = lambda: _next_item(replies, skill, "replies")
        self.next_verdict: Callable[[], bool] = lambda: _next_item(verdicts, skill, "verdicts")
        skill.play(scene, SceneTools(self, scene))
        if next(replies, None) is not None or next(verdicts, None) is not None:
            raise UserError(f"the skill '{skill.name}' did not ask for all that its scene knows")
        return self._transcript

    def session(
        self, meter: Meter, role: str = "reader", adapter: str | None = None
    ) -> TeacherSession:
        """Open the one session of a scene; `adapter` has no effect."""
        return TeacherSession(self, self._transcript, meter, role)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """(start, end) of every token of `text` in characters."""
        return self.text.offsets(text)

    def count(self, text: str) -> int:
        """How many tokens `text` has."""
        return len(self.plain(text))

    def turn_tokens(self) -> int:
        """How many tokens the chat template adds to one user turn."""
        return len(self.before_first_user_ids) + len(self.before_reply_ids)

    def system_turn_tokens(self, text: str) -> int:
        """How many tokens a system turn with `text` adds. Raises CannotRun where the chat template
        has no system role."""
        if self.system_turn_ids is None:
            raise no_system_error(self.name)
        # turn_tokens() counts what stands before a first user turn; after a system turn the second
        # piece of that stands there instead.
        n_around_text = sum(map(len, self.system_turn_ids))
        return n_around_text + self.count(text) - len(self.before_first_user_ids)


def _next_item(items: Iterator[T], skill: Skill, what: str) -> T:
    """The next reply or verdict of a scene.

    Args:
        items: Those that are left.
        skill: The skill that asks for it.
        what: "replies" or "verdicts".

    Raises:
        UserError: The scene has no more.
    """
    for item in items:
        return item
    raise UserError(
        f"the skill '{skill.name}' asks for more {what} than a scene of kind '{skill.scene}' has"
    )


class TeacherSession(Session):
    """Records the fed tokens; `write` and `probe` return the scene's right answers."""

    def __init__(self, model: Teacher, transcript: Transcript, meter: Meter, role: str) -> None:
        """Open a session that records into `transcript`, which must be empty.

        Raises:
            UserError: The skill has opened a session before.
        """
        if transcript.ids:
            raise UserError("a skill opens one session only; make two skills of it")
        super().__init__(model.name, model.window, meter, role)
        self._model = model
        self._transcript = transcript
        self._ended = False  # whether the end of the turn is in the context already

    def _append_ids(self, ids: Iterable[int]) -> Span:
        """Add tokens to the context, and return where they stand in it."""
        start = len(self._transcript.ids)
        self._transcript.ids.extend(ids)
        return Span(start, len(self._transcript.ids))

    def _open(self, turn: str) -> None:
        """Write the tokens that open this turn, after the end of the turn before."""
        piece = turn_frame(self._model, self._turn, turn)
        if self._ended:  # the end of the turn, its first token, is in the context already
            piece = piece[1:]
        self._append_ids(piece)
        self._ended = False

    def _append(self, text: str) -> Span:
        """Add the tokens of a text to the context, and return where they stand."""
        return self._append_ids(self._model.plain(text))

    def _check_window(self, tokens: int) -> None:
        """Do nothing: whoever trains on the scene checks its length."""

    def _watch(self, span: Span, text: str, watch: Sequence[Span]) -> Span:
        """The span with an attention of 0 to each watched span, as there is no model."""
        return Span(span.start, span.end, None, (0.0,) * len(watch))

    def _first_token(self, label: str) -> int | None:
        """The first token of a label; None for an empty one."""
        return next(iter(self._model.plain(label)), None)

    def _probe(self, labels: Sequence[str], firsts: Sequence[int], after: str) -> Probe:
        """Record the right label as a target: the first or the second, by the scene's next verdict.

        Returns:
            A probability of 1 for the right label and 0 for the other.
        """
        right_index = 1
        if self._model.next_verdict():
            right_index = 0
        ids = (*self._model.before_reply_ids, *self._model.plain(after), firsts[right_index])
        self._transcript.probes.append(ProbeTarget(at=len(self._transcript.ids), ids=ids))
        p = {label: float(label == labels[right_index]) for label in labels}
        return Probe(p, p)

    def _write(self, decoding: Decoding, watch: Sequence[Span]) -> Written:
        """Write the scene's next reply, and end the turn; the tokens of both become targets."""
        text = self._model.next_reply()
        span = self._append(text)
        # The end of the turn is the first token of what the template puts between turns.
        end_of_turn = self._append_ids(self._model.before_next_user_ids[:1])
        self._transcript.targets += range(span.start, end_of_turn.end)
        self._ended = True
        return Written(text, span, "stop")

    def _score(self, text: str) -> list[float]:
        """Add a text whose tokens all become targets; their log-probabilities are 0."""
        span = self._append(text)
        self._transcript.targets += range(span.start, span.end)
        return [0.0] * len(span)

    def _save(self) -> Any:  # Session.branch saves the context that it comes back to
        """Raise UserError: Session.branch would save the context here, but a skill has one path
        only."""
        raise UserError("a skill cannot branch; make two skills of it")

    def _restore(self, state: Any) -> None:
        """Do nothing: it is never called, as nothing is saved."""

    def length(self) -> int:
        """How many tokens the context has so far."""
        return len(self._transcript.ids)


class SceneTools:
    """harness.method.Tools for one scene: a skill asks one model, whatever the role, and nothing
    else."""

    def __init__(
        self, model: LanguageModel, scene: Scene, bound: Callable[..., MeteredModel] = MeteredModel
    ) -> None:
        """Give a skill the task and the question of a scene, and one model.

        Args:
            model: The model that is asked for every role.
            scene: The scene.
            bound: Makes what `model` returns, of the model, a meter and a role.
        """
        self.task: Task = scene.task
        self.question: Question | None = scene.question
        self.meter = Meter()
        self.seed = 0
        self._model = model
        self._bound = bound

    def model(self, role: str = "reader") -> MeteredModel:
        """The one model, whatever the role."""
        return self._bound(self._model, self.meter, role)

    def encoder(self, _role: str = "") -> Any:
        """Raise UserError: a skill asks a language model only. Also the tools' `reranker`."""
        raise UserError("a skill asks a language model only, no encoder and no reranker")

    reranker = encoder

    def retriever(self) -> None:
        """None: a skill has no retriever."""

    def search(self, query: str, k: int) -> list[SearchHit]:
        """Raise UserError: a skill searches nothing."""
        raise UserError(f"a skill asks a language model only; it cannot search for {query!r} ({k})")

    def map(self, fn: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Apply fn to the items one after the other."""
        return [fn(item) for item in items]

    def keep(self, key: str, fn: Callable[[], Any]) -> Any:
        """Return fn(); nothing is stored."""
        return fn()

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Count what happens inside for a phase, as Meter.phase does."""
        return self.meter.phase(name)

    def progress(self, done: int, total: int, what: str) -> None:
        """Report nothing."""
