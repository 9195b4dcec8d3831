"""Folders of the pocket model: whether one is whole, its tokenizer, and the mark of its weights."""

import shutil
from pathlib import Path

from harness.errors import CannotRun, UserError
from harness.storage.file_hash import file_hash

WEIGHTS = "model.safetensors"
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
_FILES = ("config.json", WEIGHTS, *_TOKENIZER)


def check_folder(folder: Path, to: Path) -> None:
    """Check that a training can begin from a model.

    Args:
        folder: The folder of the model.
        to: The folder of the model that the training writes; its tokenizer, if it has one, must be
            the same.

    Raises:
        CannotRun: `folder` lacks a file of a pocket model.
        UserError: `to` has another tokenizer.
    """
    missing = [name for name in _FILES if not (folder / name).is_file()]
    if missing:
        raise CannotRun(
            f"'{folder}' is no folder of a trained pocket model: it has no {missing[0]}"
        )
    there = to / "tokenizer.json"
    if there.exists() and file_hash(there) != file_hash(folder / "tokenizer.json"):
        raise UserError(
            f"the training in {to.parent} has another tokenizer than '{folder}'; name another "
            "folder with --out"
        )


def copy_tokenizer(folder: Path, to: Path) -> None:
    """Copy the files of a tokenizer from one model folder into another, which is made if it is not
    there; files that it has already stay.

    Args:
        folder: The folder with the tokenizer.
        to: The folder that gets it.
    """
    to.mkdir(parents=True, exist_ok=True)
    for name in _TOKENIZER:
        if not (to / name).exists():
            shutil.copyfile(folder / name, to / name)


def weights_digest(folder: Path) -> str:
    """The first 16 hex digits of the sha256 of the weights in a model folder."""
    return file_hash(folder / WEIGHTS)[:16]
