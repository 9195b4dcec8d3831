"""Training scenes in a file of JSON lines, made once and kept.

    write_world(path, task, recipes, count, seed)            scenes of the synthetic world, with the right replies
    read_scenes(path, task)                                    those, or what a teacher labelled (labelling.py)

    {"id": "text 0", "scenes": [{"question": "...", "options": null, "texts": [], "replies": [], "verdicts": [true]}]}

Scenes hold texts, not tokens: the method's own code puts its prompts around them, as it does in a
run. The synthetic world is a module with a pydantic model `Recipe` and a function
`make_scenes(recipe, kind, dice, purpose)`, which section `scenes` of configs/registry.yaml names.
"""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import TypeAdapter, ValidationError

from harness.config import registry
from harness.config.schema import json_sha256
from harness.errors import CannotRun, UserError
from harness.method import Task
from harness.stats.rng import Dice
from harness.storage.files import make_folder, write_atomic
from harness.storage.json_lines import json_line, read_lines
from harness.types import Document, Question
from harness_training.tasks import Scene, TrainingTask

Purpose = Literal["evaluation", "training"]

HEAD = "about"
"""The id of a file's first line, which says what it was made from."""
_MAX_TEXTS_WITHOUT_SCENE = (
    50  # texts without a scene that are drawn in a row before a recipe is given up
)


@dataclass(frozen=True)
class Item:
    """What a teacher labels: a question and its documents, or one document without a question.

    Args:
        id: "nq/train_0": the data set, and the question or the document.
        question: The question; None where a document alone is labelled.
        documents: The question's documents, or the one document.
    """

    id: str
    question: Question | None
    documents: Sequence[Document]


@dataclass(frozen=True)
class StoredScene:
    """A scene as a file holds it: without the task, which comes from the settings.

    Args:
        question: The text of the question.
        options: The answers to choose from; None without.
        texts: Passages in the order they are shown.
        replies: The right replies, in the order in which they are asked for.
        verdicts: For each probe in turn, whether its first label is right.
    """

    question: str
    options: tuple[str, ...] | None
    texts: tuple[str, ...]
    replies: tuple[str, ...]
    verdicts: tuple[bool, ...]


_SCENE = TypeAdapter(StoredScene)


@dataclass(frozen=True)
class SceneLine:
    """A line of a file: the scenes of one text or item."""

    id: str
    scenes: Sequence[Scene]

    def as_json(self) -> dict[str, object]:
        """The line as it is written: {"id": ..., "scenes": [...]}."""
        return {"id": self.id, "scenes": [scene_to_json(scene) for scene in self.scenes]}


def scene_to_json(scene: Scene) -> dict[str, object]:
    """A scene as JSON values, without its task: {"question": ..., "options": ..., "texts": ...,
    "replies": ..., "verdicts": ...}."""
    stored = StoredScene(
        question=scene.question.text,
        options=scene.question.options,
        texts=scene.texts,
        replies=scene.replies,
        verdicts=scene.verdicts,
    )
    return asdict(stored)


def scene_from_json(values: object, task: Task) -> Scene:
    """The scene of values that `scene_to_json` made, to be answered as `task` says. Raises
    UserError where a key is missing."""
    try:
        stored = _SCENE.validate_python(values)
    except ValidationError as error:
        name = error.errors()[0]["loc"][0]
        raise UserError(
            f"a scene of the training data lacks '{name}'; delete the file, it is made again"
        ) from error
    question = Question(
        id="scene", text=stored.question, document_ids=("scene",), options=stored.options
    )
    return Scene(
        question,
        stored.texts,
        task=task,
        replies=stored.replies,
        verdicts=stored.verdicts,
    )


class Recipe(Protocol):
    """One line of a training's settings: which texts to make for a skill, and how often
    (weight)."""

    skill: str
    weight: float

    def model_dump(self, *, mode: str = ...) -> Mapping[str, object]:
        """The recipe's values as a dict, which identify the training data."""


def world_module() -> Any:
    """The module of the synthetic world, which has `Recipe` and `make_scenes` (the head of this
    file). Raises CannotRun where its package is not installed."""
    module = registry.targets("scenes").get("world")
    if module is None:
        raise CannotRun(
            "scenes of the made-up world need the package longdoc-harness-pocket; install "
            "packages/pocket"
        )
    return importlib.import_module(module)


def draw_scenes(
    recipe: Recipe, kind: str, dice: Dice, purpose: Purpose = "training"
) -> Iterator[Scene]:
    """Draw one text of the synthetic world and yield its scenes.

    Args:
        recipe: What the text should be like.
        kind: The kind of scene, as Skill.scene names it.
        dice: Draws the text.
        purpose: Whether it is to train on or to test on.

    Raises:
        UnknownName: There is no such kind.
    """
    yield from world_module().make_scenes(recipe, kind, dice, purpose)


