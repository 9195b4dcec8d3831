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
from typing import Any, NamedTuple

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
from harness.models import LanguageModel, Span
from harness.parallel.scheduler import Scheduler
from tests.random_model import save

Run = Callable[[], float]


def timed(action: Callable[[], Any]) -> float:
    """The seconds that a call takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def print_row(
    name: str, a: float, b: float, target: str, ratio: float | None = None, spread: str = ""
) -> None:
    """Print a row of the table: name, A, B, A / B, target and spread.

    Args:
        name: What is compared, "A / B".
        a: The number of A.
        b: The number of B.
        target: What the ratio should be, as "<= 1.05".
        ratio: The ratio of A to B; None: that of the two numbers.
        spread: The least and largest ratio, "[0.98, 1.04]".
    """
    if ratio is None:
        ratio = a / b
    print(f"{name:<80} {a:9.3f} {b:9.3f} {ratio:7.3f}  {target:<8} {spread}", flush=True)


def time_in_turn_and_print(name: str, a: Run, b: Run, repeats: int, target: str) -> None:
    """Time A and B in turn, `repeats` times after a warm-up of both, and print a row with their
    medians and the median ratio of the pairs.

    Args:
        name: What is compared, "A / B".
        a: Runs A once; returns its seconds.
        b: Runs B once; returns its seconds.
        repeats: How many pairs.
        target: What the ratio should be.
    """
    a()
    b()
    print_pairs(name, [(a(), b()) for _ in range(repeats)], target)


def print_pairs(name: str, pairs: Sequence[tuple[float, float]], target: str) -> None:
    """Print a row with the medians of the seconds of A and of B, and of their ratios.

    Args:
        name: What is compared, "A / B".
        pairs: (seconds of A, seconds of B) of each repeat.
        target: What the ratio should be.
    """
    ratios = [seconds_a / seconds_b for seconds_a, seconds_b in pairs]
    print_row(
        name,
        a=statistics.median(seconds_a for seconds_a, _ in pairs),
        b=statistics.median(seconds_b for _, seconds_b in pairs),
        target=target,
        ratio=statistics.median(ratios),
        spread=f"[{min(ratios):.3f}, {max(ratios):.3f}]",
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


def functions_that_append(
    model: Any, n_cached: int, n_spans: int, span_tokens: int = 1
) -> tuple[Run, Run]:
    """Two functions that each append 512 tokens to a cached context once and return the seconds:
    with attention to earlier spans watched, and without.

    Args:
        model: The model.
        n_cached: How many tokens the context has before.
        n_spans: How many spans are watched.
        span_tokens: How many tokens a span has.
    """
    cached_text = text_of_tokens(model, n_cached)
    new_text = text_of_tokens(model, 512)
    session = model.session(Meter())
    session.user()
    spans = [session.feed(" town" * span_tokens) for _ in range(n_spans)]
    session.feed(cached_text)
    session.flush()

    def append(spans_to_watch: Sequence[Span]) -> None:
        """Append the 512 tokens, and wait until attention and keys are there."""
        new_span = session.feed(new_text, watch=spans_to_watch)
        session.flush()
        _ = new_span.attention
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def append_seconds(spans_to_watch: Sequence[Span]) -> float:
        """The seconds of `append` in a branch of the context, which is dropped again."""
        with session.branch():
            return timed(partial(append, spans_to_watch))

    return partial(append_seconds, spans), partial(append_seconds, ())


def function_that_appends_eagerly(model: Any, n_cached: int, n_new: int) -> Run:
    """A function that appends `n_new` tokens to `n_cached` ones with transformers' own
    output_attentions=True, and returns the seconds."""
    ids = torch.tensor([model.text.encode_data(text_of_tokens(model, n_cached + n_new))])
    cache = KVPool(model.n_layers).new_cache()
    with torch.inference_mode():
        model.net.get_decoder()(ids[:, :n_cached], past_key_values=cache, use_cache=True)

    def append_seconds() -> float:
        """Seconds to append the new tokens, by transformers' eager attention, which returns its
        weights."""
        rewind(cache, n_cached)
        model.net.set_attn_implementation("eager")
        arguments = {"past_key_values": cache, "output_attentions": True, "logits_to_keep": 1}
        try:
            with torch.inference_mode():
                return timed(lambda: model.net(ids[:, n_cached:], **arguments))
        finally:
            model.net.set_attn_implementation(capture.NAME)

    return append_seconds


def functions_that_write(
    model: Any, n_cached: int, n_written: int, n_spans: int
) -> tuple[Run, Run]:
    """Two functions that each write tokens after a context once and return the seconds: with
    attention to earlier spans of 3 tokens watched, and without.

    Args:
        model: The model.
        n_cached: How many tokens the context has before, without the spans.
        n_written: How many tokens are written.
        n_spans: How many spans are watched.
    """
    cached_text = text_of_tokens(model, n_cached)

    def write_seconds(watch: bool) -> float:
        """The seconds to write the tokens after a new context; reading it is not in them."""
        with model.session(Meter()) as session:
            session.user()
            spans = [session.feed(" town town town") for _ in range(n_spans)]
            session.feed(cached_text)
            session.flush()
            watched = spans if watch else ()
            return timed(lambda: session.write(n_written, temperature=1.0, watch=watched))

    return partial(write_seconds, watch=True), partial(write_seconds, watch=False)


def compare_with_transformers(
    model: Any, name: str, n_prompt: int, n_written: int, threads: int, repeats: int
) -> None:
    """Print two rows that compare a session with transformers' generate() on the same weights: CPU
    seconds to read a prompt, and to write after it.

    CPU seconds, so that other programs on the machine count less; `repeats` runs in turn, after one
    of each. No reply ends early.

    Args:
        model: The model; its stop ids and torch's threads are the same again afterwards.
        name: What the rows call it.
        n_prompt: How many tokens the prompt has.
        n_written: How many tokens are written.
        threads: How many threads torch uses.
        repeats: How many pairs.
    """
    text = text_of_tokens(model, n_prompt)
    generation = GenerationConfig(max_new_tokens=n_written, do_sample=False, pad_token_id=0)
    with model.session(Meter()) as session:
        session.user(text)
        ids = torch.tensor([session.ids + model.before_reply_ids])
    threads_before = torch.get_num_threads()
    stop_ids = model.stop_ids
    torch.set_num_threads(threads)
    model.stop_ids = frozenset()
    clocks: list[tuple[CpuClock, CpuClock]] = []
    with (
        unittest.mock.patch.object(model.net, "generation_config", generation),
        unittest.mock.patch.object(type(model), "shares_prefixes", False),
    ):
        for _ in range(1 + repeats):
            by_session = clock_session(model, text, n_written)
            by_generate = clock_generate(model, ids, generation)
            clocks.append((by_session, by_generate))
    torch.set_num_threads(threads_before)
    model.stop_ids = stop_ids
    row_name = f"{name}, {threads} thread(s), {{}}: session / generate()"
    clocks_after_warm_up = clocks[1:]
    print_pairs(
        row_name.format(f"read {len(ids[0]):,} tokens"),
        [(session.reading, generate.reading) for session, generate in clocks_after_warm_up],
        "<= 1.0",
    )
    print_pairs(
        row_name.format(f"write {n_written}"),
        [(session.writing, generate.writing) for session, generate in clocks_after_warm_up],
        "<= 1.0",
    )


class CpuClock(NamedTuple):
    """The CPU clock in seconds at the start, when the prompt is read, and when all is written."""

    start: float
    prompt_read: float
    all_written: float

    @property
    def reading(self) -> float:
        """CPU seconds to read the prompt, and to choose the first token."""
        return self.prompt_read - self.start

    @property
    def writing(self) -> float:
        """CPU seconds to write the tokens after the first."""
        return self.all_written - self.prompt_read


def clock_session(model: Any, text: str, n_written: int) -> CpuClock:
    """Read a text and write tokens in a session of the model.

    Args:
        model: The model.
        text: The prompt.
        n_written: How many tokens are written.
    """
    times = [time.process_time()]

    def pick_and_note_time(_: Any, logits: torch.Tensor) -> int:
        """Choose the first token, and note the time; the others are chosen in batches."""
        times.append(time.process_time())
        return int(logits.argmax())

    with (
        model.session(Meter()) as session,
        unittest.mock.patch.object(Sampler, "pick", pick_and_note_time),
    ):
        session.user(text)
        session.write(n_written)
        times.append(time.process_time())
    return CpuClock(*times)


def clock_generate(model: Any, ids: torch.Tensor, generation: GenerationConfig) -> CpuClock:
    """Read a prompt and write tokens by generate() of transformers.

    Args:
        model: The model.
        ids: The token ids of the prompt [1, tokens].
        generation: How many tokens are written, and how they are chosen.
    """
    # generate() calls `put` with the prompt, then with each token.
    times: list[float] = []
    streamer = unittest.mock.Mock(put=lambda _: times.append(time.process_time()))
    model.net.set_attn_implementation("sdpa")
    try:
        model.net.generate(ids, generation, streamer=streamer)
    finally:
        model.net.set_attn_implementation(capture.NAME)
    return CpuClock(start=times[0], prompt_read=times[1], all_written=times[-1])


class SearchWork(NamedTuple):
    """The work of a search.

    Attributes:
        cached_gflops: GFLOPs with one cached context.
        resent_gflops: GFLOPs with the prompt sent again for each probe.
        share_read: Tokens that the cached context reads / its tokens; 1 where none is read twice.
    """

    cached_gflops: float
    resent_gflops: float
    share_read: float


def search_work(model: Any, n_first: int, n_visits: int) -> SearchWork:
    """Count the work of a search that shows some nodes of 40 tokens, then visits further ones, with
    a probe before each.

    Args:
        model: The model.
        n_first: How many nodes are shown first.
        n_visits: How many are visited then.
    """
    node_text = text_of_tokens(model, 40)

    def open_with_nodes(meter: Meter, n_nodes: int) -> Any:
        """A session with a question and `n_nodes` nodes in its context, whose work `meter`
        counts."""
        session = model.session(meter)
        session.user("Can this be answered?\n")
        session.feed("Where is the bridge?")
        for _ in range(n_nodes):
            session.feed(node_text)
        return session

    cached = Meter()
    session = open_with_nodes(cached, n_first)
    for _ in range(n_visits):
        session.probe(["Yes", "No"])
        session.feed(node_text)
    session.flush()
    resent = Meter()
    for n_visited in range(n_visits):
        with open_with_nodes(resent, n_first + n_visited) as session_of_probe:
            session_of_probe.probe(["Yes", "No"])
    read_once = Meter()
    with open_with_nodes(read_once, n_first + n_visits) as whole:
        whole.flush()
    tokens_read = sum(event.new for event in cached.events if event.kind == "prefill")
    return SearchWork(
        cached_gflops=cached.flops("full") / 1e9,
        resent_gflops=resent.flops("full") / 1e9,
        share_read=tokens_read / read_once.events[0].new,
    )


def print_rows_of_eight_layers(folder: Path, repeats: int) -> None:
    """Print the rows about the model of eight layers, which is made in `folder`."""
    model = eight_layers(folder / "model")
    append = "8 layers float32, append 512 to 3,584:"
    watching_20, watching_none = functions_that_append(model, 3584, n_spans=20)
    time_in_turn_and_print(
        f"{append} 20 watched columns / none", watching_20, watching_none, repeats, "<= 1.05"
    )
    time_in_turn_and_print(
        f"{append} 64 watched columns / none",
        *functions_that_append(model, 3584, n_spans=64),
        repeats,
        "<= 1.3",
    )
    time_in_turn_and_print(
        f"{append} a watched span of 1,000 / none",
        *functions_that_append(model, 3584, n_spans=1, span_tokens=1000),
        repeats,
        "<= 1.3",
    )
    time_in_turn_and_print(
        f"{append} output_attentions / none",
        function_that_appends_eagerly(model, 3584, 512),
        watching_none,
        repeats,
        "",
    )
    write = "8 layers float32, write 256 behind 2,048:"
    time_in_turn_and_print(
        f"{write} 25 watched spans / none",
        *functions_that_write(model, n_cached=2048, n_written=256, n_spans=25),
        repeats,
        "<= 1.3",
    )
    work = search_work(model, n_first=10, n_visits=20)
    print_row(
        "search of 20 nodes, TFLOPs: prompt sent again / one cached context",
        work.resent_gflops / 1e3,
        work.cached_gflops / 1e3,
        ">= 5",
    )
    print_row(
        "linear FLOPs of a search's context / of every token once",
        work.share_read,
        1.0,
        "<= 1.01",
    )


def writing_seconds(model: Any, n_contexts: int, n_written: int, together: bool) -> float:
    """The seconds in which several contexts of 200 tokens write tokens, sampled so that none ends
    early; reading the contexts is not in it.

    Args:
        model: The model.
        n_contexts: How many contexts.
        n_written: How many tokens each writes.
        together: Whether the weights are read once a step for all contexts; else they write one
            after the other.
    """
    contexts = []
    for number in range(n_contexts):
        context = model.session(Meter())
        context.user(f"{number}. {text_of_tokens(model, 200)}")
        context.flush()
        contexts.append(context)
    writes = [partial(context.write, n_written, temperature=1.0, seed=1) for context in contexts]

    def write_all() -> None:
        """Write the tokens of all contexts."""
        if together:
            scheduler = Scheduler(n_contexts)
            scheduler.start_threads(*writes)
            scheduler.wait()
        else:
            for write in writes:
                write()

    return timed(write_all)


def load_by_name(name: str, dtype: str) -> Any:
    """Load a model of the presets, with its weights in this type: "float32" or "bfloat16"."""
    choices = Choices(model=name, sets={"model.dtype": dtype})
    return load_model(resolve_model(choices).value)


def main() -> None:
    """Print the whole table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    print(f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        os.environ["HARNESS_HOME"] = str(folder / "home")
        heads = f"{'seconds, A / B':<80} {'A':>9} {'B':>9} {'A/B':>7}  {'target':<8} [min, max]"
        print(heads, flush=True)
        print_rows_of_eight_layers(folder, repeats)
        for name in ("pocket-llama", "smollm2-135m"):
            for threads in (1, 2):
                model = load_by_name(name, "float32")
                compare_with_transformers(model, name, 1000, 64, threads, repeats)
        smollm2 = load_by_name("smollm2-135m", "bfloat16")
        time_in_turn_and_print(
            "smollm2-135m bf16, 8 sessions write 32 tokens: one by one / together",
            partial(writing_seconds, smollm2, 8, 32, together=False),
            partial(writing_seconds, smollm2, 8, 32, together=True),
            2,
            ">= 2",
        )
        for name in ("smollm2-135m", "pocket-llama"):
            for row in parallel.measured_rows(parallel.Bench(folder / name), name):
                print_row(*row)


if __name__ == "__main__":
    main()
