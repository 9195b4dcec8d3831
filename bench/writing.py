"""Eight questions writing at once against one after the other: the weights are read once a step for all of them.

A and B run in turn, A B A B ...; a row has the median seconds of each and the median of the pairwise ratios.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from harness.config.layers import Choices
from harness.config.resolve import resolve_part
from harness.cost.meter import Meter
from harness.llm.load import load_model
from harness.parallel.scheduler import Scheduler


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
