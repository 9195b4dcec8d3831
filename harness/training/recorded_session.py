"""Run a skill on a real model and record its replies.

outcome = record_scene(model, skill, scene)
outcome.written        the text of each reply
outcome.p_first        the probability of the first label, for each probe
outcome.scored         the mean log-probability (nats) of the tokens of each scored text
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, cast

from harness.cost.meter import Meter
from harness.errors import QuestionError
from harness.method import Scene, SceneOutcome, Skill
from harness.models import LanguageModel, MeteredModel, Probe, Session, Written
from harness.training.teacher import SceneTools

_MARGIN = 16  # tokens that a reply may have beyond twice those of the right one


def record_scene(model: LanguageModel, skill: Skill, scene: Scene) -> SceneOutcome:
    """Run `skill` in `scene` on `model`.

    After a QuestionError (window exceeded, NaN) missing replies are empty and missing probabilities 0.5. Replies are
    limited to about twice the tokens of the right one: longer ones are wrong, and a bad model fills its window.
    """
    outcome = SceneOutcome()
    longest = max((model.count(reply) for reply in scene.replies), default=0)
    try:
        skill.play(scene, _RecordingTools(model, scene, outcome, 2 * longest + _MARGIN))
    except QuestionError:
        outcome.failed = True
    outcome.written += [""] * (len(scene.replies) - len(outcome.written))
    outcome.p_first += [0.5] * (len(scene.verdicts) - len(outcome.p_first))
    return outcome


class _RecordingTools(SceneTools):
    """The scene's tools, with every session recorded."""

    def __init__(self, model: LanguageModel, scene: Scene, outcome: SceneOutcome, most: int) -> None:
        super().__init__(model, scene)
        self._outcome, self._most = outcome, most

    def model(self, role: str = "reader") -> MeteredModel:
        """The one model, recorded."""
        return _RecordedModel(self._model, self.meter, role, self._outcome, self._most)


class _RecordedModel(MeteredModel):
    """A model whose sessions are recorded."""

    def __init__(self, model: LanguageModel, meter: Meter, role: str, outcome: SceneOutcome, most: int) -> None:
        super().__init__(model, meter, role)
        self._outcome, self._most = outcome, most

    def session(self, adapter: str | None = None) -> Session:
        """A session that is recorded."""
        return cast("Session", _RecordedSession(super().session(adapter), self._outcome, self._most))


class _RecordedSession:
    """A session that records what it writes, probes and scores; all else is the inner session's."""

    def __init__(self, inner: Session, outcome: SceneOutcome, most: int) -> None:
        self._inner, self._outcome, self._most = inner, outcome, most

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._inner.close()

    def probe(self, labels: Sequence[str], after: str = "") -> Probe:
        probe = self._inner.probe(labels, after)
        self._outcome.p_first.append(probe.p[labels[0]])
        return probe

    def write(self, max_tokens: int, stop: Sequence[str] = (), **how: Any) -> Written:
        written = self._inner.write(min(max_tokens, self._most), stop, **how)
        self._outcome.written.append(written.text.strip())
        return written

    def score(self, text: str) -> list[float]:
        scores = self._inner.score(text)
        if scores:  # an empty text has no token, so no mean
            self._outcome.scored.append(sum(scores) / len(scores))
        return scores
