"""`harness list [KIND]`: the names of each kind with a line about each; of methods first those to
begin with, then by family; imports none of them."""

import ast
import json as json_
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import scorers
from harness.cli.options import Json
from harness.cli.table_output import aligned_columns
from harness.config import presets, registry
from harness.errors import UnknownName

BEGIN_WITH = "Begin with these (harness run --method NAME)"
KINDS = ("methods", "datasets", "models", "encoders", "scorers", "suites", "profiles")


def list_(
    kind: Annotated[
        str | None, typer.Argument(metavar="KIND", help=", ".join(KINDS) + ".", show_default="all")
    ] = None,
    json: Json = False,
) -> int:
    """List methods, data sets, models, encoders, scorers, suites and profiles."""
    kinds: Sequence[str] = KINDS
    if kind:
        kinds = [find_kind(kind)]
    summaries_by_kind = {each: summaries(each) for each in kinds}
    if json and kind:
        _print_json(summaries_by_kind[kinds[0]])
        return 0
    if json:
        _print_json(summaries_by_kind)
        return 0
    width = 0
    for names in summaries_by_kind.values():
        width = max([width, *map(len, names)])
    for each in kinds:
        body = _as_text(each, summaries_by_kind[each], width)
        if not kind:
            body = f"{each}\n" + textwrap.indent(body, "  ")
        print(body)
    return 0


def _print_json(value: Any) -> None:
    """Print a value as indented JSON, with names in any script as they are."""
    print(json_.dumps(value, indent=2, ensure_ascii=False))


def _as_text(kind: str, summary_by_name: Mapping[str, str], width: int) -> str:
    """Write the names of a kind with their summaries; methods by family, each below its title.

    Args:
        kind: The kind.
        summary_by_name: Name -> summary.
        width: Characters of the longest name of all kinds.
    """
    families: dict[str, list[str]] = {"": list(summary_by_name)}
    if kind == "methods":
        families = _families(summary_by_name)
    parts: list[str] = []
    for title, names in families.items():
        rows = [(name.ljust(width), summary_by_name[name]) for name in names]
        parts.append(f"{title}\n{aligned_columns(rows)}".lstrip("\n"))
    return "\n\n".join(parts) or "(none)"


def _families(method_names: Iterable[str]) -> dict[str, list[str]]:
    """Group methods by title: those to begin with, then each family.

    {"Begin with these ...": ["bm25", ...], "PECAN: ...": ["pecan", ...]}
    """
    listed_first = [name for name in registry.methods_listed_first() if name in method_names]
    families: dict[str, list[str]] = {}
    for name in method_names:
        if name not in listed_first:
            families.setdefault(_family(name), []).append(name)
    by_title = dict(sorted(families.items()))
    if listed_first:
        return {BEGIN_WITH: listed_first, **by_title}
    return by_title


def _family(name: str) -> str:
    """The title of a method's family: the first paragraph of the module that its preset names.

    "Your own" for a method outside of this project.
    """
    target = ""
    for _, layer in presets.read("methods", name):
        target = str(layer.get("implementation", target))
    module = registry.targets("methods").get(target, target).partition(":")[0]
    if not module.startswith("methods."):
        return "Your own"
    return _module_summary(module)


@cache
def _module_summary(module: str) -> str:
    """The first paragraph of a module's docstring, read without importing the module. Cached."""
    path = Path(registry.__file__).parents[2].joinpath(*module.split("."))
    source = path.with_suffix(".py")
    if path.is_dir():
        source = path / "__init__.py"
    docstring = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or module
    return docstring.partition("\n\n")[0].replace("\n", " ")


def find_kind(kind: str) -> str:
    """The kind that a word means, in its plural or singular.

    "method" -> "methods". Raises UnknownName.
    """
    for known in KINDS:
        if presets.comparable_name(kind) in (known, known.rstrip("s")):
            return known
    raise UnknownName("kind", kind, KINDS)


def summaries(kind: str) -> dict[str, str]:
    """All names of a kind with one line about each, sorted by name."""
    if kind == "scorers":
        return {name: scorers.lookup(name).summary for name in sorted(scorers.names())}
    return presets.summaries(kind)
