"""Resolve a user's choices to a validated RunConfig in which every value knows its origin.

    class defaults < preset < suite's own profile < suite < --profile < config files < --set < flags

    resolution = resolve(Choices(method="pecan", dataset="musique", sets={"method.chunk_tokens": 200}))
    resolution.config.method.params["chunk_tokens"]      200; `.config` raises every mistake that was made
    resolution.origins["method.params.chunk_tokens"]     "--set"

A profile or config file has the shape of a RunConfig, any part of it; `method`, `dataset`, `model`, `encoder`,
`reranker` and `roles.<role>` may be just a name. `methods` sets parameters of methods by name (profile_settings.py),
`datasets` settings of data sets by name: {datasets: {nq: {documents: FILE}}}, or --set datasets.nq.documents=FILE.
An encoder given as `encoder: {default: NAME}` is that of methods whose preset names none.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import create_model

from harness.config import presets, registry
from harness.config.layers import SCALARS, Choices, Layer, read_layers
from harness.config.profile_settings import role_models, settings_for, with_prompts
from harness.config.registry import method_class
from harness.config.schema import ROLES, DatasetConfig, EncoderConfig, MethodChoice, ModelConfig, RunConfig
from harness.config.validation import build, nest_keys
from harness.config.yaml_tree import Tree, flatten
from harness.errors import HarnessError, UserError, attempt, raise_all, unknown

# In the order of resolving: a default model follows from the data set, an encoder from the method.
_PARTS: dict[str, tuple[str, type[Any]]] = {
    "method": ("methods", MethodChoice),
    "dataset": ("datasets", DatasetConfig),
    "model": ("models", ModelConfig),
    "encoder": ("encoders", EncoderConfig),
    "reranker": ("encoders", EncoderConfig),
}
DEFAULTS = {"model": "default", "encoder": "minilm"}
_FIELDS: dict[str, Any] = {
    k: (v.annotation, v) for k, v in RunConfig.model_fields.items() if k in (*SCALARS, "profile")
}
_Scalars = create_model("_Scalars", **_FIELDS)
_LANGUAGE_ROLES = tuple(r for r in ROLES if r not in ("reader", "encoder", "reranker"))
# A mapping with this key describes a part by itself, so that its name need not be a preset.
_DEFINING = {"methods": "implementation", "datasets": "format", "models": "source", "encoders": "source"}
# Settings of how a model or encoder is run; they stay when a later layer chooses another one.
_EXECUTION = {
    "models": {"dtype", "device", "device_map", "attention", "window", "prefill_chunk", "memory_fraction"}
    | {"deterministic"},
    "encoders": {"device", "batch_size"},
}


@dataclass
class Resolution:
    """The settings of a run as far as they are right, and every mistake in them.

    parts: path in RunConfig ("method", "roles.builder", "seed") -> its validated value; origins: path of a value
    ("method.params.k") -> what set it, "default" if nothing did; raw: path -> the text typed after --set.
    """

    choices: Choices
    parts: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    raw: dict[str, str] = field(default_factory=dict)
    problems: list[HarnessError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def config(self) -> RunConfig:
        """The configuration. Raises UserError for one mistake, ConfigError for several."""
        raise_all(self.problems)
        roles = {path.partition(".")[2]: part for path, part in self.parts.items() if path.startswith("roles.")}
        return RunConfig(**{path: part for path, part in self.parts.items() if "." not in path}, roles=roles)

    def add(self, path: str, model: Any, tree: Tree) -> None:
        """Add `model`, the validated part at `path`, and of each of its values the origin that `tree` notes."""
        self.parts[path] = model
        self.raw.update({f"{path}.{leaf}": text for leaf, text in tree.raw.items()})
        for leaf in flatten(model.model_dump(mode="json")):
            known = leaf  # a mapping around it may have been set whole
            while known not in tree.origins and "." in known:
                known = known.rpartition(".")[0]
            self.origins[f"{path}.{leaf}"] = tree.origins.get(known, "default")

    def add_problem(self, sentence: str) -> None:
        """Add a mistake, which `config` raises with all others."""
        self.problems.append(UserError(sentence))


def resolve(choices: Choices) -> Resolution:
    """Resolve every part of a run's configuration. A user's mistake is not raised; it is added to `problems`."""
    r = Resolution(choices)
    layers = read_layers(choices, r.problems)
    for part in _PARTS:
        attempt(r.problems, _resolve_one, r, layers, part)
    layers = role_models(layers, r.parts.get("method"), r.problems)
    for role in dict.fromkeys(role for _, values in layers for role in values.get("roles", {})):
        attempt(r.problems, _resolve_role, r, layers, role)
    if (reader := r.parts.get("model")) is not None and reader.deterministic:  # of the run, so of every role's model
        for path in [path for path in r.parts if path.startswith("roles.")]:
            r.parts[path] = r.parts[path].model_copy(update={"deterministic": True})
            r.origins[f"{path}.deterministic"] = r.origins["model.deterministic"]
    attempt(r.problems, _resolve_scalars, r, layers)
    return r


def resolve_part(kind: str, choices: Choices) -> Resolution:
    """Resolve the part of a kind ("methods", ...) alone. Raises UserError for one mistake, ConfigError for several."""
    r = Resolution(choices)
    layers = read_layers(choices, r.problems)
    attempt(r.problems, _resolve_one, r, layers, next(part for part, (k, _) in _PARTS.items() if k == kind))
    raise_all(r.problems)
    return r


def resolved(kind: str, **choices: Any) -> Any:
    """A validated part: resolved("methods", method="bm25") is a MethodChoice. choices: of Choices. Raises UserError."""
    return next(iter(resolve_part(kind, Choices(**choices)).parts.values()))


def _resolve_one(r: Resolution, layers: list[Layer], path: str) -> None:
    """Resolve the part at `path` ("model", "roles.builder") into `r.parts`; a part not asked for is left out."""
    if path == "encoder":
        layers = _default_encoder(r, layers)
    if (chosen := _choose_name(r, layers, path)) is not None:
        _merge_part(r, layers, path, chosen)


def _choose_name(r: Resolution, layers: list[Layer], path: str) -> str | None:
    """The name that a layer gives a part, else the method's preset, else the default; None for a part not asked for."""
    name = _name_in_layers(layers, path) or _name_of_method(r, path) or _default_name(r, path)
    if name is None and path in ("method", "dataset"):
        raise UserError(f"name a {presets.singular(_PARTS[path][0])}: --{path} NAME  (harness list {path}s)")
    if name is None and any(_values_at(values, path) for _, values in layers):
        raise UserError(f"{path} has settings but no name; name one with --set {path}=NAME")
    return name


