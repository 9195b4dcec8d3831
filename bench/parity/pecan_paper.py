"""PECAN a second time, from the paper alone and as plain as possible: eager attention, no cache,
lists.

Written from arXiv 2410.04790v2 (sections in brackets), the prompts of its first version (v1, tables
4 and 5) and the open choices of docs/methods/pecan.md, before methods/pecan was read. Not here: a
top level above the window, ablations.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

SUMMARISE = (
    "Summary the following information. Each segment is separated by a new line "
    "symbol.\n\n{nodes}\n\n"
    "Split your summary into different summary points according to the semantic information in "
    "these information "
    "points. It is not necessary to generate each summary point for each information point. Gather "
    "and organize "
    "information into summary points. In each summary point, try to avoid using pronouns like "
    "he/she/they and instead "
    "use full names. Generate in the format of:\n\n* summary point\n* summary point\n* summary "
    "point\n……\n\n"
    "Do not provide any explanation and start the summary directly."
)
FIRST = (
    "Can this question be answered by the following information? Response “Yes” or “No” in one "
    "word. Do not provide "
    "any explanation.\n\nQuestion:\n"
)
SECOND = "Given the above information and question, answer the question as concisely as you can."


@dataclass
class Node:
    """A text of the graph. level: 1 for chunks; edges: node number -> weight, to nodes one level
    below."""

    text: str
    level: int
    edges: dict[int, float]


@dataclass
class Found:
    """A search. moves: (node, the score it was chosen by, P(Yes) after it), 0 where there is none;
    and the answer."""

    moves: list[tuple[int, float, float]]
    answer: str


class Model:
    """A chat model read from a folder; every call reads its whole context."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.network = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager"
        ).eval()
        turns = [{"role": "user", "content": "@"}, {"role": "assistant", "content": "@"}]
        before, inside, _ = self.tokenizer.apply_chat_template(turns, tokenize=False).split("@")
        self.open, self.close = before, inside  # <user>; end of the turn and <assistant>
        turns += [{"role": "user", "content": "@"}]
        self.again = self.tokenizer.apply_chat_template(turns, tokenize=False).split("@")[2]

    def ids(self, text: str) -> list[int]:
        """Token ids of a piece of a prompt; markers of the template in it are their own tokens."""
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def read(self, ids: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits [vocabulary] behind `ids`; attention [token, token], the mean of heads and layers
        (3.1)."""
        with torch.no_grad():
            out = self.network(
                torch.tensor([ids]), use_cache=False, output_attentions=True, logits_to_keep=1
            )
        return out.logits[0, -1], torch.stack([layer[0].mean(0) for layer in out.attentions]).mean(
            0
        )

    def write(self, ids: list[int], most: int) -> tuple[list[int], bool]:
        """The greedy reply of at most `most` tokens, and whether it came to its end."""
        written: list[int] = []
        while len(written) < most:
            token = int(self.read(ids + written)[0].argmax())
            if token == self.tokenizer.eos_token_id:
                return written, True
            written.append(token)
        return written, False


def chunks(model: Model, text: str, size: int) -> list[str]:
    """The text in pieces of `size` tokens (3.1)."""
    begins = [
        a
        for a, _ in model.tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True
        ).offset_mapping
    ]
    cuts = [begins[i] for i in range(0, len(begins), size)] + [len(text)]
    return [" ".join(text[a:b].split()) for a, b in pairwise(cuts)]


def points(reply: str, ended: bool) -> list[tuple[int, int]]:
    """(start, end) of the bullets in a reply (A.1); not `ended`: the last one counts only where it
    is alone."""
    lines = [(m.start(), m.end()) for m in re.finditer(r"[^\n]*\S", reply)]
    found: list[tuple[int, int]] = []
    for begin, end in lines:
        if bullet := re.match(r"\s*(?:[*•]\s*|(?:-|\d+\.)\s+)", reply[begin:end]):
            found.append((begin + bullet.end(), end))
        elif found:
            found[-1] = (found[-1][0], end)
    if not found:
        found = lines
        if len(lines) == 1:
            found = [m.span() for m in re.finditer(r"[^\s.!?][^.!?]*[.!?]*", reply)]
    found = [(a, b) for a, b in found if re.search(r"\w", reply[a:b])]
    return found if ended or len(found) < 2 else found[:-1]


def build(
    model: Model, text: str, chunk_tokens: int, window: int, reserve: int, levels: int = 2
) -> list[Node]:
    """The graph (3.1), with levels until one call holds one, the `levels`-th at least. reserve:
    tokens of a reply."""
    nodes = [Node(chunk, 1, {}) for chunk in chunks(model, text, chunk_tokens)]
    below = list(range(len(nodes)))
    for level in range(2, 8):
        batches: list[list[int]] = [[]]
        used = frame = len(model.ids(_prompt(model, nodes, [])))
        for number in below:
            size = len(model.ids(_line(nodes[number]))) + len(model.ids("\n"))
            if batches[-1] and used + size + reserve > window:
                batches.append([])
                used = frame
            batches[-1].append(number)
            used += size
        first = len(nodes)
        for batch in batches:
            nodes += _summarised(model, nodes, batch, level, reserve)
        written = list(range(first, len(nodes)))
        fewer = len(written) < len(below) or _tokens(model, nodes, written) < _tokens(
            model, nodes, below
        )
        below = written
        if not fewer or (len(batches) == 1 and level > levels):
            break
    return nodes


def _tokens(model: Model, nodes: list[Node], numbers: list[int]) -> int:
    """How many tokens the texts of some nodes have in all."""
    return sum(len(model.ids(nodes[i].text)) for i in numbers)


def _line(node: Node) -> str:
    """A node as a line of the prompt: written nodes have a bullet, chunks have none."""
    return node.text if node.level == 1 else f"* {node.text}"


def _prompt(model: Model, nodes: list[Node], batch: list[int]) -> str:
    """The request to summarise a batch of nodes."""
    lines = "\n".join(_line(nodes[i]) for i in batch)
    return model.open + SUMMARISE.replace("{nodes}", lines) + model.close


def _summarised(
    model: Model, nodes: list[Node], batch: list[int], level: int, reserve: int
) -> list[Node]:
    """The points of one batch, each with its edges: mean attention over the tokens of both,
    normalised (3.1)."""
    prompt = _prompt(model, nodes, batch)
    encoded = model.tokenizer(prompt, add_special_tokens=False, return_offsets_mapping=True)
    columns, at = [], prompt.index("\n\n")
    for i in batch:
        at = prompt.index(nodes[i].text, at)
        end = at + len(nodes[i].text)
        columns.append([t for t, (a, b) in enumerate(encoded.offset_mapping) if a < end and b > at])
        at = end
    ids = list(encoded.input_ids)
    written, ended = model.write(ids, reserve)
    reply = model.tokenizer.decode(written)
    ends = [len(model.tokenizer.decode(written[: t + 1])) for t in range(len(written))]
    _, attention = model.read(ids + written)
    made = []
    for begin, end in points(reply, ended):
        rows = [
            len(ids) + t
            for t, b in enumerate(ends)
            if b > begin and (ends[t - 1] if t else 0) < end
        ]
        weights = [float(attention[rows][:, column].mean()) for column in columns]
        edges = {i: w / sum(weights) for i, w in zip(batch, weights, strict=True)}
        made.append(Node(" ".join(reply[begin:end].split()), level, edges))
    return made


def search(
    model: Model,
    nodes: list[Node],
    question: str,
    similarity: Callable[[str, str], float],
    *,
    t_p: float = 0.5,
    window: int = 8192,
    most: int = 32,
) -> Found:
    """Visit nodes until P(Yes) exceeds `t_p` (3.2), then answer in a second turn, in at most `most`
    tokens."""
    context = model.ids(model.open + FIRST)
    asked = list(range(len(context), len(context) + len(model.ids(question))))
    context += model.ids(question) + model.ids("\n\nInformation:")
    probe = model.ids(model.close)
    second = probe + model.ids("Yes") + model.ids(model.again) + model.ids(SECOND) + probe
    alike = [max(similarity(question, node.text), 0.0) for node in nodes]
    labels = [model.ids(word)[0] for word in ("Yes", "No")]
    relevance, scores = [0.0] * len(nodes), [0.0] * len(nodes)
    moves: list[tuple[int, float, float]] = []
    queue = [i for i, node in enumerate(nodes) if node.level == nodes[-1].level]
    while True:
        rows = {}
        for number in queue:
            mark, text = model.ids("\n*"), model.ids(" " + nodes[number].text)
            rows[number] = list(
                range(len(context) + len(mark), len(context) + len(mark) + len(text))
            )
            context += mark + text
        logits, attention = model.read(context + probe)
        for number in queue:
            # The question is at position 1 (appendix C).
            relevance[number] = (len(moves) + 2) * float(attention[rows[number]][:, asked].mean())
            moves.append((number, scores[number], 0.0))
        yes, no = logits[labels].softmax(0).tolist()
        moves[-1] = (*moves[-1][:2], yes / (yes + no))
        unvisited = [j for j in range(len(nodes)) if j not in [number for number, _, _ in moves]]
        if moves[-1][2] > t_p or not unvisited:
            break
        z = [
            sum(relevance[i] * node.edges.get(j, 0.0) for i, node in enumerate(nodes))
            for j in range(len(nodes))
        ]
        scores = [a + b for a, b in zip(_shares(z), _shares(alike), strict=True)]
        queue = [max(unvisited, key=lambda j: (scores[j], -j))]
        if (
            len(context + model.ids("\n*") + model.ids(" " + nodes[queue[0]].text) + second) + most
            > window
        ):
            break
    return Found(moves, model.tokenizer.decode(model.write(context + second, most)[0]).strip())


def _shares(values: list[float]) -> list[float]:
    """Values divided by their sum; as they are where that is 0."""
    total = sum(values)
    return [value / total for value in values] if total else values
