"""The command line: verbs parse and call; their bodies are in harness/cli/ and imported when called.

    harness run --method pecan --dataset musique --data dev.jsonl --model ./Llama-3.1-8B-Instruct
    harness list | show | validate | score | compare | report | track | trace | ui
    harness report curves | nodes | queries | tokens
    harness study position
    harness train METHOD
    harness pocket train | train-reranker | eval | skills | check

Exit codes: 0 all answered, scored, saved · 1 a bug (traceback) · 2 usage, config or unknown name, nothing was run · 3
some questions failed, a run stopped midway, some of several rows did not run, or a result could not be saved or
tracked · 4 a declared check failed · 130 interrupted.
"""

from __future__ import annotations

import errno
import re
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.figure_flags import add_figures, join_figure
from harness.cli.flag_groups import takes_flags
from harness.cli.flags import Convention, Flags, RunFlags, TableFlags
from harness.cli.pocket_flags import TrainFlags
from harness.cli.study_flags import add_study
from harness.cli.train_flags import add_train
from harness.errors import SaveError, UserError, guarded, printable

app = typer.Typer(
    name="harness",
    help="A fair comparison of long-document question answering methods.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
)


Runs = Annotated[list[str], typer.Argument(metavar="RUN...", help="Run folders, or a folder that holds runs.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Out = Annotated[str, typer.Option("--out", help="The folder results are kept in.")]


@app.command()
@takes_flags
def run(
    flags: Flags,
    how: RunFlags,
    out: Out = "results",
    json: Annotated[bool, typer.Option("--json", help='Last line: {"run": folder, "summary": {...}}.')] = False,
    mlflow: Annotated[
        str | None, typer.Option(metavar="URI|off", help="Where MLflow logs; default: a file in the results folder.")
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Ask again what failed before.")] = False,
) -> int:
    """Run methods over data sets; the same command again resumes."""
    from harness.cli import run as body

    record = {"record_stops": how.record_stops, "record_t_p": how.record_t_p}
    given = {name: value for name, value in record.items() if value is not None}
    out_ = Path(out).expanduser()
    shown = (how.plan, how.convention)
    options = body.Options(out_, json, mlflow, retry_failed, flags.suite, how.parallel, given, *shown)
    return body.main(flags, options)


@app.command("list")
@takes_flags
def list_(
    kind: Annotated[
        str | None, typer.Argument(metavar="[KIND]", help="methods, datasets, models, ...; all if left out.")
    ] = None,
    json: Json = False,
) -> int:
    """List what can be named: methods, datasets, models, encoders, scorers, suites, profiles."""
    from harness.cli import list as body

    return body.main(kind, json=json)


@app.command()
@takes_flags
def show(
    flags: Flags,
    name: Annotated[
        str | None, typer.Argument(help="A method, data set, model, encoder, suite, profile or scorer.")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Its kind, where a name has several.")] = None,
    diff: Annotated[
        str | None, typer.Option(metavar="OTHER", help="Print only the keys that differ from OTHER.")
    ] = None,
    json: Json = False,
) -> int:
    """Show every value of a configuration with its origin, and a method's prompts."""
    from harness.cli import show as body

    return body.main(flags, name, kind=kind, diff=diff, json=json)


@app.command()
@takes_flags
def validate(flags: Flags, json: Json = False) -> int:
    """Check a run without running it, or every shipped configuration when nothing is chosen."""
    from harness.cli import validate as body

    return body.main(flags, json=json)


@app.command()
@takes_flags
def score(
    runs: Runs,
    scorers: Annotated[str | None, typer.Option(metavar="A,B", help="These scorers instead of the run's own.")] = None,
    data: Annotated[str | None, typer.Option(help="Where the rows are now, if they were moved.")] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Show code that a run folder names, and ask.")] = False,
    json: Json = False,
) -> int:
    """Score stored predictions again; no model is loaded."""
    from harness.cli import score as body

    return body.main(runs, scorers=scorers, data=data, json=json, trust=trust)


@app.command()
@takes_flags
def compare(
    runs: Runs,
    table: TableFlags,
    score: Annotated[str | None, typer.Option(help="The score to compare. Default: the data set's first.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Compare runs that differ in more than the method.")] = False,
) -> int:
    """Compare runs: means with intervals, and paired differences against a reference."""
    from harness.cli import compare as body

    shown = (table.form, table.out, table.columns, table.everything, table.convention)
    return body.main(runs, body.Options(table.reference, score, force, *shown))


@app.command()
@takes_flags
def report(
    table: TableFlags,
    folder: Annotated[str, typer.Argument(metavar="[RUNS_DIR]", help="The folder that holds the runs.")] = "results",
    html: Annotated[str | None, typer.Option("--html", metavar="FILE", help="Write one self-contained page.")] = None,
    questions: Annotated[
        int | None, typer.Option("--questions", help="The page tells these many in detail. Default: 200.")
    ] = None,
    paper: Annotated[
        bool,
        typer.Option("--paper", help="Published numbers beside the measured ones: equivalent, differs or undecided."),
    ] = False,
    margin: Annotated[
        float | None,
        typer.Option(
            "--margin", help="With --paper, equivalent means within this: points, or % of a cost. Default: 2."
        ),
    ] = None,
) -> int:
    """Print the tables of all runs below a folder, or make a page of them; "report curves" and others draw."""
    from harness.cli import report as body

    shown = (table.form, table.out, table.columns, table.everything, table.reference)
    return body.main(folder, body.Options(*shown, html, questions, paper, margin, table.convention))


add_figures(app)
add_study(app)
add_train(app)


@app.command()
@takes_flags
def track(
    runs: Runs, uri: Annotated[str | None, typer.Option("--uri", help="The MLflow server or database.")] = None
) -> int:
    """Fill MLflow from run folders; what is there already is not logged twice."""
    from harness.cli import track as body

    return body.main(runs, uri=uri)


@app.command()
@takes_flags
def ui(
    out: Out = "results",
    uri: Annotated[str | None, typer.Option("--uri", help="The MLflow server's database.")] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = 5000,
) -> int:
    """Open MLflow's pages over the results; nothing is reported to MLflow's makers."""
    from harness.cli import ui as body

    return body.main(out, uri=uri, port=port)


@app.command()
@takes_flags
def trace(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder.")],
    question: Annotated[str, typer.Argument(metavar="QUESTION_ID", help="As in records.jsonl.")],
    graph: Annotated[
        str | None, typer.Option("--graph", metavar="FILE.svg", help="Draw the searched graph into this file.")
    ] = None,
    least: Annotated[
        float | None, typer.Option("--least", metavar="WEIGHT", help="Draw edges above this weight. Default: 0.05.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="Where the rows are now, if they were moved.")] = None,
    convention: Convention = None,
    json: Json = False,
) -> int:
    """Print the stored search of one question as a tree, or draw the graph it went over."""
    from harness.cli import trace as body

    return body.main(run, question, graph=graph, json=json, least=least, data=data, convention=convention)


pocket = typer.Typer(
    name="pocket",
    help="The pocket model: train it on the methods' skills, examine it, see whether it still fits them.",
    no_args_is_help=True,
)
app.add_typer(pocket)

Model = Annotated[str | None, typer.Argument(metavar="FOLDER", help="A model folder. Default: the embedded model.")]
Skills = Annotated[list[str], typer.Option("--skill", metavar="NAME", help="Only this skill; again, or a,b, for more.")]


@pocket.command("train")
@takes_flags
def pocket_train(
    flags: TrainFlags,
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Where the training is kept; it resumes there.")],
) -> int:
    """Train the model; the same command again goes on where it stopped."""
    from harness.cli import pocket_train as body

    course, begin = (Path(name) if name is not None else None for name in (flags.curriculum, flags.begin))
    chosen = (flags.seed, flags.steps, flags.device, tuple(flags.skill), flags.mlflow)
    return body.main(body.Options(Path(out), course, begin, *chosen))


@pocket.command("train-reranker")
@takes_flags
def pocket_train_reranker(
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Where the training is kept; it resumes there.")],
    begin: Annotated[
        str | None, typer.Option("--from", metavar="FOLDER", help="The pocket model to cut it from. Default: embedded.")
    ] = None,
    layers: Annotated[int | None, typer.Option(min=1, help="Layers that are taken of it.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the head and of every text.")] = 0,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps in all.")] = None,
    questions: Annotated[int, typer.Option(min=2, help="Questions of each kind in the exam at the end.")] = 100,
) -> int:
    """Train a small reranker of the pocket world and compare it with BM25; the same command goes on."""
    from harness.cli import pocket_reranker as body

    start = Path(begin) if begin is not None else None
    return body.main(body.Options(Path(out), start, layers, seed, steps, questions))


@pocket.command("eval")
@takes_flags
def pocket_eval(
    model: Model = None,
    questions: Annotated[int, typer.Option(min=2, help="Questions a cell of the exam.")] = 100,
    seed: Annotated[int, typer.Option(help="Another seed asks other questions.")] = 0,
    skill: Skills = [],  # noqa: B006 - Typer copies it
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="FOLDER", help="Where card.json and CARD.md go. Default: the model's."),
    ] = None,
    json: Json = False,
) -> int:
    """Examine a model on fresh texts and write its card."""
    from harness.cli import pocket as body

    exam = body.Exam(questions, seed, tuple(skill), Path(out) if out is not None else None)
    return body.evaluate(model, exam, json=json)


@pocket.command("skills")
@takes_flags
def pocket_skills(model: Model = None) -> int:
    """List the skills that methods declare, and whether the model was trained on them as they are now."""
    from harness.cli import pocket as body

    return body.skills(model)


@pocket.command("check")
@takes_flags
def pocket_check(model: Model = None) -> int:
    """Exit code 4 where a method asks for something that the model was not trained on."""
    from harness.cli import pocket as body

    return body.check(model)


_ASSIGNMENT = re.compile(r"^[A-Za-z_][\w-]*(\.[\w-]+)*=")


def spread_sets(arguments: list[str]) -> list[str]:
    """Allow several assignments after one --set: [--set a=1 b=2] -> [--set a=1 --set b=2]."""
    out: list[str] = []
    inside = False
    for argument in arguments:
        if inside and out[-1] != "--set" and _ASSIGNMENT.match(argument):
            out.append("--set")
        elif inside and out[-1] != "--set":
            inside = False
        inside = inside or argument == "--set" or argument.startswith("--set=")
        out.append(argument)
    return out


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the command `harness`: parse, call, exit."""
    with guarded():
        code = _main(sys.argv[1:] if arguments is None else arguments)
    sys.exit(code)


def _main(arguments: list[str]) -> int:
    try:
        return int(app(args=join_figure(spread_sets(arguments)), prog_name="harness", standalone_mode=False) or 0)
    except UserError as e:
        return _complain(str(e), 2)
    except SaveError as e:
        return _complain(str(e), 3)
    except typer.TyperException as e:
        return _usage(e)
    except Exception as e:  # noqa: BLE001 - a bug: its message may hold text from outside, so Python does not print it
        if isinstance(e, OSError) and e.errno == errno.ENAMETOOLONG:
            return _complain(f"'{str(e.filename)[:60]}...' is longer than a file's name may be; give a shorter one", 2)
        traceback.print_exc()
        return 1


def _complain(sentence: str, code: int) -> int:
    sys.stdout.flush()
    sys.stderr.write(f"error: {printable(sentence)}\n")
    return code


def _usage(e: Any) -> int:
    """A mistake in the command line itself, with the nearest spelling and where to read on."""
    context = getattr(e, "ctx", None)
    if type(e).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(f"{e.format_message()}\n")
        return 2
    message = e.format_message().partition(" (Possible options")[0].rstrip(".")
    near = getattr(e, "possibilities", None)
    if near:
        message += f". Did you mean '{near[0]}'?"
    see = f"  ({context.command_path} --help)" if context is not None else ""
    return _complain(message + see, 2)
