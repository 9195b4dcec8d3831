"""ReadAgent: where pages end, the labels offered and the text around them, with the same picks."""

from __future__ import annotations

import hashlib
import json
import random
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from bench.parity import Found
from bench.parity.rows import Rows
from methods import gist
from methods.gist import Gist, PageCutter
from tests.methods.conftest import FakeTools

PROGRAM = "read-agent/read-agent.github.io"
METHODS = "`gist` (made-up books in QuALITY's layout; a stand-in for the model picks a label)"
REASONS: dict[str, str] = {
    "pages (texts)": "a paragraph of more than 1,200 words is cut here, as no window may hold it; kept",
}
TEXTS = 400
NOTEBOOK = "assets/read_agent_demo.ipynb"
HELPERS, PAGINATION = 6, 7  # cells
WORDS = ["the", "old", "mill", "stood", "by", "a", "river", "and", "nobody", "knew", "who", "had"]
WORDS += ["built", "it,", "said", "Toren.", "Yes!"]
BREAKS = ("\n\n\n", "\n \n\n", "\n\n\n", "\n\n")  # a single blank line ends no paragraph there


@dataclass
class Picker:
    """Picks a label by the text shown, and keeps what was shown. asked: (text, labels)."""

    asked: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)

    def pick(self, passage: str) -> int:
        """One of the labels in the passage that a request shows."""
        labels = tuple(map(int, re.findall(r"^<(\d+)>\s*$", passage, re.MULTILINE)))
        text = " ".join(re.sub(r"<\d+>", "", passage).split())
        self.asked.append((text, labels))
        return labels[int(hashlib.sha256(text.encode()).hexdigest(), 16) % len(labels)]

    def choices(self) -> list[tuple[str, tuple[int, ...]]]:
        """What was asked with more than one label; ours does not ask for the only one."""
        return [(text, labels) for text, labels in self.asked if len(labels) > 1]


def _paragraph(dice: random.Random) -> str:
    """Words in lines of 8 to 14, 90 words on average."""
    words = dice.choices(WORDS, k=max(1, int(dice.expovariate(1 / 90))))
    lines = []
    while words:
        length = dice.randint(8, 14)
        lines.append(" ".join(words[:length]))
        words = words[length:]
    return "\n".join(lines)


def _book(dice: random.Random) -> str:
    """A made-up text of 3 to 60 paragraphs."""
    text = _paragraph(dice)
    for _ in range(dice.randint(2, 59)):
        text += dice.choice(BREAKS) + _paragraph(dice)
    return text


def _cells(code: Path) -> dict[str, Any]:
    """The notebook's functions, in a namespace of their own."""
    cells = json.loads((code / NOTEBOOK).read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {"re": re, "string": string, "print": lambda *_, **__: None}
    for number in (HELPERS, PAGINATION):
        source = "".join(cells[number]["source"]).replace("pages = quality_pagination(example)", "")
        exec(source, names)
    return names


def _pages_of_theirs(names: dict[str, Any], text: str, picker: Picker) -> list[str]:
    """The texts of the pages that their code cuts, where `picker` chooses their ends."""

    def query_model(prompt: str) -> str:
        """The reply to a request for the end of a page."""
        return f"Break point: <{picker.pick(prompt.partition('Passage:')[2])}>\n Because"

    names["query_model"] = query_model
    pages = names["quality_pagination"]({"article": text, "title": ""}, verbose=False)
    return [" ".join("\n".join(page).split()) for page in pages]


def _pages_of_ours(text: str, picker: Picker) -> list[str]:
    """The texts of the pages that our code cuts, where `picker` chooses their ends."""

    def ask(_model: Any, pieces: Sequence[str], *_: Any) -> Any:
        """What would be read in a reply to a request for the end of a page."""
        passage = "".join(pieces).partition("Text:\n")[2].partition("\n\nThe text ends")[0]
        return mock.Mock(parsed=[picker.pick(passage)])

    tools: Any = FakeTools(window=100_000)
    with mock.patch.object(gist, "ask_parsed", ask):
        spans = PageCutter(text, Gist.Config()).cut_pages(tools.model(), tools)
    return [" ".join(text[start:end].split()) for start, end in spans]


def compare(code: Path, rows: Rows, found: Found) -> None:  # noqa: ARG001 - all texts are made up
    """Compare the pages of made-up books, and what the requests for their ends show."""
    dice = random.Random(20261129)
    names = _cells(code)
    for _ in range(TEXTS):
        text = _book(dice)
        theirs, ours = Picker(), Picker()
        same = _pages_of_theirs(names, text, theirs) == _pages_of_ours(text, ours)
        found.add("pages (texts)", True, same)
        if same:
            shown = theirs.choices() == ours.choices()
            found.add(
                "labels, the page before and the next paragraph (texts with equal pages)",
                True,
                shown,
            )
