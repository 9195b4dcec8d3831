"""The help of a command: its options, and the commands below it, by section."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

# Sections of a command's help, in their order; "Options" are those without a section.
SECTIONS = ("Arguments", "What to run", "Settings", "Execution", "Output", "Options")

_DEFAULT = re.compile(
    r"\[default: \((.*)\)([;\]])"
)  # click puts a default that is described in parentheses


class CommandEntry(NamedTuple):
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

    An argument stands without its type, a default that is described in words without click's
    parentheses.

    Args:
        command: The command.
        ctx: Its click context.
        formatter: The click formatter that is written to.
    """
    rows_by_section: dict[str, list[tuple[str, str]]] = {title: [] for title in SECTIONS}
    for parameter in command.get_params(ctx):
        row = parameter.get_help_record(ctx)
        if not row:
            continue
        name, text = row
        title = "Options"
        if parameter.param_type_name == "argument":
            title = "Arguments"
            name = name.partition(" <")[0]  # "RUN <str>" -> "RUN"
        title = getattr(parameter, "rich_help_panel", None) or title
        rows_by_section[title].append((name, _DEFAULT.sub(r"[default: \1\2", text)))
    rows_by_section["Commands"] = list(command.commands_below.items())
    for title, rows in rows_by_section.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


def write_commands(entries: Mapping[str, CommandEntry], formatter: Any) -> None:
    """Write the first words of the commands into a group's help by section; imports none of them.

    What begins with the same word is one line:

        report    Print tables; also: report curves, front

    Args:
        entries: Name of one or two words -> command.
        formatter: The click formatter that is written to.
    """
    summaries_by_section: dict[str, dict[str, str]] = {}
    for name, entry in entries.items():
        summaries_by_section.setdefault(entry.section, {})[name] = entry.summary
    for title, summaries in summaries_by_section.items():
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
    second_words_by_word: dict[str, list[str]] = {}
    for name in summaries:
        word, _, second_word = name.partition(" ")
        second_words = second_words_by_word.setdefault(word, [])
        if second_word:
            second_words.append(second_word)
    lines = []
    for word, second_words in second_words_by_word.items():
        if word not in summaries:
            text = ", ".join(second_words)
        elif second_words:
            text = f"{summaries[word]}; also: {word} {', '.join(second_words)}"
        else:
            text = summaries[word]
        lines.append((word, text))
    return lines