def _merge_part(r: Resolution, layers: list[Layer], path: str, chosen: str) -> None:
    """Merge the preset `chosen` and what the layers set over it, and add the validated part at `path` to `r`."""
    noun = "model" if path.startswith("roles.") else path
    kind, model = _PARTS[noun]
    sections, defining = [_values_at(values, path) for _, values in layers], {_DEFINING[kind], "backend"}
    defined = any((v.get("name") == chosen and defining & v.keys()) or v.get("backend", "hf") != "hf" for v in sections)
    tree, named = Tree(), presets.fold(str(_name_in_layers(layers, path)))
    table_name = _merge_preset(tree, kind, chosen, defined, _name_in_layers(layers, "dataset"))
    settings = _settings_by_layer(tree, kind, table_name, path, layers)
    for origin, values in settings:
        if "name" in values and presets.fold(str(values["name"])) != named:  # a later layer chose another name
            values = _execution_settings(r, values, origin, noun, table_name)
            if tree.values.get("backend") == "endpoint":  # nothing is loaded here: no precision, no device
                values = {key: value for key, value in values.items() if key == "window"}
        values = {key: value for key, value in values.items() if key != "name"}
        if "source" in values and "package" not in values and tree.values.get("package"):
            # It replaces the preset's package, whose path and sha256 do not hold for it.
            values |= {key: None for key in ("package", "package_path", "sha256") if key in tree.values}
        attempt(r.problems, tree.merge, values, origin)
    tree.values["name"] = table_name
    origin_below = r.origins.get(f"method.{path}", "default") if _name_of_method(r, path) else "default"
    tree.origins["name"] = next((o for o, v in reversed(settings) if v.get("name")), origin_below)
    r.add(path, build(model, tree, path), tree)


def _settings_by_layer(tree: Tree, kind: str, name: str, path: str, layers: list[Layer]) -> list[Layer]:
    """(origin, settings) of the part at `path` by layer; in a layer those by `name` come first. tree: the preset."""
    implementation = str(tree.values.get("implementation"))
    settings = [
        (origin, each)
        for origin, values in layers
        for each in (*settings_for(kind, values.get(kind, {}), name, origin, implementation), _values_at(values, path))
        if each
    ]
    if kind == "methods":
        settings = [(origin, with_prompts(each, origin)) for origin, each in settings]
    return _nest_options(settings, tree) if kind == "datasets" else settings


def _name_of_method(r: Resolution, path: str) -> str | None:
    """The encoder or reranker that the method's preset names, else None; a name in any layer comes before it."""
    return getattr(r.parts.get("method"), path, None) if path in ("encoder", "reranker") else None


def _default_name(r: Resolution, path: str) -> str | None:
    """The preset of a part that nothing names, None without one; a model by the data set's format (registry.yaml)."""
    dataset: DatasetConfig | None = r.parts.get("dataset")
    if path == "model" and dataset is not None:
        readers = registry.shipped("readers")
        return readers.get(dataset.format, readers["any other"])
    return DEFAULTS.get(path)


def _default_encoder(r: Resolution, layers: list[Layer]) -> list[Layer]:
    """Give a method that uses an encoder and names none the layers' default; return the layers without that default.

    From there on it is the method's own, in r.parts["method"], so that a run with another one says so in its name.
    """
    defaults = [(o, _values_at(v, "encoder")["default"]) for o, v in layers if "default" in _values_at(v, "encoder")]
    if not defaults:
        return layers
    origin, name = defaults[-1]
    method: MethodChoice | None = r.parts.get("method")
    if method is not None and method.encoder is None and "encoder" in method_class(method.implementation).encoders:
        if not isinstance(name, str):
            raise UserError(f"{origin}: encoder.default must be the name of an encoder, not {name!r}")
        r.parts["method"] = method.model_copy(update={"encoder": presets.find("encoders", name)})
        r.origins["method.encoder"] = origin
    return [
        (o, {**v, "encoder": {k: x for k, x in _values_at(v, "encoder").items() if k != "default"}}) for o, v in layers
    ]


