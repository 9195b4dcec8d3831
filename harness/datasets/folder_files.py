"""The files of a folder of documents.

What a run reads here it sends to a model's server, and the folder may come from someone else (a
pull request that a test server checks out). So a link may only lead to what the folder shows
anyway.

    wiki/setup.md  wiki/faq.md -> setup.md     both are read
    wiki/notes.md -> ~/.ssh/id_ed25519         refused, with the link's name
    wiki/notes.md -> .git/config               refused: hidden files are not read
"""

import os
from pathlib import Path

from harness.errors import DataError


def document_files(folder: Path) -> list[Path]:
    """List the files of a folder and its subfolders that are not hidden, in the order of their
    paths.

    Raises:
        DataError: A link leads out of the folder, or to a hidden file of it.
    """
    files = []
    for path in sorted(folder.rglob("*")):
        if _is_hidden_in(folder, path):
            continue
        if path.is_symlink():
            _refuse_link_to_unread_file(path, folder)
        if path.is_file():
            files.append(path)
    return files


def _is_hidden_in(folder: Path, path: Path) -> bool:
    """Whether a file in a folder, or a subfolder on the way to it, has a name that starts with a
    full stop.

    Args:
        folder: The folder, whose own name does not matter.
        path: The file.
    """
    return any(name.startswith(".") for name in path.relative_to(folder).parts)


def _refuse_link_to_unread_file(link: Path, folder: Path) -> None:
    """Raise DataError for a link that leads out of the folder, or to something hidden in it.

    Args:
        link: The link.
        folder: The folder as it was named.
    """
    target = Path(os.path.realpath(link))  # of a link to itself: that link
    real_folder = folder.resolve()
    if target.is_relative_to(real_folder) and not _is_hidden_in(real_folder, target):
        return
    name = link.relative_to(folder).as_posix()
    problem = (
        f"is a link to something outside of {folder.name}, or hidden in it, which is not read; "
        "copy it into the folder, or remove the link"
    )
    raise DataError.of_file(name, problem)
