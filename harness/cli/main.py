"""The command `harness`: the table of its commands, and what becomes of errors.

    harness run --method pecan --dataset musique --data dev.jsonl --model ./Llama-3.1-8B-Instruct

harness/cli/command.py says how a command is found; installed packages add commands by entry points.

Exit codes: 0 all answered, scored, saved · 1 a bug (traceback) · 2 usage, config or unknown name,
nothing was run · 3 some questions failed, a run stopped midway, some of several runs were not made,
or a result could not be saved or tracked · 4 a declared check failed · 130 interrupted.
"""

import contextlib
import importlib
import os
import signal
import sys
from functools import cached_property
from typing import Annotated, Any

import typer

from harness.cli.command import CONTEXT_SETTINGS, Commands, Group, join_command_tables
from harness.cli.exit_codes import print_error
from harness.cli.help_page import CommandEntry
from harness.cli.stopping import INTERRUPTED, print_resume_command
from harness.config import plugins
from harness.errors import CannotRun, UserError, escaped_output

_TABLE = {
    "Run methods": {
        "init": "Write documents, questions, a suite and a workflow to start from",
        "run": "Run methods on data sets; the same command again resumes",
        "retrieve": "Retrieve documents of a corpus for the questions of a data set",
        "index-corpus": "Make an index of a corpus, which runs search in: harness run --corpus DIR",
        "serve-index": "Serve an index to several runs and to other programs",
        "merge": "Merge the shards of runs (run --shard) that are not merged yet",
        "validate": "Check a run, or every shipped configuration, without running anything",
        "reproduce": "Run a table or figure of the papers, and show ours beside the printed values",
        "score": "Score stored answers again, without a model",
        "judge": "Let a model judge each stored answer: whether it is right, faithful, or by a rubric",
    },
    "Look up": {
        "list": "List methods, data sets, models, encoders, scorers, suites and profiles",
        "show": "Show a configuration: each value with its origin, and a method's prompts",
        "doctor": "Check what is installed and what can be run here",
        "cache": "List or delete the stored replies of models (run --cache replies)",
    },
    "Report stored runs": {
        "watch": "Serve the page of stored runs and follow them while they are written",
        "report": "Print tables of runs, or write them as a page",
        "report curves": "Plot score and TFLOPs of other stopping rules",
        "report front": "Plot score against TFLOPs or money a question, with intervals",
        "report nodes": "Plot how many nodes each question retrieved",
        "report queries": "Plot TFLOPs per query where queries share an index",
        "report sweep": "Plot score and TFLOPs against a setting that was swept, one line for each method",
        "report tokens": "Count the tokens of documents, questions and answers",
        "compare": "Compare runs, with paired tests against a reference",
        "prune": "List unfinished, failed and superseded runs, and delete them",
        "trace": "Print the search of one question as a tree, or play it on a page with its graph",
    },
    "MLflow": {
        "track": "Log stored runs to MLflow; what is already logged is skipped",
        "ui": "Open the MLflow user interface",
    },
}
COMMANDS = Commands(_TABLE, "harness.cli")


class Root(Group):
    """The command `harness` itself: the commands of harness/, and those that installed packages
    add.

    A package adds them by an entry point of "harness.commands": a `Commands` table, whose commands
    stand beside those of harness/, which count first; or a click group or a typer.Typer, whose
    commands follow the entry point's name.
    """

    @cached_property
    def added(self) -> dict[str, object]:
        """What installed packages add, by entry point: a `Commands`
        table, or a click or typer group.

        For a package that cannot be imported it is the CannotRun that says why.
        """
        added: dict[str, object] = {}
        for name, target in plugins.targets("harness.commands").items():
            module, _, attribute = target.partition(":")
            try:
                added[name] = getattr(importlib.import_module(module), attribute)
            except (ImportError, AttributeError) as e:
                added[name] = CannotRun(
                    f"the commands 'harness {name}' ({target}) cannot be imported: {e}"
                )
        return added

    @cached_property
    def entries(self) -> dict[str, CommandEntry]:  # type: ignore[override]
        """The commands of our table and of those that packages add: name -> command."""
        return join_command_tables(
            [
                COMMANDS,
                *(commands for commands in self.added.values() if isinstance(commands, Commands)),
            ]
        )

    def groups(self, ctx: Any) -> dict[str, object]:
        """The groups that packages add, by name; a command of a table
        with that name wins over a group.
        """
        names_in_tables = super().list_commands(ctx)
        return {
            name: commands
            for name, commands in self.added.items()
            if not isinstance(commands, Commands) and name not in names_in_tables
        }

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands: those of the tables, then the groups."""
        return [*super().list_commands(ctx), *self.groups(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the command of this name, or return the group that a package adds by it.

        Raises CannotRun for a group whose package cannot be imported.
        """
        added_group = self.groups(ctx).get(cmd_name)
        if added_group is None:
            return super().get_command(ctx, cmd_name)
        if isinstance(added_group, CannotRun):
            raise added_group
        if isinstance(added_group, typer.Typer):
            return typer.main.get_command(added_group)
        return added_group

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands of the tables by section into the help, then the groups."""
        super().format_commands(ctx, formatter)
        rows = []
        for name, added_group in self.groups(ctx).items():
            text = "cannot be imported"
            if not isinstance(added_group, CannotRun):
                text = self.get_command(ctx, name).get_short_help_str(limit=100)
            rows.append((name, text))
        if rows:
            with formatter.section("Other commands"):
                formatter.write_dl(rows)


app = typer.Typer(
    name="harness",
    cls=Root,
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings=CONTEXT_SETTINGS,
)


def _print_version(requested: bool) -> None:
    """Print the version and exit, if --version was typed."""
    if requested:
        from harness import __version__

        print(f"harness {__version__}")
        raise typer.Exit


@app.callback()
def _harness(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Compare methods for question answering over long documents: answer quality and cost."""


def root() -> Root:
    """Make the command `harness` as a click group."""
    command = typer.main.get_command(app)
    assert isinstance(command, Root)
    return command


def main(arguments: list[str] | None = None) -> None:
    """Run the command `harness` and end the process with its exit code.

    Args:
        arguments: The words after "harness"; None for those of the command line. Tests give them.
    """
    if sys.stderr is None:  # closed by the caller
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    if sys.stdout is None:
        sys.stderr.write(
            "error: stdout is closed, so nothing can be printed; send it to a file or to "
            "/dev/null\n"
        )
        sys.exit(2)
    try:
        with escaped_output():
            exit_code = _run_command(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:  # one more Ctrl-C, on the way out
        exit_code = INTERRUPTED
        if arguments is None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        print_resume_command("interrupted")
    if exit_code == INTERRUPTED and arguments is None:
        _exit_at_once(exit_code)
    sys.exit(exit_code)


def _exit_at_once(code: int) -> None:
    """End the process now, without Python's own way out, which aborts (exit 134) where threads of a
    run still compute.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


def _run_command(arguments: list[str]) -> int:
    """Run a command, print the error that it raises, and return the exit code."""
    try:
        # Bytes that are no UTF-8 come as lone surrogates, which no file of a run can hold.
        for argument in arguments:
            if argument != argument.encode(errors="ignore").decode():
                problem = f"'{argument}' is not valid {sys.getfilesystemencoding()}"
                raise UserError(f"{problem}; use another name (a file: rename it)")
        return int(app(args=arguments, prog_name="harness", standalone_mode=False) or 0)
    except Exception as e:  # noqa: BLE001 - a bug: its message may hold text from outside, so Python does not print it
        return print_error(e)
