"""`harness reproduce`: run the suite of a published table or figure, and show what it gives beside
the printed values.

With a small model (smollm2-135m) on real data sets profile `small` takes the place of `paper`, with
the embedded model profile `pocket`, and the model plays the roles of all language models.

--list says what each table and figure needs (reports/paper/needs.py), and what of it is on this
machine.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json as json_
import os
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.api.run_request import Handling, RunOptions, RunRequest, Selection
from harness.cli.checks import Check, State, check_rows, check_weights, print_checks
from harness.cli.command import output, setting
from harness.cli.main import root
from harness.cli.output import counted, say
from harness.cli.run import SAVED, run_request
from harness.cli.run_options import CheckOptions, Printing, SharedCheckOptions, WorkerOptions
from harness.cli.stopping import until_interrupted
from harness.cli.stored_runs import read_stored_runs
from harness.cli.table_output import aligned_columns, print_or_write
from harness.config import presets, suites
from harness.config.layers import Choices
from harness.config.resolve import resolve_model
from harness.config.schema import EncoderConfig, ModelConfig
from harness.errors import HarnessError, UserError
from harness.storage.paths import local_folder
from harness.storage.run_folder import StoredRun, read_run
from reports.paper.all_values import NOT_RUN, lines_of_paper_results, tables, text
from reports.paper.needs import Needs, needs
from reports.paper.tables_and_figures import (
    MADE_UP,
    TableOrFigure,
    find_table_or_figure,
    tables_and_figures,
)

if TYPE_CHECKING:
    import pandas as pd

NamedFrame = tuple[str, "pd.DataFrame"]
"""The title of a table, and the table."""
_BYTES_PER_GIB = 2**30
_NOTES_BELOW_LIST = """
GPU memory: weights and cache of the run that takes most, without activations.
What a table lacks, with the commands that get it: harness reproduce NAME --list
Without the weights: harness reproduce NAME --model smollm2-135m; on the made-up world: harness reproduce pocket-NAME"""
_NOUN_OF_PART = {
    "Data sets": "data set",
    "Files": "file",
    "Weights": "weight",
    "Packages": "package",
    "GPU": "GPU",
}


@dataclass(frozen=True)
class Pages:
    """Files with every printed value beside ours."""

    html: Annotated[
        str | None, output("--html FILE", "Write every printed value beside ours as a page.")
    ] = None
    markdown: Annotated[str | None, output("--markdown FILE", "The same as Markdown.")] = None
    latex: Annotated[str | None, output("--latex FILE", "The same as LaTeX.")] = None
    margin: Annotated[
        float,
        setting(
            "--margin X",
            "Largest difference called equivalent, in points of a score or percent of a cost.",
        ),
    ] = 2.0

    @property
    def files(self) -> dict[str, str]:
        """The files to write, by format: {"html": "reproduce.html"}."""
        paths = {"html": self.html, "markdown": self.markdown, "latex": self.latex}
        return {form: file for form, file in paths.items() if file is not None}


def reproduce(
    options: RunOptions,
    handling: Handling,
    printing: Printing,
    checks: SharedCheckOptions,
    scaling: WorkerOptions,
    pages: Pages,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="A table or figure: pecan-table1; on made-up data: pocket-pecan-table1.",
        ),
    ] = None,
    listing: Annotated[
        bool,
        output(
            "--list", "List tables and figures with what each needs and what is here; run nothing."
        ),
    ] = False,
) -> int:
    """Run a table or figure of the papers, and show ours beside the printed values.

    The same command again resumes. Without NAME, --html, --markdown and --latex write what the
    stored runs give.
    """
    if not 0 < pages.margin < float("inf"):
        raise UserError(f"--margin {pages.margin:g}: should be more than 0")
    if listing:
        return _print_needs(name, json=printing.json)
    checks_of_runs = CheckOptions(**vars(checks))
    if name is None:
        return _write_pages_of_stored_runs(options, checks_of_runs, handling.out, pages)
    item, suite = find_table_or_figure(name)
    finished: list[Path] = []
    request = RunRequest.from_groups(_suite_selection(options, suite), handling)
    work = partial(
        run_request, request, printing, scaling, checks=checks_of_runs, finished_folders=finished
    )
    code = until_interrupted(work, SAVED)
    was_cut_short = code in (1, 130)  # by a bug, or by Ctrl-C
    if was_cut_short or not finished:
        return code
    stored = map(read_run, dict.fromkeys(finished))
    runs = [run for run in stored if run.records]
    lines_in_paper_results = _chosen_lines_in_paper_results(options)
    if not printing.json:
        _print_beside_printed(runs, item, lines_in_paper_results, pages.margin)
        _write_drawings(runs, item, suite, local_folder(handling.out))
    _write_pages(runs, item, pages, lines_in_paper_results)
    return code


def _write_pages_of_stored_runs(
    options: RunOptions, checks: CheckOptions, out: str, pages: Pages
) -> int:
    """Write the pages from the runs in the folder `out`; without runs they have the printed values
    alone.

    Args:
        options: What to run, which must be left out here.
        checks: The checks of runs, which must be left out too.
        out: The results folder; it may be missing.
        pages: The files to write.

    Returns:
        The exit code: 3 if a damaged run was left out, else 0.

    Raises:
        UserError: No page is named, or the options choose something to run or to check.
    """
    if not pages.files:
        raise UserError(
            "name a table or figure (harness reproduce --list), or write a page: --html "
            "reproduce.html"
        )
    if options != RunOptions() or checks.any_is_given:
        raise UserError(
            "a page of stored runs runs nothing; name a table, or leave out what a run is "
            "chosen or checked with"
        )
    stored: list[StoredRun] = []
    damaged: list[str] = []
    if local_folder(out).is_dir():
        stored, damaged = read_stored_runs([out])
    _write_pages(stored, item=None, pages=pages)
    if damaged:
        return 3
    return 0


def _chosen_lines_in_paper_results(options: RunOptions) -> set[int] | None:
    """The lines of paper_results.csv with printed values of the chosen methods and data sets.

    None where the command chose neither a method nor a data set.
    """
    if not options.method and not options.dataset:
        return None
    methods = {presets.comparable_name(name) for name in options.method}
    datasets = {presets.comparable_name(name) for name in options.dataset}
    return lines_of_paper_results(methods, datasets)


def _print_beside_printed(
    runs: list[StoredRun],
    item: TableOrFigure,
    lines_in_paper_results: set[int] | None,
    margin: float,
) -> None:
    """Print the table's measured values beside the printed ones, then how
    many printed ones have no run.

    Args:
        runs: The runs of the table or figure.
        item: The table or figure.
        lines_in_paper_results: The lines whose printed values are shown; None for all.
        margin: The largest difference called equivalent, in points or percent.
    """
    titled_tables = tables(runs, item, margin=margin, lines=lines_in_paper_results)
    with_runs = [(title, frame[frame["run"].notna()]) for title, frame in titled_tables]
    measured = _without_empty_tables(with_runs)
    if measured:
        print(text(runs, measured, "text", margin).rstrip("\n"))
    for title, frame in titled_tables:
        _print_not_run(title, frame, item)
    if not measured:
        print(f"{item.label}: {item.note or 'no printed value is measured by these runs'}")


def _without_empty_tables(titled_tables: list[NamedFrame]) -> list[NamedFrame]:
    """Leave out the titled tables that have no row."""
    return [(title, frame) for title, frame in titled_tables if not frame.empty]


def _print_not_run(title: str, frame: pd.DataFrame, item: TableOrFigure) -> None:
    """Print how many printed values of one table have no run; nothing where all have one.

    Args:
        title: The table's title: "Table 1: ...".
        frame: The table; a row with the verdict NOT_RUN is a printed value without a run.
        item: The table or figure that was asked for, beside which others may stand.
    """
    n_not_run = int((frame["verdict"] == NOT_RUN).sum())
    if not n_not_run:
        return
    label = title.partition(":")[0]
    table_label = label
    if label != item.label:
        table_label = f"{label}, which stand beside {item.label},"
    print(f"{n_not_run} printed values of {table_label} have no run here yet")


def _suite_selection(options: RunOptions, suite: str) -> Selection:
    """Choose the runs of a suite as the options say.

    With --model, that model plays every role; a small one also gets a profile of its own in place
    of `paper`, and a note says so. A suite on made-up data keeps its own profile and roles.
    """
    values_of_options = {each.name: getattr(options, each.name) for each in fields(options)}
    selection = Selection(**values_of_options, suite=suite)
    if options.model is None or suite.startswith(MADE_UP):
        return selection
    roles = _model_roles_of_suite(suite) - set(selection.unset)
    selection = replace(selection, unset=[*selection.unset, *sorted(roles)])
    model = resolve_model(Choices(model=options.model)).value
    profile = _profile_in_place_of_paper(model)
    if options.profile is not None or profile is None:
        return selection
    say(
        f"note: profile {profile} in place of paper: {model.name} in every role, and the "
        "encoders that are here"
    )
    return replace(selection, profile=profile)


def _model_roles_of_suite(name: str) -> set[str]:
    """The settings by which a suite gives roles models of their own: {"roles.summariser"}."""
    suite = suites.read_suite(name)
    roles: set[str] = set()
    for part in suite.parts or (suite,):
        roles.update(key for key in part.sets if key.startswith("roles."))
    return roles


def _profile_in_place_of_paper(model: ModelConfig) -> str | None:
    """The profile that takes the place of `paper`: "pocket" for the embedded model, "small" for a
    small one; None for others.
    """
    if model.embedded:
        return "pocket"
    if model.small:
        return "small"
    return None


@dataclass(frozen=True)
class _Drawing:
    """A drawing of a table or figure: the command that writes it, and its file."""

    arguments: list[str]
    file: Path


def _write_drawings(runs: list[StoredRun], item: TableOrFigure, suite: str, out: Path) -> None:
    """Write the drawings of a table or figure to files in `out` named after the suite.

    Prints where each is, or why it was not drawn.

    Args:
        runs: The runs to draw.
        item: The table or figure.
        suite: The suite's name.
        out: The folder.
    """
    for command in item.draws:
        for drawing in _plan_drawings(shlex.split(command), runs, out / suite):
            _write_drawing(drawing, item.label)


def _plan_drawings(
    command_words: list[str], runs: list[StoredRun], base: Path
) -> Iterator[_Drawing]:
    """Yield the drawings of one command; "report front" gives one for each data set.

    Args:
        command_words: The command, ["report", "curves"].
        runs: The runs to draw.
        base: Folder and beginning of the name of the files: results/pecan-table1.
    """
    folders = [str(run.path) for run in runs]
    if command_words == ["trace"]:
        file = base.with_name(f"{base.name}.html")
        question = runs[0].records[0].question_id
        yield _Drawing([*command_words, folders[0], question, "--graph", str(file)], file)
    elif command_words == ["report", "front"]:  # one data set at a time
        for name in dict.fromkeys(run.config.dataset.name for run in runs):
            file = base.with_name(f"{base.name}-{name.replace('/', '~')}.svg")
            yield _Drawing([*command_words, *folders, "--dataset", name, "--out", str(file)], file)
    else:
        suffix = ".svg"
        if command_words[-1] == "tokens":
            suffix = ".md"
        file = base.with_name(base.name + suffix)
        yield _Drawing([*command_words, *folders, "--out", str(file)], file)


def _write_drawing(drawing: _Drawing, label: str) -> None:
    """Run the command that draws a file; print where `label` is drawn, or why it was not."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # what trace prints is not the figure
            root().main(drawing.arguments, prog_name="harness", standalone_mode=False)
    except HarnessError as error:
        say(f"note: {drawing.file.name} was not drawn: {error}")
    else:
        print(f"{label} is in {drawing.file}")


