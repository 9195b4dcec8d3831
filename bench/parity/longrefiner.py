"""LongRefiner: outlines, the text behind them, local and global scores."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np

from bench.parity import Found, import_theirs, stand_in
from bench.parity.rows import Rows
from harness.bm25 import bm25
from methods.longrefiner.config import LongRefinerConfig
from methods.longrefiner.outline import Part, parse_outline, shorten_paragraph, write_outline
from methods.longrefiner.prompts import folded
from methods.longrefiner.scores import global_scores, local_scores, normalised
from methods.longrefiner.tree import Node, Tree, build_tree
from methods.retrieval import best_first

PROGRAM = "ignorejjj/LongRefiner"
METHODS = "`longrefiner-released`"
OUTLINES = "outline: sections and sub-sections of the released rows"
QUOTED = "outline: parts with text, the same rows with quoted titles of sub-sections"
TEXTS = "text behind each section of these outlines"
REASONS = {
    OUTLINES: "it reads only sub-sections with quoted titles, which its rows lack; 2 lose a section; kept: ours reads "
    "both. Answers: the best paragraphs (BM25, 512 tokens), outlined in that spelling",
    QUOTED: "it keeps sub-sections without text and does not find one clip with four dots; kept: a part without text "
    "shows nothing",
    TEXTS: "15 hold tags of unread sub-sections as text; in 2 the ends of a clip occur elsewhere too; kept",
}
TREES = 200
RELEASED = LongRefinerConfig(unmatched="drop", leaf_tokens=None)


def compare(code: Path, rows: Rows, found: Found) -> None:
    """Hold our trees of the released rows, then our scores of made-up trees, against the authors'
    `code`."""
    stand_in("vllm", "vllm.lora", "vllm.lora.request", "json_repair")
    module = import_theirs(code, "longrefiner.refiner")
    refiner, model = module.LongRefiner.__new__(module.LongRefiner), rows.metered
    for row in json.loads(
        (rows.folder / "longrefiner" / "step2_doc-structuring.json").read_text(encoding="utf-8")
    ):
        text, outline = row["input"], parse_outline(row["output"])
        released = refiner.parse_xml_doc(text, row["output"])
        found.add(OUTLINES, _released_titles(released), _titles(outline))
        marked = re.sub(r"(</?sub-section: )([^>]*)>", r'\1"\2">', row["output"])
        filled = _filled(build_tree(text, parse_outline(marked), RELEASED, model))
        found.add(QUOTED, _released_titles(refiner.parse_xml_doc(text, marked)), filled)
        ours = dict(_pieces(text, build_tree(text, outline, RELEASED, model), leaves=False))
        for name, part in released["sections"].items():
            found.add(TEXTS, _line(" ".join(_paragraphs(part))), ours.get(name, ""))
    _answers(refiner, rows, found)
    dice = random.Random(13)
    for _ in range(TREES):
        _scores(refiner, dice, found)


def _line(text: str) -> str:
    """A text on one line."""
    return " ".join(text.split())


def _released_titles(found: dict[str, Any]) -> list[Any]:
    """Sections, each with its sub-sections, as the released code has them."""
    return [
        [_line(name), list(map(_line, part["subsections"]))]
        for name, part in found["sections"].items()
    ]


def _titles(outline: Part) -> list[Any]:
    """Sections, each with its sub-sections, as our outline has them."""
    return [[p.title, [s.title for s in _parts(p)]] for p in _parts(outline) if p.kind == "section"]


def _parts(part: Part) -> list[Part]:
    """The children of a part that are parts."""
    return [child for child in part.children if isinstance(child, Part)]


def _filled(tree: Tree) -> list[Any]:
    """Sections, each with its sub-sections, as our tree has them: only parts with text."""
    of = {
        i: [s.title for s in tree.nodes if s.kind == "sub-section" and s.parent == i]
        for i in range(len(tree.nodes))
    }
    return [[node.title, of[i]] for i, node in enumerate(tree.nodes) if node.kind == "section"]


def _paragraphs(part: dict[str, Any]) -> list[str]:
    """The paragraphs of a section of the released code."""
    return [*part["content"], *(text for sub in part["subsections"].values() for text in sub or ())]


def _pieces(text: str, tree: Tree, leaves: bool) -> list[tuple[str, str]]:
    """(title, text) of our leaves, or of our parts."""
    own = "".join(text[a:b] for a, b in tree.kept) if tree.kept else text
    return [
        (node.title, _line(own[node.start : node.end]))
        for node in tree.nodes
        if node.is_leaf == leaves
    ]


def _answers(refiner: Any, rows: Rows, found: Found) -> None:
    """Compare what SmolLM2 answers from the paragraphs that each program finds behind the same
    outline."""
    shown: list[list[str]] = [[], []]
    data, model = rows.dataset(), rows.metered
    for example in data.examples:
        document = data.documents[example.question.document_ids[0]]
        bodies = [document.text[p.start : p.end].partition("\n")[2] for p in document.passages]
        clips = [shorten_paragraph(body, model.offsets(body), 8) for body in bodies]
        subs = [
            Part("sub-section", p.title, (c,))
            for p, c in zip(document.passages, clips, strict=True)
        ]
        # As in the released rows: paragraphs of its own, then sub-sections; the text in one line.
        parts = [
            Part("section", f"Part {n}", (*clips[n : n + 2], *subs[n + 2 : n + 5])) for n in (0, 5)
        ]
        outline, text = write_outline(Part("root", children=tuple(parts)), "..."), " ".join(bodies)
        released = refiner.parse_xml_doc(text, outline)["sections"].values()
        ours = _pieces(text, build_tree(text, parse_outline(outline), RELEASED, model), leaves=True)
        for texts, out in zip(
            ([t for p in released for t in _paragraphs(p)], [t for _, t in ours]),
            shown,
            strict=True,
        ):
            ranked = (
                [texts[i] for i in best_first(bm25(example.question.text, texts))] if texts else []
            )
            tokens = np.cumsum([model.count(text) for text in ranked])
            out.append("\n\n".join(ranked[: max(int((tokens <= 512).sum()), 1)]))
    rows.answers(found, OUTLINES, *map(rows.read, shown))


def _made_up(dice: random.Random) -> tuple[dict[str, Any], Tree, list[int]]:
    """A random document as the released code holds it, as our tree, and our nodes in the order of
    that code's own list.

    Its list: leaves, the abstract, each section behind its sub-sections. Titles differ, each part
    has a paragraph.
    """
    nodes: list[Node] = []

    def add(kind: str, title: str, parent: int) -> int:
        """Add a node, and return its number."""
        nodes.append(Node(kind, title, len(nodes), len(nodes) + 1, parent))
        return len(nodes) - 1

    def leaves(parent: int) -> list[str]:
        """Add one to three paragraphs under a node; returns their texts in the released form."""
        return [f"paragraph {add('paragraph', '', parent)}" for _ in range(dice.randint(1, 3))]

    parts = [add("abstract", "", -1)]
    document: dict[str, Any] = {"title": "T", "abstract": leaves(0), "sections": {}}
    for s in range(dice.randint(1, 4)):
        section, subs = add("section", f"S{s}", -1), {}
        own = leaves(section)
        for u in range(dice.choice([0, 0, 1, 3])):
            parts.append(add("sub-section", f"S{s}U{u}", section))
            subs[f"S{s}U{u}"] = leaves(parts[-1])
        parts.append(section)
        document["sections"][f"S{s}"] = {"content": own, "subsections": subs}
    tree = Tree(nodes)
    return document, tree, [*tree.leaves(), *parts]


def _scores(refiner: Any, dice: random.Random, found: Found) -> None:
    """Scores of the nodes of a made-up document by both programs: local ones, and with a selection
    and its weight."""
    document, tree, order = _made_up(dice)
    leaves = [dice.uniform(-5, 5) for _ in tree.leaves()]
    titles = [n.title for n in tree.nodes if n.title] + ["abstract"]
    for stage, chosen in (
        ("local scores of all nodes, min-max normalised (made-up trees)", []),
        (
            "local and global score of all nodes (made-up trees)",
            dice.sample(titles, dice.randint(1, len(titles))),
        ),
    ):
        share, held = dice.uniform(0.1, 0.9), {}
        refiner.local_score_func = lambda pairs: leaves[: len(pairs)]
        refiner.run_global_selection = lambda *_, names=chosen: [[[name.lower() for name in names]]]
        refiner.select_by_budget = lambda *args, into=held: into.update(nodes=args[3]) or [[]]
        weights = [{"Global": share, "Local": 1 - share}]
        with contextlib.redirect_stdout(io.StringIO()):
            refiner.run_all_search(["Q"], [[{}]], [[copy.deepcopy(document)]], weights, 100)
        scores = normalised([local_scores(tree, leaves, "code")])[0]
        if chosen:
            scores = scores + share * global_scores(tree, {folded(name) for name in chosen}, "code")
        found.add(
            stage, [node["score"] for node in held["nodes"][0]], [float(scores[i]) for i in order]
        )
