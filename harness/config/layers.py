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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.config import presets
from harness.config.registry import method_class, parameters, trust
from harness.config.schema import DatasetConfig, EncoderConfig, ModelConfig
from harness.config.yaml_tree import Raw, flatten, merged, nested, parsed, read_yaml, value_text
from harness.errors import ConfigError, HarnessError, UserError, attempt, close_matches, unknown
from harness.storage.paths import with_home

if TYPE_CHECKING:
    from harness.config.suites import Suite

Layer = tuple[str, dict[str, Any]]

FOLDER = "folder"  # the data set of --documents and --questions
PARTS = ("method", "dataset", "model", "encoder", "reranker")
SCALARS = ("seed", "limit", "sample", "sample_seed", "failed", "keep_prompts", "cache")

_MAPPINGS = (*PARTS, "roles", "methods", "datasets")  # the other keys of a file hold a single value


@dataclass(frozen=True)
class Choices:
    """The user's choices. sets: "method.k" -> value (a Raw is parsed as YAML); files: config files in order.

    suite: its settings hold where nothing else is set; its lists of names are ignored. point: the swept keys with this
    row's values, which are in `sets` already (config/sweep.py).
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
    """What stands for a folder of documents of one's own: (the value of `data`, settings of the data set FOLDER).

    data, datasets: what else the user chose. Raises ConfigError where the two are not alone and together.
    """
    if documents is None or questions is None or data or set(datasets) - {FOLDER}:
        raise ConfigError(["--documents DIR and --questions FILE go together, without --dataset and --data"])
    return questions, {"dataset.documents": documents}


def read_layers(c: Choices, problems: list[HarnessError]) -> list[Layer]:
    """Read suite, profile, files, --set and flags of `c` as layers, lowest first; mistakes are added to `problems`."""
    files = [(name, attempt(problems, read_yaml, Path(name).expanduser()) or {}) for name in c.files]
    # A run.yaml has the configuration beside its origins, with ~ for the home folder, also in a method's parameters.
    stored = {n for n, v in files if set(v) == {"config", "origins"} and isinstance(v["config"], dict)}
    files = [(n, dict(with_home(v["config"])) if n in stored else v) for n, v in files]
    named = [("--profile", c.profile), *(("config file", v.get("profile")) for _, v in reversed(files))]
    named += [] if c.suite is None else [(f"suite {c.suite.name}", c.suite.profile)]
    origin, chosen = next((each for each in named if each[1]), ("default", None))
    name = None if chosen is None else attempt(problems, presets.find, "profiles", chosen)
    read = [] if name is None else attempt(problems, presets.read, "profiles", name) or []
    profile = [(f"profile {name}", values) for _, values in read]
    suite = [] if c.suite is None else _suite_layers(c.suite, c.method, problems)
    # A suite's settings are above those of the profile that it names, and below those of another one.
    below = [*profile, *suite] if origin.startswith("suite ") else [*suite, *profile]
    layers = [(label, _checked(problems, values, label)) for label, values in [*below, *files]]
    layers += _flag_layers(c, problems)
    for label, values in layers:
        if label in stored:
            problems += _received_settings(label, values, c.sets)
        else:
            trust(parsed(values))
    return layers if name is None else [(origin, {"profile": name}), *layers]


def _checked(problems: list[HarnessError], values: dict[str, Any], origin: str) -> dict[str, Any]:
    """A file's mapping with "model: NAME" as {"name": NAME}, without `profile`; mistakes are added to `problems`."""
    checked: dict[str, Any] = {}
    for key, value in values.items():
        if key in PARTS and isinstance(value, str):
            value = {"name": value}
        elif key == "roles" and isinstance(value, dict):
            value = {role: own if isinstance(own, dict) else {"name": own} for role, own in value.items()}
        if key not in (*_MAPPINGS, "profile", *SCALARS):
            problems.append(unknown(f"key '{key}' ({origin})", key, (*_MAPPINGS, "profile", *SCALARS)))
        elif key in SCALARS or isinstance(value, dict):
            checked[key] = value
        elif key != "profile" and value is not None:
            problems.append(UserError(f"{origin}: '{key}' must be a mapping, not {value!r}"))
    return checked


