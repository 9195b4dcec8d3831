"""YAML read strictly, and settings in layers: merged with the origin of each value, and checked as
a pydantic model.

    tree = Tree([("configs/methods/bm25.yaml", {"params": {"k": 5}}), ("--set", {"params": {"k": 7}})])
    tree.values                          {"params": {"k": 7}}
    tree.origins                         {"params.k": "--set"}
    validate_tree(MethodChoice, tree, "method")  the model, or every mistake as a sentence:

unknown key 'method.chunk_token' (--set). Did you mean 'chunk_tokens'?
model.dtype='fp8' (--set): should be 'auto', 'float32', 'bfloat16' or 'float16'

Mappings are merged key by key; lists and everything else replace what was there.
"""

import math
import re
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from harness.config.schema import MADE_ELSEWHERE, DatasetConfig
from harness.errors import ConfigError, UserError, unknown_name_error
from harness.storage.stored_config import StoredConfig
from harness.storage.yaml_text import Loader as SafeLoader
from harness.storage.yaml_text import YAMLProblem, parse_yaml

LARGEST_NUMBER = 2**53
"""The largest number of a setting: a float holds every whole number below it."""
M = TypeVar("M", bound=BaseModel)


class Layer(NamedTuple):
    """Some settings, as nested mappings, and what set them: "--set", "configs/methods/bm25.yaml"."""

    origin: str
    values: Mapping[str, object]


class _StrictLoader(SafeLoader):  # type: ignore[misc]
    """Safe loader with the scalars of YAML 1.2: `yes`, `on` and dates stay text, 1e-5 is a number;
    no key twice."""


_StrictLoader.yaml_implicit_resolvers = {}
for _type, _form in {
    "bool": r"^(?:true|True|TRUE|false|False|FALSE)$",
    "int": r"^[-+]?[0-9]+$",
    "float": r"^(?:[-+]?(?:\.[0-9]+|[0-9]+\.?[0-9]*)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
    "null": r"^(?:~|null|Null|NULL|)$",
}.items():
    _StrictLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_type}", re.compile(_form), None)


def _parse_mapping(loader: Any, node: Any) -> dict[Any, Any]:
    """Make a dict of a YAML mapping, as PyYAML asks for it.

    Raises MarkedYAMLError for a key that is there twice or is no plain text.
    """
    parsed_mapping: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        problem = ""
        if not isinstance(key, Hashable):
            problem = "a key must be plain text"
        elif key in parsed_mapping:
            problem = f"the key '{key}' is given twice"
        if problem:
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
        parsed_mapping[key] = loader.construct_object(value_node, deep=True)
    return parsed_mapping


# "010" is ten, as YAML 1.2 and every reader expect.
_StrictLoader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))
_StrictLoader.add_constructor("tag:yaml.org,2002:map", _parse_mapping)


def parse_typed_value(text: str) -> object:
    """Parse text typed on the command line as YAML.

    "3" -> 3, "[a, b]" -> ["a", "b"], "yes" -> "yes", "'3'" -> "3". Only text that begins with a
    bracket is a list or mapping, so that prompts stay as typed: "Q: {question}", "{question}". So
    does other text that is no YAML. Raises ConfigError for a list or mapping that is not closed,
    and for what is not UTF-8.
    """
    first_character = text.lstrip()[:1]
    try:
        value = parse_yaml(text.encode(), _StrictLoader)
    except UnicodeEncodeError as encode_error:
        raise ConfigError([f"{text!r} is not UTF-8 text; save it as UTF-8"]) from encode_error
    except YAMLProblem as yaml_error:
        n_opened = text.count("[") + text.count("{")
        n_closed = text.count("]") + text.count("}")
        if first_character in ("[", "{") and n_opened != n_closed:
            raise ConfigError([f"'{text}' is not a YAML list or mapping"]) from yaml_error
        return text
    if isinstance(value, str):
        is_quoted = first_character in ("'", '"')
        return value if is_quoted else text
    if isinstance(value, dict | list):
        is_list = first_character == "["
        is_mapping = first_character == "{" and (":" in text or not value)
        return value if is_list or is_mapping else text
    return value


def parse_assignments(texts: Iterable[str], prefix: str) -> dict[str, object]:
    """Parse assignments: ["method.k=3", "seed=1"] -> {"method.k": 3, "seed": 1}.

    Args:
        texts: The assignments as typed.
        prefix: Goes before the text in messages: "--set ".

    Raises:
        ConfigError: With a sentence for each malformed or repeated assignment.
    """
    return {key: parse_typed_value(text) for key, text in _assigned_texts(texts, prefix).items()}


