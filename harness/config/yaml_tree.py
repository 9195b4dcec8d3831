"""YAML read strictly, and settings in layers: merged with the origin of each value, and checked as
a pydantic model.

    tree = Tree([("configs/methods/bm25.yaml", {"params": {"k": 5}}), ("--set", {"params": {"k":
    7}})])
    tree.values                          {"params": {"k": 7}}
    tree.origins                         {"params.k": "--set"}
    build(MethodChoice, tree, "method")  the model, or every mistake as a sentence:

unknown key 'method.chunk_token' (--set). Did you mean 'chunk_tokens'?
model.dtype='fp8' (--set): should be 'auto', 'float32', 'bfloat16' or 'float16'

Mappings are merged key by key; lists and everything else replace what was there.
"""

import math
import re
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from harness.config.schema import ELSEWHERE, DatasetConfig
from harness.errors import ConfigError, UserError, unknown
from harness.storage.yaml_text import Loader as SafeLoader
from harness.storage.yaml_text import YAMLProblem, parse_yaml

MOST = 2**53
"""The largest number of a setting: a float holds every whole number below it."""
M = TypeVar("M", bound=BaseModel)
Layer = tuple[str, dict[str, Any]]
"""The origin of some settings (a file or flag), and the settings."""


class _Loader(SafeLoader):  # type: ignore[misc]
    """Safe loader with the scalars of YAML 1.2: `yes`, `on` and dates stay text, 1e-5 is a number;
    no key twice."""


_Loader.yaml_implicit_resolvers = {}
for _type, _form in {
    "bool": r"^(?:true|True|TRUE|false|False|FALSE)$",
    "int": r"^[-+]?[0-9]+$",
    "float": r"^(?:[-+]?(?:\.[0-9]+|[0-9]+\.?[0-9]*)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
    "null": r"^(?:~|null|Null|NULL|)$",
}.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_type}", re.compile(_form), None)


def _parse_mapping(loader: Any, node: Any) -> dict[Any, Any]:
    """A YAML mapping. Raises MarkedYAMLError for a key that is there twice or is no plain text."""
    seen: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, Hashable) or key in seen:
            problem = (
                f"the key '{key}' is given twice"
                if isinstance(key, Hashable)
                else "a key must be plain text"
            )
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
        seen[key] = loader.construct_object(value_node, deep=True)
    return seen


# "010" is ten, as YAML 1.2 and every reader expect.
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))
_Loader.add_constructor("tag:yaml.org,2002:map", _parse_mapping)


def parsed(text: str) -> Any:
    """What text typed on the command line says as YAML: "3" -> 3, "[a, b]" -> ["a", "b"], "yes" ->
    "yes".

    Only text that begins with a bracket is a list or mapping, so that prompts stay as typed: "Q:
    {question}",
    "{question}". Raises ConfigError for a list or mapping that is not closed, and for what is not
    UTF-8.
    """
    first = text.lstrip()[:1]
    try:
        value = parse_yaml(text.encode(), _Loader)
    except UnicodeEncodeError as e:
        raise ConfigError([f"{text!r} is not UTF-8 text; save it as UTF-8"]) from e
    except YAMLProblem as e:
        if first in ("[", "{") and text.count("[") + text.count("{") != text.count(
            "]"
        ) + text.count("}"):
            raise ConfigError([f"'{text}' is not a YAML list or mapping"]) from e
        return text
    if isinstance(value, str):
        return value if first in ("'", '"') else text
    is_collection = first == "[" or (first == "{" and (":" in text or not value))
    return text if isinstance(value, dict | list) and not is_collection else value


