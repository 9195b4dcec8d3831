"""A model folder that a training begins from: its files, its shape, its tokenizer.

check(folder, OUT / "model")        raises CannotRun for what is no pocket model, UserError for another tokenizer
shape(folder)                       Shape of its weights
take_tokenizer(folder, to)          copies the tokenizer where there is none yet
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import CannotRun, UserError

if TYPE_CHECKING:
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
    from harness.storage.file_hash import file_hash

    return file_hash(folder / "model.safetensors")[:16]
