"""Whether a training may go on from its checkpoint: with the stages it has begun, and the weights it began from.

    marks(course)                                     a hash of each stage, saved in the checkpoint
    course_notes(saved, course, out)                  notes on changes; refuses a stage that was begun and has changed
    start_notes(saved, Path("other/model"), out)      the same for --from

Stages not yet begun may change, and further ones may be added: no number trained so far depends on them.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from harness.errors import UserError
from harness.training.checkpoint import Checkpoint
from pocket.tasks.recipes import Curriculum
from pocket.train.initial_weights import weights_mark


def marks(course: Curriculum) -> list[str]:
    """For each stage 16 hex digits of the sha256 of its values, without its name.

    Defaults are left out, so that a new key of recipes changes no mark. The order of keys counts: questions are drawn
    in the order of `ask`.
    """
    stages = [stage.model_dump(mode="json", exclude={"name"}, exclude_defaults=True) for stage in course.stages]
    return [hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16] for values in stages]


def course_notes(saved: Checkpoint, course: Curriculum, out: Path) -> list[str]:
    """Sentences on changes of the course since the checkpoint was written.

    Raises UserError if a stage that was begun has changed. Checkpoints of earlier versions do not record their course:
    the training continues if the current stage has the recipes of the checkpoint.
    """
    p, now = saved.progress, marks(course)
    begun = p.stage + (p.step > p.since)
    then = saved.about.get("course")
    if then is None:
        if begun > len(now) or any(int(n) >= len(course.stages[p.stage].recipes) for n in p.recent):
            raise _other(out, course, min(p.stage, len(now)))
        return ["the checkpoint does not say what its course was; it goes on with this one"]
    wrong = next((n for n in range(begun) if now[n : n + 1] != then[n : n + 1]), None)
    if wrong is not None:
        raise _other(out, course, wrong)
    if then == now:
        return []
    return [f"the course was changed behind stage {begun}: {len(then)} stages before, {len(now)} now"]


def _other(out: Path, course: Curriculum, at: int) -> UserError:
    name = f" '{course.stages[at].name}'" if at < len(course.stages) else ""
    return UserError(
        f"the training in {out} is of another course: its stage {at + 1}{name} was begun and is not the same now; "
        "give the course that stage back, or name another folder with --out"
    )


def start_notes(saved: Checkpoint, begin: Path | None, out: Path) -> list[str]:
    """That --from is not used again. Raises UserError where the training began from other weights, or none."""
    if begin is None:
        return []
    if "begin" not in saved.about:
        return [f"the checkpoint does not say what it began from; '{begin}' is not used"]
    then = saved.about["begin"]
    if then != weights_mark(begin):
        raise UserError(
            f"the training in {out} began from {'other weights than those' if then else 'no weights, not from those'} "
            f"in '{begin}'; leave --from out to go on with it, or name another folder with --out"
        )
    return [f"it began from '{begin}' and has gone on since; the weights there are not used again"]
