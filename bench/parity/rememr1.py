"""ReMemR1: every request of its loop, and what is recalled, with the same replies."""

from __future__ import annotations

import ast
import asyncio
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from bench.parity import Found, import_theirs
from bench.parity.rows import Rows
from harness.config.layers import Choices
from harness.config.resolve import resolve_model
from harness.llm.model_info import find_or_download
from harness.llm.scripted import Rule
from harness.types import Document, Question
from methods.rememr1 import ReMemR1, nearest_memory
from tests.methods.conftest import FakeTools

PROGRAM = "syr-cn/ReMemR1"
METHODS = "`rememr1` (made-up texts and replies)"
REQUESTS = "requests of made-up texts"
THOUGHT = "requests where replies begin with <thinking>"
RECALLED = "recalled memories, SmolLM2's tokens"
REASONS = {
    THOUGHT: "it leaves the thinking in the memory; kept: thinking is cut off every model's reply",
    REQUESTS: "of equal similarities it recalls any memory; kept: ours takes the newest",
    RECALLED: "of equal similarities it recalls any memory; kept: ours takes the newest",
}
TEXTS, SEGMENT = 60, 12
FOLDER = "taskutils/memory_eval/utils"
BOX = "and put the answer in \\boxed{}."
WORDS = ["mill", "river", "Toren", "Velindra", "boats", "sold", "Kelford", "winter", "song"]


class WordTokenizer:
    """Words with the white space before them as tokens, as those of a scripted model."""

    def encode(self, text: str) -> list[str]:
        return re.findall(r"\s*\S+|\s+", text)

    def decode(self, tokens: list[str]) -> str:
        return "".join(tokens)

    def tokenize(self, text: str) -> list[str]:
        return [token.replace(" ", "Ġ") for token in self.encode(text)]


@dataclass
class Client:
    """Stands in for a server: replies by a function, and keeps the requests."""

    reply: Callable[[str], str]
    requests: list[str] = field(default_factory=list)
    status: int = 200

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    def post(self, json: Any, **_: Any) -> Client:
        (message,) = json["messages"]
        self.requests.append(message["content"])
        return self

    async def json(self) -> Any:
        return {"choices": [{"message": {"content": self.reply(self.requests[-1])}}]}


def _program(code: Path) -> dict[str, Any]:
    """The names of the evaluation's loop, whose module imports a client for servers."""
    retriever = import_theirs(code / FOLDER, "tf_idf_retriever")
    path = code / FOLDER / "rememr1.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Assign)
    body = [node for node in tree.body if isinstance(node, kinds)]
    names: dict[str, Any] = {
        "re": re,
        "TfidfRetriever": retriever.TfidfRetriever,
        "URL": "",
        "API_KEY": "",
        "RECURRENT_CHUNK_SIZE": SEGMENT,
        "RECURRENT_MAX_NEW": 64,
        "RECURRENT_MAX_CONTEXT_LEN": 10**9,
    }
    exec(compile(ast.Module(body, []), str(path), "exec"), names)
    return names


def _requests_of_theirs(
    names: dict[str, Any], text: str, question: str, reply: Callable[[str], str]
) -> list[str]:
    """The requests that their code sends for a question about a text."""
    client = Client(reply)

    async def get_async_client() -> Client:
        return client

    names["get_async_client"] = get_async_client
    item = {"_id": 1, "context": text, "input": question}
    asyncio.run(names["async_query_llm"](item, "model", WordTokenizer()))
    return client.requests


def _rules(dice: random.Random, segments: int, before: str) -> list[Rule]:
    """A reply for each segment, which names its number; the later ones recall."""
    rules: list[Rule] = []
    for number in range(segments):
        memory = " ".join(dice.choices(WORDS, k=6))
        reply = f" {before}<update>{memory} m{number} </update>\n"
        if number and dice.random() < 0.6:
            reply += f"<recall>{dice.choice(WORDS)} m{dice.randrange(number)}</recall>"
        rules.append(Rule(when=f"<section>\n{' ' * bool(number)}s{number} ", reply=reply))
    return [*rules, Rule(reply="done")]


def compare(code: Path, rows: Rows, found: Found) -> None:
    """Compare all requests of made-up texts, then recalls with SmolLM2's tokenizer."""
    names = _program(code)
    dice = random.Random(20261129)
    for number in range(TEXTS):
        stage, before = REQUESTS, ""
        if number % 6 == 0:
            stage, before = THOUGHT, "<thinking>x</thinking> "
        _loop(names, stage, before, dice, found)
    _recalls(names, rows, dice, found)


def _loop(
    names: dict[str, Any], stage: str, before: str, dice: random.Random, found: Found
) -> None:
    """Compare the requests of one made-up text."""
    segments = dice.randint(1, 9)
    parts = [f"s{n} {' '.join(dice.choices(WORDS, k=SEGMENT - 1))}" for n in range(segments)]
    text = "  " + " ".join(parts) + "\n"
    rules = _rules(dice, segments, before)

    def reply(request: str) -> str:
        first = next(rule for rule in rules if rule.when in request)
        return first.reply or ""

    theirs = _requests_of_theirs(names, text, "Where?", reply)
    tools: Any = FakeTools(rules)
    method = ReMemR1(ReMemR1.Config(segment_tokens=SEGMENT))
    question = Question("q", "Where?", ("d",))
    method.answer(question, [Document("d", text)], [{}], tools)
    sent = [prompt.removeprefix("\n[user]") for prompt in tools.reader.prompts]
    form = f"memory. {tools.task.instruction}"
    ours = [prompt.replace(form, f"memory {BOX}") for prompt in sent]
    found.each(stage, theirs, ours)


def _recalls(names: dict[str, Any], rows: Rows, dice: random.Random, found: Found) -> None:
    """Compare what queries recall from memories: sentences of HotpotQA's documents."""
    folder = find_or_download(resolve_model(Choices(model="smollm2-135m")).value).folder
    retriever = names["TfidfRetriever"](AutoTokenizer.from_pretrained(folder))
    for question, text in rows.texts():
        sentences = [line.strip() for line in text.split(". ") if line.strip()]
        memories = list(dict.fromkeys(dice.sample(sentences, min(8, len(sentences)))))
        for size in range(2, len(memories) + 1):
            theirs = retriever.top1_retrieve(question, memories[:size])
            ours = nearest_memory(question, memories[:size], rows.metered)
            found.add(RECALLED, theirs, ours)
