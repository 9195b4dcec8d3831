"""Resolve a user's choices to a validated RunConfig in which every value knows its origin.

    class defaults < preset < suite's own profile < suite < --profile < config files < --set < flags

    resolution = resolve(Choices(method="pecan", dataset="musique", sets={"method.chunk_tokens": 200}))
    resolution.config.method.params["chunk_tokens"]      200; `.config` raises every mistake that was made
    resolution.origins["method.params.chunk_tokens"]     "--set"

A profile or config file has the shape of a RunConfig, any part of it; `method`, `dataset`, `model`, `encoder`,
`reranker` and `roles.<role>` may be just a name. `methods` sets parameters of methods by name (layers.py),
`datasets` settings of data sets by name: {datasets: {nq: {documents: FILE}}}, or --set datasets.nq.documents=FILE.
An encoder given as `encoder: {default: NAME}` is that of methods whose preset names none.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import create_model

from harness.config import presets, registry
from harness.config.layers import SCALARS, Choices, read_layers, settings_by_name, with_prompts
from harness.config.registry import method_class
from harness.config.schema import DatasetConfig, EncoderConfig, MethodChoice, ModelConfig, RunConfig
from harness.config.yaml_tree import Layer, Tree, build, flatten, origin_of
from harness.errors import HarnessError, UserError, attempt, close_matches, raise_all, unknown
from harness.models import ROLES


class _Part(NamedTuple):
    """A part of the configuration; a layer that sets `defining_key` describes it without a preset."""

    kind: str
    schema: type[Any]
    defining_key: str


# In the order of resolving: a default model follows from the data set, an encoder from the method.
_PARTS = {
    "method": _Part("methods", MethodChoice, "implementation"),
    "dataset": _Part("datasets", DatasetConfig, "format"),
    "model": _Part("models", ModelConfig, "source"),
    "encoder": _Part("encoders", EncoderConfig, "source"),
    "reranker": _Part("encoders", EncoderConfig, "source"),
}
DEFAULTS = {"model": "default", "encoder": "minilm"}
_FIELDS: dict[str, Any] = {
    k: (v.annotation, v) for k, v in RunConfig.model_fields.items() if k in (*SCALARS, "profile")
}
_Scalars = create_model("_Scalars", **_FIELDS)
_LANGUAGE_ROLES = ROLES[1:5]
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

    def add(self, path: str, tree: Tree) -> None:
        """Check `tree` as the part at `path` and add it, with the origin of each value. Raises ConfigError."""
        part = self.parts[path] = build(_PARTS.get(path, _PARTS["model"]).schema, tree, path)
        self.raw.update({f"{path}.{leaf}": raw_text for leaf, raw_text in tree.raw.items()})
        for leaf in flatten(part.model_dump(mode="json")):
            self.origins[f"{path}.{leaf}"] = origin_of(leaf, tree.origins)

    def add_problem(self, sentence: str) -> None:
        """Add a mistake, which `config` raises with all others."""
        self.problems.append(UserError(sentence))


def resolve(choices: Choices) -> Resolution:
    """Resolve every part of a run's configuration. A user's mistake is not raised; it is added to `problems`."""
    r = Resolution(choices)
    layers = read_layers(choices, r.problems)
    for part in _PARTS:
        attempt(r.problems, _resolve_part, r, layers, part)
    for role in dict.fromkeys(role for _, values in layers for role in values.get("roles", {})):
        attempt(r.problems, _resolve_role, r, layers, role)
    if (reader := r.parts.get("model")) is not None and reader.deterministic:  # of the run, so of every role's model
        for path in [path for path in r.parts if path.startswith("roles.")]:
            r.parts[path] = r.parts[path].model_copy(update={"deterministic": True})
            r.origins[f"{path}.deterministic"] = r.origins["model.deterministic"]
    # Seed, limit, failed, ... and the profile's name are checked by RunConfig's own fields.
    tree = Tree()
    for origin, values in layers:
        attempt(r.problems, tree.merge, {k: values[k] for k in (*SCALARS, "profile") if k in values}, origin)
    if (scalars := attempt(r.problems, build, _Scalars, tree, "")) is not None:
        for key in (*SCALARS, *(["profile"] if "profile" in tree.values else [])):
            value = r.parts[key] = getattr(scalars, key)
            r.origins[key] = "default" if value is None else tree.origins.get(key, "default")
    return r


def resolve_part(kind: str, choices: Choices) -> Resolution:
    """Resolve the part of a kind ("methods", ...) alone. Raises UserError for one mistake, ConfigError for several."""
    r = Resolution(choices)
    layers = read_layers(choices, r.problems)
    attempt(r.problems, _resolve_part, r, layers, next(name for name, part in _PARTS.items() if part.kind == kind))
    raise_all(r.problems)
    return r


def resolved(kind: str, **choices: Any) -> Any:
    """A validated part: resolved("methods", method="bm25") is a MethodChoice. choices: of Choices. Raises UserError."""
    return next(iter(resolve_part(kind, Choices(**choices)).parts.values()))


def _resolve_part(r: Resolution, layers: list[Layer], path: str) -> None:
    """Resolve the part at `path` ("model", "roles.builder") into `r.parts`; a part that nothing names is left out.

    The models that `methods` names for roles of the method are written into `layers`. Raises UserError, ConfigError.
    """
    noun = "model" if path.startswith("roles.") else path
    kind, _, defining_key = _PARTS[noun]
    settings = [(origin, part) for origin, values in layers if (part := _values_at(values, path))]
    # 1. Its name: of the highest layer, else of the method's preset, else the default.
    if path == "encoder":
        _set_default_encoder(r, settings)
    names = [(str(part["name"]), source) for source, part in settings if part.get("name")]
    chosen, origin = names[-1] if names else (None, "default")
    name = chosen
    if name is None and path in ("encoder", "reranker"):
        name = getattr(r.parts.get("method"), path, None)
        origin = "default" if name is None else r.origins[f"method.{path}"]
    if name is None and path == "model" and "dataset" in r.parts:
        readers = registry.shipped("readers")
        name = readers.get(r.parts["dataset"].format, readers["any other"])
    if (name := name or DEFAULTS.get(path)) is None:
        if path in ("method", "dataset"):
            raise UserError(f"name a {presets.singular(kind)}: --{path} NAME  (harness list {path}s)")
        if settings:
            raise UserError(f"{path} has settings but no name; name one with --set {path}=NAME")
        return
    # 2. Its preset, or a folder or hub id in the place of one. A layer may describe the part without any preset.
    described = any(
        (part.get("name") == name and ("backend" in part or defining_key in part)) or part.get("backend", "hf") != "hf"
        for _, part in settings
    )
    tree = Tree()
    if preset := attempt([], presets.find, kind, name):
        datasets = [str(n) for _, values in layers if (n := _values_at(values, "dataset").get("name"))]
        for source, values in presets.read(kind, preset):
            tree.merge({k: v for k, v in values.items() if k != "by_dataset" or kind != "methods"}, source)
            if kind == "methods" and (params := presets.params_for_dataset(values, datasets[-1] if datasets else None)):
                tree.merge({"params": params}, f"{source}, by_dataset")
        name = str(tree.values.get("name") or preset)  # the name in tables may differ from the file's
    elif not described:
        folder = Path(name).expanduser()
        is_file = kind == "models" and folder.suffix == ".gguf"
        if kind not in ("models", "encoders") or not ("/" in name or folder.is_dir() or is_file):
            presets.find(kind, name)  # raises
        is_local = is_file or folder.is_dir() or name.startswith(("/", ".", "~"))
        tree.merge({"source": name}, f"named by its {'file' if is_file else 'folder' if is_local else 'hub id'}")
        name = Path(os.path.realpath(folder)).name.removesuffix(".gguf") if is_local else name
    # 3. The layers over it. What one sets for another model or encoder than the chosen one is left out.
    if path in ("method", "dataset"):
        settings, expanded, folded = [], [], {presets.fold(preset or name), presets.fold(name)}
        for source, values in layers:
            part, roles = settings_by_name((source, values), kind, folded, str(tree.values.get("implementation")))
            part = {"params": part} if part and path == "method" else part
            settings += [(source, part), (source, _values_at(values, path))]
            expanded += [
                (source, values),
                (source, {"roles": {role: {"name": model} for role, model in roles.items()}}),
            ]
        layers[:] = expanded
        if path == "dataset":
            settings = _nest_options(settings, tree)
    for source, part in settings:
        if chosen is not None and presets.fold(str(part.get("name", chosen))) != presets.fold(chosen):
            keep = _EXECUTION.get(kind, set())
            if ignored := ", ".join(sorted(part.keys() - keep - {"name"})):
                other = f"{noun} '{part['name']}'"
                r.warnings.append(f"{source} sets {ignored} of {other}; not used, as '{name}' was chosen")
            if tree.values.get("backend") == "endpoint":  # nothing is loaded here: no precision, no device
                keep = {"window"}
            part = {key: value for key, value in part.items() if key in keep}
        part = {key: value for key, value in part.items() if key != "name"}
        if path == "encoder":
            part.pop("default", None)
        if path == "method" and isinstance(part.get("params"), dict):
            part["params"] = with_prompts(part["params"], source)
        if "source" in part and "package" not in part and tree.values.get("package"):
            # It replaces the preset's package, whose path and sha256 do not hold for it.
            part |= {key: None for key in ("package", "package_path", "sha256") if key in tree.values}
        attempt(r.problems, tree.merge, part, source)
    # 4. Its values, checked, with the origin of each.
    tree.merge({"name": name}, origin)
    r.add(path, tree)


def _set_default_encoder(r: Resolution, settings: list[Layer]) -> None:
    """If the method needs an encoder and its preset names none, make `encoder.default` the method's own.

    So a run with another one says so in its name. settings: the layers at `encoder`. Raises UserError.
    """
    method: MethodChoice | None = r.parts.get("method")
    defaults = [(origin, layer["default"]) for origin, layer in settings if "default" in layer]
    if not defaults or method is None or method.encoder is not None:
        return
    origin, name = defaults[-1]
    if "encoder" in method_class(method.implementation).encoders:
        if not isinstance(name, str):
            raise UserError(f"{origin}: encoder.default must be the name of an encoder, not {name!r}")
        r.parts["method"] = method.model_copy(update={"encoder": presets.find("encoders", name)})
        r.origins["method.encoder"] = origin


def _nest_options(settings: list[Layer], tree: Tree) -> list[Layer]:
    """Move options of the format under "options": dataset.tokens becomes dataset.options.tokens; tree: the preset.

    An unknown key is put beside the known key that it resembles most, so that the error suggests that key.
    """
    fields = set(DatasetConfig.model_fields)
    if all(fields.issuperset(values) for _, values in settings):
        return settings
    dataset_format = next((v["format"] for _, v in reversed(settings) if "format" in v), tree.values.get("format", ""))
    known = set(registry.import_target(registry.shipped("settings")["dataset_options"])(str(dataset_format)))
    layers = []
    for origin, values in settings:
        neighbours = {key: (close_matches(key, sorted(fields | known), 1) or [""])[0] for key in values.keys() - fields}
        moved = {key: values[key] for key, nearest in neighbours.items() if key in known or nearest in known}
        if isinstance(options := values.get("options", {}), dict) and moved:  # no mapping: the check will say so
            kept = {key: value for key, value in values.items() if key not in moved}
            values = {**kept, "options": {**options, **moved}}
        layers.append((origin, values))
    return layers


def _values_at(values: dict[str, Any], path: str) -> dict[str, Any]:
    """The mapping at a dotted path, {} where there is none."""
    for key in path.split("."):
        values = values.get(key) or {}
    return values


def _resolve_role(r: Resolution, layers: list[Layer], role: str) -> None:
    """Resolve a role's model into `r.parts`: its own preset, or the reader with the settings that layers change."""
    path = f"roles.{role}"
    if role == "reader":
        raise UserError("the reader is set with --model and --set model.KEY=VALUE, not as a role")
    if role in ("encoder", "reranker"):
        raise UserError(f"set '{role}' itself, not 'roles.{role}': --set {role}=NAME")
    if role not in _LANGUAGE_ROLES:
        raise unknown(f"role '{role}'", role, _LANGUAGE_ROLES)
    settings = [(origin, _values_at(values, path)) for origin, values in layers]
    if any(layer.get("name") for _, layer in settings):
        _resolve_part(r, layers, path)
    elif (reader := r.parts.get("model")) is not None:  # without one, its own mistake is reported already
        tree = Tree([("as the reader", reader.model_dump(mode="json"))])
        for origin, layer in settings:
            attempt(r.problems, tree.merge, layer, origin)
        r.add(path, tree)
