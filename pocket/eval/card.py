"""The card beside the pocket model's weights: what it was trained on, what it can do, and whether it still fits.

    card = read(folder)                     card.json, None where there is none
    check_weights(folder)                   raises CannotRun where weights or tokenizer are not those of the card
    stale(card, skills().values())          [(skill, "changed since training" | "never trained")]
    write(card)                             card.json and CARD.md

A skill's fingerprint is a hash of what the teacher writes down for it: token ids, targets and probes on three fixed
scenes. A changed prompt, order or label changes it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.config.schema import canonical
from harness.errors import CannotRun
from harness.storage.file_hash import file_hash

if TYPE_CHECKING:
    from harness.method import Scene, Skill
    from harness.training.checkpoint import Progress
    from harness.training.teacher import Teacher
    from pocket.eval.metrics import Row
    from pocket.tasks.parts import Recipe
    from pocket.tasks.recipes import Curriculum


EMBEDDED = Path(__file__).parents[1] / "model"
"""The folder of the model that comes with the package."""

NAME = "pocket-llama"
CHANGED, UNTRAINED = "changed since training", "never trained"
_FILES = ("model.safetensors", "tokenizer.json")
_SCENES, _TEXTS = 3, 12  # scenes of a fingerprint, and texts that each is looked for in


@dataclass(frozen=True)
class Card:
    """card.json; `folder` is where the weights are and is not written.

    trained: seed, steps, tokens, seconds, stages passed, hardware, weights it began from, and what these went through
    ("before", the first training first); sha256: of weights and tokenizer; skills: name -> fingerprint at training
    time; exam: questions a cell and seed; results: rows of the exam.
    """

    folder: Path
    name: str = NAME
    trained: Mapping[str, Any] = field(default_factory=dict)
    sha256: Mapping[str, str] = field(default_factory=dict)
    skills: Mapping[str, str] = field(default_factory=dict)
    exam: Mapping[str, int] = field(default_factory=dict)
    results: Sequence[Mapping[str, Any]] = ()


# --- the file ---------------------------------------------------------------------------------------------------------


def read(folder: Path) -> Card | None:
    """The card in `folder`, or None. Raises CannotRun for a card that cannot be read."""
    path = folder / "card.json"
    if not path.exists():
        return None
    try:
        return Card(folder=folder, **json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise CannotRun(f"the card {path} cannot be read ({error}); reinstall the model, or delete the card") from error


def new(folder: Path) -> Card:
    """A card for the weights in `folder` of which nothing else is known. Raises CannotRun where a file is missing."""
    return Card(folder, sha256={name: _sha256(folder, name) for name in _FILES})


def with_results(card: Card, rows: Iterable[Row], questions: int, seed: int) -> Card:
    """The card with these rows; those of other skills stay where they come from an exam of the same size."""
    results: list[Mapping[str, Any]] = [asdict(row) for row in rows]
    exam, skills = {"questions": questions, "seed": seed}, {row["skill"] for row in results}
    kept = [row for row in card.results if row["skill"] not in skills] if card.exam == exam else []
    return replace(card, exam=exam, results=[*kept, *results])


# --- weights ----------------------------------------------------------------------------------------------------------


def _sha256(folder: Path, name: str) -> str:
    try:
        return file_hash(folder / name)
    except OSError as error:
        raise CannotRun(f"the model folder {folder} lacks {name} ({error.strerror}); reinstall the model") from error


def check_weights(folder: Path) -> None:
    """Raise CannotRun where weights or tokenizer are not the bytes that the card is about, or there is no card."""
    card = read(folder)
    if card is None:
        raise CannotRun(f"there is no card.json beside the weights in {folder}; reinstall the model")
    for name, recorded in card.sha256.items():
        actual = _sha256(folder, name)
        if actual != recorded:
            raise CannotRun(
                f"the weights in {folder} are damaged: {name} has sha256 {actual[:12]}, its card says {recorded[:12]}; "
                "reinstall the model"
            )


# --- skills -----------------------------------------------------------------------------------------------------------


def fingerprint(skill: Skill, folder: Path) -> str:
    """sha256 of what the teacher writes down for `skill` on fixed scenes, with the tokenizer of `folder`."""
    return _fingerprint(skill, folder, _sha256(folder, "tokenizer.json"))


@lru_cache(maxsize=256)
def _fingerprint(skill: Skill, folder: Path, tokenizer: str) -> str:
    teacher = _teacher(folder, tokenizer)
    plays = [teacher.play(skill, scene) for scene in _scenes(skill)]
    parts = [[t.ids, t.targets, [[a.at, list(a.ids)] for a in t.probes]] for t in plays]
    return hashlib.sha256(canonical(parts).encode()).hexdigest()


@lru_cache(maxsize=4)
def _teacher(folder: Path, tokenizer: str) -> Teacher:  # noqa: ARG001 - the hash tells a folder from a later one
    from harness.llm.fast_tokenizer import FastTokenizer
    from harness.training.teacher import Teacher

    return Teacher(FastTokenizer(folder), NAME)


def _scenes(skill: Skill) -> list[Scene]:
    """Three scenes of the skill's kind, of each kind of text in turn; where it can, one in which the model replies."""
    from pocket.eval.cells import general

    recipe = general(skill.scene, skill.name).recipe
    scenes: list[Scene] = []
    for number in range(_SCENES):
        narrowed = replace(recipe, kinds=(recipe.kinds[number % len(recipe.kinds)],))
        scene = None
        for drawn in _drawn(narrowed, skill.scene, number):  # drawing all of them takes 30 ms, most first ones reply
            scene = drawn if scene is None or drawn.replies else scene
            if scene.replies:
                break
        if scene is None:
            raise CannotRun(
                f"no text of the world makes a scene of kind '{skill.scene}', which '{skill.name}' declares"
            )
        scenes.append(scene)
    return scenes


