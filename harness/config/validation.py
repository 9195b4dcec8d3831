"""pydantic's findings as sentences: the key as the user types it, the origin of the value, the nearest known key.

model.dtype='fp8' (--set): should be 'auto', 'float32', 'bfloat16' or 'float16'
unknown key 'method.chunk_token' (--set). Did you mean 'chunk_tokens'?
"""

import re
from collections.abc import Mapping
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from harness.config.schema import ELSEWHERE, DatasetConfig
from harness.config.yaml_tree import Tree, merged, nested
from harness.errors import ConfigError, UserError, unknown

M = TypeVar("M", bound=BaseModel)


def as_typed(path: str) -> str:
    """A path of RunConfig as `--set` takes it: "method.params.k" -> "method.k"."""
    return re.sub(r"^method\.params\.", "method.", path)


def build(model: type[M], tree: Tree, path: str) -> M:
    """Validate `tree` as `model`; `path` is where it sits in a RunConfig.

    A value typed after --set is taken as text where a field wants text. Raises ConfigError with all mistakes.
    """
    values = tree.values
    try:
        return model.model_validate(values)
    except ValidationError as first:
        locs = [e["loc"] for e in first.errors() if e["type"] == "string_type" and _dotted(e["loc"]) in tree.raw]
    for loc in locs:
        values = merged(values, nested(_dotted(loc), tree.raw[_dotted(loc)]))
    try:
        return model.model_validate(values)
    except ValidationError as e:
        raise ConfigError(error_sentences(e, model, path, tree.origins)) from e


def part_of_run(model: type[M], values: Any, folder: str) -> M:
    """Validate a part of a stored run's configuration; `folder` is the run's. Raises UserError."""
    try:
        return model.model_validate(values)
    except ValidationError as e:
        raise UserError(f"{folder}/run.yaml is not of this version: {error_sentences(e, model, '', {})[0]}") from e


def dataset_of_run(config: Mapping[str, Any], folder: str) -> DatasetConfig:
    """The data set of a run's configuration, to score answers or to find rows; `folder` is the run's. Raises UserError.

    An imported run lacks instruction and max_answer_tokens; values that neither use reads stand in for them.
    """
    elsewhere = config["method"].get("implementation") == ELSEWHERE
    unknown = {"instruction": "", "max_answer_tokens": 1} if elsewhere else {}
    return part_of_run(DatasetConfig, {**unknown, **config["dataset"]}, folder)


def _dotted(loc: tuple[int | str, ...]) -> str:
    return ".".join(str(p) for p in loc)


def error_sentences(error: ValidationError, model: type[BaseModel], path: str, origins: dict[str, str]) -> list[str]:
    """One sentence for each error in a `model`. path: goes before every key; origins: key below it -> its source."""

    def sentence(e: Any) -> str:
        loc = tuple(e["loc"])
        key = as_typed(".".join([path, *map(str, loc)]) if path else _dotted(loc))
        heads = (_dotted(loc[:n]) for n in range(len(loc), 0, -1))
        source = next((f" ({origins[head]})" for head in heads if origins.get(head)), "")
        if e["type"] == "extra_forbidden":
            return str(unknown(f"key '{key}'{source}", str(loc[-1]), _fields(model, loc[:-1])))
        if e["type"] == "missing":
            return f"{key} is missing; give it a value" + (f" with --set {key}=..." if path else "")
        wish = re.sub(r"^Value error, |^Input |, unable to parse.*", "", e["msg"]).replace("tuple", "list")
        listed = re.fullmatch(r"\s*[\d.]+(\.\.|,).*", str(e["input"]))
        several = f"; several values: --sweep {key}=1,2,3" if listed else ""
        return f"{key}={e['input']!r}{source}: {wish[:1].lower()}{wish[1:]}{several}"

    return [sentence(e) for e in error.errors()]


def _fields(model: Any, loc: tuple[int | str, ...]) -> list[str]:
    """Names of the fields of the model that sits at `loc` below `model`."""
    for step in loc:
        fields = getattr(model, "model_fields", {})
        if step not in fields:
            continue  # an index, or a branch of a union
        annotation = fields[step].annotation
        inner = [a for a in (annotation, *get_args(annotation)) if isinstance(a, type) and issubclass(a, BaseModel)]
        model = inner[0] if inner else None
    return list(getattr(model, "model_fields", {}))
