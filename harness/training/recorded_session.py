"""A skill played on a real model while someone listens: what `write` returned and what `probe` gave, in turn.

heard = listen(model, skill, scene)
heard.written        one text for every reply that the scene knows
heard.p_first        for every verdict the probability of the first of two labels
heard.scored         for every text that was scored the mean log-probability (nats) of its tokens
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, cast

from harness.cost.meter import Meter
from harness.errors import QuestionError
from harness.method import Heard, Scene, Skill
from harness.models import LanguageModel, MeteredModel, Probe, Session, Written
from harness.training.teacher import SceneTools

_MORE = 16  # tokens that a reply may have beyond twice those of the right one


def listen(model: LanguageModel, skill: Skill, scene: Scene) -> Heard:
    """Play `skill` in `scene` on `model`.

    A question that fails (a window too short, NaN) is heard as empty replies and probabilities of 0.5. A reply is cut
    at about twice the length of the right one: what is longer is wrong anyway, and a bad model writes till its window
    is full.
    """
    heard = Heard()
    longest = max((model.count(reply) for reply in scene.replies), default=0)
    try:
        skill.play(scene, _Listeners(model, scene, heard, 2 * longest + _MORE))
    except QuestionError:
        heard.failed = True
    heard.written += [""] * (len(scene.replies) - len(heard.written))
    heard.p_first += [0.5] * (len(scene.verdicts) - len(heard.p_first))
    return heard


class _Listeners(SceneTools):
    """The scene's tools, with an ear at every session."""

    def __init__(self, model: LanguageModel, scene: Scene, heard: Heard, most: int) -> None:
        super().__init__(model, scene)
        self._heard, self._most = heard, most

    def model(self, role: str = "reader") -> MeteredModel:
        """The one model, listened to."""
        return _Listened(self._model, self.meter, role, self._heard, self._most)


class _Listened(MeteredModel):
    """A model whose sessions are listened to."""

    def __init__(self, model: LanguageModel, meter: Meter, role: str, heard: Heard, most: int) -> None:
        super().__init__(model, meter, role)
        self._heard, self._most = heard, most

    def session(self, adapter: str | None = None) -> Session:
        """A session that is recorded."""
        return cast("Session", _RecordedSession(super().session(adapter), self._heard, self._most))


class _RecordedSession:
    """A session that records what it writes, probes and scores; all else is the inner session's."""

    def __init__(self, inner: Session, heard: Heard, most: int) -> None:
        self._inner, self._heard, self._most = inner, heard, most

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._inner.close()

    def probe(self, labels: Sequence[str], after: str = "") -> Probe:
        probe = self._inner.probe(labels, after)
        self._heard.p_first.append(probe.p[labels[0]])
        return probe

    def write(self, max_tokens: int, stop: Sequence[str] = (), **how: Any) -> Written:
        written = self._inner.write(min(max_tokens, self._most), stop, **how)
        self._heard.written.append(written.text.strip())
        return written

    def score(self, text: str) -> list[float]:
        scores = self._inner.score(text)
        if scores:  # an empty text has no token, so no mean
            self._heard.scored.append(sum(scores) / len(scores))
        return scores
