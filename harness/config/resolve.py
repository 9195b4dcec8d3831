"""From what the user said to a checked RunConfig in which every value knows its origin.

    class defaults < preset (configs/<kind>/<name>.yaml) < suite < profile < config files < --set < flags

    resolved = resolve(Choices(method="pecan", dataset="musique", sets={"method.chunk_tokens": 200}))
    resolved.config.method.params["chunk_tokens"]      200
    resolved.origins["method.params.chunk_tokens"]     "--set"

A profile or config file has the shape of a RunConfig, any part of it; `method`, `dataset`, `model`, `encoder`,
`reranker` and `roles.<role>` may be just a name, and `methods: {<preset> or "*": params}` speaks to methods by name,
"*" to every method that has the parameter; `roles` among a preset's params are models for its roles. An encoder given
as `encoder: {default: NAME}` is that of methods whose preset names none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, create_model

from harness.config import presets, registry
from harness.config.layers import SCALARS, Choices, Layer, attempt, foreign_keys, layers
from harness.config.schema import ROLES, DatasetConfig, EncoderConfig, MethodChoice, ModelConfig, RunConfig
from harness.config.validation import build, gathered
from harness.config.yaml_tree import Raw, Tree, flatten, read_yaml
from harness.errors import ConfigError, HarnessError, UserError, close_matches, unknown

if TYPE_CHECKING:
    from harness.method import Method


names = presets.names
T = TypeVar("T")

_PARTS: dict[str, tuple[str, type[Any]]] = {
    "method": ("methods", MethodChoice),
    "dataset": ("datasets", DatasetConfig),
    "model": ("models", ModelConfig),
    "encoder": ("encoders", EncoderConfig),
    "reranker": ("encoders", EncoderConfig),
}
_DEFAULT = {"model": "default", "encoder": "minilm"}
_LANGUAGE_ROLES = tuple(r for r in ROLES if r not in ("reader", "encoder", "reranker"))
# What may be said of any model or encoder, so that it outlives the choice of another one in a later layer.
_MANNER = {
    "model": {"dtype", "device", "device_map", "attention", "window", "prefill_chunk", "memory_fraction"},
    "encoder": {"device", "batch_size"},
}


@dataclass(frozen=True)
class Resolved:
    """A checked configuration.

    origins: "method.params.k" -> where the value was said, "default" if nowhere; raw: likewise, as typed after --set.
    """

    config: RunConfig
    origins: dict[str, str]
    choices: Choices = field(default_factory=Choices)
    warnings: tuple[str, ...] = ()
    raw: dict[str, str] = field(default_factory=dict)


@dataclass
class Draft:
    """What could be resolved, and everything that could not."""

    choices: Choices
    parts: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    raw: dict[str, str] = field(default_factory=dict)
    problems: list[HarnessError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, path: str, model: Any, tree: Tree) -> None:
        """Take a finished part in, with the origin of each of its leaves."""
        self.parts[path] = model
        self.raw.update({f"{path}.{leaf}": text for leaf, text in tree.raw.items()})
        for leaf in flatten(model.model_dump(mode="json")):
            self.origins[f"{path}.{leaf}"] = tree.origins.get(leaf) or _nearest(tree.origins, leaf)


def _nearest(origins: dict[str, str], leaf: str) -> str:
    """The origin of a mapping's inside is that of the mapping when the mapping was set whole."""
    while "." in leaf:
        leaf = leaf.rpartition(".")[0]
        if leaf in origins:
            return origins[leaf]
    return "default"


def resolve(choices: Choices) -> Resolved:
    """Resolve all choices or raise: one UserError for one mistake, a ConfigError that lists several."""
    d = draft(choices)
    raise_all(d.problems)
    return Resolved(config_of(d), d.origins, choices, tuple(d.warnings), d.raw)


def raise_all(problems: list[HarnessError]) -> None:
    """Raise the only problem as it is, several as one ConfigError; return when there is none."""
    sentences: list[str] = []
    for problem in problems:
        sentences += problem.problems if isinstance(problem, ConfigError) else [str(problem)]
    sentences = list(dict.fromkeys(sentences))
    if len(problems) == 1 and len(sentences) == 1:
        raise problems[0]
    if sentences:
        raise ConfigError(sentences)


def config_of(d: Draft) -> RunConfig:
    """The RunConfig of a draft without problems."""
    parts = {k: v for k, v in d.parts.items() if "." not in k}
    roles = {k.partition(".")[2]: v for k, v in d.parts.items() if k.startswith("roles.")}
    return RunConfig(**parts, roles=roles)


