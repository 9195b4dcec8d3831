"""ComoRAG: what its memory hands on from round to round, and what it reads in replies, with the same notes."""

from __future__ import annotations

import ast
import contextlib
import io
import random
import re
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, get_args

import numpy as np

from bench.parity import Found, import_theirs, stand_in
from bench.parity.rows import Rows
from harness.types import Question
from methods.comorag import (
    Kind,
    Memory,
    MemoryNode,
    _Search,
    final_answer,
    passages_per_episode,
    probes_in,
)

PROGRAM = "EternityJune25/ComoRAG"
METHODS = "`comorag` (made-up notes and replies; vectors are drawn by the words)"
NOTES = "notes that are joined to a finding, white space aside (rounds)"
FINDINGS = "all findings, the newest first, white space aside (rounds)"
ROUND = "notes of a round by kind (rounds)"
PROBES = "earlier queries, in any order (rounds)"
WINDOWS = "passages in an episode, for 1 to 3,000 passages"
ANSWERS = "the answer in a reply"
QUERIES = "queries in a reply"
REASONS: dict[str, str] = {
    ANSWERS: "it keeps a colon behind the heading, and ends before a second heading; kept",
    QUERIES: "it takes no JSON with words around it, or in a list, sorts queries by their names, "
    "and takes more than three; kept",
}
QUESTIONS, ROUNDS, REPLIES = 200, 4, 2000
WORDS = "mill Ada Bo left built river 1719 Toren town gate bridge who when where".split()  # noqa: SIM905
ENDS = ["### Final Answer", "\n", ": ", "*", "Paris", "It is", "\n### Final Answer\n", " "]
LISTS = [
    '{"probe_1": "who", "probe_2": "when"}',
    '{"probe_2": "b", "probe_1": "a"}',
    '{"probe_1": "a", "probe_2": "b", "probe_3": "c", "probe_4": "d"}',
    '["a", "b"]',
    "no query",
    "{}",
]
AROUND = ["", "\n", "Here: ", "```json\n"]
KINDS: dict[Kind, str] = {
    "passages": "veridical",
    "summaries": "semantical",
    "episodes": "episodic",
    "finding": "fusion",
}


