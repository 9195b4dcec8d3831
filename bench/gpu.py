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

from bench.__main__ import (
    functions_that_append,
    print_row,
    text_of_tokens,
    time_in_turn_and_print,
    timed,
    writing_seconds,
)
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
        device = "cuda" if torch.cuda.is_available() else "cpu"
        with torch.device(device):  # 18 s on an H200, minutes on a CPU
            save(folder, dtype=torch.bfloat16, max_position_embeddings=window, **SHAPES[shape])
        torch.cuda.empty_cache()
    return load_model(ModelConfig(name=folder.name, source=str(folder)))


def time_recorded_steps(model: Any, n_contexts: int, n_written: int, repeats: int) -> None:
    """Print the seconds in which contexts write tokens by eager decode steps, and by recorded ones.

    Args:
        model: The model; its queues are emptied, with their recordings.
        n_contexts: How many contexts write at a time.
        n_written: How many tokens each writes.
        repeats: How many pairs.
    """

    def seconds() -> float:
        """The seconds to write all tokens once."""
        return writing_seconds(model, n_contexts, n_written, together=n_contexts > 1)

    def seconds_by_eager_steps() -> float:
        """The seconds without recorded steps."""
        model._queues.clear()  # a queue keeps its recordings
        with unittest.mock.patch.object(type(model), "recorded_steps", return_value=None):
            seconds_taken = seconds()
        model._queues.clear()
        return seconds_taken

    def seconds_by_recorded_steps() -> float:
        """The seconds with recorded steps, which a first pass records."""
        seconds()
        return seconds()

    time_in_turn_and_print(
        f"{n_contexts} contexts write {n_written} tokens: eager / recorded steps",
        seconds_by_eager_steps,
        seconds_by_recorded_steps,
        repeats,
        ">= 1",
    )


def time_reading(model: Any, n_prompt: int, peak_tflops: float | None, repeats: int) -> None:
    """Print how many tokens a second a prefill reads (the median of `repeats`, after one more), and
    its share of the card's peak.

    Args:
        model: The model.
        n_prompt: How many tokens the prompt has.
        peak_tflops: The card's peak in TFLOPS; None to leave the share out.
        repeats: How many passes.
    """
    text = text_of_tokens(model, n_prompt)

    def timed_prefill() -> tuple[float, float]:
        """(seconds, FLOPs) of one prefill."""
        meter = Meter()
        with (
            model.session(meter) as session,
            unittest.mock.patch.object(type(model), "shares_prefixes", False),
        ):
            session.user(text)
            seconds = timed(lambda: (session.flush(), wait_for_card()))
        return seconds, meter.flops("full")

    timed_prefill()
    prefills = [timed_prefill() for _ in range(repeats)]
    median_seconds = statistics.median(seconds for seconds, _ in prefills)
    _, flops = prefills[0]  # the same in all
    share = ""
    if peak_tflops:
        share_of_peak = flops / median_seconds / (peak_tflops * 1e12)
        share = f", {share_of_peak:.0%} of the peak (>= 50 %)"
    tokens_per_second = n_prompt / median_seconds
    print(
        f"reading {n_prompt:,} tokens: {median_seconds:.2f} s, "
        f"{tokens_per_second:,.0f} tokens a second{share}",
        flush=True,
    )


def time_long_context(model: Any, n_prompt: int) -> None:
    """Print the seconds to read `n_prompt` tokens and to write 16 after them, and the GPU's peak
    memory, where there is one."""
    has_gpu = torch.cuda.is_available()
    if has_gpu:
        torch.cuda.reset_peak_memory_stats()
    with model.session(Meter()) as session:
        session.user(text_of_tokens(model, n_prompt))
        seconds = timed(lambda: (session.write(16, temperature=1.0), wait_for_card()))
    peak = ""
    if has_gpu:
        peak = f", peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB"
    print(f"a context of {n_prompt:,} tokens and 16 written: {seconds:.2f} s{peak}", flush=True)


