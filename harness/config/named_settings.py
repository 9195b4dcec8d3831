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
from harness.config.registry import method_class, parameters
from harness.config.schema import MethodChoice
from harness.config.yaml_tree import Raw, read_yaml
from harness.errors import HarnessError, UserError, close_matches, unknown


def settings_for(kind: str, table: dict[str, Any], name: str, origin: str, implementation: str) -> list[dict[str, Any]]:
    """The settings that a layer gives the preset `name`, as mappings to merge in order; of a method, "*" and its own.

    kind: "methods" or "datasets"; table: what the layer has under `kind`, preset or "*" -> settings; origin: of the
    layer, for messages; implementation: the method's class, whose parameters alone are taken from "*". Raises UserError
    for an unknown name, and for what is no mapping of settings.
    """
    known = {presets.fold(n): n for n in presets.names(kind)} if table else {}
    for key, params in table.items():
        if (kind, key) != ("methods", "*") and presets.fold(key) not in known:
            raise unknown(f"{presets.singular(kind)} '{key}' ({origin})", key, known.values())
        if not isinstance(params, dict):
            raise UserError(f"{origin}: {kind}.{key} must be a mapping of its settings")
    own = [params for key, params in table.items() if presets.fold(key) == presets.fold(name)]
    if kind != "methods":
        return own
    settings: list[dict[str, Any]] = []
    if "*" in table:
        if "roles" in table["*"]:
            raise UserError(f"{origin}: models for the roles of all methods belong under roles, not under methods.*")
        fields = parameters(implementation)
        general = {k: v for k, v in table["*"].items() if k in fields}
        if "prompts" in general:
            # Those that this method has, and names close to one (typing errors).
            cls = method_class(implementation)
            prompts = sorted({prompt.name for prompt in cls(cls.Config()).templates()})
            replaced = _replacements(general["prompts"], origin).items()
            general["prompts"] = {one: turns for one, turns in replaced if close_matches(one, prompts)}
        settings.append(general)
    return [{"params": {k: v for k, v in params.items() if k != "roles"}} for params in [*settings, *own]]


def role_models(layers: list[Layer], method: MethodChoice | None, problems: list[HarnessError]) -> list[Layer]:
    """`layers`, each followed by one with the role models that it sets for `method`; mistakes go to `problems`."""
    out: list[Layer] = []
    for origin, values in layers:
        out.append((origin, values))
        for name, params in values.get("methods", {}).items():
            is_run = method is not None and presets.fold(name) == presets.fold(method.name)
            if not is_run or not isinstance(params, dict) or "roles" not in params:
                continue
            roles = params["roles"]
            if isinstance(roles, dict) and all(isinstance(model, str) for model in roles.values()):
                out.append((origin, {"roles": {role: {"name": model} for role, model in roles.items()}}))
            else:
                sentence = f"{origin}: methods.{name}.roles must be a mapping of roles to model names"
                problems.append(UserError(sentence))
    return out


def with_prompts(values: dict[str, Any], origin: str) -> dict[str, Any]:
    """`values`, a method's settings, with its `prompts` read as `_replacements` does; origin: of the layer."""
    params = values.get("params")
    if not isinstance(params, dict) or "prompts" not in params:
        return values
    return {**values, "params": {**params, "prompts": _replacements(params["prompts"], origin)}}


def _replacements(prompts: object, origin: str) -> dict[str, dict[str, object]]:
    """A layer's `prompts`, a mapping or a file's name, as prompt name -> {"user" or "system": text}.

    Text typed after `--set` is taken as it is. Raises UserError for what is neither a mapping nor a file with one.
    """
    if isinstance(prompts, str):
        prompts = read_yaml(Path(prompts).expanduser(), prompts)
    if not isinstance(prompts, dict):
        raise UserError(f"{origin}: prompts must be a mapping of names to texts, or a YAML file with one")
    out: dict[str, dict[str, object]] = {}
    for name, turns in prompts.items():
        turns = turns if isinstance(turns, dict) else {"user": turns}
        out[str(name)] = {turn: str(text) if isinstance(text, Raw) else text for turn, text in turns.items()}
    return out
