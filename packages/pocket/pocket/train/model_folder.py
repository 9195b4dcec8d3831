"""Folders of the pocket model: whether one is whole, its tokenizer, and the mark of its weights."""

import shutil
from pathlib import Path

from harness.errors import CannotRun, UserError
from harness.storage.file_hash import file_hash

WEIGHTS = "model.safetensors"
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
_MODEL_FILES = ("config.json", WEIGHTS, *_TOKENIZER_FILES)


def check_folder(folder: Path, target_folder: Path) -> None:
    """Check that a training can begin from a model.

    Args:
        folder: The folder of the model.
        target_folder: The folder of the model that the training writes; its tokenizer, if it has
            one, must be the same.

    Raises:
        CannotRun: `folder` lacks a file of a pocket model.
        UserError: `target_folder` has another tokenizer.
    """
    missing = [name for name in _MODEL_FILES if not (folder / name).is_file()]
    if missing:
        raise CannotRun(
            f"'{folder}' is no folder of a trained pocket model: it has no {missing[0]}"
        )
    tokenizer = folder / "tokenizer.json"
    target_tokenizer = target_folder / "tokenizer.json"
    if target_tokenizer.exists() and file_hash(target_tokenizer) != file_hash(tokenizer):
        raise UserError(
            f"the training in {target_folder.parent} has another tokenizer than '{folder}'; name "
            "another folder with --out"
        )


def copy_tokenizer(folder: Path, target_folder: Path) -> None:
    """Copy the files of a tokenizer from one model folder into another, which is made if it is not
    there; files that it has already stay.

    Args:
        folder: The folder with the tokenizer.
        target_folder: The folder that gets it.
    """
    target_folder.mkdir(parents=True, exist_ok=True)
    for name in _TOKENIZER_FILES:
        if not (target_folder / name).exists():
            shutil.copyfile(folder / name, target_folder / name)


def weights_digest(folder: Path) -> str:
    """The first 16 hex digits of the sha256 of the weights in a model folder."""
    return file_hash(folder / WEIGHTS)[:16]
