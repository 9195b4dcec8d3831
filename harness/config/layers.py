"""The user's choices as layers in the shape of a RunConfig, lowest first, each with the origin of its values.

suite's profile < suite < --profile < config files < --set < flags

[("profile pocket", {"model": {"window": 2048}}), ("--set", {"method": {"params": {"k": 3}}}), ...]

A profile or config file may set methods and data sets by name:

methods:
  "*": {chunk_tokens: 200}                            every method that has the parameter
  pecan: {t_p: 0.6, roles: {builder: small}}          one method, with models for its roles
  bm25: {prompts: own-prompts.yaml}                   prompts: a mapping, or a file with one
datasets:
  nq: {documents: retrieved.jsonl}
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.config import presets
from harness.config.registry import method_class, trust
from harness.config.schema import DatasetConfig, EncoderConfig, ModelConfig
from harness.config.yaml_tree import Layer, Raw, Tree, flatten, merged, nested, parsed, read_yaml, value_text
from harness.errors import ConfigError, HarnessError, UserError, attempt, close_matches, raise_all, unknown
from harness.storage.paths import with_home

if TYPE_CHECKING:
    from harness.config.suites import Suite

FOLDER = "folder"  # the data set of --documents and --questions
PARTS = ("method", "dataset", "model", "encoder", "reranker")
SCALARS = ("seed", "limit", "sample", "sample_seed", "failed", "keep_prompts", "cache")

_MAPPINGS = (*PARTS, "roles", "methods", "datasets")  # the other keys of a file hold a single value


@dataclass(frozen=True)
class Choices:
    """The user's choices. sets: "method.k" -> value (a Raw is parsed as YAML); files: config files in order.

    suite: its settings hold where nothing else is set; its lists of names are ignored. point: the swept keys with this
    run's values, which are in `sets` already (config/sweep.py).
    """

    method: str | None = None
    dataset: str | None = None
    data: str | None = None
    model: str | None = None
    profile: str | None = None
    limit: int | None = None
    sample: int | None = None
    seed: int | None = None
    sets: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    suite: Suite | None = None
    point: Mapping[str, Any] = field(default_factory=dict)


def point_text(point: Mapping[str, Any]) -> str:
    """A point of a sweep as labels and messages say it: "k=3 chunk_tokens=150", "" without a sweep."""
    return " ".join(f"{key.removeprefix('method.')}={value_text(value)}" for key, value in point.items())


def folder_settings(
    documents: str | None, questions: str | None, data: object, datasets: Sequence[str]
) -> tuple[str, dict[str, Any]]:
    """Settings for --documents and --questions: (the value of `data`, settings of the data set FOLDER).

    data, datasets: as given with --data and --dataset. Raises ConfigError unless both options are given without these.
    """
    if documents is None or questions is None or data or set(datasets) - {FOLDER}:
        raise ConfigError(["--documents DIR and --questions FILE go together, without --dataset and --data"])
    return questions, {"dataset.documents": documents}


def read_layers(c: Choices, problems: list[HarnessError]) -> list[Layer]:
    """Read suite, profile, files, --set and flags as layers, lowest first; mistakes are added to `problems`."""
    # 1. Config files. A run.yaml has the configuration beside its origins, with ~ for the home folder; what it names
    #    is not trusted, as the run may be a stranger's.
    files: list[Layer] = []
    for name in c.files:
        values = attempt(problems, read_yaml, Path(name).expanduser()) or {}
        if set(values) == {"config", "origins"} and isinstance(values["config"], dict):
            values = dict(with_home(values["config"]))
            problems += map(UserError, _untrusted_settings(name, values, c.sets))
        else:
            trust(values)
        files.append((name, values))
    # 2. The profile: of --profile, else of the last file that names one, else of the suite.
    candidates = [("--profile", c.profile), *(("config file", values.get("profile")) for _, values in reversed(files))]
    candidates += [] if c.suite is None else [(f"suite {c.suite.name}", c.suite.profile)]
    origin, profile_name = next((choice for choice in candidates if choice[1]), ("default", None))
    profile = None if profile_name is None else attempt(problems, presets.find, "profiles", str(profile_name))
    profile_layers = [] if profile is None else attempt(problems, presets.read, "profiles", profile) or []
    layers: list[Layer] = [(f"profile {profile}", values) for _, values in profile_layers]
    # 3. The suite, above the profile that it names and below another one. Its settings are one layer, so that those
    #    beside a model's name belong to that model.
    if c.suite is not None:
        label = f"suite {c.suite.name}"
        settings: dict[str, Any] = {} if c.suite.limit is None else {"limit": c.suite.limit}
        for item in c.suite.sets.items():
            settings = merged(settings, attempt(problems, _assignment_layer, *item, label, c.method) or {})
        suite: list[Layer] = [(label, {"methods": dict(c.suite.params)}), (label, settings)]
        layers = [*layers, *suite] if origin.startswith("suite ") else [*suite, *layers]
    layers = [(label, _checked_layer(problems, values, label)) for label, values in [*layers, *files]]
    # 4. The command line.
    flags: dict[str, Any] = {"method.name": c.method, "dataset.name": c.dataset, "model.name": c.model}
    flags |= {"dataset.data": c.data, "seed": c.seed, "limit": c.limit, "sample": c.sample}
    if c.limit is not None and c.sample is not None:
        problems.append(UserError("--limit takes the first questions and --sample draws some; give one of them"))
    for key, value in c.sets.items():
        if flags.get(key, flags.get(f"{key}.name")) is not None:
            problems.append(UserError(f"'{key}' is given twice: by --set and by the flag of that name; keep one"))
        layers.append(("--set", attempt(problems, _assignment_layer, key, value, "--set", c.method) or {}))
    for key, value in flags.items():
        if value is not None:  # --limit takes the place of a sample that a suite or a file sets, and the reverse
            other = {"limit": {"sample": None}, "sample": {"limit": None}}.get(key, {})
            layers.append((f"--{key.removesuffix('.name').rpartition('.')[2]}", nested(key, value) | other))
    return layers if profile is None else [(origin, {"profile": profile}), *layers]


def _checked_layer(problems: list[HarnessError], values: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """A layer with "model: NAME" as {"name": NAME}, without `profile`; mistakes are added to `problems`."""
    layer: dict[str, Any] = {}
    for key, value in values.items():
        if key in PARTS and isinstance(value, str):
            value = {"name": value}
        elif key == "roles" and isinstance(value, dict):
            value = {role: model if isinstance(model, dict) else {"name": model} for role, model in value.items()}
        if key not in (*_MAPPINGS, "profile", *SCALARS):
            problems.append(unknown(f"key '{key}' ({origin})", key, (*_MAPPINGS, "profile", *SCALARS)))
        elif key in SCALARS or isinstance(value, dict):
            layer[key] = value
        elif key != "profile" and value is not None:
            problems.append(UserError(f"{origin}: '{key}' must be a mapping, not {value!r}"))
    return layer


def _untrusted_settings(label: str, values: dict[str, Any], sets: Mapping[str, Any]) -> Iterator[str]:
    """Yield an error for each setting of a run.yaml that runs code or sends a key and that --set does not repeat.

    The run may be a stranger's. label: the file, for messages; values: its content; sets: the user's --set.
    """
    settings = flatten(values)
    for key, value in settings.items():
        path, _, name = key.rpartition(".")
        variable = f"{path}.api_key_env"
        if name == "trust_remote_code" and value and not sets.get(key):
            yield f"{label}: {key} would execute code of a model's repository; if you trust it, add: --set {key}=true"
        elif name == "base_url" and value and settings.get(variable, "") is not None and not {key, variable} <= {*sets}:
            # Neither value is repeated: a careless file has the key, or a password, in it.
            yield (
                f"{label}: would send an environment variable of yours to a server; if you trust that server, name "
                f"both yourself: --set {variable}=NAME {key}=URL"
            )


def _assignment_layer(key: str, value: Any, origin: str, method: str | None) -> dict[str, Any]:
    """Turn a --set key and value into a layer: "method.k", 3 -> {"method": {"params": {"k": 3}}}; its code is trusted.

    A Raw value stays as typed: Tree.merge parses it. origin: for messages, "--set"; method: of the run, for hints.
    Raises UserError for a key that cannot be set, and for a value that is no YAML.
    """
    root, _, rest = key.partition(".")
    if root in ("profile", "suite", "data", "out"):
        raise UserError(f"'{root}' is chosen with --{root}, not with --set")
    if root not in (*PARTS, "roles", "datasets", *SCALARS):
        parts = (("dataset", DatasetConfig), ("model", ModelConfig), ("encoder", EncoderConfig))
        known = [f"{part}.{name}" for part, config in parts for name in config.model_fields]
        with contextlib.suppress(UserError):  # an unknown method; its own sentence says so
            tree = Tree(presets.read("methods", str(method)))
            cls = method_class(str(tree.values.get("implementation")))
            known += [f"method.{name}" for name in cls.Config.model_fields]
        same = [name for name in known if name.partition(".")[2] == key.rpartition(".")[2]]
        matches = same or close_matches(key, known) or [*PARTS, "roles", *SCALARS]
        raise unknown(f"key '{key}' ({origin})", same[0] if same else key, matches)
    trust(parsed(value))
    problems: list[HarnessError] = []
    path = f"method.params.{rest}" if root == "method" and rest else key
    layer = _checked_layer(problems, nested(path, value), origin)
    raise_all(problems)
    return layer


def settings_by_name(
    layer: Layer, kind: str, folded: set[str], implementation: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a layer's `methods` or `datasets` (kind) sets for one preset: (its settings, role -> model's name).

    folded: the preset's names by presets.fold; implementation: the method's class. Of "*" only parameters of this
    class are taken; settings by name come on top. Raises UserError for an unknown name, or an entry that is no mapping.
    """
    origin, values = layer
    settings: dict[str, Any] = {}
    roles: dict[str, Any] = {}
    preset_names = {presets.fold(name): name for name in presets.names(kind)} if kind in values else {}
    for key, entry in values.get(kind, {}).items():
        if not isinstance(entry, dict):
            raise UserError(f"{origin}: {kind}.{key} must be a mapping of its settings")
        if (kind, key) == ("methods", "*"):
            if "roles" in entry:
                raise UserError(
                    f"{origin}: models for the roles of all methods belong under roles, not under methods.*"
                )
            cls = method_class(implementation)
            general = {name: value for name, value in entry.items() if name in cls.Config.model_fields}
            if "prompts" in general:  # those of this method, and names close to them: typing errors
                prompts = sorted({prompt.name for prompt in cls(cls.Config()).templates()})
                replaced = with_prompts(general, origin)["prompts"].items()
                general["prompts"] = {key: turns for key, turns in replaced if close_matches(key, prompts)}
            settings = merged(general, settings)
        elif presets.fold(key) not in preset_names:
            raise unknown(f"{presets.singular(kind)} '{key}' ({origin})", key, preset_names.values())
        elif presets.fold(key) in folded:
            settings = entry if kind == "datasets" else merged(settings, with_prompts(entry, origin))
            roles = settings.pop("roles", {}) if kind == "methods" else {}
            if not isinstance(roles, dict) or not all(isinstance(model, str) for model in roles.values()):
                raise UserError(f"{origin}: methods.{key}.roles must be a mapping of roles to model names")
    return settings, roles


def with_prompts(params: dict[str, Any], origin: str) -> dict[str, Any]:
    """A method's parameters with `prompts`, a mapping or a file's name, as prompt name -> {"user" or "system": text}.

    Text typed after `--set` is taken as it is. Raises UserError for what is neither a mapping nor a file with one.
    """
    if "prompts" not in params:
        return params
    prompts = params["prompts"]
    if isinstance(prompts, str):
        prompts = read_yaml(Path(prompts).expanduser(), prompts)
    if not isinstance(prompts, dict):
        raise UserError(f"{origin}: prompts must be a mapping of names to texts, or a YAML file with one")
    texts = {str(name): turns if isinstance(turns, dict) else {"user": turns} for name, turns in prompts.items()}
    typed = {n: {t: str(x) if isinstance(x, Raw) else x for t, x in turns.items()} for n, turns in texts.items()}
    return {**params, "prompts": typed}
