"""A loaded network whose forward passes the questions in flight share: which requests run together, and
with what memory.

A pass takes about `prefill_chunk` tokens, so that it takes no more memory than one context's does:
first what writes or probes, then the prefills that have waited longest. A pass that fails is taken
back and run again context by context, so that an error (no memory, say) belongs to the context that
causes it.

In deterministic mode a row's arithmetic must not depend on the rest of its pass. Kernels pick their
blocks by the number of rows, so every shared pass has the same number (`fixed_rows`, filled up with
zeros); longer requests run alone.

What another context has read before is copied from it (prefix_sharing.py); where several would read
the same in one pass, one does, and the others copy it in the next. Its cost is booked as if it ran.
"""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from harness.config.schema import ModelConfig
from harness.cost.flops import ModelShape
from harness.cost.free_memory import available_bytes
from harness.errors import CannotRun, ModelOutputError
from harness.llm.backend import ModelFacts
from harness.llm.batched_forward import (
    ForwardRequest,
    make_room,
    run_alone,
    run_in_rows,
    run_packed,
)
from harness.llm.capture import CaptureTransaction, WriteCapture
from harness.llm.cuda_graphs import RecordedSteps
from harness.llm.kv import KVPool, rewind, slot_of
from harness.llm.prefix_sharing import SharedPrefix, copy_shared, shared_prefix
from harness.llm.trial_passes import TOLERANCE, rows_are_independent, trial_pack_problem
from harness.llm.writing import Writing, next_tokens
from harness.parallel.members import current_scheduler
from harness.parallel.scheduler import Again, in_forward_thread, result_or_error

THREADS = torch.get_num_threads()  # what torch chose: one a core, or OMP_NUM_THREADS
# A request of at most this many tokens writes, probes or reads a little; many cost little more than
# one.
_SHORT = 64
# Rows of every shared pass in deterministic mode: on a CPU a step of 8 rows takes 1.2 to 1.6 times
# as long as one of 1.
_ROWS = {"cpu": 8, "cuda": 64}


