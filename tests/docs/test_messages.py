"""docs/troubleshooting.md quotes messages that the program has."""

import ast
import re

import pytest

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
_ROWS = re.findall(r"^\| (?:`\w+` \| )?`([^`]{12,})` \|", PAGE, re.M)


def literals(path):
    """The strings of a file, those that stand beside each other joined; values in them are "..."."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            parts = [str(part.value) if isinstance(part, ast.Constant) else "..." for part in node.values]
            found.append("".join(parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return found


@pytest.fixture(scope="module")
def texts():
    files = [path for folder in ("harness", "methods", "reports", "packages") for path in (ROOT / folder).rglob("*.py")]
    return "\n".join(text for path in files for text in literals(path))


def test_there_are_messages():
    assert len(_ROWS) > 6


@pytest.mark.parametrize("message", _ROWS)
def test_a_quoted_message_is_in_the_program(message, texts):
    for piece in re.split(r"\.\.\.|'pocket/|'\.\.\.'", message):
        if len(piece.strip(" '`.:")) > 3:
            assert piece.strip(" '.") in texts, piece
