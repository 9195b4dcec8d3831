"""What a batch costs beside the GPU: its launches, and milliseconds with neither attention nor
recorded steps.

    python -m bench.host [--json] [--repeats 3]

A model in the shape of Llama-3.1-8B, but 64 wide, runs on the CPU as on a GPU: one attention call
for all contexts, which computes nothing, and recorded decode steps, which are not played. What is
left is the harness, torch, transformers and the narrow products. Launches are operations that are
no views. Targets: bench/README.md. With --json the last line is one object.
"""

import argparse
import contextlib
import json
import statistics
import tempfile
import threading
import unittest.mock
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from bench.__main__ import writing_seconds
from bench.parallel import SEARCH, Bench
from harness.config.schema import ModelConfig
from harness.llm import cuda_graphs
from harness.llm.backend import load_model
from harness.llm.batched_forward import ForwardRequest, run_packed
from harness.llm.capture import FeedCapture, FeedRequest
from harness.llm.kv import rewind
from harness.llm.load import unload
from harness.llm.network import Network
from harness.parallel.in_flight import questions_that_fit
from tests.random_model import save

# Llama-3.1-8B's layers and heads; so narrow that its products take no time.
SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 8,
}


@torch.library.custom_op("harness_bench::attend", mutates_args=())
def attend(query: Tensor) -> tuple[Tensor, Tensor]:
    """Attention that computes nothing: outputs of the queries' shape, and log-sum-exps [heads,
    tokens]."""
    return query.clone(), torch.zeros(query.shape[1], len(query))


class Launches(TorchDispatchMode):
    """Counts the operations that a GPU would be sent while the `with` block runs: those that are no
    views."""

    def __init__(self) -> None:
        """Begin with no operation counted."""
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and count it unless it returns a view."""
        returned_values = func._schema.returns
        returns_view = any(
            value.alias_info is not None and not value.alias_info.is_write
            for value in returned_values
        )
        if not returns_view:
            self.count += 1
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def as_on_a_gpu() -> Iterator[None]:
    """A context manager: inside, models share one attention call, which computes nothing, and
    recorded steps are not played."""

    def record(step: Callable[[], Any]) -> Callable[[], Any]:
        """Run a step once, and return a function that gives its result again without computing."""
        out = step()
        return lambda: out

    with (
        unittest.mock.patch(
            "torch.nn.attention.varlen.varlen_attn", lambda query, *_, **__: attend(query)
        ),
        unittest.mock.patch.object(cuda_graphs, "record_graph", record),
        unittest.mock.patch.object(Network, "in_one_call", True),
    ):
        yield


def count_launches(model: Any, n_contexts: int, n_new: int, n_feeds: int) -> int:
    """Count the operations of one batch, in which each context of 400 tokens reads new ones, in
    parts that each watch the 20 tokens from token 10 on.

    Contexts have the room already: one that outgrows it and must move costs two more a layer.

    Args:
        model: The model.
        n_contexts: How many contexts the batch has.
        n_new: How many tokens each reads.
        n_feeds: In how many parts.
    """
    caches = [model.pool.new_cache() for _ in range(n_contexts)]
    for cache in caches:
        makes_room = ForwardRequest([5] * (400 + n_new), cache)
        run_packed(model.net, model.device, [makes_room], True)
        rewind(cache, 400)
    feed_tokens = n_new // n_feeds
    feeds: list[FeedRequest] = []
    for number in range(n_feeds):
        start = 400 + number * feed_tokens
        feeds.append(FeedRequest(start, start + feed_tokens, ((10, 30),)))
    forward_requests = [
        ForwardRequest([7] * n_new, cache, 1, FeedCapture(400, feeds)) for cache in caches
    ]
    with Launches() as counted:
        run_packed(model.net, model.device, forward_requests, True)
    return counted.count


def pecan_milliseconds(folder: Path, n_in_flight: int, repeats: int) -> float:
    """The milliseconds a question of PECAN's search, the median of `repeats` runs of twice as many
    questions as are in flight.

    Args:
        folder: The folder of the model.
        n_in_flight: How many questions are in flight.
        repeats: How many runs.
    """
    n_questions = 2 * n_in_flight
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name))
        sets: dict[str, Any] = {"dataset__tokens": 1000, **SEARCH}
        run = partial(bench.seconds, "pecan", str(folder), n_in_flight, n_questions, "warm", **sets)
        run()  # builds the graphs, with attention
        unload()  # a loaded model remembers that each context has a call of attention of its own
        with as_on_a_gpu():
            run()  # loads it again
            milliseconds = [run() * 1e3 / n_questions for _ in range(repeats)]
    return round(statistics.median(milliseconds), 3)


def paper_places() -> int:
    """How many questions of MuSiQue, whose documents have 12,000 bytes, are in flight with the
    profile "paper" and 68 GB free.

    Asked of a stand-in for the loaded network of Llama-3.1-8B, which has its sizes alone.
    """
    network = Network.__new__(Network)
    network.name, network.dtype, network.device = "llama-3.1-8b", "bfloat16", torch.device("cuda")
    network.net = torch.nn.Module()
    network.shape = unittest.mock.Mock(layers=32, kv_heads=8, head_size=128)
    network._memory_fraction, network._max_context_tokens = 0.9, 131_072
    network.window = 131_072  # type: ignore[attr-defined]
    network._pool, network._pool_lock, network._other_networks = None, threading.Lock(), []
    network.n_layers = 32
    vars(network)["pack_problem"] = None
    with unittest.mock.patch("harness.llm.network.free_gpu_bytes", return_value=68 * 10**9):
        return questions_that_fit([network], 64, lambda _: None, lambda: 12_000 // 3 + 1024)


def main() -> None:
    """Print all figures: launches of a batch, milliseconds without the GPU's, questions in flight."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    flags = parser.parse_args()

    found: dict[str, dict[str, Any]] = {
        "launches": {},
        "host_ms": {},
        "places": {"paper_68gb": paper_places()},
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "narrow"
        save(folder, dtype=torch.bfloat16, max_position_embeddings=8192, **SHAPE)
        model = load_model(ModelConfig(name="narrow", source=str(folder)))
        with as_on_a_gpu():
            found["launches"]["append_watched"] = [
                count_launches(model, n_contexts, n_new=40, n_feeds=1) for n_contexts in (1, 16, 64)
            ]
            found["launches"]["top_level"] = [
                count_launches(model, n_contexts, n_new=800, n_feeds=20) for n_contexts in (1, 16)
            ]
            writing_seconds(model, 64, 8, together=True)  # a warm-up
            seconds_of_all = statistics.median(
                writing_seconds(model, 64, 64, together=True) for _ in range(flags.repeats)
            )
            found["host_ms"]["token_64"] = round(seconds_of_all * 1e3 / 64**2, 3)
        found["host_ms"]["pecan_question_16"] = pecan_milliseconds(folder, 16, flags.repeats)
    for kind, values in found.items():
        for what, value in values.items():
            print(f"{kind} {what}: {value}")
    if flags.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
