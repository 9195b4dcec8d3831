"""A printed row's settings: its preset under profile `paper`, with what mapping.yaml says of the
row instead.

    settings_of(value, rule) ─► Settings(method, prompts, dataset, models, encoders)

They are resolved as `harness run --method PRESET --dataset NAME --profile paper` resolves them,
from the files of this project alone (no HARNESS_CONFIGS). No model is loaded and no row is read.
"""

import os
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any
from unittest.mock import patch

from harness.config import presets, registry
from harness.config.layers import Choices
from harness.config.resolve import Settings as RunSettings
from harness.config.resolve import resolve
from harness.config.schema import ModelConfig
from harness.config.yaml_tree import flatten
from harness.engine.settled_method import make_method
from harness.errors import ConfigError
from harness.method import Method
from harness.method.abilities import numbers_from_runs, roles_with_adapters
from reports.paper.mapping import DatasetRule
from reports.paper.printed import Value

_MODEL_KEYS = (  # what of a model or encoder changes a prediction, weights apart (llm/model_info, embed/encoder_info)
    "backend", "tokenizer", "dtype", "attention", "template", "template_date", "window", "thinking",
    "trust_remote_code", "extra",
)  # fmt: skip
_ENCODER_KEYS = (
    "query_source",
    "pooling",
    "similarity",
    "query_prefix",
    "passage_prefix",
    "max_length",
)
# Settings of a data set that change no prediction, or are files of the user's; `name` is what a
# value is matched by.
_NOT_DATA_KEYS = {"name", "data", "scorers", "licence", "citation", "options"}
_FILE_KEYS = {"documents", "support"}


@dataclass(frozen=True)
class Model:
    """A model or encoder: the last part of its hub id, and its settings; none where this project
    does not ship it.

    source: its hub id; shape: its sizes, by the names of `harness.cost.flops.ModelShape`, empty
    where unknown.
    """

    name: str
    settings: dict[str, Any]
    source: str = ""
    shape: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """What a run must be like to measure a printed value. Keys are as in run.yaml, those of nested
    mappings dotted.

    models, encoders: by role, of the roles that the method uses; a role for which any model will do
    is left out.
    trained: roles whose model may have adapters; ignored: keys of the data set that do not matter,
    and files.
    """

    method: dict[str, Any]
    prompts: dict[str, str]
    dataset: dict[str, Any]
    models: dict[str, Model]
    encoders: dict[str, Model]
    trained: frozenset[str]
    ignored: frozenset[str]


def settings_of(value: Value, rule: DatasetRule) -> Settings:
    """The settings of a run that measures the printed `value` on the data set of `rule`. Raises
    UserError."""
    entry, paper = value.entry, value.paper
    r, method = _resolve_preset(
        entry.preset, rule.dataset, paper.model, tuple(sorted(paper.roles.items()))
    )
    choice = r.method
    numbers = numbers_from_runs(type(method))
    rules = {
        key: v for key, v in choice.params.items() if key in numbers and isinstance(v, str)
    }  # "from:garlic"
    params = {**method.config.model_dump(mode="json"), **rules, **entry.params}
    models = {role: _model_of_role(value, r, role) for role in method.needs}
    used = {role: r.encoder_of(role) for role in method.encoders}
    encoders = {role: encoder for role, encoder in used.items() if encoder is not None}
    row_settings = {
        **rule.settings,
        **({} if rule.tokens is None else {"tokens": rule.tokens}),
        **entry.settings,
    }
    preset = r.dataset.model_dump(mode="json")
    # Rows of another format come from elsewhere, so where the preset's are is not compared.
    left_out = _NOT_DATA_KEYS | (
        {"hub", "subset", "revision"} if "format" in row_settings else set()
    )
    dataset = {
        key: v for key, v in {**preset, **preset["options"]}.items() if key not in left_out
    } | row_settings
    ignored = frozenset({key for key, v in row_settings.items() if v is None} | _FILE_KEYS)
    return Settings(
        method={
            "implementation": choice.implementation,
            "view": choice.view,
            **{
                key: v
                for key, v in (flatten(params) if params else {}).items()
                if key not in value.recording
            },
        },
        prompts=method.prompts(),
        dataset={key: v for key, v in dataset.items() if key not in ignored},
        models={role: model for role, model in models.items() if model is not None},
        encoders={
            role: _shipped_model(v, last_part(v.source), _ENCODER_KEYS)
            for role, v in encoders.items()
        },
        trained=roles_with_adapters(method),
        ignored=ignored,
    )


def last_part(source: str) -> str:
    """The last part of a hub id or folder."""
    return source.rstrip("/").rpartition("/")[2]


_Roles = tuple[tuple[str, str | None], ...]


@cache
def _resolve_preset(
    preset: str, dataset: str, reader: str, roles: _Roles
) -> tuple[RunSettings, Method]:
    """(settings of a run of the preset under profile paper, its method); roles: (role, model or
    None for any) each."""
    with patch.dict(os.environ):
        os.environ.pop(registry.ENV, None)
        by_source = _presets_by_source()
        sets = {
            f"roles.{role}": by_source[name.lower()]
            for role, name in roles
            if name and name.lower() in by_source
        }
        model = by_source.get(reader.lower())
        r = resolve(
            Choices(method=preset, dataset=dataset, profile="paper", model=model, sets=sets)
        )
        try:
            return r, make_method(r.method, r.origins)
        except (
            ConfigError
        ):  # its package is missing: its parameters are not checked, and a report reads those alone
            cls: type[Method] = registry.load(r.method.implementation, Method)
            return r, cls(cls.Config.model_construct(**r.method.params))


@cache
def _presets_by_source() -> dict[str, str]:
    """The last part of a model's hub id, in lower case -> the preset that has it."""
    by_source: dict[str, str] = {}
    for name in presets.names("models"):
        values = {
            key: value for _, layer in presets.read("models", name) for key, value in layer.items()
        }
        if "source" in values:
            by_source.setdefault(last_part(str(values["source"])).lower(), name)
    return by_source


def _model_of_role(value: Value, r: RunSettings, role: str) -> Model | None:
    """The model of a role: that of the row or paper, else the preset's own, else the reader; None
    for any."""
    roles, role_model = value.paper.roles, r.roles.get(role)
    if role in roles and roles[role] is None:
        return None
    name = str(
        roles.get(role)
        or (
            last_part(role_model.source or role_model.name)
            if role_model is not None
            else value.paper.model
        )
    )
    config: ModelConfig = r.model if role_model is None else role_model
    if (
        last_part(config.source or config.name).lower() != name.lower()
        or config.backend == "endpoint"
    ):
        return Model(name, {})
    model, paper = _shipped_model(config, name, _MODEL_KEYS), value.paper.model_settings
    settings = model.settings | paper
    return replace(
        model,
        settings={k: item for k, item in settings.items() if k not in paper or item is not None},
    )


def _shipped_model(config: Any, name: str, keys: tuple[str, ...]) -> Model:
    """A shipped model or encoder as a `Model`: of its `config` the settings `keys`, its source and
    its sizes."""
    shape = {} if config.shape is None else config.shape.model_dump()
    return Model(name, {key: getattr(config, key) for key in keys}, config.source or "", shape)