def wait_for_card() -> None:
    """Block until the GPU has finished its work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


@contextlib.contextmanager
def utilisation_appended_to(shares: list[float]) -> Iterator[None]:
    """A context manager that measures, while the `with` block runs, in which share of the time the
    card computes (by its driver), and at the end appends it to `shares`; 0 without a card."""
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
        shares.append(statistics.mean(samples or [0.0]))


def time_construction(model: Any, in_flight: list[int], replies: int = 8) -> None:
    """Print the seconds a document in which PECAN's construction reads and writes about as much as
    for 2,400 tokens.

    A document is `replies` replies of 131 tokens after 600, of which 20 spans are watched. Random
    weights write no summaries that could be parsed, so the session's calls are made without the
    method. No reply ends early.

    Args:
        model: The model; its stop ids are the same again afterwards.
        in_flight: The numbers of documents in flight to compare with one.
        replies: How many replies a document has.
    """

    def write_replies(document_number: int) -> None:
        """Make the calls for one document."""
        for reply in range(replies):
            with model.session(Meter()) as session:
                session.user(f"{document_number}.{reply} Summarise these texts.")
                spans = [session.feed(text_of_tokens(model, 30)) for _ in range(20)]
                session.write(131, watch=spans)

    def seconds_per_document(n_in_flight: int) -> float:
        """The seconds for `n_in_flight` documents at a time, divided by that number."""

        def write_for_all_documents() -> None:
            """Make the calls for all documents, in threads."""
            scheduler = Scheduler(n_in_flight)
            scheduler.start_threads(*(partial(write_replies, n) for n in range(n_in_flight)))
            scheduler.wait()

        return timed(write_for_all_documents) / n_in_flight

    stop_ids = model.stop_ids
    model.stop_ids = frozenset()
    alone = seconds_per_document(1)
    for n_in_flight in in_flight:
        seconds_per_document(n_in_flight)  # a warm-up
        shares: list[float] = []
        with utilisation_appended_to(shares):
            together = seconds_per_document(n_in_flight)
        print_row(
            f"construction, seconds a document: 1 / {n_in_flight} in flight",
            alone,
            together,
            "0.5 s",
        )
        print_busy_share(shares[0])
    model.stop_ids = stop_ids


def print_busy_share(share: float) -> None:
    """Print in which share of the time the card computed, below the row that it is about."""
    print(f"    the card was busy {share:.0%} of the time (>= 70 %)", flush=True)


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

        def seconds_per_question(n_questions: int, n_in_flight: int) -> float:
            """The seconds of a run of some questions, divided by their number."""
            seconds = bench.seconds("pecan", str(folder), n_in_flight, n_questions, "warm", **sets)
            return seconds / n_questions

        n_questions = max(in_flight)
        seconds_per_question(n_questions, n_questions)  # builds the graphs
        alone = seconds_per_question(min(8, n_questions), 1)
        for n_in_flight in in_flight:
            shares: list[float] = []
            with utilisation_appended_to(shares):
                together = seconds_per_question(n_questions, n_in_flight)
            print_row(
                f"search (pecan), seconds a question: 1 / {n_in_flight} in flight",
                alone,
                together,
                "0.065 s",
            )
            print_busy_share(shares[0])
        probe_counts: list[int] = []
        for path in Path(name).glob("run-*/*/*/records.jsonl"):
            probe_counts += map(count_probes, path.open())
        mean_probes = sum(probe_counts) / max(len(probe_counts), 1)
        print(f"    probes a question: {mean_probes:.1f}", flush=True)


def count_probes(record_line: str) -> int:
    """How many steps of a record, given as its line of records.jsonl, have a probe."""
    steps = json.loads(record_line).get("steps") or ()
    return sum(step.get("p_yes") is not None for step in steps)


def main() -> None:
    """Print all rows: capture, recorded steps, reading, a long context, PECAN's construction and
    search; last what makes the model slower than it could be."""
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
    n_cached = min(3584, flags.tokens)
    for n_spans, target in ((20, "<= 1.05"), (64, "<= 1.3")):
        watching, watching_none = functions_that_append(model, n_cached, n_spans)
        time_in_turn_and_print(
            f"append 512 to {n_cached:,}: {n_spans} watched columns / none",
            watching,
            watching_none,
            flags.repeats,
            target,
        )
    for n_contexts in (1, min(64, max(flags.in_flight))):
        time_recorded_steps(model, n_contexts, 64, flags.repeats)
    time_reading(model, min(8000, flags.tokens), flags.peak, flags.repeats)
    time_long_context(model, flags.tokens)
    time_construction(model, flags.in_flight)
    time_searches(flags.folder, flags.in_flight, min(2000, flags.tokens))
    for why in model.slow_paths():
        print(f"slower than it could be: {why}")


if __name__ == "__main__":
    main()
