"""The code blocks of the documents, and what a command line needs to be run as it is printed.

A block says by its first line what happens to it in the tests:

    ```python file=lead.py     written into the page's folder (any language)
    ```python                  executed there
    ```console                 each line behind "$ " is run; other lines must occur in what it prints
    ```bash                    needs a download, a server or hours: its commands and options are looked up in --help
    ```                        an illustration
"""

import ast
import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("harness", "methods", "reports", "packages")
PAGES = sorted(path for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))
_BLOCK = re.compile(r"^```(\w*)(?: file=(\S+))?\n(.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """language and file: of its first line, "" where there is none."""

    language: str
    file: str
    text: str

    def commands(self):
        """(command line, lines printed below it); a line that ends in a backslash goes on in the
        next one."""
        command, printed = "", []
        for line in self.text.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                if command:
                    yield command, printed
                command, printed = line[2:].partition(" #")[0].strip(), []
            elif line.strip():
                printed.append(line.rstrip())
        if command:
            yield command, printed

    def lines(self):
        """The commands of a block without prompts, comments left out."""
        found = (
            line.partition(" #")[0].strip() for line in self.text.replace("\\\n", " ").splitlines()
        )
        return [line.removeprefix("$ ") for line in found if line and not line.startswith("#")]


def blocks(page):
    """The fenced blocks of a page in order."""
    return [
        Block(language, file, text)
        for language, file, text in _BLOCK.findall(page.read_text(encoding="utf-8"))
    ]


@cache
def trees():
    """(path, text, syntax tree) of every source file of the program."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    texts = [path.read_text(encoding="utf-8") for path in paths]
    return [(path, text, ast.parse(text)) for path, text in zip(paths, texts, strict=True)]


def split(line):
    """Variables before a command, and its words: "A=1 harness list" -> ({"A": "1"}, ["harness",
    "list"])."""
    words = shlex.split(line)
    first = next(
        (i for i, word in enumerate(words) if not re.fullmatch(r"[A-Z_]+=.*", word)), len(words)
    )
    variables = dict(word.split("=", 1) for word in words[:first])
    return variables, words[first:]