def draft(choices: Choices) -> Draft:
    """Resolve what can be resolved; nothing is raised for a user's mistake, it is kept in `problems`."""
    d = Draft(choices)
    layers = _layers(d)
    for part in _PARTS:
        _try(d, partial(_part, d, layers, part, part))
    layers = _with_own_roles(d, layers)
    roles = dict.fromkeys(r for _, values in layers for r in values.get("roles", {}))
    for role in roles:
        _try(d, partial(_role, d, layers, role))
    _try(d, partial(_scalars, d, layers))
    d.problems += foreign_keys(d.parts, d.origins, choices.files)
    return d


def resolve_one(kind: str, choices: Choices) -> Draft:
    """Resolve the method, data set, model or encoder of `choices` alone. Raises as `resolve` does."""
    part = next(p for p, (k, _) in _PARTS.items() if k == kind)
    d = Draft(choices)
    layers = _layers(d)
    _try(d, partial(_part, d, layers, part, part))
    raise_all(d.problems)
    return d


def _try(d: Draft, step: Callable[[], T]) -> T | None:
    """Run one step; a user's mistake in it is kept and the other steps go on."""
    return attempt(d.problems, step)


def _layers(d: Draft) -> list[Layer]:
    """What was said, lowest first; the profile's name goes into the draft at once."""
    said = layers(d.choices, d.problems)
    if said.profile_origin != "default":
        d.parts["profile"], d.origins["profile"] = said.profile, said.profile_origin
    return said.layers


# --- one part ---------------------------------------------------------------------------------------------------------


def _part(d: Draft, layers: list[Layer], path: str, kind_of: str) -> None:
    if path == "encoder":
        layers = _default_encoder(d, layers)
    said = [(origin, _at(values, path)) for origin, values in layers if _at(values, path)]
    chosen = _chosen(layers, path)
    # A method's preset may name its own encoder or reranker; whatever was said elsewhere comes before it.
    own = getattr(d.parts.get("method"), path, None) if path in ("encoder", "reranker") else None
    name = chosen or own or _default(d, path)
    if name is None:
        if path in ("method", "dataset"):
            raise UserError(f"name a {presets.singular(path + 's')}: --{path} NAME  (harness list {path}s)")
        if said:
            raise UserError(f"{path} has settings but no name; name one with --set {path}=NAME")
        return
    tree = Tree()
    kind, model = _PARTS[kind_of]
    defined = any((v.get("name") == name and _defines(kind_of, v)) or v.get("backend") == "endpoint" for _, v in said)
    dataset = _chosen(layers, "dataset") if path == "method" else None
    name = _base(tree, kind, str(name), defined, dataset)
    if path == "method":
        target = tree.values.get("implementation")
        # What a layer says of methods by name is below what it says of the method that is run, above lower layers.
        said = [
            _with_prompts(each)
            for origin, values in layers
            for each in (*_by_name(origin, values, name, target), (origin, _at(values, path)))
            if each[1]
        ]
    if kind_of == "dataset":
        said = _options(said, tree)
    for origin, values in said:
        mine = "name" not in values or presets.fold(str(values["name"])) == presets.fold(str(chosen))
        values = values if mine else _manner(d, kind_of, values, origin, name)
        own = {k: v for k, v in values.items() if k != "name"}
        if "source" in own and "package" not in own and tree.values.get("package"):
            # The files that are named, not the package's; what is known of those (sha256) does not hold for them.
            own |= {key: None for key in ("package", "package_path", "sha256") if key in tree.values}
        _over(d, tree, own, origin)
    tree.values["name"] = name
    named = d.origins.get(f"method.{path}", "default") if own else "default"
    tree.origins["name"] = next((o for o, v in reversed(said) if v.get("name")), named)
    d.add(path, build(model, tree, path), tree)


def _default(d: Draft, path: str) -> str | None:
    """The model by the format of the data set, where there is one: the embedded one knows the made-up world alone."""
    dataset: DatasetConfig | None = d.parts.get("dataset")
    if path == "model" and dataset is not None:
        readers = registry.shipped("readers")
        return readers.get(dataset.format, readers["any other"])
    return _DEFAULT.get(path)