def _received_settings(label: str, values: dict[str, Any], sets: Mapping[str, Any]) -> list[HarnessError]:
    """Errors for settings of a run.yaml that --set must repeat, as the run may be a stranger's; code is never trusted.

    label: the file, for messages; values: its content; sets: the user's --set.
    """
    sentences = []
    settings = flatten(values)
    for key, value in settings.items():
        path, _, name = key.rpartition(".")
        variable = f"{path}.api_key_env"
        if name == "trust_remote_code" and value and not sets.get(key):
            sentences.append(
                f"{key} would execute code of a model's repository; if you trust it, add: --set {key}=true"
            )
        elif name == "base_url" and value and settings.get(variable, "") is not None:
            if {key, variable} <= sets.keys():
                continue
            # Neither value is repeated: a careless file has the key, or a password, in it.
            sentences.append(
                "would send an environment variable of yours to a server; if you trust that server, name both "
                f"yourself: --set {variable}=NAME {key}=URL"
            )
    return [UserError(f"{label}: {sentence}") for sentence in sentences]


def _suite_layers(suite: Suite, method: str | None, problems: list[HarnessError]) -> list[Layer]:
    """A suite's settings as layers, without its profile; method: of the row; mistakes are added to `problems`."""
    label = f"suite {suite.name}"
    made: dict[str, Any] = {} if suite.limit is None else {"limit": suite.limit}
    for item in suite.sets.items():  # one layer, so that settings beside a model's name belong to that model
        made = merged(made, attempt(problems, _as_layer, *item, label, method) or {})
    rows = {"methods": {name: dict(own) for name, own in suite.params.items()}} if suite.params else {}
    return [(label, values) for values in (rows, made) if values]


def _flag_layers(c: Choices, problems: list[HarnessError]) -> list[Layer]:
    """The layers of the command line, --set and then the flags; mistakes are added to `problems`."""
    flags = {"dataset.data": c.data, "limit": c.limit, "sample": c.sample, "seed": c.seed}
    flags |= {"model": c.model, "model.name": c.model}
    if c.limit is not None and c.sample is not None:
        problems.append(UserError("--limit takes the first questions and --sample draws some; give one of them"))
    layers: list[Layer] = []
    for key, value in c.sets.items():
        if flags.get(key) is not None:
            problems.append(UserError(f"'{key}' is given twice: by --set and by the flag of that name; keep one"))
        layers.append(("--set", attempt(problems, _as_layer, key, value, "--set", c.method) or {}))
    given: list[tuple[str, Any, dict[str, Any]]] = [
        ("--method", c.method, {"method": {"name": c.method}}),
        ("--dataset", c.dataset, {"dataset": {"name": c.dataset}}),
        ("--model", c.model, {"model": {"name": c.model}}),
        ("--data", c.data, {"dataset": {"data": c.data}}),
        ("--seed", c.seed, {"seed": c.seed}),
        # One takes the place of the other that a suite or a file sets.
        ("--limit", c.limit, {"limit": c.limit, "sample": None}),
        ("--sample", c.sample, {"sample": c.sample, "limit": None}),
    ]
    return layers + [(flag, values) for flag, value, values in given if value is not None]


def _as_layer(key: str, value: Any, origin: str, method: str | None) -> dict[str, Any]:
    """Turn a --set key and value into a layer: "method.k", 3 -> {"method": {"params": {"k": 3}}}.

    A Raw value stays as typed: Tree.merge parses it. origin: for messages, "--set"; method: of the row, for hints.
    Raises UserError for a key that cannot be set, and for a value that is no YAML.
    """
    root, *rest = key.split(".")
    if root in ("profile", "suite", "data", "out"):
        raise UserError(f"'{root}' is chosen with --{root}, not with --set")
    if root == "datasets" and len(rest) < 2:
        raise UserError(f"'{key}' ({origin}): name a data set and its key: datasets.nq.documents=FILE")
    if root == "roles" and not rest:
        raise UserError("name the role: --set roles.builder=NAME")
    if root in SCALARS and rest:
        raise UserError(f"unknown key '{key}' ({origin}): '{root}' is a single value")
    if root not in (*PARTS, "roles", "datasets", *SCALARS):
        parts = (("dataset", DatasetConfig), ("model", ModelConfig), ("encoder", EncoderConfig))
        known = [f"{part}.{name}" for part, config in parts for name in config.model_fields]
        with contextlib.suppress(UserError):  # an unknown method; its own sentence says so
            layers = presets.read("methods", str(method))
            own = next(values["implementation"] for _, values in reversed(layers) if "implementation" in values)
            known += [f"method.{name}" for name in sorted(parameters(own))]
        near = [] if rest else close_matches(root, (*PARTS, "roles", *SCALARS))
        near = near or [name for name in known if name.partition(".")[2] == [root, *rest][-1]]
        near = near or close_matches(key, known)
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise UserError(f"unknown key '{key}' ({origin}).{hint}")
    if (root in PARTS and not rest) or (root == "roles" and len(rest) == 1):
        return nested(f"{key}.name", str(value))  # a name stays as typed: "7b" or "1e5" is no number here
    parsed(value)
    return nested(key.replace("method.", "method.params.", 1) if root == "method" else key, value)


