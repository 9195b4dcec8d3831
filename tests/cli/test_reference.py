"""docs/command-line.md is what the commands say, and the table of commands is true."""

import sys
import types
from pathlib import Path

import pytest
from pocket.cli import app as pocket

from harness.cli.command import Commands
from harness.cli.main import main, root
from harness.cli.reference import reference

TABLE = [(name, entry.summary) for name, entry in root().entries.items()]
TABLE += [(f"pocket {name}", entry.summary) for name, entry in pocket.entries.items()]
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "command-line.md"


def test_the_document_is_current():
    assert DOCUMENT.read_text("utf-8") == reference(), (
        "run: python -m harness.cli.reference > docs/command-line.md"
    )


def test_every_summary_is_how_the_help_of_its_command_begins():
    text = reference()
    assert [
        name
        for name, summary in TABLE
        if f"\n- `harness {name}`: {summary.rstrip('.')}" not in text
    ] == []


def test_version_and_completion(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["--version"])
    assert exit_.value.code == 0
    assert capsys.readouterr().out.startswith("harness 0.")
    with pytest.raises(SystemExit) as exit_:
        main(["-h"])
    assert exit_.value.code == 0
    out = capsys.readouterr().out
    assert "--install-completion" in out
    assert "Report stored runs:" in out
    assert "pocket  " in out


def test_the_shell_completes_commands_options_and_names(monkeypatch, capsys):
    def completed(words):
        monkeypatch.setenv("_HARNESS_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
        with pytest.raises(SystemExit):
            root().main(args=[], prog_name="harness")
        return capsys.readouterr().out.split()

    assert completed("harness sh") == ["show"]
    assert completed("harness pocket ch") == ["check"]
    assert completed("harness run --retry") == ["--retry-failed"]
    assert "pecan" in completed("harness run --method pec")


@pytest.mark.parametrize(
    "arguments", [["run"], ["report"], ["report", "curves"], ["pocket", "eval"]], ids=" ".join
)
def test_options_are_listed_in_sections_in_their_order(arguments, capsys):
    with pytest.raises(SystemExit):
        main([*arguments, "--help"])
    titles = [
        line[:-1]
        for line in capsys.readouterr().out.splitlines()
        if line.endswith(":") and line[0] != " "
    ]
    order = ["Arguments", "What to run", "Settings", "Execution", "Output", "Options", "Commands"]
    assert titles == [title for title in order if title in titles]
    assert {"Settings", "Output"} <= set(titles)


def test_a_two_word_command_of_a_package_can_be_called_below_a_command_of_the_harness(
    monkeypatch, command
):
    guest = types.ModuleType("guest_cli.compare")
    guest.compare_words = lambda: print("called") or 0
    monkeypatch.setitem(sys.modules, "guest_cli.compare", guest)
    added = Commands({"Report stored runs": {"compare words": "Compare words"}}, "guest_cli")
    monkeypatch.setattr("harness.cli.main.Root.added", {"guest": added})
    assert command("compare", "words")[:2] == (0, "called\n")
