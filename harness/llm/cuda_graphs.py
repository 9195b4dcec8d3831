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

from harness.llm.capture import (
    CaptureTransaction,
    PackedPass,
    WriteCapture,
    WrittenRows,
    add_written_rows,
    attention_calls,
)
from harness.llm.kernels import PackLayout
from harness.llm.kv import BLOCK, KVPool, PackedLayer, Slot, slot_of

# Missing ones, fewer than half of a power of two, have one place each in a slot of BLOCK.
MAX_CONTEXTS = 2 * BLOCK


class StepOutput(NamedTuple):
    """What one step leaves, for each row.

    Attributes:
        logits: Of the next token [rows, vocab].
        written: The queries of the token that was run, and the log-sum-exps of their scores.
    """

    logits: Tensor
    written: WrittenRows


class InputRow(NamedTuple):
    """The new token of one context of a step.

    Attributes:
        key_start: The first position in the pool of the context's keys.
        token_id: Its new token.
        n_keys: How many keys it has before the token; a bounded cache holds fewer than were read.
        position: The position of the token in the context.
        context_number: The number of the context in the step; None for a row that only fills the
            recording up.
    """

    key_start: int
    token_id: int
    n_keys: int
    position: int
    context_number: int | None


class Recording(NamedTuple):
    """A recorded step of a number of contexts.

    Attributes:
        inputs: The tensor that holds the step's inputs (`_input_tensor`).
        play: Runs the step on what that tensor holds.
    """

    inputs: Tensor
    play: Callable[[], StepOutput]


