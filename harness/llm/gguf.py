"""GGUF files (llama.cpp's format) as models: converted once to a transformers folder, then loaded
like any other.

transformers unpacks the weights and rebuilds the tokenizer; both take a minute, so the result is
kept. bfloat16 rounds a weight by 2^-9 of its size at most; quantising it to 8 bits or fewer changed
it by more.
"""

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from filelock import FileLock

from harness.errors import CannotRun
from harness.storage.file_hash import file_hash
from harness.storage.files import new_folder, save_error, user_home

SUFFIX = ".gguf"
CONVERSION = 1
"""Raise it when the same file gives other weights or tokens: it is part of the identity of a
converted model."""

_FOLDER_SETTING = "the environment variable HARNESS_HOME"
_MAGIC = b"GGUF"


class ConvertedModel(NamedTuple):
    """A GGUF model that was converted for transformers.

    Attributes:
        folder: The folder of the converted model.
        identity: What identifies it: {"gguf": HASH, "conversion": 1}.
    """

    folder: Path
    identity: dict[str, object]


def find_or_convert(
    file: Path, sha256: str | None = None, needs_template: bool = False
) -> ConvertedModel:
    """The folder of a GGUF model converted for transformers; a model that the user's cache lacks is
    converted first, which takes a minute and is told on stderr.

    Args:
        file: The GGUF file.
        sha256: The sha256 of the file, where it is known beforehand.
        needs_template: Refuse a file without a chat template, before it is converted.

    Raises:
        NoTemplate: It has no chat template, and `needs_template`.
        CannotRun: The file is missing, another one, damaged, or holds what transformers does not
            read: an architecture, a quantisation, stretched positions.
        SaveError: The folder cannot be written.
    """
    _check_header(file)
    digest = file_hash(file)
    if sha256 is not None and digest != sha256:
        raise CannotRun(
            f"the GGUF file {file.name} is not the one that is expected (sha256 {digest[:12]}... "
            f"instead of {sha256[:12]}...); install or download it again"
        )
    folder = _converted_folder(digest)
    if not folder.is_dir():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(folder.with_suffix(".lock")):
                if not folder.is_dir():  # else another process converted it while this one waited
                    conversion = _import_conversion()
                    if needs_template and not conversion.has_template(file):
                        raise NoTemplate(file.name)
                    sys.stderr.write(f"converting {file.name}, once; it takes about a minute\n")
                    with new_folder(folder, _FOLDER_SETTING) as draft:
                        conversion.convert(file, draft)
        except OSError as error:
            raise save_error(folder, error, _FOLDER_SETTING) from error
    return ConvertedModel(folder, {"gguf": digest, "conversion": CONVERSION})


def is_converted(file: Path) -> bool:
    """Whether the user's cache has this file's converted model, so that `find_or_convert` takes no
    time."""
    return file.is_file() and _converted_folder(file_hash(file)).is_dir()


def _converted_folder(sha256: str) -> Path:
    """Where the model converted from the GGUF file with this hash is kept."""
    return user_home() / "gguf" / f"{sha256}-{CONVERSION}"


def _check_header(file: Path) -> None:
    """Raise CannotRun for a file that is no GGUF file of version 2 or 3."""
    try:
        with open(file, "rb") as stream:
            header = stream.read(8)
    except OSError as error:
        raise CannotRun(
            f"the GGUF file '{file}' cannot be read: {error.strerror or error}"
        ) from error
    if header[:4] != _MAGIC or len(header) < 8:
        raise CannotRun(
            f"'{file.name}' is no GGUF file: it does not begin as one does; download it again"
        )
    version = int.from_bytes(header[4:], "little")
    if version not in (2, 3):
        raise CannotRun(f"'{file.name}' is of GGUF version {version}; versions 2 and 3 can be read")


def _import_conversion() -> ModuleType:
    """Import the module that converts, and return it. Raises CannotRun without the package
    gguf."""
    if find_spec("gguf") is None:
        raise CannotRun("GGUF files need the package gguf; pip install 'longdoc-harness[gguf]'")
    # Late, as it loads torch, transformers and gguf.
    from harness.llm import gguf_conversion

    return gguf_conversion


class NoTemplate(CannotRun):
    """A model without a chat template."""

    def __init__(self, name: str) -> None:
        """The error for the model or file of this name."""
        remedy = "set --set model.template=none or a template file"
        super().__init__(f"'{name}' has no chat template; {remedy}")
