"""The user's choices as layers in the shape of a RunConfig, lowest first, each with the origin of
its values.

suite's profile < suite < --profile < config files < --set < flags

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
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.config import presets
from harness.config.registry import method_class, trust
from harness.config.schema import (
    DatasetConfig,
    EncoderConfig,
    GeneralSettings,
    MethodChoice,
    ModelConfig,
)
from harness.config.yaml_tree import Layer, Tree, flatten, merged, nested, read_yaml, value_text
from harness.errors import HarnessError, UserError, attempt, close_matches, unknown
from harness.storage.paths import with_home

if TYPE_CHECKING:
    from harness.config.suites import Suite
    from harness.method import Method

FOLDER = "folder"
"""The data set of --documents and --questions, which need no --dataset."""
# In the order of resolving: a default model follows from the data set, an encoder from the method.
PARTS: dict[str, type[Any]] = {
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
    """The user's choices. sets: "method.k" -> value; files: config files in order.

    suite: its settings hold where nothing else is set; its lists of names are ignored. point: the
    swept keys with this run's values, which are in `sets` already (config/sweep.py).
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
    seed: int | None = None
    sets: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    suite: Suite | None = None
    point: Mapping[str, Any] = field(default_factory=dict)


def point_text(point: Mapping[str, Any]) -> str:
    """A point of a sweep as labels and messages say it: "k=3 chunk_tokens=150", "" without a
    sweep."""
    return " ".join(
        f"{key.removeprefix('method.')}={value_text(value)}" for key, value in point.items()
    )


def read_layers(c: Choices, problems: list[HarnessError]) -> list[Layer]:
    """Read suite, profile, files, --set and flags as layers, lowest first; mistakes are added to
    `problems`."""
    # 1. Config files.
    files: list[Layer] = []
    for name in c.files:
        values = attempt(problems, read_yaml, Path(name).expanduser()) or {}
        if set(values) == {"config", "origins"} and isinstance(values["config"], dict):
            values = dict(with_home(values["config"]))  # a run.yaml; the run may be a stranger's
            for key in (
                key for key, value in flatten(values).items() if value and key not in c.sets
            ):
                if key.rpartition(".")[2] in _UNTRUSTED:
                    sentence = "could run code of others or send them a key of yours; if you trust it, repeat it"
                    problems.append(UserError(f"{name}: {key} {sentence}: --set {key}=VALUE"))
        else:
            trust(values)
        files.append((name, values))
    # 2. The profile: of --profile, else of the last file that names one, else of the suite.
    suite, label = c.suite, f"suite {c.suite.name}" if c.suite else ""
    named: list[tuple[str, Any]] = [("--profile", c.profile)]
    named += [("config file", values.get("profile")) for _, values in reversed(files)]
    named += [(label, suite.profile)] if suite else []
    origin, profile = next(((origin, str(name)) for origin, name in named if name), ("", ""))
    found = attempt(problems, presets.find, "profiles", profile) if profile else None
    layers: list[Layer] = []
    if found:
        layers += [
            (f"profile {found}", v)
            for _, v in attempt(problems, presets.read, "profiles", found) or []
        ]
    # 3. The suite, above the profile that it names and below another one.
    if suite:
        limit = {} if suite.limit is None else {"limit": suite.limit}
        settings = {"methods": suite.methods, **limit, **_layer_of(suite.sets, problems)}
        layers.insert(len(layers) if origin == label else 0, (label, settings))
    layers += [
        *files,
        *(("--set", _layer_of({key: value}, problems)) for key, value in c.sets.items()),
    ]
    # 4. The command line. --limit takes the place of a sample that a suite or a file sets, and the
    # reverse.
    flags: dict[str, Any] = {
        "method.name": c.method,
        "dataset.name": c.dataset,
        "model.name": c.model,
    }
    flags |= {"dataset.data": c.data, "seed": c.seed, "limit": c.limit, "sample": c.sample}
    if c.documents and c.questions and not c.data and c.dataset in (None, FOLDER):
        flags |= {"dataset.data": c.questions, "dataset.documents": c.documents}
        flags |= {"dataset.columns": c.columns}
        flags |= {"dataset.allow_left_out": True} if c.allow_left_out else {}
    elif c.documents or c.questions or c.columns:
        sentence = "--documents DIR and --questions FILE go together, without --dataset and --data"
        problems.append(UserError(sentence))
    if c.limit is not None and c.sample is not None:
        problems.append(
            UserError("--limit takes the first questions and --sample draws some; give one of them")
        )
    twice = [key for key in c.sets if flags.get(key, flags.get(f"{key}.name")) is not None]
    for key in twice:
        problems += [
            UserError(f"'{key}' is given twice: by --set and by the flag of that name; keep one")
        ]
    other = {"limit": {"sample": None}, "sample": {"limit": None}}
    for key, value in flags.items():
        if value is not None:
            flag = f"--{key.removesuffix('.name').rpartition('.')[2]}"
            layers.append((flag, nested(key, value) | other.get(key, {})))
    layers += [(origin, {"profile": found})] if found else []
    return [(label, _checked(values, label, c.method, problems)) for label, values in layers]


