"""The user's choices as layers in the shape of a RunConfig, lowest first, each with the origin of
its values.

suite's profile < suite < --profile < config files < --app < --set < flags

[Layer("profile pocket", {"model": {"window": 2048}}), Layer("--set", {"method": {"params": {"k": 3}}}), ...]

A profile or config file has any part of a RunConfig. `method`, `dataset`, `model`, `encoder`,
`reranker` and `roles.<role>` may be just a name; `{default: NAME, ...}` is used where nothing else
is named, and what stands beside `name` belongs to that one alone. It may also set methods and data
sets by name:

methods:
  "*": {chunk_tokens: 200}                            every method that has the parameter
  pecan: {t_p: 0.6, roles: {builder: small}}          one method, with models for its roles
  bm25: {prompts: own-prompts.yaml}                   prompts: a mapping, or a file with one
datasets:
  nq: {documents: retrieved.jsonl}
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.config import presets
from harness.config.applications import ChosenApplication
from harness.config.registry import method_class, trust
from harness.config.schema import (
    DatasetConfig,
    EncoderConfig,
    Frozen,
    GeneralSettings,
    MethodChoice,
    ModelConfig,
)
from harness.config.yaml_tree import (
    Layer,
    Tree,
    flatten,
    mapping_at,
    merged,
    nested,
    read_yaml,
    value_text,
)
from harness.errors import (
    HarnessError,
    UserError,
    call_noting_problem,
    close_matches,
    unknown_name_error,
)
from harness.storage.paths import with_home

if TYPE_CHECKING:
    from harness.config.suites import Suite
    from harness.method import Method

_EVERY_METHOD = "*"
"""The name under `methods` whose settings hold for every method."""
FOLDER_DATASET = "folder"
"""The data set of --documents and --questions, which need no --dataset."""
# In the order of resolving: a default model follows from the data set, an encoder from the method.
PART_SCHEMAS: dict[str, type[Frozen]] = {
    "method": MethodChoice,
    "dataset": DatasetConfig,
    "model": ModelConfig,
    "encoder": EncoderConfig,
    "reranker": EncoderConfig,
}
_KEYS_WITH_MAPPINGS = (
    *PART_SCHEMAS,
    "roles",
    "methods",
    "datasets",
)  # the other keys of a file hold a single value
_KEYS_NOT_TRUSTED_FROM_RUNS = ("trust_remote_code", "base_url", "api_key_env")


@dataclass(frozen=True)
class Choices:
    """The user's choices for a run; None for what they left open.

    Attributes:
        method: Name of a preset.
        dataset: Name of a preset.
        data: File or folder of the rows, in place of the preset's.
        documents: Folder of documents of the user's own.
        questions: File of questions about them.
        columns: What that file calls question, answer and others.
        allow_left_out: Whether rows of it that cannot be used may be left out.
        model: Preset, folder or hub id of the reader.
        profile: Name of a profile.
        limit: Number of first questions.
        sample: Number of drawn questions.
        corpus: Folder or address of an index.
        seed: The run's seed.
        sets: Values of --set: "method.k" -> 3.
        files: The files of --config, in order.
        suite: Its settings hold where nothing else is set; its lists of names are ignored.
        point: The swept keys with this run's values, which are in `sets` already (config/sweep.py).
        app: The application that answers in place of a method.
        retriever: The settings of --retriever (config/own_retriever.py).
    """

    method: str | None = None
    dataset: str | None = None
    data: str | None = None
    documents: str | None = None
    questions: str | None = None
    columns: str | None = None
    allow_left_out: bool = False
    model: str | None = None
    profile: str | None = None
    limit: int | None = None
    sample: int | None = None
    corpus: str | None = None
    seed: int | None = None
    sets: Mapping[str, object] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    suite: Suite | None = None
    point: Mapping[str, object] = field(default_factory=dict)
    app: ChosenApplication | None = None
    retriever: Mapping[str, object] | None = None


def point_text(point: Mapping[str, object]) -> str:
    """Write a point of a sweep for labels and messages; "" without a sweep.

    {"method.k": 3, "method.chunk_tokens": 150} -> "k=3 chunk_tokens=150"
    """
    texts: list[str] = []
    for key, value in point.items():
        name = key.removeprefix("method.")
        texts.append(f"{name}={value_text(value)}")
    return " ".join(texts)


def read_layers(choices: Choices, problems: list[HarnessError]) -> list[Layer]:
    """Read suite, profile, files, --set and flags as layers, lowest first.

    Args:
        choices: The user's choices.
        problems: Mistakes are added to it.

    Returns:
        The layers, whose values have the shape of a RunConfig.
    """
    file_layers = [
        Layer(name, _read_config_file(name, choices.sets, problems)) for name in choices.files
    ]
    profile = _chosen_profile(choices, file_layers, problems)
    layers = _layers_of_suite_and_profile(choices.suite, profile, problems)
    layers += file_layers
    if choices.app is not None:
        trust(choices.app.function)  # which the user named
        layers.append(Layer("--app", choices.app.settings))
    if choices.retriever is not None:
        trust(dict(choices.retriever))  # its function, which the user named
        layers.append(Layer("--retriever", {"retriever": dict(choices.retriever)}))
    for key, value in choices.sets.items():
        layers.append(Layer("--set", _layer_from_sets({key: value}, problems)))
    layers += _flag_layers(choices, problems)
    if profile.name:
        layers.append(Layer(profile.origin, {"profile": profile.name}))
    return [_checked_layer(layer, choices.method, problems) for layer in layers]


def _read_config_file(
    name: str, sets: Mapping[str, object], problems: list[HarnessError]
) -> dict[str, object]:
    """The settings in a --config file; {} where it cannot be read.

    The code that it names is trusted. It may also be the run.yaml of a run, in which the home
    folder is written as ~: code and keys that such a file names are mistakes, unless --set repeats
    them.

    Args:
        name: The file.
        sets: The values of --set, which say what of a run.yaml is trusted.
        problems: The file's mistakes are added to it.
    """
    values = call_noting_problem(problems, read_yaml, Path(name).expanduser()) or {}
    is_run = set(values) == {"config", "origins"} and isinstance(values["config"], dict)
    if not is_run:
        trust(values)
        return values
    values = dict(with_home(values["config"]))
    for key, value in flatten(values).items():  # the run may be a stranger's
        last_word = key.rpartition(".")[2]
        is_untrusted = value and last_word in _KEYS_NOT_TRUSTED_FROM_RUNS
        is_repeated_by_user = key in sets
        if is_untrusted and not is_repeated_by_user:
            problems.append(
                UserError(
                    f"{name}: {key} could run code of others or send them a key of yours; if you "
                    f"trust it, repeat it: --set {key}=VALUE"
                )
            )
    return values


@dataclass(frozen=True)
class _Profile:
    """The profile of a run.

    Attributes:
        name: Its name; "" for no profile.
        origin: What named it: "--profile".
        layers: The layers of its preset.
    """

    name: str = ""
    origin: str = ""
    layers: tuple[Layer, ...] = ()


def _chosen_profile(
    choices: Choices, file_layers: Sequence[Layer], problems: list[HarnessError]
) -> _Profile:
    """Find the profile that --profile names, else the last config file, else the suite; then read
    its layers.

    Args:
        choices: The user's choices.
        file_layers: The layers of the config files, in order.
        problems: Mistakes are added to it.

    Returns:
        The profile; without a name where none is named or the named one does not exist.
    """
    name_by_origin: dict[str, Any] = {"--profile": choices.profile}
    for layer in file_layers:
        if layer.values.get("profile"):
            name_by_origin["config file"] = layer.values["profile"]  # the last one's
    if choices.suite is not None:
        name_by_origin[_origin_of_suite(choices.suite)] = choices.suite.profile
    for origin, name in name_by_origin.items():
        if name:
            return _read_profile(str(name), origin, problems)
    return _Profile()


def _read_profile(name: str, origin: str, problems: list[HarnessError]) -> _Profile:
    """Read the layers of a profile.

    Args:
        name: The profile's name as the user wrote it.
        origin: What named it: "--profile".
        problems: Mistakes are added to it.

    Returns:
        The profile; without a name where there is none of this name, without layers where its file
        cannot be read.
    """
    preset_name = call_noting_problem(problems, presets.find, "profiles", name)
    if not preset_name:
        return _Profile()
    preset_layers = call_noting_problem(problems, presets.read, "profiles", preset_name) or []
    layers = [Layer(f"profile {preset_name}", layer.values) for layer in preset_layers]
    return _Profile(name=preset_name, origin=origin, layers=tuple(layers))


def _origin_of_suite(suite: Suite) -> str:
    """The origin of what a suite sets: "suite pecan-table1"."""
    return f"suite {suite.name}"


def _layers_of_suite_and_profile(
    suite: Suite | None, profile: _Profile, problems: list[HarnessError]
) -> list[Layer]:
    """The layers of the suite and the profile, lowest first.

    The suite lies above the profile that it names itself, and below another one.

    Args:
        suite: The suite; None without one.
        profile: The chosen profile.
        problems: Mistakes are added to it.
    """
    if suite is None:
        return [*profile.layers]
    settings: dict[str, object] = {"methods": suite.methods}
    if suite.limit is not None:
        settings["limit"] = suite.limit
    settings |= _layer_from_sets(suite.sets, problems)
    suite_layer = Layer(_origin_of_suite(suite), settings)
    suite_names_profile = profile.origin == _origin_of_suite(suite)
    if suite_names_profile:
        return [*profile.layers, suite_layer]
    return [suite_layer, *profile.layers]


def _flag_layers(choices: Choices, problems: list[HarnessError]) -> list[Layer]:
    """Make a layer of each flag that was given: Layer("--limit", {"limit": 5, "sample": None}).

    Args:
        choices: The user's choices.
        problems: Flags that do not go together are added to it.
    """
    flags: dict[str, object] = {
        "method.name": choices.method,
        "dataset.name": choices.dataset,
        "model.name": choices.model,
        "dataset.data": choices.data,
        "seed": choices.seed,
        "limit": choices.limit,
        "sample": choices.sample,
        "corpus": choices.corpus,
    }
    flags |= _flags_of_own_folder(choices, problems)
    given_flags = {key: value for key, value in flags.items() if value is not None}
    problems += _flag_errors(choices, given_flags)
    layers: list[Layer] = []
    for key, value in given_flags.items():
        values = nested(key, value)
        # --limit takes the place of a sample that a suite or a file sets, and the reverse.
        if key == "limit":
            values["sample"] = None
        if key == "sample":
            values["limit"] = None
        flag = key.removesuffix(".name").rpartition(".")[2]  # "dataset.data" -> "data"
        layers.append(Layer(f"--{flag}", values))
    return layers


def _flag_errors(choices: Choices, given_flags: Mapping[str, object]) -> list[UserError]:
    """Make an error for --limit beside --sample, and for each flag whose key --set has too.

    Args:
        choices: The user's choices.
        given_flags: Dotted key ("dataset.data", "model.name") -> the value of its flag.
    """
    errors: list[UserError] = []
    if choices.limit is not None and choices.sample is not None:
        errors.append(
            UserError("--limit takes the first questions and --sample draws some; give one of them")
        )
    for key in choices.sets:
        if key in given_flags or f"{key}.name" in given_flags:
            sentence = f"'{key}' is given twice: by --set and by the flag of that name; keep one"
            errors.append(UserError(sentence))
    return errors


def _flags_of_own_folder(choices: Choices, problems: list[HarnessError]) -> dict[str, object]:
    """What --documents, --questions and --columns set of the data set, by dotted key:
    {"dataset.documents": "docs/", "dataset.data": "questions.csv", ...}; {} without them.

    Args:
        choices: The user's choices.
        problems: Flags that do not go together are added to it.
    """
    is_any_given = choices.documents or choices.questions or choices.columns
    if not is_any_given:
        return {}
    are_both_given = choices.documents and choices.questions
    has_other_dataset = choices.data or choices.dataset not in (None, FOLDER_DATASET)
    if not are_both_given or has_other_dataset:
        sentence = "--documents DIR and --questions FILE go together, without --dataset and --data"
        problems.append(UserError(sentence))
        return {}
    flags: dict[str, object] = {
        "dataset.data": choices.questions,
        "dataset.documents": choices.documents,
        "dataset.columns": choices.columns,
    }
    if choices.allow_left_out:
        flags["dataset.allow_left_out"] = True
    return flags


def _layer_from_sets(sets: Mapping[str, object], problems: list[HarnessError]) -> dict[str, object]:
    """Turn the values of --set, or of a suite, into one layer; the code that they name is trusted.

    {"method.k": 3, "encoder": "e5"} -> {"method": {"params": {"k": 3}}, "encoder": {"name": "e5"}}

    Prompts of a method are read from the file that they may name.

    Args:
        sets: Dotted key -> value.
        problems: Keys that cannot be set so are added to it.
    """
    layer: dict[str, object] = {}
    trust(*sets.values())
    for key, value in sets.items():
        root, _, key_in_part = key.partition(".")
        if root in ("profile", "suite", "data", "out"):
            problems.append(UserError(f"'{root}' is chosen with --{root}, not with --set"))
        elif root == "methods":
            advice = f"write --set method.{key.rpartition('.')[2]}=VALUE"
            problems.append(UserError(f"'{key}' belongs into a file (--config); {advice}"))
        elif root == "method" and key_in_part:
            params = call_noting_problem(
                problems, with_prompts_read, nested(key_in_part, value), "--set"
            )
            layer = merged(layer, {"method": {"params": params or {}}})
        elif _names_a_part(key, value):
            layer = merged(layer, nested(f"{key}.name", value_text(value)))
        else:
            layer = merged(layer, nested(key, value))
    return layer


def _names_a_part(key: str, value: Any) -> bool:
    """Whether a value of --set is the name of a part: encoder=NAME, roles.builder=NAME.

    Args:
        key: The dotted key.
        value: Its value.
    """
    if isinstance(value, dict):
        return False
    root, _, role = key.partition(".")
    is_model_of_role = root == "roles" and role != "" and "." not in role
    return key in PART_SCHEMAS or is_model_of_role


def _checked_layer(layer: Layer, method: str | None, problems: list[HarnessError]) -> Layer:
    """A copy of a layer with a part's mere name as {"name": NAME}, and without keys that it cannot
    have.

    {"model": "llama"} -> {"model": {"name": "llama"}}

    A part that is None is left out too, as if the layer did not name it.

    Args:
        layer: The layer.
        method: The run's method, for hints on unknown keys.
        problems: Mistakes are added to it; such a key is left out.
    """
    checked: dict[str, object] = {}
    for key, raw_value in layer.values.items():
        value = _names_as_mappings(key, raw_value)
        if key in GeneralSettings.model_fields:
            checked[key] = value
        elif key not in _KEYS_WITH_MAPPINGS:
            first_leaf = next(iter(flatten(value, key)))
            problems.append(_unknown_key_error(first_leaf, layer.origin, method))
        elif isinstance(value, dict):
            checked[key] = value
        elif value is not None:
            problems.append(UserError(f"{layer.origin}: '{key}' must be a mapping, not {value!r}"))
    return Layer(layer.origin, checked)


def _names_as_mappings(key: str, value: Any) -> Any:
    """Write a part's mere name as {"name": NAME}; in the value of "roles" for each role.

    ("model", "llama")             -> {"name": "llama"}
    ("roles", {"builder": "llama"}) -> {"builder": {"name": "llama"}}
    """
    if key in PART_SCHEMAS and isinstance(value, str):
        return {"name": value}
    if key == "roles" and isinstance(value, dict):
        roles: dict[str, object] = {}
        for role, model in value.items():
            if not isinstance(model, dict):
                model = {"name": model}
            roles[role] = model
        return roles
    return value


def _unknown_key_error(key: str, origin: str, method: str | None) -> UserError:
    """Make the error for a key that no part of a configuration has; it names keys that may be
    meant.

    Args:
        key: The key: "k", where "method.k" is meant.
        origin: Where it is from.
        method: The run's method, whose settings may be meant; None if unknown.
    """
    top_level_keys = [*_KEYS_WITH_MAPPINGS, *GeneralSettings.model_fields]
    known_keys: list[str] = []
    for part_name, schema in PART_SCHEMAS.items():
        known_keys += [f"{part_name}.{name}" for name in schema.model_fields]
    with contextlib.suppress(UserError):  # an unknown method; its own sentence says so
        implementation = Tree(presets.read("methods", str(method))).values.get("implementation")
        method_type = method_class(str(implementation))
        known_keys += [f"method.{name}" for name in method_type.Config.model_fields]
    last_word = key.rpartition(".")[2]
    keys_with_same_word = [name for name in known_keys if name.partition(".")[2] == last_word]
    subject = f"key '{key}' ({origin})"
    if keys_with_same_word:  # the sentence asks whether the first of them is meant
        return unknown_name_error(subject, keys_with_same_word[0], keys_with_same_word[:1])
    close_keys = close_matches(key, [*known_keys, *top_level_keys])
    return unknown_name_error(subject, key, close_keys or top_level_keys)


@dataclass(frozen=True)
class ChosenPreset:
    """The method or data set of a run, which layers may set by its name.

    Attributes:
        kind: "methods" or "datasets".
        names: Its names, by presets.comparable_name.
        implementation: The short name or "module:Class" of the method's class.
    """

    kind: str
    names: Collection[str]
    implementation: str

    def is_called(self, name: str) -> bool:
        """Whether this is one of its names; case, "-" and "_" do not count."""
        return presets.comparable_name(name) in self.names


def with_settings_by_name(
    layers: list[Layer], chosen: ChosenPreset, problems: list[HarnessError]
) -> Iterator[Layer]:
    """Yield every layer, and before it what it sets for the chosen method or data set by name.

        before Layer("file.yaml", {"methods": {"pecan": {"t_p": 0.6}}}), if pecan is chosen,
        comes  Layer("file.yaml", {"method": {"params": {"t_p": 0.6}}})

    Settings for "*", every method, come before those by name, and parameters that the chosen
    method does not have are left out of them. An unknown name, or an entry that is no mapping, is
    a mistake.

    Args:
        layers: Lowest first.
        chosen: The preset.
        problems: Mistakes are added to it.
    """
    for layer in layers:
        entries = mapping_at(layer.values, chosen.kind)
        yield from _settings_by_name(layer.origin, entries, chosen, problems)
        yield layer


def _settings_by_name(
    origin: str,
    entries: Mapping[str, object],
    chosen: ChosenPreset,
    problems: list[HarnessError],
) -> Iterator[Layer]:
    """Yield what one layer sets for a preset by its name, as layers of their own, "*" first.

        {"pecan": {"t_p": 0.6}, "bm25": {"k": 3}}, if pecan is chosen
            -> Layer(origin, {"method": {"params": {"t_p": 0.6}}})

    Entries of other presets' names set nothing here.

    Args:
        origin: The layer's origin.
        entries: Its `methods` or `datasets`: name -> settings.
        chosen: The preset.
        problems: Mistakes are added to it: an entry that is no mapping, or is of no preset.
    """
    if not entries:
        return
    kind = chosen.kind
    known_names = {presets.comparable_name(name): name for name in presets.names(kind)}
    every_method_first = sorted(entries, key=lambda name: name != _EVERY_METHOD)
    for name in every_method_first:
        entry = entries[name]
        if not isinstance(entry, dict):
            problems.append(UserError(f"{origin}: {kind}.{name} must be a mapping of its settings"))
            continue
        settings = _settings_for_chosen(name, entry, chosen, origin)
        if settings is not None:
            # Its keys are known ones, so the hint on an unknown key needs no method.
            yield _checked_layer(Layer(origin, settings), method=None, problems=problems)
        elif presets.comparable_name(name) not in known_names:
            subject = f"{presets.singular(kind)} '{name}' ({origin})"
            problems.append(unknown_name_error(subject, name, known_names.values()))


def _settings_for_chosen(
    name: str, entry: Mapping[str, object], chosen: ChosenPreset, origin: str
) -> dict[str, object] | None:
    """What an entry of `methods` or `datasets` sets for the chosen preset, as settings of a run;
    None where the entry is of another preset.

    "pecan", {"t_p": 0.6} -> {"method": {"params": {"t_p": 0.6}}}
    "musique", {"data": "d.json"} -> {"dataset": {"data": "d.json"}}

    Args:
        name: The name that the entry stands under; "*" for every method.
        entry: Its settings. Of those for every method, parameters that the chosen one lacks are
            left out.
        chosen: The preset.
        origin: Where the entry is from.
    """
    if chosen.kind == "methods" and name == _EVERY_METHOD:
        settings = _settings_of_method(entry)
        method_type = method_class(chosen.implementation)
        params = mapping_at(settings, "method", "params")
        settings["method"] = {"params": _params_that_method_has(method_type, params, origin)}
        return settings
    if not chosen.is_called(name):
        return None
    if chosen.kind == "methods":
        return _settings_of_method(entry)
    return {"dataset": entry}


def _settings_of_method(entry: Mapping[str, object]) -> dict[str, object]:
    """Turn the entry of a method, as a file has it, into settings of a run.

    {"k": 3, "roles": {"builder": "small"}}
        -> {"method": {"params": {"k": 3}}, "roles": {"builder": "small"}}
    """
    params = {name: value for name, value in entry.items() if name != "roles"}
    settings: dict[str, object] = {"method": {"params": params}}
    if "roles" in entry:
        settings["roles"] = entry["roles"]
    return settings


def _params_that_method_has(
    method_type: type[Method], params: dict[str, object], origin: str
) -> dict[str, object]:
    """Those of the parameters set for every method that this method has.

    Of `prompts` these are the ones with the name of one of the method's, or a name so close that it
    is a typing error, which is reported later.

    Args:
        method_type: The method.
        params: The parameters by name.
        origin: Where they are from.
    """
    fields = method_type.Config.model_fields
    own_params = {name: value for name, value in params.items() if name in fields}
    if "prompts" not in own_params:
        return own_params
    method = method_type(method_type.Config())
    prompt_names = sorted({prompt.name for prompt in method.templates()})
    replacements = with_prompts_read(own_params, origin)["prompts"]
    own_params["prompts"] = {
        name: turns for name, turns in replacements.items() if close_matches(name, prompt_names)
    }
    return own_params


def with_prompts_read(params: Any, origin: str) -> Any:
    """Read `prompts` among a method's parameters, a mapping or the name of a file with one.

    {"k": 3, "prompts": {"answer": "Who?"}} -> {"k": 3, "prompts": {"answer": {"user": "Who?"}}}

    Parameters without prompts are returned as they are. Raises UserError for prompts that are
    neither a mapping nor a file with one.

    Args:
        params: The parameters.
        origin: Where they are from.
    """
    if not isinstance(params, dict) or "prompts" not in params:
        return params
    prompts = params["prompts"]
    if isinstance(prompts, str):
        prompts = read_yaml(Path(prompts).expanduser(), prompts)
    if not isinstance(prompts, dict):
        raise UserError(
            f"{origin}: prompts must be a mapping of names to texts, or a YAML file with one"
        )
    turns_by_prompt: dict[str, object] = {}
    for name, text in prompts.items():
        if not isinstance(text, dict):
            text = {"user": text}
        turns_by_prompt[str(name)] = text
    return {**params, "prompts": turns_by_prompt}
