"""Resolve a user's choices to the validated settings of a run, in which every value knows its
origin.

class defaults < preset < layers of the user's choices (layers.py)

settings = resolve(Choices(method="pecan", dataset="musique", sets={"method.chunk_tokens": 200}))
settings.method.params["chunk_tokens"]             200
settings.origins["method.params.chunk_tokens"]     "--set"

Every mistake is raised at once. The parts are settled in an order: the default model follows from
the data set, an encoder from the method, a role without a name from the model.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from harness.config import presets, registry
from harness.config.layers import (
    PART_SCHEMAS,
    Choices,
    ChosenPreset,
    read_layers,
    with_prompts_read,
    with_settings_by_name,
)
from harness.config.schema import (
    DatasetConfig,
    EncoderConfig,
    Frozen,
    GeneralSettings,
    MethodChoice,
    ModelConfig,
    RunConfig,
)
from harness.config.yaml_tree import Layer, Tree, flatten, mapping_at, validate_tree
from harness.errors import (
    HarnessError,
    UserError,
    call_noting_problem,
    raise_all,
    unknown_name_error,
)
from harness.models import ROLES_WITH_OWN_MODEL

DEFAULT_PRESETS = {"model": "default", "encoder": "minilm"}
DEFAULT_ORIGIN = "default"
"""The origin of a value that nothing set."""
_AS_READER_ORIGIN = "as the reader"
_KEYS_OF_A_PACKAGE = ("package", "package_path", "sha256")
_KEYS_THAT_DESCRIBE_A_PART = {"implementation", "format", "source", "backend"}
"""A layer with one of these keys describes a part that has no preset."""


@dataclass(frozen=True)
class Settings:
    """The settings of one run.

    Attributes:
        choices: What the user chose.
        method: The method with its parameters.
        dataset: The data set.
        model: The reader.
        roles: Models that a role has to itself: "builder" -> its model.
        encoder: None where nothing names one.
        reranker: None where nothing names one.
        general: What a run has beside its parts.
        origins: Path of a value in RunConfig ("method.params.k") -> what set it, "default" if
            nothing did.
        warnings: What was set and is not used, a sentence each.
    """

    choices: Choices
    method: MethodChoice
    dataset: DatasetConfig
    model: ModelConfig
    roles: Mapping[str, ModelConfig]
    encoder: EncoderConfig | None
    reranker: EncoderConfig | None
    general: GeneralSettings
    origins: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    @property
    def config(self) -> RunConfig:
        """All settings as one RunConfig, also with the parts that the method does not use."""
        return RunConfig(
            **dict(self.general),
            method=self.method,
            dataset=self.dataset,
            model=self.model,
            roles=dict(self.roles),
            encoder=self.encoder,
            reranker=self.reranker,
        )

    def model_of(self, role: str) -> ModelConfig:
        """The model of a role, which is the reader where the role has none of its own."""
        return self.roles.get(role, self.model)

    def encoder_of(self, role: str) -> EncoderConfig | None:
        """The settings of the encoder or, for any other role, of the
        reranker; None where nothing names one.
        """
        if role == "encoder":
            return self.encoder
        return self.reranker


P_co = TypeVar("P_co", bound=Frozen, covariant=True)
P = TypeVar("P", bound=Frozen)


@dataclass(frozen=True)
class ResolvedPart(Generic[P_co]):
    """One validated part of a configuration.

    Attributes:
        value: The part.
        origins: Path of a value ("method.params.k") -> what set it.
    """

    value: P_co
    origins: Mapping[str, str]


@dataclass
class Parts:
    """The validated parts of a run; None for one that nothing names, or that has a mistake."""

    method: MethodChoice | None = None
    dataset: DatasetConfig | None = None
    model: ModelConfig | None = None
    encoder: EncoderConfig | None = None
    reranker: EncoderConfig | None = None
    roles: dict[str, ModelConfig] = field(default_factory=dict)


Check = Callable[[Parts, Mapping[str, str]], list[HarnessError]]
"""Finds further mistakes in parts with these origins."""


def resolve(choices: Choices, check: Check | None = None) -> Settings:
    """Resolve every part of a run's configuration; `choices` stay as they are.

    Args:
        choices: What the user chose.
        check: Finds further mistakes in the parts, which are raised with those found here.

    Raises:
        UserError: One mistake.
        ConfigError: Several.
    """
    resolver = _Resolver(choices)
    resolver.resolve_all()
    if check is not None:
        resolver.problems += check(resolver.parts, resolver.origins)
    return resolver.settings()


def resolve_method(choices: Choices) -> ResolvedPart[MethodChoice]:
    """Resolve the method alone. Raises UserError for one mistake, ConfigError for several."""
    return _Resolver(choices).resolve_only("method", MethodChoice)


def resolve_dataset(choices: Choices) -> ResolvedPart[DatasetConfig]:
    """Resolve the data set alone. Raises UserError for one mistake, ConfigError for several."""
    return _Resolver(choices).resolve_only("dataset", DatasetConfig)


def resolve_model(choices: Choices) -> ResolvedPart[ModelConfig]:
    """Resolve the reader alone. Raises UserError for one mistake, ConfigError for several."""
    return _Resolver(choices).resolve_only("model", ModelConfig)


def resolve_encoder(choices: Choices) -> ResolvedPart[EncoderConfig]:
    """Resolve the encoder alone; the choices have to name one, as by --set encoder=NAME.

    Raises UserError for one mistake, ConfigError for several.
    """
    return _Resolver(choices).resolve_only("encoder", EncoderConfig)


@dataclass(frozen=True)
class _PartToResolve:
    """A part that is to be resolved.

    Attributes:
        path: Where it stands in RunConfig: "model", "roles.builder".
        field: Its field in Parts: "model", also for a role.
        role: "builder"; "" for a part that is no role's model.
    """

    path: str
    field: str
    role: str

    @classmethod
    def at(cls, path: str) -> _PartToResolve:
        """Make the part at a path.

            "roles.builder" -> _PartToResolve("roles.builder", field="model", role="builder")
            "encoder"       -> _PartToResolve("encoder", field="encoder", role="")

        Raises UserError for a role that cannot have a model of its own.
        """
        field_name, _, role = path.partition(".")
        if role:
            field_name = "model"
        if role in ("reader", *PART_SCHEMAS):
            flag = f"--set {role}=NAME"
            if role == "reader":
                flag = "--model"
            raise UserError(f"set the {role} with {flag}, not as a role")
        if role and role not in ROLES_WITH_OWN_MODEL:
            raise unknown_name_error(f"role '{role}'", role, ROLES_WITH_OWN_MODEL)
        return cls(path, field_name, role)

    @property
    def kind(self) -> str:
        """The kind of presets that it may name: "models" for field
        "model", "encoders" for a reranker.
        """
        if self.field == "reranker":
            return "encoders"
        return f"{self.field}s"


@dataclass(frozen=True)
class _PartName:
    """The name of a part, and where it comes from.

    Attributes:
        name: The name; None where nothing names the part.
        origin: What named it.
        is_chosen: Whether the user's layers name it, so that it is no default.
    """

    name: str | None
    origin: str
    is_chosen: bool = False


@dataclass
class _PartBase:
    """The settings that a part has before those of the user's layers: those of its preset, or the
    folder that it names.

    Attributes:
        name: The name in tables.
        origin: What named it.
        layers: The preset's values, the presets that it extends first.
        preset: Name of the preset; None without one.
    """

    name: str
    origin: str
    layers: list[Layer]
    preset: str | None = None

    @property
    def values(self) -> dict[str, object]:
        """All its layers merged into one mapping of settings."""
        return Tree(self.layers).values


@dataclass
class _Resolver:
    """Settles the parts of one run, one after the other.

    Attributes:
        choices: What the user chose.
        parts: Those that are settled.
        origins: Path of a value ("method.params.k") -> what set it.
        problems: The mistakes that were found.
        warnings: What was set and is not used.
        general: Seed, limit and what else a run has beside its parts.
    """

    choices: Choices
    parts: Parts = field(default_factory=Parts)
    origins: dict[str, str] = field(default_factory=dict)
    problems: list[HarnessError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    general: GeneralSettings | None = None

    def __post_init__(self) -> None:
        """Read the user's choices as layers, lowest first, into `layers`; mistakes in them are added
        to `problems`.
        """
        self.layers = read_layers(self.choices, self.problems)

    def resolve_all(self) -> None:
        """Resolve every part that something names, into `parts` and `general`.

        Mistakes are added to `problems`, and the part stays None.
        """
        parts = self.parts
        parts.method = self._resolve_noting_problem("method", MethodChoice)
        parts.dataset = self._resolve_noting_problem("dataset", DatasetConfig)
        parts.model = self._resolve_noting_problem("model", ModelConfig)
        parts.encoder = self._resolve_noting_problem("encoder", EncoderConfig)
        parts.reranker = self._resolve_noting_problem("reranker", EncoderConfig)
        for role in self._named_roles():
            model = self._resolve_noting_problem(f"roles.{role}", ModelConfig)
            if model is not None:
                parts.roles[role] = model
        call_noting_problem(self.problems, self._resolve_general)

    def _resolve_noting_problem(self, path: str, form: type[P]) -> P | None:
        """Resolve one part. A mistake in it is added to `problems`, and None is returned, as for a
        part that nothing names.

        Args:
            path: "model", "roles.builder".
            form: What the part is validated as.
        """
        return call_noting_problem(self.problems, self._resolve_part, path, form)

    def _named_roles(self) -> list[str]:
        """The roles that some layer gives a model of their own, such as "builder"."""
        roles: dict[str, None] = {}
        for layer in self.layers:
            roles |= dict.fromkeys(mapping_at(layer.values, "roles"))
        return list(roles)

    def resolve_only(self, path: str, form: type[P]) -> ResolvedPart[P]:
        """Resolve one part alone. Raises UserError for one mistake, ConfigError for several.

        Args:
            path: The part: "model".
            form: What it is validated as.
        """
        value = self._resolve_noting_problem(path, form)
        raise_all(self.problems)
        # Only a part that nothing names is None: a method, data set or reader without a name is a
        # mistake or has a default, and resolve_encoder is called for choices that name an encoder.
        assert value is not None
        return ResolvedPart(value, self.origins)

    def settings(self) -> Settings:
        """All that was resolved as Settings. Raises UserError for one
        mistake, ConfigError for several.
        """
        raise_all(self.problems)
        parts = self.parts
        # Without a problem all of these are there.
        assert parts.method is not None
        assert parts.dataset is not None
        assert parts.model is not None
        assert self.general is not None
        return Settings(
            choices=self.choices,
            method=parts.method,
            dataset=parts.dataset,
            model=parts.model,
            roles=parts.roles,
            encoder=parts.encoder,
            reranker=parts.reranker,
            general=self.general,
            origins=self.origins,
            warnings=tuple(self.warnings),
        )

    def _resolve_general(self) -> None:
        """Resolve seed, limit and what else a run has beside its parts, into `general`.

        Also notes their origins. Raises ConfigError.
        """
        fields = GeneralSettings.model_fields
        general_layers: list[Layer] = []
        for layer in self.layers:
            values = {key: value for key, value in layer.values.items() if key in fields}
            general_layers.append(Layer(layer.origin, values))
        tree = Tree(general_layers)
        self.general = validate_tree(GeneralSettings, tree, path="")
        for key, value in self.general:
            self.origins[key] = DEFAULT_ORIGIN
            if value is not None:
                self.origins[key] = tree.origins.get(key, DEFAULT_ORIGIN)

    def _resolve_part(self, path: str, form: type[P]) -> P | None:
        """Resolve one part, and note the origins of its values; None for a part that nothing names.

        What the layers set for the method or data set by its name holds for it too. The layers of
        method pecan, lowest first, where a user's file has `encoder.default` and sets t_p:

            Layer("file.yaml", {"encoder": "minilm"})               `encoder.default`
            Layer("configs/methods/pecan.yaml", {"params": {...}})  the preset, with what it extends
            Layer("file.yaml", {"params": {"t_p": 0.6}})            the user's layers
            Layer("--method", {"name": "pecan"})

        Args:
            path: "model", "roles.builder".
            form: What the part is validated as.

        Raises:
            UserError: One mistake.
            ConfigError: Several.
        """
        part = _PartToResolve.at(path)
        name = self._find_name(part)
        base = self._find_base(part, name)
        if base is None:
            return None
        if path in ("method", "dataset"):
            self._make_layers_of_settings_by_name(part, base)
        layers = [*base.layers, *self._own_layers(part, name, base)]
        if path == "method":
            layers = [*self._default_encoder(base), *layers]
        if path == "dataset":
            layers = _with_options_moved(layers, self.problems)
        reader = self.parts.model
        reader_is_deterministic = reader is not None and reader.deterministic
        if part.role and reader_is_deterministic:  # a setting of the run, so of every role's model
            layers.append(Layer(self.origins["model.deterministic"], {"deterministic": True}))
        layers.append(Layer(base.origin, {"name": base.name}))
        tree = Tree(layers)
        validated = validate_tree(form, tree, path)
        for leaf in flatten(validated.model_dump(mode="json")):
            self.origins[f"{path}.{leaf}"] = tree.origins.get(leaf, DEFAULT_ORIGIN)
        return validated

    def _find_name(self, part: _PartToResolve) -> _PartName:
        """Find the name of a part: of the highest layer that has one, else of the method's preset,
        else the layers' default, else ours.
        """
        settings = _settings_in_layers(self.layers, part.path)
        chosen = _highest_text(settings, "name")
        if chosen is not None:
            return _PartName(chosen.text, chosen.origin, is_chosen=True)
        if part.field in ("encoder", "reranker"):
            name_in_method = getattr(self.parts.method, part.field, None)
            if name_in_method:
                return _PartName(name_in_method, self.origins[f"method.{part.field}"])
        layers_default = _highest_text(settings, "default")
        if layers_default is not None:
            return _PartName(layers_default.text, layers_default.origin)
        if part.path == "model" and self.parts.dataset is not None:
            reader = _default_reader(self.parts.dataset.format)
            return _PartName(reader or DEFAULT_PRESETS["model"], DEFAULT_ORIGIN)
        return _PartName(DEFAULT_PRESETS.get(part.path), DEFAULT_ORIGIN)

    def _find_base(self, part: _PartToResolve, part_name: _PartName) -> _PartBase | None:
        """Find the settings that a part has before those of the user's layers; None for a part that
        is not used.

        They are those of its preset; without one, the folder or hub id by which it is named as its
        `source`, or none where the user's layers describe the part. A role without a name has all
        settings of the reader. Raises UserError.
        """
        settings = _settings_in_layers(self.layers, part.path)
        if part_name.name is None:
            return self._unnamed_base(part, settings)
        preset = _find_preset(part.kind, part_name.name)
        if preset is not None:
            return self._preset_base(part, preset, part_name.origin)
        if _is_described(part_name.name, settings):
            return _PartBase(name=part_name.name, origin=part_name.origin, layers=[])
        return _folder_base(part, part_name.name, part_name.origin)

    def _unnamed_base(self, part: _PartToResolve, settings: list[Layer]) -> _PartBase | None:
        """The base of a part without a name: for a role, all settings of the reader; None for a
        part that is not used.

        Raises UserError for a part that needs a name.

        Args:
            part: The part.
            settings: What the layers set for it.
        """
        if part.role:
            reader = self.parts.model
            if reader is None:
                return None  # its own mistake is reported already
            settings_of_reader = Layer(_AS_READER_ORIGIN, reader.model_dump(mode="json"))
            return _PartBase(
                name=reader.name, origin=_AS_READER_ORIGIN, layers=[settings_of_reader]
            )
        if part.path in ("method", "dataset"):
            singular_kind = presets.singular(part.kind)
            raise UserError(
                f"name a {singular_kind}: --{part.path} NAME  (harness list {part.path}s)"
            )
        if settings:
            raise UserError(
                f"{part.path} has settings but no name; name one with --set {part.path}=NAME"
            )
        return None

    def _preset_base(self, part: _PartToResolve, preset: str, origin: str) -> _PartBase:
        """Read a preset as the base of a part; a method's also with what it sets for the run's data
        set.

        Args:
            part: The part.
            preset: The preset's name.
            origin: What named it.
        """
        layers = presets.read(part.kind, preset)
        if part.field == "method":
            dataset = _highest_text(_settings_in_layers(self.layers, "dataset"), "name")
            dataset_name = None
            if dataset is not None:
                dataset_name = dataset.text
            layers = _with_params_for_dataset(layers, dataset_name)
        name_in_tables = str(Tree(layers).values.get("name", preset))
        return _PartBase(name=name_in_tables, origin=origin, layers=layers, preset=preset)

    def _make_layers_of_settings_by_name(self, part: _PartToResolve, base: _PartBase) -> None:
        """Change `layers`: what they set for the method or data set by its name becomes a layer of
        its own, below the one that it stands in.
        """
        names = {
            presets.comparable_name(base.preset or base.name),
            presets.comparable_name(base.name),
        }
        implementation = str(base.values.get("implementation"))
        chosen = ChosenPreset(kind=part.kind, names=names, implementation=implementation)
        self.layers = list(with_settings_by_name(self.layers, chosen, self.problems))

    def _default_encoder(self, base: _PartBase) -> list[Layer]:
        """The layers' `encoder.default` as the lowest layer of a method that uses an encoder.

        So it holds where the method's preset names none. [] where the layers have
        none, or the method uses none.
        """
        encoder = _highest_text(_settings_in_layers(self.layers, "encoder"), "default")
        if encoder is None:
            return []
        implementation = base.values.get("implementation")
        described = _highest_text(_settings_in_layers(self.layers, "method"), "implementation")
        # A method without a preset is described by the user's layers alone.
        if "implementation" not in base.values and described is not None:
            implementation = described.text
        if "encoder" not in registry.method_class(str(implementation)).encoders:
            return []
        return [Layer(encoder.origin, {"encoder": encoder.text})]

    def _own_layers(
        self, part: _PartToResolve, part_name: _PartName, base: _PartBase
    ) -> list[Layer]:
        """The values that the user's layers set for a part, lowest first.

        A layer {"name": "llama", "window": 2048} of a file sets nothing where the user chose
        another model than "llama": a sentence on what it sets is then added to `warnings`.

        Args:
            part: The part.
            part_name: Its name, and whether the user chose it.
            base: The settings that the layers replace.
        """
        layers: list[Layer] = []
        for origin, values in _settings_in_layers(self.layers, part.path):
            settings = {
                key: value for key, value in values.items() if key not in ("name", "default")
            }
            if part_name.is_chosen and _names_another_part(values, str(part_name.name)):
                if settings:
                    unused = f"{', '.join(sorted(settings))} of {part.field} '{values['name']}'"
                    self.warnings.append(
                        f"{origin} sets {unused}; not used, as '{base.name}' was chosen"
                    )
                continue
            if "default" in values:
                settings = self._settings_next_to_default(part, base, settings)
            layers.append(Layer(origin, _settings_replacing_base(part, base, origin, settings)))
        return layers

    def _settings_next_to_default(
        self, part: _PartToResolve, base: _PartBase, settings: dict[str, object]
    ) -> dict[str, object]:
        """Of the settings that a layer has next to `default`, those that hold for what is used.

        A layer {"default": "smollm2", "window": 2048, "dtype": "float32"} sets both for a loaded
        model, whether it is that default or was chosen, and the window alone for one of a server.

        Args:
            part: The part.
            base: What is used: the default, or what was chosen in its place.
            settings: The settings next to `default`.
        """
        if part.field == "model" and self.choices.app is not None:
            return {}  # an application is no language model
        if base.values.get("backend") == "endpoint":
            # A server has its own precision and device.
            return {key: value for key, value in settings.items() if key == "window"}
        return settings


class _TextWithOrigin(NamedTuple):
    """A value that a layer sets, as text, and the origin of that layer."""

    text: str
    origin: str


def _find_preset(kind: str, name: str) -> str | None:
    """The spelling of a preset's name: "Full_Context" -> "full-context"; None where there is no such
    preset.
    """
    try:
        return presets.find(kind, name)
    except UserError:
        return None


def _default_reader(dataset_format: str) -> str:
    """The name of the model that reads a data set of this format where nothing names a reader; ""
    where configs/registry.yaml names none.
    """
    readers = registry.targets("readers")  # "any other" is a key of it too
    return readers.get(dataset_format, readers["any other"])


def _with_params_for_dataset(layers: list[Layer], dataset: str | None) -> list[Layer]:
    """The layers of a method's preset, in which parameters for one data set follow as a layer.

        Layer("pecan.yaml", {"params": {"k": 3}, "by_dataset": {"nq": {"k": 5}}})  for "nq"
            -> Layer("pecan.yaml", {"params": {"k": 3}})
               Layer("pecan.yaml, by_dataset", {"params": {"k": 5}})

    Args:
        layers: The layers of the preset.
        dataset: The name of the run's data set; None where nothing names one.
    """
    expanded: list[Layer] = []
    for origin, values in layers:
        general = {key: value for key, value in values.items() if key != "by_dataset"}
        expanded.append(Layer(origin, general))
        params = presets.params_for_dataset(values, dataset)
        if params:
            expanded.append(Layer(f"{origin}, by_dataset", {"params": params}))
    return expanded


def _settings_replacing_base(
    part: _PartToResolve, base: _PartBase, origin: str, settings: Mapping[str, object]
) -> dict[str, object]:
    """The settings of a user's layer in the form in which they replace those of the part's base.

    Prompts of a method are read from the file that they may name. A `source` also takes away the
    base's package, whose path and sha256 do not hold for it. Raises UserError for prompts that
    cannot be read.

    Args:
        part: The part.
        base: The settings that are replaced.
        origin: The origin of the settings.
        settings: The settings of the layer.
    """
    changed = dict(settings)
    if part.path == "method" and "params" in changed:
        changed["params"] = with_prompts_read(changed["params"], origin)
    base_values = base.values
    names_source_alone = "source" in changed and "package" not in changed
    if names_source_alone and base_values.get("package"):
        changed |= {key: None for key in _KEYS_OF_A_PACKAGE if key in base_values}
    return changed


def _names_another_part(values: Mapping[str, object], chosen: str) -> bool:
    """Whether a layer's `name`, if it has one, is another part's than the chosen one's."""
    name_in_layer = str(values.get("name", chosen))
    return presets.comparable_name(name_in_layer) != presets.comparable_name(chosen)


