"""What the engine does on a GPU, with random weights of a given shape. Figures: bench/README.md.

    python -m bench.gpu FOLDER [--shape llama-3.1-8b|tiny] [--in-flight 16 64 256] [--tokens 100000] [--peak TFLOPS]

The weights are drawn once and kept in FOLDER (in bfloat16; the shape of Llama-3.1-8B takes 14 GB:
its vocabulary is the made-up one). Rows: capture on against off; writing with recorded steps
against eager ones; the share of the card's peak that reading takes; a context of --tokens tokens;
documents written as PECAN's construction writes them; PECAN's search with many questions in flight
against one; how busy the card is in these two. On a machine without a GPU `--shape tiny` shows that
every row runs; its figures mean nothing.
"""

import argparse
import contextlib
import json
import statistics
import tempfile
import threading
import unittest.mock
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench.__main__ import appending, line, paired, text_of_tokens, timed, writing_seconds
from bench.parallel import SEARCH, Bench
from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.llm.backend import load_model
from harness.parallel.scheduler import Scheduler
from tests.random_model import save

SHAPES = {
    "llama-3.1-8b": {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
    },
    "tiny": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    },
}


def load_or_draw(folder: Path, shape: str, window: int) -> Any:
    """Load the model in a folder; where there is none, first draw random weights.

    Args:
        folder: The folder.
        shape: The shape to draw, a key of SHAPES.
        window: How many tokens the model reads.
    """
    if not (folder / "config.json").exists():
        with torch.device(
            "cuda" if torch.cuda.is_available() else "cpu"
        ):  # 18 s on an H200, minutes on a CPU
            save(folder, dtype=torch.bfloat16, max_position_embeddings=window, **SHAPES[shape])
        torch.cuda.empty_cache()
    return load_model(ModelConfig(name=folder.name, source=str(folder)))


def time_recorded_steps(model: Any, contexts: int, new: int, repeats: int) -> None:
    """Print the seconds in which contexts write tokens by eager decode steps, and by recorded ones.

    Args:
        model: The model.
        contexts: How many contexts write at a time.
        new: How many tokens each writes.
        repeats: How many pairs.
    """

    def write() -> float:
        """The seconds to write all tokens once."""
        return writing_seconds(model, contexts, new, contexts > 1)

    def eagerly() -> float:
        """The seconds without recorded steps."""
        model._queues.clear()  # a queue keeps its recordings
        with unittest.mock.patch.object(type(model), "recorded_steps", return_value=None):
            took = write()
        model._queues.clear()
        return took

    def with_recordings() -> float:
        """The seconds with recorded steps, which a first pass records."""
        write()
        return write()

    paired(
        f"{contexts} contexts write {new} tokens: eager / recorded steps",
        eagerly,
        with_recordings,
        repeats,
        ">= 1",
    )


def time_reading(model: Any, count: int, peak: float | None, repeats: int) -> None:
    """Print how many tokens a second a prefill reads, and its share of the card's peak.

    Args:
        model: The model.
        count: How many tokens the prompt has.
        peak: The card's peak in TFLOPS; None to leave the share out.
        repeats: How many passes.
    """
    text = text_of_tokens(model, count)

    def timed_pass() -> tuple[float, float]:
        """(seconds, FLOPs) of one prefill."""
        meter = Meter()
        with (
            model.session(meter) as s,
            unittest.mock.patch.object(type(model), "shares_prefixes", False),
        ):
            s.user(text)
            seconds = timed(lambda: (s.flush(), wait_for_card()))
        return seconds, meter.flops("full")

    timed_pass()
    runs = [timed_pass() for _ in range(repeats)]
    seconds, flops = statistics.median(run[0] for run in runs), runs[0][1]
    share = f", {flops / seconds / peak / 1e12:.0%} of the peak (>= 50 %)" if peak else ""
    print(
        f"reading {count:,} tokens: {seconds:.2f} s, {count / seconds:,.0f} tokens a second{share}",
        flush=True,
    )


def long_context(model: Any, count: int) -> None:
    """Print the seconds to read `count` tokens and to write 16 behind them, and the GPU's peak
    memory."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    with model.session(Meter()) as s:
        s.user(text_of_tokens(model, count))
        seconds = timed(lambda: (s.write(16, temperature=1.0), wait_for_card()))
    peak = (
        f", peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB"
        if torch.cuda.is_available()
        else ""
    )
    print(f"a context of {count:,} tokens and 16 written: {seconds:.2f} s{peak}", flush=True)


def wait_for_card() -> None:
    """Block until the GPU has finished its work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


