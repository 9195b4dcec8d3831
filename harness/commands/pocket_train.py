"""`harness pocket train`: train the pocket model; the same command goes on where it stopped.

OUT/model        the weights with their tokenizer and card, as `--model` takes them
OUT/checkpoint   where it stands; OUT/log.jsonl: a line every 50 steps; OUT/curriculum.yaml: what --skill left of it
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.commands.common import split
from harness.commands.stopping import say, say_again, signals
from harness.errors import ConfigError, UnknownName, UserError
from harness.pocket import beginning

if TYPE_CHECKING:
    from harness.pocket.curriculum import Curriculum
    from harness.pocket.feed import Feed

__all__ = ["Options", "main"]

_DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True)
class Options:
    """The flags of the command; see harness.pocket.training.Settings. skills: () for the whole curriculum."""

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
    _check(options)
    course = _course(options)
    from harness.files import touch

    touch(options.out)
    feed = _feed(options)
    stop, status = threading.Event(), "FAILED"
    try:
        with signals(stop):
            step = _train(options, course, feed, stop)
        status = "KILLED" if stop.is_set() else "FINISHED"
    except KeyboardInterrupt:
        step, status = None, "KILLED"
    finally:
        if feed is not None:
            feed.close(status)
    if status == "KILLED":
        where = "the last checkpoint is kept" if step is None else f"a checkpoint of step {step} is saved"
        say_again(f"interrupted; {where}", ["harness", *sys.argv[1:]])
        return 130
    print(options.out / "model")
    return 0


def _train(options: Options, course: Curriculum, feed: Feed | None, stop: threading.Event) -> int:
    """Run the training; the step it ended with."""
    from harness.pocket.stoppable import Stoppable
    from harness.pocket.training import Settings

    def tell(line: str) -> None:
        say(line)
        if feed is not None:
            feed.wake()

    o = options
    settings = Settings(o.out, course, o.begin, o.seed, o.steps, device=o.device)
    trainer = Stoppable(settings, tell, stop)
    _keep(options, course)
    trainer.run()
    return trainer.progress.step


def _check(options: Options) -> None:
    """Raise UnknownName for a device that is none, ConfigError for an MLflow that cannot be used at all.

    CannotRun and UserError come from a folder that cannot be begun from.
    """
    if options.device not in _DEVICES and not re.fullmatch(r"cuda:\d+", options.device):
        raise UnknownName("device", options.device, _DEVICES)
    if options.mlflow not in (None, "off"):
        from harness.tracking import problems

        if found := problems(options.mlflow or ""):
            raise ConfigError(found)
    if options.begin is not None:
        beginning.check(options.begin, options.out / "model")


def _feed(options: Options) -> Feed | None:
    if options.mlflow in (None, "off"):
        return None
    from harness.pocket.feed import Feed

    told = {"out", "mlflow", "skills"}
    params: dict[str, Any] = {k: str(v) for k, v in vars(options).items() if k not in told and v is not None}
    if options.skills:
        params["skills"] = ", ".join(split(options.skills))
    return Feed(options.out, options.mlflow or "", params, lambda line: say(f"warning: {line}"))


# --- what to learn ----------------------------------------------------------------------------------------------------


def _course(options: Options) -> Curriculum:
    """The curriculum; with --skill only what those skills need. Raises UserError where OUT learns other skills."""
    from harness.pocket.curriculum import curriculum, skills
    from harness.pocket.recipes import Curriculum
    from harness.pocket.teacher import WINDOW

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
    from harness.pocket.recall import DRILLS

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
    from harness.pocket.recall import DRILLS

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