def _write_pages(
    runs: list[StoredRun],
    item: TableOrFigure | None,
    pages: Pages,
    lines_in_paper_results: set[int] | None = None,
) -> None:
    """Write our values beside the printed ones to each file that is asked for.

    Args:
        runs: The runs.
        item: The table or figure; None for all.
        pages: The files. LaTeX of one table, which goes into a paper, has no row without a run.
        lines_in_paper_results: The lines whose printed values are shown; None for all.
    """
    if not pages.files:
        return
    titled_tables = tables(runs, item, margin=pages.margin, lines=lines_in_paper_results)
    for form, file in pages.files.items():
        shown = titled_tables
        if form == "latex" and item is not None:
            shown = [(title, frame[frame["verdict"] != NOT_RUN]) for title, frame in titled_tables]
        print_or_write(text(runs, _without_empty_tables(shown), form, pages.margin), file)
        print(f"written: {file}")


@dataclass(frozen=True)
class _ItemWithChecks:
    """A table or figure with the checks of what its runs need.

    Attributes:
        item: The table or figure.
        suite: The suite whose runs fill it.
        checks: A check of each thing that they need.
        gib_needed: GPU memory of the run that needs most; 0 where that is not known.
    """

    item: TableOrFigure
    suite: str
    checks: list[Check]
    gib_needed: float

    @classmethod
    def with_checks(cls, item: TableOrFigure, suite: str) -> _ItemWithChecks:
        """Check what the runs of a suite need, for the table or figure that they fill."""
        needed = needs(suites.read_suite(suite))
        checks = [*_file_checks(needed), _gpu_check(needed)]
        return cls(item, suite, checks, gib_needed=needed.gpu / _BYTES_PER_GIB)

    @property
    def memory_text(self) -> str:
        """The GPU memory that the largest run needs: "16 GiB"; "–" where it needs next to none, or
        that is not known.
        """
        if self.gib_needed < 1:
            return "–"
        return f"{self.gib_needed:.0f} GiB"

    @property
    def state(self) -> str:
        """ "ready", or how many of what is missing here: "lacks 2 data sets, 1 weight"."""
        missing = Counter(_NOUN_OF_PART[check.part] for check in self.checks if check.state != "ok")
        if not missing:
            return "ready"
        return "lacks " + ", ".join(counted(n, noun) for noun, n in missing.items())


