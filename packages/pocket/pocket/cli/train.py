"""`harness pocket train`: train the pocket model; the same command resumes.

OUT/model        the weights with their tokenizer and card, as `--model` takes them
OUT/checkpoint   to resume from; OUT/log.jsonl: a line every 50 steps; OUT/curriculum.yaml: what --skill selects
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from harness_training.cli.training_run import Report, check_options, run_until_stopped, training_log

from harness.cli.command import execution, setting
from harness.cli.options import Device, Skills, TrainingMlflow, TrainingOut, split_names
from harness.cli.stopping import print_resume_command
from harness.errors import UserError
from pocket.cli.model_card import chosen_skills

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


def train(options: Options) -> int:
    """Train the model on the skills that methods declare; the same command resumes."""
    from harness.storage.files import check_writable
    from pocket.train import llama

    check_options(options.device, options.mlflow)
    folder = Path(options.out)
    if options.begin is not None:
        llama.check_folder(Path(options.begin), folder / "model")
    course = _chosen_curriculum(options)
    check_writable(folder)
    left_out = {"out", "mlflow", "skill"}
    params = {k: str(v) for k, v in vars(options).items() if k not in left_out and v is not None}
    params |= {"skills": ", ".join(split_names(options.skill))} if options.skill else {}
    log = training_log(folder, options.mlflow, params)
    done, step = run_until_stopped(lambda report, stop: _train(options, course, report, stop), log)
    if not done:
        where = "the last checkpoint is kept" if step is None else f"a checkpoint of step {step} is saved"
        print_resume_command(f"interrupted; {where}")
        return 130
    print(folder / "model")
    return 0


def _train(options: Options, course: Curriculum, report: Report, stop: threading.Event) -> int:
    """Run the training; return the step it ended with."""
    from pocket.train.trainer import Settings, Trainer

    out, first = Path(options.out), None if options.begin is None else Path(options.begin)
    trainer = Trainer(Settings(out, course, first, options.seed, options.steps, device=options.device), report)
    if split_names(options.skill):  # what that left of the curriculum, once the training is known to go on with it
        text = json.dumps(course.model_dump(mode="json"), indent=2)  # which is YAML too
        (out / "curriculum.yaml").write_text(text + "\n", encoding="utf-8")
    trainer.run(stop)
    return trainer.progress.step


def _chosen_curriculum(options: Options) -> Curriculum:
    """The curriculum; with --skill only what those skills need. Raises UserError where OUT learns other skills."""
    from harness_training.teacher import WINDOW

    from pocket.train import llama
    from pocket.train.curriculum import read_curriculum

    out, first = Path(options.out), options.begin
    window = WINDOW if first is None else llama.config_of(Path(first)).max_position_embeddings
    whole = read_curriculum(None if options.curriculum is None else Path(options.curriculum), window)
    chosen = [skill.name for skill in chosen_skills(options.skill)]
    course = _only_skills(whole, chosen) if chosen else whole
    kept = out / "curriculum.yaml"
    before = _skills_of(read_curriculum(kept, window)) if kept.exists() else None
    begun = any((out / "checkpoint").glob("*"))
    if begun and before != (_skills_of(course) if chosen else None):
        raise UserError(f"the training in {options.out} is of other skills; name another folder with --out")
    return course


def _skills_of(course: Curriculum) -> set[str]:
    from pocket.tasks.recall import DRILLS

    return {recipe.skill for stage in course.stages for recipe in stage.recipes} - set(DRILLS)


def _only_skills(whole: Curriculum, chosen: Sequence[str]) -> Curriculum:
    """The stages with recipes of these skills, and the drills, which all begin with. Raises UserError for one without.

    A stage whose gates were all those of other skills waits for the ones that are left.
    """
    from pocket.tasks.recall import DRILLS

    missing = [name for name in chosen if name not in _skills_of(whole)]
    if missing:
        raise UserError(
            f"the curriculum has no recipe of the skill '{missing[0]}'; add one, or name another --curriculum"
        )
    stages = []
    for stage in whole.stages:
        recipes = tuple(recipe for recipe in stage.recipes if recipe.skill in (*chosen, *DRILLS))
        if all(recipe.gate == 0 for recipe in recipes):
            recipes = tuple(recipe.model_copy(update={"gate": None}) for recipe in recipes)
        stages += [stage.model_copy(update={"recipes": recipes})] if recipes else []
    return whole.model_copy(update={"stages": tuple(stages)})
