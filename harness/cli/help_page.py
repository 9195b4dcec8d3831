"""The help of a command: its options, and the commands below it, by section."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

# Sections of a command's help, in their order; "Options" are those without a section.
SECTIONS = ("Arguments", "What to run", "Settings", "Execution", "Output", "Options")

_DEFAULT = re.compile(
    r"\[default: \((.*)\)([;\]])"
)  # click puts a default that is described in parentheses


class Entry(NamedTuple):
    """A command that is not imported yet.

    Attributes:
        name: Its whole name: "report curves".
        section: Its section in the help.
        summary: One line about it.
        package: The package of its module: "harness.cli".
    """

    name: str
    section: str
    summary: str
    package: str


def write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Write the options of a command into its help, by section, then the commands below it.

    Args:
        command: The command.
        ctx: Its click context.
        formatter: The click formatter that is written to.
    """
    sections: dict[str, list[tuple[str, str]]] = {title: [] for title in SECTIONS}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if not record:
            continue
        name, text = record
        title = "Options"
        if parameter.param_type_name == "argument":
            title = "Arguments"
            name = name.partition(" <")[0]
        title = getattr(parameter, "rich_help_panel", None) or title
        sections[title].append((name, _DEFAULT.sub(r"[default: \1\2", text)))
    sections["Commands"] = list(command.below.items())
    for title, records in sections.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def write_commands(entries: Mapping[str, Entry], formatter: Any) -> None:
    """Write the first words of the commands into a group's help by section; imports none of them.

    What begins with the same word is one line:

        report    Print tables; also: report curves, front

    Args:
        entries: Name of one or two words -> command.
        formatter: The click formatter that is written to.
    """
    sections: dict[str, dict[str, str]] = {}
    for name, entry in entries.items():
        sections.setdefault(entry.section, {})[name] = entry.summary
    for title, summaries in sections.items():
        with formatter.section(title):
            formatter.write_dl(_lines_by_word(summaries))


def _lines_by_word(summaries: Mapping[str, str]) -> list[tuple[str, str]]:
    """Join the commands that begin with the same word to one line: (word, text).

    {"report": "Print tables", "report curves": "..."}
        -> [("report", "Print tables; also: report curves")]

    A word that is no command itself gets the names of the commands below it.

    Args:
        summaries: Name of one or two words -> summary.
    """
    below: dict[str, list[str]] = {}
    for name in summaries:
        word, _, second = name.partition(" ")
        names = below.setdefault(word, [])
        if second:
            names.append(second)
    lines = []
    for word, names in below.items():
        if word not in summaries:
            text = ", ".join(names)
        elif names:
            text = f"{summaries[word]}; also: {word} {', '.join(names)}"
        else:
            text = summaries[word]
        lines.append((word, text))
    return lines
