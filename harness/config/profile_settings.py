"""What a profile or config file sets for methods and data sets by name.

methods:
  "*": {chunk_tokens: 200}                            every method that has the parameter
  pecan: {t_p: 0.6, roles: {builder: small}}          one method, with models for its roles
  bm25: {prompts: own-prompts.yaml}                   prompts: a mapping, or a file with one
datasets:
  nq: {documents: retrieved.jsonl}
"""

from pathlib import Path
from typing import Any

from harness.config import presets
from harness.config.layers import Layer
from harness.config.registry import method_class
from harness.config.yaml_tree import Raw, read_yaml
from harness.errors import UserError, close_matches, unknown


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
    if kind != "methods":
        return out
    return [(origin, _with_prompts(values, origin)) for origin, values in out]


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


def _with_prompts(values: dict[str, Any], origin: str) -> dict[str, Any]:
    """`values`, a layer, with its `method.params.prompts` read as `_replacements` does."""
    params = values.get("method", {}).get("params")
    if not isinstance(params, dict) or "prompts" not in params:
        return values
    params = {**params, "prompts": _replacements(params["prompts"], origin)}
    return {**values, "method": {**values["method"], "params": params}}


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
