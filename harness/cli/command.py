"""How commands are declared: in the module of their first word, imported when one is called, with
options in sections.

The command "report curves" is the function `report_curves` in report.py. Its parameters are its
options (harness/api/option.py); a parameter whose type is a dataclass (options.py) stands for all
fields of that dataclass. Its docstring is its help, and it returns the exit code.

    Commands({"Train": {"train": "Train the model"}}, "pocket.cli")      its command is in pocket/cli/train.py
"""

import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from harness.api.option import Option
from harness.api.option import choice as choice
from harness.api.option import execution as execution
from harness.api.option import output as output
from harness.api.option import setting as setting
from harness.cli.help_page import CommandEntry, write_commands, write_options
from harness.errors import close_matches

CONTEXT_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
LARGEST_NUMBER = 10**12
"""The largest value of a numeric option that names none: what every library below can hold."""
PIPE_CLOSED = 141  # 128 + SIGPIPE, what a shell reports for any program whose reader went away
_OPTIONS_OF_ASSIGNMENTS = (
    "--set",
    "--sweep",
    "--app-map",
    "--retriever-map",
    "--fail-under",
    "--max-drop",
)
"""Options that take several assignments."""
_ASSIGNMENT = re.compile(r"^[A-Za-z_][\w-]*(\.[\w/-]+)*=")


def repeat_option_flags(arguments: list[str]) -> list[str]:
    """Repeat an option's flag before each of the assignments that follow it.

    ["--set", "a=1", "b=2", "x"] -> ["--set", "a=1", "--set", "b=2", "x"]

    Only for options that take assignments (KEY=VALUE); all else stays as it is.
    """
    repeated: list[str] = []
    open_flag = ""  # the option whose assignments may follow
    for argument in arguments:
        is_first_after_flag = open_flag != "" and repeated[-1] == open_flag
        if open_flag and not is_first_after_flag:
            if _ASSIGNMENT.match(argument):
                repeated.append(open_flag)
            else:
                open_flag = ""
        if argument.partition("=")[0] in _OPTIONS_OF_ASSIGNMENTS:
            open_flag = argument.partition("=")[0]
        repeated.append(argument)
    return repeated


def typer_option(option: Option) -> Any:
    """Turn a declared option into Typer's form, with its limits and completion.

    A default that is not described in words is shown as its value.
    """
    limits: dict[str, Any] = {}
    if option.min is not None:
        limits = {"min": option.min, "max": LARGEST_NUMBER}
        if option.max is not None:
            limits["max"] = option.max
    complete_word = None
    if option.complete is not None:
        complete_word = _completion(option.complete)
    return typer.Option(
        *option.flags,
        metavar=option.placeholder,
        help=option.help,
        show_default=option.default or True,
        autocompletion=complete_word,
        rich_help_panel=option.section,
        **limits,
    )


def _completion(kind: str) -> Callable[[str], list[str]]:
    """Make the function that completes a word to names of presets of a kind ("methods")."""

    def names(incomplete: str) -> list[str]:
        """The names that start with the word that is being typed."""
        from harness.config import presets

        return [name for name in presets.names(kind) if name.startswith(incomplete)]

    return names


