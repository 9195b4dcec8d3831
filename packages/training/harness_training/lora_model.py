"""The frozen base model with one LoRA adapter at a time (peft): memory, loss on target tokens, adapter files.

base = Base(config, settings, device)
base.add("analysis", rank=16, alpha=32, seed=0)
total, right = base.loss(rows)               see row_loss.RowLoss
base.save("analysis", folder)                adapter_config.json and adapter_model.safetensors
base.drop("analysis")

estimate_memory(shape, settings, "structuring")   MemoryNeed(weights=6.2e9, adapters=0.5e9, activations=21e9)
"""

import copy
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from harness.config.schema import ModelConfig
from harness.cost.flops import ModelShape, shape_of
from harness.cost.free_memory import available_bytes, resident_bytes
from harness.errors import CannotRun
from harness.llm import families
from harness.llm.adapters import WEIGHTS
from harness.llm.model_info import local_folder
from harness.llm.tokenizer_files import tokenizer_folder
from harness.storage.untrusted import read_object
from harness_training import cpu_kernels
from harness_training.cpu_kernels import BLOCK
from harness_training.loop import resolve_device
from harness_training.row_loss import TARGETS, RowLoss
from harness_training.settings import Settings
from harness_training.teacher import Teacher
from harness_training.token_rows import Row

_BYTES = {"float32": 4, "bfloat16": 2}
_STATE = 16  # bytes of an adapter's parameter: itself, its gradient and Adam's two moments, in float32


@dataclass(frozen=True)
class MemoryNeed:
    """Memory in bytes; libraries: what the process holds before the model is loaded, 0 on a GPU or where not asked."""

    weights: float
    adapters: float
    activations: float
    libraries: float = 0.0

    @property
    def total(self) -> float:
        """The sum."""
        return self.weights + self.adapters + self.activations + self.libraries


def adapter_parameters(shape: ModelShape, rank: int) -> int:
    """Parameters of a LoRA on all linear layers but the head: rank x (inputs + outputs) each (Hu et al. 2021, 4.1)."""
    query, key = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    attention = 2 * (shape.width + query) + 2 * (shape.width + key)
    return shape.layers * rank * (attention + (3 if shape.gated else 2) * (shape.width + shape.mlp))


def estimate_memory(
    shape: ModelShape,
    settings: Settings,
    task: str,
    tied: bool = False,
    longest: int | None = None,
    targets: int | None = None,
    squares: bool = False,
) -> MemoryNeed:
    """The memory that training `task` takes on rows of at most `longest` tokens (None: as many as its settings allow).

    tied: the head shares the embedding's weights; targets: of such a row, None: every token; squares: attention weights
    are kept, as the CPU kernels do and a fused kernel does not.

    Activations of a layer for a token, in numbers of the base's dtype: its input, both norms, query, attention output
    and output (about 6 widths), keys and values, and four times the MLP's width (gate, up, product, activation). In
    bfloat16 each norm keeps its input in float32 too. With recomputation: one input for each layer, and one whole layer
    (Chen et al. 2016). Logits of a target: in the base's dtype with gradient, in float32 with gradient and softmax.
    """
    own, size = settings.tasks[task], _BYTES[settings.dtype]
    length = min(own.length, longest or own.length)
    tokens = own.batch * length
    layer = 6 * shape.width + 2 * shape.kv_heads * shape.head_size + shape.heads * shape.head_size + 4 * shape.mlp
    layer += 4 * shape.width if size == 2 else 0
    layer += shape.heads * (length + min(length, BLOCK)) // 2 if squares else 0
    kept = shape.layers * shape.width + layer if settings.checkpointing else shape.layers * layer
    logits = (3 * 4 + 2 * size) * min(TARGETS, tokens if targets is None else own.batch * targets) * shape.vocab
    embedding = shape.vocab * shape.width * (1 if tied else 2)
    return MemoryNeed(
        weights=size * (shape.linear + embedding),
        adapters=_STATE * adapter_parameters(shape, own.rank),
        activations=size * tokens * kept + logits,
    )


