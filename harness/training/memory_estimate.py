"""Estimate the memory that training takes, before anything is loaded.

estimate_memory(shape, settings, "structuring")   MemoryNeed(weights=6.2e9, adapters=0.5e9, activations=21e9)
memory_problem(...)                        a sentence if that is more than is free, else None
"""

from dataclasses import dataclass

from harness.cost.flops import ModelShape
from harness.training.settings import Settings

_BYTES = {"float32": 4, "bfloat16": 2}
TARGETS = 1024
"""Targets whose logits are held at once; see base.py."""
BLOCK = 128
"""Queries whose attention weights the CPU kernels compute together; see cpu_kernels.py."""
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

    targets: of such a row, None: every token; squares: attention weights are kept, as the CPU kernels do and a fused
    kernel does not.

    Activations of a layer for a token, in numbers of the base's dtype: its input, both norms, query, attention output
    and output (about 6 widths), keys and values, and four times the MLP's width (gate, up, product, activation). In
    bfloat16 each norm keeps its input in float32 too. With recomputation: one input for each layer, and one whole layer
    (Chen et al. 2016). Logits of a target: in the base's dtype with their gradient, and in float32 with their gradient
    and softmax.
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
