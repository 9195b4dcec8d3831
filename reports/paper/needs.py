"""What a table's suite needs, from its configuration alone: models, encoders, data sets, files, and
GPU memory.

    needs(suite)  -> Needs(models={"llama-3.1-8b-instruct": ...}, encoders, datasets, gpu=45e9)

GPU memory is what weights and cache take, of the run that takes most, without activations:

    weights   parameters x bytes of the dtype, of each model and encoder that the run uses
    cache     2 x layers x key/value heads x head size x tokens x bytes, the tokens being those of
              the reader's window, or the method's

Sizes are those of the presets (`shape`). A model without, as one of a server, counts nothing;
`unknown` names it.
"""

from contextlib import suppress
from dataclasses import dataclass, field

from harness.config.layers import Choices
from harness.config.registry import method_class
from harness.config.resolve import Settings, resolve
from harness.config.schema import EncoderConfig, ModelConfig
from harness.config.suites import Suite
from harness.cost.flops import ModelShape
from harness.engine.completed_method import make_method
from harness.errors import ConfigError
from harness.method import Method

_BYTES_PER_NUMBER = {"float32": 4, "auto": 4, "bfloat16": 2, "float16": 2}
_CLASSIFIER_SETTING = "classifier"
"""The parameter of LLMLingua-2 that names weights."""
_N_CLASSIFIER_PARAMETERS = 559e6
"""Parameters of XLM-R large."""


@dataclass
class Needs:
    """What a suite needs, by name; a mapping to None is an ordered set of names."""

    models: dict[str, ModelConfig] = field(default_factory=dict)
    encoders: dict[str, EncoderConfig] = field(default_factory=dict)
    classifiers: dict[str, None] = field(default_factory=dict)
    datasets: dict[str, None] = field(default_factory=dict)
    documents: dict[str, str] = field(default_factory=dict)
    """Data set -> the file of its documents."""
    adapters: dict[str, None] = field(default_factory=dict)
    unknown: dict[str, None] = field(default_factory=dict)
    """Models of unknown size."""
    entities: bool = False
    """Whether a trained tool finds names (QRMeM)."""
    gpu: float = 0.0
    """Bytes of GPU memory of the run that takes most."""


def needs(suite: Suite) -> Needs:
    """The data sets, documents, models and GPU memory that a suite needs.

    A method's run over the first data set of a part stands for its runs over the others. Their
    parameters may differ (`by_dataset` of a preset: how many passages, say), but what is counted
    here does not: the model is the suite's own, or the default reader, which differs only between
    made-up and published data sets. No suite of the papers has both in one part.

    Raises:
        UserError: A run of the suite cannot be resolved.
    """
    needed = Needs()
    for part in suite.parts or (suite,):
        for dataset in part.datasets:
            _add_dataset(needed, part, dataset)
        for model in part.models or (None,):
            for method in part.methods:
                choices = Choices(method=method, dataset=part.datasets[0], model=model, suite=part)
                _add_run(needed, resolve(choices))
    return needed


def _add_dataset(needed: Needs, part: Suite, dataset: str) -> None:
    """Add a data set of a suite and its documents to what the suite needs.

    Methods change nothing of a data set, so the part's first method stands for all.

    Args:
        needed: What the suite needs, which is changed.
        part: The suite, or a part of it.
        dataset: The name of the data set.
    """
    needed.datasets[dataset] = None  # a set of names in order
    first_method = next(iter(part.methods))
    config = resolve(Choices(method=first_method, dataset=dataset, suite=part)).dataset
    documents_file = config.options.get("documents")  # where documents lie apart from questions
    if documents_file:
        needed.documents[config.name] = str(documents_file)


def _add_run(needed: Needs, settings: Settings) -> None:
    """Add the models, encoders and files of a run to what the suite needs, and its GPU memory if it
    is the most so far.

    Args:
        needed: What the suite needs, which is changed.
        settings: The settings of the run.
    """
    method: Method | None = None
    with suppress(ConfigError):  # a package that it needs is missing
        method = make_method(settings.method, settings.origins)
    method_or_class = method or method_class(settings.method.implementation)
    model_by_name: dict[str, ModelConfig] = {}
    for role in method_or_class.needs:
        model = settings.model_of(role)
        model_by_name[model.name] = model
    encoder_by_source: dict[str, EncoderConfig] = {}
    for role in method_or_class.encoders:
        encoder = settings.encoder_of(role)
        if encoder is not None:
            needed.encoders.setdefault(encoder.name, encoder)
            encoder_by_source[encoder.source] = encoder
    gpu_bytes = 0.0
    classifier = settings.method.params.get(_CLASSIFIER_SETTING)
    if classifier:
        needed.classifiers.setdefault(str(classifier))
        gpu_bytes += _BYTES_PER_NUMBER["float32"] * _N_CLASSIFIER_PARAMETERS
    if settings.method.params.get("recogniser") == "stanza":
        needed.entities = True
    # One that plays several roles counts once.
    for model in model_by_name.values():
        needed.models.setdefault(model.name, model)
        needed.adapters |= dict.fromkeys(model.adapters.values())
        gpu_bytes += _model_bytes(needed, model, _method_window_tokens(method))
    gpu_bytes += sum(_encoder_bytes(encoder) for encoder in encoder_by_source.values())
    needed.gpu = max(needed.gpu, gpu_bytes)


def _method_window_tokens(method: Method | None) -> int:
    """The number of tokens that a method reads at once; 0 where it has no such parameter."""
    if method is None:
        return 0
    return int(getattr(method.config, "window", 0) or 0)


def _model_bytes(needed: Needs, model: ModelConfig, method_window: int) -> float:
    """Bytes of GPU memory of a model with its cache; 0 for a model of a server or an embedded one.

    For an unknown size also 0, and the name is added to `needed.unknown`.

    Args:
        needed: What the suite needs.
        model: The model.
        method_window: Tokens that the method reads at once, 0 for no limit.
    """
    if model.backend == "endpoint" or model.package:
        return 0.0
    if model.shape is None:
        needed.unknown.setdefault(model.name)
        return 0.0
    shape = ModelShape(**model.shape.model_dump())
    known_limits = [tokens for tokens in (model.window, method_window) if tokens]
    n_tokens = min(known_limits, default=0)
    n_cached_numbers = (
        2 * shape.layers * shape.kv_heads * shape.head_size * n_tokens
    )  # keys, values
    return _BYTES_PER_NUMBER[model.dtype] * (shape.parameters + n_cached_numbers)


def _encoder_bytes(encoder: EncoderConfig) -> float:
    """Bytes of GPU memory of an encoder, twice as many where it has other weights for queries; 0
    for an unknown size."""
    if encoder.shape is None:
        return 0.0
    shape = ModelShape(**encoder.shape.model_dump())
    weight_bytes = _BYTES_PER_NUMBER["float32"] * shape.parameters
    if encoder.query_source:
        return 2 * weight_bytes
    return weight_bytes
