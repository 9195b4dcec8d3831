"""Decode steps as CUDA graphs: a step of one token for each of several contexts is recorded once
and played back.

    eager     Python starts every kernel of a step, some hundreds in a row, and the card waits between short ones
    recorded  Python fills one small tensor, and one call starts them all

A recording has fixed addresses and a fixed number of contexts, a power of two; missing ones are
filled up with tokens that are thrown away. When the pool of keys grows its addresses change, and
the recordings are made anew.

A step also leaves the queries of every layer and the log-sum-exps of their scores: the attention of
watched contexts (capture.py) is computed from them later. The first step of each size also runs
eagerly. Where the two differ or recording fails (a mixture that picks its experts in Python, say),
the model goes on without recordings.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from harness.llm.capture import CaptureTransaction, Pack, WriteCapture, attention_calls, keep_steps
from harness.llm.kernels import PackLayout
from harness.llm.kv import BLOCK, KVPool, PackedLayer, Slot, slot_of

# Missing ones, fewer than half of a power of two, have one place each in a slot of BLOCK.
MAX_CONTEXTS = 2 * BLOCK


class Step(NamedTuple):
    """What a step leaves: logits [contexts, vocab], queries and log-sum-exps as in `keep_steps`."""

    logits: Tensor
    queries: Tensor
    sums: Tensor


class RecordedSteps:
    """Decode steps of one network with one adapter, recorded once and replayed.

    longest: most tokens of a context; tolerance: largest difference between the logits of a
    recording and those of the eager step, relative to their size; problem: why steps are no longer
    recorded, None while they are.
    """

    def __init__(self, net: Any, pool: KVPool, longest: int, tolerance: float) -> None:
        self._net, self._pool = net, pool
        self._longest, self._tolerance = longest, tolerance
        self._recordings: dict[int, tuple[Tensor, Callable[[], Step]]] = {}
        self._scaling = 1.0
        self._filling = pool.cache()
        self._growths = 0
        self.problem: str | None = None

    def run(
        self,
        tokens: Sequence[int],
        slots: Sequence[Slot],
        captures: Sequence[WriteCapture | None],
        eagerly: Callable[[], list[Tensor | None]],
    ) -> list[Tensor | None]:
        """Run one more token of each context; returns float32 logits [1, vocab] of each.

        slots: of the contexts, with room for the token; captures: what measures the attention of
        each; eagerly: runs the same step without a recording.
        """
        if self.problem is not None or len(tokens) > MAX_CONTEXTS:
            return eagerly()
        size = 1 << (len(tokens) - 1).bit_length()
        filling = slot_of(self._filling)
        # Another thread may make the pool grow; what is started before that still finds the old
        # buffers.
        with self._pool.lock:
            try:
                if size > len(tokens):
                    filling.reserve(BLOCK)
            except MemoryError:  # the contexts themselves have room
                return eagerly()
            if self._pool.growths != self._growths:
                self._recordings, self._growths = {}, self._pool.growths
            # As `_input_rows` takes them, of each context and of the filling; attention wants them
            # by their places.
            rows = [
                (slot.start, token, slot.used[0], slot.used[0])
                for slot, token in zip(slots, tokens, strict=True)
            ]
            rows += [(filling.start + n, 0, 0, 0) for n in range(size - len(tokens))]
            order = sorted(range(size), key=lambda n: rows[n][0])
            if size not in self._recordings:
                return self._record_and_check(
                    size, [rows[n] for n in order], order, slots, captures, eagerly
                )
            step = self._replay(size, [rows[n] for n in order])
            for slot in slots:
                slot.used = [used + 1 for used in slot.used]
            row = {n: at for at, n in enumerate(order)}
            watched = [
                (row[n], capture) for n, capture in enumerate(captures) if capture is not None
            ]
            if watched:
                at = torch.tensor([at for at, _ in watched], device=step.queries.device)
                keep_steps(
                    [capture for _, capture in watched],
                    step.queries[at],
                    step.sums[at],
                    self._scaling,
                )
            at = torch.tensor([row[n] for n in range(len(tokens))], device=step.logits.device)
            return list(step.logits[at][:, None])  # a copy: the next step overwrites them

    def _record_and_check(
        self,
        size: int,
        rows: Sequence[tuple[int, int, int, int]],
        order: Sequence[int],
        slots: Sequence[Slot],
        captures: Sequence[WriteCapture | None],
        eagerly: Callable[[], list[Tensor | None]],
    ) -> list[Tensor | None]:
        """Run a step eagerly and return its logits; record it, and set `problem` where the
        recording differs.

        A step whose recording has a problem is taken back and run once more.
        size: contexts of the recording; rows: as `_input_rows` takes them; order[i]: which context
        row i is of.
        """
        captured = CaptureTransaction(captures)
        expected = eagerly()
        try:
            self._recordings[size] = self._record(size, rows)
            replayed = self._replay(size, rows).logits
            for n, row in enumerate(expected):
                assert row is not None
                off = float((replayed[order.index(n)] - row[0]).norm() / row.norm())
                if not off <= self._tolerance:
                    self.problem = (
                        f"a recorded step gave other logits than the step itself ({off:.1%} off)"
                    )
        except Exception as error:  # noqa: BLE001 - whatever a foreign architecture does that a graph cannot hold
            self.problem = f"a step could not be recorded ({type(error).__name__})"
        if self.problem is not None:
            self._recordings = {}
            captured.roll_back()
            for slot in slots:  # once more: the recording may have written other keys and values
                slot.used = [used - 1 for used in slot.used]
            return eagerly()
        return expected

    def _record(
        self, size: int, rows: Sequence[tuple[int, int, int, int]]
    ) -> tuple[Tensor, Callable[[], Step]]:
        """Record a step of `size` contexts; returns the tensor of its inputs, and a function that
        replays the step."""
        numbers = _input_rows(rows).to(self._net.device)

        def step() -> Step:
            """One pass over `size` contexts that adds a token to each; the graph records its
            kernels."""
            # Made here, since a graph keeps addresses, not tensors; `numbers` stays with the
            # recording.
            first = torch.arange(size + 1, dtype=torch.int32, device=numbers.device)
            # transformers takes a mask of four dimensions as it is; every context has its own
            # kernel's.
            mask = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=numbers.device)
            ids, positions, places, keys, written = numbers
            at = PackLayout(first, places.int(), keys[:size].int(), 1, self._longest)
            layers = [
                PackedLayer(n, self._pool, written[:size]) for n in range(len(self._pool.keys))
            ]
            pack = Pack([], self._pool, lambda _device: at, writing=slice(size))
            with attention_calls(pack=pack):
                out = self._net(
                    input_ids=ids[None, :size],
                    position_ids=positions[None, :size],
                    past_key_values=Cache(layers=layers),
                    attention_mask=mask,
                    use_cache=True,
                )
            self._scaling = pack.scaling
            return Step(out.logits[0].float(), *pack.step())

        # Kernels on another GPU than the current one would run once and stand in no recording.
        with torch.inference_mode(), torch.cuda.device_of(numbers):  # type: ignore[no-untyped-call]
            return numbers, record_graph(step)

    def _replay(self, size: int, rows: Sequence[tuple[int, int, int, int]]) -> Step:
        """Replay a step on `rows`; the next step overwrites what it returns."""
        numbers, play = self._recordings[size]
        with torch.inference_mode():
            numbers.copy_(_input_rows(rows))
            return play()


def _input_rows(rows: Sequence[tuple[int, int, int, int]]) -> Tensor:
    """int64 [5, contexts + 1]: token, position, place, number of keys and place of the new token of
    each context.

    rows: (place of its keys in the pool, new token, keys before it, position) of each context; a
    bounded cache holds fewer keys than were read. The last column only ends the places.
    """
    place, _, before, _ = rows[-1]
    columns = [
        [token, position, place, before + 1, place + before]
        for place, token, before, position in rows
    ]
    return torch.tensor([*columns, [0, 0, place + before + 1, 0, 0]]).T.contiguous()


def record_graph(step: Callable[[], Step]) -> Callable[[], Step]:
    """Record what `step` does on the current GPU; returns a function that replays it and returns
    the tensors, refilled.

    Each recording has memory of its own: torch refuses a shared pool once all recordings in it are
    gone, as they are when the pool grows.
    """
    graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    try:
        # "thread_local": other threads, the encoder's say, may use the card meanwhile.
        with torch.cuda.graph(
            graph, stream=_stream(torch.cuda.current_device()), capture_error_mode="thread_local"
        ):
            out = step()
    finally:
        torch.cuda.set_stream(before)  # torch leaves its stream in place where a recording fails
    out.logits.zero_()  # or an empty recording would pass the check: recording it left the right logits

    def play() -> Step:
        """Run the recorded pass again on what the input tensors now hold."""
        graph.replay()
        return out

    return play


@functools.cache
def _stream(device: int) -> Any:
    """The stream of all recordings on a GPU; torch's own stands on the GPU of the first recording
    of the process."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
