"""The transformers back end: `LoadedModel` holds network, tokenizer and template
(tokenized_model.py); hf_session.py holds contexts."""

import contextlib
import os
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

from harness.config.schema import ModelConfig
from harness.cost.flops import ModelShape
from harness.cost.free_memory import free_cores
from harness.cost.shapes import shape_of
from harness.errors import CannotRun
from harness.llm import capture, families
from harness.llm.adapters import adapter_folder, merge_into_weights
from harness.llm.backend import ModelFacts
from harness.llm.kernels import has_slow_products, multiply_in_float32
from harness.llm.model_info import memory_problem
from harness.llm.network import THREADS, Network, free_bytes_for_weights
from harness.llm.tokenized_model import NetworkEnds, TokenizedModel
from harness.llm.trial_passes import trial_cache_problem

_NARROW_WIDTH = 512
"""A product of a narrower model is over before a second thread has begun to help."""


class LoadedModel(Network, TokenizedModel):
    """A causal language model of transformers, with its tokenizer and template."""

    shape: ModelShape

    def __init__(self, config: ModelConfig, facts: ModelFacts, folder: str) -> None:
        """Load the weights and the tokenizer; a network of a family that is not checked must pass a
        trial of its cache. Also sets torch's number of threads, and in deterministic mode its
        deterministic algorithms, for the whole process.

        Args:
            config: The settings of the model.
            facts: What is known of it.
            folder: The folder with its files.

        Raises:
            CannotRun: It cannot be loaded as configured.
        """
        super().__init__(config, facts)
        self._set_facts(facts)
        free_bytes = free_bytes_for_weights(self.device, is_spread=config.device_map is not None)
        problem = memory_problem(config, folder, self._max_context_tokens, free_bytes)
        if problem:
            raise CannotRun(problem)
        # Refuse kernels whose sums depend on threads' order.
        if config.deterministic and self.device.type == "cuda":
            # Read at the first product of the process.
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            torch.use_deterministic_algorithms(True)
        self.net = self._load_network(config, folder)
        _set_threads(self.shape.width, config.deterministic)
        generation_config = getattr(self.net, "generation_config", None)
        ends = NetworkEnds.from_configs(self.net.config, generation_config)
        self._load_tokenizer(config, folder, ends)
        if not families.is_checked(self.net.config.model_type):
            problem = trial_cache_problem(self.net, self.device, self.dtype, self.n_layers)
            if problem:
                raise CannotRun(
                    f"no session can run on '{self.name}': {problem}; use another model"
                )

    def _load_network(self, config: ModelConfig, folder: str) -> Any:
        """Load the network with its weights and adapters, and put it on its device, no adapter
        switched on. Also sets `n_layers` and `shape`. Raises CannotRun for weights that do not fit
        config.json."""
        # The run shows its own progress; a bar for every model would stand in the middle of it.
        transformers.logging.disable_progress_bar()
        net = self._load_weights(config, folder)
        if config.adapter:
            merge_into_weights(net, adapter_folder(config.adapter))
        # At each adapter after the first, peft warns that others are there already, and transformers
        # that these are not in its file.
        with _without_warnings(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Already found a `peft_config`")
            for name, path in config.adapters.items():
                net.load_adapter(path, adapter_name=name)
        if config.adapters:
            net.disable_adapters()
        if config.device_map:
            return net.eval()
        # A CPU without instructions for the weights' type.
        if self.device.type == "cpu" and has_slow_products(getattr(torch, self.dtype)):
            multiply_in_float32(net)
        return net.to(self.device).eval()

    def _load_weights(self, config: ModelConfig, folder: str) -> Any:
        """Load the network with its weights, into main memory or where `device_map` says. Also sets
        `n_layers` and `shape`.

        Raises CannotRun for a damaged file, and for weights that do not fit config.json.
        """
        # "sdpa" is our function that also measures attention; None: transformers chooses.
        kernels = {"sdpa": capture.install(), "eager": "eager"}
        kernel = kernels.get(str(self.identity["attention"]))
        options: dict[str, object] = {"trust_remote_code": config.trust_remote_code}
        try:
            network_config = AutoConfig.from_pretrained(folder, **options)
            self._set_sizes(network_config)
            if config.device_map:
                options["device_map"] = config.device_map
            with _without_warnings():  # what is missing or of another shape is listed below
                net, info = AutoModelForCausalLM.from_pretrained(
                    folder,
                    output_loading_info=True,
                    ignore_mismatched_sizes=True,
                    config=network_config,
                    dtype=getattr(torch, self.dtype),
                    attn_implementation=kernel,
                    use_safetensors=True,
                    **options,
                )
        except CannotRun:
            raise
        except Exception as e:  # a damaged config.json raises whatever its values lead to
            raise self._load_error(e) from e
        self._check_loaded_tensors(info)
        return net

    def _check_loaded_tensors(self, info: Mapping[str, Any]) -> None:
        """Raise CannotRun where tensors are missing in the weights or have another shape than
        config.json says: transformers fills these with random numbers and only logs it.

        Args:
            info: What transformers says of loading: {"missing_keys": {"lm_head.weight"},
                "mismatched_keys": {("lm_head.weight", shape there, shape here)}}.
        """
        mismatched = [str(key) for key, *_ in info["mismatched_keys"]]
        wrong_tensors = sorted([*map(str, info["missing_keys"]), *mismatched])
        if wrong_tensors:
            raise CannotRun(
                f"the weights of '{self.name}' do not belong to its config.json: "
                f"{len(wrong_tensors)} tensors are missing or of another shape, "
                f"{wrong_tensors[0]} first; copy the model's folder again"
            )

    def _load_error(self, error: Exception) -> CannotRun:
        """The error for weights that cannot be loaded; it says why, in the first line of `error`,
        and what to do."""
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        fix = "copy the model's folder again, or name another model"
        if isinstance(error, torch.OutOfMemoryError):
            fix = "use a smaller one"
        return CannotRun(
            f"cannot load the weights of '{self.name}' ({reason.rstrip('.:! ')}); {fix}"
        )

    def _set_sizes(self, network_config: Any) -> None:
        """Set `n_layers` and `shape` by a config of transformers. Raises CannotRun where the sizes
        are such that FLOPs cannot be counted."""
        try:
            self.n_layers = int(network_config.num_hidden_layers)
            self.shape = shape_of(network_config, head=True)
            int(self.shape.mlp)  # raises for the list, one size a layer, that a few families give
        except (AttributeError, RuntimeError, TypeError, ValueError) as e:
            raise CannotRun(
                f"the sizes of '{self.name}', from which its FLOPs are counted, cannot be read "
                f"({str(e).splitlines()[0]}); use another model"
            ) from e

    def forget_run(self) -> None:
        """Drop first prompts, cached contexts and failed passes, so that a run on a model that
        stays loaded does not depend on the run before."""
        self.first_prompts = {}
        for queue in self._queues.values():
            queue.failed_passes.clear()
        if self._pool is not None:  # it is made when the first context begins
            self._pool.drop_ended()
            self.share_memory([])


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Context manager: transformers logs errors alone inside the block."""
    verbosity_before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers.logging.set_verbosity(verbosity_before)


def _set_threads(width: int, is_deterministic: bool = False) -> None:
    """Set torch's threads on the CPU, for all models of the process: one for a narrow model, for a
    wider one as many as there are free cores, at most THREADS. Does nothing where OMP_NUM_THREADS
    is set.

    Args:
        width: Numbers of a hidden state.
        is_deterministic: Set THREADS in any case: sums may depend on the number, which must not
            depend on the model or on what else runs.
    """
    if "OMP_NUM_THREADS" in os.environ:
        return
    n_threads = min(THREADS, free_cores())
    if width < _NARROW_WIDTH:
        n_threads = 1
    if is_deterministic:
        n_threads = THREADS
    torch.set_num_threads(n_threads)