@contextlib.contextmanager
def utilisation(found: list[float]) -> Iterator[None]:
    """A context manager that measures, while the `with` block runs, in which share of the time the
    card computes (by its driver), and appends it to `found`."""
    ended = threading.Event()
    samples: list[float] = []

    def sample() -> None:
        """Ask the driver 20 times a second until the block has ended."""
        while torch.cuda.is_available() and not ended.wait(0.05):
            samples.append(torch.cuda.utilization() / 100)

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        found.append(statistics.mean(samples or [0.0]))


def time_construction(model: Any, in_flight: list[int], replies: int = 8) -> None:
    """Print the seconds a document in which PECAN's construction reads and writes about as much as
    for 2,400 tokens.

    A document is `replies` replies of 131 tokens behind 600, of which 20 spans are watched. Random
    weights write no summaries that could be parsed, so the session's calls are made without the
    method.

    Args:
        model: The model.
        in_flight: The numbers of documents in flight to compare with one.
        replies: How many replies a document has.
    """

    def document(number: int) -> None:
        """Make the calls for one document."""
        for reply in range(replies):
            with model.session(Meter()) as s:
                s.user(f"{number}.{reply} Summarise these texts.")
                spans = [s.feed(text_of_tokens(model, 30)) for _ in range(20)]
                s.write(131, watch=spans)

    def each(places: int) -> float:
        """The seconds a document, with so many in flight."""

        def all_documents() -> None:
            """Make the calls for all documents, in threads."""
            scheduler = Scheduler(places)
            scheduler.start_threads(*(partial(document, n) for n in range(places)))
            scheduler.wait()

        return timed(all_documents) / places

    stop_ids, model.stop_ids = model.stop_ids, frozenset()  # no reply ends early
    alone = each(1)
    for places in in_flight:
        each(places)
        busy: list[float] = []
        with utilisation(busy):
            together = each(places)
        line(f"construction, seconds a document: 1 / {places} in flight", alone, together, "0.5 s")
        print(f"    the card was busy {busy[0]:.0%} of the time (>= 70 %)", flush=True)
    model.stop_ids = stop_ids


def time_searches(folder: Path, in_flight: list[int], tokens: int) -> None:
    """Print the seconds of PECAN's search a question, one in flight against many.

    Args:
        folder: The folder of the model.
        in_flight: The numbers of questions in flight to compare with one.
        tokens: How long a made-up text is.
    """
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name))
        # It never stops before it has made all its visits.
        sets: dict[str, Any] = {
            "dataset__tokens": tokens,
            **SEARCH,
            "method__t_n": 99,
            "method__max_nodes": 16,
        }

        def each(questions: int, places: int) -> float:
            """The seconds a question, of so many questions with so many in flight."""
            return (
                bench.seconds("pecan", str(folder), places, questions, "warm", **sets) / questions
            )

        most = max(in_flight)
        each(most, most)  # builds the graphs
        alone = each(min(8, most), 1)
        for places in in_flight:
            busy: list[float] = []
            with utilisation(busy):
                together = each(most, places)
            line(
                f"search (pecan), seconds a question: 1 / {places} in flight",
                alone,
                together,
                "0.065 s",
            )
            print(f"    the card was busy {busy[0]:.0%} of the time (>= 70 %)", flush=True)
        records = [
            json.loads(text)
            for path in Path(name).glob("run-*/*/*/records.jsonl")
            for text in path.open()
        ]
        probes = [
            sum(step.get("p_yes") is not None for step in record.get("steps") or ())
            for record in records
        ]
        print(f"    probes a question: {sum(probes) / max(len(probes), 1):.1f}", flush=True)


def main() -> None:
    """Print all rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="llama-3.1-8b")
    parser.add_argument("--in-flight", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--tokens", type=int, default=100_000)
    parser.add_argument(
        "--peak",
        type=float,
        metavar="TFLOPS",
        help="of the card in bfloat16, dense: 989 for an H100",
    )
    parser.add_argument("--repeats", type=int, default=3)
    flags = parser.parse_args()
    model = load_or_draw(flags.folder, flags.shape, 2 * flags.tokens + 1024)
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    print(f"{name}, torch {torch.__version__}, {flags.shape}, {model.dtype}")
    some = min(3584, flags.tokens)
    for columns, target in ((20, "<= 1.05"), (64, "<= 1.3")):
        watching, plain = appending(model, some, columns)
        paired(
            f"append 512 to {some:,}: {columns} watched columns / none",
            watching,
            plain,
            flags.repeats,
            target,
        )
    for contexts in (1, min(64, max(flags.in_flight))):
        time_recorded_steps(model, contexts, 64, flags.repeats)
    time_reading(model, min(8000, flags.tokens), flags.peak, flags.repeats)
    long_context(model, flags.tokens)
    time_construction(model, flags.in_flight)
    time_searches(flags.folder, flags.in_flight, min(2000, flags.tokens))
    for why in model.slow_paths():
        print(f"slower than it could be: {why}")


if __name__ == "__main__":
    main()