def _is_described(name: str, settings: list[Layer]) -> bool:
    """Whether a layer describes the part `name`, so that it needs no preset: it says where its
    source is, its format, its class or its back end.

    Args:
        name: The part's name.
        settings: What the layers set for the part.
    """
    for layer in settings:
        is_of_part = layer.values.get("name", name) == name
        if is_of_part and layer.values.keys() & _KEYS_THAT_DESCRIBE_A_PART:
            return True
    return False


def _folder_base(part: _PartToResolve, name: str, origin: str) -> _PartBase:
    """Make the base of a model or encoder that is named by its folder, file or hub id.

    Args:
        part: The part.
        name: The folder, file or hub id.
        origin: What named it.

    Raises:
        UnknownName: The name can be none of these.
    """
    folder = Path(name).expanduser()
    is_local = folder.is_dir() or (part.field == "model" and folder.suffix == ".gguf")
    may_be_hub_id = "/" in name
    can_be_a_source = is_local or may_be_hub_id
    if part.kind not in ("models", "encoders") or not can_be_a_source:
        presets.find(part.kind, name)  # raises UnknownName
    name_in_tables = name
    if is_local or name.startswith(("/", ".", "~")):
        name_in_tables = Path(os.path.realpath(folder)).name.removesuffix(".gguf")
    return _PartBase(name=name_in_tables, origin=origin, layers=[Layer(origin, {"source": name})])


