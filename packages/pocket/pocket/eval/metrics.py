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
from typing import NamedTuple

import numpy as np
from harness_training.exam import ScoredProbe, area_under_roc, mean_over_scenes
from harness_training.tasks import Scene, SceneOutcome

from harness.stats.bootstrap import Interval
from pocket.world.facts_and_distractors import ProvedQuestion

AREA = "AUC"
EXACT = "exact match"
INVENTED = "invented"
LIKELIHOOD = "likelihood of a token"
_LOG_PROBABILITY_UNSCORED = -20.0  # log-probability of a token that could not be scored
_ABOUT_LINE = re.compile(r"About (.+)\.")
_NAME = re.compile(r"#\d+|\b[A-Z]\w+")
_SECTION_TITLE = re.compile(r"<section: ([^<>]+)>")


class MeasuredValue(NamedTuple):
    """The value of one measure.

    Attributes:
        value: A share or an area, with its interval.
        floor: What guessing without reading would reach; None where that is not known.
    """

    value: Interval
    floor: float | None = None


Measured = Mapping[str, MeasuredValue]
"""Name of a measure -> its value."""


@dataclass(frozen=True)
class Sitting:
    """A scene of the exam with what the model replied.

    Args:
        scene: The scene.
        outcome: The model's replies and probabilities; empty before it is played.
        asked: The question of the scene with its proof, if it has one.
    """

    scene: Scene
    outcome: SceneOutcome
    asked: ProvedQuestion | None = None


def measure(scene: str, sittings: Sequence[Sitting]) -> Measured:
    """Measure played scenes of one kind: name of each measure -> (value with interval, floor).

    Args:
        scene: The kind of scene (Skill.scene); a kind that the exam does not know is measured by
            its probes, or without probes by exact match.
        sittings: The scenes.
    """
    if scene in _MEASURES:
        return _MEASURES[scene](sittings)
    has_probes = any(sitting.scene.verdicts for sitting in sittings)
    if has_probes:
        return _probe_measures(sittings)
    return _answer_measures(sittings)


class _MeanOverScenes:
    """Collects values of scenes, for a mean whose interval resamples whole scenes."""

    def __init__(self) -> None:
        """Begin without a value."""
        self._scenes: list[int] = []
        self._values: list[float] = []

    def add(self, scene: int, value: float) -> None:
        """Add a value.

        Args:
            scene: The number of the scene that it is of.
            value: A share, or whether something is right.
        """
        self._scenes.append(scene)
        self._values.append(value)

    def mean(self) -> Interval:
        """The mean of all values, with its interval."""
        return mean_over_scenes(self._values, self._scenes)


def _reply_pairs(sittings: Sequence[Sitting]) -> Iterator[tuple[int, str, str]]:
    """Yield (number of the scene, what the model wrote, the right reply) for each reply of each
    scene."""
    for number, sitting in enumerate(sittings):
        for written, right in zip(sitting.outcome.written, sitting.scene.replies, strict=False):
            yield number, written, right


def _exact_replies(sittings: Sequence[Sitting]) -> Interval:
    """The share of all replies that are the right one, letter for letter, with its interval."""
    exact = _MeanOverScenes()
    for scene, written, right in _reply_pairs(sittings):
        exact.add(scene, written == right)
    return exact.mean()


def _answer_measures(sittings: Sequence[Sitting]) -> Measured:
    """The measure exact match. Its floor is what guessing reaches where the question names the
    choices; None for other questions."""
    kinds = {s.asked.kind for s in sittings if s.asked is not None}
    floor: float | None = None
    if kinds == {"comparison"}:  # one of the two that the question names
        floor = 0.5
    elif kinds == {"same"}:
        floor = _share_of_commoner([s.scene.replies == ("yes",) for s in sittings])
    return {EXACT: MeasuredValue(_exact_replies(sittings), floor)}


