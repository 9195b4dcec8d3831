"""A printed row's settings: its preset under profile `paper`, with what mapping.yaml says of the
row instead.

    settings_of(value, rule) ─► Settings(method, prompts, dataset, models, encoders)

They are resolved as `harness run --method PRESET --dataset NAME --profile paper` resolves them,
from the files of this project alone (no HARNESS_CONFIGS). No model is loaded and no row is read.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from unittest.mock import patch

from harness.config import presets, registry
from harness.config.layers import Choices
from harness.config.resolve import Settings as RunSettings
from harness.config.resolve import resolve
from harness.config.schema import EncoderConfig, ModelConfig
from harness.config.yaml_tree import flatten
from harness.engine.completed_method import make_method
from harness.errors import ConfigError
from harness.method import Method
from harness.method.abilities import roles_with_adapters, settings_that_runs_can_give
from reports.paper.mapping import DatasetRule
from reports.paper.printed import Value

_COMPARED_MODEL_SETTINGS = (
    "backend", "tokenizer", "dtype", "attention", "template", "template_date", "window", "thinking",
    "trust_remote_code", "extra",
)  # fmt: skip
"""What of a model changes a prediction beside its weights (llm/model_info)."""
_COMPARED_ENCODER_SETTINGS = (
    "query_source",
    "pooling",
    "similarity",
    "query_prefix",
    "passage_prefix",
    "max_length",
)
# Settings of a data set that change no prediction, or are files of the user's; `name` is what a
# value is matched by.
_IGNORED_DATASET_SETTINGS = {"name", "data", "scorers", "licence", "citation", "options"}
_SETTINGS_THAT_NAME_FILES = {"documents", "support"}


@dataclass(frozen=True)
class Model:
    """A model or encoder of a paper.

    Args:
        name: The last part of its hub id.
        settings: Its settings; {} where this project does not ship it.
        source: Its hub id.
        shape: Its sizes, by the names of `harness.cost.flops.ModelShape`; {} where unknown.
    """

    name: str
    settings: dict[str, object]
    source: str = ""
    shape: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """The settings that a run must have to measure a printed value.

    Keys are as in run.yaml, those of nested mappings joined by dots.

    Args:
        method: Implementation, view and parameters of the method.
        prompts: Name -> prompt.
        dataset: Settings of the data set.
        models: Role -> model, of the roles that the method uses; a role for which any model will do
            is left out.
        encoders: Role -> encoder or reranker that the method uses.
        trained: Roles whose model may have adapters.
        ignored: Keys of the data set that do not matter, and those that name files.
    """

    method: dict[str, object]
    prompts: dict[str, str]
    dataset: dict[str, object]
    models: dict[str, Model]
    encoders: dict[str, Model]
    trained: frozenset[str]
    ignored: frozenset[str]


def settings_of(value: Value, rule: DatasetRule) -> Settings:
    """The settings of a run that measures a printed value.

    Args:
        value: The printed value.
        rule: The data set of it that is measured.

    Raises:
        UserError: The preset of the value cannot be resolved.
    """
    paper = value.paper
    roles = tuple(sorted(paper.roles.items()))
    preset_run, method = _resolve_preset(value.entry.preset, rule.dataset, paper.model, roles)
    row_settings = _row_settings(value, rule)
    ignored = set(_SETTINGS_THAT_NAME_FILES)
    for key, setting in row_settings.items():
        if setting is None:
            ignored.add(key)
    models = {}
    for role in method.needs:
        model = _model_of_role(value, preset_run, role)
        if model is not None:
            models[role] = model
    encoders = {}
    for role in method.encoders:
        encoder = preset_run.encoder_of(role)
        if encoder is not None:
            name = last_part(encoder.source)
            encoders[role] = _shipped_model(encoder, name, _COMPARED_ENCODER_SETTINGS)
    return Settings(
        method=_method_settings(value, preset_run, method),
        prompts=method.prompts(),
        dataset=_dataset_settings(preset_run, row_settings, ignored),
        models=models,
        encoders=encoders,
        trained=roles_with_adapters(method),
        ignored=frozenset(ignored),
    )


def _row_settings(value: Value, rule: DatasetRule) -> dict[str, object]:
    """The settings of the data set that the row has in place of the preset's: {"tokens": 4096}."""
    settings = dict(rule.settings)
    if rule.tokens is not None:
        settings["tokens"] = rule.tokens
    return {**settings, **value.entry.settings}


def _method_settings(value: Value, preset_run: RunSettings, method: Method) -> dict[str, object]:
    """Implementation, view and parameters of the method as the row has them.

        -> {"implementation": "pecan", "view": "documents", "t_n": "from:garlic", ...}

    A parameter that another run gives is its rule, "from:garlic". Parameters that only keep more of
    a run (`value.recording`) are left out.

    Args:
        value: The printed value.
        preset_run: The settings of its preset.
        method: The method of the preset.
    """
    params = method.config.model_dump(mode="json")
    params_given_by_runs = settings_that_runs_can_give(type(method))
    for key, given in preset_run.method.params.items():
        if key in params_given_by_runs and isinstance(given, str):
            params[key] = given
    params |= value.entry.params
    settings: dict[str, object] = {
        "implementation": preset_run.method.implementation,
        "view": preset_run.method.view,
    }
    if not params:
        return settings
    compared_params = flatten(params)
    for key in value.recording:
        compared_params.pop(key, None)
    return {**settings, **compared_params}


