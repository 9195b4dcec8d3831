"""`harness list [KIND]`: the names of each kind with a line about each, methods by family; imports
none of them."""

import ast
import json as json_
from functools import cache
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import Json
from harness.cli.table_output import columns
from harness.config import presets, registry
from harness.errors import UnknownName

KINDS = ("methods", "datasets", "models", "encoders", "scorers", "suites", "profiles")


def list_(
    kind: Annotated[
        str | None, typer.Argument(metavar="KIND", help=", ".join(KINDS) + ".", show_default="all")
    ] = None,
    json: Json = False,
) -> int:
    """List methods, data sets, models, encoders, scorers, suites and profiles."""
    kinds = [find_kind(kind)] if kind else list(KINDS)
    listed = {k: summaries(k) for k in kinds}
    if json:
        print(json_.dumps(listed[kinds[0]] if kind else listed, indent=2, ensure_ascii=False))
        return 0
    width = max((len(n) for names in listed.values() for n in names), default=0)
    for k in kinds:
        families: dict[str, list[tuple[str, str]]] = {}
        for name, summary in listed[k].items():
            family = ""
            if k == "methods":  # the first line of the module that implements it
                layers = [layer for _, layer in presets.read(k, name)]
                target = next(
                    (
                        str(layer["implementation"])
                        for layer in layers[::-1]
                        if "implementation" in layer
                    ),
                    "",
                )
                module = registry.shipped(k).get(target, target).partition(":")[0]
                family = _module_summary(module) if module.startswith("methods.") else "Your own"
            families.setdefault(family, []).append((name.ljust(width), summary))
        parts = [
            f"{title}\n{columns(rows)}".lstrip("\n") for title, rows in sorted(families.items())
        ]
        body = "\n\n".join(parts) or "(none)"
        print(
            body
            if kind
            else f"{k}\n" + "\n".join(f"  {line}".rstrip() for line in body.splitlines())
        )
    return 0


@cache
def _module_summary(module: str) -> str:
    file = Path(registry.__file__).parents[2].joinpath(*module.split("."))
    source = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    return (ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or module).partition(
        "\n"
    )[0]


def find_kind(kind: str) -> str:
    """A kind as listed, from its plural or singular. Raises UnknownName."""
    for known in KINDS:
        if presets.fold(kind) in (known, known.rstrip("s")):
            return known
    raise UnknownName("kind", kind, KINDS)


def summaries(kind: str) -> dict[str, str]:
    """Name -> one line about it, for all names of a kind (one of KINDS), sorted by name."""
    if kind == "scorers":
        from harness import scorers

        return {name: scorers.lookup(name).summary for name in sorted(scorers.names())}
    return presets.summaries(kind)
