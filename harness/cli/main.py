"""The command `harness`: the table of its commands, and what becomes of errors.

    harness run --method pecan --dataset musique --data dev.jsonl --model ./Llama-3.1-8B-Instruct

A command is a function of its own name in a module of its own name, imported when it is called: "report curves" is in
harness/cli/report_curves.py. Groups from outside harness/ are found by plugins.py.

Exit codes: 0 all answered, scored, saved · 1 a bug (traceback) · 2 usage, config or unknown name, nothing was run · 3
some questions failed, a run stopped midway, some of several rows did not run, or a result could not be saved or
tracked · 4 a declared check failed · 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated, Any

import typer

from harness import __version__
from harness.cli import plugins
from harness.cli.command import CONTEXT, Group
from harness.errors import SaveError, UserError, printable
from harness.terminal import guarded

PIPE_CLOSED = 141  # 128 + SIGPIPE, what a shell reports for any program whose reader went away

COMMANDS = {
    "Run methods": {
        "run": "Run methods on data sets; the same command again resumes",
        "validate": "Check a run, or every shipped configuration, without running anything",
        "score": "Score stored answers again, without a model",
    },
    "Look up": {
        "list": "List methods, data sets, models, encoders, scorers, suites and profiles",
        "show": "Show a configuration: each value with its origin, and a method's prompts",
    },
    "Report stored runs": {
        "report": "Print tables of runs, or write them as a page",
        "report curves": "Plot score and TFLOPs of other stopping rules",
        "report nodes": "Plot how many nodes each question retrieved",
        "report queries": "Plot TFLOPs per query where queries share an index",
        "report tokens": "Count the tokens of documents, questions and answers",
        "compare": "Compare runs, with paired tests against a reference",
        "trace": "Print the search of one question, or draw its graph",
    },
    "Study stored runs": {
        "study position": "Plot the score by where the evidence stands in the text",
        "study length": "Plot the score by the length of the documents",
        "study trials": "Plot score and requests by the maximum number of trials",
        "study requests": "Plot the score by the number of requests per question",
    },
    "MLflow": {
        "track": "Log stored runs to MLflow; what is already logged is skipped",
        "ui": "Open the MLflow user interface",
    },
    "Train models": {"train": "Train and evaluate a method's adapters"},
}


class Root(Group):
    """The command `harness` itself: the commands of harness/ and those of plugins."""

    table = COMMANDS
    package = "harness.cli"

    def list_commands(self, ctx: Any) -> list[str]:
        """The commands of harness/, then the shipped and the installed plugins."""
        return list(dict.fromkeys([*super().list_commands(ctx), *plugins.shipped(), *plugins.installed()]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command; one of harness/ wins over a plugin of the same name."""
        if cmd_name not in super().list_commands(ctx):
            plugin = plugins.shipped().get(cmd_name) or plugins.installed().get(cmd_name)
            if plugin is not None:
                return plugins.load(cmd_name, plugin["target"])
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands of harness/ by section, then those of plugins."""
        super().format_commands(ctx, formatter)
        more = plugins.installed() | plugins.shipped()
        with formatter.section("Other commands"):
            formatter.write_dl([(name, plugin["summary"]) for name, plugin in more.items()])


app = typer.Typer(name="harness", cls=Root, rich_markup_mode=None, no_args_is_help=True, context_settings=CONTEXT)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"harness {__version__}")
        raise typer.Exit


@app.callback()
def _harness(
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Compare methods for question answering over long documents: answer quality and cost."""


def root() -> Root:
    """The command `harness` as a click group."""
    made = typer.main.get_command(app)
    assert isinstance(made, Root)
    return made


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the command `harness`: parse, call, exit."""
    with guarded():
        code = _main(sys.argv[1:] if arguments is None else arguments)
    sys.exit(code)


def _main(arguments: list[str]) -> int:
    try:
        code = int(app(args=arguments, prog_name="harness", standalone_mode=False) or 0)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to flush at exit
        return PIPE_CLOSED
    except UserError as e:
        return _error(str(e), 2)
    except SaveError as e:
        return _error(str(e), 3)
    except typer.TyperException as e:
        return _usage(e)
    except Exception:  # noqa: BLE001 - a bug: its message may hold text from outside, so Python does not print it
        traceback.print_exc()
        return 1
    return code


def _error(sentence: str, code: int) -> int:
    sys.stdout.flush()
    sys.stderr.write(f"error: {printable(sentence)}\n")
    return code


def _usage(e: Any) -> int:
    """A mistake in the command line itself, with the nearest spelling and the command that explains it."""
    context = getattr(e, "ctx", None)
    if type(e).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(f"{e.format_message()}\n")
        return 2
    message = e.format_message().partition(" (Possible options")[0].rstrip(".")
    near = getattr(e, "possibilities", None)
    if near:
        message += f". Did you mean '{near[0]}'?"
    see = f"  ({context.command_path} --help)" if context is not None else ""
    return _error(message + see, 2)