def parse_assignments(texts: Iterable[str], prefix: str, several: bool = False) -> dict[str, Any]:
    """Parse ["method.k=3"] to {"method.k": 3}. prefix: goes before the text in messages, "--set ".

    several: parse ["method.k=1,3"] to {"method.k": [1, 3]}.

    Raises ConfigError with a sentence for each malformed or repeated assignment.
    """
    assigned: dict[str, str] = {}
    problems: list[str] = []
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not key:
            problems.append(
                f"'{prefix}{text}' is no assignment; write KEY=VALUE, for instance method.k=3"
            )
        elif assigned.setdefault(key, value) != value:
            problems.append(f"'{key}' is set twice: to {assigned[key]} and to {value}")
    if problems:
        raise ConfigError(problems)
    return {key: parsed(f"[{value}]" if several else value) for key, value in assigned.items()}


def read_yaml(path: Path, shown: str = "") -> dict[str, Any]:
    """The mapping in a YAML file; `shown` is how messages name it. Raises ConfigError with the
    line."""
    shown = shown or str(path)
    try:
        value = parse_yaml(path.read_bytes().decode(), _Loader)
    except UnicodeDecodeError as e:
        raise ConfigError([f"{shown}: not UTF-8 text; save it as UTF-8"]) from e
    except OSError as e:
        raise ConfigError([f"{shown}: cannot be read ({e.strerror}); name another file"]) from e
    except YAMLProblem as e:
        place = "" if e.line is None else f", line {e.line}"
        raise ConfigError([f"{shown}{place}: {e}"]) from e
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(k, str) for k in value):
        raise ConfigError([f"{shown}: must hold a mapping of keys to values"])
    return value


def flatten(value: Any, path: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} -> {"a.b": 1}; an empty mapping is a leaf. path: goes before every key."""
    if not isinstance(value, dict) or not value:
        return {path: value}
    out: dict[str, Any] = {}
    for key, inner in value.items():
        out.update(flatten(inner, f"{path}.{key}" if path else str(key)))
    return out


def nested(path: str, value: Any) -> dict[str, Any]:
    """("a.b", 1) -> {"a": {"b": 1}}."""
    for key in reversed(path.split(".")):
        value = {key: value}
    return dict(value)


def merged(below: Any, above: Any) -> Any:
    """Lay `above` over `below`: mappings key by key; any other value replaces what was there."""
    if not isinstance(above, dict) or not isinstance(below, dict):
        return above
    return below | {key: merged(below.get(key), value) for key, value in above.items()}


def value_text(value: Any) -> str:
    """A value as one types it: null, true, 3, document, [a, b]."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return (
        f"[{', '.join(map(value_text, value))}]" if isinstance(value, list | tuple) else str(value)
    )


class Tree:
    """Settings laid over each other: nested `values`, and by dotted path the origin of each."""

    def __init__(self, layers: Iterable[Layer] = ()) -> None:
        self.values: dict[str, Any] = {}
        self.origins: dict[str, str] = {}
        for origin, values in layers:
            self.values = merged(self.values, values)
            self.origins |= dict.fromkeys(flatten(values), origin)


def origin_of(path: str, origins: Mapping[str, str]) -> str:
    """The origin of the value at `path`, else of one around or inside it; "" if nothing set it."""
    related = (
        o
        for at, o in origins.items()
        if f"{path}.".startswith(f"{at}.") or at.startswith(f"{path}.")
    )
    return origins.get(path) or next(related, "")


def build(model: type[M], tree: Tree, path: str) -> M:
    """Validate `tree` as `model`; `path` is where it sits in a RunConfig. Raises ConfigError with
    all mistakes."""
    try:
        made = model.model_validate(tree.values)
    except ValidationError as e:
        raise ConfigError(error_sentences(e, model, path, tree.origins)) from e
    problems = [*_too_large(tree, path), *_truth_values(tree, made, path)]
    if problems:
        raise ConfigError(problems)
    return made


def _truth_values(tree: Tree, made: BaseModel, path: str) -> list[str]:
    """A sentence for each number that is given as true or false, which pydantic reads as 1 or 0."""
    validated = flatten(made.model_dump())
    problems = []
    for at, value in flatten(tree.values).items():
        if isinstance(value, bool) and type(validated.get(at)) in (int, float):
            key = as_typed(f"{path}.{at}" if path else at)
            problems.append(f"{key}={value_text(value)}: should be a number")
    return problems


