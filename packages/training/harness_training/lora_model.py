"""The frozen base model with one LoRA adapter at a time (peft): loss on target tokens, adapter
files.

base = Base(config, settings, device)
base.add("analysis", rank=16, alpha=32, seed=0)
total, right = base.loss(rows)               see row_loss.RowLoss
base.save("analysis", folder)                adapter_config.json and adapter_model.safetensors
base.drop("analysis")
"""

import copy
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from harness.config.schema import ModelConfig
from harness.errors import CannotRun
from harness.llm.adapters import WEIGHTS
from harness.llm.kernels import has_slow_products, multiply_in_float32
from harness.llm.model_info import find_or_download
from harness.llm.tokenizer_files import tokenizer_folder
from harness_training.loop import resolve_device
from harness_training.row_loss import RowLoss
from harness_training.settings import Settings
from harness_training.teacher import Teacher


def load_teacher(config: ModelConfig, window: int) -> Teacher:
    """A Teacher with a model's tokenizer and chat template, which lays out prompts as that model's
    back end does; its weights are not loaded, but its files are downloaded if they are not there.

    Args:
        config: The model.
        window: Most tokens that a skill may fill.

    Raises:
        CannotRun: The model has no chat template, or another one is set.
    """
    folder = find_or_download(config).folder
    source = tokenizer_folder(config, folder)
    tokenizer = AutoTokenizer.from_pretrained(
        str(source), trust_remote_code=config.trust_remote_code
    )
    if not tokenizer.chat_template:
        raise CannotRun(f"'{config.name}' has no chat template, so there are no turns to train on")
    defaults = ModelConfig(name="")
    has_own_template = config.template != defaults.template
    if has_own_template or config.template_date != defaults.template_date:
        raise CannotRun(
            "adapters learn the model's own chat template; leave model.template and "
            "model.template_date out"
        )
    teacher = Teacher(tokenizer, config.name, window)
    bos_id = teacher.text.bos
    if bos_id is not None and teacher.before_first_user_ids[:1] != [bos_id]:
        # As the back end does for a template without BOS, the token that begins a text.
        teacher.before_first_user_ids = [bos_id, *teacher.before_first_user_ids]
    return teacher