def memory_problem(name: str, task: str, memory: MemoryNeed, free: int | None, fraction: float) -> str | None:
    """A sentence if `memory` is more than `fraction` of the free bytes; None if it fits or `free` is unknown."""
    if free is None or memory.total <= free * fraction:
        return None
    return (
        f"training '{task}' on '{name}' needs about {memory.total / 1e9:.1f} GB ({memory.weights / 1e9:.1f} weights, "
        f"{memory.adapters / 1e9:.1f} adapter with its optimizer, {memory.activations / 1e9:.1f} activations) but "
        f"{free / 1e9:.1f} GB are free; use a GPU with more, a smaller model, --set {task}.batch=1 or a smaller "
        f"{task}.length, or --set checkpointing=true"
    )


def check_memory(config: ModelConfig, settings: Settings, tasks: Iterable[str], device: str = "auto") -> None:
    """Raise CannotRun if training a task takes more memory than is free. The model is not loaded."""
    from transformers import AutoConfig

    where = resolve_device(device)
    read = AutoConfig.from_pretrained(str(local_folder(config)[0]), trust_remote_code=config.trust_remote_code)
    free = torch.cuda.mem_get_info(where)[0] if where.startswith("cuda") else available_bytes()
    for task in tasks:
        tied, squares = bool(getattr(read, "tie_word_embeddings", False)), not where.startswith("cuda")
        memory = estimate_memory(shape_of(read), settings, task, tied, squares=squares)
        if sentence := memory_problem(config.name, task, memory, free, config.memory_fraction):
            raise CannotRun(sentence)


def load_teacher(config: ModelConfig, window: int) -> Teacher:
    """A Teacher with a model's tokenizer and chat template; its weights are not loaded.

    window: tokens that a skill may fill. Raises CannotRun where there is no chat template, or another one is set.
    """
    from transformers import AutoTokenizer

    source = tokenizer_folder(config, local_folder(config)[0])
    tokenizer = AutoTokenizer.from_pretrained(str(source), trust_remote_code=config.trust_remote_code)
    if not tokenizer.chat_template:
        raise CannotRun(f"'{config.name}' has no chat template, so there are no turns to train on")
    plain = ModelConfig(name="")
    if (config.template, config.template_date) != (plain.template, plain.template_date):
        raise CannotRun(
            "adapters learn the model's own chat template; leave model.template and model.template_date out"
        )
    teacher = Teacher(tokenizer, config.name, window)
    if teacher.text.bos is not None and teacher.begin[:1] != [teacher.text.bos]:
        teacher.begin = [teacher.text.bos, *teacher.begin]  # as the back end does for a template without BOS
    return teacher


