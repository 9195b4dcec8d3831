"""YAML read strictly, and a tree of values that remembers where each leaf came from.

    tree = Tree()
    tree.merge({"params": {"k": 5}}, "configs/methods/bm25.yaml")
    tree.merge({"params": {"k": 7}}, "--set")
    tree.values                  {"params": {"k": 7}}
    tree.origins                 {"params.k": "--set"}

Mappings are merged key by key; lists and everything else replace what was there.
"""

import re
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

import yaml

from harness.errors import ConfigError
from harness.storage.files import parse_yaml

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C parser is five times as fast; same grammar


class _Loader(_Base):  # type: ignore[misc]
    """Safe loader with the scalars of YAML 1.2: `yes`, `on` and dates stay text, 1e-5 is a number; no key twice."""


_NUMBERS = {
    "tag:yaml.org,2002:bool": (r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    "tag:yaml.org,2002:int": (r"^[-+]?[0-9]+$", "-+0123456789"),
    "tag:yaml.org,2002:float": (
        r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        "-+0123456789.",
    ),
    "tag:yaml.org,2002:null": (r"^(?:~|null|Null|NULL|)$", "~nN\0"),
}
_Loader.yaml_implicit_resolvers = {}
for _tag, (_pattern, _first) in _NUMBERS.items():
    _Loader.add_implicit_resolver(_tag, re.compile(_pattern), list(_first.replace("\0", "")) + [""] * ("\0" in _first))


def _parse_mapping(loader: Any, node: Any) -> dict[Any, Any]:
    """A YAML mapping. Raises MarkedYAMLError for a key that is there twice or is no plain text."""
    seen: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, Hashable) or key in seen:
            problem = f"the key '{key}' is given twice" if isinstance(key, Hashable) else "a key must be plain text"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
        seen[key] = loader.construct_object(value_node, deep=True)
    return seen


# "010" is ten, as YAML 1.2 and every reader expect.
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))
_Loader.add_constructor(
    "tag:yaml.org,2002:float", lambda loader, node: float(re.sub(r"\.(?=inf|nan)", "", node.value.lower()))
)
_Loader.add_constructor("tag:yaml.org,2002:map", _parse_mapping)


class Raw(str):
    """Text typed after `--set key=`: parsed as a YAML scalar, kept as typed where a field wants text."""

    __slots__ = ()


def parse_scalar(text: str) -> Any:
    """Parse a YAML scalar or flow list: "3" -> 3, "[a, b]" -> ["a", "b"], "yes" -> "yes".

    Text that is no YAML, like "@home", is text; raises ConfigError for a list or mapping that is not closed,
    and for bytes of the command line that are not UTF-8.
    """
    try:
        return parse_yaml(str(text), _Loader)
    except UnicodeEncodeError as e:
        raise ConfigError([f"{str(text)!r} is not UTF-8 text; save it as UTF-8"]) from e
    except (yaml.YAMLError, ValueError) as e:
        # "{instruction}{text}" is a prompt, "[a, b" a list that is not closed.
        if text.lstrip()[:1] in ("[", "{") and text.count("[") + text.count("{") != text.count("]") + text.count("}"):
            raise ConfigError([f"'{text}' is not a YAML list or mapping"]) from e
        return text


def parse_assignments(texts: Iterable[str], where: str) -> tuple[dict[str, Any], list[str]]:
    """Parse ["method.k=3"] to {"method.k": Raw("3")}; also returns a sentence for each malformed or repeated one.

    where: the words before the text in a sentence, for instance "--set ".
    """
    assigned: dict[str, Any] = {}
    problems: list[str] = []
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not key:
            problems.append(f"'{where}{text}' is no assignment; write KEY=VALUE, for instance method.k=3")
        elif key in assigned and assigned[key] != value:
            problems.append(f"'{key}' is set twice: to {assigned[key]} and to {value}")
        else:
            assigned[key] = Raw(value)
    return assigned, problems


def read_yaml(path: Path, shown: str = "") -> dict[str, Any]:
    """The mapping in a YAML file; `shown` is how messages name it. Raises ConfigError with the line."""
    shown = shown or str(path)
    try:
        value = parse_yaml(path.read_bytes().decode(), _Loader)
    except UnicodeDecodeError as e:
        raise ConfigError([f"{shown}: not UTF-8 text; save it as UTF-8"]) from e
    except OSError as e:
        raise ConfigError([f"{shown}: cannot be read ({e.strerror}); name another file"]) from e
    except ValueError as e:
        raise ConfigError([f"{shown}: {e}"]) from e
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise ConfigError([f"{shown}{where}: {getattr(e, 'problem', None) or 'not valid YAML'}"]) from e
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


def value_text(value: Any) -> str:
    """A value as one types it: null, true, 3, document, [a, b]."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return f"[{', '.join(map(value_text, value))}]" if isinstance(value, list | tuple) else str(value)


def nested(path: str, value: Any) -> dict[str, Any]:
    """("a.b", 1) -> {"a": {"b": 1}}."""
    for key in reversed(path.split(".")):
        value = {key: value}
    return dict(value)


def merged(below: Any, above: Any) -> Any:
    """Lay `above` over `below`: mappings key by key; any other value replaces what was there."""
    if not isinstance(above, dict):
        return above
    below = below if isinstance(below, dict) else {}
    return below | {key: merged(below.get(key), value) for key, value in above.items()}


def parsed(values: Any) -> Any:
    """`values` with each text that was typed after --set parsed as YAML. Raises ConfigError."""
    if isinstance(values, dict):
        return {key: parsed(value) for key, value in values.items()}
    return parse_scalar(values) if isinstance(values, Raw) else values


class Tree:
    """Nested `values`; by dotted path of a leaf, its origin (file or flag) and, from `--set`, the raw text typed."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origins: dict[str, str] = {}
        self.raw: dict[str, str] = {}

    def merge(self, values: dict[str, Any], origin: str) -> None:
        """Lay `values` over the tree. origin: the file or flag that sets them. Raises ConfigError for no YAML."""
        if not values:
            return
        together, before = merged(self.values, values), self.origins
        leaves = flatten(together)  # a mapping that was typed as one value is one leaf, and replaces what was there
        given = {path: value for path, value in flatten(values).items() if value != {} or path in leaves}
        self.values, self.origins = parsed(together), {}
        for leaf in leaves:
            known = leaf
            while leaf not in given and known not in before:  # in what was typed as one: a mapping, or "A: b"
                known = known.rpartition(".")[0]
            self.origins[known] = origin if leaf in given else before[known]
        self.raw = {path: text for path, text in self.raw.items() if path in self.origins.keys() - given.keys()}
        self.raw |= {path: str(value) for path, value in given.items() if isinstance(value, Raw)}
