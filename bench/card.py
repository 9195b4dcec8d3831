"""What a card would do of PECAN's search: contexts of a batch, and how long the card waits for
launches.

    python -m bench.card [--json] [--tokens 1000]

No GPU is needed: a narrow model runs as in bench.host, and each batch is booked as Llama-3.1-8B's
on an H100: the card works for max(FLOPs, bytes) and waits 6 us a launch; a recorded step is one
launch. The harness's own time between batches is bench.host's figure. With --json the last line is
one object.
"""

import argparse
import contextlib
import json
import tempfile
import unittest.mock
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bench.host import SHAPE, Launches, as_on_a_gpu
from bench.parallel import SEARCH, Bench
from harness.cost.flops import ModelShape
from harness.llm.batched_forward import run_packed
from harness.llm.cuda_graphs import InputRow, RecordedSteps
from harness.llm.kv import slot_of
from harness.llm.load import unload
from harness.llm.network import ForwardQueue
from tests.random_model import save

LLAMA = ModelShape(
    layers=32, width=4096, heads=32, kv_heads=8, head_size=128, mlp=14336, vocab=128256
)
# An H100 SXM: two thirds of the dense bfloat16 peak of 989 TFLOP/s and of 3.35 TB/s, as large
# products reach.
FLOPS, BYTES, LAUNCH = 660e12, 2.2e12, 6e-6
KEY_BYTES = 2 * LLAMA.layers * LLAMA.kv_heads * LLAMA.head_size * 2


@dataclass
class Batch:
    """What one batch on the card does.

    Attributes:
        contexts: How many contexts it has.
        tokens: How many new tokens it reads.
        pairs: How many pairs of query and key it multiplies.
        keys: How many keys it reads.
        launches: How many operations the card is sent.
    """

    contexts: int = 0
    tokens: int = 0
    pairs: int = 0
    keys: int = 0
    launches: int = 0

    @property
    def work(self) -> float:
        """The seconds in which the card computes or reads: the weights once, and the keys of each
        context."""
        flops = (
            2 * (LLAMA.layer_weights * self.tokens + LLAMA.head_weights * self.contexts)
            + LLAMA.flops_per_pair * self.pairs
        )
        return max(
            flops / FLOPS,
            (2 * (LLAMA.layer_weights + LLAMA.head_weights) + KEY_BYTES * self.keys) / BYTES,
        )

    def add(self, lengths: Sequence[tuple[int, int]]) -> None:
        """Add contexts to the batch, each as (new tokens, keys before them)."""
        self.contexts += len(lengths)
        self.tokens += sum(new for new, _ in lengths)
        self.pairs += sum(new * before + new * (new + 1) // 2 for new, before in lengths)
        self.keys += sum(new + before for new, before in lengths)


@contextlib.contextmanager
def booked() -> Iterator[list[Batch]]:
    """A context manager that gives the list of batches that models run inside the `with` block, as
    on a GPU; it grows while they run."""
    batches: list[Batch] = []
    run, replay = ForwardQueue.run, RecordedSteps._replay

    def book(queue: Any, asks: Any) -> Any:
        """Run a batch as before, and count its launches."""
        batches.append(Batch())
        with Launches() as counted:
            results = run(queue, asks)
        batches[-1].launches += counted.count
        return results

    def book_packed(net: Any, device: Any, asks: Any, *more: Any) -> Any:
        """Read tokens as before, and add their contexts to the present batch."""
        batches[-1].add([(len(ask.ids), slot_of(ask.cache).n_tokens) for ask in asks])
        return run_packed(net, device, asks, *more)

    def book_replay(steps: RecordedSteps, rows: Sequence[InputRow]) -> Any:
        """Play a recorded step as before, and add its contexts to the present batch; it is one
        launch."""
        batches[-1].add([(1, row.n_keys) for row in rows if row.context_number is not None])
        batches[-1].launches += 1
        return replay(steps, rows)

    with (
        as_on_a_gpu(),
        unittest.mock.patch.object(ForwardQueue, "run", book),
        unittest.mock.patch("harness.llm.network.run_packed", book_packed),
        unittest.mock.patch.object(RecordedSteps, "_replay", book_replay),
    ):
        yield batches


def summary(batches: Sequence[Batch], questions: int) -> dict[str, float]:
    """What the batches say of a search: contexts and launches a batch, milliseconds a question, and
    the share of these in which the card is idle.

    Args:
        batches: All batches of the search.
        questions: How many questions were searched for.
    """
    work, waiting = (
        sum(batch.work for batch in batches),
        LAUNCH * sum(batch.launches for batch in batches),
    )
    return {
        "batches": len(batches),
        "contexts": round(sum(batch.contexts for batch in batches) / len(batches), 1),
        "launches": round(sum(batch.launches for batch in batches) / len(batches)),
        "ms_question": round(1e3 * (work + waiting) / questions, 1),
        "idle": round(waiting / (work + waiting), 3),
    }


def search(folder: Path, places: Sequence[int], tokens: int) -> dict[int, dict[str, float]]:
    """Number of questions in flight -> the summary of PECAN's search of as many questions, at least
    16.

    Args:
        folder: The folder of the model.
        places: The numbers in flight.
        tokens: How long a document is.
    """
    found = {}
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name))
        sets: dict[str, Any] = {"dataset__tokens": tokens, **SEARCH}
        # Builds the graphs, with attention.
        bench.seconds("pecan", str(folder), max(places), max(16, *places), "warm", **sets)
        for number in places:
            unload()
            with booked() as batches:
                questions = max(16, number)
                bench.seconds("pecan", str(folder), number, questions, "warm", **sets)
            found[number] = summary(batches, questions)
        unload()
    return found


def main() -> None:
    """Print a line for each number of questions in flight."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=1000, help="of a document (default 1000)")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "narrow"
        save(folder, dtype=torch.bfloat16, max_position_embeddings=8192, **SHAPE)
        found = search(folder, (1, 16, 64), flags.tokens)
    for number, one in found.items():
        print(
            f"{number} in flight: " + ", ".join(f"{key} {value}" for key, value in one.items()),
            flush=True,
        )
    if flags.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