def _too_large(tree: Tree, path: str) -> list[str]:
    """A sentence for each number that is larger than any part of the program can hold."""
    problems = []
    for at, value in flatten(tree.values).items():
        if isinstance(value, int | float) and MOST < abs(value) < math.inf:
            key = as_typed(f"{path}.{at}" if path else at)
            origin = origin_of(at, tree.origins)
            source = f" ({origin})" if origin else ""
            problems.append(f"{key}={str(value)[:40]}{source}: should be at most {MOST:,}")
    return problems


def as_typed(path: str) -> str:
    """A path of RunConfig as `--set` takes it: "method.params.k" -> "method.k"."""
    return re.sub(r"^method\.params\.", "method.", path)


def error_sentences(
    error: ValidationError, model: type[BaseModel], path: str, origins: Mapping[str, str]
) -> list[str]:
    """One sentence for each error in a `model`. path: goes before every key; origins: key below it
    -> its source."""
    sentences = []
    for e in error.errors():
        at = ".".join(map(str, e["loc"]))
        key = as_typed(f"{path}.{at}" if path else at)
        origin = origin_of(at, origins)
        source = f" ({origin})" if origin else ""
        if e["type"] == "extra_forbidden":
            known = _fields_at(model, e["loc"][:-1])
            sentences.append(str(unknown(f"key '{key}'{source}", str(e["loc"][-1]), known)))
        elif e["type"] == "missing":
            file = "" if path else "".join(f"{origin}: " for origin in [*origins.values()][-1:])
            sentences.append(
                f"{file}{key} is missing; give it a value"
                + (f" with --set {key}=..." if path else "")
            )
        else:
            expected = re.sub(r"^Value error, |^Input |, unable to parse.*", "", e["msg"])
            expected = re.sub("[Tt]uple", "list", expected)
            hint = ""
            if e["type"] == "string_type" and not isinstance(e["input"], dict | list):
                hint = f"; in quotes it is text: --set {key}='\"...\"'"
            elif re.fullmatch(r"\s*[\d.]+(\.\.|,).*", str(e["input"])):
                hint = f"; several values: --sweep {key}=1,2,3"
            sentences.append(
                f"{key}={e['input']!r}{source}: {expected[:1].lower()}{expected[1:]}{hint}"
            )
    return sentences


def _fields_at(model: Any, loc: tuple[int | str, ...]) -> list[str]:
    """Names of the fields of the model that sits at `loc` below `model`."""
    for step in loc:
        if step in (
            fields := getattr(model, "model_fields", {})
        ):  # else an index, or a branch of a union
            annotation = fields[step].annotation
            members = (annotation, *get_args(annotation))
            model = next(
                (a for a in members if isinstance(a, type) and issubclass(a, BaseModel)), None
            )
    return [field.alias or name for name, field in getattr(model, "model_fields", {}).items()]


def part_of_run(model: type[M], values: Any, folder: str) -> M:
    """Validate a part of a stored run's configuration; `folder` is the run's. Raises UserError."""
    try:
        return model.model_validate(values)
    except ValidationError as e:
        raise UserError(
            f"{folder}/run.yaml is not of this version: {error_sentences(e, model, '', {})[0]}"
        ) from e


def dataset_of_run(config: Mapping[str, Any], folder: str) -> DatasetConfig:
    """The data set of a run's configuration, to score answers or to find rows; `folder` is the
    run's. Raises UserError.

    An imported run lacks instruction and max_answer_tokens; values that neither use reads stand in
    for them.
    """
    elsewhere = config["method"].get("implementation") == ELSEWHERE
    lacking = {"instruction": "", "max_answer_tokens": 1} if elsewhere else {}
    return part_of_run(DatasetConfig, {**lacking, **config["dataset"]}, folder)