class Command(TyperCommand):
    """One command of the command line.

    Attributes:
        commands_below: Commands that its help also lists, name -> summary: that of "report" lists
            "report curves".
    """

    commands_below: Mapping[str, str] = {}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of the command; one --set, or a similar
        option, may have several assignments.
        """
        return super().parse_args(ctx, repeat_option_flags(args))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The parts of the usage line, with required arguments as RUN where Typer writes {RUN}."""
        pieces = super().collect_usage_pieces(ctx)
        return [piece.replace("{", "").replace("}", "") for piece in pieces]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options by section into the help."""
        write_options(self, ctx, formatter)


class Commands(NamedTuple):
    """Commands that a package adds to `harness`, as an entry point of "harness.commands".

    Attributes:
        table: Section of the help -> {name: summary}; a name has one or two words.
        package: The package of their modules: "harness_training.cli" has train.py for "train".
    """

    table: Mapping[str, Mapping[str, str]]
    package: str


def join_command_tables(tables: Iterable[Commands]) -> dict[str, CommandEntry]:
    """Join tables of commands: name -> command, in the order of the sections.

    Where two tables have a name, the first counts.
    """
    entries: dict[str, CommandEntry] = {}
    for table, package in tables:
        for section, summary_by_name in table.items():
            for name, summary in summary_by_name.items():
                entries.setdefault(
                    name, CommandEntry(name=name, section=section, summary=summary, package=package)
                )
    by_section: dict[str, dict[str, CommandEntry]] = {}
    for name, entry in entries.items():
        by_section.setdefault(entry.section, {})[name] = entry
    entries_in_order: dict[str, CommandEntry] = {}
    for section_entries in by_section.values():
        entries_in_order |= section_entries
    return entries_in_order


class Group(TyperGroup):
    """A group of commands by section, each imported when it is called.

    Attributes:
        entries: Name of one or two words, without those that begin the group's name -> command.
        default: The command that runs where no name follows; None: the help is printed.
    """

    entries: Mapping[str, CommandEntry] = {}
    default: Command | None = None

    def list_commands(self, ctx: Any) -> list[str]:
        """The first words of all names, each once: ["run", "report", ...]."""
        first_words = [name.partition(" ")[0] for name in self.entries]
        return list(dict.fromkeys(first_words))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the command `cmd_name`, or make the group of the
        commands that begin with this word.

        A word that is both ("report", "report curves") gives a group whose default is the command.
        An unknown word ends the program with a usage error, which suggests a near name.
        """
        command = None
        if cmd_name in self.entries:
            command = _import_command(self.entries[cmd_name], cmd_name)
        entries_below = self._commands_below(cmd_name)
        if entries_below:
            subgroup = group(cmd_name, entries_below)
            subgroup.default = command
            if command is not None:
                command.commands_below = {
                    entry.name: entry.summary for entry in entries_below.values()
                }
            return subgroup
        is_option = cmd_name.startswith("-")
        is_completion = ctx.resilient_parsing  # the shell asks for words; nothing may fail
        if command is None and not is_option and not is_completion:
            hint = "Packages add commands: pip install ./packages/NAME"
            similar_words = close_matches(cmd_name, self.list_commands(ctx), limit=1)
            if similar_words:
                hint = f"Did you mean '{similar_words[0]}'?"
            ctx.fail(f"No such command '{cmd_name}'. {hint}")
        return command

    def _commands_below(self, word: str) -> dict[str, CommandEntry]:
        """The commands whose names begin with a word, by the rest of their names.

        "report" -> {"curves": ..., "front": ...}
        """
        prefix = f"{word} "
        entries_below: dict[str, CommandEntry] = {}
        for name, entry in self.entries.items():
            if name.startswith(prefix):
                entries_below[name.removeprefix(prefix)] = entry
        return entries_below

    def make_context(
        self, info_name: Any, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Parse the words after the group's name, as click asks for it.

        Where they do not begin with a command, the default command gets them all: `harness report
        results`.

        Args:
            info_name: The name that the group was called by.
            args: The words.
            parent: The context of the command above, None at the top.
            extra: More of click's own arguments.
        """
        if self.default is not None and (not args or args[0] not in self.entries):
            return self.default.make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by section into the help."""
        write_commands(self.entries, formatter)


def _import_command(entry: CommandEntry, name: str) -> Command:
    """Import a command: "report curves" is `report_curves`, or `report_curves_`, in report.py.

    Args:
        entry: The command with its full name and package.
        name: The last word of its name, by which click knows it.
    """
    module_name = entry.name.partition(" ")[0].replace("-", "_")
    module = importlib.import_module(f"{entry.package}.{module_name}")
    function_name = re.sub("[ -]", "_", entry.name)
    function = getattr(module, f"{function_name}_", None) or getattr(module, function_name)
    return as_command(function, name)


def group(name: str, entries: Mapping[str, CommandEntry], summary: str | None = None) -> Group:
    """Make a click group of commands.

    Args:
        name: The group's word.
        entries: Name of one or two words, without the group's own -> command.
        summary: The help of the group.
    """
    click_group = Group(
        name=name,
        help=summary,
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings=CONTEXT_SETTINGS,
    )
    click_group.entries = entries
    return click_group


def as_command(function: Callable[..., int], name: str) -> Command:
    """Make the click command `name` that calls a function.

    The function's parameters are the options, its docstring is the help. A parameter whose type is
    a dataclass is replaced by its fields, one option each.
    """
    declared = inspect.signature(function).parameters
    hints = get_type_hints(function, include_extras=True)
    option_classes = {key: hints[key] for key in declared if is_dataclass(hints[key])}

    def call_with_options(**options: Any) -> int:
        """Call the function with the typed options, those of a dataclass put into it again.

        Returns its exit code.
        """
        for key, option_class in option_classes.items():
            options[key] = _take_option_values(option_class, options)
        return _exit_code_of_call(function, options)

    parameters: list[inspect.Parameter] = []
    for key, parameter in declared.items():
        if key in option_classes:
            parameters += _parameters_of_fields(option_classes[key])
        else:
            parameters.append(_as_parameter(key, hints[key], parameter.default))
    # From these Typer reads the options and the help.
    call_with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call_with_options.__name__ = function.__name__
    call_with_options.__doc__ = function.__doc__
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name, cls=Command, context_settings=CONTEXT_SETTINGS)(call_with_options)
    command = typer.main.get_command(app)
    assert isinstance(command, Command)
    return command


