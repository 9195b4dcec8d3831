"""docs/troubleshooting.md quotes messages that the program has."""

import ast
import re

from tests.docs.pages import ROOT, trees

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")


def literals(tree):
    """The strings of a file, those that stand beside each other joined; values in them are
    "..."."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "..." for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_each_quoted_message_is_in_the_program():
    messages = re.findall(r"^\| (?:`\w+` \| )?`([^`]{12,})` \|", PAGE, re.M)
    assert len(messages) > 6
    texts = "\n".join(text for _, _, tree in trees() for text in literals(tree))
    for message in messages:
        for piece in re.split(r"\.\.\.|'pocket/|'\.\.\.'", message):
            assert len(piece.strip(" '`.:")) <= 3 or piece.strip(" '.") in texts, message
