"""A stand-in of vLLM 0.33.0: the names, parameters and results that harness_vllm uses, computed by
transformers on the CPU.

Signatures are those of the modules vllm.engine.arg_utils (AsyncEngineArgs), vllm.sampling_params
(SamplingParams), vllm.v1.engine.async_llm (AsyncLLM, which vllm.AsyncLLMEngine names), vllm.outputs
(RequestOutput, CompletionOutput) and vllm.logprobs (Logprob). A parameter that
these do not have is a TypeError, as there. What it fakes: batching (requests take turns at each
token), the prefix cache (names of blocks of 16 tokens that were read), several GPUs (the arguments
are taken and not used).
"""

import asyncio
import hashlib
import json
import threading
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, logging

from vllm.v1.engine.exceptions import EngineDeadError

BLOCK = 16
engines: list["AsyncLLMEngine"] = []


@dataclass
class AsyncEngineArgs:
    model: str
    tokenizer: str | None = None
    trust_remote_code: bool = False
    dtype: str = "auto"
    seed: int = 0
    max_model_len: int | None = None
    tensor_parallel_size: int = 1
    data_parallel_size: int = 1
    gpu_memory_utilization: float = 0.92
    max_num_seqs: int | None = None
    enable_prefix_caching: bool | None = None
    quantization: str | None = None


@dataclass
class SamplingParams:
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None
    stop: list[str] | None = None
    stop_token_ids: list[int] | None = None
    max_tokens: int | None = 16
    prompt_logprobs: int | None = None
    logprob_token_ids: list[int] | None = None
    skip_special_tokens: bool = True


@dataclass
class Logprob:
    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


@dataclass
class CompletionOutput:
    index: int
    text: str
    token_ids: list[int]
    logprobs: list[dict[int, Logprob]] | None
    finish_reason: str | None = None
    stop_reason: int | str | None = None


@dataclass
class RequestOutput:
    request_id: str
    prompt_token_ids: list[int]
    prompt_logprobs: list[dict[int, Logprob] | None] | None
    outputs: list[CompletionOutput]
    finished: bool
    num_cached_tokens: int | None = None


@dataclass
class VllmConfig:
    use_v2_model_runner: bool = True


@dataclass
class Written:
    """A reply while it is written."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[dict[int, Logprob]] = field(default_factory=list)
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    prompt_rows: Any = None


class AsyncLLMEngine:
    use_v2_model_runner = True

    def __init__(self, arguments: AsyncEngineArgs) -> None:
        self.arguments = arguments
        self.vllm_config = VllmConfig(self.use_v2_model_runner)
        logging.disable_progress_bar()
        dtype = getattr(torch, arguments.dtype)
        self.net = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=dtype).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(arguments.tokenizer or arguments.model)
        self.eos = self._end_tokens()
        self.blocks: set[str] = set()
        self.requests: list[RequestOutput] = []
        self.forced: list[int] = []  # tokens that are written whatever their probability
        self.running = 0
        self.most_running = 0
        self.is_dead = False
        self.has_ended = threading.Event()
        engines.append(self)

    @classmethod
    def from_engine_args(cls, engine_args: AsyncEngineArgs) -> "AsyncLLMEngine":
        asyncio.get_running_loop()  # outside of one, the real engine handles its outputs later
        return cls(engine_args)

    def _end_tokens(self) -> set[int]:
        """As vLLM: the tokenizer's, and those of the generation config."""
        try:
            ends = GenerationConfig.from_pretrained(self.arguments.model).eos_token_id
        except OSError:
            ends = None
        if not isinstance(ends, list):
            ends = [ends]
        return {self.tokenizer.eos_token_id, *ends} - {None}

    def shutdown(self, timeout: float | None = None) -> None:
        self.has_ended.set()

    async def reset_prefix_cache(
        self, reset_running_requests: bool = False, reset_connector: bool = False
    ) -> bool:
        self.blocks.clear()
        return True

    async def generate(self, prompt: Any, sampling_params: SamplingParams, request_id: str) -> Any:
        ids = prompt["prompt_token_ids"]
        asked = sampling_params
        if len(ids) + 1 > self.arguments.max_model_len:
            raise ValueError(f"the prompt has {len(ids)} tokens")
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await asyncio.sleep(0.002)  # others join
            if self.is_dead:
                raise EngineDeadError
            cached = self._find_cached(ids, asked)
            rows, cache = self._read(ids)
            written = Written()
            while written.finish_reason is None:
                rows, cache = self._step(written, rows, cache, asked)
                await asyncio.sleep(0)
            output = self._output(request_id, ids, written, asked, cached)
        finally:
            self.running -= 1
        self.requests.append(output)
        yield output

    def _find_cached(self, ids: list[int], asked: SamplingParams) -> int:
        """Tokens in whole blocks that are in the cache; none where the prompt's own log-
        probabilities are asked for. At least one token is computed."""
        ends = range(BLOCK, len(ids) + 1, BLOCK)
        names = [hashlib.sha256(json.dumps(ids[:end]).encode()).hexdigest() for end in ends]
        found = 0
        while found < len(names) and names[found] in self.blocks:
            found += 1
        self.blocks.update(names)
        if asked.prompt_logprobs is not None:
            return 0
        return min(found * BLOCK, (len(ids) - 1) // BLOCK * BLOCK)

    @torch.inference_mode()
    def _read(self, ids: list[int], cache: Any = None) -> tuple[Any, Any]:
        """Log-probabilities [tokens, vocabulary] after each token, and the cache."""
        out = self.net(torch.tensor([ids]), past_key_values=cache, use_cache=True)
        return out.logits[0].float().log_softmax(-1), out.past_key_values

    def _step(
        self, written: Written, rows: Any, cache: Any, asked: SamplingParams
    ) -> tuple[Any, Any]:
        """Write one token, and read it where another one follows."""
        if not written.ids:
            written.prompt_rows = rows
        token = int(rows[-1].argmax())
        if self.forced:
            token = self.forced.pop(0)
        written.ids.append(token)
        if asked.logprob_token_ids is not None:
            named = {*asked.logprob_token_ids, token}
            written.logprobs.append({i: Logprob(float(rows[-1, i])) for i in named})
        text = self.tokenizer.decode(written.ids, skip_special_tokens=asked.skip_special_tokens)
        stops = [stop for stop in asked.stop or () if stop in text]
        if token in self.eos or token in (asked.stop_token_ids or ()):
            written.finish_reason = "stop"
        elif stops:
            written.finish_reason, written.stop_reason = "stop", stops[0]
        elif len(written.ids) == asked.max_tokens:
            written.finish_reason = "length"
        else:
            return self._read([token], cache)
        return rows, cache

    def _output(
        self, number: str, ids: list[int], written: Written, asked: SamplingParams, cached: int
    ) -> RequestOutput:
        prompt_logprobs: list[dict[int, Logprob] | None] | None = None
        if asked.prompt_logprobs is not None:
            rows = written.prompt_rows
            shown = zip(rows[:-1], ids[1:], strict=True)
            after_first = [{token: Logprob(float(row[token]))} for row, token in shown]
            prompt_logprobs = [None, *after_first]
        completion = CompletionOutput(
            index=0,
            text=self.tokenizer.decode(written.ids, skip_special_tokens=True),
            token_ids=written.ids,
            logprobs=written.logprobs or None,
            finish_reason=written.finish_reason,
            stop_reason=written.stop_reason,
        )
        return RequestOutput(number, ids, prompt_logprobs, [completion], True, cached)
