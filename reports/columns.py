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
from reports.missing_scores import notes_on_columns
from reports.run_columns import Shown, column_names_shown, legends
from reports.section import Section
from reports.settings import full_column_name, setting_columns

_RUN_COLUMNS = ("dataset", "method", "model")
_JUDGE = re.compile(r"judge\.[^.]+")  # of other kinds: judge.NAME.KIND
_STEPWISE_JUDGE = re.compile(r"judge\..+\.(claim-\w+|citation-\w+|pairwise\.[^.]+)")
_CORPUS_BLEU = "hf_bleu.corpus_bleu4"
_SCORE_COLUMNS = (
    _CORPUS_BLEU,
    "assertions",
    "evidence_recall",
    "evidence_hit",
    "evidence_mrr",
    "evidence_pages",
    "search_recall",
    "search_recall_pages",
    "search_recall_answer",
)
_CARRIED_COLUMNS = ("base", *column_names_shown(Shown.NEVER), "changed")
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
    picked = []
    for column in columns:
        name = full_column_name(column, names)
        if name not in names:
            raise _unknown_column_error(name, names)
        picked.append(name)
    columns_to_show = [*_RUN_COLUMNS, *setting_columns(frame), *picked, *_CARRIED_COLUMNS]
    with_interval_ends: dict[str, None] = {}  # the keys serve as an ordered set
    for name in columns_to_show:
        with_interval_ends |= dict.fromkeys((name, f"{name}.low", f"{name}.high"))
    present_columns = [name for name in with_interval_ends if name in names]
    return frame[present_columns]


def _default_columns(frame: pd.DataFrame, names: Sequence[str], score: str | None) -> list[str]:
    """The names of the columns that fit a terminal: scores, costs, counts.

    With known FLOPs these are costs in FLOPs, without them money and time; both where runs differ.

    Args:
        frame: The main table.
        names: The names of its columns.
        score: The score to show; None for the headlines.
    """
    columns = [*_default_scores(frame, names, score), *_SCORE_COLUMNS]
    is_unknown: list[bool] = []  # of each row, whether its FLOPs are
    if "tflops" in names:
        is_unknown = list(frame["tflops"].isna())
    all_are_unknown = bool(is_unknown) and all(is_unknown)
    if not all_are_unknown:
        columns += column_names_shown(Shown.WITH_FLOPS)
    if any(is_unknown):
        columns += column_names_shown(Shown.WITHOUT_FLOPS)
    columns = [name for name in columns if name in names]
    columns += column_names_shown(Shown.ALWAYS)
    for name in column_names_shown(Shown.WHEN_NOT_ZERO):
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
    scores: list[str] = []
    if score:
        scores.append(score)
    else:
        scores += list(frame["headline"])
        scores += [name for name in names if _is_own_score(name)]
        if FOLDER_SCORE in names:
            scores.append(FOLDER_SCORE)
            scores += [name for name in names if _JUDGE.fullmatch(name)]
        scores += [name for name in names if _STEPWISE_JUDGE.fullmatch(name)]
    distinct_scores = list(dict.fromkeys(scores))
    score_columns = list(distinct_scores)
    for name in distinct_scores:
        repeats = re.compile(rf"{re.escape(name)}\.(vote|pass@\d+)")
        score_columns += [column for column in names if repeats.fullmatch(column)]
    return score_columns


def _is_own_score(name: str) -> bool:
    """Whether a column is a score by the user's own function: "module:function"."""
    return ":" in name and not _is_interval_end(name)


def _is_interval_end(name: str) -> bool:
    """Whether a column is an end of an interval: "f1.low" or "f1.high"."""
    return name.endswith((".low", ".high"))


def _unknown_column_error(name: str, names: Sequence[str]) -> UnknownName:
    """The error for a column that the frame does not have."""
    known_columns = [column for column in names if not _is_interval_end(column)]
    hint = "--all prints every column; harness score RUN --scorers NAME adds a score"
    if "," in "".join(known_columns):
        hint += "; a name with a comma goes in quotes: --columns '\"A,B\",n'"
    return UnknownName("column", name, known_columns, hint)


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
        tables.append(_dataset_section(table, columns))
    return tables


