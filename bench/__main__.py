"""Print one table of ratios: what the engine's parts cost or save on this machine; bench/README.md
has the targets.

    python -m bench [--repeats 5]

Each row times A and B in turn, A B A B ..., and prints the median of each and the median of the
pairwise ratios.
"""

import argparse
import os
import platform
import statistics
import tempfile
import time
import unittest.mock
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig

from bench import parallel
from harness.config.layers import Choices
from harness.config.resolve import resolve_model
from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.llm import capture
from harness.llm.backend import load_model
from harness.llm.kv import KVPool, rewind
from harness.llm.sampling import Sampler
from harness.models import LanguageModel
from harness.parallel.scheduler import Scheduler
from tests.random_model import save

Run = Callable[[], float]


def timed(action: Callable[[], Any]) -> float:
    """Seconds that a call takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def line(
    name: str, a: float, b: float, target: str, ratio: float | None = None, spread: str = ""
) -> None:
    """Print a row. ratio: of a to b, where it is not that of the numbers shown; spread: the least
    and largest ratio."""
    print(
        f"{name:<80} {a:9.3f} {b:9.3f} {a / b if ratio is None else ratio:7.3f}  {target:<8} "
        f"{spread}",
        flush=True,
    )


def paired(name: str, a: Run, b: Run, repeats: int, target: str) -> None:
    """Time a and b in turn, `repeats` times after a warm-up, and print their medians with the ratio
    of each pair."""
    a(), b()
    print_pairs(name, [(a(), b()) for _ in range(repeats)], target)


def print_pairs(name: str, pairs: Sequence[tuple[float, float]], target: str) -> None:
    """Print the medians of the seconds of A and of B, and of their ratios."""
    ratios = [x / y for x, y in pairs]
    first, second = (statistics.median(side) for side in zip(*pairs, strict=True))
    line(
        name,
        first,
        second,
        target,
        statistics.median(ratios),
        f"[{min(ratios):.3f}, {max(ratios):.3f}]",
    )


def eight_layers(folder: Path) -> LanguageModel:
    """A model with random weights, saved in `folder`: 8 layers, width 512, 4 key/value heads,
    window 8,192."""
    sizes = {
        "hidden_size": 512,
        "intermediate_size": 1536,
        "num_hidden_layers": 8,
        "num_attention_heads": 8,
    }
    save(folder, num_key_value_heads=4, max_position_embeddings=8192, **sizes)
    return load_model(ModelConfig(name="bench", source=str(folder)))


def text_of_tokens(model: LanguageModel, count: int) -> str:
    """A made-up text of `count` tokens."""
    text = "The old bridge lies north of the river town. " * count
    return text[: model.offsets(text)[count - 1][1]]


def appending(model: Any, cached: int, spans: int, size: int = 1) -> tuple[Run, Run]:
    """Two runs that append 512 tokens behind `cached` ones: watching `spans` spans of `size`
    tokens, and none."""
    head, tail = text_of_tokens(model, cached), text_of_tokens(model, 512)
    s = model.session(Meter())
    s.user()
    watched = [s.feed(" town" * size) for _ in range(spans)]
    s.feed(head)
    s.flush()

    def append(watch: bool) -> None:
        span = s.feed(tail, watch=watched if watch else ())
        s.flush()
        _ = span.attention
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def append_seconds(watch: bool) -> float:
        with s.branch():
            return timed(partial(append, watch))

    return partial(append_seconds, True), partial(append_seconds, False)


def eager(model: Any, cached: int, new: int) -> Run:
    """A run that appends `new` tokens behind `cached` ones with transformers' own
    output_attentions=True."""
    ids = torch.tensor([model.text.plain(text_of_tokens(model, cached + new))])
    past = KVPool(model.layers).cache()
    with torch.inference_mode():
        model.net.get_decoder()(ids[:, :cached], past_key_values=past, use_cache=True)

    def append_seconds() -> float:
        """Seconds to append the new tokens, by transformers' eager attention, which returns its
        weights."""
        rewind(past, cached)
        model.net.set_attn_implementation("eager")
        try:
            with torch.inference_mode():
                asked = {"past_key_values": past, "output_attentions": True, "logits_to_keep": 1}
                return timed(lambda: model.net(ids[:, cached:], **asked))
        finally:
            model.net.set_attn_implementation(capture.NAME)

    return append_seconds


def watched_writing(model: Any, cached: int, new: int, columns: int) -> tuple[Run, Run]:
    """Two runs that write `new` tokens behind `cached` ones: watching `columns` spans, and watching
    none."""
    head = text_of_tokens(model, cached)

    def write_seconds(watch: bool) -> float:
        with model.session(Meter()) as s:
            s.user()
            spans = [s.feed(" town town town") for _ in range(columns)]
            s.feed(head)
            s.flush()
            return timed(lambda: s.write(new, temperature=1.0, watch=spans if watch else ()))

    return partial(write_seconds, True), partial(write_seconds, False)


def beside_transformers(
    model: Any, name: str, cached: int, new: int, threads: int, repeats: int
) -> None:
    """Print CPU seconds to read `cached` tokens, and to write `new`: of a session / of generate(),
    the same weights.

    CPU seconds, so that other programs on the machine count less; `repeats` runs in turn, after one
    of each.
    """
    text = text_of_tokens(model, cached)
    plain = GenerationConfig(max_new_tokens=new, do_sample=False, pad_token_id=0)
    with model.session(Meter()) as s:
        s.user(text)
        ids = torch.tensor([s.ids + model.mid])

    def ours() -> list[float]:
        marks = [time.process_time()]

        def pick(
            _: Any, logits: torch.Tensor
        ) -> int:  # of the first token; the others come from the batches
            marks.append(time.process_time())
            return int(logits.argmax())

        with model.session(Meter()) as s, unittest.mock.patch.object(Sampler, "pick", pick):
            s.user(text)
            s.write(new)
            marks.append(time.process_time())
        return marks

    def theirs() -> list[float]:
        marks: list[float] = []  # generate() calls put with the prompt, then with each token
        streamer = unittest.mock.Mock(put=lambda _: marks.append(time.process_time()))
        model.net.set_attn_implementation("sdpa")
        try:
            model.net.generate(ids, plain, streamer=streamer)
        finally:
            model.net.set_attn_implementation(capture.NAME)
        return [*marks[:2], marks[-1]]

    before, kept = torch.get_num_threads(), model.stop_ids
    torch.set_num_threads(threads)
    model.stop_ids = frozenset()  # no reply ends early, here and in generate()
    unstopped = unittest.mock.patch.object(model.net, "generation_config", plain)
    with unstopped, unittest.mock.patch.object(type(model), "shares", False):
        runs = [(ours(), theirs()) for _ in range(repeats + 1)][1:]
    torch.set_num_threads(before)
    model.stop_ids = kept
    for n, what in enumerate((f"read {len(ids[0]):,} tokens", f"write {new}")):
        took = [(a[n + 1] - a[n], b[n + 1] - b[n]) for a, b in runs]
        row = f"{name}, {threads} thread(s), {what}: session / generate()"
        print_pairs(row, took, "<= 1.0")


def search_flops(model: Any, top: int, nodes: int) -> tuple[float, float, float]:
    """Work of a search that shows `top` nodes, then visits `nodes`, a probe before each.

    Returns (GFLOPs with one cached context, GFLOPs with the prompt sent again for each probe,
    tokens that the cached context reads / its tokens: 1 where none is read twice).
    """
    node, question = text_of_tokens(model, 40), "Where is the bridge?"

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
    read = sum(event.new for event in cached.events if event.kind == "prefill")
    return cached.flops("full") / 1e9, resent.flops("full") / 1e9, read / once.events[0].new


def model_table(folder: Path, repeats: int) -> None:
    """Print the rows about the model of eight layers, which is made in `folder`."""
    model = eight_layers(folder / "model")
    append = "8 layers float32, append 512 to 3,584:"
    few = appending(model, 3584, 20)
    paired(f"{append} 20 watched columns / none", *few, repeats, "<= 1.05")
    paired(f"{append} 64 watched columns / none", *appending(model, 3584, 64), repeats, "<= 1.3")
    paired(
        f"{append} a watched span of 1,000 / none",
        *appending(model, 3584, 1, 1000),
        repeats,
        "<= 1.3",
    )
    paired(f"{append} output_attentions / none", eager(model, 3584, 512), few[1], repeats, "")
    write = "8 layers float32, write 256 behind 2,048:"
    paired(
        f"{write} 25 watched spans / none",
        *watched_writing(model, 2048, 256, 25),
        repeats,
        "<= 1.3",
    )
    cached, resent, once = search_flops(model, 10, 20)
    line(
        "search of 20 nodes, TFLOPs: prompt sent again / one cached context",
        resent / 1e3,
        cached / 1e3,
        ">= 5",
    )
    line("linear FLOPs of a search's context / of every token once", once, 1.0, "<= 1.01")


def writing_seconds(model: Any, sessions: int, new: int, together: bool) -> float:
    """Seconds in which `sessions` contexts of 200 tokens write `new` tokens each; reading them is
    not in it.

    together: the weights are read once a step for all contexts; else they write one after the
    other.
    """
    contexts = []
    for number in range(sessions):
        context = model.session(Meter())
        context.user(f"{number}. {text_of_tokens(model, 200)}")
        context.flush()
        contexts.append(context)
    writes = [
        partial(context.write, new, temperature=1.0, seed=1) for context in contexts
    ]  # sampled: none ends early

    def write_all() -> None:
        if together:
            scheduler = Scheduler(sessions)
            scheduler.start_threads(*writes)
            scheduler.wait()
        else:
            for write in writes:
                write()

    return timed(write_all)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    print(f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["HARNESS_HOME"] = str(folder / "home")
        print(
            f"{'seconds, A / B':<80} {'A':>9} {'B':>9} {'A/B':>7}  {'target':<8} [min, max]",
            flush=True,
        )
        model_table(folder, repeats)
        for name in ("pocket-llama", "smollm2-135m"):
            for threads in (1, 2):
                float32 = load_model(
                    resolve_model(Choices(model=name, sets={"model.dtype": "float32"})).value
                )
                beside_transformers(float32, name, 1000, 64, threads, repeats)
        smollm2 = load_model(
            resolve_model(Choices(model="smollm2-135m", sets={"model.dtype": "bfloat16"})).value
        )
        apart, together = (
            partial(writing_seconds, smollm2, 8, 32, at_once) for at_once in (False, True)
        )
        paired(
            "smollm2-135m bf16, 8 sessions write 32 tokens: one by one / together",
            apart,
            together,
            2,
            ">= 2",
        )
        for model in ("smollm2-135m", "pocket-llama"):
            for what, a, b, target in parallel.measured_rows(parallel.Bench(folder / model), model):
                line(what, a, b, target)


if __name__ == "__main__":
    main()
