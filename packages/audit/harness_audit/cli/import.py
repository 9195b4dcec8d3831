# ruff: noqa: N999 - a command is in a module of its name, which is imported by that name
"""`harness import FILE... --from TOOL`: results of other harnesses as run folders, which every
other command reads."""

import math
from array import array
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from harness import scorers as known_scorers
from harness.cli.command import choice, setting
from harness.cli.options import RESULTS, Out, split_names
from harness.cli.output import say
from harness.cli.table_output import columns as aligned
from harness.config import registry
from harness.errors import ConfigError, UnknownName, UserError, printable
from harness.storage.paths import local_folder
from harness.types import LOGGED
from harness_audit.foreign_tools import READERS, read_foreign
from harness_audit.import_runs import Imported, QuestionsOf, prepare_import, write_all

_SHOWN = 10
_FAILED = "\0failed"  # no score has this name
_TOLERANCE = 1e-9


def import_(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="Logs or sample files; each becomes a run.")
    ],
    tool: Annotated[str, choice("--from NAME", f"Who wrote them: {', '.join(READERS)}.")],
    dataset: Annotated[
        str | None,
        choice(
            "--dataset NAME",
            "Data set whose questions these are; answers are matched with its rows.",
            complete="datasets",
        ),
    ] = None,
    data: Annotated[
        str | None, choice("--data PATH", "Local file or folder to load its rows from.")
    ] = None,
    documents: Annotated[
        str | None, choice("--documents DIR", "Folder of documents of your own; with --questions.")
    ] = None,
    questions: Annotated[
        str | None, choice("--questions FILE", "Questions about --documents that were answered.")
    ] = None,
    columns: Annotated[
        str | None,
        choice("--columns NAME=COLUMN,...", "What --questions calls question, answer and others."),
    ] = None,
    scorers: Annotated[
        str | None,
        setting("--scorers NAME,...", "Scorers to compute here.", "the data set's, if it is known"),
    ] = None,
    keep_thinking: Annotated[
        bool,
        setting("--keep-thinking", "Score what a reasoning model wrote before its answer, too."),
    ] = False,
    out: Out = RESULTS,
) -> int:
    """Turn results of other harnesses into run folders.

    Scores that the files hold become logged.NAME, beside those that are computed here. Costs that
    they do not tell stay unknown. Nothing is written unless every file can be used. The exit code
    is 3 if answers were left out because they match no question.
    """
    if tool not in READERS:
        raise UnknownName("tool", tool, READERS)
    names = tuple(split_names([scorers or ""]))
    registry.trust(*names)
    if problems := known_scorers.problems(names):
        raise ConfigError(problems)
    of = QuestionsOf(dataset, data, documents, questions, columns)
    ready = [
        prepare_import(read_foreign(tool, Path(file), keep_thinking), of, names)
        for file in dict.fromkeys(files)
    ]
    runs = [repeat for repeats in ready for repeat in repeats]
    places = [repeat.place for repeat in runs]
    if twice := [place for place in places if places.count(place) > 1]:
        raise UserError(f"two of the files would become the same run {twice[0]}; leave one out")
    folder = local_folder(out)
    if there := [place for place in places if (folder / place).exists()]:
        raise UserError(f"{folder / there[0]} is there already; delete it to import the file again")
    write_all(runs, folder, say)
    for repeats in ready:
        for repeat in repeats:
            number = f", repeat {repeat.config['seed'] + 1}" if len(repeats) > 1 else ""
            asked = f"{len(repeat.records)} questions{number}"
            print(printable(f"{folder / repeat.place}: {asked}, imported from {repeat.run.tool}"))
        print(aligned(_mean_rows(repeats)) or "  no question was answered")
        lost = [sentence for repeat in repeats for sentence in repeat.lost]
        for sentence in lost[:_SHOWN]:
            say(printable(f"left out: {sentence}"))
        if len(lost) > _SHOWN:
            say(f"left out: {len(lost) - _SHOWN} more (manifest.json lists all)")
        for warning in dict.fromkeys(
            warning for repeat in repeats for warning in repeat.manifest.warnings
        ):
            say(printable(f"note: {warning}"))
    return 3 if any(repeat.lost for repeat in runs) else 0


def _mean_rows(repeats: Sequence[Imported]) -> list[tuple[str, ...]]:
    """A row for each score: its name, mean ± standard error, the questions that it is over, what
    the tool printed.

    A question's score is the mean over the repeats that have one; a failed question counts 0. The
    other tools leave failed ones out, so theirs are compared with the mean over the answered ones.
    """
    import pandas as pd

    means = repeats[0].run.printed_means  # as the other tool printed them
    records = [repeat.records for repeat in repeats]
    columns = {
        name: array("d", (record.scores.get(name, math.nan) for record in chain(*records)))
        for name in repeats[0].config["dataset"]["scorers"]
    }
    failed = [record.error is not None for record in chain(*records)]
    names = [record.question_id for record in chain(*records)] if len(repeats) > 1 else None
    asked = pd.DataFrame({**columns, _FAILED: failed}, names)
    answered = asked[~asked[_FAILED]]
    rows: list[tuple[str, ...]] = []
    for name in asked.columns.drop(_FAILED):
        values = [frame[name] for frame in (asked, answered)]
        if len(repeats) > 1:  # the index has each question as often as it was asked
            values = [column.groupby(level=0).mean() for column in values]
        whole, part = ((float(v.mean()), float(v.sem()), int(v.count())) for v in values)  # type: ignore[arg-type]
        printed = (
            means.get(name.removeprefix(LOGGED), (None, None))
            if name.startswith(LOGGED)
            else (None, None)
        )
        printed_pairs = zip(
            printed, part[:2], strict=True
        )  # one value has no standard error: Inspect prints 0
        pairs = [
            (there, column)
            for there, column in printed_pairs
            if there is not None and not math.isnan(column)
        ]
        same = all(
            math.isclose(there, column, rel_tol=0, abs_tol=_TOLERANCE) for there, column in pairs
        )
        over = "" if len(answered) == len(asked) else f" over the {part[2]} answered"
        verdict = f"{_plus_minus(part[:2])}{over}, as printed there" if over else "as printed there"
        verdict = (
            verdict
            if same
            else f"printed there{over}: {_plus_minus([there for there, _ in pairs])}"
        )
        rows.append(
            (f"  {name}", _plus_minus(whole[:2]), f"of {whole[2]}", verdict if pairs else "")
        )
    return rows


def _plus_minus(values: Sequence[float]) -> str:
    return " ± ".join(f"{value:.6g}" for value in values if not math.isnan(value))
