"""Groups of commands: their table, commands of two words, and what installed packages add."""

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated

import pytest
import typer

from harness.config import plugins, registry


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
    table = {
        "theirs": "their_commands:app",
        "broken": "no_such_package:app",
        "run": "their_commands:app",
    }
    monkeypatch.setattr(
        plugins, "targets", lambda group: table if group == "harness.commands" else {}
    )


@pytest.mark.usefixtures("outside")
def test_a_package_adds_a_group_of_commands(command) -> None:
    assert command("theirs", "greet", "ann", "--loud") == (3, "ANN\n", "")
    code, out, _ = command("--help")
    assert code == 0
    assert "theirs  Their commands." in out
    assert "broken  cannot be imported" in out
    assert command("run", "--help")[1].startswith(
        "Usage: harness run [OPTIONS]\n"
    )  # the harness' own wins


@pytest.mark.usefixtures("outside")
def test_a_group_that_cannot_be_imported_is_one_sentence(command) -> None:
    code, out, err = command("broken", "x")
    assert (code, out) == (2, "")
    assert err.startswith(
        "error: the commands 'harness broken' (no_such_package:app) cannot be imported: No module"
    )


@pytest.fixture
def annex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with a table of commands: one in a section of its own, one below
    `report`, one of ours."""
    files = {
        "their_annex/__init__.py": "",
        "their_annex/cli/__init__.py": (
            "from harness.cli.command import Commands\n"
            "COMMANDS = Commands({'Theirs': {'hum': 'Hum a song', 'run': 'Theirs'},"
            " 'Report stored runs': {'report hums': 'Plot hums'}}, 'their_annex.cli')\n"
        ),
        "their_annex/cli/hum.py": "def hum(song: str) -> int:\n    'Hum a song.'\n    print(song)\n    return 4\n",
        "their_annex/cli/report.py": "def report_hums() -> int:\n    'Plot hums.'\n    print('plotted')\n    return 0\n",
        "their_annex-1.dist-info/entry_points.txt": "[console_scripts]\nx = y:z\n\n[harness.commands]\nannex = their_annex.cli:COMMANDS\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.targets.cache_clear()
    registry.targets.cache_clear()
    yield
    plugins.targets.cache_clear()
    registry.targets.cache_clear()


@pytest.mark.usefixtures("annex")
def test_a_table_of_commands_stands_beside_those_of_the_harness(command) -> None:
    assert command("hum", "la") == (4, "la\n", "")
    assert command("report", "hums") == (0, "plotted\n", "")
    code, out, _ = command("--help")
    assert code == 0
    assert "\nTheirs:\n  hum  Hum a song\n" in out
    assert "tokens, hums" in " ".join(out.split()).replace("bands, memory, stability, ", "")
    assert "annex" not in out
    assert command("run", "--help")[1].startswith("Usage: harness run [OPTIONS]\n")
    assert command("hmu")[2].startswith("error: No such command 'hmu'. Did you mean 'hum'?")


def test_the_main_package_alone_has_at_most_21_commands(monkeypatch, command) -> None:
    monkeypatch.setattr(plugins, "targets", lambda _group: {})
    listed = re.findall(
        r"^  ([a-z-]+)  ", command("--help")[1].partition("\nRun methods:")[2], re.M
    )
    assert {"run", "report", "ui"} <= set(listed)
    assert len(listed) <= 21


def test_a_command_of_a_package_that_is_not_installed_is_said_to_be_one(
    monkeypatch, command
) -> None:
    monkeypatch.setattr(plugins, "targets", lambda _group: {})
    code, _, err = command("duel", "bm25")
    assert (
        code,
        "No such command 'duel'. Packages add commands: pip install ./packages/NAME" in err,
    ) == (2, True)