class RecordedSteps:
    """Decode steps of one network with one adapter, recorded once and replayed.

    Attributes:
        problem: Why steps are no longer recorded; None while they are.
    """

    def __init__(self, net: Any, pool: KVPool, max_context_tokens: int, tolerance: float) -> None:
        """Record nothing yet.

        Args:
            net: The network, of transformers.
            pool: Holds the keys of its contexts.
            max_context_tokens: The most tokens that any context may have.
            tolerance: Largest difference between the logits of a recording and those of the eager
                step, relative to their size.
        """
        self._net = net
        self._pool = pool
        self._max_context_tokens = max_context_tokens
        self._tolerance = tolerance
        self._recordings: dict[int, Recording] = {}  # by the number of rows
        self._pool_growths = 0  # how often the pool had grown when these were made
        # What the network multiplies attention scores by before the softmax; known with the first
        # recording.
        self._score_scaling = 1.0
        # The tokens of the rows that have no context, and only fill a recording up.
        self._filler_cache = pool.new_cache()
        self.problem: str | None = None

    def run(
        self,
        token_ids: Sequence[int],
        slots: Sequence[Slot],
        captures: Sequence[WriteCapture | None],
        run_eagerly: Callable[[], list[Tensor | None]],
    ) -> list[Tensor | None]:
        """Run one more token of each context: by a recording for the next power of two of contexts,
        which is made at the first step of that size. Also counts the tokens in the slots, and gives
        the captures what they measure.

        The step runs eagerly where a recording has failed (`problem`), for more than MAX_CONTEXTS
        contexts, where the pool has no room for the rows that fill a recording up, and when it is
        recorded.

        Args:
            token_ids: The token of each context.
            slots: The places of the contexts in the cache, with room for the token.
            captures: What measures the attention of each; None for nothing.
            run_eagerly: Runs the same step without a recording.

        Returns:
            Float32 logits [1, vocab] of each context.
        """
        if self.problem is not None or len(token_ids) > MAX_CONTEXTS:
            return run_eagerly()
        n_rows = 1 << (len(token_ids) - 1).bit_length()  # the next power of two
        # Another thread may make the pool grow; what is started before that still finds the old
        # buffers.
        with self._pool.lock:
            try:
                if n_rows > len(token_ids):
                    slot_of(self._filler_cache).reserve(BLOCK)
            except MemoryError:  # the contexts themselves have room
                return run_eagerly()
            self._drop_recordings_of_old_buffers()
            rows = self._input_rows(token_ids, slots, n_rows)
            if n_rows not in self._recordings:
                return self._record_and_check(rows, slots, captures, run_eagerly)
            output = self._replay(rows)
            _count_tokens(slots, 1)
            self._give_to_captures(output.written, rows, captures)
            logits = output.logits
            row_numbers = torch.tensor(
                _row_of_each_context(rows, len(token_ids)), device=logits.device
            )
            return list(logits[row_numbers][:, None])  # a copy: the next step overwrites them

    def _drop_recordings_of_old_buffers(self) -> None:
        """Drop all recordings where the pool has grown since they were made: its buffers have other
        addresses."""
        if self._pool.n_growths != self._pool_growths:
            self._recordings = {}
            self._pool_growths = self._pool.n_growths

    def _input_rows(
        self, token_ids: Sequence[int], slots: Sequence[Slot], n_rows: int
    ) -> list[InputRow]:
        """The rows of a step in the order of their positions in the pool, as attention wants them.

        Args:
            token_ids: The new token of each context.
            slots: The places of the contexts in the cache.
            n_rows: The number of rows; those without a context fill the recording up.
        """
        rows: list[InputRow] = []
        for number, (slot, token_id) in enumerate(zip(slots, token_ids, strict=True)):
            row = InputRow(
                key_start=slot.start,
                token_id=token_id,
                n_keys=slot.n_tokens,
                position=slot.n_tokens,
                context_number=number,
            )
            rows.append(row)
        first_filler = slot_of(self._filler_cache).start
        for n in range(n_rows - len(token_ids)):
            filler = InputRow(
                first_filler + n, token_id=0, n_keys=0, position=0, context_number=None
            )
            rows.append(filler)
        return sorted(rows, key=lambda row: row.key_start)

    def _give_to_captures(
        self,
        written: WrittenRows,
        rows: Sequence[InputRow],
        captures: Sequence[WriteCapture | None],
    ) -> None:
        """Give the captures of watched contexts the queries and log-sum-exps of their tokens in a
        step.

        Args:
            written: What the step left, for each row.
            rows: The input rows of the step.
            captures: What measures each context; None for one that is not watched.
        """
        row_numbers = _row_of_each_context(rows, len(captures))
        watched: list[WriteCapture] = []
        watched_row_numbers: list[int] = []
        for row_number, capture in zip(row_numbers, captures, strict=True):
            if capture is not None:
                watched.append(capture)
                watched_row_numbers.append(row_number)
        if watched:
            picked = torch.tensor(watched_row_numbers, device=written.queries.device)
            watched_rows = WrittenRows(written.queries[picked], written.log_sum_exps[picked])
            add_written_rows(watched, watched_rows, self._score_scaling)

    def _record_and_check(
        self,
        rows: Sequence[InputRow],
        slots: Sequence[Slot],
        captures: Sequence[WriteCapture | None],
        run_eagerly: Callable[[], list[Tensor | None]],
    ) -> list[Tensor | None]:
        """Run a step eagerly and return its logits. Also records the step, and sets `problem` where
        the recording differs or fails: the step is then taken back and run once more.

        Args:
            rows: The input rows of the step (`_input_rows`).
            slots: The places of the contexts in the cache, with room for the token.
            captures: What measures the attention of each context; None for nothing.
            run_eagerly: Runs the same step without a recording.
        """
        captured_before = CaptureTransaction(captures)
        expected = run_eagerly()
        try:
            self._recordings[len(rows)] = self._record(rows)
            replayed = self._replay(rows).logits
            row_numbers = _row_of_each_context(rows, len(expected))
            self._compare_logits(expected, [replayed[number] for number in row_numbers])
        except Exception as error:  # noqa: BLE001 - whatever a foreign architecture does that a graph cannot hold
            self.problem = f"a step could not be recorded ({type(error).__name__})"
        if self.problem is None:
            return expected
        self._recordings = {}
        captured_before.roll_back()
        # Once more: the recording may have written other keys and values.
        _count_tokens(slots, -1)
        return run_eagerly()

    def _compare_logits(
        self, expected: Sequence[Tensor | None], replayed: Sequence[Tensor]
    ) -> None:
        """Set `problem` where the logits of a recording are further from those of the eager step
        than the tolerance, relative to their size.

        Args:
            expected: Of the eager step, [1, vocab] of each context.
            replayed: Of the recording, [vocab] of each context.
        """
        for eager_logits, replayed_logits in zip(expected, replayed, strict=True):
            assert eager_logits is not None
            distance = (replayed_logits - eager_logits[0]).norm()
            difference = float(distance / eager_logits.norm())
            if not difference <= self._tolerance:  # also where it is NaN
                self.problem = (
                    f"a recorded step gave other logits than the step itself ({difference:.1%} off)"
                )

    def _record(self, rows: Sequence[InputRow]) -> Recording:
        """Record a step of these rows: the kernels of one pass, which read their inputs from one
        tensor, so that the recording runs on whatever it is filled with. Also notes what the
        network multiplies attention scores by."""
        n_rows = len(rows)
        inputs = _input_tensor(rows).to(self._net.device)

        def run_step() -> StepOutput:
            """One pass that adds a token to each of `n_rows` contexts; the graph records its
            kernels. Reads `inputs`, int64 [5, rows + 1], of which the last column only ends the
            starts of the keys. Also notes the scaling of attention scores."""
            # Tensors are made in here, since a graph keeps addresses, not tensors; `inputs` stays
            # with the recording.
            row_starts = torch.arange(n_rows + 1, dtype=torch.int32, device=inputs.device)
            # transformers takes a mask of four dimensions as it is; every context has its own
            # kernel's.
            mask = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=inputs.device)
            ids, positions, key_starts, key_counts, new_positions = inputs
            layout = PackLayout(
                row_starts=row_starts,
                key_starts=key_starts.int(),
                key_counts=key_counts[:n_rows].int(),
                max_new=1,
                max_keys=self._max_context_tokens,
            )
            n_layers = len(self._pool.keys)
            layers = [PackedLayer(n, self._pool, new_positions[:n_rows]) for n in range(n_layers)]
            pack = PackedPass([], self._pool, lambda _device: layout, watched_rows=slice(n_rows))
            with attention_calls(pack=pack):
                output = self._net(
                    input_ids=ids[None, :n_rows],
                    position_ids=positions[None, :n_rows],
                    past_key_values=Cache(layers=layers),
                    attention_mask=mask,
                    use_cache=True,
                )
            self._score_scaling = pack.score_scaling
            return StepOutput(output.logits[0].float(), pack.written_rows())

        # Kernels on another GPU than the current one would run once and stand in no recording.
        with torch.inference_mode(), torch.cuda.device_of(inputs):  # type: ignore[no-untyped-call]
            return Recording(inputs, record_graph(run_step))

    def _replay(self, rows: Sequence[InputRow]) -> StepOutput:
        """Replay a step on these rows; the next step overwrites what it returns."""
        recording = self._recordings[len(rows)]
        with torch.inference_mode():
            recording.inputs.copy_(_input_tensor(rows))
            return recording.play()