class Base:
    """The frozen base model with its adapters."""

    def __init__(self, config: ModelConfig, settings: Settings, device: str = "auto") -> None:
        """Load the model onto the device, frozen, with a RowLoss as `loss`.

        Also sets `folder` and `where` (its files, and what identifies them), `window` (tokens; 0
        where unknown) and `adapted` (None until an adapter is added).

        Args:
            config: The model.
            settings: The settings of the training.
            device: "auto", "cpu" or "cuda".

        Raises:
            CannotRun: It cannot be loaded, or scales its logits.
        """
        self.config = config
        self.settings = settings
        self.device = resolve_device(device)
        self.folder, self.where = find_or_download(config)
        self.net = self._load_network(self.folder)
        self.loss = RowLoss(self.net)
        positions = getattr(self.net.config, "max_position_embeddings", 0) or 0
        self.window = config.window or int(positions)
        # A peft model: the base with its adapters, of which the last one alone is trained.
        self.adapted: Any = None
        self._linear = self._linear_layers()
        self._check_head()

    def _linear_layers(self) -> list[str]:
        """The last names ("q_proj") of the linear layers but the head, sorted, each once, as
        configurations of adapters are usually written."""
        head = self.net.get_output_embeddings()
        names: set[str] = set()
        for name, module in self.net.named_modules():
            if isinstance(module, torch.nn.Linear) and module is not head:
                names.add(name.rpartition(".")[2])
        return sorted(names)

    def _check_head(self) -> None:
        """Raise CannotRun where logits are not the head's plain product, which the loss computes.
        It is tried on five tokens."""
        ids = torch.arange(5, device=self.device)[None]  # [1, tokens]
        head = self.net.get_output_embeddings()
        with torch.no_grad():
            logits = self.net(input_ids=ids, use_cache=False).logits.float()
            hidden = self.loss.hidden_states(ids)
            product = torch.nn.functional.linear(hidden, head.weight, head.bias).float()
        if not torch.allclose(logits, product, atol=1e-2, rtol=1e-2):
            raise CannotRun(
                f"'{self.config.name}' scales or caps the logits of its head, which this training "
                "does not support; "
                "train another base"
            )

    def _load_network(self, folder: Path) -> Any:
        """Load the frozen network onto the device, in training mode; with the setting
        `checkpointing`, activations are computed again in the backward pass.

        Raises:
            CannotRun: The weights cannot be loaded.
        """
        transformers.logging.disable_progress_bar()
        try:
            network = AutoModelForCausalLM.from_pretrained(
                str(folder),
                dtype=getattr(torch, self.settings.dtype),
                attn_implementation="sdpa",
                use_safetensors=True,
                trust_remote_code=self.config.trust_remote_code,
            )
        except (OSError, ValueError, RuntimeError) as error:
            why = next(iter(str(error).splitlines()), "") or type(error).__name__
            raise CannotRun(
                f"cannot load the weights of '{self.config.name}' ({why.rstrip('.:! ')}); copy the "
                "model's folder "
                "again, or name another model"
            ) from error
        if self.device == "cpu" and has_slow_products(network.dtype):
            multiply_in_float32(network)
        network.requires_grad_(False)
        network.config.use_cache = False
        if self.settings.checkpointing:
            # Newer versions of transformers call it activation_checkpointing_enable, and warn of
            # the old name.
            enable = getattr(
                network, "activation_checkpointing_enable", network.gradient_checkpointing_enable
            )
            enable({"use_reentrant": False})
        # Activations are computed again in training mode only; there is no dropout to switch on.
        return network.to(self.device).train()

    def add(self, name: str, rank: int, alpha: float, seed: int) -> None:
        """Add a new adapter to all linear layers but the head; it alone is trained from now on.

        Args:
            name: The name of the adapter.
            rank: The rank of its matrices.
            alpha: The adapter is scaled by alpha / rank.
            seed: The seed of its matrix A; B is 0.
        """
        lora = LoraConfig(
            r=rank,
            lora_alpha=alpha,
            target_modules=self._linear,
            lora_dropout=0.0,
            bias="none",
            task_type="CAUSAL_LM",
        )
        # The seed below is forgotten at the end of the block.
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            # peft reads names that transformers will drop.
            warnings.simplefilter("ignore", FutureWarning)
            torch.manual_seed(seed)
            if self.adapted is None:
                self.adapted = get_peft_model(self.net, lora, adapter_name=name)
            else:
                self.adapted.add_adapter(name, lora)
        self.adapted.set_adapter(name)

    def parameters(self, name: str) -> dict[str, torch.nn.Parameter]:
        """The matrices of an adapter, float32: their names in the network without the adapter's ->
        matrix."""
        adapter_infix = f".{name}."
        parameters: dict[str, torch.nn.Parameter] = {}
        for key, value in self.adapted.named_parameters():
            if adapter_infix in key and ".lora_" in key:
                parameters[key.replace(adapter_infix, ".")] = value
        return parameters

    def put(self, name: str, values: Mapping[str, Tensor]) -> None:
        """Set the matrices of an adapter, named as in `parameters`, to these values. Raises
        CannotRun if names or shapes differ."""
        parameters = self.parameters(name)
        for key, weight in parameters.items():
            if key not in values or values[key].shape != weight.shape:
                raise CannotRun("the adapter to begin with is of another rank or another base")
        with torch.no_grad():
            for key, weight in parameters.items():
                weight.copy_(values[key])

    def drop(self, name: str) -> None:
        """Remove the adapter of this name from the network."""
        self.adapted.delete_adapter(name)

    def save(self, name: str, folder: Path) -> None:
        """Write an adapter into a folder as peft does, in bfloat16; no path of this machine is in
        it."""
        folder.mkdir(parents=True, exist_ok=True)
        lora = copy.copy(self.adapted.peft_config[name])
        lora.base_model_name_or_path = self.config.name
        lora.target_modules = self._linear
        lora.inference_mode = True
        lora.save_pretrained(str(folder))
        half_weights: dict[str, Tensor] = {}
        for key, weight in self.parameters(name).items():
            half_weights[key] = weight.detach().to("cpu", torch.bfloat16).contiguous()
        save_file(half_weights, str(folder / WEIGHTS), metadata={"format": "pt"})
        (folder / WEIGHTS).chmod(0o644)  # safetensors makes it readable for its owner alone
