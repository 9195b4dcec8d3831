"""`harness init [DIR]`: a folder that compares methods on your own documents: pages and questions to
replace, a suite, a model behind a server, and a workflow.

    DIR/documents/*.md                     three small pages
    DIR/questions.jsonl                    six questions about them
    DIR/configs/suites/wiki.yaml           which methods are run
    DIR/configs/models/wiki-model.yaml     where the model is
    DIR/.github/workflows/answers.yml      asks the questions when the documents change

Nothing is overwritten, and nothing is written through a link that leads out of DIR.
"""

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from harness.errors import UserError
from harness.storage.files import save_error, write_atomic

FILES = {
    "documents/setup.md": "documents/setup.md",
    "documents/people.md": "documents/people.md",
    "documents/office.md": "documents/office.md",
    "questions.jsonl": "questions.jsonl",
    "configs/suites/wiki.yaml": "suite.yaml",
    "configs/models/wiki-model.yaml": "model.yaml",
    ".github/workflows/answers.yml": "answers.yml",
}
"""Place in the folder -> file of harness/cli/init_files."""

_NEXT = """\
Put your pages into documents/, your questions into questions.jsonl, and the model's address into
configs/models/wiki-model.yaml. Then, in {folder}:

export HARNESS_CONFIGS=configs MODEL_KEY=...
harness validate --suite wiki
harness run --suite wiki --parallel 8
harness report results --html report.html --xlsx report.xlsx"""

Folder = Annotated[
    str, typer.Argument(metavar="DIR", help="Folder to write into; it is made where it is missing.")
]


def init(folder: Folder = ".") -> int:
    """Write documents, questions, a suite and a workflow to start from.

    Replace the documents and questions by yours. No file is overwritten.
    """
    root = Path(folder)
    _check_free(root)
    _check_links(root)
    for relative_path, source in FILES.items():
        content = resources.files("harness.cli").joinpath("init_files", source).read_bytes()
        _write(root / relative_path, content)
    print("\n".join(str(root / relative_path) for relative_path in FILES))
    print()
    print(_NEXT.format(folder=root))
    return 0


def _check_free(root: Path) -> None:
    """Raise UserError where one of our files is in the folder already,
    or the folder is itself a file.
    """
    if root.exists() and not root.is_dir():
        raise UserError(f"'{root}' is a file; name a folder: harness init DIR")
    existing_files = [
        relative_path
        for relative_path in FILES
        if (root / relative_path).exists() or (root / relative_path).is_symlink()
    ]
    if existing_files:
        raise UserError(
            f"nothing is written, as '{root}' has {', '.join(existing_files)} already; move them away or "
            "name another folder: harness init DIR"
        )


def _check_links(root: Path) -> None:
    """Raise UserError where a folder to write into is a link that leads out of `root`."""
    resolved_root = root.resolve()
    for relative_path in FILES:
        parent = (root / relative_path).parent
        if not parent.resolve().is_relative_to(resolved_root):
            raise UserError(f"'{parent}' leads out of '{root}'; nothing is written")


def _write(path: Path, content: bytes) -> None:
    """Write a file and make the folders that it lies in. Raises SaveError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise save_error(path.parent, error, "harness init DIR") from error
    write_atomic(path, content, setting="harness init DIR")
