"""The help of a command: its options, and the commands below it, by section."""

import re
from collections.abc import Mapping
from typing import Any

# Sections of a command's help, in their order; "Options" are those without a section.
SECTIONS = ("Arguments", "What to run", "Settings", "Execution", "Output", "Options")

_DEFAULT = re.compile(
    r"\[default: \((.*)\)([;\]])"
)  # click puts a default that is described in parentheses


def write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """List the options of a command by section, then the commands below it."""
    listed: dict[str, list[tuple[str, str]]] = {title: [] for title in SECTIONS}
    for parameter in command.get_params(ctx):
        if record := parameter.get_help_record(ctx):
            argument = parameter.param_type_name == "argument"
            title = getattr(parameter, "rich_help_panel", None) or (
                "Arguments" if argument else "Options"
            )
            name = record[0].partition(" <")[0] if argument else record[0]
            listed[title].append((name, _DEFAULT.sub(r"[default: \1\2", record[1])))
    listed["Commands"] = list(command.below.items())
    for title, records in listed.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def write_commands(entries: Mapping[str, Any], formatter: Any) -> None:
    """List the first words of the commands by section; imports none of them.

    What begins with the same word is one line: "report    Print tables; also: report curves, front".
    """
    for title in dict.fromkeys(entry.section for entry in entries.values()):
        commands = {
            name: entry.summary for name, entry in entries.items() if entry.section == title
        }
        below: dict[str, list[str]] = {name.partition(" ")[0]: [] for name in commands}
        for name in commands:
            below[name.partition(" ")[0]] += name.split(" ")[1:]
        rows = []
        for word, names in below.items():
            also = (
                [f"also: {word} {', '.join(names)}" if word in commands else ", ".join(names)]
                if names
                else []
            )
            rows.append((word, "; ".join([*([commands[word]] if word in commands else []), *also])))
        with formatter.section(title):
            formatter.write_dl(rows)
