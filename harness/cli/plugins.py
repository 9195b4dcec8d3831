"""Command groups from outside harness/: a shipped table, and the entry points of installed packages.

configs/commands.toml                    [pocket]  target = "pocket.cli:app"  summary = "..."
entry points of "harness.commands"       theirs = "their_package.cli:app"

A target is a click group made by harness.cli.command.group, or a typer.Typer.
"""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path
from typing import Any

from harness.errors import CannotRun

ENTRY_POINTS = "harness.commands"
_SHIPPED = Path(__file__).resolve().parents[2] / "configs" / "commands.toml"


def shipped() -> dict[str, dict[str, str]]:
    """Name -> {"target": "module:object", "summary": ...} of the groups that come with the project."""
    return tomllib.loads(_SHIPPED.read_text("utf-8")) if _SHIPPED.is_file() else {}


def installed() -> dict[str, dict[str, str]]:
    """The same of the groups that installed packages add; nothing is imported."""
    from importlib.metadata import entry_points

    found = entry_points(group=ENTRY_POINTS)
    return {entry.name: {"target": entry.value, "summary": f"Added by {entry.value}"} for entry in found}


def load(name: str, target: str) -> Any:
    """Import a command group. Raises CannotRun where its package or one that it needs is not installed."""
    import typer

    module, _, attribute = target.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as e:
        raise CannotRun(f"the commands 'harness {name}' ({target}) cannot be imported: {e}") from e
    return typer.main.get_command(found) if isinstance(found, typer.Typer) else found