def _drawn(recipe: Recipe, scene: str, number: int) -> Iterator[Scene]:
    from harness.stats.rng import Dice
    from pocket.tasks.catalog import stage

    for text in range(_TEXTS):
        yield from stage(recipe, scene, Dice("fingerprint", number, text), "evaluation")


def stale(card: Card, skills: Iterable[Skill]) -> list[tuple[str, str]]:
    """(skill, why) for each that is not what the weights were trained on: CHANGED or UNTRAINED."""
    reasons: list[tuple[str, str]] = []
    for skill in skills:
        if skill.name not in card.skills:
            reasons.append((skill.name, UNTRAINED))
        elif fingerprint(skill, card.folder) != card.skills[skill.name]:
            reasons.append((skill.name, CHANGED))
    return reasons


# --- training ---------------------------------------------------------------------------------------------------------


def trained_skills(course: Curriculum, passed: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of the skills that the passed stages trained, in their order; drills are none.

    The recorded shares of a stage ("0 answer": 0.9) have the names even if the course file has changed since; for a
    stage without a record the course names them.
    """
    from pocket.tasks.recall import DRILLS

    there = {stage.name: stage.recipes for stage in course.stages}
    names: list[str] = []
    for line in passed:
        if "right" in line:
            numbered = sorted(
                (int(number), skill) for number, _, skill in (key.partition(" ") for key in line["right"])
            )
            names += [skill for _, skill in numbered]
        else:
            names += [recipe.skill for recipe in there.get(line["stage"], ())]
    return [name for name in dict.fromkeys(names) if name not in DRILLS]


def forget(folder: Path) -> None:
    """Take the card away before the weights change, so that none is ever beside weights it is not about."""
    (folder / "card.json").unlink(missing_ok=True)
    (folder / "CARD.md").unlink(missing_ok=True)


def history(folder: Path) -> list[Mapping[str, Any]]:
    """The trainings that the weights in `folder` went through, the first one first; [] where there is no card."""
    card = read(folder)
    if card is None or not card.trained:
        return []
    last = {key: value for key, value in card.trained.items() if key != "before"}
    return [*card.trained.get("before", ()), last]


@dataclass(frozen=True)
class Origin:
    """The start of a training: the first digits of the weights' sha256, None for new weights, and their history."""

    weights: str | None = None
    before: Sequence[Mapping[str, Any]] = ()


def begin(
    folder: Path, course: Curriculum, progress: Progress, seed: int, device: str, origin: Origin = Origin()
) -> Card:
    """The card of weights that were just saved in `folder`: how they were trained, no results yet."""
    from pocket.tasks.skills import skills

    known = skills()
    names = [name for name in trained_skills(course, progress.passed) if name in known]
    trained = {
        "seed": seed,
        "steps": progress.step,
        "tokens": progress.tokens,
        "seconds": round(progress.seconds),
        "stages": progress.passed,
        "hardware": _hardware(device),
        **({"began": origin.weights} if origin.weights else {}),
        **({"before": list(origin.before)} if origin.before else {}),
    }
    prints = {name: fingerprint(known[name], folder) for name in names}
    return replace(new(folder), trained=trained, skills=prints)


def _hardware(device: str) -> dict[str, Any]:
    """The hardware of the steps, without the machine's name."""
    import platform

    import torch

    if device.startswith("cuda"):
        return {"device": str(torch.cuda.get_device_name(device)), "threads": torch.get_num_threads()}
    return {"device": platform.processor() or platform.machine(), "threads": torch.get_num_threads()}