def _settings_in_layers(layers: list[Layer], path: str) -> list[Layer]:
    """What each layer sets at a dotted path, with its origin; layers that set nothing there are left
    out.

    [Layer("--set", {"model": {"window": 9}})] at "model" -> [Layer("--set", {"window": 9})]
    """
    keys = path.split(".")
    settings = [Layer(layer.origin, mapping_at(layer.values, *keys)) for layer in layers]
    return [layer for layer in settings if layer.values]


def _highest_text(settings: list[Layer], key: str) -> _TextWithOrigin | None:
    """The value of a key in the highest layer that has one, as text; None where no layer has one."""
    for layer in reversed(settings):
        if layer.values.get(key):
            return _TextWithOrigin(str(layer.values[key]), layer.origin)
    return None


def _with_options_moved(layers: list[Layer], problems: list[HarnessError]) -> list[Layer]:
    """Move options of the data set's format below "options".

    {"tokens": 9} -> {"options": {"tokens": 9}} for a format with the option `tokens`. Keys that
    neither the data set nor its format has are added to `problems`.

    Args:
        layers: The layers of the data set.
        problems: The mistakes so far; it is extended.
    """
    fields = set(DatasetConfig.model_fields)
    has_only_fields = all(fields.issuperset(layer.values) for layer in layers)
    if has_only_fields:
        return layers
    # The function that lists a format's options; found by name, as it imports the data sets.
    options_of_format = registry.import_target(registry.targets("settings")["dataset_options"])
    dataset_format = str(Tree(layers).values.get("format", ""))
    options = set(options_of_format(dataset_format))
    moved: list[Layer] = []
    for origin, values in layers:
        problems += _unknown_key_errors(origin, values, fields | options)
        own_options = {key: value for key, value in values.items() if key in options - fields}
        if own_options:
            moved.append(Layer(origin, {"options": own_options}))
        own_fields = {key: value for key, value in values.items() if key in fields}
        moved.append(Layer(origin, own_fields))
    return moved


def _unknown_key_errors(
    origin: str, values: Mapping[str, object], known: Collection[str]
) -> list[HarnessError]:
    """Make an error for each key of a data set's layer that is not among the known ones.

    Args:
        origin: The layer's origin.
        values: The layer.
        known: The keys of data sets and of this one's format.
    """
    unknown_keys = values.keys() - known
    return [
        unknown_name_error(f"key 'dataset.{key}' ({origin})", key, known) for key in unknown_keys
    ]
