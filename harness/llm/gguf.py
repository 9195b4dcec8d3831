"""GGUF files (llama.cpp's format) as models: converted once to a transformers folder, then loaded
like any other.

transformers unpacks the weights and rebuilds the tokenizer; both take a minute, so the result is
kept. bfloat16 rounds a weight by 2^-9 of its size at most; quantising it to 8 bits or fewer changed
it by more.
"""

import re
import sys
from pathlib import Path
from typing import Any

from harness.errors import CannotRun
from harness.storage.file_hash import file_hash
from harness.storage.files import new_folder, save_error, user_home

SUFFIX = ".gguf"
CONVERSION = 1
"""Raise it when the same file gives other weights or tokens: it is part of the identity of a
converted model."""

_SETTING = "the environment variable HARNESS_HOME"
_MAGIC = b"GGUF"
_SCALING = ".rope.scaling.type"
# Pre-tokenizers by GGUF's name of them, for those that transformers takes for GPT-2's: each digit
# is a token of its own before GPT-2's pattern applies (llama.cpp, src/llama-vocab.cpp,
# LLAMA_VOCAB_PRE_TYPE_SMOLLM).
_DIGITS = ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b")


def converted(
    file: Path, sha256: str | None = None, needs_template: bool = False
) -> tuple[Path, dict[str, Any]]:
    """Convert a model unless the user's cache has it; converting takes a minute.

    Args:
        file: The GGUF file.
        sha256: Of the file, where it is known beforehand.
        needs_template: Refuse a file without a chat template, before it is converted.

    Returns:
        The folder of the converted model, and its identity.

    Raises:
        NoTemplate: It has no chat template, and `needs_template`.
        CannotRun: The file is missing, another one, damaged, or holds what transformers does not
            read: an architecture, a quantisation, stretched positions.
        SaveError: The folder cannot be written.
    """
    _check_header(file)
    digest = file_hash(file)
    if sha256 is not None and digest != sha256:
        raise CannotRun(f"the GGUF file {file.name} is not the one that is expected (sha256 {digest[:12]}... instead "
                        f"of {sha256[:12]}...); install or download it again")  # fmt: skip
    folder = _converted_folder(digest)
    if not folder.is_dir():
        from filelock import FileLock

        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(folder.with_suffix(".lock")):
                if not folder.is_dir():  # else another process converted it while this one waited
                    if needs_template:
                        _check_template(file)
                    sys.stderr.write(f"converting {file.name}, once; it takes about a minute\n")
                    with new_folder(folder, _SETTING) as draft:
                        _write(file, draft)
        except OSError as error:
            raise save_error(folder, error, _SETTING) from error
    return folder, {"gguf": digest, "conversion": CONVERSION}


def is_converted(file: Path) -> bool:
    """Whether `converted` has nothing left to do for this file."""
    return file.is_file() and _converted_folder(file_hash(file)).is_dir()


def _converted_folder(sha256: str) -> Path:
    """Where the model converted from the GGUF file with this hash is kept."""
    return user_home() / "gguf" / f"{sha256}-{CONVERSION}"


def _check_header(file: Path) -> None:
    """Raise CannotRun for a file that is no GGUF file of version 2 or 3."""
    try:
        with open(file, "rb") as f:
            header = f.read(8)
    except OSError as error:
        raise CannotRun(
            f"the GGUF file '{file}' cannot be read: {error.strerror or error}"
        ) from error
    if header[:4] != _MAGIC or len(header) < 8:
        raise CannotRun(
            f"'{file.name}' is no GGUF file: it does not begin as one does; download it again"
        )
    version = int.from_bytes(header[4:], "little")
    if version not in (2, 3):
        raise CannotRun(f"'{file.name}' is of GGUF version {version}; versions 2 and 3 can be read")


def _check_template(file: Path) -> None:
    """Raise NoTemplate for a file whose metadata holds no chat template."""
    import gguf

    try:
        field = gguf.GGUFReader(file).get_field(gguf.Keys.Tokenizer.CHAT_TEMPLATE)
    except Exception:  # noqa: BLE001 - damaged or not whole: converting it says so
        return
    if field is None or not field.contents():
        raise NoTemplate(file.name)


