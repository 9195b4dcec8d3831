"""The user's choices as layers in the shape of a RunConfig, lowest first, each with the origin of its values.

suite's profile < suite < --profile < config files < --set < flags

[("profile pocket", {"model": {"window": 2048}}), ("--set", {"method": {"params": {"k": 3}}}), ...]
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.config import presets
from harness.config.registry import code_targets, is_trusted, parameters, refusal_message, trust
from harness.config.schema import DatasetConfig, EncoderConfig, ModelConfig
from harness.config.suites import Suite
from harness.config.yaml_tree import Raw, flatten, parse_scalar, read_yaml
from harness.errors import ConfigError, HarnessError, UserError, attempt, close_matches, unknown
from harness.storage.paths import with_home

Layer = tuple[str, dict[str, Any]]

FOLDER = "folder"  # the data set of --documents and --questions
PARTS = ("method", "dataset", "model", "encoder", "reranker")
SCALARS = ("seed", "limit", "sample", "sample_seed", "failed", "keep_prompts", "cache")
_FILE_KEYS = (*PARTS, "roles", "methods", "datasets", "profile", *SCALARS)


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
    suite = [] if c.suite is None else _suite_layer(c.suite, c.method, problems)
    profiles = [("--profile", c.profile), *(("config file", v.get("profile") or None) for _, v in reversed(files))]
    if c.suite is not None:
        profiles.append((f"suite {c.suite.name}", c.suite.profile))
    origin, chosen = next((each for each in profiles if each[1] is not None), ("default", None))
    name = None if chosen is None else attempt(problems, presets.find, "profiles", chosen)
    read = None if name is None else attempt(problems, presets.read, "profiles", name)
    profile = [(f"profile {name}", values) for _, values in read or []]
    # A suite's settings are above those of the profile that it names, and below those of another one.
    layers = [*profile, *suite, *files] if origin.startswith("suite ") else [*suite, *profile, *files]
    layers = [(label, _normalise_file(problems, values, label)) for label, values in layers] + _flag_layers(c, problems)
    for label, values in files:
        if label in stored:
            problems += _received_settings(label, values, c.sets)
        else:
            trust(*code_targets(values))
    return layers if name is None else [(origin, {"profile": name}), *layers]


def _received_settings(label: str, values: dict[str, Any], sets: Mapping[str, Any]) -> list[HarnessError]:
    """Errors for settings of a run.yaml that --set must repeat, as the run may be a stranger's: code, and servers.

    label: the file, for messages; values: its content; sets: the user's --set.
    """
    foreign = {target: key for target, key in code_targets(values).items() if not is_trusted(target)}
    sentences = [refusal_message(target, key) for target, key in foreign.items() if key not in sets]
    told = flatten(values)
    for key, value in told.items():
        path, _, name = key.rpartition(".")
        variable = f"{path}.api_key_env"
        if name == "trust_remote_code" and value and not sets.get(key):
            sentences.append(
                f"{key} would execute code of a model's repository; if you trust it, add: --set {key}=true"
            )
        elif name == "base_url" and value and told.get(variable, "") is not None and not {key, variable} <= sets.keys():
            # Neither value is repeated: a careless file has the key, or a password, in it.
            sentences.append(
                "would send an environment variable of yours to a server; if you trust that server, name both "
                f"yourself: --set {variable}=NAME {key}=URL"
            )
    return [UserError(f"{label}: {sentence}") for sentence in sentences]


def _suite_layer(suite: Suite, method: str | None, problems: list[HarnessError]) -> list[Layer]:
    """A suite's settings as layers, without its profile; method: of the row; mistakes are added to `problems`."""
    label = f"suite {suite.name}"
    made: dict[str, Any] = {}  # one layer, so that settings beside a model's name belong to that model
    for item in suite.sets.items():
        made = _deep_merge(made, attempt(problems, _as_layer, *item, label, method) or {})
    trust(*code_targets(_parse_typed_values(made)))
    made |= {} if suite.limit is None else {"limit": suite.limit}
    rows = {"methods": {name: dict(own) for name, own in suite.params.items()}} if suite.params else {}
    return [(label, values) for values in (rows, made) if values]


def _deep_merge(below: Any, above: Any) -> Any:
    """Merge mappings key by key, `above` over `below`; any other value of `above` replaces that of `below`."""
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return below | {key: _deep_merge(below.get(key), value) for key, value in above.items()}


