"""What a table's suite needs, from its configuration alone: models, encoders, data sets, files, and
GPU memory.

    needs(suite) ─► Needs(models={"llama-3.1-8b-instruct": ModelConfig, ...}, encoders, datasets, files, gpu=45e9)

GPU memory is what weights and cache take, of the run that takes most, without activations:

    weights   parameters x bytes of the dtype, of each model and encoder that the run uses
    cache     2 x layers x key/value heads x head size x tokens x bytes; tokens: the reader's window, or the method's

Sizes are those of the presets (`shape`). A model without, as one behind a server, counts nothing;
`unknown` names it.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from harness.config.layers import Choices
from harness.config.registry import method_class
from harness.config.resolve import Settings, resolve
from harness.config.schema import EncoderConfig, ModelConfig
from harness.config.suites import Suite
from harness.cost.flops import ModelShape
from harness.engine.settled_method import make_method
from harness.errors import ConfigError
from harness.method import Method

_BYTES = {"float32": 4, "auto": 4, "bfloat16": 2, "float16": 2}
_CLASSIFIER = "classifier"  # the parameter of LLMLingua-2 that names weights
_CLASSIFIER_SIZE = 559e6  # parameters of XLM-R large


@dataclass
class Needs:
    """What a suite needs, by name. documents: data set -> the file of its documents; unknown:
    models of unknown size.

    gpu: bytes of GPU memory of the run that takes most; entities: whether a trained tool finds
    names (QRMeM).
    """

    models: dict[str, ModelConfig] = field(default_factory=dict)
    encoders: dict[str, EncoderConfig] = field(default_factory=dict)
    classifiers: dict[str, None] = field(default_factory=dict)
    datasets: dict[str, None] = field(default_factory=dict)
    documents: dict[str, str] = field(default_factory=dict)
    adapters: dict[str, None] = field(default_factory=dict)
    unknown: dict[str, None] = field(default_factory=dict)
    entities: bool = False
    gpu: float = 0.0


def needs(suite: Suite) -> Needs:
    """The data sets, documents and models that a suite uses. Raises UserError for one that cannot
    be settled.

    Methods change nothing of a data set, so the first one stands for all.
    """
    needed = Needs()
    for part in suite.parts or (suite,):
        for dataset in part.datasets:
            needed.datasets.setdefault(dataset)
            method = next(iter(part.methods))
            config = resolve(Choices(method=method, dataset=dataset, suite=part)).dataset
            place = config.options.get("documents")
            if place:
                needed.documents[config.name] = str(place)
        for model in part.models or (None,):
            for method in part.methods:
                _add_run(
                    needed,
                    resolve(
                        Choices(method=method, dataset=part.datasets[0], model=model, suite=part)
                    ),
                )
    return needed


def _add_run(needed: Needs, r: Settings) -> None:
    """Add the models, encoders and files of a suite's run, resolved as `r`; its GPU memory if it is
    the most."""
    method: Method | None = None
    with suppress(ConfigError):  # a package that it needs is missing
        method = make_method(r.method, r.origins)
    method_or_class = method or method_class(r.method.implementation)
    params: dict[str, Any] = r.method.params
    models = {role: r.model_of(role) for role in method_or_class.needs}
    used = {role: r.encoder_of(role) for role in method_or_class.encoders}
    encoders = {role: encoder for role, encoder in used.items() if encoder is not None}
    for config in models.values():
        needed.models.setdefault(config.name, config)
        needed.adapters |= dict.fromkeys(config.adapters.values())
    for encoder_config in encoders.values():
        needed.encoders.setdefault(encoder_config.name, encoder_config)
    if classifier := params.get(_CLASSIFIER):
        needed.classifiers.setdefault(str(classifier))
    needed.entities |= params.get("recogniser") == "stanza"
    window = int(getattr(method.config, "window", 0) or 0) if method is not None else 0
    # Bytes of each model with its cache, and of each encoder; one that plays several roles counts
    # once.
    gpu = 4 * _CLASSIFIER_SIZE if classifier else 0
    for name, config in {config.name: config for config in models.values()}.items():
        if config.backend == "endpoint" or config.package:
            continue
        if config.shape is None:
            needed.unknown.setdefault(name)
            continue
        shape = ModelShape(**config.shape.model_dump())
        tokens = min(filter(None, (config.window, window)), default=0)
        cache = 2 * shape.layers * shape.kv_heads * shape.head_size * tokens
        gpu += _BYTES[config.dtype] * (shape.parameters + cache)
    for encoder in {encoder.source: encoder for encoder in encoders.values()}.values():
        if encoder.shape is not None:
            gpu += (
                4
                * (2 if encoder.query_source else 1)
                * ModelShape(**encoder.shape.model_dump()).parameters
            )
    needed.gpu = max(needed.gpu, gpu)