def parse_lists(texts: Iterable[str], prefix: str) -> dict[str, list[object]]:
    """Parse assignments of several values: ["method.k=1,3"] -> {"method.k": [1, 3]}; [] for a text
    that is no list.

    Args:
        texts: The assignments as typed.
        prefix: Goes before the text in messages: "--sweep ".

    Raises:
        ConfigError: With a sentence for each malformed or repeated assignment.
    """
    lists: dict[str, list[object]] = {}
    for key, text in _assigned_texts(texts, prefix).items():
        values = parse_typed_value(f"[{text}]")
        lists[key] = []
        if isinstance(values, list):
            lists[key] = values
    return lists


def _assigned_texts(texts: Iterable[str], prefix: str) -> dict[str, str]:
    """Split assignments at the first "=": ["method.k=3"] -> {"method.k": "3"}.

    Raises ConfigError with a sentence for each malformed or repeated one.
    """
    text_by_key: dict[str, str] = {}
    problems: list[str] = []
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not key:
            problems.append(
                f"'{prefix}{text}' is no assignment; write KEY=VALUE, for instance method.k=3"
            )
        elif text_by_key.setdefault(key, value) != value:
            problems.append(f"'{key}' is set twice: to {text_by_key[key]} and to {value}")
    if problems:
        raise ConfigError(problems)
    return text_by_key


def read_yaml(path: Path, shown_path: str = "") -> dict[str, object]:
    """Read the mapping in a YAML file; {} for an empty file.

    Args:
        path: The file.
        shown_path: How messages name the file; "" for its path.

    Raises:
        ConfigError: The file cannot be read or holds no mapping; the message has the line if known.
    """
    shown_path = shown_path or str(path)
    try:
        value = parse_yaml(path.read_bytes().decode(), _StrictLoader)
    except UnicodeDecodeError as read_error:
        raise ConfigError([f"{shown_path}: not UTF-8 text; save it as UTF-8"]) from read_error
    except OSError as read_error:
        raise ConfigError(
            [f"{shown_path}: cannot be read ({read_error.strerror}); name another file"]
        ) from read_error
    except YAMLProblem as read_error:
        if read_error.line is not None:
            shown_path = f"{shown_path}, line {read_error.line}"
        raise ConfigError([f"{shown_path}: {read_error}"]) from read_error
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ConfigError([f"{shown_path}: must hold a mapping of keys to values"])
    return value


def mapping_at(values: object, *keys: str) -> dict[str, object]:
    """The mapping at a path of keys in nested mappings; {} where there is none.

    ({"a": {"b": {"c": 1}}}, "a", "b") -> {"c": 1}
    """
    inner = values
    for key in keys:
        if not isinstance(inner, Mapping):
            return {}
        inner = inner.get(key)
    if not isinstance(inner, Mapping):
        return {}
    return dict(inner)


def flatten(value: object, path: str = "") -> dict[str, object]:
    """Write nested mappings with dotted keys: {"a": {"b": 1}} -> {"a.b": 1}.

    An empty mapping inside stays as a value.

    Args:
        value: The mappings, or a single value.
        path: The path of `value` itself, before every key; "" for none.
    """
    if not isinstance(value, dict) or not value:
        return {path: value}
    leaves: dict[str, object] = {}
    for key, inner in value.items():
        leaves |= flatten(inner, _joined_path(path, str(key)))
    return leaves


def _joined_path(path: str, key: str) -> str:
    """Join a path and a key with a dot: ("a", "b") -> "a.b"; ("", "b") -> "b"."""
    if not path:
        return key
    return f"{path}.{key}"


def nested(path: str, value: object) -> dict[str, object]:
    """Write a dotted path and its value as nested mappings: ("a.b", 1) -> {"a": {"b": 1}}."""
    first_key, *inner_keys = path.split(".")
    for key in reversed(inner_keys):
        value = {key: value}
    return {first_key: value}


def merged(below: Mapping[str, object], above: Mapping[str, object]) -> dict[str, object]:
    """Lay settings over others: mappings key by key; any other value replaces what was there.

    ({"a": {"b": 1, "c": 2}}, {"a": {"b": 9}}) -> {"a": {"b": 9, "c": 2}}
    """
    combined = dict(below)
    for key, value in above.items():
        value_below = combined.get(key)
        if isinstance(value_below, dict) and isinstance(value, dict):
            value = merged(value_below, value)
        combined[key] = value
    return combined


