"""Print one table of ratios: what attention capture and cached sessions cost or save on this machine.

    python -m bench [--repeats 5]

Each row times A and B in turn, A B A B ..., and prints the median of each and the median of the pairwise ratios.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from harness.config import ModelConfig
from harness.llm import capture
from harness.llm.base import LanguageModel
from harness.llm.load import load_model
from harness.llm.random_model import save
from harness.meter import Meter

Run = Callable[[], float]


def timed(run: Callable[[], Any]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def paired(name: str, a: Run, b: Run, repeats: int) -> str:
    a(), b()
    pairs = [(a(), b()) for _ in range(repeats)]
    ratio = statistics.median(x / y for x, y in pairs)
    low, high = min(x / y for x, y in pairs), max(x / y for x, y in pairs)
    ms = [statistics.median(v) * 1e3 for v in zip(*pairs, strict=True)]
    return f"{name:<64} {ms[0]:9.1f} {ms[1]:9.1f} {ratio:6.3f}  [{low:.3f}, {high:.3f}]"


def eight_layers(folder: Path) -> LanguageModel:
    """8 layers, width 512, 8 heads on 4 key/value heads, window 8,192: random weights."""
    sizes = {"hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 8, "num_attention_heads": 8}
    save(folder, num_key_value_heads=4, max_position_embeddings=8192, **sizes)
    return load_model(ModelConfig(name="bench", source=str(folder)))


def tokens(model: LanguageModel, count: int) -> str:
    text = "The old bridge lies north of the river town. " * count
    return text[: model.offsets(text)[count - 1][1]]


def appending(model: Any, cached: int, new: int, columns: int) -> Iterator[Run]:
    """Run `new` tokens behind `cached` ones: watching `columns` single-token spans, then watching nothing."""
    head, tail = tokens(model, cached), tokens(model, new)
    s = model.session(Meter())
    s.user()
    spans = [s.feed(" town") for _ in range(columns)]
    s.feed(head)
    s.flush()

    def run(watch: bool) -> float:
        with s.branch():

            def go() -> None:
                span = s.feed(tail, watch=spans if watch else ())
                s.flush()
                _ = span.attention

            return timed(go)

    yield lambda: run(True)
    yield lambda: run(False)


def eager(model: Any, cached: int, new: int) -> Run:
    """The same append with transformers' own output_attentions=True."""
    ids = torch.tensor([model.text.plain(tokens(model, cached + new))])

    def run() -> float:
        model.net.set_attn_implementation("eager")
        try:
            with torch.inference_mode():
                past = model.net(ids[:, :cached], use_cache=True, logits_to_keep=1).past_key_values
                return timed(
                    lambda: model.net(ids[:, cached:], past_key_values=past, output_attentions=True, logits_to_keep=1)
                )
        finally:
            model.net.set_attn_implementation(capture.NAME)

    return run


def writing(model: Any, cached: int, new: int, columns: int) -> Iterator[Run]:
    head = tokens(model, cached)

    def run(watch: bool) -> float:
        with model.session(Meter()) as s:
            s.user()
            spans = [s.feed(" town town town") for _ in range(columns)]
            s.feed(head)
            s.flush()
            return timed(lambda: s.write(new, temperature=1.0, watch=spans if watch else ()))

    yield lambda: run(True)
    yield lambda: run(False)


def search(model: Any, top: int, nodes: int) -> tuple[float, float, float]:
    """FLOPs of a search with one cached context, those of its tokens once, and those of re-sending the prompt."""
    node, question = tokens(model, 40), "Where is the bridge?"

    def opened(meter: Meter, count: int) -> Any:
        s = model.session(meter)
        s.user("Can this be answered?\n")
        s.feed(question)
        for _ in range(count):
            s.feed(node)
        return s

    cached, resent = Meter(), Meter()
    s = opened(cached, top)
    for _ in range(nodes):
        s.probe(["Yes", "No"])
        s.feed(node)
    s.flush()
    for i in range(nodes):
        with opened(resent, top + i) as again:
            again.probe(["Yes", "No"])
    once = Meter()
    with opened(once, top + nodes) as whole:
        whole.flush()
    without_probes = sum(model.shape.linear * 2 * e.new for e in cached.events if e.kind == "prefill") / (
        model.shape.linear * 2 * once.events[0].new
    )
    return cached.flops() / 1e9, resent.flops() / 1e9, without_probes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(max(1, torch.get_num_threads()))
    with tempfile.TemporaryDirectory() as folder:
        model = eight_layers(Path(folder))
        print(f"{'A against B, 8 layers, float32':<64} {'A ms':>9} {'B ms':>9} {'A/B':>6}  [min, max]")
        few = list(appending(model, 3584, 512, 20))
        print(paired("append 512 to 3,584: 20 watched columns / plain", few[0], few[1], repeats))
        many = list(appending(model, 3584, 512, 64))
        print(paired("append 512 to 3,584: 64 watched columns / plain", many[0], many[1], repeats))
        print(paired("append 512 to 3,584: output_attentions=True / plain", eager(model, 3584, 512), few[1], repeats))
        write = list(writing(model, 2048, 256, 25))
        print(paired("write 256 behind 2,048: 25 watched spans / none", write[0], write[1], repeats))
        cached, resent, once = search(model, 10, 20)
        print(f"\nsearch of 20 nodes: {cached:.1f} GFLOPs cached, {resent:.1f} re-sending ({resent / cached:.1f}x);")
        print(f"linear FLOPs of the context over those of every token once: {once:.4f}")


if __name__ == "__main__":
    main()
