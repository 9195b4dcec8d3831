"""What the user said, as layers in the shape of a RunConfig, lowest first, each with how origins name it.

suite's profile < suite < --profile < config files < --set < flags

[("profile pocket", {"model": {"window": 2048}}), ("--set", {"method": {"params": {"k": 3}}}), ...]
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from harness.config import presets
from harness.config.registry import code_named, refusal, trust, trusted
from harness.config.suites import Suite
from harness.config.yaml_tree import Raw, flatten, read_yaml, scalar
from harness.errors import ConfigError, HarnessError, UserError, unknown
from harness.storage.paths import with_home

Layer = tuple[str, dict[str, Any]]
T = TypeVar("T")

PARTS = ("method", "dataset", "model", "encoder", "reranker")
SCALARS = ("seed", "limit", "failed")
_FILE_KEYS = (*PARTS, "roles", "methods", "profile", *SCALARS)


@dataclass(frozen=True)
class Choices:
    """What the user said. sets: "method.k" -> value (a layers.Raw is parsed as YAML); files: config files in order.

    suite: whose settings hold where nothing else is said; its lists of names are not looked at.
    """

    method: str | None = None
    dataset: str | None = None
    data: str | None = None
    model: str | None = None
    profile: str | None = None
    limit: int | None = None
    seed: int | None = None
    sets: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    require_full: bool = False
    suite: Suite | None = None


@dataclass(frozen=True)
class Said:
    """The layers, lowest first, and the profile among them: its name (None: none) and who named it."""

    layers: list[Layer]
    profile: str | None = None
    profile_origin: str = "default"


def attempt(problems: list[HarnessError], step: Callable[[], T]) -> T | None:
    """Run one step; a user's mistake in it is kept in `problems` and the other steps go on."""
    try:
        return step()
    except UserError as e:
        problems.append(e)
        return None


def layers(c: Choices, problems: list[HarnessError]) -> Said:
    """The layers of `c`; what is wrong in them is added to `problems`."""
    files = [(name, _file(attempt(problems, partial(read_yaml, Path(name).expanduser())) or {})) for name in c.files]
    chosen, origin = c.profile, "--profile"
    if chosen is None:
        chosen = next((v["profile"] for _, v in reversed(files) if v.get("profile")), None)
        origin = "config file"
    suite = [] if c.suite is None else _suite(c.suite, problems)
    if chosen is None and c.suite is not None and c.suite.profile is not None:
        chosen, origin = c.suite.profile, f"suite {c.suite.name}"
        name, profile = _profile(chosen, problems)
        found = [*profile, *suite, *files]
    else:
        name, profile = (None, []) if chosen is None else _profile(chosen, problems)
        found = [*suite, *profile, *files]
    found = [(label, _shape(problems, values, label)) for label, values in found]
    flags = _flags(c, problems)
    for label, values in files:
        problems += _foreign_code(label, values, c.sets)
    return Said([*found, *flags], name, "default" if chosen is None else origin)


def _foreign_code(label: str, values: dict[str, Any], sets: Mapping[str, Any]) -> list[HarnessError]:
    """A configuration file may come from anybody, so it cannot choose what is imported or executed."""
    foreign = {target: key for target, key in code_named(values).items() if not trusted(target)}
    sentences = [f"{label}: {refusal(target, key)}" for target, key in foreign.items()]
    for key, value in flatten(values).items():
        if key.endswith("trust_remote_code") and value and not sets.get(key):
            sentences.append(
                f"{label}: {key} would execute code of a model's repository; if you trust it, add: --set {key}=true"
            )
    return [UserError(sentence) for sentence in sentences]


def foreign_keys(parts: Mapping[str, Any], origins: Mapping[str, str], files: Collection[str]) -> list[HarnessError]:
    """A configuration file cannot choose which environment variable is sent to which server.

    parts: the finished ones of a draft by path; origins: where each of their values was said; files: those of --config.
    """
    sentences = []
    for path, part in parts.items():
        variable = getattr(part, "api_key_env", None)
        keys = (f"{path}.api_key_env", f"{path}.base_url")
        said = next((origins[key] for key in keys if origins.get(key) in files), None)
        if variable is not None and said is not None:
            # Neither value is repeated: a careless file has the key, or a password, in it.
            sentences.append(
                f"{said}: would send an environment variable of yours to a server; if you trust that server, name both "
                f"yourself: --set {keys[0]}=NAME {keys[1]}=URL"
            )
    return [UserError(sentence) for sentence in sentences]


