"""How a GGUF file is converted to a folder of transformers; gguf.py says when."""

import re
from pathlib import Path
from typing import Any

import gguf
import torch
import transformers
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GgufConfig

from harness.errors import CannotRun

_SCALING_KEY = ".rope.scaling.type"  # the end of it
# Pre-tokenizers by GGUF's name of them, for those that transformers takes for GPT-2's: each digit
# is a token of its own before GPT-2's pattern applies (llama.cpp, src/llama-vocab.cpp,
# LLAMA_VOCAB_PRE_TYPE_SMOLLM).
_SPLITTING_DIGITS = (
    "smollm",
    "starcoder",
    "refact",
    "command-r",
    "codeshell",
    "exaone",
    "minerva-7b",
)


def has_template(file: Path) -> bool:
    """Whether the metadata of a file holds a chat template; also true for a damaged file, which
    converting refuses."""
    try:
        field = gguf.GGUFReader(file).get_field(gguf.Keys.Tokenizer.CHAT_TEMPLATE)
    except Exception:  # noqa: BLE001 - damaged or not whole: converting it says so
        return True
    return field is not None and bool(field.contents())


def convert(file: Path, folder: Path) -> None:
    """Load a GGUF file with transformers, its weights unpacked to bfloat16, and save model and
    tokenizer to a folder. What transformers leaves out of the tokenizer is restored first, and the
    names in the saved settings are made those of the file.

    Args:
        file: The GGUF file.
        folder: The folder that is written to.

    Raises:
        CannotRun: The file is damaged, or holds what transformers does not read.
        OSError: A file cannot be read or written.
    """
    transformers.logging.disable_progress_bar()
    resolved = file.resolve()
    parent = str(resolved.parent)
    name = resolved.name
    try:
        _check_attention(AutoConfig.from_pretrained(parent, gguf_file=name), file)
        tokenizer = AutoTokenizer.from_pretrained(parent, gguf_file=name)
        net = AutoModelForCausalLM.from_pretrained(
            parent,
            gguf_file=name,
            dtype=torch.bfloat16,
            quantization_config=GgufConfig(dequantize=True),
        )
    except (OSError, CannotRun):
        raise
    except Exception as error:  # a damaged file fails anywhere in the readers of three libraries
        raise CannotRun(_conversion_error(file, error)) from error
    _restore_splitting_of_digits(tokenizer, file)
    tokenizer.name_or_path = net.config._name_or_path = name
    net.config.architectures = [type(net).__name__]
    net.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for path in folder.iterdir():
        path.chmod(0o644)  # safetensors gives its files to their owner alone


def _check_attention(config: Any, file: Path) -> None:
    """Refuse a file whose attention transformers would compute otherwise than llama.cpp does.

    Args:
        config: What transformers read of the file's metadata.
        file: The GGUF file.

    Raises:
        CannotRun: Its positions are stretched (rope scaling: Llama 3.1, Gemma 3 from 4B), or its
            scores are not divided by the root of a head's width (Gemma 2 and 3 of 27B), and
            transformers leaves that out.
    """
    reader = gguf.GGUFReader(file)
    if _says_positions_are_stretched(reader) and not _stretches_positions(config):
        raise _left_out_error(file, "how its positions are stretched (rope scaling)")
    # Gemma divides scores by the root of this number; transformers takes its default for it, which
    # is right where it is the width of a head.
    head_size = getattr(config, "head_dim", None)
    if getattr(config, "query_pre_attn_scalar", head_size) != head_size:
        raise _left_out_error(file, "what its attention scores are divided by")


def _says_positions_are_stretched(reader: Any) -> bool:
    """Whether a GGUF file says that the positions of its model are stretched.

    Args:
        reader: A GGUFReader of the file.
    """
    for key, field in reader.fields.items():
        if key.endswith(_SCALING_KEY) and field.contents() != "none":
            return True
    return any(tensor.name == "rope_freqs.weight" for tensor in reader.tensors)


def _stretches_positions(config: Any) -> bool:
    """Whether a transformers configuration scales its rotary embeddings, in any layer."""
    parameters = getattr(config, "rope_parameters", None) or {}
    for each in (parameters, *parameters.values()):  # of all layers, or of each kind of layer
        if isinstance(each, dict) and each.get("rope_type", "default") != "default":
            return True
    return False


def _left_out_error(file: Path, what: str) -> CannotRun:
    """The error for a file of which transformers leaves something out.

    Args:
        file: The GGUF file.
        what: What is left out: "what its attention scores are divided by".
    """
    return CannotRun(
        f"transformers leaves out of '{file.name}' {what}, so the model would be another; use the "
        "model's safetensors"
    )


def _conversion_error(file: Path, error: Exception) -> str:
    """The message for a file that transformers or gguf could not read: why, and what to do."""
    first_line = (str(error).splitlines() or [""])[0]
    if re.search(r"architecture|model_type|not supported yet", first_line):
        return (
            f"the architecture of '{file.name}' is not one that transformers reads from GGUF "
            f"({first_line}); use the model's safetensors"
        )
    names_quantisation = r"quanti[sz]ation|not a valid GGMLQuantizationType|ggml.?type"
    if re.search(names_quantisation, first_line, re.IGNORECASE):
        return (
            f"'{file.name}' has a quantisation that cannot be unpacked ({first_line}); "
            "use a file with another, such as Q8_0"
        )
    return (
        f"the GGUF file '{file.name}' is damaged or not whole ({type(error).__name__}: "
        f"{first_line}); download it again"
    )


def _restore_splitting_of_digits(tokenizer: Any, file: Path) -> None:
    """Give a tokenizer the pre-tokenizer that makes each digit a token, where the vocabulary of its
    file needs it (_SPLITTING_DIGITS)."""
    field = gguf.GGUFReader(file).get_field("tokenizer.ggml.pre")
    if field is not None and field.contents() in _SPLITTING_DIGITS:
        steps = [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
        tokenizer.backend_tokenizer.pre_tokenizer = Sequence(steps)
