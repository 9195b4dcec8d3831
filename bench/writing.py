"""Eight questions writing at once against one after the other: the weights are read once a step for all of them.

    python -m bench.writing [--model smollm2-135m] [--tokens 400] [--new 32]

A and B run in turn, A B A B ...; the table has the median seconds of each and the median of the pairwise ratios. Every
context has `--tokens` tokens before it writes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from harness.config.layers import Choices
from harness.config.resolve import resolve_part
from harness.cost.meter import Meter
from harness.llm.load import load_model
from harness.parallel.scheduler import Scheduler

AT_ONCE = (1, 4, 8, 16)


def seconds(model: Any, sessions: int, tokens: int, new: int, together: bool) -> float:
    """Seconds in which `sessions` contexts write `new` tokens each; reading them is not in it."""
    text = "The old bridge lies north of the river town. " * tokens
    contexts = []
    for number in range(sessions):
        context = model.session(Meter())
        context.user(f"{number}. " + text[: model.offsets(text)[tokens - 1][1]])
        context.flush()
        contexts.append(context)

    def write(context: Any) -> None:
        context.write(new, temperature=1.0, seed=1)  # sampled, so that no context ends early on the same token

    began = time.perf_counter()
    if together:
        scheduler = Scheduler(sessions)
        scheduler.start(*((lambda context=context: write(context)) for context in contexts))
        scheduler.wait()
    else:
        for context in contexts:
            write(context)
    return time.perf_counter() - began


def paired(a: Callable[[], float], b: Callable[[], float], repeats: int) -> tuple[float, float, float, float, float]:
    """Median seconds of a and b, median, least and greatest ratio a / b."""
    pairs = [(a(), b()) for _ in range(repeats)]
    ratios = [x / y for x, y in pairs]
    first, second = (statistics.median(side) for side in zip(*pairs, strict=True))
    return first, second, statistics.median(ratios), min(ratios), max(ratios)


def row(repeats: int, model: str = "smollm2-135m") -> tuple[str, float, float, float, float, float]:
    """The row of `python -m bench`: its name, and what `paired` returns."""
    loaded = load_model(resolve_part("models", Choices(model=model, sets={"model.dtype": "bfloat16"})).parts["model"])
    seconds(loaded, 2, 16, 2, True)

    def run(together: bool) -> Callable[[], float]:
        return lambda: seconds(loaded, 8, 200, 32, together)

    return f"{model} bf16, 8 sessions write 32 tokens: one by one / together", *paired(run(False), run(True), repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--dtype", nargs="+", default=["bfloat16", "float32"])
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--new", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    flags = parser.parse_args()
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}; {flags.new} tokens behind {flags.tokens}")
    print(f"{'model':<34} {'one by one s':>12} {'together s':>11} {'ratio':>6}  [min, max]")
    for dtype in flags.dtype:
        choices = Choices(model=flags.model, sets={"model.dtype": dtype})
        model = load_model(resolve_part("models", choices).parts["model"])
        seconds(model, 2, 16, 2, True)
        for sessions in AT_ONCE:

            def one(sessions: int = sessions, model: Any = model) -> float:
                return seconds(model, sessions, flags.tokens, flags.new, False)

            def all_(sessions: int = sessions, model: Any = model) -> float:
                return seconds(model, sessions, flags.tokens, flags.new, True)

            first, second, ratio, low, high = paired(one, all_, flags.repeats)
            name = f"{flags.model} {dtype}, {sessions} contexts"
            print(f"{name:<34} {first:12.2f} {second:11.2f} {ratio:6.2f}  [{low:.2f}, {high:.2f}]", flush=True)


if __name__ == "__main__":
    main()