def _dataset_section(table: pd.DataFrame, columns: Sequence[str] | None) -> Section:
    """The section of one data set, without the columns that are equal in all rows and in the title.

    Args:
        table: The rows of the data set.
        columns: As of `sections`: the columns named by the user, None for a choice, () for all.
    """
    constant_columns = []
    title_parts = []
    for name in ("dataset", "model"):
        if name in table.columns and table[name].nunique() == 1:
            constant_columns.append(name)
            title_parts.append(str(table[name].iloc[0]))
    title_parts = [title for title in title_parts if title != NO_MODEL]
    empty_settings = [name for name in setting_columns(table) if table[name].isna().all()]
    table = table.drop(columns=[*constant_columns, *empty_settings])
    shown_table = with_legend(_with_notes_of_shown_scores(_settings_after_method(table)))
    named_columns: Sequence[str] = columns or ()
    if columns is not None and not columns:
        named_columns = list(map(str, shown_table.columns))
    return Section(" · ".join(title_parts), shown_table, named_columns=named_columns)


def _with_notes_of_shown_scores(table: pd.DataFrame) -> pd.DataFrame:
    """The table without those notes on missing scores whose scores it does not show."""
    if "notes" not in table.columns:
        return table
    columns_with_values = set(map(str, table.columns[table.notna().any()]))

    def notes_to_show(notes: Sequence[str]) -> tuple[str, ...]:
        """A row's notes, without those on scores that the table does not show."""
        return tuple(notes_on_columns(columns_with_values, notes))

    return table.assign(notes=table["notes"].map(notes_to_show))


def _settings_after_method(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the settings in which runs differ moved to behind the method.

    The cell of the method is then its name without these settings. Changes `table` as well.
    """
    differing_settings = setting_columns(table)
    if not differing_settings:
        return table
    position = list(table.columns).index("method") + 1
    for name in reversed(differing_settings):
        table.insert(position, name, table.pop(name))
    return table.assign(method=table["base"])


def with_legend(table: pd.DataFrame) -> pd.DataFrame:
    """The table with a legend as the first note of every row.

    The legend explains the columns of costs that have a value; the table is returned as it is where
    there is none.
    """
    if "notes" not in table.columns:
        return table
    columns_with_values = set(map(str, table.columns[table.notna().any()]))
    sentences = [*_unit_sentences(table, columns_with_values), *legends(columns_with_values)]
    legend = "; ".join(sentences)
    if not legend:
        return table
    return table.assign(notes=table["notes"].map(lambda notes: (legend, *notes)))


def _unit_sentences(table: pd.DataFrame, columns_with_values: Collection[str]) -> list[str]:
    """Sentences on what costs are measured per, and under which convention FLOPs are counted.

    Args:
        table: The table.
        columns_with_values: The names of its columns that have a value.
    """
    sentences = []
    index_columns = [
        name for name in ("tokens.index", "tflops.index") if name in columns_with_values
    ]
    if index_columns:
        sentences.append(f"costs are per question, {' and '.join(index_columns)} per document")
    families = {
        name.partition(".")[0] for name in columns_with_values
    }  # "tflops" of "tflops.index"
    is_table_of_printed_values = "printed" in columns_with_values
    shows_flops = is_table_of_printed_values or not families.isdisjoint(("tflops", "ratio"))
    if "convention" in columns_with_values and shows_flops:
        conventions = dict.fromkeys(table["convention"].dropna())
        sentences.append(f"FLOPs under the convention {', '.join(conventions)}")
    return sentences


def with_short_texts(frame: pd.DataFrame, column: str, max_characters: int = 46) -> pd.DataFrame:
    """The frame with the middle of long texts in a column left out: "PECAN Attention … 8 queries
    per document".

    Args:
        frame: A table.
        column: The column of texts.
        max_characters: Characters from which on a text is shortened.
    """
    half_length = (max_characters - 3) // 2
    texts = []
    for value in frame[column]:
        text = str(value)
        if len(text) > max_characters:
            text = f"{text[:half_length].rstrip()} … {text[-half_length:].lstrip()}"
        texts.append(text)
    return frame.assign(**{column: texts})