def _choice_measures(sittings: Sequence[Sitting], count: Callable[[Scene], int]) -> Measured:
    """The measure exact match of scenes that choose among parts or options; its floor is one by
    their number, on average.

    Args:
        sittings: The scenes.
        count: A function: scene -> how many choices it has.
    """
    floor: float | None = None
    if sittings:
        floor = float(np.mean([1 / max(1, count(s.scene)) for s in sittings]))
    return {EXACT: MeasuredValue(_exact_replies(sittings), floor)}


def _share_of_commoner(values: Sequence[bool]) -> float:
    """The share of the more frequent of two values, which always giving that one reaches; 0.5 for
    none."""
    if not values:
        return 0.5
    share = float(np.mean(values))
    return max(share, 1 - share)


def _probe_measures(sittings: Sequence[Sitting]) -> Measured:
    """The measures of scenes with probes: AUC and accuracy of the probes, and exact match of the
    answers that follow a yes. A probe is answered by the probability of its first label; above 0.5
    that is a yes. The floor of the AUC is that of counting the parts shown (the more was shown, the
    more often it is enough), that of the accuracy the share of the commoner answer. Probes that a
    failed scene did not reach count in the floor of the AUC alone."""
    probes: list[ScoredProbe] = []  # by P(first label)
    accuracy = _MeanOverScenes()
    probes_by_count: list[ScoredProbe] = []  # by the number of parts shown
    verdicts: list[bool] = []
    for scene_number, sitting in enumerate(sittings):
        for n_shown_before, first_is_right in enumerate(sitting.scene.verdicts):
            probes_by_count.append(ScoredProbe(scene_number, float(n_shown_before), first_is_right))
        for p_first, first_is_right in zip(
            sitting.outcome.p_first, sitting.scene.verdicts, strict=False
        ):
            probes.append(ScoredProbe(scene_number, p_first, first_is_right))
            accuracy.add(scene_number, (p_first > 0.5) == first_is_right)
            verdicts.append(first_is_right)
    return {
        AREA: MeasuredValue(area_under_roc(probes), area_under_roc(probes_by_count).mean),
        "accuracy at 0.5": MeasuredValue(accuracy.mean(), _share_of_commoner(verdicts)),
        f"{EXACT} after yes": MeasuredValue(_exact_replies(sittings)),
    }


def _lines_without_bullets(text: str) -> list[str]:
    """The lines of a reply that are not blank, without bullets: "* Ann\\n* Bo" -> ["Ann", "Bo"]."""
    return [line.strip().removeprefix("* ") for line in text.splitlines() if line.strip()]


def _names_in_about_lines(text: str) -> list[str]:
    """The names in a reply of lines "* About A, B and C.": "A", "B", "C". A line of another form is
    one name, which equals no right one."""
    names: list[str] = []
    for line in _lines_without_bullets(text):
        match = _ABOUT_LINE.fullmatch(line)
        if match:
            names += re.split(", | and ", match.group(1))
        else:
            names.append(line)
    return names


def _parts_measures(
    sittings: Sequence[Sitting], split_into_parts: Callable[[str], list[str]]
) -> Measured:
    """Two measures of replies that consist of parts: the share of the right parts that were written
    ("kept"), and the share of the written parts that are not right ("invented").

    Args:
        sittings: The scenes.
        split_into_parts: A function that splits a reply into its parts.
    """
    kept = _MeanOverScenes()
    invented = _MeanOverScenes()
    for scene_number, written, right in _reply_pairs(sittings):
        written_parts = split_into_parts(written)
        right_parts = split_into_parts(right)
        for part in right_parts:
            kept.add(scene_number, part in written_parts)
        for part in written_parts:
            invented.add(scene_number, part not in right_parts)
    return {"kept": MeasuredValue(kept.mean()), INVENTED: MeasuredValue(invented.mean())}


def _sentences(text: str) -> list[str]:
    """The sentences of a paragraph, cut after ".", "!" and "?"; [] for a blank one."""
    if not text.strip():
        return []
    return re.split(r"(?<=[.!?])\s+", text.strip())