def _print_needs(name: str | None, json: bool) -> int:
    """Print what tables and figures need to be run: one in detail, or all, a line each.

    Args:
        name: The table or figure; None for all.
        json: Print JSON instead.

    Returns:
        The exit code 0.
    """
    if name is None:
        chosen_items = [(item, str(item.name)) for item in tables_and_figures() if item.name]
    else:
        chosen_items = [find_table_or_figure(name)]
    items = [_ItemWithChecks.with_checks(item, suite) for item, suite in chosen_items]
    if json:
        print(json_.dumps([_needs_json(each) for each in items], indent=2, ensure_ascii=False))
    elif name is not None:
        _print_needs_of_one(items[0])
    else:
        rows = [("name", "table or figure", "GPU memory", "here", "")]
        for each in items:
            item = each.item
            rows.append((each.suite, item.label, each.memory_text, each.state, item.title))
        print(aligned_columns(rows))
        print(_NOTES_BELOW_LIST)
    return 0


def _needs_json(item_with_checks: _ItemWithChecks) -> dict[str, object]:
    """The JSON object that --list --json prints of a table or figure."""
    return {
        "name": item_with_checks.suite,
        **item_with_checks.item.model_dump(exclude={"name"}),
        "needs": [asdict(check) for check in item_with_checks.checks],
    }