def _vectors(texts: Sequence[str], _kind: str = "") -> np.ndarray:
    """A row of length 1 for each text, drawn by its words, so that no two texts are equally near."""
    rows = []
    for text in texts:
        seed = zlib.crc32(" ".join(text.split()).encode())
        rows.append(np.random.default_rng(seed).normal(size=64))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def _similarity(query: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The cosine of each row and the query, all of length 1."""
    return np.asarray(rows @ query)


def _text(dice: random.Random, most: int) -> str:
    """A made-up text of 1 to `most` words."""
    return " ".join(dice.choices(WORDS, k=dice.randint(1, most)))


def _lines(text: str) -> list[str]:
    """The lines of a text that are not blank, without white space at their ends."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def _compare_memory(theirs: Any, dice: random.Random, found: Found) -> None:
    """Compare the rounds of one question."""
    question = _text(dice, 6)
    asked: list[str] = []
    fused = [_text(dice, 12) for _ in range(ROUNDS)]

    def fuse(**given: Any) -> str:
        """Note what is to be joined; the finding is made up."""
        asked.append(given["content"])
        return fused[len(asked) - 1]

    pool = theirs.MemoryPool(
        embedding_model=SimpleNamespace(encode=_vectors),
        agent=SimpleNamespace(fuse_memory_nodes=fuse),
    )
    memory = Memory()
    encoder = SimpleNamespace(encode=_vectors, similarity=_similarity)
    tools: Any = SimpleNamespace(encoder=lambda: encoder)
    unused: Any = None
    asks = Question("q", question, ())
    search = _Search(asks, unused, {}, unused, unused, tools, memory)
    probes = [question]
    for number in range(ROUNDS):
        _add_nodes(theirs, pool, memory, probes, dice)
        if number:
            with contextlib.redirect_stdout(io.StringIO()):
                content = pool.create_fusion_content(question, 0.5)
            pool.add_fused_node(question, content, [])
            found.add(NOTES, _lines(asked[-1]), _lines("\n\n".join(search._similar_notes())))
            memory.new_nodes.append(MemoryNode(question, "finding", (), content))
            _compare_round(pool, memory, found)
        with contextlib.redirect_stdout(io.StringIO()):
            pool.merge_temp_to_main()
        memory.earlier_nodes += memory.new_nodes
        memory.new_nodes = []
        found.add(PROBES, sorted(pool.get_all_probes()), sorted(memory.earlier_probes()))
        probes = [_text(dice, 4) for _ in range(dice.randint(1, 3))]


def _add_nodes(
    theirs: Any, pool: Any, memory: Memory, probes: Sequence[str], dice: random.Random
) -> None:
    """Add a node of each kind for each query to both memories.

    Args:
        theirs: The module of their memory.
        pool: Their memory.
        memory: Ours.
        probes: The queries.
        dice: Draws the notes.
    """
    for probe in probes:
        for kind in get_args(Kind)[:3]:
            note = _text(dice, 10)
            node = theirs.MemoryNode(probe=probe, node_type=KINDS[kind], cue=note)
            pool.add_to_temp_pool(node)
            memory.new_nodes.append(MemoryNode(probe, kind, (), note))


def _compare_round(pool: Any, memory: Memory, found: Found) -> None:
    """Compare what a round shows: notes by kind, and the findings."""
    nodes = [*pool.get_temp_nodes_by_type("fusion"), *pool.get_nodes_by_type("fusion")]
    history = "".join(f"probe : {node.probe}\nFinding : {node.cue}\n" for node in nodes)
    found.add(FINDINGS, _lines(history), _lines(memory.findings()))
    for kind in get_args(Kind)[:3]:
        cues = [node.cue for node in pool.get_temp_nodes_by_type(KINDS[kind])]
        found.add(ROUND, "\n".join(cues), memory.new_notes(kind))


def _part(path: Path, kind: str, name: str) -> Any:
    """A method of a class, alone, of a module that imports much else."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == kind:
            (method,) = [
                part
                for part in node.body
                if isinstance(part, ast.FunctionDef) and part.name == name
            ]
    names: dict[str, Any] = {"np": np, "List": list, "Optional": Any, "print": print}
    names |= {"logging": SimpleNamespace(info=print_nothing), "tiktoken": stand_in_encoding()}
    names["BaseSummarizationModel"] = Any
    exec(compile(ast.Module([method], []), str(path), "exec"), names)
    return names[name]


def print_nothing(*_words: object) -> None:
    """In place of a program's log."""


def stand_in_encoding() -> Any:
    """In place of the package that counts tokens."""
    return SimpleNamespace(get_encoding=print_nothing)


def _compare_windows(code: Path, found: Found) -> None:
    """Compare how many passages an episode is of."""
    begin = _part(code / "src/comorag/utils/timeline_utils.py", "TimelineSummarizer", "__init__")
    for count in range(1, 3001):
        theirs = SimpleNamespace()
        store = SimpleNamespace(get_all_ids=lambda count=count: range(count))
        begin(theirs, store, None, None)
        found.add(WINDOWS, theirs.window_size, passages_per_episode(count))


def _compare_replies(code: Path, dice: random.Random, found: Found) -> None:
    """Compare what is read in replies; the line for answers is the one in their loop."""
    source = (code / "src/comorag/ComoRAG.py").read_text(encoding="utf-8")
    (line,) = re.findall(r"pred_ans = (response_content\.split\(.*)", source)
    find = _part(code / "src/comorag/utils/agents.py", "ProbeAgent", "find_probes")
    for _ in range(REPLIES):
        reply = "".join(dice.choices(ENDS, k=dice.randint(1, 6)))
        try:
            answer = eval(line, {"response_content": reply})
        except IndexError:
            answer = reply.strip()
        found.add(ANSWERS, answer, final_answer(reply))
        written = dice.choice(AROUND) + dice.choice(LISTS) + dice.choice(["", "\n"])
        agent = SimpleNamespace(process=lambda *_given, written=written: written.strip())
        with contextlib.redirect_stdout(io.StringIO()):
            queries = find(agent, "q")
        found.add(QUERIES, queries, probes_in(written) or [])


def compare(code: Path, _rows: Rows, found: Found) -> None:
    """Compare made-up questions, passages and replies."""
    stand_in("wandb", "src.comorag.utils.llm_utils")
    package = ModuleType("src.comorag")  # theirs imports the whole program
    package.__path__ = [str(code / "src" / "comorag")]
    sys.modules["src.comorag"] = package
    theirs = import_theirs(code, "src.comorag.utils.memory_utils")
    dice = random.Random(0)
    for _ in range(QUESTIONS):
        _compare_memory(theirs, dice, found)
    _compare_windows(code, found)
    _compare_replies(code, dice, found)
