"""Recursive Language Models: what blocks of code print, and what models are asked, turn by turn."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from unittest import mock

from bench.parity import Found, import_theirs, stand_in
from bench.parity.rows import Rows
from harness.llm.scripted import Rule, Script, ScriptedModel
from harness.types import Document, Question
from methods.rlm import RLM
from tests.methods.conftest import FakeTools

PROGRAM = "alexzhang13/rlm"
METHODS = "`rlm` (made-up code over HotpotQA's documents; replies by rule)"
OUTPUTS = "outputs of blocks of code"
ASKED = "requests of code"
ANSWERS = "final answers"
REASONS: dict[str, str] = {}
TEXTS = 20
SHOWN = 19_000  # characters that are compared; theirs cuts an output with its variables
BLOCKS = (
    "print(context[:{n}])",
    "print(len(context), context.count('the'))",
    "words = context.split()\nprint(words[:{n}][-3:])",
    "parts = [context[i:i + 900] for i in range(0, len(context), 900)]\nprint(len(parts))",
    "import re\nprint(re.findall(r'[A-Z]\\w+', context)[:{n} % 9])",
    "note = llm_query('What is said of {n}? ' + context[{n}:{n} + 60])\nprint(note)",
    "notes = llm_query_batched([context[i:i + 50] for i in range(0, {n}, 90)])\nprint(notes)",
    "print(rlm_query('Name one: ' + context[-{n}:][:40]))",
    "print('x' * 20005)",
    "context = 'gone'\nllm_query = None",
    "print(context[-{n}:][:30])",
    "total = sum(len(word) for word in context.split())\nprint(total / {n})",
    "print(undefined)",
    "for line in context.split('\\n')[:3]:\n    print(line[:{n}])",
)
LAST = "answer['content'] = context[:{n}].strip().split()[-1]\nanswer['ready'] = True"


class Client:
    """Stands in for a server: replies with the next block of code, or to a prompt of code."""

    model_name = "model"

    def __init__(self, blocks: list[str], usage: Any, last_usage: Any) -> None:
        self.blocks = list(blocks)
        self.asked: list[str] = []
        self.outputs: list[str] = []
        self.get_usage_summary = lambda: usage
        self.get_last_usage = lambda: last_usage

    def completion(self, prompt: Any, **_: Any) -> str:
        if isinstance(prompt, str):
            self.asked.append(prompt)
            return reply_to(prompt)
        if "REPL output" in prompt[-2]["content"]:
            self.outputs.append(prompt[-2]["content"].partition("\n")[2])
        return f"I go on.\n```repl\n{self.blocks.pop(0)}\n```"

    async def acompletion(self, prompt: Any, **_: Any) -> str:
        return self.completion(prompt)


def reply_to(prompt: str) -> str:
    """A reply that depends on the prompt."""
    return f"{len(prompt)} characters, {prompt.split()[0]}"


class Scripted(ScriptedModel):
    """Our model: the same replies."""

    def __init__(self, blocks: list[str]) -> None:
        super().__init__(Script(window=10**6))
        self.blocks = list(blocks)
        self.asked: list[str] = []

    def pick_rule(self, kind: str, context: str) -> Rule:
        if "\nTurn " not in context:
            prompt = context.removeprefix("\n[user]")
            self.asked.append(prompt)
            return Rule(reply=reply_to(prompt))
        return Rule(reply=f"I go on.\n```repl\n{self.blocks.pop(0)}\n```")


def _printed(output: str) -> str:
    """What a block printed, of the text that the authors' model is shown."""
    printed = output.partition("REPL variables:")[0].strip()
    return printed.removeprefix("No output")[:SHOWN]


def compare(code: Path, rows: Rows, found: Found) -> None:
    """Run the same blocks in both programs, over HotpotQA's documents."""
    stand_in("dotenv", "rich", "rich.console", "rich.panel", "rich.rule", "rich.style")
    stand_in("rich.table", "rich.text", "openai")
    program = import_theirs(code, "rlm.core.rlm")
    types = import_theirs(code, "rlm.core.types")
    dice = random.Random(20261129)
    for question, text in rows.texts(limit=TEXTS):
        blocks = [block.replace("{n}", str(dice.randint(60, 400))) for block in BLOCKS]
        dice.shuffle(blocks)
        blocks.append(LAST.replace("{n}", str(dice.randint(60, 400))))
        usage = program.UsageSummary(model_usage_summaries={})
        client = Client(blocks, usage, types.ModelUsageSummary(1, 1, 1))
        with mock.patch.object(program, "get_client", lambda *_, client=client: client):
            settings = {"backend_kwargs": {"model_name": "model"}, "max_iterations": len(blocks)}
            theirs = program.RLM(**settings).completion(text, root_prompt=question).response
        model = Scripted(blocks)
        tools: Any = FakeTools(reader=model, searcher=model)
        method = RLM(RLM.Config(allow_code=True, max_turns=len(blocks)))
        ours = method.answer(Question("q", question, ("d",)), [Document("d", text)], [{}], tools)
        printed = [step.shown.text for step in ours.steps if step.action == "code" and step.shown]
        found.each(
            OUTPUTS, map(_printed, client.outputs), [p.strip()[:SHOWN] for p in printed[:-1]]
        )
        found.each(ASKED, sorted(client.asked), sorted(model.asked))
        found.add(ANSWERS, theirs, ours.text)