class Base:
    """The frozen base model with its adapters. Raises CannotRun where it cannot be loaded, or scales its logits."""

    def __init__(self, config: ModelConfig, settings: Settings, device: str = "auto") -> None:
        import peft  # noqa: F401 - it and transformers are in memory when that is measured
        import transformers  # noqa: F401

        self.config, self.settings, self.device = config, settings, resolve_device(device)
        self.folder, self.where = local_folder(config)
        facts = read_object(self.folder / "config.json")
        plain = families.capture_problem(facts, 0, config.trust_remote_code) is None  # causal, as the CPU kernels need
        self._fast = self.device == "cpu" and plain
        self._libraries = resident_bytes() if self.device == "cpu" else 0
        self.net = self._load_network(self.folder)
        self.loss = RowLoss(self.net)
        self.window = config.window or int(getattr(self.net.config, "max_position_embeddings", 0) or 0)
        self._peft: Any = None
        # By their last names ("q_proj"), as configurations of adapters are usually written.
        linear = (name for name, module in self.net.named_modules() if isinstance(module, torch.nn.Linear))
        head = next(n for n, module in self.net.named_modules() if module is self.net.get_output_embeddings())
        self._linear = sorted({name.rpartition(".")[2] for name in linear if name != head})
        self._check_logits()

    def _load_network(self, folder: Path) -> Any:
        """Load the frozen model of transformers onto the device, in training mode. Raises CannotRun."""
        import transformers
        from transformers import AutoModelForCausalLM

        transformers.logging.disable_progress_bar()
        try:
            net = AutoModelForCausalLM.from_pretrained(
                str(folder),
                dtype=getattr(torch, self.settings.dtype),
                attn_implementation=cpu_kernels.register() if self._fast else "sdpa",
                use_safetensors=True,
                trust_remote_code=self.config.trust_remote_code,
            )
        except (OSError, ValueError, RuntimeError) as e:
            why = next(iter(str(e).splitlines()), "") or type(e).__name__
            raise CannotRun(
                f"cannot load the weights of '{self.config.name}' ({why.rstrip('.:! ')}); copy the model's folder "
                "again, or name another model"
            ) from e
        net.requires_grad_(False)
        net.config.use_cache = False
        if self.settings.checkpointing:
            # Newer versions of transformers call it activation_checkpointing_enable, and warn of the old name.
            enable = getattr(net, "activation_checkpointing_enable", net.gradient_checkpointing_enable)
            enable({"use_reentrant": False})
        return net.to(self.device).train()  # recomputing is for training mode only; there is no dropout to switch on

    def _check_logits(self) -> None:
        """Raise CannotRun unless logits are the head's product with the last hidden states; some models scale them."""
        ids = torch.arange(5, device=self.device)[None]
        with torch.no_grad():
            whole = self.net(input_ids=ids, use_cache=False).logits.float()
            head = self.net.get_output_embeddings()
            parts = torch.nn.functional.linear(self.loss.hidden_states(ids), head.weight, head.bias).float()
        if not torch.allclose(whole, parts, atol=1e-2, rtol=1e-2):
            raise CannotRun(
                f"'{self.config.name}' scales or caps the logits of its head, which this training does not support; "
                "train another base"
            )

    def memory(self, task: str, rows: Sequence[Row]) -> MemoryNeed:
        """The memory of the process while it trains `task` on `rows`; on a GPU, the GPU's."""
        tied = bool(getattr(self.net.config, "tie_word_embeddings", False))
        longest, targets = max(len(row.ids) for row in rows), max(len(row.targets) for row in rows)
        shape = shape_of(self.net.config)
        memory = estimate_memory(shape, self.settings, task, tied, longest, targets, squares=self._fast)
        return replace(memory, libraries=self._libraries)

    def add(self, name: str, rank: int, alpha: float, seed: int) -> None:
        """Add a new adapter to all linear layers but the head; its B is 0, its A random with `seed`."""
        from peft import LoraConfig, get_peft_model

        lora = LoraConfig(
            r=rank, lora_alpha=alpha, target_modules=self._linear, lora_dropout=0.0, bias="none", task_type="CAUSAL_LM"
        )
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # peft reads names that transformers will drop
            torch.manual_seed(seed)
            if self._peft is None:
                self._peft = get_peft_model(self.net, lora, adapter_name=name)
            else:
                self._peft.add_adapter(name, lora)
        self._peft.set_adapter(name)
        if self._fast:
            cpu_kernels.use_fused_lora(self.net, name)

    def parameters(self, name: str) -> dict[str, torch.nn.Parameter]:
        """The adapter's matrices by name, float32."""
        mark = f".{name}."
        named = self._peft.named_parameters()
        return {key.replace(mark, "."): value for key, value in named if mark in key and ".lora_" in key}

    def put(self, name: str, values: Mapping[str, Tensor]) -> None:
        """Set the adapter's matrices, named as in `parameters`. Raises CannotRun if names or shapes differ."""
        own = self.parameters(name)
        if any(key not in values or values[key].shape != weight.shape for key, weight in own.items()):
            raise CannotRun("the adapter to begin with is of another rank or another base")
        with torch.no_grad():
            for key, weight in own.items():
                weight.copy_(values[key])

    def drop(self, name: str) -> None:
        """Remove the adapter."""
        self._peft.delete_adapter(name)

    def save(self, name: str, folder: Path) -> None:
        """Write the adapter as peft does, in bfloat16; no path of this machine is in it."""
        folder.mkdir(parents=True, exist_ok=True)
        lora = copy.copy(self._peft.peft_config[name])
        lora.base_model_name_or_path, lora.target_modules, lora.inference_mode = self.config.name, self._linear, True
        lora.save_pretrained(str(folder))
        half = {key: p.detach().to("cpu", torch.bfloat16).contiguous() for key, p in self.parameters(name).items()}
        save_file(half, str(folder / WEIGHTS), metadata={"format": "pt"})
        (folder / WEIGHTS).chmod(0o644)  # safetensors makes it readable for its owner alone
