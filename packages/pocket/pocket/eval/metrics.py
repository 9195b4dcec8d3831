"""Turn the outcomes of scenes into named values: a share or an area with its 95 % interval, its n
and its floor.

question, choice     exact match: the reply is the answer, letter for letter
sufficiency          AUC of P(first label) over all probes; accuracy at 0.5; exact match of the answer after "Yes"
points               share of the true points that were written, and of the written ones that are not true
gathered             the same of names
summary              the same of sentences; shortened, entities, trial: names; relations: pairs; outline: titles
doubts, decomposed   the same of questions, compared by the names and numbers in each: other words are free;
                     elaborated likewise
triage, lookup       exact match; the floor of a choice among parts is one by their number
reflection           exact match of what follows the reasoning
followed, guessed    likelihood of a scored token: the geometric mean of its probability

Every scene has a text of its own, so scenes are independent; probes and points of one scene are
resampled together.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from harness_training.exam import area_under_roc, mean_over_scenes
from harness_training.tasks import Scene, SceneOutcome

from harness.stats.bootstrap import Interval
from pocket.world.facts_and_distractors import Asked

AREA, EXACT, INVENTED, LIKELIHOOD = "AUC", "exact match", "invented", "likelihood of a token"
_NEVER = -20.0  # log-probability of a token that could not be scored
_ABOUT = re.compile(r"About (.+)\.")
_NAME = re.compile(r"#\d+|\b[A-Z]\w+")
_TITLE = re.compile(r"<section: ([^<>]+)>")

Measured = Mapping[str, tuple[Interval, float | None]]
"""Name of a measure -> its value, and the expected value of guessing without reading, if that is
known."""


@dataclass(frozen=True)
class Sitting:
    """A scene and its outcome; asked: its question, or None."""

    scene: Scene
    outcome: SceneOutcome
    asked: Asked | None = None


def measure(scene: str, sittings: Sequence[Sitting]) -> Measured:
    """The measures of sittings whose scenes are of the kind `scene` (Skill.scene)."""
    if scene in _MEASURES:
        return _MEASURES[scene](sittings)
    probed = any(s.scene.verdicts for s in sittings)  # a kind that the exam does not know
    return _probe_measures(sittings) if probed else _answer_measures(sittings)


def _mean_by_scene(values: Sequence[tuple[int, float]]) -> Interval:
    """The mean of values given as (number of the scene, value), clustered by scene."""
    return mean_over_scenes([value for _, value in values], [scene for scene, _ in values])


def _replies(sittings: Sequence[Sitting]) -> Iterator[tuple[int, str, str]]:
    """(number of the scene, what was written, the right reply)."""
    for i, s in enumerate(sittings):
        for written, right in zip(s.outcome.written, s.scene.replies, strict=False):
            yield i, written, right


def _exact_replies(sittings: Sequence[Sitting]) -> Interval:
    """The share of all replies that are the right one, letter for letter."""
    return _mean_by_scene([(i, written == right) for i, written, right in _replies(sittings)])


def _answer_measures(sittings: Sequence[Sitting]) -> Measured:
    """Exact match; its floor is what guessing reaches where the question names the choices."""
    kinds = {s.asked.kind for s in sittings if s.asked is not None}
    floor: float | None = None
    if kinds == {"comparison"}:  # one of the two that the question names
        floor = 0.5
    elif kinds == {"same"}:
        yes = float(np.mean([s.scene.replies == ("yes",) for s in sittings]))
        floor = max(yes, 1 - yes)
    return {EXACT: (_exact_replies(sittings), floor)}


def _choice_measures(sittings: Sequence[Sitting], count: Callable[[Scene], int]) -> Measured:
    """Exact match; its floor is the mean of 1 / count(scene). count: the number of a scene's
    choices."""
    guessed = [1 / max(1, count(s.scene)) for s in sittings]
    return {EXACT: (_exact_replies(sittings), float(np.mean(guessed)) if guessed else None)}


def _probe_measures(sittings: Sequence[Sitting]) -> Measured:
    """Area under ROC and accuracy of the probes, and exact match of the answers after a yes."""
    by_scene = [
        (i, zip(s.outcome.p_first, s.scene.verdicts, strict=False)) for i, s in enumerate(sittings)
    ]
    probes = [(i, p, right) for i, pairs in by_scene for p, right in pairs]
    often = float(np.mean([right for *_, right in probes])) if probes else 0.5
    accuracy = [(i, (p > 0.5) == right) for i, p, right in probes]
    # The more was shown, the more often it is enough: what counting the parts would reach is the
    # floor, not one half.
    counted = [
        (i, float(at), right)
        for i, s in enumerate(sittings)
        for at, right in enumerate(s.scene.verdicts)
    ]
    return {
        AREA: (area_under_roc(probes), area_under_roc(counted).mean),
        "accuracy at 0.5": (_mean_by_scene(accuracy), max(often, 1 - often)),
        f"{EXACT} after yes": (_exact_replies(sittings), None),
    }


def _lines(text: str) -> list[str]:
    return [line.strip().removeprefix("* ") for line in text.splitlines() if line.strip()]


def _names(text: str) -> list[str]:
    """ "* About A, B and C." -> A, B, C; a line of another form is one name, which equals no gold
    name."""
    matches = [(line, _ABOUT.fullmatch(line)) for line in _lines(text)]
    return [
        name for line, m in matches for name in (re.split(", | and ", m.group(1)) if m else [line])
    ]


def _parts_measures(sittings: Sequence[Sitting], parts: Callable[[str], list[str]]) -> Measured:
    """The shares of the right reply's parts kept, and of the written parts invented. parts: splits
    a reply."""
    kept: list[tuple[int, bool]] = []
    invented: list[tuple[int, bool]] = []
    for i, written, right in _replies(sittings):
        theirs, true = parts(written), parts(right)
        kept += [(i, part in theirs) for part in true]
        invented += [(i, part not in true) for part in theirs]
    return {"kept": (_mean_by_scene(kept), None), INVENTED: (_mean_by_scene(invented), None)}


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?])\s+", text.strip()) if text.strip() else []


def _names_in_lines(text: str) -> list[str]:
    """The names in each line: capitalised words, except the first word of a line, and "#1"."""
    return [" ".join(sorted(_NAME.findall(line.partition(" ")[2]))) for line in _lines(text)]


def _action_measures(sittings: Sequence[Sitting]) -> Measured:
    """Exact match of what follows the reasoning in a reply: the action, and the answer if there is
    one."""

    def end(reply: str) -> str:
        return reply.partition("\nAction:")[2]

    right = [(i, end(written) == end(right)) for i, written, right in _replies(sittings)]
    return {f"{EXACT} after the reasoning": (_mean_by_scene(right), None)}


def _likelihood_measures(sittings: Sequence[Sitting]) -> Measured:
    """The likelihood of a scored token: exp of the mean log-probability, with its interval."""
    log_means = _mean_by_scene(
        [(i, log) for i, s in enumerate(sittings) for log in s.outcome.scored or [_NEVER]]
    )
    mean, low, high = (
        None if log is None else float(np.exp(log))
        for log in (log_means.mean, log_means.low, log_means.high)
    )
    return {LIKELIHOOD: (replace(log_means, mean=mean, low=low, high=high), None)}


_MEASURES: dict[str, Callable[[Sequence[Sitting]], Measured]] = {
    "question": _answer_measures,
    "choice": partial(_choice_measures, count=lambda scene: len(scene.question.options or ())),
    "sufficiency": _probe_measures,
    **dict.fromkeys(("points", "entities", "trial"), partial(_parts_measures, parts=_lines)),
    "gathered": partial(_parts_measures, parts=_names),
    "summary": partial(_parts_measures, parts=_sentences),
    "shortened": partial(_parts_measures, parts=lambda text: _names("\n".join(_sentences(text)))),
    # "* A | B | A knows B." -> "A | B"
    "relations": partial(
        _parts_measures, parts=lambda text: [" | ".join(x.split(" | ")[:2]) for x in _lines(text)]
    ),
    "outline": partial(_parts_measures, parts=_TITLE.findall),
    **dict.fromkeys(
        ("doubts", "decomposed", "elaborated"), partial(_parts_measures, parts=_names_in_lines)
    ),
    "triage": partial(
        _choice_measures, count=lambda scene: len(scene.texts) - 1
    ),  # the first is the memory
    "reflection": _action_measures,
    **dict.fromkeys(("followed", "guessed"), _likelihood_measures),
}
