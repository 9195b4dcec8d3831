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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pockt"], "No such command 'pockt'. Did you mean 'pocket'?  (harness --help)"),
        (["pocket", "evl"], "No such command 'evl'. Did you mean 'eval'?  (harness pocket --help)"),
        (["study", "lenght"], "No such command 'lenght'. Did you mean 'length'?  (harness study --help)"),
        (["report", "curves", "--t-n"], "Option '--t-n' requires an argument"),
        (["score", "--scorer", "x"], "No such option: --scorer. Did you mean '--scorers'?  (harness score --help)"),
        (["study", "--parts", "3"], "No such option: --parts  (harness study --help)"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistyped_command_names_the_nearest(arguments: list[str], message: str, command) -> None:
    assert command(*arguments) == (2, "", f"error: {message}\n")
