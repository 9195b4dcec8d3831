"""`harness pocket train`: train the pocket model; the same command goes on where it stopped.

OUT/model        the weights with their tokenizer and card, as `--model` takes them
OUT/checkpoint   where it stands; OUT/log.jsonl: a line every 50 steps; OUT/curriculum.yaml: what --skill left of it
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.common import split
from harness.cli.stopping import say_again
from harness.cli.training_run import Tell, check, feed, watched
from harness.errors import UnknownName, UserError
from pocket.train import initial_weights as beginning

if TYPE_CHECKING:
    from pocket.tasks.recipes import Curriculum


@dataclass(frozen=True)
class Options:
    """The flags of the command; see pocket.train.trainer.Settings. skills: () for the whole curriculum."""

    out: Path
    course: Path | None = None
    begin: Path | None = None
    seed: int = 0
    steps: int | None = None
    device: str = "auto"
    skills: Sequence[str] = field(default_factory=tuple)
    mlflow: str | None = None


def main(options: Options) -> int:
    """Train and print the model's folder. Raises UserError, ConfigError, CannotRun, SaveError before it starts."""
    check(options.device, options.mlflow)
    if options.begin is not None:
        beginning.check(options.begin, options.out / "model")
    course = _course(options)
    from harness.storage.files import touch

    touch(options.out)
    told = feed(options.out, options.mlflow, _params(options))
    done, step = watched(lambda tell, stop: _train(options, course, tell, stop), told)
    if not done:
        where = "the last checkpoint is kept" if step is None else f"a checkpoint of step {step} is saved"
        say_again(f"interrupted; {where}", ["harness", *sys.argv[1:]])
        return 130
    print(options.out / "model")
    return 0


def _train(options: Options, course: Curriculum, tell: Tell, stop: threading.Event) -> int:
    """Run the training; the step it ended with."""
    from pocket.train.stoppable import Stoppable
    from pocket.train.trainer import Settings

    o = options
    settings = Settings(o.out, course, o.begin, o.seed, o.steps, device=o.device)
    trainer = Stoppable(settings, tell, stop)
    _keep(options, course)
    trainer.run()
    return trainer.progress.step


def _params(options: Options) -> dict[str, str]:
    """What MLflow is told of the flags."""
    told = {"out", "mlflow", "skills"}
    params = {k: str(v) for k, v in vars(options).items() if k not in told and v is not None}
    return params | ({"skills": ", ".join(split(options.skills))} if options.skills else {})


# --- what to learn ----------------------------------------------------------------------------------------------------


def _course(options: Options) -> Curriculum:
    """The curriculum; with --skill only what those skills need. Raises UserError where OUT learns other skills."""
    from harness.training.teacher import WINDOW
    from pocket.tasks.recipes import Curriculum
    from pocket.train.curriculum import curriculum, skills

    window = WINDOW if options.begin is None else beginning.shape(options.begin).window
    whole = curriculum(options.course, window)
    wanted = split(options.skills)
    for name in wanted:
        if name not in skills():
            raise UnknownName("skill", name, skills(), "harness pocket skills")
    course = Curriculum.model_validate(_only(whole, wanted)) if wanted else whole
    kept = options.out / "curriculum.yaml"
    before = _skills(curriculum(kept, window)) if kept.exists() else None
    begun = (options.out / "checkpoint" / "state.json").exists()
    if begun and before != (_skills(course) if wanted else None):
        raise UserError(f"the training in {options.out} is of other skills; name another folder with --out")
    return course


def _skills(course: Curriculum) -> set[str]:
    from pocket.tasks.recall import DRILLS

    return {recipe.skill for stage in course.stages for recipe in stage.recipes} - set(DRILLS)


def _keep(options: Options, course: Curriculum) -> None:
    """Write what --skill left of the curriculum into the folder, once the training is known to go on with it."""
    if split(options.skills):
        text = json.dumps(course.model_dump(mode="json"), indent=2)  # which is YAML too
        (options.out / "curriculum.yaml").write_text(text + "\n", encoding="utf-8")


def _only(whole: Curriculum, wanted: Sequence[str]) -> dict[str, Any]:
    """The stages with recipes of these skills, and the drills, which all begin with. Raises UserError for one without.

    A stage whose gates were all those of other skills waits for the ones that are left.
    """
    from pocket.tasks.recall import DRILLS

    stages: list[dict[str, Any]] = []
    for stage in whole.stages:
        recipes = [r.model_dump(mode="json") for r in stage.recipes if r.skill in (*wanted, *DRILLS)]
        if all(r["gate"] == 0 for r in recipes):
            recipes = [{**r, "gate": None} for r in recipes]
        if recipes:
            stages.append({**stage.model_dump(mode="json"), "recipes": recipes})
    there = {r["skill"] for stage in stages for r in stage["recipes"]}
    missing = [name for name in wanted if name not in there]
    if missing:
        raise UserError(
            f"the curriculum has no recipe of the skill '{missing[0]}'; add one, or name another --curriculum"
        )
    return {"stages": stages}
