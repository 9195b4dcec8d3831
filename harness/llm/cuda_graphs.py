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
    """What one step leaves, for each context.

    Attributes:
        logits: Of the next token [contexts, vocab].
        queries: Of the token that was run [contexts, layers, heads, size].
        log_sum_exps: Of the attention scores of these queries [contexts, layers, heads].
    """

    logits: Tensor
    queries: Tensor
    log_sum_exps: Tensor


class InputRow(NamedTuple):
    """The new token of one context of a step.

    Attributes:
        place: Where the context's keys are in the pool.
        token: Its new token.
        keys: How many it has before the token; a bounded cache holds fewer than were read.
        position: The position of the token.
        context: The number of the context in the step; None for a row that fills a recording up.
    """

    place: int
    token: int
    keys: int
    position: int
    context: int | None


class Recording(NamedTuple):
    """A recorded step of a number of contexts.

    Attributes:
        inputs: The tensor that holds the step's inputs (`_input_tensor`).
        play: Runs the step on what that tensor holds.
    """

    inputs: Tensor
    play: Callable[[], Step]


class RecordedSteps:
    """Decode steps of one network with one adapter, recorded once and replayed.

    Attributes:
        problem: Why steps are no longer recorded; None while they are.
    """

    def __init__(self, net: Any, pool: KVPool, longest: int, tolerance: float) -> None:
        """Record nothing yet. `_filling` is the cache of the contexts that fill a recording up,
        `_growths` says how often the pool had grown when the recordings were made.

        Args:
            net: The network, of transformers.
            pool: Holds the keys of its contexts.
            longest: Most tokens of a context.
            tolerance: Largest difference between the logits of a recording and those of the eager
                step, relative to their size.
        """
        self._net, self._pool = net, pool
        self._longest, self._tolerance = longest, tolerance
        self._recordings: dict[int, Recording] = {}  # by the number of contexts
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
        """Run one more token of each context: by a recording, which is made at the first step of a
        size, or eagerly where recordings cannot be used.

        Args:
            tokens: The token of each context.
            slots: The places of the contexts in the cache, with room for the token.
            captures: What measures the attention of each; None for nothing.
            eagerly: Runs the same step without a recording.

        Returns:
            Float32 logits [1, vocab] of each context.
        """
        if self.problem is not None or len(tokens) > MAX_CONTEXTS:
            return eagerly()
        size = 1 << (len(tokens) - 1).bit_length()
        # Another thread may make the pool grow; what is started before that still finds the old
        # buffers.
        with self._pool.lock:
            try:
                if size > len(tokens):
                    slot_of(self._filling).reserve(BLOCK)
            except MemoryError:  # the contexts themselves have room
                return eagerly()
            if self._pool.growths != self._growths:
                self._recordings = {}
                self._growths = self._pool.growths
            rows = self._input_rows(tokens, slots, size)
            if size not in self._recordings:
                return self._record_and_check(rows, slots, captures, eagerly)
            step = self._replay(rows)
            for slot in slots:
                slot.used = [used + 1 for used in slot.used]
            self._keep_watched(step, rows, captures)
            at = torch.tensor(_rows_of_contexts(rows, len(tokens)), device=step.logits.device)
            return list(step.logits[at][:, None])  # a copy: the next step overwrites them

    def _input_rows(
        self, tokens: Sequence[int], slots: Sequence[Slot], size: int
    ) -> list[InputRow]:
        """The rows of a step in the order of their places, as attention wants them.

        Args:
            tokens: The new token of each context.
            slots: The places of the contexts in the cache.
            size: The number of rows; those without a context fill the recording up.
        """
        rows: list[InputRow] = []
        for context, (slot, token) in enumerate(zip(slots, tokens, strict=True)):
            rows.append(InputRow(slot.start, token, slot.n_tokens, slot.n_tokens, context))
        first = slot_of(self._filling).start
        for n in range(size - len(tokens)):
            rows.append(InputRow(first + n, 0, 0, 0, None))  # noqa: PERF401
        return sorted(rows, key=_place)

    def _keep_watched(
        self, step: Step, rows: Sequence[InputRow], captures: Sequence[WriteCapture | None]
    ) -> None:
        """Give the captures of watched contexts the queries and log-sum-exps of their tokens in a
        step.

        Args:
            step: What the step left.
            rows: The input rows of the step.
            captures: What measures each context; None for one that is not watched.
        """
        row_of_context = _rows_of_contexts(rows, len(captures))
        watched: list[WriteCapture] = []
        watched_rows: list[int] = []
        for row, capture in zip(row_of_context, captures, strict=True):
            if capture is not None:
                watched.append(capture)
                watched_rows.append(row)
        if watched:
            at = torch.tensor(watched_rows, device=step.queries.device)
            keep_steps(watched, step.queries[at], step.log_sum_exps[at], self._scaling)

    def _record_and_check(
        self,
        rows: Sequence[InputRow],
        slots: Sequence[Slot],
        captures: Sequence[WriteCapture | None],
        eagerly: Callable[[], list[Tensor | None]],
    ) -> list[Tensor | None]:
        """Run a step eagerly and return its logits. Also records the step, and sets `problem` where
        the recording differs or fails: the step is then taken back and run once more.

        Args:
            rows: The input rows of the step (`_input_rows`).
            slots: The places of the contexts in the cache, with room for the token.
            captures: What measures the attention of each context; None for nothing.
            eagerly: Runs the same step without a recording.
        """
        captured = CaptureTransaction(captures)
        expected = eagerly()
        try:
            self._recordings[len(rows)] = self._record(rows)
            replayed = self._replay(rows).logits
            places = _rows_of_contexts(rows, len(expected))
            for place, row in zip(places, expected, strict=True):
                assert row is not None
                off = float((replayed[place] - row[0]).norm() / row.norm())
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

    def _record(self, rows: Sequence[InputRow]) -> Recording:
        """Record a step of these rows."""
        size = len(rows)
        numbers = _input_tensor(rows).to(self._net.device)

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
            n_layers = len(self._pool.keys)
            layers = [PackedLayer(n, self._pool, written[:size]) for n in range(n_layers)]
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
            return Recording(numbers, record_graph(step))

    def _replay(self, rows: Sequence[InputRow]) -> Step:
        """Replay a step on these rows; the next step overwrites what it returns."""
        recording = self._recordings[len(rows)]
        with torch.inference_mode():
            recording.inputs.copy_(_input_tensor(rows))
            return recording.play()


