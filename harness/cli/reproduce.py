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
from harness.cli.checks import Check, check_rows, check_weights, print_checks
from harness.cli.command import output, setting
from harness.cli.output import say
from harness.cli.run import SAVED, run_request
from harness.cli.run_options import Printing, WorkerOptions
from harness.cli.stopping import until_interrupted
from harness.cli.stored_runs import stored_runs
from harness.cli.table_output import columns, write
from harness.config import presets, suites
from harness.config.resolve import resolved as configured
from harness.config.schema import EncoderConfig
from harness.errors import HarnessError, UserError
from harness.storage.paths import local_folder
from harness.storage.run_folder import StoredRun, read_run

if TYPE_CHECKING:
    from reports.paper.needs import Needs
    from reports.paper.tables_and_figures import TableOrFigure

_GIB = 2**30
_BELOW = """
GPU memory: weights and cache of the run that takes most, without activations.
What a table lacks, with the commands that get it: harness reproduce NAME --list
Without the weights: harness reproduce NAME --model smollm2-135m; on the made-up world: harness reproduce pocket-NAME"""
_NOUNS = {
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
        """Format -> file."""
        paths = {"html": self.html, "markdown": self.markdown, "latex": self.latex}
        return {form: file for form, file in paths.items() if file is not None}


def reproduce(
    options: RunOptions,
    handling: Handling,
    printing: Printing,
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
        return _print_needs(name, printing.json)
    if name is None:  # the pages of all runs in --out; without runs, of the printed values alone
        if not pages.files:
            raise UserError(
                "name a table or figure (harness reproduce --list), or write a page: --html "
                "reproduce.html"
            )
        if options != RunOptions():
            raise UserError(
                "a page of stored runs runs nothing; name a table, or leave out what a run is "
                "chosen with"
            )
        stored, damaged = (
            stored_runs([handling.out]) if local_folder(handling.out).is_dir() else ([], 0)
        )
        _write_pages(stored, None, pages)
        return 3 if damaged else 0
    from reports.paper.tables_and_figures import find_table_or_figure

    item, suite = find_table_or_figure(name)
    ran: list[Path] = []
    request = RunRequest.of(_suite_selection(options, suite), handling)
    work = partial(run_request, request, printing, scaling, finished_folders=ran)
    code = until_interrupted(work, SAVED)
    if code in (1, 130) or not ran:
        return code
    runs = [run for run in map(read_run, dict.fromkeys(ran)) if run.records]
    lines = _chosen_lines(options)
    if not printing.json:
        _print_beside_printed(runs, item, lines, pages.margin)
        _write_drawings(runs, item, suite, local_folder(handling.out))
    _write_pages(runs, item, pages, lines)
    return code


def _chosen_lines(options: RunOptions) -> set[int] | None:
    """The printed values of the methods and data sets that the command chose; None where it chose
    none."""
    from reports.paper.all_values import lines_of

    if not options.method and not options.dataset:
        return None
    methods = {presets.fold(name) for name in options.method}
    datasets = {presets.fold(name) for name in options.dataset}
    return lines_of(methods, datasets)


def _print_beside_printed(
    runs: list[StoredRun], item: TableOrFigure, lines: set[int] | None, margin: float
) -> None:
    """Print what the runs measure beside the printed values, and how many of which paper's have no
    run."""
    from reports.paper.all_values import NOT_RUN, tables, text

    named = tables(runs, item, margin=margin, lines=lines)
    measured = [(title, frame[frame["run"].notna()]) for title, frame in named]
    measured = [(title, frame) for title, frame in measured if not frame.empty]
    if measured:
        print(text(runs, measured, "text", margin).rstrip("\n"))
    for title, frame in named:
        left = int((frame["verdict"] == NOT_RUN).sum())
        place = title.partition(":")[0]
        beside = "" if place == item.label else f", which stand beside {item.label},"
        if left:
            print(f"{left} printed values of {place}{beside} have no run here yet")
    if not measured:
        print(f"{item.label}: {item.note or 'no printed value is measured by these runs'}")


def _suite_selection(options: RunOptions, suite: str) -> Selection:
    """The selection of a suite's runs; a small model plays every role, with its own profile in
    place of paper."""
    from reports.paper.tables_and_figures import MADE_UP

    selection = Selection(
        **{f.name: getattr(options, f.name) for f in fields(options)}, suite=suite
    )
    if options.model is None or suite.startswith(MADE_UP):
        return selection
    shipped = suites.read_suite(suite)
    roles = {
        key for part in shipped.parts or (shipped,) for key in part.sets if key.startswith("roles.")
    }
    selection = replace(selection, unset=[*selection.unset, *sorted(roles - set(selection.unset))])
    model = configured("models", model=options.model)
    profile = "pocket" if model.embedded else "small" if model.small else None
    if options.profile is None and profile is not None:
        say(
            f"note: profile {profile} in place of paper: {model.name} in every role, and the "
            "encoders that are here"
        )
        return replace(selection, profile=profile)
    return selection


def _write_drawings(runs: list[StoredRun], item: TableOrFigure, suite: str, out: Path) -> None:
    """Write each drawing of the table or figure to a file in `out`, named after the suite; print
    why one fails."""
    from harness.cli.main import root

    folders = [str(run.path) for run in runs]
    drawings: list[tuple[list[str], Path]] = []  # arguments of harness, file
    for words in map(shlex.split, item.draws):
        file = out / (suite + {"trace": ".html", "tokens": ".md"}.get(words[-1], ".svg"))
        if words == ["trace"]:
            question = runs[0].records[0].question_id
            drawings.append(([*words, folders[0], question, "--graph", str(file)], file))
        elif words == ["report", "front"]:  # one data set at a time
            for name in dict.fromkeys(str(run.config["dataset"]["name"]) for run in runs):
                file = out / f"{suite}-{name.replace('/', '~')}.svg"
                drawings.append(([*words, *folders, "--dataset", name, "--out", str(file)], file))
        else:
            drawings.append(([*words, *folders, "--out", str(file)], file))
    for arguments, file in drawings:
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # what trace prints is not the figure
                root().main(arguments, prog_name="harness", standalone_mode=False)
        except HarnessError as error:
            say(f"note: {file.name} was not drawn: {error}")
        else:
            print(f"{item.label} is in {file}")


def _write_pages(
    runs: list[StoredRun],
    item: TableOrFigure | None,
    pages: Pages,
    lines: set[int] | None = None,
) -> None:
    """Write our values beside the printed ones to each file that is asked for.

    Args:
        runs: The runs.
        item: The table or figure; None for all.
        pages: The files. LaTeX of one table, which goes into a paper, has no row without a run.
        lines: The printed values to show; None for all.
    """
    from reports.paper.all_values import NOT_RUN, tables, text

    if not pages.files:
        return
    named = tables(runs, item, margin=pages.margin, lines=lines)
    for form, file in pages.files.items():
        shown = named
        if form == "latex" and item is not None:
            shown = [(title, frame[frame["verdict"] != NOT_RUN]) for title, frame in named]
        shown = [(title, frame) for title, frame in shown if not frame.empty]
        write(text(runs, shown, form, pages.margin), file)
        print(f"written: {file}")


def _print_needs(name: str | None, json: bool) -> int:
    """Print what is needed: of one table or figure in detail, or of all, a line each."""
    from reports.paper.needs import needs
    from reports.paper.tables_and_figures import find_table_or_figure, tables_and_figures

    every = [(item, item.name) for item in tables_and_figures() if item.name]
    chosen = every if name is None else [find_table_or_figure(name)]
    needed = [(item, suite, needs(suites.read_suite(str(suite)))) for item, suite in chosen]
    listed = [
        (item, suite, [*_file_checks(need), _gpu_check(need)]) for item, suite, need in needed
    ]
    if json:
        parts = [
            {
                "name": suite,
                **item.model_dump(exclude={"name"}),
                "needs": [asdict(check) for check in checks],
            }
            for item, suite, checks in listed
        ]
        print(json_.dumps(parts, indent=2, ensure_ascii=False))
    elif name is not None:
        ((item, suite, checks),) = listed
        print(f"{item.label}: {item.title}  (suite {suite})\n")
        print_checks(checks)
        for text in filter(None, (item.note, *(f"cannot be had: {lack}" for lack in item.lacks))):
            print(text)
    else:
        lines = [("name", "table or figure", "GPU memory", "here", "")]
        for item, suite, checks in listed:
            memory, has_size, _ = next(
                check.text for check in checks if check.part == "GPU"
            ).partition(" for ")
            count = Counter(_NOUNS[check.part] for check in checks if check.state != "ok")
            lacks = ", ".join(f"{n} {noun}{'s' * (n > 1)}" for noun, n in count.items())
            here = f"lacks {lacks}" if lacks else "ready"
            lines.append((str(suite), item.label, memory if has_size else "–", here, item.title))
        print(columns(lines))
        print(_BELOW)
    return 0


def _file_checks(needs: Needs) -> Iterator[Check]:
    """Yield a check of each data set, file of documents, weights, adapter and package that is
    needed."""
    for name in needs.datasets:
        yield check_rows(name)
    for name, place in needs.documents.items():
        here = Path(place).expanduser().exists()
        command = f"harness retrieve --dataset {name} --corpus WIKIPEDIA --retriever e5 --top 8 --limit 1000"
        yield Check("Files", "ok" if here else "missing", place, "on disk" if here else command)
    for name, config in (*needs.models.items(), *needs.encoders.items()):
        key = getattr(config, "api_key_env", None)
        if key and key not in os.environ:
            yield Check("Weights", "missing", name, f"the key of its provider: export {key}=...")
        else:
            part = "encoder" if isinstance(config, EncoderConfig) else "model"
            yield check_weights("Weights", name, config.model_dump(), f"{part}.source")
    for source in needs.classifiers:
        yield check_weights("Weights", source, {"source": source}, "method.classifier")
    for place in needs.adapters:
        here = Path(place).expanduser().exists()
        out, _, _ = place.partition("/adapters/")
        command = f"harness train longrefiner --model {Path(out).name} --out {out}"
        yield Check("Weights", "ok" if here else "missing", place, "on disk" if here else command)

    if needs.entities:
        here = importlib.util.find_spec("stanza") is not None
        command = "pip install 'longdoc-harness[entities]', then python -c \"import stanza; stanza.download('en')\""
        yield Check(
            "Packages",
            "ok" if here else "missing",
            "stanza",
            "names in texts (QRMeM)" if here else command,
        )


def _gpu_check(needs: Needs) -> Check:
    """Whether the GPUs of this machine hold what the run that takes most needs."""
    need = needs.gpu / _GIB
    if need < 1:
        return Check("GPU", "ok", "memory", "not needed: the models are small, or behind a server")
    unknown = (
        f"; without {', '.join(needs.unknown)}, whose size is not known" if needs.unknown else ""
    )
    has = 0.0
    if importlib.util.find_spec("torch") is not None:
        import torch

        sizes = (
            torch.cuda.get_device_properties(n).total_memory
            for n in range(torch.cuda.device_count())
        )
        has = sum(sizes) / _GIB
    here = f"{has:.0f} GiB" if has else "no GPU"
    text = f"{need:.0f} GiB for weights and cache, beside activations{unknown}; here: {here}"
    return Check("GPU", "ok" if has >= need else "missing", "memory", text)