def _layer_of(sets: Mapping[str, Any], problems: list[HarnessError]) -> dict[str, Any]:
    """--set, or a suite's, as a layer whose code is trusted: {"method.k": 3} -> {"method":
    {"params": {"k": 3}}}."""
    layer: dict[str, Any] = {}
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
        else:
            is_name = not isinstance(value, dict) and (
                key in PARTS or (root == "roles" and rest and "." not in rest)
            )
            layer = merged(
                layer, nested(f"{key}.name", value_text(value)) if is_name else nested(key, value)
            )
    return layer


def _checked(
    values: Mapping[str, Any], origin: str, method: str | None, problems: list[HarnessError]
) -> dict[str, Any]:
    """A layer with "model: NAME" as {"name": NAME}; mistakes are added to `problems`. method: the
    run's, for hints."""
    layer: dict[str, Any] = {}
    for key, value in values.items():
        if key in PARTS and isinstance(value, str):
            value = {"name": value}
        elif key == "roles" and isinstance(value, dict):
            value = {
                role: model if isinstance(model, dict) else {"name": model}
                for role, model in value.items()
            }
        if key in GeneralSettings.model_fields or (key in _MAPPINGS and isinstance(value, dict)):
            layer[key] = value
        elif key not in _MAPPINGS:
            problems.append(_unknown_key(next(iter(flatten(value, key))), origin, method))
        elif value is not None:
            problems.append(UserError(f"{origin}: '{key}' must be a mapping, not {value!r}"))
    return layer


def _unknown_key(key: str, origin: str, method: str | None) -> UserError:
    """The error for a key that no part of a configuration has, with the keys that were meant: k ->
    method.k."""
    roots = [*_MAPPINGS, *GeneralSettings.model_fields]
    known = [f"{part}.{name}" for part, schema in PARTS.items() for name in schema.model_fields]
    with contextlib.suppress(UserError):  # an unknown method; its own sentence says so
        cls = method_class(
            str(Tree(presets.read("methods", str(method))).values.get("implementation"))
        )
        known += [f"method.{name}" for name in cls.Config.model_fields]
    same = [name for name in known if name.partition(".")[2] == key.rpartition(".")[2]]
    near = same[:1] or close_matches(key, [*known, *roots])
    return unknown(f"key '{key}' ({origin})", near[0] if same else key, near or roots)


def chosen_by_name(
    layers: list[Layer],
    kind: str,
    chosen: Collection[str],
    implementation: str,
    problems: list[HarnessError],
) -> Iterator[Layer]:
    """The layers, each behind what its `methods` or `datasets` (kind) sets for one preset, as
    settings of that part.

    chosen: the preset's names by presets.fold; implementation: the method's class. Of "*" only
    parameters of this class are taken; settings by name come on top. An unknown name, or an entry
    that is no mapping, is a mistake.
    """
    for origin, values in layers:
        entries = sorted(values.get(kind, {}).items(), key=lambda item: item[0] != "*")
        known = {presets.fold(name): name for name in presets.names(kind)} if entries else {}
        for key, entry in entries:
            if not isinstance(entry, dict):
                problems.append(
                    UserError(f"{origin}: {kind}.{key} must be a mapping of its settings")
                )
            elif kind == "datasets" and presets.fold(key) in chosen:
                yield origin, {"dataset": entry}
            elif kind == "methods" and (key == "*" or presets.fold(key) in chosen):
                roles = {"roles": entry["roles"]} if "roles" in entry else {}
                params = {name: value for name, value in entry.items() if name != "roles"}
                if key == "*":
                    params = _general(method_class(implementation), params, origin)
                yield (
                    origin,
                    _checked({"method": {"params": params}} | roles, origin, None, problems),
                )
            elif presets.fold(key) not in known:
                problems.append(
                    unknown(f"{presets.singular(kind)} '{key}' ({origin})", key, known.values())
                )
        yield origin, values


def _general(cls: type[Method], params: dict[str, Any], origin: str) -> dict[str, Any]:
    """Of `params` for every method those that the method has; prompts also by a name close to one:
    a typing error."""
    params = {name: value for name, value in params.items() if name in cls.Config.model_fields}
    if "prompts" in params:
        known = sorted({prompt.name for prompt in cls(cls.Config()).templates()})
        replaced = with_prompts(params, origin)["prompts"]
        params["prompts"] = {
            name: turns for name, turns in replaced.items() if close_matches(name, known)
        }
    return params


def with_prompts(params: Any, origin: str) -> Any:
    """A method's parameters with `prompts`, a mapping or a file's name, as prompt name -> {"user"
    or "system": text}.

    Raises UserError for prompts that are neither a mapping nor a file with one.
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
    turns = {
        str(name): text if isinstance(text, dict) else {"user": text}
        for name, text in prompts.items()
    }
    return {**params, "prompts": turns}
