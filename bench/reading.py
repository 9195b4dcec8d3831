"""Reading prompts and writing a few tokens: questions in flight against transformers' own ways of batching.

    python -m bench.reading [--model smollm2-135m] [--prompts 16] [--tokens 300] [--new 32] [--clock wall|cpu]

All of it in one process with one network: the harness, `generate_batch` (continuous batching over paged keys) and
`generate` on one padded batch. Every row writes exactly `--new` tokens a prompt, greedily.
"""

from __future__ import annotations

import argparse
import statistics
import unittest.mock
from collections.abc import Callable
from typing import Any

import torch
from transformers import GenerationConfig

from bench.parallel import CLOCKS
from harness.config.layers import Choices
from harness.config.resolve import resolve_part
from harness.cost.meter import Meter
from harness.llm.capture import NAME
from harness.llm.load import load_model
from harness.parallel.scheduler import Scheduler


def prompts(model: Any, count: int, tokens: int) -> list[str]:
    """Prompts of half to one and a half times `tokens` tokens; none begins like another."""
    text = "The old bridge lies north of the river town. " * tokens
    sizes = [tokens // 2 + tokens * n // max(count - 1, 1) for n in range(count)]
    return [f"{n}. {text[: model.offsets(text)[size - 1][1]]}" for n, size in enumerate(sizes)]


def harness(model: Any, texts: list[str], new: int) -> list[list[int]]:
    """The tokens of each prompt with its reply, all prompts in flight."""
    found: dict[int, list[int]] = {}

    def one(n: int) -> None:
        with model.session(Meter()) as s:
            s.user(texts[n])
            s.write(new)
            found[n] = list(s.ids)

    scheduler = Scheduler(len(texts))
    scheduler.start(*(lambda n=n: one(n) for n in range(len(texts))))  # type: ignore[misc]
    scheduler.wait()
    return [found[n] for n in range(len(texts))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--new", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--clock", choices=sorted(CLOCKS), default="wall")
    flags = parser.parse_args()
    model: Any = load_model(resolve_part("models", Choices(model=flags.model)).parts["model"])
    model.stop_ids = frozenset()
    texts = prompts(model, flags.prompts, flags.tokens)
    ids = [whole[: -flags.new] for whole in harness(model, texts, flags.new)]
    longest = max(map(len, ids))
    padded = torch.tensor([[0] * (longest - len(row)) + row for row in ids], device=model.device)
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in ids], device=model.device)
    length = {"max_new_tokens": flags.new, "min_new_tokens": flags.new}
    greedy = GenerationConfig(**length, do_sample=False, eos_token_id=None, pad_token_id=0)

    def theirs(run: Callable[[], Any]) -> Callable[[], Any]:
        def go() -> None:
            model.net.set_attn_implementation("sdpa")
            run()
            model.net.set_attn_implementation(NAME)

        return go

    rows: dict[str, Callable[[], Any]] = {
        "the harness, all in flight": lambda: harness(model, texts, flags.new),
        "generate, one padded batch": theirs(
            lambda: model.net.generate(padded, attention_mask=mask, generation_config=greedy)
        ),
        "generate_batch": theirs(lambda: model.net.generate_batch(inputs=ids, generation_config=greedy)),
    }
    print(f"{model.device}, {torch.get_num_threads()} threads, {flags.model} {model.dtype}")
    print(f"{flags.prompts} prompts, {sum(map(len, ids)):,} tokens in all, {flags.new} new tokens each")
    clock = CLOCKS[flags.clock]
    seconds: dict[str, list[float]] = {name: [] for name in rows}
    # Else a repetition would copy what the one before has read.
    with unittest.mock.patch("harness.llm.hf.HFModel.shares", False):
        for _ in range(flags.repeats):
            for name, run in rows.items():
                began = clock()
                run()
                seconds[name].append(clock() - began)
    ours = statistics.median(seconds["the harness, all in flight"])
    for name, took in seconds.items():
        print(f"{name:<30} {statistics.median(took):8.2f} s {statistics.median(took) / ours:6.2f}")


if __name__ == "__main__":
    main()
