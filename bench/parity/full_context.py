"""The whole document in the window: prompts and greedy tokens of transformers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
import transformers

from bench.parity import Stage, stage
from bench.parity.rows import Rows
from harness.config.resolve import part
from harness.cost.meter import Meter
from harness.llm.model_info import local_folder
from harness.models import MeteredModel

PROGRAM = "transformers"
METHODS = "`full-context` with SmolLM2-135M, float32"
QUESTIONS = 20
TOKENS = 24


def run(_code: Path | None, rows: Rows) -> Iterator[Stage]:
    """One user turn with the text and the question: token ids of the prompt, then the reply."""
    model = rows.smollm2
    folder = local_folder(part("models", model="smollm2-135m-base"))[0]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    network = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    prompts: list[list[list[int]]] = [[], []]
    replies: list[list[str]] = [[], []]
    for question, text in rows.texts("hotpotqa", QUESTIONS):
        turn = f"{text[:4000]}\n\nQuestion: {question}"
        ids = tokenizer.apply_chat_template(
            [{"role": "user", "content": turn}], add_generation_prompt=True, return_dict=False
        )
        prompts[0].append(list(ids))
        metered = MeteredModel(model, Meter("answer"), "reader")
        with metered.session() as session:
            session.user(turn)
            replies[1].append(session.write(TOKENS).text.strip())
        prompts[1].append(model.first_prompts.pop("reader")["ids"])
        with torch.no_grad():
            out = network.generate(torch.tensor([ids]), max_new_tokens=TOKENS, do_sample=False)
        replies[0].append(tokenizer.decode(out[0, len(ids) :], skip_special_tokens=True).strip())
    yield stage("token ids of the prompt (questions)", *prompts)
    yield stage(f"the reply, {TOKENS} tokens at most, greedy (questions)", *replies)