def _default_encoder(d: Draft, layers: list[Layer]) -> list[Layer]:
    """Give a method that uses an encoder and names none the default that a profile or file has; the other layers.

    From there on it is the method's own, so that a run with another one says so in its name.
    """
    found = [(o, _at(v, "encoder")["default"]) for o, v in layers if "default" in _at(v, "encoder")]
    method: MethodChoice | None = d.parts.get("method")
    if found and method is not None and method.encoder is None and "encoder" in _class(method.implementation).encoders:
        origin, name = found[-1]
        if not isinstance(name, str):
            raise UserError(f"{origin}: encoder.default must be the name of an encoder, not {name!r}")
        d.parts["method"] = method.model_copy(update={"encoder": presets.find("encoders", name)})
        d.origins["method.encoder"] = origin
    rest = [(o, {**v, "encoder": {k: x for k, x in _at(v, "encoder").items() if k != "default"}}) for o, v in layers]
    return rest if found else layers


def _options(said: list[Layer], tree: Tree) -> list[Layer]:
    """A data set's own options may be set without saying "options": dataset.tokens for dataset.options.tokens."""
    fields = set(DatasetConfig.model_fields)
    if all(fields.issuperset(values) for _, values in said):
        return said
    form = next((v["format"] for _, v in reversed(said) if "format" in v), tree.values.get("format", ""))
    known = registry.dataset_options(str(form))
    return [(origin, gathered(values, "options", fields, known)) for origin, values in said]


def _over(d: Draft, tree: Tree, values: dict[str, Any], origin: str) -> None:
    _try(d, partial(tree.merge, values, origin))


def _at(values: dict[str, Any], path: str) -> dict[str, Any]:
    for key in path.split("."):
        values = values.get(key) or {}
    return values


def _defines(kind_of: str, values: dict[str, Any]) -> bool:
    """Whether a file's mapping says itself what it is, so that its name need not be a preset."""
    return {"method": "implementation", "dataset": "format"}.get(kind_of, "source") in values or "backend" in values


def _chosen(layers: list[Layer], path: str) -> str | None:
    """The name that the highest layer gives a part."""
    return next((str(n) for _, v in reversed(layers) if (n := _at(v, path).get("name"))), None)


def _base(tree: Tree, kind: str, name: str, defined: bool, dataset: str | None) -> str:
    """Lay the preset's own layers, or what a folder or hub id means; return the name as in tables."""
    if kind in ("models", "encoders"):
        folder = Path(name).expanduser()
        known = {presets.fold(n) for n in presets.names(kind)}
        is_file = kind == "models" and folder.suffix == ".gguf"
        if presets.fold(name) not in known and not defined and ("/" in name or folder.is_dir() or is_file):
            is_local = is_file or folder.is_dir() or name.startswith(("/", ".", "~"))
            how = "file" if is_file else "folder" if is_local else "hub id"
            tree.merge({"source": name}, f"named by its {how}")
            return folder.resolve().name.removesuffix(".gguf") if is_local else name
    try:
        name = presets.find(kind, name)
    except UserError:
        if defined:
            return name
        raise
    for origin, values in presets.read(kind, name):
        tree.merge({k: v for k, v in values.items() if k != "by_dataset" or kind != "methods"}, origin)
        if kind == "methods" and (params := presets.for_dataset(values, dataset)):
            tree.merge({"params": params}, f"{origin}, by_dataset")
    return str(tree.values.get("name") or name)  # the name in tables may differ from the file's


def _by_name(origin: str, values: dict[str, Any], name: str, target: Any) -> list[Layer]:
    """What a profile or file says of methods by name, "*" first; `target` is the implementation of method `name`."""
    table: dict[str, Any] = values.get("methods", {})
    known = {presets.fold(n): n for n in presets.names("methods")} if table else {}
    for key, params in table.items():
        if key != "*" and presets.fold(key) not in known:
            raise unknown(f"method '{key}' ({origin})", key, known.values())
        if not isinstance(params, dict):
            raise UserError(f"{origin}: methods.{key} must be a mapping of parameters")
    out: list[Layer] = []
    if "*" in table:
        mine = parameters(str(target))
        if "roles" in table["*"]:
            raise UserError(f"{origin}: models for the roles of all methods belong under roles, not under methods.*")
        general = {k: v for k, v in table["*"].items() if k in mine}
        if "prompts" in general:
            general["prompts"] = _own_prompts(_replacements(general["prompts"], origin), str(target))
        out.append((origin, {"params": general}))
    own = [
        {k: v for k, v in p.items() if k != "roles"} for m, p in table.items() if presets.fold(m) == presets.fold(name)
    ]
    return out + [(origin, {"params": params}) for params in own]


def _with_prompts(said: Layer) -> Layer:
    """The layer with its replaced prompts spelled out as name -> turns, those of a file too."""
    origin, values = said
    params = values.get("params")
    if not isinstance(params, dict) or "prompts" not in params:
        return said
    return origin, {**values, "params": {**params, "prompts": _replacements(params["prompts"], origin)}}


