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
    """The seconds that a call takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def line(
    name: str, a: float, b: float, target: str, ratio: float | None = None, spread: str = ""
) -> None:
    """Print a row of the table.

    Args:
        name: What is compared, "A / B".
        a: The number of A.
        b: The number of B.
        target: What the ratio should be, as "<= 1.05".
        ratio: The ratio of A to B, where it is not that of the two numbers.
        spread: The least and largest ratio, "[0.98, 1.04]".
    """
    print(
        f"{name:<80} {a:9.3f} {b:9.3f} {a / b if ratio is None else ratio:7.3f}  {target:<8} "
        f"{spread}",
        flush=True,
    )


def paired(name: str, a: Run, b: Run, repeats: int, target: str) -> None:
    """Time A and B in turn, `repeats` times after a warm-up, and print a row with their medians and
    the median ratio of the pairs.

    Args:
        name: What is compared, "A / B".
        a: Runs A once; returns its seconds.
        b: Runs B once; returns its seconds.
        repeats: How many pairs.
        target: What the ratio should be.
    """
    a(), b()
    print_pairs(name, [(a(), b()) for _ in range(repeats)], target)


def print_pairs(name: str, pairs: Sequence[tuple[float, float]], target: str) -> None:
    """Print a row with the medians of the seconds of A and of B, and of their ratios.

    Args:
        name: What is compared, "A / B".
        pairs: (seconds of A, seconds of B) of each repeat.
        target: What the ratio should be.
    """
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
    """Make a model with random weights in `folder`, and load it: 8 layers, width 512, 4 key/value
    heads, window 8,192."""
    sizes = {
        "hidden_size": 512,
        "intermediate_size": 1536,
        "num_hidden_layers": 8,
        "num_attention_heads": 8,
    }
    save(folder, num_key_value_heads=4, max_position_embeddings=8192, **sizes)
    return load_model(ModelConfig(name="bench", source=str(folder)))


def text_of_tokens(model: LanguageModel, count: int) -> str:
    """A made-up text of exactly `count` tokens by the model's tokenizer."""
    text = "The old bridge lies north of the river town. " * count
    return text[: model.offsets(text)[count - 1][1]]


def appending(model: Any, cached: int, spans: int, size: int = 1) -> tuple[Run, Run]:
    """Two functions that each append 512 tokens to a cached context once and return the seconds:
    with attention to earlier spans watched, and without.

    Args:
        model: The model.
        cached: How many tokens the context has before.
        spans: How many spans are watched.
        size: How many tokens a span has.
    """
    head, tail = text_of_tokens(model, cached), text_of_tokens(model, 512)
    s = model.session(Meter())
    s.user()
    watched = [s.feed(" town" * size) for _ in range(spans)]
    s.feed(head)
    s.flush()

    def append(watch: bool) -> None:
        """Append the 512 tokens, and wait until attention and keys are there."""
        span = s.feed(tail, watch=watched if watch else ())
        s.flush()
        _ = span.attention
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def append_seconds(watch: bool) -> float:
        """The seconds of `append` in a branch of the context, which is dropped again."""
        with s.branch():
            return timed(partial(append, watch))

    return partial(append_seconds, True), partial(append_seconds, False)


def eager(model: Any, cached: int, new: int) -> Run:
    """A function that appends `new` tokens to `cached` ones with transformers' own
    output_attentions=True, and returns the seconds."""
    ids = torch.tensor([model.text.encode_data(text_of_tokens(model, cached + new))])
    past = KVPool(model.n_layers).new_cache()
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
    """Two functions that each write `new` tokens behind a context once and return the seconds: with
    attention to earlier spans watched, and without.

    Args:
        model: The model.
        cached: How many tokens the context has before.
        new: How many tokens are written.
        columns: How many spans are watched.
    """
    head = text_of_tokens(model, cached)

    def write_seconds(watch: bool) -> float:
        """The seconds to write the tokens behind a new context; reading it is not in them."""
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
    """Print two rows that compare a session with transformers' generate() on the same weights: CPU
    seconds to read a prompt, and to write behind it.

    CPU seconds, so that other programs on the machine count less; `repeats` runs in turn, after one
    of each.

    Args:
        model: The model.
        name: What the rows call it.
        cached: How many tokens the prompt has.
        new: How many tokens are written.
        threads: How many threads torch uses.
        repeats: How many pairs.
    """
    text = text_of_tokens(model, cached)
    plain = GenerationConfig(max_new_tokens=new, do_sample=False, pad_token_id=0)
    with model.session(Meter()) as s:
        s.user(text)
        ids = torch.tensor([s.ids + model.before_reply_ids])

    def ours() -> list[float]:
        """CPU clock of a session: at its start, when the prompt is read, and when all is
        written."""
        marks = [time.process_time()]

        def pick(
            _: Any, logits: torch.Tensor
        ) -> int:  # of the first token; the others come from the batches
            """Note the time at which the first token is chosen; the others come from the
            batches."""
            marks.append(time.process_time())
            return int(logits.argmax())

        with model.session(Meter()) as s, unittest.mock.patch.object(Sampler, "pick", pick):
            s.user(text)
            s.write(new)
            marks.append(time.process_time())
        return marks

    def theirs() -> list[float]:
        """CPU clock of generate(): at its start, when the prompt is read, and when all is
        written."""
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
    with unstopped, unittest.mock.patch.object(type(model), "shares_prefixes", False):
        runs = [(ours(), theirs()) for _ in range(repeats + 1)][1:]
    torch.set_num_threads(before)
    model.stop_ids = kept
    for n, what in enumerate((f"read {len(ids[0]):,} tokens", f"write {new}")):
        took = [(a[n + 1] - a[n], b[n + 1] - b[n]) for a, b in runs]
        row = f"{name}, {threads} thread(s), {what}: session / generate()"
        print_pairs(row, took, "<= 1.0")


def search_flops(model: Any, top: int, nodes: int) -> tuple[float, float, float]:
    """Count the work of a search that shows `top` nodes, then visits `nodes`, with a probe before
    each.

    Args:
        model: The model.
        top: How many nodes are shown first.
        nodes: How many are visited then.

    Returns:
        (GFLOPs with one cached context; GFLOPs with the prompt sent again for each probe; tokens
        that the cached context reads / its tokens, 1 where none is read twice).
    """
    node, question = text_of_tokens(model, 40), "Where is the bridge?"

    def opened(meter: Meter, count: int) -> Any:
        """A session with the question and `count` nodes in its context, whose work `meter`
        counts."""
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
    """The seconds in which several contexts of 200 tokens write `new` tokens each; reading them is
    not in it.

    Args:
        model: The model.
        sessions: How many contexts.
        new: How many tokens each writes.
        together: Whether the weights are read once a step for all contexts; else they write one
            after the other.
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
        """Write the tokens of all contexts."""
        if together:
            scheduler = Scheduler(sessions)
            scheduler.start_threads(*writes)
            scheduler.wait()
        else:
            for write in writes:
                write()

    return timed(write_all)


def main() -> None:
    """Print the whole table."""
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
