"""`harness pocket train`: train the pocket model; the same command resumes.

OUT/model        the weights with their tokenizer and card, as `--model` takes them
OUT/checkpoint   to resume from; OUT/log.jsonl: a line every 50 steps; OUT/curriculum.yaml: what --skill selects
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from harness.cli.command import execution, setting
from harness.cli.options import Device, Skills, TrainingMlflow, TrainingOut, split
from harness.cli.stopping import say_again
from harness.cli.training_run import Report, check, feed, watched
from harness.errors import UnknownName, UserError

if TYPE_CHECKING:
    from pocket.tasks.recipes import Curriculum


@dataclass(frozen=True)
class Options:
    """The options of a training: skills, first weights, length; see pocket.train.trainer.Settings."""

    out: TrainingOut
    skill: Skills = field(default_factory=list)
    curriculum: Annotated[
        str | None,
        setting("--curriculum FILE", "YAML file with the stages of training.", "pocket/train/curriculum.yaml"),
    ] = None
    begin: Annotated[
        str | None, setting("--from FOLDER", "Model folder whose weights training starts from.", "random weights")
    ] = None
    seed: Annotated[int, setting("--seed N", "Random seed of first weights and texts.")] = 0
    steps: Annotated[
        int | None,
        execution("--steps N", "Total optimizer steps after which to stop.", "until every stage is learnt", min=1),
    ] = None
    device: Device = "auto"
    mlflow: TrainingMlflow = None

    @property
    def folder(self) -> Path:
        """The training folder."""
        return Path(self.out)

    @property
    def first_weights(self) -> Path | None:
        """The model folder to start from."""
        return None if self.begin is None else Path(self.begin)


def train(options: Options) -> int:
    """Train the model on the skills that methods declare; the same command resumes."""
    from harness.storage.files import touch
    from pocket.train import llama

    check(options.device, options.mlflow)
    folder = options.folder
    if options.first_weights is not None:
        llama.check(options.first_weights, folder / "model")
    course = _course(options)
    touch(folder)
    left_out = {"out", "mlflow", "skill"}
    params = {k: str(v) for k, v in vars(options).items() if k not in left_out and v is not None}
    params |= {"skills": ", ".join(split(options.skill))} if options.skill else {}
    log = feed(folder, options.mlflow, params)
    done, step = watched(lambda report, stop: _train(options, course, report, stop), log)
    if not done:
        where = "the last checkpoint is kept" if step is None else f"a checkpoint of step {step} is saved"
        say_again(f"interrupted; {where}", ["harness", *sys.argv[1:]])
        return 130
    print(folder / "model")
    return 0


def _train(options: Options, course: Curriculum, report: Report, stop: threading.Event) -> int:
    """Run the training; the step it ended with."""
    from pocket.train.trainer import Settings, Trainer

    chosen = (options.first_weights, options.seed, options.steps)
    settings = Settings(options.folder, course, *chosen, device=options.device)
    trainer = Trainer(settings, report)
    if split(options.skill):  # what that left of the curriculum, once the training is known to go on with it
        text = json.dumps(course.model_dump(mode="json"), indent=2)  # which is YAML too
        (options.folder / "curriculum.yaml").write_text(text + "\n", encoding="utf-8")
    trainer.run(stop)
    return trainer.progress.step


# --- what to learn ----------------------------------------------------------------------------------------------------


def _course(options: Options) -> Curriculum:
    """The curriculum; with --skill only what those skills need. Raises UserError where OUT learns other skills."""
    from harness.training.teacher import WINDOW
    from pocket.tasks.catalog import skills
    from pocket.tasks.recipes import Curriculum
    from pocket.train import llama
    from pocket.train.curriculum import curriculum

    first = options.first_weights
    window = WINDOW if first is None else llama.config_of(first).max_position_embeddings
    whole = curriculum(None if options.curriculum is None else Path(options.curriculum), window)
    chosen = split(options.skill)
    for name in chosen:
        if name not in skills():
            raise UnknownName("skill", name, skills(), "harness pocket skills")
    course = Curriculum.model_validate(_only(whole, chosen)) if chosen else whole
    kept = options.folder / "curriculum.yaml"
    before = _skills(curriculum(kept, window)) if kept.exists() else None
    begun = (options.folder / "checkpoint" / "state.json").exists()
    if begun and before != (_skills(course) if chosen else None):
        raise UserError(f"the training in {options.out} is of other skills; name another folder with --out")
    return course


def _skills(course: Curriculum) -> set[str]:
    from pocket.tasks.recall import DRILLS

    return {recipe.skill for stage in course.stages for recipe in stage.recipes} - set(DRILLS)


def _only(whole: Curriculum, chosen: Sequence[str]) -> dict[str, Any]:
    """The stages with recipes of these skills, and the drills, which all begin with. Raises UserError for one without.

    A stage whose gates were all those of other skills waits for the ones that are left.
    """
    from pocket.tasks.recall import DRILLS

    stages: list[dict[str, Any]] = []
    for stage in whole.stages:
        recipes = [r.model_dump(mode="json") for r in stage.recipes if r.skill in (*chosen, *DRILLS)]
        if all(r["gate"] == 0 for r in recipes):
            recipes = [{**r, "gate": None} for r in recipes]
        if recipes:
            stages.append({**stage.model_dump(mode="json"), "recipes": recipes})
    there = {r["skill"] for stage in stages for r in stage["recipes"]}
    missing = [name for name in chosen if name not in there]
    if missing:
        raise UserError(
            f"the curriculum has no recipe of the skill '{missing[0]}'; add one, or name another --curriculum"
        )
    return {"stages": stages}
