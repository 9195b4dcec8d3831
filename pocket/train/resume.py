"""What a training begins from or goes on with: a model folder, the stages of its checkpoint, its first weights.

    check(folder, OUT / "model")                      raises CannotRun for no pocket model, UserError for its tokenizer
    shape(folder)                                     Shape of its weights
    take_tokenizer(folder, to)                        copies the tokenizer where there is none yet
    marks(course)                                     a hash of each stage, saved in the checkpoint
    course_notes(saved, course, out)                  notes on changes; refuses a stage that was begun and has changed
    start_notes(saved, Path("other/model"), out)      the same for --from

Stages not yet begun may change, and further ones may be added: no number trained so far depends on them.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import CannotRun, UserError
from harness.storage.file_hash import file_hash

if TYPE_CHECKING:
    from harness.training.checkpoint import Checkpoint
    from pocket.tasks.recipes import Curriculum
    from pocket.train.network import Shape


_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
_FILES = ("config.json", "model.safetensors", *_TOKENIZER)
_NAMES = {
    "vocabulary": "vocab_size",
    "width": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "inner": "intermediate_size",
    "window": "max_position_embeddings",
}


def check(folder: Path, to: Path) -> None:
    """Raise CannotRun where `folder` lacks a file of a pocket model, UserError where `to` has another tokenizer."""
    missing = [name for name in _FILES if not (folder / name).is_file()]
    if missing:
        raise CannotRun(
            f"'{folder}' is no folder of a trained pocket model: it has no {missing[0]}"
            if folder.is_dir()
            else f"there is no folder '{folder}' to go on from"
        )
    there = to / "tokenizer.json"
    if there.exists() and there.read_bytes() != (folder / "tokenizer.json").read_bytes():
        raise UserError(
            f"the training in {to.parent} has another tokenizer than '{folder}'; name another folder with --out"
        )


def shape(folder: Path) -> Shape:
    """The shape in config.json. Raises CannotRun if it cannot be read or is not of a pocket model."""
    from pocket.train.network import Shape

    try:
        config = dict(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise CannotRun(f"the config.json in '{folder}' cannot be read ({error})") from error
    try:
        return Shape(**{ours: int(config[theirs]) for ours, theirs in _NAMES.items()})
    except (KeyError, TypeError, ValueError) as error:
        raise CannotRun(f"the config.json in '{folder}' is none of a pocket model ({error})") from error


def take_tokenizer(folder: Path, to: Path) -> None:
    """Copy the tokenizer's files into the folder `to`, unless it has them."""
    to.mkdir(parents=True, exist_ok=True)
    for name in _TOKENIZER:
        if not (to / name).exists():
            shutil.copyfile(folder / name, to / name)


def weights_mark(folder: Path) -> str:
    """The first 16 hex digits of the sha256 of its weights."""
    return file_hash(folder / "model.safetensors")[:16]


# --- checkpoints ------------------------------------------------------------------------------------------------------


def marks(course: Curriculum) -> list[str]:
    """For each stage 16 hex digits of the sha256 of its values, without its name.

    Defaults are left out, so that a new key of recipes changes no mark. The order of keys counts: questions are drawn
    in the order of `ask`.
    """
    stages = [stage.model_dump(mode="json", exclude={"name"}, exclude_defaults=True) for stage in course.stages]
    return [hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16] for values in stages]


def course_notes(saved: Checkpoint, course: Curriculum, out: Path) -> list[str]:
    """Sentences on changes of the course since the checkpoint was written.

    Raises UserError if a stage that was begun has changed.
    """
    p, now = saved.progress, marks(course)
    begun = p.stage + (p.step > p.since)
    then = saved.about["course"]
    wrong = next((n for n in range(begun) if now[n : n + 1] != then[n : n + 1]), None)
    if wrong is not None:
        name = f" '{course.stages[wrong].name}'" if wrong < len(course.stages) else ""
        raise UserError(
            f"the training in {out} is of another course: its stage {wrong + 1}{name} was begun and is not the same "
            "now; give the course that stage back, or name another folder with --out"
        )
    if then == now:
        return []
    return [f"the course was changed behind stage {begun}: {len(then)} stages before, {len(now)} now"]


def start_notes(saved: Checkpoint, begin: Path | None, out: Path) -> list[str]:
    """That --from is not used again. Raises UserError where the training began from other weights, or none."""
    if begin is None:
        return []
    then = saved.about["begin"]
    if then != weights_mark(begin):
        raise UserError(
            f"the training in {out} began from {'other weights than those' if then else 'no weights, not from those'} "
            f"in '{begin}'; leave --from out to go on with it, or name another folder with --out"
        )
    return [f"it began from '{begin}' and has gone on since; the weights there are not used again"]
