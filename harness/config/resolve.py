"""Resolve a user's choices to a validated RunConfig in which every value knows its origin.

class defaults < preset < layers of the user's choices (layers.py)

resolution = resolve(Choices(method="pecan", dataset="musique", sets={"method.chunk_tokens": 200}))
resolution.config.method.params["chunk_tokens"]      200; `.config` raises every mistake that was made
resolution.origins["method.params.chunk_tokens"]     "--set"
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.config import presets, registry
from harness.config.layers import PARTS, Choices, chosen_by_name, read_layers, with_prompts
from harness.config.schema import DatasetConfig, RunConfig, Settings
from harness.config.yaml_tree import Layer, Tree, build, flatten
from harness.errors import HarnessError, UserError, attempt, raise_all, unknown
from harness.models import ROLES

DEFAULTS = {"model": "default", "encoder": "minilm"}
_DEFINING = {
    "implementation",
    "format",
    "source",
    "backend",
}  # a layer with one describes a part without a preset


@dataclass
class Resolution:
    """The settings of a run as far as they are right, and every mistake in them.

    parts: path in RunConfig ("method", "roles.builder", "seed") -> its validated value; origins:
    path of a value ("method.params.k") -> what set it, "default" if nothing did.
    """

    choices: Choices
    parts: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    problems: list[HarnessError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def config(self) -> RunConfig:
        """The configuration. Raises UserError for one mistake, ConfigError for several."""
        raise_all(self.problems)
        roles = {
            path.partition(".")[2]: part
            for path, part in self.parts.items()
            if path.startswith("roles.")
        }
        return RunConfig(
            **{path: part for path, part in self.parts.items() if "." not in path}, roles=roles
        )

    def add_problem(self, sentence: str) -> None:
        """Add a mistake, which `config` raises with all others."""
        self.problems.append(UserError(sentence))


def resolve(choices: Choices) -> Resolution:
    """Resolve every part of a run's configuration. A user's mistake is not raised; it is added to
    `problems`."""
    r = Resolution(choices)
    layers = read_layers(choices, r.problems)
    for path in PARTS:
        attempt(r.problems, _resolve_part, r, layers, path)
    for role in dict.fromkeys(role for _, values in layers for role in values.get("roles", {})):
        attempt(r.problems, _resolve_part, r, layers, f"roles.{role}")
    fields = Settings.model_fields
    tree = Tree(
        (origin, {k: v for k, v in values.items() if k in fields}) for origin, values in layers
    )
    if (settings := attempt(r.problems, build, Settings, tree, "")) is not None:
        for key, value in settings:
            r.parts[key] = value
            r.origins[key] = "default" if value is None else tree.origins.get(key, "default")
    return r


def resolve_part(kind: str, choices: Choices) -> Resolution:
    """Resolve the part of a kind ("methods", ...) alone. Raises UserError for one mistake,
    ConfigError for several."""
    r = Resolution(choices)
    attempt(r.problems, _resolve_part, r, read_layers(choices, r.problems), kind.removesuffix("s"))
    raise_all(r.problems)
    return r


def resolved(kind: str, **choices: Any) -> Any:
    """A validated part: resolved("methods", method="bm25") is a MethodChoice. choices: of Choices.
    Raises UserError."""
    return next(iter(resolve_part(kind, Choices(**choices)).parts.values()))


def _resolve_part(r: Resolution, layers: list[Layer], path: str) -> None:
    """Resolve the part at `path` ("model", "roles.builder") into `r.parts`; a part that nothing
    names is left out.

    What `layers` set for the method or data set by name is put into them. Raises UserError,
    ConfigError.
    """
    part, _, role = path.replace("roles", "model").partition(".")
    if role in ("reader", *PARTS):
        raise UserError(
            f"set the {role} with --{'model' if role == 'reader' else f'set {role}=NAME'}, not as "
            "a role"
        )
    if role and role not in ROLES[1:5]:
        raise unknown(f"role '{role}'", role, ROLES[1:5])
    kind = "encoders" if part == "reranker" else f"{part}s"
    settings = _settings_at(layers, path)
    # 1. Its name: of the highest layer, else of the method's preset, else the layers' default, else
    # ours.
    chosen, origin = _highest(settings, "name")
    name = chosen
    if name is None and part in ("encoder", "reranker"):
        name = getattr(r.parts.get("method"), part, None)
        origin = r.origins[f"method.{part}"] if name else origin
    if name is None:
        name, origin = _highest(settings, "default")
    if name is None and path == "model" and "dataset" in r.parts:
        readers = registry.shipped("readers")
        name = readers.get(r.parts["dataset"].format, readers["any other"])
    name = name or DEFAULTS.get(path)
    # 2. Below the layers: its preset; without one, a folder or hub id by which it is named, or what
    # a layer describes.
    #    A role without a name is the reader.
    part_layers: list[Layer] = []
    preset = name and attempt([], presets.find, kind, name)
    if name is None and role:
        if (reader := r.parts.get("model")) is None:
            return  # its own mistake is reported already
        part_layers, name, origin = (
            [("as the reader", reader.model_dump(mode="json"))],
            reader.name,
            "as the reader",
        )
    elif name is None and path in ("method", "dataset"):
        raise UserError(f"name a {presets.singular(kind)}: --{path} NAME  (harness list {path}s)")
    elif name is None:
        if settings:
            raise UserError(f"{path} has settings but no name; name one with --set {path}=NAME")
        return
    elif preset:
        dataset, _ = _highest(_settings_at(layers, "dataset"), "name")
        for source, values in presets.read(kind, preset):
            params = presets.params_for_dataset(values, dataset) if part == "method" else {}
            part_layers.append(
                (source, {k: v for k, v in values.items() if k != "by_dataset" or part != "method"})
            )
            part_layers += [(f"{source}, by_dataset", {"params": params})] if params else []
        name = str(
            Tree(part_layers).values.get("name", preset)
        )  # the name in tables may differ from the file's
    elif not any(
        values.get("name", name) == name and values.keys() & _DEFINING for _, values in settings
    ):
        folder, part_layers = Path(name).expanduser(), [(origin, {"source": name})]
        local = folder.is_dir() or (part == "model" and folder.suffix == ".gguf")
        if not (local or "/" in name) or kind not in ("models", "encoders"):
            presets.find(kind, name)  # raises
        if local or name.startswith(("/", ".", "~")):
            name = Path(os.path.realpath(folder)).name.removesuffix(".gguf")
    preset_values = Tree(part_layers).values
    # 3. What layers set for it by name; for a method also the encoder that it uses where its preset
    # names none.
    if path in ("method", "dataset"):
        names = {presets.fold(preset or name), presets.fold(name)}
        implementation = str(preset_values.get("implementation"))
        layers[:] = chosen_by_name(layers, kind, names, implementation, r.problems)
        settings = _settings_at(layers, path)
        encoder, source = _highest(_settings_at(layers, "encoder"), "default")
        if (
            path == "method"
            and encoder
            and "encoder" in registry.method_class(implementation).encoders
        ):
            part_layers.insert(0, (source, {"encoder": encoder}))
    # 4. The layers, without those that name another part than the chosen one (a warning says what
    # they set).
    for source, values in settings:
        layer_values = {
            key: value for key, value in values.items() if key not in ("name", "default")
        }
        if chosen and presets.fold(str(values.get("name", chosen))) != presets.fold(chosen):
            if layer_values:
                other = f"{', '.join(sorted(layer_values))} of {part} '{values['name']}'"
                r.warnings.append(f"{source} sets {other}; not used, as '{name}' was chosen")
            continue
        if (
            "default" in values and preset_values.get("backend") == "endpoint"
        ):  # it has its own precision and device
            layer_values = {key: value for key, value in layer_values.items() if key == "window"}
        if path == "method" and "params" in layer_values:
            layer_values["params"] = with_prompts(layer_values["params"], source)
        if (
            "source" in layer_values
            and "package" not in layer_values
            and preset_values.get("package")
        ):
            # It replaces the preset's package, whose path and sha256 do not hold for it.
            layer_values |= {
                key: None for key in ("package", "package_path", "sha256") if key in preset_values
            }
        part_layers.append((source, layer_values))
    if path == "dataset":
        part_layers = _with_options(part_layers, r.problems)
    if (
        role and "model" in r.parts and r.parts["model"].deterministic
    ):  # of the run, so of every role's model
        part_layers.append((r.origins["model.deterministic"], {"deterministic": True}))
    # 5. Its values, checked, with the origin of each.
    tree = Tree([*part_layers, (origin, {"name": name})])
    r.parts[path] = build(PARTS[part], tree, path)
    for leaf in flatten(r.parts[path].model_dump(mode="json")):
        r.origins[f"{path}.{leaf}"] = tree.origins.get(leaf, "default")


def _settings_at(layers: list[Layer], path: str) -> list[Layer]:
    """What each layer sets at a dotted path, without layers that set nothing there."""
    first, _, rest = path.partition(".")
    inner = [(origin, layer[first]) for origin, layer in layers if layer.get(first)]
    return _settings_at(inner, rest) if rest else inner


def _highest(settings: list[Layer], key: str) -> tuple[str | None, str]:
    """The highest layer's value of a key as text, with its origin; (None, "default") where no layer
    has one."""
    return next(
        ((str(v[key]), origin) for origin, v in reversed(settings) if v.get(key)), (None, "default")
    )


def _with_options(layers: list[Layer], problems: list[HarnessError]) -> list[Layer]:
    """The layers of a data set with options of its format under "options": dataset.tokens,
    dataset.options.tokens."""
    fields = set(DatasetConfig.model_fields)
    if all(fields.issuperset(values) for _, values in layers):
        return layers
    options_of = registry.import_target(registry.shipped("settings")["dataset_options"])
    options = set(options_of(str(Tree(layers).values.get("format", ""))))
    nested: list[Layer] = []
    for origin, values in layers:
        wrong = values.keys() - fields - options
        problems += [
            unknown(f"key 'dataset.{key}' ({origin})", key, fields | options) for key in wrong
        ]
        if moved := {key: value for key, value in values.items() if key in options - fields}:
            nested.append((origin, {"options": moved}))
        nested.append((origin, {key: value for key, value in values.items() if key in fields}))
    return nested