def value_text(value: object) -> str:
    """Write a value as one types it: None -> "null", True -> "true", ["a", 3] -> "[a, 3]"."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(value_text, value))}]"
    return str(value)


class Tree:
    """Settings merged from layers, of which a later one replaces values of those before it.

    Attributes:
        values: The settings, as nested mappings.
        origins: Dotted path of a value ("params.k") -> origin of the layer that set it last.
    """

    def __init__(self, layers: Iterable[tuple[str, Mapping[str, object]]] = ()) -> None:
        """Merge the layers, each the origin of some settings and the settings, the lowest first."""
        self.values: dict[str, object] = {}
        self.origins: dict[str, str] = {}
        for origin, values in layers:
            self.values = merged(self.values, values)
            self.origins |= dict.fromkeys(flatten(values), origin)


def origin_of(path: str, origins: Mapping[str, str]) -> str:
    """Find what set the value at a dotted path, or one around or inside it; "" if nothing did.

    Args:
        path: "model.price".
        origins: Dotted path -> origin; "model.price.input" is inside, "model" around the path.
    """
    own_origin = origins.get(path)
    if own_origin:
        return own_origin
    for other_path, origin in origins.items():
        is_around = f"{path}.".startswith(f"{other_path}.")
        is_inside = other_path.startswith(f"{path}.")
        if is_around or is_inside:
            return origin
    return ""


def validate_tree(model: type[M], tree: Tree, path: str) -> M:
    """Validate settings as a pydantic model.

    Args:
        model: The model.
        tree: The settings with their origins.
        path: Where they stand in a RunConfig ("model"), for messages; "" for a file of its own.

    Raises:
        ConfigError: All mistakes, a sentence each.
    """
    try:
        validated = model.model_validate(tree.values)
    except ValidationError as validation_error:
        raise ConfigError(
            error_sentences(validation_error, model, path, tree.origins)
        ) from validation_error
    problems = [*_too_large_problems(tree, path), *_truth_value_problems(tree, validated, path)]
    if problems:
        raise ConfigError(problems)
    return validated


def _truth_value_problems(tree: Tree, model_made: BaseModel, path: str) -> list[str]:
    """A sentence for each number that was given as true or false, which pydantic reads as 1 or 0.

    Args:
        tree: The settings as given.
        model_made: The model made of them.
        path: Where they stand in a RunConfig.
    """
    validated_values = flatten(model_made.model_dump())
    problems = []
    for value_path, value in flatten(tree.values).items():
        is_number_in_model = type(validated_values.get(value_path)) in (int, float)
        if isinstance(value, bool) and is_number_in_model:
            key = as_typed(_joined_path(path, value_path))
            problems.append(f"{key}={value_text(value)}: should be a number")
    return problems


def _too_large_problems(tree: Tree, path: str) -> list[str]:
    """A sentence for each finite number beyond 2**53, from which on floats skip whole numbers.

    ["method.k=10000000000000000 (--set): should be at most 9,007,199,254,740,992"]

    Args:
        tree: The settings with their origins.
        path: Where they stand in a RunConfig.
    """
    problems = []
    for value_path, value in flatten(tree.values).items():
        if isinstance(value, int | float) and LARGEST_NUMBER < abs(value) < math.inf:
            key = as_typed(_joined_path(path, value_path))
            bracketed_origin = _bracketed_after_space(origin_of(value_path, tree.origins))
            problems.append(
                f"{key}={str(value)[:40]}{bracketed_origin}: should be at most {LARGEST_NUMBER:,}"
            )
    return problems


def as_typed(path: str) -> str:
    """A path of RunConfig as `--set` takes it: "method.params.k" -> "method.k"."""
    return re.sub(r"^method\.params\.", "method.", path)


def error_sentences(
    error: ValidationError, model: type[BaseModel], path: str, origins: Mapping[str, str]
) -> list[str]:
    """Write pydantic's errors as sentences with what set the value, and what may have been meant.

    ["unknown key 'method.chunk_token' (--set). Did you mean 'chunk_tokens'?"]

    Args:
        error: The errors.
        model: The model that was to be made.
        path: Where it stands in a RunConfig, before every key; "" for a file of its own.
        origins: Key below the path -> what set it.
    """
    sentences: list[str] = []
    for mistake in error.errors():
        value_path = ".".join(map(str, mistake["loc"]))
        key = as_typed(_joined_path(path, value_path))
        bracketed_origin = _bracketed_after_space(origin_of(value_path, origins))
        if mistake["type"] == "extra_forbidden":
            known_fields = _field_names_at(model, mistake["loc"][:-1])
            name = str(mistake["loc"][-1])
            sentences.append(
                str(unknown_name_error(f"key '{key}'{bracketed_origin}", name, known_fields))
            )
        elif mistake["type"] == "missing":
            sentences.append(_missing_sentence(key, path, origins))
        else:
            hint = _typing_hint(mistake, key)
            expected = _expectation_in_sentence(mistake["msg"])
            sentences.append(f"{key}={mistake['input']!r}{bracketed_origin}: {expected}{hint}")
    return sentences


def _bracketed_after_space(origin: str) -> str:
    """Write an origin to follow a key: "--set" -> " (--set)"; "" for none."""
    if not origin:
        return ""
    return f" ({origin})"


def _missing_sentence(key: str, path: str, origins: Mapping[str, str]) -> str:
    """Say that a value is missing.

    Args:
        key: Its key.
        path: Where its model stands in a RunConfig; "" for a file of its own, which is then named.
        origins: Key -> the file that set it.
    """
    if path:
        return f"{key} is missing; give it a value with --set {key}=..."
    sentence = f"{key} is missing; give it a value"
    if not origins:
        return sentence
    *_, last_file = origins.values()
    return f"{last_file}: {sentence}"


def _expectation_in_sentence(message: str) -> str:
    """Turn pydantic's message into the end of a sentence.

    "Input should be a valid integer, unable to parse ..." -> "should be a valid integer"
    """
    text = re.sub(r"^Value error, |^Input |, unable to parse.*", "", message)
    text = re.sub("[Tt]uple", "list", text)
    return text[:1].lower() + text[1:]


def _typing_hint(mistake: ErrorDetails, key: str) -> str:
    """Say what may have been meant by a wrong value, to follow the sentence; "" for nothing.

    A number where text is expected is to be quoted; "1,2" or "1..3" looks like a sweep.
    """
    value = mistake["input"]
    if mistake["type"] == "string_type" and not isinstance(value, dict | list):
        return f"; in quotes it is text: --set {key}='\"...\"'"
    if re.fullmatch(r"\s*[\d.]+(\.\.|,).*", str(value)):
        return f"; several values: --sweep {key}=1,2,3"
    return ""


def _field_names_at(model: Any, path_below: tuple[int | str, ...]) -> list[str]:
    """The names of the fields of the model at a place below `model`.

    Args:
        model: The outermost model.
        path_below: The keys that lead to the place, as pydantic's errors have them; they may have
            indexes of lists and names of the branches of a union too.
    """
    for key_or_index in path_below:
        fields = getattr(model, "model_fields", {})
        if key_or_index in fields:
            model = _model_in(fields[key_or_index].annotation)
    names: list[str] = []
    for name, field in getattr(model, "model_fields", {}).items():
        names.append(field.alias or name)
    return names


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The pydantic model that a type annotation names, alone or in a union; None for none."""
    for member in (annotation, *get_args(annotation)):
        if isinstance(member, type) and issubclass(member, BaseModel):
            return member
    return None


def part_of_run(model: type[M], values: Mapping[str, object], folder: str) -> M:
    """Validate a part of a stored run's configuration. Raises UserError.

    Args:
        model: What the part is validated as.
        values: The part's settings.
        folder: The run's folder, for the message.
    """
    try:
        return model.model_validate(values)
    except ValidationError as validation_error:
        first_sentence, *_ = error_sentences(validation_error, model, path="", origins={})
        raise UserError(
            f"{folder}/run.yaml is not of this version: {first_sentence}"
        ) from validation_error


def dataset_of_run(config: StoredConfig, folder: str) -> DatasetConfig:
    """Validate the data set of a stored run's configuration, to score answers or to find rows.

    An imported run lacks instruction and max_answer_tokens; values that neither use reads stand in
    for them. Raises UserError, which names `folder`.
    """
    values: dict[str, object] = config.dataset.to_json()
    if config.method.implementation == MADE_ELSEWHERE:
        values = {"instruction": "", "max_answer_tokens": 1, **values}
    return part_of_run(DatasetConfig, values, folder)
