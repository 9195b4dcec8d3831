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
from typing import Any, NamedTuple, Self

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
from harness.llm.prefix_sharing import copy_shared, shared_prefix
from harness.llm.trial_passes import TOLERANCE, rows_are_independent, trial_pack_problem
from harness.llm.writing import Writing, next_tokens
from harness.parallel.members import current_scheduler
from harness.parallel.scheduler import Again, in_forward_thread, result_or_error

THREADS = torch.get_num_threads()  # what torch chose: one a core, or OMP_NUM_THREADS
# A request of at most this many tokens writes, probes or reads a little; many cost little more than
# one.
_MAX_SHORT_TOKENS = 64
# Rows of every shared pass in deterministic mode: on a CPU a step of 8 rows takes 1.2 to 1.6 times
# as long as one of 1.
_FIXED_ROWS = {"cpu": 8, "cuda": 64}


class Network:
    """A loaded network with its adapters, and the memory of its contexts.

    Attributes:
        name: The model's name.
        net: The network, of transformers.
        device: The device of its inputs.
        dtype: The name of its weights' type: "bfloat16".
        n_layers: The number of its layers.
        shape: Its sizes, for FLOPs.
        prefill_chunk: Most tokens of a pass.
    """

    net: Any
    n_layers: int
    shape: ModelShape

    def __init__(self, config: ModelConfig, facts: ModelFacts) -> None:
        """Choose the device, and keep what passes need of the settings; the network itself is
        loaded later (`net`, `n_layers`, `shape`).

        Args:
            config: The settings of the model.
            facts: What is known of it: name, dtype, window.
        """
        self.name = facts.name
        self.prefill_chunk = config.prefill_chunk
        self.dtype = str(facts.identity["dtype"])  # what "auto" came to
        device_name = config.device
        if device_name == "auto":
            device_name = "cpu"
            if torch.cuda.is_available():
                device_name = "cuda"
        self.device = torch.device(device_name)
        # Every context may grow by the thinking, which the window that methods see leaves out.
        self._max_context_tokens = facts.window
        if config.thinking is not None:
            self._max_context_tokens += config.thinking.tokens
        self._deterministic = config.deterministic
        self._memory_fraction = config.memory_fraction
        # Held while an adapter is in use: the network has one active adapter for all threads. The
        # thread that holds it may take it again (_without_adapter).
        self._adapter_lock = threading.RLock()
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
        with self._adapter_lock:
            self._switch_adapter(name)
            yield

    @contextlib.contextmanager
    def _without_adapter(self) -> Iterator[None]:
        """Context manager: no adapter is in use inside, and that of before again afterwards; for
        trial passes while others run."""
        with self._adapter_lock:
            adapter_before = self._active_adapter
            with self.adapter(None):
                yield
            self._switch_adapter(adapter_before)

    def _switch_adapter(self, name: str | None) -> None:
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
            Float32 logits [request.n_logits, vocab]; None for 0, and for a reply that is written.

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
        while isinstance(outcome, Again):  # a reply goes on with its next token
            outcome = queue.run([outcome.request])[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome  # type: ignore[no-any-return]

    def run_plain(self, run_network: Callable[[], None], adapter: str | None) -> None:
        """Call run_network() with an adapter in use and while no other pass runs.

        Args:
            run_network: Runs passes of the network by itself.
            adapter: The adapter; None for none.
        """

        def run_with_adapter() -> None:
            """Call run_network() with the adapter."""
            with self.adapter(adapter):
                run_network()

        in_forward_thread(run_with_adapter)

    def bad_logits_error(self, n_tokens: int) -> ModelOutputError:
        """The error for logits that are NaN or infinite after `n_tokens` tokens."""
        return ModelOutputError(
            f"'{self.name}' gave NaN or infinite logits after {n_tokens} tokens (dtype "
            f"{self.dtype}); try --set model.dtype=float32 or check the weights"
        )

    @property
    def shares_prefixes(self) -> bool:
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
            return trial_pack_problem(
                self.net, self.device, self.dtype, self.n_layers, in_one_call=True
            )

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
        return RecordedSteps(self.net, self.pool, self._max_context_tokens, TOLERANCE[self.dtype])

    @functools.cached_property
    def pack_problem(self) -> str | None:
        """Why contexts cannot share a pass, None when they can; the first call runs a trial pass of
        a few tokens."""
        if self.in_one_call:
            return None
        with self._without_adapter():
            return trial_pack_problem(self.net, self.device, self.dtype, self.n_layers)

    @functools.cached_property
    def fixed_rows(self) -> int | None:
        """The number of rows that each shared pass has in deterministic mode; 0 where no pass is
        shared, None in other modes. Found out by trial passes at the first use."""
        if not self._deterministic:
            return None
        n_rows = _FIXED_ROWS.get(self.device.type, 0)
        if not n_rows or self.pack_problem is not None:
            return 0
        with self._without_adapter():
            if rows_are_independent(self.net, self.device, self.n_layers, n_rows):
                return n_rows
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
        # The names in hf_device_map: "0" for the first GPU.
        device_names = set(map(str, self.net.hf_device_map.values())) - {"cpu", "disk"}
        devices: list[torch.device] = []
        for name in sorted(device_names):
            if name.isdigit():
                devices.append(torch.device("cuda", int(name)))
            else:
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
        """Make a pool of keys and values for the memory that is free now. Where that holds two
        windows, contexts that ended may keep one of them."""
        tokens_that_fit = self._tokens_that_fit()
        max_ended_tokens = self._max_context_tokens
        if tokens_that_fit is not None and tokens_that_fit < 2 * self._max_context_tokens:
            max_ended_tokens = 0
        max_tokens = None
        if self.contexts_make_room:
            max_tokens = tokens_that_fit
        return KVPool(self.n_layers, max_tokens, max_ended_tokens)

    def share_memory(self, networks: Sequence[Any]) -> None:
        """Divide the memory that is free now among networks: each of them on this device may hold
        equally many tokens more than it does now. Sets the most tokens of this network's pool,
        where contexts make room for others (on one GPU), and which networks it shares memory with.

        Args:
            networks: The networks of the run, this one among them; [] where it has the memory
                alone.
        """
        self._other_networks = [
            other for other in networks if other is not self and other.device == self.device
        ]
        tokens_that_fit = self._tokens_that_fit()
        if tokens_that_fit is not None and self.contexts_make_room:
            has_buffers = self.pool.keys[0] is not None
            if not has_buffers:
                # An earlier run set the length of its buffers, but wrote nothing, so none is made.
                self.pool.capacity = 0
            self.pool.max_tokens = self.pool.capacity + tokens_that_fit

    @property
    def contexts_make_room(self) -> bool:
        """Whether contexts that wait move to the host's memory where others need their room.

        Not on several devices: what one of them has free says little.
        """
        return self.device.type == "cuda" and not self._is_spread

    def contexts_that_fit(self, n_tokens: int) -> int | None:
        """How many contexts may be open in the memory that is free now; None where that is unknown.

        Args:
            n_tokens: Tokens of each context.
        """
        tokens_that_fit = self._tokens_that_fit()
        if tokens_that_fit is None:
            return None
        if self.device.type == "cuda":
            # Contexts that ended leave where others want their room. One that grows holds a quarter
            # more than it uses (kv.py): 4 of 5 positions are used.
            usable = (self.pool.capacity + tokens_that_fit) * 4 // 5
            return usable // n_tokens
        # On a CPU the room of one window is left to contexts that ended, where two have room.
        if tokens_that_fit >= 2 * self._max_context_tokens:
            tokens_that_fit -= self._max_context_tokens
        return tokens_that_fit // n_tokens

    def _tokens_that_fit(self) -> int | None:
        """How many tokens' keys and values fit into this network's share of the memory that is free
        now; None where that is unknown. Networks that share memory get equally many tokens."""
        free_bytes = available_bytes()
        if self.device.type == "cuda":
            # Layers are spread evenly: the fullest GPU is the limit.
            by_gpu = [free_gpu_bytes(device) or 0 for device in self._gpus]
            free_bytes = min(by_gpu) * len(by_gpu)
        sharing = [self, *self._other_networks]
        bytes_a_token = sum(network._bytes_of_token() for network in sharing)
        if free_bytes is None:
            return None
        return int(free_bytes * self._memory_fraction / bytes_a_token)

    def _bytes_of_token(self) -> int:
        """How many bytes the keys and values of one token take in all layers."""
        shape = self.shape
        n_keys = shape.layers * shape.kv_heads * shape.head_size
        n_values = n_keys
        bytes_of_number: int = getattr(torch, self.dtype).itemsize
        return (n_keys + n_values) * bytes_of_number


def free_bytes_for_weights(device: torch.device, *, is_spread: bool) -> int | None:
    """Bytes that are free on the GPUs where a network is to be loaded; None where it is loaded
    elsewhere.

    Args:
        device: The device of its inputs.
        is_spread: Whether all GPUs take parts of it (`model.device_map`).
    """
    if device.type != "cuda" or not is_spread:
        return free_gpu_bytes(device)
    gpus = [torch.device("cuda", number) for number in range(torch.cuda.device_count())]
    return sum(free_gpu_bytes(gpu) or 0 for gpu in gpus)


def free_gpu_bytes(device: torch.device) -> int | None:
    """Bytes of memory that are free on a GPU; None for another device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return None


class FailedPass(NamedTuple):
    """A pass that failed and ran again, one context at a time.

    Attributes:
        error: The type of the error: "MemoryError".
        max_tokens: Most tokens of the next pass.
    """

    error: str
    max_tokens: int


class _WaitingRequest(NamedTuple):
    """What a request that waits for a pass would have to compute.

    Attributes:
        position: Its place among the requests that wait, the oldest of which has 0.
        n_computed: How many of its tokens no other context holds, so that it cannot copy them.
        next_block: The name of the first block that it would compute; None for none with a name.
    """

    position: int
    n_computed: int
    next_block: bytes | None

    @classmethod
    def of(cls, position: int, request: ForwardRequest) -> Self:
        """Find out what a request can copy now; nothing is copied yet."""
        prefix = shared_prefix(request)
        n_computed = len(request.ids) - prefix.n_tokens
        return cls(position, n_computed, next_block=prefix.first_missing)


class ForwardQueue:
    """Chooses and runs the passes of one model with one adapter; a RequestQueue of
    harness.parallel.scheduler.

    Attributes:
        failed_passes: The passes that failed in this run.
    """

    runs_first = False

    def __init__(self, network: Network, adapter: str | None) -> None:
        """The queue of one model and adapter.

        Args:
            network: The model.
            adapter: The adapter that is in use in its passes; None for none.
        """
        self._network, self._adapter = network, adapter
        # Most tokens of the next pass: fewer than the model's prefill_chunk after a pass that
        # failed.
        self._max_pass_tokens = network.prefill_chunk
        self.failed_passes: list[FailedPass] = []

    def slow_paths(self) -> Iterator[str]:
        """Yield why passes of this queue ran slower than they could, a sentence each: steps that
        are not recorded, and passes that failed."""
        network = self._network
        # The property `_steps` is computed at its first use and then kept in vars(self): it is only
        # looked at here, not computed.
        has_stepped = "_steps" in vars(self)
        steps = vars(self).get("_steps")
        if steps is not None and steps.problem:
            yield (
                f"'{network.name}' runs each decode step anew, without a CUDA graph: "
                f"{steps.problem}"
            )
        elif network.in_one_call and has_stepped and steps is None:
            yield (
                f"'{network.name}' runs each decode step anew, without a CUDA graph: it is spread "
                "over several devices"
            )
        if self.failed_passes:
            first_error = self.failed_passes[0].error
            least_tokens = min(failed.max_tokens for failed in self.failed_passes)
            yield (
                f"{len(self.failed_passes)} batches of '{network.name}' failed and ran again one "
                f"context at a time ({first_error}); the next ones had at most {least_tokens} "
                f"tokens, the last ones {self._max_pass_tokens} of {network.prefill_chunk}"
            )

    def take(self, requests: Sequence[ForwardRequest]) -> list[int]:
        """Choose the requests of the next pass: those of few tokens, then longer ones, oldest first
        of each kind. Returns their indices.

        Of few tokens are requests that have to compute at most _MAX_SHORT_TOKENS: what another
        context holds is copied. Together they compute at most `_max_pass_tokens` tokens; only the
        oldest of a kind may exceed that. A request whose next block another one computes in this
        pass waits, to copy it in the next; the oldest of all never waits.

        Args:
            requests: The requests that wait, the oldest first.
        """
        short: list[_WaitingRequest] = []
        long: list[_WaitingRequest] = []
        for position, request in enumerate(self._without_unshared_names(requests)):
            waiting = _WaitingRequest.of(position, request)
            if waiting.n_computed <= _MAX_SHORT_TOKENS:
                short.append(waiting)
            else:
                long.append(waiting)
        taken: list[int] = []
        computed_blocks: set[bytes] = set()  # names of the blocks that this pass computes
        tokens_left = self._max_pass_tokens
        for oldest_first in (short, long):
            for waiting in oldest_first:
                is_oldest_of_kind = waiting is oldest_first[0]
                if waiting.n_computed > tokens_left and not is_oldest_of_kind:
                    break
                is_oldest = waiting.position == 0
                if waiting.next_block in computed_blocks and not is_oldest:
                    continue  # it is copied in the next pass
                if waiting.next_block is not None:
                    computed_blocks.add(waiting.next_block)
                tokens_left -= waiting.n_computed
                taken.append(waiting.position)
        return taken

    def run(self, requests: Sequence[ForwardRequest]) -> list[Any]:
        """Run requests in as few passes as possible. What other contexts hold of them is copied
        before, not run. Also appends the next token to replies that are being written, and names
        the blocks that contexts have completed.

        Args:
            requests: What is run; their caches grow.

        Returns:
            For each its logits (None for 0 rows), or the exception that it raised. For a reply that
            is being written an Again with its next token, or None where it ended.
        """
        if self._network.fixed_rows is not None and torch.get_num_threads() != THREADS:
            # Sums depend on how many threads share them, and libraries leave another number in
            # their thread (UMAP).
            torch.set_num_threads(THREADS)
        results: dict[int, Any] = dict.fromkeys(range(len(requests)))  # by index of the request
        uncopied = [copy_shared(request) for request in self._without_unshared_names(requests)]
        with self._network.adapter(self._adapter):
            for indices in self._pass_groups(uncopied):
                outcomes = self._run_group([uncopied[n] for n in indices])
                results.update(zip(indices, outcomes, strict=True))
        for n, request in enumerate(uncopied):
            if request.block_names and not isinstance(results[n], Exception):
                slot_of(request.cache).block_names.extend(request.block_names)
        self._continue_replies(uncopied, results)
        return [results[n] for n in range(len(requests))]

    def _continue_replies(
        self, requests: Sequence[ForwardRequest], results: dict[int, Any]
    ) -> None:
        """Replace the logits of each reply that is being written by what it runs next (an Again),
        or by None where it ended. Also appends its next token to it, and computes what is measured
        of a reply that ended. An error becomes the result of its reply alone.

        Args:
            requests: The requests of the passes.
            results: Index of a request -> its logits or its error; written into.
        """
        going_on: dict[int, Writing] = {}  # index of a request -> its reply
        for n, request in enumerate(requests):
            if request.writing is None or isinstance(results[n], Exception):
                continue
            wants_more = result_or_error(request.writing.count_run)
            if wants_more is True:
                going_on[n] = request.writing
            elif wants_more is False:
                results[n] = None
            else:
                results[n] = wants_more  # an error
        if going_on:
            logits = [results[n] for n in going_on]
            samplers = [writing.sampler for writing in going_on.values()]
            token_ids = next_tokens(logits, samplers)
            for n, token_id in zip(going_on, token_ids, strict=True):
                results[n] = self._next_step(going_on[n], token_id)
        for n, request in enumerate(requests):
            if request.writing is None or request.writing.capture is None:
                continue
            has_ended = results[n] is None
            if has_ended:
                results[n] = result_or_error(request.writing.capture.reduce_waiting)

    def _next_step(self, writing: Writing, token_id: int | None) -> Any:
        """Append a reply's next token to it, and return what it runs next: an Again with that
        token, or None where it ends with it; or the error where its logits cannot be used.

        Args:
            writing: The reply.
            token_id: Its next token; None where the logits were NaN or infinite.
        """
        if token_id is None:
            return self._network.bad_logits_error(slot_of(writing.cache).n_tokens)
        must_run = result_or_error(functools.partial(writing.add_token, token_id))
        if must_run is False:
            return None
        if must_run is not True:
            return must_run  # an error
        request = ForwardRequest(
            [token_id], writing.cache, n_logits=1, capture=writing.capture, writing=writing
        )
        return Again(request)

    def _without_unshared_names(
        self, requests: Sequence[ForwardRequest]
    ) -> Sequence[ForwardRequest]:
        """The requests; without the names of their blocks where contexts must not copy from each
        other."""
        have_names = any(request.block_names for request in requests)
        if not have_names or self._network.shares_prefixes:
            return requests
        return [replace(request, block_names=()) for request in requests]

    def _pass_groups(self, requests: Sequence[ForwardRequest]) -> list[list[int]]:
        """Split requests into groups, each run in a pass of its own: all in one; each alone where
        contexts cannot share a pass; in deterministic mode groups of at most `fixed_rows` tokens,
        shortest requests first.

        Args:
            requests: The requests; one without tokens is in no group.

        Returns:
            The indices of each group's requests.
        """
        with_tokens = [n for n, request in enumerate(requests) if request.ids]
        if len(with_tokens) < 2 or self._network.pack_problem is not None:
            return [[n] for n in with_tokens]
        fixed_rows = self._network.fixed_rows
        if fixed_rows is None:
            return [with_tokens]
        groups: list[list[int]] = []
        rows_left = 0
        for n in sorted(with_tokens, key=lambda n: len(requests[n].ids)):
            rows_left -= len(requests[n].ids)
            if rows_left < 0:
                groups.append([])
                rows_left = fixed_rows - len(requests[n].ids)
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
        lengths_before = [slot_of(request.cache).n_tokens for request in requests]
        captured_before = CaptureTransaction([request.capture for request in requests])
        try:
            logits = self._run_together(requests)
        except Exception as error:  # noqa: BLE001 - whose error it is shows when each context runs alone
            n_tokens = sum(len(request.ids) for request in requests)
            self._max_pass_tokens = max(n_tokens // 2, 1)
            self.failed_passes.append(FailedPass(type(error).__name__, self._max_pass_tokens))
            for request, length in zip(requests, lengths_before, strict=True):
                rewind(request.cache, length)
            captured_before.roll_back()
            return [
                result_or_error(functools.partial(self._run_alone, request)) for request in requests
            ]
        # Back to the whole chunk step by step: what filled the memory may be gone.
        self._max_pass_tokens = min(2 * self._max_pass_tokens, self._network.prefill_chunk)
        return logits

    def _run_together(self, requests: Sequence[ForwardRequest]) -> list[Tensor | None]:
        """Run requests in one pass: of `fixed_rows` tokens in deterministic mode, by a CUDA graph
        where all are decode steps and steps are recorded.

        Returns:
            The logits of each request.
        """
        network = self._network
        if network.fixed_rows is not None:
            return run_in_rows(network.net, network.device, requests, network.fixed_rows)
        run_eagerly = functools.partial(
            run_packed,
            network.net,
            network.device,
            requests,
            in_one_call=network.in_one_call,
            max_context_tokens=network._max_context_tokens,
        )
        if self._steps is None or not all(map(_is_decode_step, requests)):
            return run_eagerly()
        slots = [slot_of(request.cache) for request in requests]
        with slots[0].pool.lock:
            make_room(requests)
            captures = [request.capture for request in requests]
            token_ids = [request.ids[0] for request in requests]
            return self._steps.run(token_ids, slots, captures, run_eagerly)  # type: ignore[arg-type]

    @functools.cached_property
    def _steps(self) -> RecordedSteps | None:
        """The model's decode steps recorded on a GPU (cuda_graphs.py); None where each step runs
        anew."""
        return self._network.recorded_steps()

    def _run_alone(self, request: ForwardRequest) -> Tensor | None:
        """Run one request in a pass of its own; returns its logits, None for 0 rows."""
        fits_in_fixed_rows = len(request.ids) <= (self._network.fixed_rows or 0)
        # The kernel gives the log-sum-exp of a single context too, which captures want.
        if fits_in_fixed_rows or self._network.in_one_call:
            return self._run_together([request])[0]
        return run_alone(self._network.net, self._network.device, request)


def _is_decode_step(request: ForwardRequest) -> bool:
    """Whether a request runs one token and wants its logits, as a reply does that is being written,
    and nothing else is measured. A graph can run such a step."""
    if len(request.ids) != 1 or request.n_logits != 1 or request.label_ids:
        return False
    return request.capture is None or isinstance(request.capture, WriteCapture)