def _print_needs_of_one(item_with_checks: _ItemWithChecks) -> None:
    """Print the checks of one table or figure, and what for it cannot be had by anyone."""
    item = item_with_checks.item
    print(f"{item.label}: {item.title}  (suite {item_with_checks.suite})\n")
    print_checks(item_with_checks.checks)
    if item.note:
        print(item.note)
    for lack in item.lacks:
        print(f"cannot be had: {lack}")


def _file_checks(needed: Needs) -> Iterator[Check]:
    """Check each data set, file, model, encoder, adapter and package
    that is needed; yield the results.
    """
    for name in needed.datasets:
        yield check_rows(name)
    for name, path in needed.documents.items():
        command = f"harness retrieve --dataset {name} --corpus WIKIPEDIA --retriever e5 --top 8 --limit 1000"
        yield _file_check("Files", path, command)
    for name, config in needed.models.items():
        yield _weights_check(name, config, "model")
    for name, encoder in needed.encoders.items():
        yield _weights_check(name, encoder, "encoder")
    for source in needed.classifiers:
        yield check_weights("Weights", source, {"source": source}, "method.classifier")
    for path in needed.adapters:
        out, _, _ = path.partition("/adapters/")  # training writes OUT/adapters/TASK
        command = f"harness train longrefiner --model {Path(out).name} --out {out}"
        yield _file_check("Weights", path, command)
    if needed.entities:
        yield _stanza_check()


