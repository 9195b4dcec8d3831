"""vLLM's engine and the thread of its event loop: what all threads ask, it computes together.

    question's thread   complete(request) ──┐
    question's thread   complete(request) ──┼──► event loop ──► AsyncLLMEngine: one batch, which a request
    question's thread   complete(request) ──┘                   joins and leaves at any step

AsyncLLMEngine and not LLM: `LLM.generate` returns once the last request of a batch has ended, and a
question that is ready earlier waits for it; and LLM refuses `data_parallel_size` in one process.
Signatures are those of the modules vllm.v1.engine.async_llm, vllm.sampling_params and vllm.outputs
of vLLM 0.33.0.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import weakref
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from harness.errors import CannotRun, RequestFailed
from harness.parallel.members import current_scheduler

T = TypeVar("T")


@dataclass(frozen=True)
class EngineRequest:
    """One request.

    Attributes:
        ids: Token ids of the context.
        sampling: Fields of vLLM's SamplingParams.
    """

    ids: Sequence[int]
    sampling: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class EngineReply:
    """What the engine made of a request.

    Attributes:
        ids: Ids of the tokens that were written; a token that ended the reply is the last of them.
        finish: "stop" or "length".
        n_cached: Tokens of the context that were in the engine's prefix cache.
        logprobs: For the first token that was written: token id -> vLLM's Logprob; empty where none
            were asked for.
        prompt_logprobs: The same at each position of the context; empty where none were asked for.
    """

    ids: tuple[int, ...]
    finish: str
    n_cached: int
    logprobs: Mapping[int, Any]
    prompt_logprobs: Sequence[Any]

    @classmethod
    def of_output(cls, output: Any) -> EngineReply:
        """Read a finished RequestOutput of vLLM, which has one reply.

        Raises RequestFailed for a request that vLLM gave up.
        """
        (written,) = output.outputs
        if written.finish_reason not in ("stop", "length"):
            raise RequestFailed(
                f"vLLM gave a request up (finish_reason {written.finish_reason}); ask again with "
                "--retry-failed"
            )
        logprobs: Mapping[int, Any] = {}
        if written.logprobs:
            logprobs = written.logprobs[0]
        return cls(
            ids=tuple(written.token_ids),
            finish=written.finish_reason,
            n_cached=output.num_cached_tokens or 0,
            logprobs=logprobs,
            prompt_logprobs=output.prompt_logprobs or (),
        )


class Engine:
    """vLLM's engine, which ends with this object."""

    def __init__(self, name: str, arguments: Mapping[str, object]) -> None:
        """Start the engine and the thread of its event loop, which takes a minute or more.

        Both end when this object does.

        Args:
            name: The model's name, for messages.
            arguments: Those of vLLM's AsyncEngineArgs.

        Raises:
            CannotRun: It does not start; its own log says more.
        """
        self._name = name
        self._request_numbers = itertools.count()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="vllm", daemon=True).start()
        try:
            self._engine = self._run_in_loop(_start_engine(arguments))
        except Exception as error:  # vLLM raises whatever its libraries do
            self._loop.call_soon_threadsafe(self._loop.stop)
            reason = next(iter(str(error).splitlines()), "") or type(error).__name__
            raise CannotRun(
                f"vLLM cannot load '{name}' ({reason.rstrip('. ')}); see its log, and the settings "
                "model.window, model.memory_fraction and model.extra.engine"
            ) from error
        weakref.finalize(self, _end_engine, self._engine, self._loop)

    def complete(self, request: EngineRequest) -> EngineReply:
        """Send a request and wait for its reply; batches of other models do not wait for this
        thread.

        Args:
            request: The request.

        Raises:
            CannotRun: The engine has ended.
            RequestFailed: It gave this request up.
        """
        scheduler = current_scheduler()
        waiting: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if scheduler is not None:
            waiting = scheduler.waiting_for_server()
        request_id = f"harness-{next(self._request_numbers)}"
        with waiting:
            output = self._run_in_loop(self._last_output(request, request_id))
        return EngineReply.of_output(output)

    def empty_prefix_cache(self) -> None:
        """Empty the prefix cache, so that a run does not depend on an earlier one."""
        self._run_in_loop(self._engine.reset_prefix_cache())

    def _run_in_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread of the event loop, wait for it, and return its result.

        An error or an interrupt while waiting cancels it, so that the engine drops the request.
        """
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:  # an interrupt too: the engine drops the request
            future.cancel()
            raise

    async def _last_output(self, request: EngineRequest, request_id: str) -> Any:
        """Send a request to the engine and return its last output, the whole reply.

        Args:
            request: The request.
            request_id: Its id in the engine, "harness-7".

        Raises:
            CannotRun: The engine has ended.
        """
        import vllm
        from vllm.v1.engine.exceptions import EngineDeadError

        parameters = vllm.SamplingParams(**request.sampling)
        prompt = {"prompt_token_ids": list(request.ids)}
        last_output = None
        try:
            async for output in self._engine.generate(prompt, parameters, request_id):
                last_output = output
        except EngineDeadError as error:
            raise CannotRun(
                f"vLLM's engine for '{self._name}' has ended; see its log, and run the same "
                "command again"
            ) from error
        return last_output


async def _start_engine(arguments: Mapping[str, object]) -> Any:
    """Start vLLM's engine, in the event loop that will handle its outputs.

    Args:
        arguments: Those of vLLM's AsyncEngineArgs.

    Raises:
        CannotRun: vLLM would use its older model runner, which mixes up the log-probabilities of
            named tokens where requests share a step.
    """
    import vllm

    engine = vllm.AsyncLLMEngine.from_engine_args(vllm.AsyncEngineArgs(**arguments))
    if not engine.vllm_config.use_v2_model_runner:
        engine.shutdown()
        raise CannotRun(
            "it would use its model runner V1, whose probabilities of labels are wrong in batches; "
            "its log says which setting needs that runner"
        )
    return engine


def _end_engine(engine: Any, loop: asyncio.AbstractEventLoop) -> None:
    """End the engine's processes, and stop its event loop, which ends the loop's thread."""
    engine.shutdown()
    loop.call_soon_threadsafe(loop.stop)