def _place(row: InputRow) -> int:
    """Where a row's context stands in the pool, by which rows are sorted."""
    return row.place


def _rows_of_contexts(rows: Sequence[InputRow], contexts: int) -> list[int]:
    """The number of the row of each context: rows of contexts 1, none, 0 -> [2, 0].

    Args:
        rows: The input rows of a step.
        contexts: How many of them are of a context.
    """
    numbers = [0] * contexts
    for number, row in enumerate(rows):
        if row.context is not None:
            numbers[row.context] = number
    return numbers


def _input_tensor(rows: Sequence[InputRow]) -> Tensor:
    """The input rows as one tensor, int64 [5, rows + 1]: token, position, place of the context,
    number of keys with the new one, and place of the new token of each row. The last column only
    ends the places."""
    columns: list[list[int]] = []
    for row in rows:
        new_place = row.place + row.keys
        columns.append([row.token, row.position, row.place, row.keys + 1, new_place])
    end = rows[-1].place + rows[-1].keys + 1
    return torch.tensor([*columns, [0, 0, end, 0, 0]]).T.contiguous()


def record_graph(step: Callable[[], Step]) -> Callable[[], Step]:
    """Record what `step` does on the current GPU.

    Each recording has memory of its own: torch refuses a shared pool once all recordings in it are
    gone, as they are when the pool grows.

    Args:
        step: Starts the kernels that are recorded.

    Returns:
        A function that plays the recording, and returns the tensors that `step` returned, refilled.
    """
    graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    try:
        # "thread_local": other threads, the encoder's say, may use the card meanwhile.
        stream = _stream(torch.cuda.current_device())
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
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
