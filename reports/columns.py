"""What of a wide frame is printed: the columns that fit a terminal, one section a data set, best
first.

sections(frame) ─► [Section("musique · Llama-3.1-8B-Instruct", frame of 5 rows)]    for people: text, md, latex
                   with a line below on what costs are measured by
pick_columns(frame)   ─► the same rows, few columns                                       or those that --columns names
"""

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

import pandas as pd

from harness.errors import UnknownName
from reports.run_columns import Shown, columns_shown, legends
from reports.settings import as_printed, settings

_RUN_COLUMNS = ("dataset", "method", "model")
_RIGHT = "right"
_JUDGE = re.compile(r"judge\.[^.]+")  # of other kinds: judge.NAME.KIND
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


class Section(NamedTuple):
    """A table with a title."""

    title: str
    frame: pd.DataFrame


def pick_columns(
    frame: pd.DataFrame, columns: Sequence[str] | None = None, score: str | None = None
) -> pd.DataFrame:
    """The frame with fewer columns; the interval of a column comes with it.

    Args:
        frame: The main table.
        columns: Those to show after the ones that say which run it is; by default those that fit a
            terminal.
        score: The score shown where `columns` is None, by default the headlines.

    Raises:
        UnknownName: The frame does not have the column.
    """
    names = [str(name) for name in frame.columns]
    if columns is None:
        columns = _default_columns(frame, names, score)
    columns = [as_printed(name, names) for name in columns]
    for name in columns:
        if name not in names:
            raise _unknown_column(name, names)
    chosen = [*_RUN_COLUMNS, *settings(frame), *columns, *_CARRIED_COLUMNS]
    with_ends: dict[str, None] = {}
    for name in chosen:
        with_ends |= dict.fromkeys((name, f"{name}.low", f"{name}.high"))
    return frame[[name for name in with_ends if name in names]]


def _default_columns(frame: pd.DataFrame, names: Sequence[str], score: str | None) -> list[str]:
    """The columns that fit a terminal: scores, costs, counts."""
    columns = _default_scores(frame, names, score)
    columns += _SCORE_COLUMNS
    flops_unknown = list(frame["tflops"].isna()) if "tflops" in names else []
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
    """The scores to show: `score`, or headlines and scores of the user's own ("module:function"),
    and judges of correctness beside `right`; with the votes and pass@k of each."""
    if score:
        scores = [score]
    else:
        means = [name for name in names if not name.endswith((".low", ".high"))]
        own = [name for name in means if ":" in name]
        if _RIGHT in set(frame["headline"]):
            own += [name for name in means if _JUDGE.fullmatch(name)]
        scores = [*dict.fromkeys([*frame["headline"], *own])]
    found = list(scores)
    for name in scores:
        of_repeats = re.compile(rf"{re.escape(name)}\.(vote|pass@\d+)")
        found += filter(of_repeats.fullmatch, names)
    return found


def _unknown_column(name: str, names: Sequence[str]) -> UnknownName:
    """The error for a column that the frame does not have."""
    known = [known for known in names if not known.endswith((".low", ".high"))]
    hint = "--all prints every column; harness score RUN --scorers NAME adds a score"
    if any("," in column for column in known):
        hint += "; a name with a comma goes in quotes: --columns '\"A,B\",n'"
    return UnknownName("column", name, known, hint)


def sections(
    frame: pd.DataFrame, columns: Sequence[str] | None = None, score: str | None = None
) -> list[Section]:
    """One section a data set, titled by its name and the model that all rows share.

    columns, score: as in `pick_columns`; columns=() keeps every column.
    """
    tables = []
    for _, group in frame.groupby("dataset", sort=False):
        table = group.reset_index(drop=True)
        if columns is None or len(columns):
            table = pick_columns(table, columns, score)
        in_table = [name for name in ("dataset", "model") if name in table.columns]
        shared = [name for name in in_table if table[name].nunique() == 1]
        title = " · ".join(str(table[name].iloc[0]) for name in shared)
        unset = [name for name in settings(table) if table[name].isna().all()]
        table = table.drop(columns=[*shared, *unset])
        if swept := settings(table):  # columns behind the method, whose name is then without them
            place = list(table.columns).index("method") + 1
            for name in reversed(swept):
                table.insert(place, name, table.pop(name))
            table = table.assign(method=table["base"])
        shown = legended(table)
        all_asked = columns is not None and not columns
        shown.attrs["asked"] = [*(table.columns if all_asked else columns or ())]
        tables.append(Section(title, shown))
    return tables


def legended(table: pd.DataFrame) -> pd.DataFrame:
    """The table with a legend of those columns of costs that have a value, as the first note of
    every row."""
    if "notes" not in table.columns:
        return table
    shown = {str(name) for name in table.columns if table[name].notna().any()}
    legend = "; ".join([*_units(table, shown), *legends(shown)])
    if not legend:
        return table
    return table.assign(notes=table["notes"].map(lambda notes: (legend, *notes)))


def _units(table: pd.DataFrame, shown: Collection[str]) -> list[str]:
    """Sentences on what costs are measured per, and how FLOPs are counted."""
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
    """The frame with the middle of long texts in `column` left out: "PECAN Attention … 8 queries
    per document"."""
    half = (longest - 3) // 2

    def shorten(text: str) -> str:
        return text if len(text) <= longest else f"{text[:half].rstrip()} … {text[-half:].lstrip()}"

    return frame.assign(**{column: [shorten(str(value)) for value in frame[column]]})