def _count_tokens(slots: Sequence[Slot], n_tokens: int) -> None:
    """Add a number of tokens, which may be negative, to what every layer of each slot holds."""
    for slot in slots:
        slot.tokens_by_layer = [held + n_tokens for held in slot.tokens_by_layer]


def _row_of_each_context(rows: Sequence[InputRow], n_contexts: int) -> list[int]:
    """The number of the row of each context: rows of contexts 1, none, 0 -> [2, 0].

    Args:
        rows: The input rows of a step.
        n_contexts: How many of them are of a context.
    """
    row_numbers = [0] * n_contexts
    for row_number, row in enumerate(rows):
        if row.context_number is not None:
            row_numbers[row.context_number] = row_number
    return row_numbers


def _input_tensor(rows: Sequence[InputRow]) -> Tensor:
    """The input rows as one tensor, int64 [5, rows + 1]: token id, position in the context, first
    position of the context's keys in the pool, number of keys with the new one, and position of the
    new token in the pool, of each row. The last column only ends the first positions."""
    columns: list[list[int]] = []
    for row in rows:
        new_position = row.key_start + row.n_keys
        columns.append([row.token_id, row.position, row.key_start, row.n_keys + 1, new_position])
    end_of_keys = rows[-1].key_start + rows[-1].n_keys + 1
    last_column = [0, 0, end_of_keys, 0, 0]
    return torch.tensor([*columns, last_column]).T.contiguous()


def record_graph(run_step: Callable[[], StepOutput]) -> Callable[[], StepOutput]:
    """Record what `run_step` does on the current GPU.

    Each recording has memory of its own: torch refuses a shared pool once all recordings in it are
    gone, as they are when the pool grows.

    Args:
        run_step: Starts the kernels that are recorded.

    Returns:
        A function that plays the recording, and returns the tensors that `run_step` returned,
        refilled.
    """
    graph = torch.cuda.CUDAGraph()
    stream_before = torch.cuda.current_stream()
    try:
        # "thread_local": other threads, the encoder's say, may use the card meanwhile.
        stream = _recording_stream(torch.cuda.current_device())
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            output = run_step()
    finally:
        # torch leaves its stream in place where a recording fails.
        torch.cuda.set_stream(stream_before)
    # Recording left the right logits here: cleared, so that an empty recording fails the check.
    output.logits.zero_()

    def play() -> StepOutput:
        """Run the recorded pass again on what the input tensors now hold."""
        graph.replay()
        return output

    return play


@functools.cache
def _recording_stream(device_number: int) -> Any:
    """The stream of all recordings on a GPU; torch's own stands on the GPU of the first recording
    of the process."""
    return torch.cuda.Stream(device_number)  # type: ignore[no-untyped-call]