def _exit_code_of_call(function: Callable[..., int], options: Mapping[str, object]) -> int:
    """Call a command's function with its options by name, and return its exit code.

    A reader that closes the pipe of stdout early gives PIPE_CLOSED, which Typer would make exit
    code 1.
    """
    try:
        code = function(**options)
        sys.stdout.flush()
    except BrokenPipeError:
        # Nothing is left to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    return code


def _declared_option(hint: Any) -> Option | None:
    """The Option that an Annotated type holds; None where it holds none."""
    for metadata in getattr(hint, "__metadata__", ()):
        if isinstance(metadata, Option):
            return metadata
    return None


def _as_parameter(name: str, hint: Any, default: Any) -> inspect.Parameter:
    """Make a keyword parameter whose type is annotated as Typer reads it.

    Args:
        name: The parameter's name.
        hint: Its declared type, maybe Annotated with an Option.
        default: Its default.
    """
    option = _declared_option(hint)
    if option is not None:
        typed = option.typed or hint.__origin__
        hint = Annotated[typed, typer_option(option)]
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=hint)


def _parameters_of_fields(option_class: Any) -> list[inspect.Parameter]:
    """Make a parameter of each field of a dataclass of options.

    An option that is typed as a list, of whatever type its field is, has no word by default: [].
    """
    hints = get_type_hints(option_class, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for field in fields(option_class):
        option = _declared_option(hints[field.name])
        default = field.default
        if field.default_factory is not MISSING:
            default = field.default_factory()
        if option is not None and option.typed == list[str]:
            default = []
        if default is MISSING:
            default = inspect.Parameter.empty
        parameters.append(_as_parameter(field.name, hints[field.name], default))
    return parameters


def _take_option_values(option_class: Any, options: dict[str, object]) -> Any:
    """Make a dataclass of options from the values that were typed.

    Also takes these values out of `options`. Raises UserError for a text that cannot be read.

    Args:
        option_class: The dataclass.
        options: Field -> typed value, of all options of the command.
    """
    hints = get_type_hints(option_class, include_extras=True)
    values: dict[str, object] = {}
    for field in fields(option_class):
        value = options.pop(field.name)
        option = _declared_option(hints[field.name])
        if option is not None and option.read is not None:
            value = option.read(value)
        values[field.name] = value
    return option_class(**values)
