"""The transformers back end: `LoadedModel` holds network, tokenizer and template; hf_session.py
holds contexts."""

import contextlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from harness.config.schema import ModelConfig, Thinking
from harness.cost.flops import ModelShape
from harness.cost.free_memory import free_cores
from harness.cost.shapes import shape_of
from harness.errors import CannotRun
from harness.llm import capture, families, gguf
from harness.llm.adapters import adapter_folder, merge
from harness.llm.backend import ModelFacts
from harness.llm.endings import endings_pattern, markers_of
from harness.llm.kernels import has_slow_products, multiply_in_float32
from harness.llm.model_info import memory_problem
from harness.llm.network import THREADS, Network, free_gpu_bytes
from harness.llm.template import PLAIN, Pieces, cut_template, no_system
from harness.llm.text import Text
from harness.llm.tokenizer_files import tokenizer_folder
from harness.llm.trial_passes import trial_cache_problem
from harness.models import LanguageModel

_NARROW_WIDTH = (
    512  # a product of a narrower model is over before a second thread has begun to help
)


class LoadedModel(Network, LanguageModel):
    """A causal language model of transformers. Raises CannotRun when it cannot be loaded as
    configured.

    text: encodes and decodes; pieces: of the chat template, also as tokens: begin, mid, next,
    system (before and after a system turn's content), opens, closes, skips (what opens a thinking,
    ends one at its limit, and is an empty one);
    stop_ids: tokens that end a reply; endings: markers that are cut off a reply; thinking: of a
    reasoning model.
    """

    shape: ModelShape
    thinking: Thinking | None = None

    def __init__(self, config: ModelConfig, facts: ModelFacts, folder: str) -> None:
        super().__init__(config, facts)
        self.identity, self.capabilities, self._refusals = (
            facts.identity,
            facts.capabilities,
            facts.refusals,
        )
        self.window = facts.window
        self.first_prompts = {}
        problem = memory_problem(config, folder, self._positions, free_gpu_bytes(self.device))
        if problem:
            raise CannotRun(problem)
        if (
            config.deterministic and self.device.type == "cuda"
        ):  # refuse kernels whose sums depend on threads' order
            os.environ.setdefault(
                "CUBLAS_WORKSPACE_CONFIG", ":4096:8"
            )  # read at the first product of the process
            torch.use_deterministic_algorithms(True)
        self.net = self._load(config, folder)
        _set_threads(self.shape.width, config.deterministic)
        self._load_tokenizer(config, folder)
        if not families.is_checked(self.net.config.model_type):
            problem = trial_cache_problem(self.net, self.device, self.dtype, self.layers)
            if problem:
                raise CannotRun(
                    f"no session can run on '{self.name}': {problem}; use another model"
                )

    def _load(self, config: ModelConfig, folder: str) -> Any:
        """The network with its weights and adapters, on its device. Raises CannotRun for weights
        that do not fit."""
        # The run shows its own progress; a bar for every model would stand in the middle of it.
        transformers.logging.disable_progress_bar()
        net = self._with_weights(config, folder)
        if config.adapter:
            merge(net, adapter_folder(config.adapter))
        # Of each adapter after the first both libraries say that the others are there already, or
        # not in its file.
        with _without_warnings(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Already found a `peft_config`")
            for name, path in config.adapters.items():
                net.load_adapter(path, adapter_name=name)
        if config.adapters:
            net.disable_adapters()
        if config.device_map:
            return net.eval()
        if self.device.type == "cpu" and has_slow_products(getattr(torch, self.dtype)):
            multiply_in_float32(net)
        return net.to(self.device).eval()

    def _with_weights(self, config: ModelConfig, folder: str) -> Any:
        """The network with its weights, in main memory or where `device_map` says.

        Raises CannotRun for a damaged file, and for weights that are not those of config.json.
        """
        kernel = {"sdpa": capture.install(), "eager": "eager"}.get(self.identity["attention"])
        options: dict[str, Any] = {"trust_remote_code": config.trust_remote_code}
        try:
            sizes = AutoConfig.from_pretrained(folder, **options)
            self._measure(sizes)
            if config.device_map:
                options["device_map"] = config.device_map
            with _without_warnings():  # what is missing or of another shape is listed below
                net, info = AutoModelForCausalLM.from_pretrained(
                    folder,
                    output_loading_info=True,
                    ignore_mismatched_sizes=True,
                    config=sizes,
                    dtype=getattr(torch, self.dtype),
                    attn_implementation=kernel,
                    use_safetensors=True,
                    **options,
                )
        except CannotRun:
            raise
        except Exception as e:  # a damaged config.json raises whatever its values lead to
            raise self._load_error(e) from e
        # transformers fills what is missing with random numbers and only logs it.
        mismatched = [str(key) for key, *_ in info["mismatched_keys"]]
        wrong = sorted([*map(str, info["missing_keys"]), *mismatched])
        if wrong:
            raise CannotRun(
                f"the weights of '{self.name}' do not belong to its config.json: {len(wrong)} "
                f"tensors are missing or of another shape, {wrong[0]} first; copy the model's "
                "folder again"
            )
        return net

    def _load_error(self, error: Exception) -> CannotRun:
        """The sentence for weights that cannot be loaded."""
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        fix = "copy the model's folder again, or name another model"
        if isinstance(error, torch.OutOfMemoryError):
            fix = "use a smaller one"
        return CannotRun(
            f"cannot load the weights of '{self.name}' ({reason.rstrip('.:! ')}); {fix}"
        )

    def _measure(self, config: Any) -> None:
        """Set `layers` and `shape` from a transformers config. Raises CannotRun for sizes that
        FLOPs cannot use."""
        try:
            self.layers, self.shape = int(config.num_hidden_layers), shape_of(config, head=True)
            int(self.shape.mlp)  # a few families give a list, one size a layer
        except (AttributeError, RuntimeError, TypeError, ValueError) as e:
            raise CannotRun(
                f"the sizes of '{self.name}', from which its FLOPs are counted, cannot be read "
                f"({str(e).splitlines()[0]}); use another model"
            ) from e

    def _load_tokenizer(self, config: ModelConfig, folder: str) -> None:
        """Load the tokenizer, and encode the pieces of the chat template. Raises CannotRun."""
        try:
            tokenizer = AutoTokenizer.from_pretrained(
                str(tokenizer_folder(config, Path(folder))),
                trust_remote_code=config.trust_remote_code,
            )
        except (OSError, ValueError) as e:
            raise CannotRun(
                f"'{config.tokenizer or self.name}' has no tokenizer that can be loaded "
                f"({str(e).splitlines()[0]}); "
                "name one with --set model.tokenizer=FOLDER"
            ) from e
        if len(tokenizer) > self.net.config.vocab_size:
            raise CannotRun(
                f"the tokenizer has {len(tokenizer)} tokens, the model '{self.name}' only "
                f"{self.net.config.vocab_size}: they do not belong together"
            )
        self.pieces = _template_pieces(config, tokenizer, self.name)
        self.text = Text(tokenizer, self.name, self.pieces)
        self.begin, self.mid = self._with_bos(self.pieces.begin), self.text.trusted(self.pieces.mid)
        self.system: tuple[list[int], list[int]] | None = None
        if self.pieces.system is not None:
            before, between = self.pieces.system
            self.system = self._with_bos(before), self.text.trusted(between)
        self.next = self.text.trusted(self.pieces.next)
        think = config.thinking
        if self.pieces.closed:
            think = None
        self.thinking, self.opens = think, self.text.trusted(self.pieces.thinks)
        self.closes = self.text.trusted(f"\n{think.close}\n\n") if think else []
        self.skips = (
            self.text.trusted(f"{think.open}\n\n{think.close}\n\n") if think else self.opens
        )
        eos = getattr(getattr(self.net, "generation_config", None), "eos_token_id", None)
        # The token that ends a reply in the template (<|eot_id|>, say) ends one here, flagged as
        # special or not.
        last = {i for i in self.next[:1] if i in self.text.control or i in self.text.added}
        self.stop_ids = frozenset(
            {*(eos if isinstance(eos, list) else [eos]), tokenizer.eos_token_id, *last} - {None}
        )
        added = [
            (t.content, t.special)
            for t in tokenizer.backend_tokenizer.get_added_tokens_decoder().values()
        ]
        template = self.pieces.begin + self.pieces.mid + self.pieces.next
        self.endings = endings_pattern(markers_of(added, template, self.pieces.next))

    def _with_bos(self, text: str) -> list[int]:
        """Ids of the template's first piece `text`, with one BOS if the tokenizer has it. Raises
        CannotRun for more."""
        begin, bos = self.text.trusted(text), self.text.bos
        if bos is not None and begin[:1] != [bos]:
            begin = [bos, *begin]
        if bos is not None and begin.count(bos) != 1:
            raise CannotRun(
                f"the chat template of '{self.name}' begins with {begin.count(bos)} BOS tokens"
            )
        return begin

    def require(self, capability: str) -> None:
        """Raise CannotRun unless the model has `capability`."""
        if capability not in self.capabilities:
            reason = self._refusals.get(
                capability, f"it has {', '.join(sorted(self.capabilities)) or 'none'}"
            )
            raise CannotRun(f"'{self.name}' has no capability '{capability}': {reason}")

    def forget(self) -> None:
        """Drop first prompts, kept contexts and failed passes, so that a run does not depend on an
        earlier one."""
        self.first_prompts = {}
        for queue in self._queues.values():
            queue.failed.clear()
        if self._pool is not None:  # it is made when the first context begins
            self._pool.forget()
            self.share_memory([])

    def remember_first_prompt(self, role: str, ids: list[int]) -> None:
        """Keep the first context that `role` ran, for the manifest: its text and its token ids."""
        if role not in self.first_prompts:
            self.first_prompts[role] = {"text": self.text.context(ids), "ids": list(ids)}

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Character range of every token of `text`."""
        return self.text.offsets(text)

    def turn_tokens(self) -> int:
        """Tokens that the template adds to one user turn and its reply, BOS and an empty thinking
        included."""
        return len(self.begin) + len(self.mid) + len(self.skips)

    def system_turn_tokens(self, text: str) -> int:
        """Tokens that a system turn of `text` adds. Raises CannotRun where the chat template has no
        system role."""
        if self.system is None:
            raise no_system(self.name)
        before, between = self.system
        return len(before) + self.count(text) + len(between) - len(self.begin)


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Context manager: silence the warnings of transformers."""
    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers.logging.set_verbosity(before)


def _template_pieces(config: ModelConfig, tokenizer: Any, name: str) -> Pieces:
    """The chat template's pieces: of the model's own, of a file, or PLAIN for "none". Raises
    CannotRun."""
    if config.template == "none":
        return PLAIN
    if config.template != "model":
        tokenizer.chat_template = Path(config.template).read_bytes().decode()
    if not tokenizer.chat_template:
        raise gguf.NoTemplate(name)
    try:
        template = tokenizer.get_chat_template()
    except ValueError as e:
        raise CannotRun(
            f"'{name}' has several chat templates and none is its default; set model.template=FILE"
        ) from e
    tokens = tokenizer.special_tokens_map
    return cut_template(template, tokens, name, config.template_date, config.thinking, config.extra)


def _set_threads(width: int, deterministic: bool = False) -> None:
    """Set torch's threads on the CPU: one for a narrow model, one a free core for a wider one;
    OMP_NUM_THREADS wins.

    width: of hidden states; deterministic: one a core in any case, as sums may depend on it and
    other models share it.
    """
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(
            THREADS if deterministic else 1 if width < _NARROW_WIDTH else min(THREADS, free_cores())
        )
