# ruff: noqa: N999 - a command is in a module of its name, which is imported by that name
"""`harness import FILE... --from TOOL`: results of other harnesses as run folders, which every
other command reads."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from harness import scorers as known_scorers
from harness.cli.command import choice, setting
from harness.cli.options import RESULTS, Out, split_names
from harness.cli.output import say
from harness.cli.table_output import aligned_columns
from harness.config import registry
from harness.errors import ConfigError, UnknownName, UserError, printable
from harness.storage.paths import local_folder
from harness.types import LOGGED_SCORE_PREFIX
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
    questions: QuestionsOf,
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
    names = _scorer_names(scorers)
    imports: list[list[Imported]] = []
    for file in dict.fromkeys(files):
        foreign = read_foreign(tool, Path(file), keep_thinking)
        imports.append(prepare_import(foreign, questions, names))
    runs = list(chain.from_iterable(imports))
    _check_distinct(runs)
    results = local_folder(out)
    _check_new(runs, results)
    write_all(runs, results, say)
    for repeats in imports:
        _print_import(repeats, results)
    if any(run.left_out for run in runs):
        return 3
    return 0


def _scorer_names(text: str | None) -> tuple[str, ...]:
    """The names in the value of --scorers, divided by commas. Also allows code of the user's that
    they name ("module:function") to be imported.

    Raises ConfigError for a name that is no scorer, or one that cannot be used.
    """
    names = tuple(split_names([text or ""]))
    registry.trust(*names)
    problems = known_scorers.problems(names)
    if problems:
        raise ConfigError(problems)
    return names


def _check_distinct(runs: Sequence[Imported]) -> None:
    """Raise UserError if two runs would be written into the same folder."""
    for place, count in Counter(run.place for run in runs).items():
        if count > 1:
            raise UserError(f"two of the files would become the same run {place}; leave one out")


def _check_new(runs: Sequence[Imported], results: Path) -> None:
    """Raise UserError if the folder of a run exists below `results`."""
    for run in runs:
        folder = results / run.place
        if folder.exists():
            raise UserError(f"{folder} is there already; delete it to import the file again")


def _print_import(repeats: Sequence[Imported], results: Path) -> None:
    """Print the runs of one file, each followed by the scores of all of them together, then the
    first sentences on answers that were left out, and notes.

    Args:
        repeats: The runs, one for each repeat of the questions.
        results: The folder that they were written below.
    """
    for repeat in repeats:
        number = ""
        if len(repeats) > 1:
            number = f", repeat {repeat.config.seed + 1}"  # the seed counts repeats from 0
        count = f"{len(repeat.records)} questions{number}"
        print(printable(f"{results / repeat.place}: {count}, imported from {repeat.run.tool}"))
        print(aligned_columns(_score_rows(repeats)) or "  no question was answered")
    left_out: list[str] = []
    warnings: list[str] = []
    for repeat in repeats:
        left_out += repeat.left_out
        warnings += repeat.manifest.warnings
    for sentence in left_out[:_SHOWN]:
        say(printable(f"left out: {sentence}"))
    if len(left_out) > _SHOWN:
        say(f"left out: {len(left_out) - _SHOWN} more (manifest.json lists all)")
    for warning in dict.fromkeys(warnings):
        say(printable(f"note: {warning}"))


@dataclass(frozen=True)
class _Estimate:
    """The mean of a score over questions, with its standard error.

    Args:
        mean: The mean; NaN without questions.
        error: The standard error; NaN for fewer than two questions.
        count: How many questions have the score.
    """

    mean: float
    error: float
    count: int

    @classmethod
    def of(cls, scores: pd.Series[float]) -> _Estimate:
        """The estimate from scores, indexed by question where there are several repeats: those of
        one question are then averaged first."""
        if not scores.index.is_unique:
            scores = scores.groupby(level=0).mean()
        error = float(scores.sem())  # type: ignore[arg-type]
        return cls(float(scores.mean()), error, int(scores.count()))


def _score_rows(repeats: Sequence[Imported]) -> list[tuple[str, ...]]:
    """A row for each score of a file: its name, mean ± standard error, how many questions that is
    over, and whether the tool printed the same.

        ("  f1", "0.41 ± 0.03", "of 200", "as printed there")

    A question's score is the mean over the repeats that have one; a failed question counts 0. The
    other tools leave failed ones out, so theirs are compared with the mean over the answered ones.

    Args:
        repeats: The runs of the file, one for each repeat of the questions.
    """
    all_scores = _score_frame(repeats)
    answered_scores = all_scores[~all_scores[_FAILED]]
    rows: list[tuple[str, ...]] = []
    for name in all_scores.columns.drop(_FAILED):
        estimate = _Estimate.of(all_scores[name])
        estimate_of_answered = _Estimate.of(answered_scores[name])
        over_which = ""
        if len(answered_scores) < len(all_scores):
            over_which = f" over the {estimate_of_answered.count} answered"
        printed = _printed_mean(repeats[0], name)
        comparison = _compare_with_printed(printed, estimate_of_answered, over_which)
        mean_and_error = _plus_minus((estimate.mean, estimate.error))
        rows.append((f"  {name}", mean_and_error, f"of {estimate.count}", comparison))
    return rows


def _score_frame(repeats: Sequence[Imported]) -> pd.DataFrame:
    """A row for each answer of any repeat, a column for each score (NaN where an answer has none),
    and the column _FAILED: whether it failed.

    Rows are indexed by question id if there are several repeats, so that the scores of a question
    can be averaged; else by their number.
    """
    columns: dict[str, array[float]] = {}
    for name in repeats[0].config.dataset.scorers:
        columns[name] = array("d")
    failed: list[bool] = []
    question_ids: list[str] = []
    for record in chain.from_iterable(repeat.records for repeat in repeats):
        for name, values in columns.items():
            values.append(record.scores.get(name, math.nan))
        failed.append(record.error is not None)
        if len(repeats) > 1:
            question_ids.append(record.question_id)
    return pd.DataFrame({**columns, _FAILED: failed}, index=question_ids or None)


def _printed_mean(imported: Imported, name: str) -> tuple[float | None, float | None]:
    """The (mean, standard error) of a score as the tool printed them; None for what it did not
    print.

    Args:
        imported: A run of the tool's file.
        name: The name of the score; only "logged.NAME" is the tool's.
    """
    if not name.startswith(LOGGED_SCORE_PREFIX):
        return None, None
    return imported.run.printed_means.get(name.removeprefix(LOGGED_SCORE_PREFIX), (None, None))


def _compare_with_printed(
    printed: tuple[float | None, float | None], computed: _Estimate, over_which: str
) -> str:
    """Say whether the tool printed the mean and the standard error that are computed here.

        "printed there: 0.42 ± 0.03"                              it printed others
        "as printed there"                                        it printed the same
        "0.42 ± 0.03 over the 190 answered, as printed there"     the same, but not of all questions
        ""                                                        it printed neither

    Args:
        printed: (mean, standard error) in the tool's file; None for what is not there.
        computed: The same, from its answers; a NaN is not compared (one value has no standard
            error, for which Inspect prints 0).
        over_which: Which questions both are over, if not all: " over the 190 answered". The table
            then has other values beside this sentence, those of all questions.
    """
    printed_values: list[float] = []
    are_equal = True
    computed_values = (computed.mean, computed.error)
    for printed_value, computed_value in zip(printed, computed_values, strict=True):
        if printed_value is None or math.isnan(computed_value):
            continue
        printed_values.append(printed_value)
        if not math.isclose(printed_value, computed_value, rel_tol=0, abs_tol=_TOLERANCE):
            are_equal = False
    if not printed_values:
        return ""
    if not are_equal:
        return f"printed there{over_which}: {_plus_minus(printed_values)}"
    if not over_which:
        return "as printed there"
    return f"{_plus_minus(computed_values)}{over_which}, as printed there"


def _plus_minus(values: Sequence[float]) -> str:
    """ "0.41 ± 0.03": the values without those that are NaN."""
    return " ± ".join(f"{value:.6g}" for value in values if not math.isnan(value))