def _dataset_settings(
    preset_run: RunSettings, row_settings: Mapping[str, object], ignored: set[str]
) -> dict[str, object]:
    """The settings of the data set that change a prediction, as the row has them.

    Args:
        preset_run: The settings of the preset.
        row_settings: The settings that the row has in place of the preset's.
        ignored: Keys that do not matter.
    """
    left_out = set(_IGNORED_DATASET_SETTINGS)
    if "format" in row_settings:
        # Rows of another format come from elsewhere, so where the preset's are is not compared.
        left_out |= {"hub", "subset", "revision"}
    preset_settings = preset_run.dataset.model_dump(mode="json")
    settings = {**preset_settings, **preset_settings["options"]}
    for key in left_out:
        settings.pop(key, None)
    settings |= row_settings
    return {key: setting for key, setting in settings.items() if key not in ignored}


def last_part(source: str) -> str:
    """The last part of a hub id or folder: "meta-llama/Llama-3.1-8B" -> "Llama-3.1-8B"."""
    return source.rstrip("/").rpartition("/")[2]


_ModelNameOfRoles = tuple[tuple[str, str | None], ...]
"""(role, name of its model; None where any model will do) of each role."""


@cache
def _resolve_preset(
    preset: str, dataset: str, reader: str, roles: _ModelNameOfRoles
) -> tuple[RunSettings, Method]:
    """The settings of a run of a preset under the profile paper, and its method.

    Only the files of this project count, not those of HARNESS_CONFIGS.

    Args:
        preset: The method's preset.
        dataset: The data set.
        reader: The last part of the hub id of the reader.
        roles: (role, name of its model, or None for any model) of each role.
    """
    with patch.dict(os.environ):  # the environment is as before at its end
        os.environ.pop(registry.CONFIGS_VARIABLE, None)
        preset_by_source = _presets_by_source()
        model_overrides = {}
        for role, name in roles:
            if name and name.lower() in preset_by_source:
                model_overrides[f"roles.{role}"] = preset_by_source[name.lower()]
        model = preset_by_source.get(reader.lower())
        run = resolve(
            Choices(
                method=preset,
                dataset=dataset,
                profile="paper",
                model=model,
                sets=model_overrides,
            )
        )
        try:
            return run, make_method(run.method, run.origins)
        except ConfigError:
            # Its package is missing: its parameters are not checked, and a report reads those
            # alone.
            method_class: type[Method] = registry.load(run.method.implementation, Method)
            return run, method_class(method_class.Config.model_construct(None, **run.method.params))


@cache
def _presets_by_source() -> dict[str, str]:
    """The last part of a model's hub id, in lower case -> the preset that has it."""
    preset_by_source: dict[str, str] = {}
    for name in presets.names("models"):
        source = None
        for _, preset_layer in presets.read("models", name):
            source = preset_layer.get("source", source)
        if source is not None:
            preset_by_source.setdefault(last_part(str(source)).lower(), name)
    return preset_by_source


def _model_of_role(value: Value, preset_run: RunSettings, role: str) -> Model | None:
    """The model of a role: that of the row or paper, else the preset's own, else the reader.

    It has settings where this project ships it: the preset's, changed by those of the paper.

    Args:
        value: The printed value.
        preset_run: The settings of its preset.
        role: The role.

    Returns:
        The model; None where any model will do.
    """
    model_name_by_role = value.paper.roles
    if role in model_name_by_role and model_name_by_role[role] is None:
        return None
    config: ModelConfig = preset_run.roles.get(role) or preset_run.model
    preset_name = last_part(config.source or config.name)
    name = str(value.paper.model)
    if model_name_by_role.get(role):
        name = str(model_name_by_role[role])
    elif role in preset_run.roles:
        name = preset_name
    is_shipped = preset_name.lower() == name.lower() and config.backend != "endpoint"
    if not is_shipped:  # nothing but its name is known
        return Model(name, settings={})
    model = _shipped_model(config, name, _COMPARED_MODEL_SETTINGS)
    settings = dict(model.settings)
    for key, setting in value.paper.model_settings.items():
        if setting is None:  # it does not matter
            settings.pop(key, None)
        else:
            settings[key] = setting
    return replace(model, settings=settings)


def _shipped_model(config: ModelConfig | EncoderConfig, name: str, keys: tuple[str, ...]) -> Model:
    """A model or encoder that this project ships, with the settings that are compared.

    Args:
        config: Its preset.
        name: The last part of its hub id.
        keys: The names of the settings that are compared.
    """
    shape = {}
    if config.shape is not None:
        shape = config.shape.model_dump()
    settings = {key: getattr(config, key) for key in keys}
    return Model(name, settings, source=config.source or "", shape=shape)