def _replacements(said: object, origin: str) -> dict[str, dict[str, object]]:
    """What a layer says under `prompts`, name -> turns, a file's mapping where it names one.

    Text typed after `--set` is taken as it is. Raises UserError for what is neither a mapping nor a file with one.
    """
    if isinstance(said, str):
        said = read_yaml(Path(said).expanduser(), said)
    if not isinstance(said, dict):
        raise UserError(f"{origin}: prompts must be a mapping of names to texts, or a YAML file with one")
    found: dict[str, dict[str, object]] = {}
    for name, turns in said.items():
        turns = turns if isinstance(turns, dict) else {"user": turns}
        found[str(name)] = {turn: str(text) if isinstance(text, Raw) else text for turn, text in turns.items()}
    return found


def _own_prompts(said: dict[str, dict[str, Any]], implementation: str) -> dict[str, Any]:
    """Of prompts that are replaced for all methods those that this one has, and names close to one (mistyped)."""
    cls = _class(implementation)
    own = {prompt.name for prompt in cls(cls.Config()).templates()}
    return {name: turns for name, turns in said.items() if close_matches(name, sorted(own))}


def _with_own_roles(d: Draft, layers: list[Layer]) -> list[Layer]:
    """The layers, each followed by what it says of the roles of the method that is run."""
    method: MethodChoice | None = d.parts.get("method")
    found: list[Layer] = []
    for origin, values in layers:
        found.append((origin, values))
        for name, params in values.get("methods", {}).items():
            mine = method is not None and presets.fold(name) == presets.fold(method.name)
            if not mine or not isinstance(params, dict) or "roles" not in params:
                continue
            roles = params["roles"]
            if not isinstance(roles, dict) or not all(isinstance(one, str) for one in roles.values()):
                d.problems.append(
                    UserError(f"{origin}: methods.{name}.roles must be a mapping of roles to model names")
                )
                continue
            found.append((origin, {"roles": {role: {"name": one} for role, one in roles.items()}}))
    return found


def parameters(implementation: str) -> set[str]:
    """Names of the parameters of a method's implementation. Raises UserError when it cannot be imported."""
    return set(_class(implementation).Config.model_fields)


def _class(implementation: str) -> type[Method]:
    from harness.method import Method

    found: type[Method] = registry.load(implementation, Method)
    return found


def _manner(d: Draft, kind_of: str, values: dict[str, Any], origin: str, name: str) -> dict[str, Any]:
    """What remains of settings made for another choice: how it is run, not what it is. Says what was left out."""
    keep = _MANNER.get("encoder" if kind_of == "reranker" else kind_of, set())
    left = sorted(set(values) - keep - {"name"})
    if left:
        d.warnings.append(
            f"{origin} sets {', '.join(left)} of {kind_of} '{values['name']}'; not used, as '{name}' was chosen"
        )
    return {k: v for k, v in values.items() if k in keep}


def _role(d: Draft, layers: list[Layer], role: str) -> None:
    """A role's model: its own preset, or the reader with some settings changed."""
    path = f"roles.{role}"
    if role == "reader":
        raise UserError("the reader is set with --model and --set model.KEY=VALUE, not as a role")
    if role in ("encoder", "reranker"):
        raise UserError(f"set '{role}' itself, not 'roles.{role}': --set {role}=NAME")
    if role not in _LANGUAGE_ROLES:
        raise unknown(f"role '{role}'", role, _LANGUAGE_ROLES)
    said = [(origin, _at(values, path)) for origin, values in layers if _at(values, path)]
    if any(v.get("name") for _, v in said):
        return _part(d, layers, path, "model")
    reader: ModelConfig | None = d.parts.get("model")
    if reader is None:
        return None  # the reader's own problem is reported already
    tree = Tree()
    tree.merge(reader.model_dump(mode="json"), "as the reader")
    for origin, values in said:
        _over(d, tree, values, origin)
    d.add(path, build(ModelConfig, tree, path), tree)
    return None


@cache
def _scalar_fields() -> type[BaseModel]:
    fields: dict[str, Any] = {k: (RunConfig.model_fields[k].annotation, RunConfig.model_fields[k]) for k in SCALARS}
    return create_model("Scalars", **fields)


def _scalars(d: Draft, layers: list[Layer]) -> None:
    """seed, limit and failed, checked by RunConfig's own fields."""
    tree = Tree()
    for origin, values in layers:
        _over(d, tree, {k: values[k] for k in SCALARS if k in values}, origin)
    d.origins.update({k: tree.origins.get(k, "default") for k in SCALARS})
    d.parts.update(build(_scalar_fields(), tree, "").model_dump())
