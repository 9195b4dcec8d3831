"""What is printed of a wide frame: the columns that fit a terminal, one section a data set, best
first.

    sections(frame)        [Section("musique · Llama-3.1-8B-Instruct", frame of 5 rows)], for text,
                           markdown and LaTeX, with a line below on what costs are measured by
    pick_columns(frame)    the same rows, and few columns or those that --columns names
"""

import re
from collections.abc import Collection, Sequence

import pandas as pd

from harness.errors import UnknownName
from reports.facts import FOLDER_SCORE, NO_MODEL
from reports.missing_scores import notes_on
from reports.run_columns import Shown, columns_shown, legends
from reports.section import Section
from reports.settings import as_printed, settings

_RUN_COLUMNS = ("dataset", "method", "model")
_JUDGE = re.compile(r"judge\.[^.]+")  # of other kinds: judge.NAME.KIND
_STEPWISE_JUDGE = re.compile(r"judge\..+\.(claim-\w+|citation-\w+|pairwise\.[^.]+)")
_BLEU = "hf_bleu.corpus_bleu4"
_SCORE_COLUMNS = (
    _BLEU,
    "assertions",
    "evidence_recall",
    "evidence_hit",
    "evidence_mrr",
    "evidence_pages",
    "search_recall",
    "search_recall_pages",
    "search_recall_answer",
)
_CARRIED_COLUMNS = ("base", *columns_shown(Shown.NEVER), "changed")
"""They come with any choice of columns: what ranks, titles and explains the rows."""
PAIRED = (
    "method",
    "model",
    "n",
    "documents",
    "mean",
    "reference mean",
    "difference",
    "p",
    "p_holm",
    "detectable",
)
"""Columns of a section of paired differences; its data set, score and reference stand in the
title."""


def pick_columns(
    frame: pd.DataFrame, columns: Sequence[str] | None = None, score: str | None = None
) -> pd.DataFrame:
    """The frame with fewer columns; the ends of a column's interval come with it.

    The columns that say which run a row is, the settings in which runs differ, and those that rank
    and explain rows are always there.

    Args:
        frame: The main table.
        columns: Those to show after the ones that say which run it is; by default those that fit a
            terminal.
        score: The score shown where `columns` is None, by default the headlines.

    Raises:
        UnknownName: The frame does not have the column.
    """
    names = list(map(str, frame.columns))
    if columns is None:
        columns = _default_columns(frame, names, score)
    named = []
    for column in columns:
        name = as_printed(column, names)
        if name not in names:
            raise _unknown_column(name, names)
        named.append(name)
    chosen = [*_RUN_COLUMNS, *settings(frame), *named, *_CARRIED_COLUMNS]
    with_ends: dict[str, None] = {}
    for name in chosen:
        with_ends |= dict.fromkeys((name, f"{name}.low", f"{name}.high"))
    return frame[[name for name in with_ends if name in names]]


def _default_columns(frame: pd.DataFrame, names: Sequence[str], score: str | None) -> list[str]:
    """The names of the columns that fit a terminal: scores, costs, counts.

    With known FLOPs these are costs in FLOPs, without them money and time; both where runs differ.

    Args:
        frame: The main table.
        names: The names of its columns.
        score: The score to show; None for the headlines.
    """
    columns = [*_default_scores(frame, names, score), *_SCORE_COLUMNS]
    flops_unknown: list[bool] = []
    if "tflops" in names:
        flops_unknown = list(frame["tflops"].isna())
    if not flops_unknown or not all(flops_unknown):
        columns += columns_shown(Shown.WITH_FLOPS)
    if any(flops_unknown):
        columns += columns_shown(Shown.WITHOUT_FLOPS)
    columns = [name for name in columns if name in names]
    columns += columns_shown(Shown.ALWAYS)
    for name in columns_shown(Shown.WHEN_NOT_ZERO):
        if name in names and frame[name].any():
            columns.append(name)
    return columns


def _default_scores(frame: pd.DataFrame, names: Sequence[str], score: str | None) -> list[str]:
    """The scores to show, with the votes and pass@k of each.

    These are `score` alone, or without one: headlines, scores of the user's own, judges of
    correctness beside `right`, and those by claims, citations or pairs.

    Args:
        frame: The main table.
        names: The names of its columns.
        score: The score to show; None for the choice above.
    """
    scores: dict[str, None] = {}
    if score:
        scores[score] = None
    else:
        scores.update(dict.fromkeys(frame["headline"]))
        scores.update(dict.fromkeys(filter(_is_own_score, names)))
        if FOLDER_SCORE in names:
            scores[FOLDER_SCORE] = None
            scores.update(dict.fromkeys(filter(_JUDGE.fullmatch, names)))
        scores.update(dict.fromkeys(filter(_STEPWISE_JUDGE.fullmatch, names)))
    found = list(scores)
    for name in scores:
        of_repeats = re.compile(rf"{re.escape(name)}\.(vote|pass@\d+)")
        found += filter(of_repeats.fullmatch, names)
    return found


