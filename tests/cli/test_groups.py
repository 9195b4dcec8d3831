"""Groups of commands: their table, commands of two words, and groups from outside harness/."""

import sys
from types import ModuleType
from typing import Annotated

import pytest
import typer

from harness.config import registry


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two packages that add commands: one with a typer.Typer, one that cannot be imported."""
    theirs, module = typer.Typer(help="Their commands."), ModuleType("their_commands")

    @theirs.command()
    def greet(name: str, loud: Annotated[bool, typer.Option("--loud")] = False) -> int:
        print(name.upper() if loud else name)
        return 3

    theirs.callback()(lambda: None)
    module.app = theirs  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "their_commands", module)
    table = {"theirs": "their_commands:app", "broken": "no_such_package:app", "run": "their_commands:app"}
    monkeypatch.setattr(registry, "shipped", lambda section: table if section == "commands" else {})


@pytest.mark.usefixtures("outside")
def test_a_package_adds_a_group_of_commands(command) -> None:
    assert command("theirs", "greet", "ann", "--loud") == (3, "ANN\n", "")
    code, out, _ = command("--help")
    assert code == 0
    assert "theirs  Their commands." in out
    assert "broken  cannot be imported (no_such_package:app)" in out
    assert command("run", "--help")[1].startswith("Usage: harness run [OPTIONS]\n")  # the harness' own wins


@pytest.mark.usefixtures("outside")
def test_a_group_that_cannot_be_imported_is_one_sentence(command) -> None:
    code, out, err = command("broken", "x")
    assert (code, out) == (2, "")
    assert err.startswith("error: the commands 'harness broken' (no_such_package:app) cannot be imported: No module")