def _names_in_sentences(text: str) -> list[str]:
    """The names in a paragraph of sentences: "About A and B. About C." -> "A", "B", "C"."""
    return _names_in_about_lines("\n".join(_sentences(text)))


def _name_pairs(text: str) -> list[str]:
    """The two names in each line of a reply: "* A | B | A knows B." -> "A | B"."""
    return [" | ".join(line.split(" | ")[:2]) for line in _lines_without_bullets(text)]


def _names_in_lines(text: str) -> list[str]:
    """For each line of a reply the names in it, sorted and joined: "* Was Toren born in #1?" -> "#1
    Toren". Names are capitalised words, except the first word of a line, and "#1"."""
    names: list[str] = []
    for line in _lines_without_bullets(text):
        after_first_word = line.partition(" ")[2]
        names.append(" ".join(sorted(_NAME.findall(after_first_word))))
    return names


def _action_measures(sittings: Sequence[Sitting]) -> Measured:
    """The measure exact match of what follows the reasoning in a reply: the action, and the answer
    if there is one."""
    exact = _MeanOverScenes()
    for scene, written, right in _reply_pairs(sittings):
        exact.add(scene, _text_after_reasoning(written) == _text_after_reasoning(right))
    return {f"{EXACT} after the reasoning": MeasuredValue(exact.mean())}


def _text_after_reasoning(reply: str) -> str:
    """What follows the reasoning in a reply.

    "Reasoning: ...\\nAction: -2\\nAnswer: x" -> " -2\\nAnswer: x"
    """
    return reply.partition("\nAction:")[2]


def _likelihood_measures(sittings: Sequence[Sitting]) -> Measured:
    """The likelihood of a scored token: exp of the mean log-probability, with its interval. A scene
    whose text could not be scored counts with a log-probability of -20."""
    log_probabilities = _MeanOverScenes()
    for scene_number, sitting in enumerate(sittings):
        for log_probability in sitting.outcome.scored or [_LOG_PROBABILITY_UNSCORED]:
            log_probabilities.add(scene_number, log_probability)
    log_mean = log_probabilities.mean()
    mean = _exp(log_mean.mean)
    low = _exp(log_mean.low)
    high = _exp(log_mean.high)
    return {LIKELIHOOD: MeasuredValue(replace(log_mean, mean=mean, low=low, high=high))}


def _exp(log: float | None) -> float | None:
    """exp(log), or None for None."""
    if log is None:
        return None
    return float(np.exp(log))


def _option_count(scene: Scene) -> int:
    """How many options the question of a scene has."""
    return len(scene.question.options or ())


def _part_count(scene: Scene) -> int:
    """How many parts a scene has to choose from: its texts without the first, which is the
    memory."""
    return len(scene.texts) - 1


_MEASURES: dict[str, Callable[[Sequence[Sitting]], Measured]] = {
    "question": _answer_measures,
    "choice": partial(_choice_measures, count=_option_count),
    "sufficiency": _probe_measures,
    "points": partial(_parts_measures, split_into_parts=_lines_without_bullets),
    "entities": partial(_parts_measures, split_into_parts=_lines_without_bullets),
    "trial": partial(_parts_measures, split_into_parts=_lines_without_bullets),
    "gathered": partial(_parts_measures, split_into_parts=_names_in_about_lines),
    "summary": partial(_parts_measures, split_into_parts=_sentences),
    "shortened": partial(_parts_measures, split_into_parts=_names_in_sentences),
    "relations": partial(_parts_measures, split_into_parts=_name_pairs),
    "outline": partial(_parts_measures, split_into_parts=_SECTION_TITLE.findall),
    "doubts": partial(_parts_measures, split_into_parts=_names_in_lines),
    "decomposed": partial(_parts_measures, split_into_parts=_names_in_lines),
    "elaborated": partial(_parts_measures, split_into_parts=_names_in_lines),
    "triage": partial(_choice_measures, count=_part_count),
    "reflection": _action_measures,
    "followed": _likelihood_measures,
    "guessed": _likelihood_measures,
}