def world_scenes(
    task: TrainingTask, recipes: Sequence[Recipe], seed: int, purpose: Purpose
) -> Iterator[tuple[int, list[Scene]]]:
    """Yield (number, scenes) of text after text of the synthetic world, without end; texts without
    a scene are passed over. All follows from the seed.

    Args:
        task: The task whose scenes they are.
        recipes: What the texts should be like, drawn by their weights.
        seed: The seed of the texts.
        purpose: Whether they are to train on or to test on.

    Raises:
        UserError: The recipes make no scene.
    """
    weighted_recipes = [(recipe, recipe.weight) for recipe in recipes]
    text_number = 0
    texts_without_scene = 0
    while True:
        dice = Dice("adapters", purpose, seed, task.name, text_number)
        recipe = dice.weighted(weighted_recipes)
        scenes = list(draw_scenes(recipe, task.skill.scene, dice, purpose))
        texts_without_scene += 1  # in a row; set back below
        if scenes:
            yield text_number, scenes
            texts_without_scene = 0
        if texts_without_scene > _MAX_TEXTS_WITHOUT_SCENE:
            raise UserError(
                f"the recipes of '{task.name}' make no scene: no text allows what they ask"
            )
        text_number += 1


def write_world(
    path: Path, task: TrainingTask, recipes: Sequence[Recipe], count: int, seed: int
) -> None:
    """Write scenes of training texts to a file, unless it has them: a first line that says what
    they are made from, then a line for each text with its scenes, until there are `count` scenes.

    Args:
        path: The file.
        task: The task whose scenes they are.
        recipes: What the texts should be like.
        count: How many scenes.
        seed: The seed of the texts.

    Raises:
        UserError: The file has other scenes, or the recipes make none.
        SaveError: The file cannot be written.
    """
    recipes_hash = json_sha256([recipe.model_dump(mode="json") for recipe in recipes])[:16]
    made_from = {
        "source": "the synthetic world",
        "seed": seed,
        "scenes": count,
        "recipes": recipes_hash,
    }
    if is_made_from(path, made_from):
        return
    lines = [json_line({"id": HEAD, **made_from})]
    n_written = 0
    for text_number, scenes in world_scenes(task, recipes, seed, "training"):
        line = SceneLine(f"text {text_number}", scenes[: count - n_written])
        lines.append(json_line(line.as_json()))
        n_written += len(line.scenes)
        if n_written == count:
            break
    make_folder(path.parent)
    write_atomic(path, b"".join(lines))


def is_made_from(path: Path, about: Mapping[str, object]) -> bool:
    """Whether a file is there and was made from some data, as its first line says.

    Args:
        path: The file.
        about: What the first line must say beside its id.

    Returns:
        False where there is no file, or none with a whole line.

    Raises:
        UserError: The file was made from other data.
    """
    if not path.exists():
        return False
    first_line = next(iter(read_lines(path, "id", notes=[])), None)
    if first_line is None:
        return False
    recorded = {name: value for name, value in first_line.items() if name != "id"}
    if recorded != about:
        differences = differing_values(recorded, about)
        raise UserError(
            f"{path.name} in {path.parent} is of other data: {', '.join(differences)}; name "
            "another folder with --out, or delete the file"
        )
    return True


def differing_values(there: Mapping[str, object], here: Mapping[str, object]) -> list[str]:
    """The values of `here` that are others in `there`, as text: ["seed (1 there, 2 here)"]."""
    differing = []
    for name, value in here.items():
        if there.get(name) != value:
            differing.append(f"{name} ({there.get(name)} there, {value} here)")
    return differing


def read_scenes(path: Path, task: Task) -> tuple[list[Scene], int]:
    """Read a file of scenes.

    Args:
        path: The file.
        task: How the scenes are to be answered.

    Returns:
        The scenes in the order of items, and how many items have none.

    Raises:
        UserError: A scene lacks a value.
    """
    # All lines but the first, which says what the file is made from.
    lines = [line for line in read_lines(path, "id", notes=[]) if line["id"] != HEAD]
    lines.sort(key=lambda line: line.get("n", 0))  # labels come in the order in which they end
    scenes: list[Scene] = []
    n_without_scene = 0
    for line in lines:
        stored_scenes = line.get("scenes", [])
        scenes += [scene_from_json(stored_scene, task) for stored_scene in stored_scenes]
        if not stored_scenes:
            n_without_scene += 1
    return scenes, n_without_scene
