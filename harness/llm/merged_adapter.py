"""A LoRA adapter that a model always runs with: added to the weights once, while they are loaded.

    place("package:configs/models/smollm2-135m-reader")    the adapter's folder
    merge(net, folder)                                     W + alpha / rank x B A, for every matrix that it changes

So a session runs as fast as on the base alone, and needs no peft. The sum is taken in float32 and rounded to the
model's type: nothing is lost beyond the rounding that every weight has in that type anyway.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import CannotRun
from harness.llm.adapters import SETTINGS, WEIGHTS
from harness.storage.paths import inside
from harness.storage.received import package_folder, read_object

if TYPE_CHECKING:
    import torch

PACKAGE = "package:"
_HEAD, _A, _B = "base_model.model.", ".lora_A.weight", ".lora_B.weight"
# Kinds of adapters of peft whose sum is another one.
_OTHER = ("use_dora", "fan_in_fan_out", "lora_bias", "modules_to_save", "rank_pattern", "alpha_pattern")


def place(named: str) -> Path:
    """The folder that model.adapter names. Raises CannotRun where a package is not installed or has no such folder."""
    if not named.startswith(PACKAGE):
        return Path(named)
    package, _, inner = named.removeprefix(PACKAGE).partition("/")
    root = package_folder(package)
    if root is None:
        raise CannotRun(f"model.adapter '{named}': there is no package '{package}'")
    return inside(root, inner)


def merge(net: torch.nn.Module, folder: Path) -> None:
    """Add the adapter in `folder` to the weights of `net`.

    Raises CannotRun for an adapter of another kind than plain LoRA, or of another base.
    """
    from safetensors.torch import load_file

    settings = read_object(folder / SETTINGS)
    if settings.get("peft_type") != "LORA" or any(settings.get(key) for key in _OTHER):
        raise CannotRun(f"the adapter '{folder.name}' is not plain LoRA, so it cannot be merged; use model.adapters")
    scale = settings["lora_alpha"] / (math.sqrt(settings["r"]) if settings.get("use_rslora") else settings["r"])
    tensors = load_file(str(folder / WEIGHTS))
    weights = dict(net.named_parameters())
    for key, a in tensors.items():
        if not key.endswith(_A):
            continue
        module = key.removeprefix(_HEAD).removesuffix(_A)
        weight, b = weights[f"{module}.weight"], tensors[key.removesuffix(_A) + _B]
        change = scale * (b.to(weight.device).float() @ a.to(weight.device).float())
        weight.data = (weight.data.float() + change).to(weight.dtype)
