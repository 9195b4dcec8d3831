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
        """The seconds in which the card computes, or reads the weights once and the keys of each
        context, whichever takes longer.

        Logits are computed for the last token of a context alone; a weight has 2 bytes.
        """
        linear_flops = 2 * (LLAMA.layer_weights * self.tokens + LLAMA.head_weights * self.contexts)
        attention_flops = LLAMA.flops_per_pair * self.pairs
        weight_bytes = 2 * (LLAMA.layer_weights + LLAMA.head_weights)
        key_bytes = KEY_BYTES * self.keys
        return max((linear_flops + attention_flops) / FLOPS, (weight_bytes + key_bytes) / BYTES)

    def add(self, lengths: Sequence[tuple[int, int]]) -> None:
        """Add contexts to the batch, each as (new tokens, keys before them)."""
        self.contexts += len(lengths)
        self.tokens += sum(new for new, _ in lengths)
        self.pairs += sum(new * before + new * (new + 1) // 2 for new, before in lengths)
        self.keys += sum(new + before for new, before in lengths)


@contextlib.contextmanager
def recorded_batches() -> Iterator[list[Batch]]:
    """A context manager that gives the list of batches that models run inside the `with` block, as
    on a GPU; it grows while they run."""
    batches: list[Batch] = []
    run = ForwardQueue.run
    replay = RecordedSteps._replay

    def run_and_record(queue: Any, requests: Any) -> Any:
        """Run a batch as before, and count its launches."""
        batches.append(Batch())
        with Launches() as counted:
            results = run(queue, requests)
        batches[-1].launches += counted.count
        return results

    def run_packed_and_record(
        net: Any, device: Any, requests: Any, *more: Any, **options: Any
    ) -> Any:
        """Read tokens as before, and add their contexts to the present batch."""
        batches[-1].add(
            [(len(request.ids), slot_of(request.cache).n_tokens) for request in requests]
        )
        return run_packed(net, device, requests, *more, **options)

    def replay_and_record(steps: RecordedSteps, rows: Sequence[InputRow]) -> Any:
        """Play a recorded step as before, and add its contexts to the present batch, each with one
        new token; it is one launch. Rows without a context fill the step up."""
        batches[-1].add([(1, row.n_keys) for row in rows if row.context_number is not None])
        batches[-1].launches += 1
        return replay(steps, rows)

    with (
        as_on_a_gpu(),
        unittest.mock.patch.object(ForwardQueue, "run", run_and_record),
        unittest.mock.patch("harness.llm.network.run_packed", run_packed_and_record),
        unittest.mock.patch.object(RecordedSteps, "_replay", replay_and_record),
    ):
        yield batches


def summary(batches: Sequence[Batch], n_questions: int) -> dict[str, float]:
    """What the batches say of a search: their number, contexts and launches of one, milliseconds a
    question, and the share of these in which the card is idle, as it waits for launches.

    Args:
        batches: All batches of the search.
        n_questions: How many questions were searched for.
    """
    work_seconds = sum(batch.work for batch in batches)
    n_launches = sum(batch.launches for batch in batches)
    n_contexts = sum(batch.contexts for batch in batches)
    waiting_seconds = LAUNCH * n_launches
    all_seconds = work_seconds + waiting_seconds
    return {
        "batches": len(batches),
        "contexts": round(n_contexts / len(batches), 1),
        "launches": round(n_launches / len(batches)),
        "ms_question": round(1e3 * all_seconds / n_questions, 1),
        "idle": round(waiting_seconds / all_seconds, 3),
    }


def summaries_of_searches(
    folder: Path, in_flight: Sequence[int], document_tokens: int
) -> dict[int, dict[str, float]]:
    """Number of questions in flight -> the summary of PECAN's search of as many questions, at least
    16.

    Args:
        folder: The folder of the model.
        in_flight: The numbers in flight.
        document_tokens: How long a document is.
    """
    summaries = {}
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name))
        sets: dict[str, Any] = {"dataset__tokens": document_tokens, **SEARCH}
        # Builds the graphs, with attention.
        bench.seconds("pecan", str(folder), max(in_flight), max(16, *in_flight), "warm", **sets)
        for n_in_flight in in_flight:
            n_questions = max(16, n_in_flight)
            unload()
            with recorded_batches() as batches:
                bench.seconds("pecan", str(folder), n_in_flight, n_questions, "warm", **sets)
            summaries[n_in_flight] = summary(batches, n_questions)
        unload()
    return summaries


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
        summaries = summaries_of_searches(folder, (1, 16, 64), flags.tokens)
    for n_in_flight, values in summaries.items():
        values_as_text = ", ".join(f"{name} {value}" for name, value in values.items())
        print(f"{n_in_flight} in flight: {values_as_text}", flush=True)
    if flags.json:
        print(json.dumps(summaries))


if __name__ == "__main__":
    main()
