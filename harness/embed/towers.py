"""The networks of an encoder: its configuration sets the pooling, and questions may have their own tower.

folder of sentence-transformers (modules.json)   built as it says; a configuration that says otherwise is refused
folder of transformers alone (config.json)       its network with the pooling of the configuration, else the mean

"dragon":  question ──► query tower ──► q          passage ──► passage tower ──► p          score = q . p
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config.schema import EncoderConfig
from harness.errors import CannotRun
from harness.storage.received import parse_json, read_plain

_MODULES = "modules.json"


@dataclass(frozen=True)
class Towers:
    """Networks (SentenceTransformer) for passages and for questions; the same one where the encoder has one."""

    passage: Any
    query: Any


def build(folder: Path, config: EncoderConfig, device: str | None) -> Any:
    """The network (SentenceTransformer) of one tower. Raises what the libraries raise for a folder they cannot read."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    if (folder / _MODULES).exists():
        net = SentenceTransformer(str(folder), device=device, local_files_only=True)
    else:
        words = Transformer(str(folder))
        width = words.get_embedding_dimension()
        net = SentenceTransformer(modules=[words, Pooling(width, config.pooling or "mean")], device=device)
    if config.max_length:
        net.max_seq_length = config.max_length
    return net


def pooling_of(folder: Path) -> str | None:
    """How the folder itself says its tokens become one vector ("mean", "cls", ...); None where it says nothing.

    Raises CannotRun for a file about it that cannot be read.
    """
    for module in _modules(folder):
        path = folder / module.get("path", "") / "config.json"
        if str(module.get("type", "")).endswith(".Pooling") and path.exists():
            pooling: dict[str, Any] = _read(path, dict)
            if "pooling_mode" in pooling:
                modes = pooling["pooling_mode"]
                return modes if isinstance(modes, str) else "+".join(modes)
            # The older form: one flag for each way.
            flags = [key for key, on in pooling.items() if key.startswith("pooling_mode_") and on is True]
            short = (f.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token") for f in flags)
            return "+".join(short) or "mean"
    return None


def disagreement(folder: Path, config: EncoderConfig) -> str | None:
    """Why `config` and the folder cannot both be right, as a sentence; None where they agree. Raises as pooling_of."""
    own = pooling_of(folder)
    if config.pooling is not None and own is not None and own != config.pooling:
        return (
            f"encoder '{config.name}' is set to pool by {config.pooling}, but its folder's own pooling is {own}; name "
            "the right folder, or take its word with --set encoder.pooling=null"
        )
    normalises = any(str(module.get("type", "")).endswith(".Normalize") for module in _modules(folder))
    if config.similarity == "dot" and normalises:
        return (
            f"encoder '{config.name}' is set to compare by dot product, but its folder normalises every vector; say "
            "--set encoder.similarity=cosine"
        )
    return None


def _modules(folder: Path) -> list[dict[str, Any]]:
    path = folder / _MODULES
    modules = list(_read(path, list)) if path.exists() else []
    if not all(isinstance(module, dict) for module in modules):
        raise CannotRun(_broken(path, "it does not list modules"))
    return modules


def _read(path: Path, kind: type) -> Any:
    try:
        content = parse_json(read_plain(path))
    except (OSError, ValueError) as error:
        raise CannotRun(_broken(path, str(error))) from error
    if not isinstance(content, kind):
        raise CannotRun(_broken(path, f"it holds a {type(content).__name__} where a {kind.__name__} belongs"))
    return content


def _broken(path: Path, why: str) -> str:
    return f"the encoder's file {path} cannot be read ({why}); download the folder again, or name another"