def _is_own_score(name: str) -> bool:
    """Whether a column is a score by the user's own function: "module:function"."""
    return ":" in name and not _is_end(name)


def _is_end(name: str) -> bool:
    """Whether a column is an end of an interval: "f1.low" or "f1.high"."""
    return name.endswith((".low", ".high"))


def _unknown_column(name: str, names: Sequence[str]) -> UnknownName:
    """The error for a column that the frame does not have."""
    known = [known for known in names if not _is_end(known)]
    hint = "--all prints every column; harness score RUN --scorers NAME adds a score"
    if "," in "".join(known):
        hint += "; a name with a comma goes in quotes: --columns '\"A,B\",n'"
    return UnknownName("column", name, known, hint)


def sections(
    frame: pd.DataFrame, columns: Sequence[str] | None = None, score: str | None = None
) -> list[Section]:
    """One section a data set, titled by its name and the model that all rows share.

    Args:
        frame: The main table, or one with its columns of what ranks, titles and explains rows.
        columns: The columns to show after the ones that say which run it is; None for those that
            fit a terminal, () for all.
        score: The score shown where `columns` is None, by default the headlines.
    """
    tables = []
    for _, group in frame.groupby("dataset", sort=False):
        table = group.reset_index(drop=True)
        if columns is None or len(columns):
            table = pick_columns(table, columns, score)
        tables.append(_section(table, columns))
    return tables


def _section(table: pd.DataFrame, columns: Sequence[str] | None) -> Section:
    """The section of one data set, without the columns that are equal in all rows and in the title.

    Args:
        table: The rows of the data set.
        columns: As of `sections`: the columns named by the user, None for a choice, () for all.
    """
    shared = []
    titles = []
    for name in ("dataset", "model"):
        if name in table.columns and table[name].nunique() == 1:
            shared.append(name)
            titles.append(str(table[name].iloc[0]))
    titles = [title for title in titles if title != NO_MODEL]
    unset = [name for name in settings(table) if table[name].isna().all()]
    table = table.drop(columns=[*shared, *unset])
    shown = legended(_with_own_notes(_settings_after_method(table)))
    named: Sequence[str] = columns or ()
    if columns is not None and not columns:
        named = list(map(str, shown.columns))
    return Section(" · ".join(titles), shown, named_columns=named)


def _with_own_notes(table: pd.DataFrame) -> pd.DataFrame:
    """The table without those notes on missing scores whose scores it does not show."""
    if "notes" not in table.columns:
        return table
    shown = set(map(str, table.columns[table.notna().any()]))
    return table.assign(notes=table["notes"].map(lambda notes: tuple(notes_on(shown, notes))))


def _settings_after_method(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the settings in which runs differ moved to behind the method.

    The cell of the method is then its name without these settings. Changes `table` as well.
    """
    swept = settings(table)
    if not swept:
        return table
    place = list(table.columns).index("method") + 1
    for name in reversed(swept):
        table.insert(place, name, table.pop(name))
    return table.assign(method=table["base"])


def legended(table: pd.DataFrame) -> pd.DataFrame:
    """The table with a legend as the first note of every row.

    The legend explains the columns of costs that have a value; the table is returned as it is where
    there is none.
    """
    if "notes" not in table.columns:
        return table
    shown = set(map(str, table.columns[table.notna().any()]))
    legend = "; ".join([*_units(table, shown), *legends(shown)])
    if not legend:
        return table
    return table.assign(notes=table["notes"].map(lambda notes: (legend, *notes)))


def _units(table: pd.DataFrame, shown: Collection[str]) -> list[str]:
    """Sentences on what costs are measured per, and under which convention FLOPs are counted.

    Args:
        table: The table.
        shown: The names of its columns that have a value.
    """
    sentences = []
    index = [name for name in ("tokens.index", "tflops.index") if name in shown]
    if index:
        sentences.append(f"costs are per question, {' and '.join(index)} per document")
    families = {name.partition(".")[0] for name in shown}
    with_flops = "printed" in shown or not families.isdisjoint(("tflops", "ratio"))
    if "convention" in shown and with_flops:
        conventions = dict.fromkeys(table["convention"].dropna())
        sentences.append(f"FLOPs under the convention {', '.join(conventions)}")
    return sentences


def shortened(frame: pd.DataFrame, column: str, longest: int = 46) -> pd.DataFrame:
    """The frame with the middle of long texts in a column left out: "PECAN Attention … 8 queries
    per document".

    Args:
        frame: A table.
        column: The column of texts.
        longest: Characters from which on a text is shortened.
    """
    half = (longest - 3) // 2
    texts = []
    for value in frame[column]:
        text = str(value)
        if len(text) > longest:
            text = f"{text[:half].rstrip()} … {text[-half:].lstrip()}"
        texts.append(text)
    return frame.assign(**{column: texts})