def _nest_options(settings: list[Layer], tree: Tree) -> list[Layer]:
    """Move options of the format under "options": dataset.tokens becomes dataset.options.tokens; tree: the preset."""
    fields = set(DatasetConfig.model_fields)
    if all(fields.issuperset(values) for _, values in settings):
        return settings
    form = next((v["format"] for _, v in reversed(settings) if "format" in v), tree.values.get("format", ""))
    known = registry.dataset_options(str(form))
    return [(origin, nest_keys(values, "options", fields, known)) for origin, values in settings]


def _values_at(values: dict[str, Any], path: str) -> dict[str, Any]:
    """The mapping at a dotted path, {} where there is none."""
    for key in path.split("."):
        values = values.get(key) or {}
    return values


def _name_in_layers(layers: list[Layer], path: str) -> str | None:
    """The name that the highest layer gives a part; None where no layer does."""
    return next((str(n) for _, v in reversed(layers) if (n := _values_at(v, path).get("name"))), None)


def _merge_preset(tree: Tree, kind: str, name: str, defined: bool, dataset: str | None) -> str:
    """Merge preset `name` into `tree`, or `name` as source where it is a folder or hub id; return the name for tables.

    defined: whether the layers describe the part, so that no preset need exist; dataset: whose `by_dataset` is merged.
    """
    if kind in ("models", "encoders"):
        folder = Path(name).expanduser()
        is_file = kind == "models" and folder.suffix == ".gguf"
        place = not defined and ("/" in name or folder.is_dir() or is_file)
        if place and presets.fold(name) not in {presets.fold(n) for n in presets.names(kind)}:
            is_local = is_file or folder.is_dir() or name.startswith(("/", ".", "~"))
            how = "file" if is_file else "folder" if is_local else "hub id"
            tree.merge({"source": name}, f"named by its {how}")
            return Path(os.path.realpath(folder)).name.removesuffix(".gguf") if is_local else name
    try:
        name = presets.find(kind, name)
    except UserError:
        if defined:
            return name
        raise
    for origin, values in presets.read(kind, name):
        tree.merge({k: v for k, v in values.items() if k != "by_dataset" or kind != "methods"}, origin)
        if kind == "methods" and (params := presets.params_for_dataset(values, dataset)):
            tree.merge({"params": params}, f"{origin}, by_dataset")
    return str(tree.values.get("name") or name)  # the name in tables may differ from the file's


def _execution_settings(r: Resolution, values: dict[str, Any], origin: str, noun: str, name: str) -> dict[str, Any]:
    """Of `values`, set for another `noun` than `name`, keep only dtype, device, ...; r.warnings lists the rest."""
    keep = _EXECUTION.get(_PARTS[noun][0], set())
    if ignored := ", ".join(sorted(set(values) - keep - {"name"})):
        r.warnings.append(f"{origin} sets {ignored} of {noun} '{values['name']}'; not used, as '{name}' was chosen")
    return {k: v for k, v in values.items() if k in keep}


def _resolve_role(r: Resolution, layers: list[Layer], role: str) -> None:
    """Resolve a role's model into `r.parts`: its own preset, or the reader with the settings that layers change."""
    path = f"roles.{role}"
    if role == "reader":
        raise UserError("the reader is set with --model and --set model.KEY=VALUE, not as a role")
    if role in ("encoder", "reranker"):
        raise UserError(f"set '{role}' itself, not 'roles.{role}': --set {role}=NAME")
    if role not in _LANGUAGE_ROLES:
        raise unknown(f"role '{role}'", role, _LANGUAGE_ROLES)
    if _name_in_layers(layers, path):
        _resolve_one(r, layers, path)
        return
    reader: ModelConfig | None = r.parts.get("model")
    if reader is None:
        return  # the reader's own mistake is reported already
    tree = Tree()
    tree.merge(reader.model_dump(mode="json"), "as the reader")
    for origin, values in layers:
        attempt(r.problems, tree.merge, _values_at(values, path), origin)
    r.add(path, build(ModelConfig, tree, path), tree)


def _resolve_scalars(r: Resolution, layers: list[Layer]) -> None:
    """Resolve seed, limit, failed, ... and the profile's name into `r.parts`, checked by RunConfig's own fields."""
    tree = Tree()
    for origin, values in layers:
        attempt(r.problems, tree.merge, {k: values[k] for k in (*SCALARS, "profile") if k in values}, origin)
    values = build(_Scalars, tree, "").model_dump()
    for key in (*SCALARS, *(k for k in ("profile",) if k in tree.values)):
        r.parts[key], r.origins[key] = values[key], tree.origins.get(key, "default")