def _suite(suite: Suite, problems: list[HarnessError]) -> list[Layer]:
    """The settings of a suite, its profile apart."""
    label = f"suite {suite.name}"
    made = [(label, attempt(problems, partial(_assignment, *item, label)) or {}) for item in suite.sets.items()]
    trust(*(target for _, values in made for target in code_named(_parsed(values))))
    rows = [(label, {"methods": {name: dict(own) for name, own in suite.params.items()}})] if suite.params else []
    return rows + made + ([(label, {"limit": suite.limit})] if suite.limit is not None else [])


def _profile(chosen: str, problems: list[HarnessError]) -> tuple[str | None, list[Layer]]:
    """The registered name of a profile and its layers; None and [] where there is no such profile."""
    name = attempt(problems, partial(presets.find, "profiles", chosen))
    found = attempt(problems, partial(presets.read, "profiles", name)) if name is not None else None
    return name, [(f"profile {name}", values) for _, values in found or []]


def _flags(c: Choices, problems: list[HarnessError]) -> list[Layer]:
    """What was said on the command line: --set, then the flags."""
    found: list[Layer] = []
    flags = {"dataset.data": c.data, "limit": c.limit, "seed": c.seed, "model": c.model, "model.name": c.model}
    for key, value in c.sets.items():
        if flags.get(key) is not None:
            problems.append(UserError(f"'{key}' is given twice: by --set and by the flag of that name; keep one"))
        named = attempt(problems, partial(_assignment, key, value, "--set")) or {}
        trust(*code_named(_parsed(named)))
        found.append(("--set", named))
    parts = {"method": c.method, "dataset": c.dataset, "model": c.model}
    found += [(f"--{part}", {part: {"name": name}}) for part, name in parts.items() if name is not None]
    if c.data is not None:
        found.append(("--data", {"dataset": {"data": c.data}}))
    return found + [(f"--{k}", {k: v}) for k, v in (("seed", c.seed), ("limit", c.limit)) if v is not None]


def _parsed(values: Any) -> Any:
    """`values` with what was typed after --set as YAML reads it; what is no YAML names no code."""
    if isinstance(values, dict):
        return {key: _parsed(value) for key, value in values.items()}
    try:
        return scalar(values) if isinstance(values, Raw) else values
    except ConfigError:
        return None


def _file(values: dict[str, Any]) -> dict[str, Any]:
    """A config file's content; a run.yaml keeps the configuration under `config`, beside where it came from.

    There the home folder is ~, also in parameters of a method that nobody else knows to be paths.
    """
    if set(values) == {"config", "origins"} and isinstance(values["config"], dict):
        return dict(with_home(values["config"]))
    return values


def _shape(problems: list[HarnessError], values: dict[str, Any], origin: str) -> dict[str, Any]:
    """A file's mapping with names spelt out as {"name": ...}; mistakes in its shape are added to `problems`."""
    out: dict[str, Any] = {}
    for key, value in values.items():
        if key not in _FILE_KEYS:
            problems.append(unknown(f"key '{key}' ({origin})", key, _FILE_KEYS))
        elif key in PARTS or key in ("roles", "methods"):
            if key == "roles" and isinstance(value, dict):
                value = {r: {"name": v} if isinstance(v, str) else v for r, v in value.items()}
            if isinstance(value, str) and key in PARTS:
                value = {"name": value}
            if value is not None and not isinstance(value, dict):
                problems.append(UserError(f"{origin}: '{key}' must be a mapping, not {value!r}"))
            elif value is not None:
                out[key] = value
        else:
            out[key] = value
    return out


def _assignment(key: str, value: Any, origin: str) -> dict[str, Any]:
    """{"method.k": 3} -> {"method": {"params": {"k": 3}}}. Raises UserError for a root that cannot be set."""
    root, *rest = key.split(".")
    if root in ("profile", "suite", "data", "out"):
        raise UserError(f"'{root}' is chosen with --{root}, not with --set")
    if root not in (*PARTS, "roles", *SCALARS):
        raise unknown(f"key '{key}' ({origin})", root, (*PARTS, "roles", *SCALARS))
    if root in SCALARS and rest:
        raise UserError(f"unknown key '{key}' ({origin}): '{root}' is a single value")
    if root == "roles" and not rest:
        raise UserError("name the role: --set roles.builder=NAME")
    named = len(rest) == (1 if root == "roles" else 0) and root not in SCALARS
    if named:
        rest.append("name")
        value = str(value)  # a name stays as typed: "7b" or "1e5" is no number here
    elif root == "method":
        rest.insert(0, "params")
    for name in reversed([root, *rest]):
        value = {name: value}
    return dict(value)