def _file_check(part: str, path: str, command: str) -> Check:
    """Check that a file or folder is on disk.

    Args:
        part: The heading that the check is listed below: "Files".
        path: The path, maybe with ~.
        command: The command that makes it, named where it is missing.
    """
    if Path(path).expanduser().exists():
        return Check(part=part, state="ok", name=path, text="on disk")
    return Check(part=part, state="missing", name=path, text=command)


def _weights_check(name: str, config: ModelConfig | EncoderConfig, part: str) -> Check:
    """Check that the weights of a model or encoder are on disk, or that its provider's key is set.

    Args:
        name: The model's name.
        config: Its settings.
        part: "model" or "encoder": its settings begin with this word.
    """
    key = getattr(config, "api_key_env", None)
    if key and key not in os.environ:
        return Check(
            part="Weights",
            state="missing",
            name=name,
            text=f"the key of its provider: export {key}=...",
        )
    return check_weights("Weights", name, config.model_dump(), f"{part}.source")


def _stanza_check() -> Check:
    """Check that the package that finds names in texts is installed."""
    if importlib.util.find_spec("stanza") is not None:
        return Check(part="Packages", state="ok", name="stanza", text="names in texts (QRMeM)")
    command = (
        "pip install 'longdoc-harness[entities]', then python -c "
        "\"import stanza; stanza.download('en')\""
    )
    return Check(part="Packages", state="missing", name="stanza", text=command)


def _gpu_check(needed: Needs) -> Check:
    """Check that this machine's GPUs together hold what the largest run needs."""
    gib_needed = needed.gpu / _BYTES_PER_GIB
    if gib_needed < 1:
        return Check(
            part="GPU",
            state="ok",
            name="memory",
            text="not needed: the models are small, or behind a server",
        )
    note_on_unknown = ""
    if needed.unknown:
        note_on_unknown = f"; without {', '.join(needed.unknown)}, whose size is not known"
    gib_here = _gpu_memory_bytes() / _BYTES_PER_GIB
    gpu_text = "no GPU"
    if gib_here:
        gpu_text = f"{gib_here:.0f} GiB"
    text = f"{gib_needed:.0f} GiB for weights and cache, beside activations{note_on_unknown}; here: {gpu_text}"
    state: State = "missing"
    if gib_here >= gib_needed:
        state = "ok"
    return Check(part="GPU", state=state, name="memory", text=text)


def _gpu_memory_bytes() -> int:
    """The bytes of memory of all GPUs of this machine; 0 where torch is not installed."""
    if importlib.util.find_spec("torch") is None:
        return 0
    import torch

    devices = range(torch.cuda.device_count())
    return sum(torch.cuda.get_device_properties(gpu_index).total_memory for gpu_index in devices)