class Network:
    """A loaded network with its adapters, and the memory of its contexts.

    Attributes:
        name: The model's name.
        net: The network, of transformers.
        device: The device of its inputs.
        dtype: The name of its weights' type: "bfloat16".
        layers: The number of its layers.
        shape: Its sizes, for FLOPs.
        prefill_chunk: Most tokens of a pass.
    """

    net: Any
    layers: int
    shape: ModelShape

    def __init__(self, config: ModelConfig, facts: ModelFacts) -> None:
        """Choose the device, and keep what passes need of the settings; the network itself is
        loaded later (`net`, `layers`, `shape`).

        Args:
            config: The settings of the model.
            facts: What is known of it: name, dtype, window.
        """
        self.name = facts.name
        self.prefill_chunk = config.prefill_chunk
        self.dtype = str(facts.identity["dtype"])  # what "auto" came to
        chosen = config.device
        if chosen == "auto":
            chosen = "cpu"
            if torch.cuda.is_available():
                chosen = "cuda"
        self.device = torch.device(chosen)
        # Every context may grow by the thinking, which the window that methods see leaves out.
        self._positions = facts.window
        if config.thinking is not None:
            self._positions += config.thinking.tokens
        self._deterministic = config.deterministic
        self._fraction = config.memory_fraction
        # Held while an adapter is in use: the network has one active adapter for all threads. The
        # thread that holds it may take it again (_without_adapter).
        self._lock = threading.RLock()
        self._pool: KVPool | None = None  # made when the first context begins
        self._pool_lock = threading.Lock()  # held while the pool is made
        # The run's other networks that hold contexts in the same memory.
        self._other_networks: list[Any] = []
        # Adapter -> its requests, None for those without one: a shared pass has one adapter.
        self._queues: dict[str | None, ForwardQueue] = {}
        self._adapters = set(config.adapters)
        self._active_adapter: str | None = None  # they are loaded disabled

    @contextlib.contextmanager
    def adapter(self, name: str | None) -> Iterator[None]:
        """Context manager: passes inside it use this adapter, or none for None. Where the model has
        adapters, passes of other threads wait meanwhile. Raises CannotRun for an adapter that the
        model lacks."""
        if not self._adapters:
            if name is not None:
                raise CannotRun(
                    f"'{self.name}' has no adapter '{name}'; add --set model.adapters.{name}=FOLDER"
                )
            yield
            return
        if name is not None and name not in self._adapters:
            raise CannotRun(
                f"'{self.name}' has no adapter '{name}' (it has {sorted(self._adapters)})"
            )
        with self._lock:
            self._switch(name)
            yield

    @contextlib.contextmanager
    def _without_adapter(self) -> Iterator[None]:
        """Context manager: no adapter is in use inside, and that of before again afterwards; for
        trial passes while others run."""
        with self._lock:
            before = self._active_adapter
            with self.adapter(None):
                yield
            self._switch(before)

    def _switch(self, name: str | None) -> None:
        """Enable one adapter and disable all others; None disables all. Does nothing where that is
        so already."""
        if name == self._active_adapter:
            return
        if name is None:
            self.net.disable_adapters()
        else:
            self.net.enable_adapters()
            self.net.set_adapter(name)
        self._active_adapter = name

    def forward(self, request: ForwardRequest, adapter: str | None) -> Tensor | None:
        """Run a request in a pass that requests of other questions may share. A reply that is being
        written is written to its end.

        Args:
            request: The tokens to run; its cache grows.
            adapter: The adapter that reads them; None for none.

        Returns:
            Float32 logits [request.logits, vocab]; None for 0, and for a reply that is written.

        Raises:
            CannotRun: There is no such adapter. Also what the pass raises.
        """
        if adapter not in self._queues:
            # An adapter that is not there is this question's error alone.
            with self.adapter(adapter):
                self._queues.setdefault(adapter, ForwardQueue(self, adapter))
        scheduler = current_scheduler()
        queue = self._queues[adapter]
        if scheduler is None:
            [outcome] = queue.run([request])
        else:
            outcome = scheduler.run_in_batch(queue, request)
        while isinstance(outcome, Again):
            outcome = queue.run([outcome.request])[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome  # type: ignore[no-any-return]

    def run_plain(self, fn: Callable[[], None], adapter: str | None) -> None:
        """Call fn(), which runs the network by itself, with an adapter in use and while no other
        pass runs.

        Args:
            fn: Runs the network.
            adapter: The adapter; None for none.
        """

        def call() -> None:
            """Call fn() with the adapter."""
            with self.adapter(adapter):
                fn()

        in_forward_thread(call)

    def bad_logits(self, tokens: int) -> ModelOutputError:
        """The error for logits that are NaN or infinite after `tokens` tokens."""
        return ModelOutputError(
            f"'{self.name}' gave NaN or infinite logits after {tokens} tokens (dtype "
            f"{self.dtype}); try --set model.dtype=float32 or check the weights"
        )

    @property
    def shares(self) -> bool:
        """Whether a context may copy keys and values that another one has computed: where contexts
        can share a pass, and not in deterministic mode."""
        return not self._deterministic and self.pack_problem is None

    @functools.cached_property
    def in_one_call(self) -> bool:
        """Whether one call of attention serves all contexts of a pass, as on a GPU; found out by a
        trial."""
        return self.one_call_problem is None

    @functools.cached_property
    def one_call_problem(self) -> str | None:
        """Why one call of attention cannot serve all contexts of a pass; None where it does."""
        if self.device.type != "cuda":
            return "it runs on no GPU"
        if self._deterministic:
            return "its setting is model.deterministic=true"
        if self.dtype == "float32":
            return "its setting is model.dtype=float32"
        with self._without_adapter():
            return trial_pack_problem(self.net, self.device, self.dtype, self.layers, True)

    def slow_paths(self) -> list[str]:
        """Why passes ran slower than they could, a sentence each; what is ordinary on a CPU is not
        told."""
        sentences = []
        if self.device.type == "cuda" and self.one_call_problem:
            sentences.append(
                f"'{self.name}' attends to each context by a call of its own: "
                f"{self.one_call_problem}"
            )
        for queue in list(self._queues.values()):
            sentences += queue.slow_paths()
        return sentences

    def recorded_steps(self) -> RecordedSteps | None:
        """CUDA graphs of decode steps with the active adapter; None where they are not valid.

        They are where one attention call serves all contexts (`in_one_call`), on one device.
        """
        if not self.in_one_call or self._is_spread:
            return None
        return RecordedSteps(self.net, self.pool, self._positions, TOLERANCE[self.dtype])

    @functools.cached_property
    def pack_problem(self) -> str | None:
        """Why contexts cannot share a pass, None when they can; the first call runs a trial pass of
        a few tokens."""
        if self.in_one_call:
            return None
        with self._without_adapter():
            return trial_pack_problem(self.net, self.device, self.dtype, self.layers)

    @functools.cached_property
    def fixed_rows(self) -> int | None:
        """The number of rows that each shared pass has in deterministic mode; 0 where no pass is
        shared, None in other modes. Found out by trial passes at the first use."""
        if not self._deterministic:
            return None
        rows = _ROWS.get(self.device.type, 0)
        if not rows or self.pack_problem is not None:
            return 0
        with self._without_adapter():
            if rows_are_independent(self.net, self.device, self.layers, rows):
                return rows
            return 0

    @property
    def _is_spread(self) -> bool:
        """Whether the network is spread over several devices."""
        return isinstance(getattr(self.net, "hf_device_map", None), dict)

    @property
    def _gpus(self) -> list[torch.device]:
        """The GPUs that hold layers, and so their keys and values; [device] for a network on one
        device."""
        if not self._is_spread:
            return [self.device]
        places = set(map(str, self.net.hf_device_map.values())) - {"cpu", "disk"}
        devices: list[torch.device] = []
        for place in sorted(places):
            name = place
            if place.isdigit():
                name = f"cuda:{place}"
            devices.append(torch.device(name))
        return devices or [self.device]

    @property
    def pool(self) -> KVPool:
        """The pool of keys and values of all contexts, made when the first context begins: on a GPU
        it holds at most as many as the memory that is free then."""
        # cached_property has no lock since Python 3.12: two questions would begin in two pools.
        with self._pool_lock:
            if self._pool is None:
                self._pool = self._new_pool()
            return self._pool

    def _new_pool(self) -> KVPool:
        """A pool of keys and values for the memory that is free now. Where that holds two windows,
        contexts that ended may keep one of them."""
        fit = self._tokens_that_fit()
        ended_tokens = self._positions
        if fit is not None and fit < 2 * self._positions:
            ended_tokens = 0
        limit = None
        if self.contexts_make_room:
            limit = fit
        return KVPool(self.layers, limit, ended_tokens)

    def share_memory(self, networks: Sequence[Any]) -> None:
        """Divide the memory that is free now among networks: each of them on this device may hold
        equally many tokens more than it does now. Sets the limit of this network's pool.

        Args:
            networks: The networks of the run, this one among them; [] where it has the memory
                alone.
        """
        self._other_networks = [
            other for other in networks if other is not self and other.device == self.device
        ]
        fit = self._tokens_that_fit()
        if fit is not None and self.contexts_make_room:
            if self.pool.keys[0] is None:
                self.pool.capacity = 0  # buffers that an earlier run expected, and never made
            self.pool.limit = self.pool.capacity + fit

    @property
    def contexts_make_room(self) -> bool:
        """Whether contexts that wait move to the host's memory where others need their room.

        Not on several devices: what one of them has free says little.
        """
        return self.device.type == "cuda" and not self._is_spread

    def contexts(self, tokens: int) -> int | None:
        """How many contexts may be open in the memory that is free now; None where that is unknown.

        Args:
            tokens: Tokens of each context.
        """
        room = self._tokens_that_fit()
        if room is None:
            return None
        # On a GPU contexts that ended leave where others want their room, and one that grows holds
        # a quarter more than it uses (kv.py); on a CPU one window is for contexts that ended.
        if self.device.type == "cuda":
            return (self.pool.capacity + room) * 4 // 5 // tokens
        if room >= 2 * self._positions:
            room -= self._positions
        return room // tokens

    def _tokens_that_fit(self) -> int | None:
        """How many tokens' keys and values fit into this network's share of the memory that is free
        now; None where that is unknown. Networks that share memory get equally many tokens."""
        free = available_bytes()
        if self.device.type == "cuda":
            # Layers are spread evenly: the fullest GPU is the limit.
            free_bytes = [free_gpu_bytes(device) or 0 for device in self._gpus]
            free = min(free_bytes) * len(free_bytes)
        sizes = sum(network._token_size() for network in [self, *self._other_networks])
        if free is None:
            return None
        return int(free * self._fraction / sizes)

    def _token_size(self) -> int:
        """How many bytes the keys and values of one token take in all layers."""
        shape = self.shape
        numbers = 2 * shape.layers * shape.kv_heads * shape.head_size
        bytes_of_number: int = getattr(torch, self.dtype).itemsize
        return numbers * bytes_of_number


def free_bytes_for_weights(device: torch.device, spread: bool) -> int | None:
    """Bytes that are free on the GPUs where a network is to be loaded; None where it is loaded
    elsewhere.

    Args:
        device: The device of its inputs.
        spread: Whether all GPUs take parts of it (`model.device_map`).
    """
    if device.type != "cuda" or not spread:
        return free_gpu_bytes(device)
    count = torch.cuda.device_count()
    return sum(free_gpu_bytes(torch.device("cuda", number)) or 0 for number in range(count))


def free_gpu_bytes(device: torch.device) -> int | None:
    """Bytes of memory that are free on a GPU; None for another device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return None


class FailedPass(NamedTuple):
    """A pass that failed and ran again, one context at a time.

    Attributes:
        why: The type of the error.
        limit: Most tokens of a pass from then on.
    """

    why: str
    limit: int


class ForwardQueue:
    """Chooses and runs the passes of one model with one adapter; a RequestQueue of
    harness.parallel.scheduler."""

    runs_first = False

    def __init__(self, model: Network, adapter: str | None) -> None:
        """The queue of one model and adapter. `_limit` is the most tokens of the next pass: less
        than the model's prefill_chunk after a pass that failed.

        Args:
            model: The model.
            adapter: The adapter that is in use in its passes; None for none.
        """
        self._model, self._adapter = model, adapter
        self._limit = model.prefill_chunk
        self.failed: list[FailedPass] = []

    def slow_paths(self) -> Iterator[str]:
        """Yield why passes of this queue ran slower than they could, a sentence each: steps that
        are not recorded, and passes that failed."""
        model = self._model
        has_stepped = "_steps" in vars(self)  # else asking for the property would make it
        steps = vars(self).get("_steps")
        if steps is not None and steps.problem:
            yield f"'{model.name}' runs each decode step anew, without a CUDA graph: {steps.problem}"
        elif model.in_one_call and has_stepped and steps is None:
            yield f"'{model.name}' runs each decode step anew, without a CUDA graph: it is spread over several devices"
        if self.failed:
            why = self.failed[0].why
            least = min(failed.limit for failed in self.failed)
            yield (
                f"{len(self.failed)} batches of '{model.name}' failed and ran again one context at "
                f"a time ({why}); the next ones had at most {least} tokens, the last ones "
                f"{self._limit} of {model.prefill_chunk}"
            )

    def take(self, requests: Sequence[ForwardRequest]) -> list[int]:
        """Choose the requests of the next pass: those of few tokens, then longer ones, oldest first
        of each kind. Returns their indices.

        Together they have at most `_limit` tokens to be computed; only the oldest of a kind may
        have more. A request whose next block another one computes in this pass waits, to copy it in
        the next.

        Args:
            requests: The requests that wait, the oldest first.
        """
        copies: list[SharedPrefix] = []
        sizes: list[int] = []
        short: list[int] = []
        long: list[int] = []
        for n, request in enumerate(self._sharing(requests)):
            copied = shared_prefix(request)
            size = len(request.ids) - copied.tokens
            copies.append(copied)
            sizes.append(size)
            if size <= _SHORT:
                short.append(n)
            else:
                long.append(n)
        taken: list[int] = []
        computed: set[bytes] = set()  # blocks that this pass computes
        room = self._limit
        for indices in (short, long):
            for n in indices:
                if n != indices[0] and sizes[n] > room:
                    break
                block = copies[n].missing
                if n and block in computed:  # copied in the next pass
                    continue
                if block is not None:
                    computed.add(block)
                room -= sizes[n]
                taken.append(n)
        return taken

    def run(self, requests: Sequence[ForwardRequest]) -> list[Any]:
        """Run requests in as few passes as possible.

        Args:
            requests: What is run; their caches grow.

        Returns:
            For each its logits (None for 0 rows), or the exception that it raised, or an Again
                where a
            reply goes on.
        """
        if self._model.fixed_rows is not None and torch.get_num_threads() != THREADS:
            # Sums depend on how many threads share them, and libraries leave another number in
            # their thread (UMAP).
            torch.set_num_threads(THREADS)
        results: dict[int, Any] = dict.fromkeys(range(len(requests)))
        rest = [copy_shared(request) for request in self._sharing(requests)]
        with self._model.adapter(self._adapter):
            for group in self._groups(rest):
                outcomes = self._run_group([rest[n] for n in group])
                results.update(zip(group, outcomes, strict=True))
        for n, request in enumerate(rest):
            if request.blocks and not isinstance(results[n], Exception):
                slot_of(request.cache).names.extend(request.blocks)
        self._write_on(rest, results)
        return [results[n] for n in range(len(requests))]

    def _write_on(self, requests: Sequence[ForwardRequest], results: dict[int, Any]) -> None:
        """Replace the logits of each reply that is being written by what it runs next (an Again),
        or by None where it ended.

        Args:
            requests: The requests of the passes.
            results: Index of a request -> its logits or its error; written into.
        """
        going_on: dict[int, Writing] = {}
        for n, request in enumerate(requests):
            if request.writing is None or isinstance(results[n], Exception):
                continue
            more = result_or_error(request.writing.ran)
            if more is True:
                going_on[n] = request.writing
            else:
                results[n] = more or None
        if going_on:
            rows = [results[n] for n in going_on]
            samplers = [writing.sampler for writing in going_on.values()]
            tokens = next_tokens(rows, samplers)
            for n, token in zip(going_on, tokens, strict=True):
                results[n] = self._next_step(going_on[n], token)
        for n, request in enumerate(requests):
            has_ended = results[n] is None and request.writing is not None
            if has_ended and request.writing is not None and request.writing.capture is not None:
                results[n] = result_or_error(request.writing.capture.reduce)

    def _next_step(self, writing: Writing, token: int | None) -> Any:
        """What a reply runs next: an Again with its next token, or None where it ends with that; or
        the error where its logits cannot be used.

        Args:
            writing: The reply.
            token: Its next token; None where the logits were NaN or infinite.
        """
        if token is None:
            return self._model.bad_logits(slot_of(writing.cache).n_tokens)
        more = result_or_error(functools.partial(writing.takes, token))
        if more is True:
            return Again(
                ForwardRequest([token], writing.cache, 1, writing.capture, writing=writing)
            )
        return more or None

    def _sharing(self, requests: Sequence[ForwardRequest]) -> Sequence[ForwardRequest]:
        """The requests; without the names of their blocks where contexts must not copy from each
        other."""
        if not any(request.blocks for request in requests) or self._model.shares:
            return requests
        return [replace(request, blocks=()) for request in requests]

    def _groups(self, requests: Sequence[ForwardRequest]) -> list[list[int]]:
        """Split requests into groups, each run in a pass of its own. In deterministic mode a group
        has at most `fixed_rows` tokens, shortest requests first.

        Args:
            requests: The requests; one without tokens is in no group.

        Returns:
            The indices of each group's requests.
        """
        some = [n for n, request in enumerate(requests) if request.ids]
        if len(some) < 2 or self._model.pack_problem is not None:
            return [[n] for n in some]
        rows = self._model.fixed_rows
        if rows is None:
            return [some]
        groups: list[list[int]] = []
        room = 0
        for n in sorted(some, key=lambda n: len(requests[n].ids)):
            room -= len(requests[n].ids)
            if room < 0:
                groups.append([])
                room = rows - len(requests[n].ids)
            groups[-1].append(n)
        return groups

    def _run_group(self, requests: list[ForwardRequest]) -> list[Any]:
        """Run requests in one pass; if it fails, take it back and run each alone. Also lowers the
        most tokens of a pass after a failure, and doubles it again after a success.

        Args:
            requests: The requests; their caches grow.

        Returns:
            For each its logits, or the exception that it raised.
        """
        if len(requests) == 1:
            return [result_or_error(functools.partial(self._run_alone, requests[0]))]
        lengths = [slot_of(request.cache).n_tokens for request in requests]
        captures = CaptureTransaction([request.capture for request in requests])
        try:
            results = self._run_together(requests)
        except Exception as error:  # noqa: BLE001 - whose error it is shows when each context runs alone
            self._limit = max(sum(len(request.ids) for request in requests) // 2, 1)
            self.failed.append(FailedPass(type(error).__name__, self._limit))
            for request, length in zip(requests, lengths, strict=True):
                rewind(request.cache, length)
            captures.roll_back()
            return [
                result_or_error(functools.partial(self._run_alone, request)) for request in requests
            ]
        # Back to the whole chunk step by step: what filled the memory may be gone.
        self._limit = min(2 * self._limit, self._model.prefill_chunk)
        return results

    def _run_together(self, requests: Sequence[ForwardRequest]) -> list[Tensor | None]:
        """Run requests in one pass: of `fixed_rows` tokens in deterministic mode, by a CUDA graph
        where all are decode steps and steps are recorded.

        Returns:
            The logits of each request.
        """
        model = self._model
        if model.fixed_rows is not None:
            return run_in_rows(model.net, model.device, requests, model.fixed_rows)
        eagerly = functools.partial(
            run_packed, model.net, model.device, requests, model.in_one_call, model._positions
        )
        if self._steps is None or not all(map(_is_decode_step, requests)):
            return eagerly()
        slots = [slot_of(request.cache) for request in requests]
        with slots[0].pool.lock:
            make_room(requests)
            captures = [request.capture for request in requests]
            tokens = [request.ids[0] for request in requests]
            return self._steps.run(tokens, slots, captures, eagerly)  # type: ignore[arg-type]

    @functools.cached_property
    def _steps(self) -> RecordedSteps | None:
        """The model's decode steps recorded on a GPU (cuda_graphs.py); None where each step runs
        anew."""
        return self._model.recorded_steps()

    def _run_alone(self, request: ForwardRequest) -> Tensor | None:
        """Run one request in a pass of its own; returns its logits, None for 0 rows."""
        # The kernel gives the log-sum-exp of a single context too, which captures want.
        if len(request.ids) <= (self._model.fixed_rows or 0) or self._model.in_one_call:
            return self._run_together([request])[0]
        return run_alone(self._model.net, self._model.device, request)


def _is_decode_step(request: ForwardRequest) -> bool:
    """Whether a request runs one token and wants its logits, as a reply does that is being written,
    and nothing else is measured. A graph can run such a step."""
    if len(request.ids) != 1 or request.logits != 1 or request.labels:
        return False
    return request.capture is None or isinstance(request.capture, WriteCapture)
