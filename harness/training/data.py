"""Training scenes in a file of JSON lines, made once and kept.

    write_world(path, task, recipes, count, seed)            scenes of the synthetic world, with the right replies
    write_labels(path, task, items, about, labelling, tell)  scenes labelled by a teacher; resumes after the last item

    {"id": "text 0", "scenes": [{"question": "...", "options": null, "texts": [], "replies": [], "verdicts": [true]}]}

Scenes hold texts, not tokens: the method's own code puts its prompts around them, as it does in a run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from harness.config.schema import digest
from harness.errors import QuestionError, UserError
from harness.method import Labelling, Scene, Task, TrainingTask
from harness.stats.rng import Dice
from harness.storage.file_hash import file_hash
from harness.storage.files import append_line, json_line, read_lines, repair, write_atomic
from harness.training.scene_source import Purpose, Recipe, scenes
from harness.types import Document, Question

Item = tuple[str, Question | None, Sequence[Document]]
"""(id, question, its documents); per "document": no question and one document."""

_HEAD = "about"
_TRIES = 50  # texts without a scene that are drawn in a row before a recipe is given up


def to_json(scene: Scene) -> dict[str, Any]:
    """A scene as JSON values."""
    return {
        "question": scene.question.text,
        "options": scene.question.options,
        "texts": scene.texts,
        "replies": scene.replies,
        "verdicts": scene.verdicts,
    }


def from_json(values: dict[str, Any], task: Task) -> Scene:
    """The scene of `to_json`. Raises UserError where a key is missing."""
    try:
        options = values["options"]
        question = Question("scene", values["question"], ("scene",), None if options is None else tuple(options))
        return Scene(
            question, tuple(values["texts"]), task, tuple(values["replies"]), tuple(map(bool, values["verdicts"]))
        )
    except (KeyError, TypeError) as e:
        raise UserError(f"a scene of the training data lacks {e}; delete the file, it is made again") from e


# --- the synthetic world ----------------------------------------------------------------------------------------------


def world_scenes(
    task: TrainingTask, recipes: Sequence[Recipe], seed: int, purpose: Purpose
) -> Iterator[tuple[int, list[Scene]]]:
    """Yield (number, scenes) of text after text, without end, as a function of the seed alone.

    Raises UserError where the recipes make no scene.
    """
    total, number, idle = sum(recipe.weight for recipe in recipes), 0, 0
    while True:
        dice = Dice("adapters", purpose, seed, task.name, number)
        left = dice.random() * total
        recipe = next((r for r in recipes if (left := left - r.weight) < 0), recipes[-1])
        of_text = list(scenes(recipe, task.skill.scene, dice, purpose))
        if of_text:
            yield number, of_text
        idle = 0 if of_text else idle + 1
        if idle > _TRIES:
            raise UserError(f"the recipes of '{task.name}' make no scene: no text allows what they ask")
        number += 1


def write_world(path: Path, task: TrainingTask, recipes: Sequence[Recipe], count: int, seed: int) -> None:
    """Write `count` scenes of training texts to `path`, unless it has them. Raises UserError, SaveError."""
    about = {"source": "the synthetic world", "seed": seed, "scenes": count, "recipes": _mark(recipes)}
    if _begun(path, about):
        return
    lines, made = [json_line({"id": _HEAD, **about})], 0
    for number, of_text in world_scenes(task, recipes, seed, "training"):
        kept = of_text[: count - made]
        lines.append(json_line({"id": f"text {number}", "scenes": [to_json(scene) for scene in kept]}))
        made += len(kept)
        if made == count:
            break
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, b"".join(lines))


def _mark(recipes: Sequence[Recipe]) -> str:
    return digest([recipe.model_dump(mode="json") for recipe in recipes])[:16]


def _begun(path: Path, about: dict[str, Any]) -> bool:
    """Whether the file exists. Raises UserError where it was made from other data."""
    first = next(iter(read_lines(path, "id", [])), None) if path.exists() else None
    if first is None:
        return False
    before = {key: value for key, value in first.items() if key != "id"}
    if before != about:
        wrong = [f"{k} ({before.get(k)} there, {v} here)" for k, v in about.items() if before.get(k) != v]
        raise UserError(
            f"{path.name} in {path.parent} is of other data: {', '.join(wrong)}; name another folder with --out, or "
            "delete the file"
        )
    return True


# --- labels -----------------------------------------------------------------------------------------------------------


def write_labels(
    path: Path,
    task: TrainingTask,
    items: Iterable[Item],
    about: dict[str, Any],
    labelling: Labelling,
    tell: Callable[[str], None],
) -> None:
    """Let the teacher label the items that `path` lacks; each becomes a line at once.

    An item that the teacher cannot label (a document longer than its window) gets a line with the reason. Raises
    UserError where the file was made from other data, SaveError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if not _begun(path, about):
        write_atomic(path, json_line({"id": _HEAD, **about}))
    repair(path, "id")
    done = {line["id"] for line in read_lines(path, "id")}
    items = [item for item in items if item[0] not in done]
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        for number, (key, question, documents) in enumerate(items):
            line: dict[str, Any] = {"id": key}
            try:
                line["scenes"] = [to_json(scene) for scene in task.label(question, documents, labelling)]
            except QuestionError as e:
                line |= {"scenes": [], "left_out": str(e)}
            append_line(fd, path, json_line(line))
            if number % 50 == 49 or number + 1 == len(items):
                tell(f"{task.name}: {len(done) + number} of {len(done) + len(items) - 1} labelled")
    finally:
        os.close(fd)


# --- reading ----------------------------------------------------------------------------------------------------------


def scenes_of(path: Path, task: Task) -> tuple[list[Scene], int]:
    """The scenes of a file, and the number of items without any. Raises UserError, DataError."""
    out: list[Scene] = []
    empty = 0
    for line in read_lines(path, "id", []):
        if line["id"] != _HEAD:
            rows = cast("list[dict[str, Any]]", line.get("scenes", []))
            out += [from_json(row, task) for row in rows]
            empty += not rows
    return out, empty


def file_mark(path: Path) -> str:
    """The first 16 hex digits of the file's sha256."""
    return file_hash(path)[:16]