def expanded_layers(layers: list[Layer], part: str, name: str, implementation: str) -> list[Layer]:
    """`layers`, where settings by name that hold for the method or data set `name` become settings of this run.

    part: "method" or "dataset"; implementation: the method's class, whose parameters alone are taken from "*". In a
    layer "*" comes first, then the settings by name, then its other settings, then the models for roles.
    Raises UserError for an unknown name, and for what is no mapping of settings.
    """
    kind, out = f"{part}s", []
    known = {presets.fold(n): n for n in presets.names(kind)}
    for origin, values in layers:
        table = values.get(kind, {})
        for key, own in table.items():
            if (kind, key) != ("methods", "*") and presets.fold(key) not in known:
                raise unknown(f"{presets.singular(kind)} '{key}' ({origin})", key, known.values())
            if not isinstance(own, dict):
                raise UserError(f"{origin}: {kind}.{key} must be a mapping of its settings")
        if kind == "methods" and "*" in table:
            params = _general_params(table["*"], implementation, origin)
            out.append((origin, {"method": {"params": params}}))
        named = [(key, own) for key, own in table.items() if presets.fold(key) == presets.fold(name)]
        for _, own in named:
            params = {k: v for k, v in own.items() if k != "roles"}
            out.append((origin, {"method": {"params": params}} if kind == "methods" else {"dataset": own}))
        out.append((origin, values))
        for key, own in named if kind == "methods" else ():
            roles = own.get("roles", {})
            if not isinstance(roles, dict) or not all(isinstance(model, str) for model in roles.values()):
                raise UserError(f"{origin}: methods.{key}.roles must be a mapping of roles to model names")
            out.append((origin, {"roles": {role: {"name": model} for role, model in roles.items()}}))
    for at, (origin, values) in enumerate(out) if kind == "methods" else ():
        given = values.get("method", {}).get("params")
        if isinstance(given, dict) and "prompts" in given:
            params = {**given, "prompts": _replacements(given["prompts"], origin)}
            out[at] = origin, {**values, "method": {**values["method"], "params": params}}
    return out


def _general_params(table: dict[str, Any], implementation: str, origin: str) -> dict[str, Any]:
    """The parameters under "*" that a method has, and of `prompts` those of its own with names close to them."""
    if "roles" in table:
        raise UserError(f"{origin}: models for the roles of all methods belong under roles, not under methods.*")
    cls = method_class(implementation)
    general = {key: value for key, value in table.items() if key in cls.Config.model_fields}
    if "prompts" in general:  # also names close to those that this method has: typing errors
        prompts = sorted({prompt.name for prompt in cls(cls.Config()).templates()})
        replaced = _replacements(general["prompts"], origin).items()
        general["prompts"] = {one: turns for one, turns in replaced if close_matches(one, prompts)}
    return general


def _replacements(prompts: object, origin: str) -> dict[str, dict[str, object]]:
    """A layer's `prompts`, a mapping or a file's name, as prompt name -> {"user" or "system": text}.

    Text typed after `--set` is taken as it is. Raises UserError for what is neither a mapping nor a file with one.
    """
    if isinstance(prompts, str):
        prompts = read_yaml(Path(prompts).expanduser(), prompts)
    if not isinstance(prompts, dict):
        raise UserError(f"{origin}: prompts must be a mapping of names to texts, or a YAML file with one")
    texts = {str(name): turns if isinstance(turns, dict) else {"user": turns} for name, turns in prompts.items()}
    return {
        name: {turn: str(text) if isinstance(text, Raw) else text for turn, text in turns.items()}
        for name, turns in texts.items()
    }
