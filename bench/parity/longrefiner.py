"""LongRefiner: outlines, the text behind them, local and global scores."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.parity import Stage, stage, theirs
from bench.parity.rows import Rows
from methods.longrefiner.config import LongRefinerConfig
from methods.longrefiner.grammar import Part, parse
from methods.longrefiner.prompts import folded
from methods.longrefiner.select import global_scores, local_scores, normalised
from methods.longrefiner.tree import Node, Tree, build

PROGRAM = "ignorejjj/LongRefiner"
METHODS = "`longrefiner-released`"
TREES = 200
STAND_INS = {
    "vllm": ["LLM", "SamplingParams"],
    "vllm.lora": [],
    "vllm.lora.request": ["LoRARequest"],
    "json_repair": [],
}


def run(code: Path, rows: Rows) -> Iterator[Stage]:
    """The released sample rows, then made-up trees with made-up scores."""
    module = theirs(code, "longrefiner.refiner", STAND_INS)
    refiner = module.LongRefiner.__new__(module.LongRefiner)
    released_rows = json.loads((rows.folder / "longrefiner" / "step2_doc-structuring.json").read_text(encoding="utf-8"))

    titles: list[list[Any]] = [[], []]
    quoted: list[list[Any]] = [[], []]
    texts: list[list[Any]] = [[], []]
    model = rows.metered
    released = LongRefinerConfig(unmatched="drop", leaf_tokens=None)
    for row in released_rows:
        found = refiner.parse_xml_doc(row["input"], row["output"])
        outline = parse(row["output"])
        titles[0].append(_released_titles(found))
        titles[1].append(_titles(outline))
        marked = re.sub(r"(</?sub-section: )([^>]*)>", r'\1"\2">', row["output"])
        quoted[0].append(_released_titles(refiner.parse_xml_doc(row["input"], marked)))
        quoted[1].append(_filled(build(row["input"], parse(marked), released, model)))
        tree = build(row["input"], outline, released, model)
        own = "".join(row["input"][a:b] for a, b in tree.kept) if tree.kept else row["input"]
        mine = {node.title: " ".join(own[node.start : node.end].split()) for node in tree.nodes if not node.leaf}
        for name, part in found["sections"].items():
            kept = [*part["content"], *(text for sub in part["subsections"].values() for text in sub or ())]
            texts[0].append(" ".join(" ".join(kept).split()))
            texts[1].append(mine.get(name, ""))
    yield stage(
        "outline: sections and sub-sections of the released rows",
        titles[0],
        titles[1],
        'it reads sub-sections with quoted titles alone (<sub-section: "T">), its rows have none; 2 lose a section',
        "kept: ours reads both spellings (docs/methods/longrefiner.md#longrefiner-filling)",
    )
    yield stage(
        "outline: parts with text, the same rows with quoted titles of sub-sections",
        *quoted,
        "it keeps sub-sections without text where their section has none; one clip with four dots is not found there",
        "kept: a part without text shows nothing",
    )
    yield stage(
        "text behind each section of these outlines",
        texts[0],
        texts[1],
        "15: tags of sub-sections that were not read are text; 2: first and last words of a clip stand elsewhere too",
        "kept, as above",
    )
    local, total = _scores(refiner, random.Random(13))
    yield stage("local scores of all nodes, min-max normalised (made-up trees)", *local)
    yield stage(
        "local and global score of all nodes (made-up trees)",
        *total,
    )


def _released_titles(found: dict[str, Any]) -> list[Any]:
    """Sections, each with its sub-sections, as the released code has them."""
    return [[_line(name), list(map(_line, part["subsections"]))] for name, part in found["sections"].items()]


def _line(title: str) -> str:
    return " ".join(title.split())


def _titles(outline: Part) -> list[Any]:
    """The same of ours."""
    return [[p.title, [s.title for s in _parts(p)]] for p in _parts(outline) if p.kind == "section"]


def _filled(tree: Tree) -> list[Any]:
    """The same of a tree, whose parts have text."""
    of = {i: [s.title for s in tree.nodes if s.kind == "sub-section" and s.parent == i] for i in range(len(tree.nodes))}
    return [[node.title, of[i]] for i, node in enumerate(tree.nodes) if node.kind == "section"]


def _parts(part: Part) -> list[Part]:
    return [child for child in part.children if isinstance(child, Part)]


def _made_up(dice: random.Random) -> tuple[dict[str, Any], Tree]:
    """A document as the released code holds it, and as our tree: titles differ, each part has a paragraph."""
    nodes: list[Node] = []
    at = 0

    def leaf(parent: int) -> str:
        nonlocal at
        nodes.append(Node("paragraph", "", at, at + 1, parent))
        at += 1
        return f"paragraph {at}"

    def part(kind: str, title: str, parent: int) -> int:
        nodes.append(Node(kind, title, at, at, parent))
        return len(nodes) - 1

    top = part("abstract", "", -1)
    document: dict[str, Any] = {
        "title": "T",
        "abstract": [leaf(top) for _ in range(dice.randint(1, 3))],
        "sections": {},
    }
    for s in range(dice.randint(1, 4)):
        section = part("section", f"S{s}", -1)
        own = [leaf(section) for _ in range(dice.randint(1, 3))]
        subs = {}
        for u in range(dice.choice([0, 0, 1, 3])):
            sub = part("sub-section", f"S{s}U{u}", section)
            subs[f"S{s}U{u}"] = [leaf(sub) for _ in range(dice.randint(1, 3))]
        document["sections"][f"S{s}"] = {"content": own, "subsections": subs}
    return document, Tree(nodes)


def _scores(refiner: Any, dice: random.Random) -> tuple[list[list[Any]], list[list[Any]]]:
    """Scores of the nodes of TREES documents by both programs: local ones, and with a selection and its weight."""
    local: list[list[Any]] = [[], []]
    total: list[list[Any]] = [[], []]
    for _ in range(TREES):
        document, tree = _made_up(dice)
        leaves = [dice.uniform(-5, 5) for _ in tree.leaves()]
        titles = [n.title for n in tree.nodes if n.title] + ["abstract"]
        for chosen, out in (([], local), (dice.sample(titles, dice.randint(1, len(titles))), total)):
            share = dice.uniform(0.1, 0.9)
            held: dict[str, Any] = {}
            refiner.local_score_func = lambda pairs, values=leaves: values[: len(pairs)]
            refiner.run_global_selection = lambda *_, names=chosen: [[[name.lower() for name in names]]]
            refiner.select_by_budget = lambda *args, into=held: into.update(nodes=args[3]) or [[]]
            with contextlib.redirect_stdout(io.StringIO()):
                refiner.run_all_search(
                    ["Q"], [[{}]], [[copy.deepcopy(document)]], [{"Global": share, "Local": 1 - share}], 100
                )
            scores = normalised([local_scores(tree, leaves, "code")])[0]
            if chosen:
                scores = scores + share * global_scores(tree, {folded(name) for name in chosen}, "code")
            out[0].append([node["score"] for node in held["nodes"][0]])
            out[1].append([float(scores[i]) for i in _order(tree)])
    return local, total


def _order(tree: Tree) -> list[int]:
    """Our nodes in the order of the released list: leaves, the abstract, then each section behind its sub-sections."""
    parts: list[int] = []
    for i, node in enumerate(tree.nodes):
        if node.kind == "abstract":
            parts.append(i)
        elif node.kind == "section":
            parts += [k for k, sub in enumerate(tree.nodes) if sub.kind == "sub-section" and sub.parent == i] + [i]
    return [*tree.leaves(), *parts]