def _flag_layers(c: Choices, problems: list[HarnessError]) -> list[Layer]:
    """The layers of the command line, --set and then the flags; mistakes are added to `problems`."""
    layers: list[Layer] = []
    flags = {"dataset.data": c.data, "limit": c.limit, "seed": c.seed, "model": c.model, "model.name": c.model}
    flags["sample"] = c.sample
    if c.limit is not None and c.sample is not None:
        problems.append(UserError("--limit takes the first questions and --sample draws some; give one of them"))
    for key, value in c.sets.items():
        if flags.get(key) is not None:
            problems.append(UserError(f"'{key}' is given twice: by --set and by the flag of that name; keep one"))
        named = attempt(problems, _as_layer, key, value, "--set", c.method) or {}
        trust(*code_targets(_parse_typed_values(named)))
        layers.append(("--set", named))
    parts = {"method": c.method, "dataset": c.dataset, "model": c.model}
    layers += [(f"--{part}", {part: {"name": name}}) for part, name in parts.items() if name is not None]
    if c.data is not None:
        layers.append(("--data", {"dataset": {"data": c.data}}))
    # One takes the place of the other that a suite or a file sets.
    rows: dict[str, dict[str, Any]] = {
        "seed": {"seed": c.seed},
        "limit": {"limit": c.limit, "sample": None},
        "sample": {"sample": c.sample, "limit": None},
    }
    return layers + [(f"--{name}", values) for name, values in rows.items() if values[name] is not None]


def _parse_typed_values(values: Any) -> Any:
    """`values` with each text typed after --set parsed as YAML; None where it is no YAML, so that it names no code."""
    if isinstance(values, dict):
        return {key: _parse_typed_values(value) for key, value in values.items()}
    try:
        return parse_scalar(values) if isinstance(values, Raw) else values
    except ConfigError:
        return None


def _normalise_file(problems: list[HarnessError], values: dict[str, Any], origin: str) -> dict[str, Any]:
    """A file's mapping with "model: NAME" as {"name": NAME}, without `profile`; mistakes are added to `problems`."""
    out: dict[str, Any] = {}
    for key, value in values.items():
        if key not in _FILE_KEYS:
            problems.append(unknown(f"key '{key}' ({origin})", key, _FILE_KEYS))
        elif key in PARTS or key in ("roles", "methods", "datasets"):
            if key == "roles" and isinstance(value, dict):
                value = {r: {"name": v} if isinstance(v, str) else v for r, v in value.items()}
            if isinstance(value, str) and key in PARTS:
                value = {"name": value}
            if value is not None and not isinstance(value, dict):
                problems.append(UserError(f"{origin}: '{key}' must be a mapping, not {value!r}"))
            elif value is not None:
                out[key] = value
        elif key != "profile":
            out[key] = value
    return out


def _nearest_settings(key: str, method: str | None) -> list[str]:
    """Keys to suggest for an unknown one, of `method` too: those with the same last part, else those spelt like it."""
    parts = (("dataset", DatasetConfig), ("model", ModelConfig), ("encoder", EncoderConfig))
    known = [f"{part}.{name}" for part, config in parts for name in config.model_fields]
    with contextlib.suppress(UserError):  # an unknown method; its own sentence says so
        files = presets.read("methods", presets.find("methods", str(method)))
        own = next(values["implementation"] for _, values in reversed(files) if "implementation" in values)
        known += [f"method.{name}" for name in sorted(parameters(own))]
    ending = key.rpartition(".")[2]
    return [name for name in known if name.partition(".")[2] == ending] or close_matches(key, known)


def _as_layer(key: str, value: Any, origin: str, method: str | None) -> dict[str, Any]:
    """Turn a --set key and value into a layer: "method.k", 3 -> {"method": {"params": {"k": 3}}}.

    A Raw value stays as typed: Tree.merge parses it. origin: for messages, "--set"; method: of the row, for hints.
    Raises UserError for a key that cannot be set.
    """
    root, *rest = key.split(".")
    if root in ("profile", "suite", "data", "out"):
        raise UserError(f"'{root}' is chosen with --{root}, not with --set")
    if root == "datasets" and len(rest) < 2:
        raise UserError(f"'{key}' ({origin}): name a data set and its key: datasets.nq.documents=FILE")
    if root not in (*PARTS, "roles", "datasets", *SCALARS):
        near = [] if rest else close_matches(root, (*PARTS, "roles", *SCALARS))
        near = near or _nearest_settings(key, method)
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise UserError(f"unknown key '{key}' ({origin}).{hint}")
    if root in SCALARS and rest:
        raise UserError(f"unknown key '{key}' ({origin}): '{root}' is a single value")
    if root == "roles" and not rest:
        raise UserError("name the role: --set roles.builder=NAME")
    named = root != "datasets" and len(rest) == (1 if root == "roles" else 0) and root not in SCALARS
    if named:
        rest.append("name")
        value = str(value)  # a name stays as typed: "7b" or "1e5" is no number here
    elif root == "method":
        rest.insert(0, "params")
    for name in reversed([root, *rest]):
        value = {name: value}
    return dict(value)