class NoTemplate(CannotRun):
    """A model without a chat template."""

    def __init__(self, name: str) -> None:
        remedy = "set --set model.template=none or a template file"
        super().__init__(f"'{name}' has no chat template; {remedy}")


def _write(file: Path, draft: Path) -> None:
    """Load a GGUF file with transformers and save model and tokenizer in `draft`. Raises
    CannotRun."""
    try:
        import gguf  # noqa: F401 - transformers needs it, and says so in a page
    except ImportError:
        raise CannotRun(
            "GGUF files need the package gguf; pip install 'longdoc-harness[gguf]'"
        ) from None
    import torch
    import transformers
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GgufConfig

    transformers.logging.disable_progress_bar()
    where, name = str(file.resolve().parent), file.resolve().name
    try:
        _check_attention(AutoConfig.from_pretrained(where, gguf_file=name), file)
        tokenizer = AutoTokenizer.from_pretrained(where, gguf_file=name)
        net = AutoModelForCausalLM.from_pretrained(
            where,
            gguf_file=name,
            dtype=torch.bfloat16,
            quantization_config=GgufConfig(dequantize=True),
        )
    except (OSError, CannotRun):
        raise
    except Exception as error:  # a damaged file fails anywhere in the readers of three libraries
        raise CannotRun(_conversion_error(file, error)) from error
    _split_digits(tokenizer, file)
    tokenizer.name_or_path = net.config._name_or_path = name
    net.config.architectures = [type(net).__name__]
    net.save_pretrained(draft)
    tokenizer.save_pretrained(draft)
    for path in draft.iterdir():
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
    import gguf

    reader = gguf.GGUFReader(file)
    kinds = [field.contents() for key, field in reader.fields.items() if key.endswith(_SCALING)]
    stretched = any(kind != "none" for kind in kinds)
    stretched = stretched or any(tensor.name == "rope_freqs.weight" for tensor in reader.tensors)
    if stretched and not _stretches(config):
        raise CannotRun(_left_out(file, "how its positions are stretched (rope scaling)"))
    width = getattr(config, "head_dim", None)
    if getattr(config, "query_pre_attn_scalar", width) != width:
        raise CannotRun(_left_out(file, "what its attention scores are divided by"))


def _stretches(config: Any) -> bool:
    """Whether a transformers configuration scales its rotary embeddings, in any layer."""
    parameters = getattr(config, "rope_parameters", None) or {}
    kinds = [each for each in parameters.values() if isinstance(each, dict)]
    return any(each.get("rope_type", "default") != "default" for each in [parameters, *kinds])


def _left_out(file: Path, what: str) -> str:
    sentence = f"transformers leaves out of '{file.name}' {what}, so the model would be another"
    return f"{sentence}; use the model's safetensors"


def _conversion_error(file: Path, error: Exception) -> str:
    """The message for a file that transformers or gguf could not read: why, and what to do."""
    text = (str(error).splitlines() or [""])[0]
    if re.search(r"architecture|model_type|not supported yet", text):
        sentence = f"the architecture of '{file.name}' is not one that transformers reads from GGUF"
        return f"{sentence} ({text}); use the model's safetensors"
    if re.search(
        r"quanti[sz]ation|not a valid GGMLQuantizationType|ggml.?type", text, re.IGNORECASE
    ):
        return (
            f"'{file.name}' has a quantisation that cannot be unpacked ({text}); "
            "use a file with another, such as Q8_0"
        )
    return f"the GGUF file '{file.name}' is damaged or not whole ({type(error).__name__}: {text}); download it again"


def _split_digits(tokenizer: Any, file: Path) -> None:
    """Restore the pre-tokenizer that makes each digit a token, for vocabularies that need it
    (_DIGITS)."""
    from gguf import GGUFReader
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence

    field = GGUFReader(file).get_field("tokenizer.ggml.pre")
    if field is not None and field.contents() in _DIGITS:
        parts = [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
        tokenizer.backend_tokenizer.pre_tokenizer = Sequence(parts)
