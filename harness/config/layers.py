"""The user's choices as layers in the shape of a RunConfig, lowest first, each with the origin of
its values.

suite's profile < suite < --profile < config files < --app < --set < flags

[("profile pocket", {"model": {"window": 2048}}), ("--set", {"method": {"params": {"k": 3}}}), ...]

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
from harness.errors import HarnessError, UserError, attempt, close_matches, unknown
from harness.storage.paths import with_home

if TYPE_CHECKING:
    from harness.config.suites import Suite
    from harness.method import Method

FOLDER = "folder"
"""The data set of --documents and --questions, which need no --dataset."""
# In the order of resolving: a default model follows from the data set, an encoder from the method.
PARTS: dict[str, type[Frozen]] = {
    "method": MethodChoice,
    "dataset": DatasetConfig,
    "model": ModelConfig,
    "encoder": EncoderConfig,
    "reranker": EncoderConfig,
}
_MAPPINGS = (*PARTS, "roles", "methods", "datasets")  # the other keys of a file hold a single value
_UNTRUSTED = ("trust_remote_code", "base_url", "api_key_env")


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


def read_layers(c: Choices, problems: list[HarnessError]) -> list[Layer]:
    """Read suite, profile, files, --set and flags as layers, lowest first.

    Args:
        c: The user's choices.
        problems: Mistakes are added to it.

    Returns:
        (origin, settings in the shape of a RunConfig) for each layer.
    """
    files = [(name, _config_file(name, c.sets, problems)) for name in c.files]
    profile = _chosen_profile(c, files, problems)
    layers = _suite_and_profile(c.suite, profile, problems)
    layers += files
    if c.app is not None:
        trust(c.app.function)  # which the user named
        layers.append(("--app", c.app.settings))
    if c.retriever is not None:
        trust(dict(c.retriever))  # its function, which the user named
        layers.append(("--retriever", {"retriever": dict(c.retriever)}))
    for key, value in c.sets.items():
        layers.append(("--set", _layer_of({key: value}, problems)))
    layers += _flag_layers(c, problems)
    if profile.name:
        layers.append((profile.origin, {"profile": profile.name}))
    return [
        (origin, _checked_layer(values, origin, c.method, problems)) for origin, values in layers
    ]


def _config_file(
    name: str, sets: Mapping[str, object], problems: list[HarnessError]
) -> dict[str, object]:
    """The settings in a --config file, which may be a run.yaml.

    Args:
        name: The file.
        sets: The values of --set, which say what of a run.yaml is trusted.
        problems: The file's mistakes are added to it.
    """
    values = attempt(problems, read_yaml, Path(name).expanduser()) or {}
    is_run = set(values) == {"config", "origins"} and isinstance(values["config"], dict)
    if not is_run:
        trust(values)
        return values
    values = dict(with_home(values["config"]))
    for key, value in flatten(values).items():  # the run may be a stranger's
        if value and key not in sets and key.rpartition(".")[2] in _UNTRUSTED:
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


def _chosen_profile(c: Choices, files: Sequence[Layer], problems: list[HarnessError]) -> _Profile:
    """Find the profile that --profile names, else the last config file, else the suite.

    Args:
        c: The user's choices.
        files: The layers of the config files, in order.
        problems: Mistakes are added to it; then there is no profile.
    """
    named: list[tuple[str, Any]] = [("--profile", c.profile)]
    for _, values in reversed(files):
        named.append(("config file", values.get("profile")))
    if c.suite is not None:
        named.append((_label_of(c.suite), c.suite.profile))
    for origin, name in named:
        if not name:
            continue
        found = attempt(problems, presets.find, "profiles", str(name))
        if not found:
            return _Profile()
        layers: list[Layer] = []
        for _, values in attempt(problems, presets.read, "profiles", found) or []:
            layers.append((f"profile {found}", values))
        return _Profile(found, origin, tuple(layers))
    return _Profile()


def _label_of(suite: Suite) -> str:
    """The origin of what a suite sets: "suite pecan-table1"."""
    return f"suite {suite.name}"


def _suite_and_profile(
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
    settings |= _layer_of(suite.sets, problems)
    of_suite = (_label_of(suite), settings)
    if profile.origin == _label_of(suite):
        return [*profile.layers, of_suite]
    return [of_suite, *profile.layers]


def _flag_layers(c: Choices, problems: list[HarnessError]) -> list[Layer]:
    """Make a layer of each flag that was given: ("--limit", {"limit": 5, "sample": None}).

    Args:
        c: The user's choices.
        problems: Flags that do not go together are added to it.
    """
    flags: dict[str, object] = {
        "method.name": c.method,
        "dataset.name": c.dataset,
        "model.name": c.model,
        "dataset.data": c.data,
        "seed": c.seed,
        "limit": c.limit,
        "sample": c.sample,
        "corpus": c.corpus,
    }
    flags |= _own_folder_flags(c, problems)
    given = {key: value for key, value in flags.items() if value is not None}
    if c.limit is not None and c.sample is not None:
        problems.append(
            UserError("--limit takes the first questions and --sample draws some; give one of them")
        )
    for key in c.sets:
        if key in given or f"{key}.name" in given:
            sentence = f"'{key}' is given twice: by --set and by the flag of that name; keep one"
            problems.append(UserError(sentence))
    layers: list[Layer] = []
    for key, value in given.items():
        values = nested(key, value)
        # --limit takes the place of a sample that a suite or a file sets, and the reverse.
        if key == "limit":
            values["sample"] = None
        if key == "sample":
            values["limit"] = None
        name = key.removesuffix(".name").rpartition(".")[2]
        layers.append((f"--{name}", values))
    return layers


def _own_folder_flags(c: Choices, problems: list[HarnessError]) -> dict[str, object]:
    """What --documents and --questions set of the data set:
    {"dataset.documents": ..., ...}; {} without.

    Args:
        c: The user's choices.
        problems: Flags that do not go together are added to it.
    """
    if not c.documents and not c.questions and not c.columns:
        return {}
    if not c.documents or not c.questions or c.data or c.dataset not in (None, FOLDER):
        sentence = "--documents DIR and --questions FILE go together, without --dataset and --data"
        problems.append(UserError(sentence))
        return {}
    flags: dict[str, object] = {
        "dataset.data": c.questions,
        "dataset.documents": c.documents,
        "dataset.columns": c.columns,
    }
    if c.allow_left_out:
        flags["dataset.allow_left_out"] = True
    return flags


def _layer_of(sets: Mapping[str, object], problems: list[HarnessError]) -> dict[str, object]:
    """Turn the values of --set, or of a suite, into one layer; the code that they name is trusted.

    {"method.k": 3, "encoder": "e5"} -> {"method": {"params": {"k": 3}}, "encoder": {"name": "e5"}}

    Args:
        sets: Dotted key -> value.
        problems: Keys that cannot be set so are added to it.
    """
    layer: dict[str, object] = {}
    trust(*sets.values())
    for key, value in sets.items():
        root, _, rest = key.partition(".")
        if root in ("profile", "suite", "data", "out"):
            problems.append(UserError(f"'{root}' is chosen with --{root}, not with --set"))
        elif root == "methods":
            instead = f"write --set method.{key.rpartition('.')[2]}=VALUE"
            problems.append(UserError(f"'{key}' belongs into a file (--config); {instead}"))
        elif root == "method" and rest:
            params = attempt(problems, with_prompts, nested(rest, value), "--set")
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
    root, _, rest = key.partition(".")
    is_role = root == "roles" and rest != "" and "." not in rest
    return key in PARTS or is_role


def _checked_layer(
    values: Mapping[str, object], origin: str, method: str | None, problems: list[HarnessError]
) -> dict[str, object]:
    """Check the keys of a layer, and write a part's mere name as {"name": NAME}.

    {"model": "llama"} -> {"model": {"name": "llama"}}

    Args:
        values: The layer's settings.
        origin: Where they are from.
        method: The run's method, for hints on unknown keys.
        problems: Mistakes are added to it; such a key is left out.
    """
    layer: dict[str, object] = {}
    for key, given in values.items():
        value = _with_names(key, given)
        if key in GeneralSettings.model_fields or (key in _MAPPINGS and isinstance(value, dict)):
            layer[key] = value
        elif key not in _MAPPINGS:
            first_leaf = next(iter(flatten(value, key)))
            problems.append(_unknown_key(first_leaf, origin, method))
        elif value is not None:
            problems.append(UserError(f"{origin}: '{key}' must be a mapping, not {value!r}"))
    return layer


def _with_names(key: str, value: Any) -> Any:
    """Write a part's mere name as {"name": NAME}; in the value of "roles" for each role.

    ("model", "llama")             -> {"name": "llama"}
    ("roles", {"builder": "llama"}) -> {"builder": {"name": "llama"}}
    """
    if key in PARTS and isinstance(value, str):
        return {"name": value}
    if key == "roles" and isinstance(value, dict):
        roles: dict[str, object] = {}
        for role, model in value.items():
            if not isinstance(model, dict):
                model = {"name": model}
            roles[role] = model
        return roles
    return value


def _unknown_key(key: str, origin: str, method: str | None) -> UserError:
    """Make the error for a key that no part of a configuration has;
    it names keys that may be meant.

    Args:
        key: The key: "k", where "method.k" is meant.
        origin: Where it is from.
        method: The run's method, whose settings may be meant; None if unknown.
    """
    roots = [*_MAPPINGS, *GeneralSettings.model_fields]
    known: list[str] = []
    for part, schema in PARTS.items():
        known += [f"{part}.{name}" for name in schema.model_fields]
    with contextlib.suppress(UserError):  # an unknown method; its own sentence says so
        implementation = Tree(presets.read("methods", str(method))).values.get("implementation")
        cls = method_class(str(implementation))
        known += [f"method.{name}" for name in cls.Config.model_fields]
    last_word = key.rpartition(".")[2]
    same = [name for name in known if name.partition(".")[2] == last_word]
    what = f"key '{key}' ({origin})"
    if same:
        return unknown(what, same[0], same[:1])
    near = close_matches(key, [*known, *roots])
    return unknown(what, key, near or roots)


@dataclass(frozen=True)
class ChosenPreset:
    """The method or data set of a run, which layers may set by its name.

    Attributes:
        kind: "methods" or "datasets".
        names: Its names, by presets.fold.
        implementation: The method's class.
    """

    kind: str
    names: Collection[str]
    implementation: str

    def is_called(self, name: str) -> bool:
        """Whether this is one of its names; case, "-" and "_" do not count."""
        return presets.fold(name) in self.names


def chosen_by_name(
    layers: list[Layer], chosen: ChosenPreset, problems: list[HarnessError]
) -> Iterator[Layer]:
    """Yield every layer, and before it what it sets for the chosen method or data set by name.

        before ("file.yaml", {"methods": {"pecan": {"t_p": 0.6}}}), if pecan is chosen,
        comes  ("file.yaml", {"method": {"params": {"t_p": 0.6}}})

    Settings for "*", every method, come before those by name, and parameters that the chosen
    method does not have are left out of them. An unknown name, or an entry that is no mapping, is
    a mistake.

    Args:
        layers: Lowest first.
        chosen: The preset.
        problems: Mistakes are added to it.
    """
    for origin, values in layers:
        entries = mapping_at(values, chosen.kind)
        yield from _settings_by_name(origin, entries, chosen, problems)
        yield origin, values


def _settings_by_name(
    origin: str,
    entries: Mapping[str, object],
    chosen: ChosenPreset,
    problems: list[HarnessError],
) -> Iterator[Layer]:
    """Yield what one layer sets for a preset by its name, as layers of their own, "*" first.

    Args:
        origin: The layer's origin.
        entries: Its `methods` or `datasets`: name -> settings.
        chosen: The preset.
        problems: Mistakes are added to it.
    """
    if not entries:
        return
    kind = chosen.kind
    known = {presets.fold(name): name for name in presets.names(kind)}
    every_method_first = sorted(entries, key=lambda key: key != "*")
    for key in every_method_first:
        entry = entries[key]
        if not isinstance(entry, dict):
            problems.append(UserError(f"{origin}: {kind}.{key} must be a mapping of its settings"))
        elif kind == "datasets" and chosen.is_called(key):
            yield origin, {"dataset": entry}
        elif kind == "methods" and (key == "*" or chosen.is_called(key)):
            settings = _settings_of_method(entry)
            if key == "*":
                cls = method_class(chosen.implementation)
                params = mapping_at(settings, "method", "params")
                settings["method"] = {"params": _params_that_fit(cls, params, origin)}
            yield origin, _checked_layer(settings, origin, None, problems)
        elif presets.fold(key) not in known:
            what = f"{presets.singular(kind)} '{key}' ({origin})"
            problems.append(unknown(what, key, known.values()))


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


def _params_that_fit(
    cls: type[Method], params: dict[str, object], origin: str
) -> dict[str, object]:
    """Of the parameters set for every method, keep those that this method has.

    Of `prompts` it keeps those with the name of one of the method's, or a name so close that it is
    a typing error, which is reported later.

    Args:
        cls: The method.
        params: The parameters by name.
        origin: Where they are from.
    """
    params = {name: value for name, value in params.items() if name in cls.Config.model_fields}
    if "prompts" in params:
        method = cls(cls.Config())
        known = sorted({prompt.name for prompt in method.templates()})
        replaced = with_prompts(params, origin)["prompts"]
        own = {name: turns for name, turns in replaced.items() if close_matches(name, known)}
        params["prompts"] = own
    return params


def with_prompts(params: Any, origin: str) -> Any:
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
    turns: dict[str, object] = {}
    for name, text in prompts.items():
        if not isinstance(text, dict):
            text = {"user": text}
        turns[str(name)] = text
    return {**params, "prompts": turns}
