"""What of a wide frame is printed: the columns that fit a terminal, one section a data set, best
first.

sections(frame) ─► [Section("musique · Llama-3.1-8B-Instruct", frame of 5 rows)]    for people: text, md, latex
                   with a line below on what costs are measured by
pick_columns(frame)   ─► the same rows, few columns                                       or those that --columns names
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from harness.errors import UnknownName
from reports.settings import as_printed, settings

_RUN_COLUMNS = ("dataset", "method", "model")
_BLEU = "hf_bleu.corpus_bleu4"
_SCORE_COLUMNS = (_BLEU, "evidence_recall", "evidence_hit", "evidence_mrr", "evidence_pages")
_COST_COLUMNS = (
    "tokens",
    "tflops.index",
    "tflops.search",
    "tflops.answer",
    "ratio",
    "ratio.search",
)
_SERVER_COLUMNS = ("tokens.in", "tokens.out", "money", "money.run", "seconds.p50", "seconds.p95")
_COUNT_COLUMNS = ("n", "documents", "failed", "truncated")
_NONZERO_COLUMNS = (
    "left_out",
    "tokens.thinking",
    "texts_cut",
    "declined",
)  # shown where it is not 0 throughout
_HIDDEN_COLUMNS = (
    "base",
    "hash8",
    "headline",
    "upper_bound",
    "floor",
    "unfinished",
    "asked_otherwise",
    "convention",
    "scorers",
    "notes",
    "run",
    "changed",
)
_LEGENDS = {
    "money": "money by model.price or as an application says, per question with its share of the "
    "index; money.run: of the whole run",
    "seconds.p95": "seconds: the time of a question's own requests, without the queue",
    "ratio": "ratio: cost against full-context (or --reference), an index shared by the questions of its document; "
    "ratio.search: without the index, as the papers print it",
}
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


def ordered(frame: pd.DataFrame, score: str | None = None) -> pd.DataFrame:
    """Rows by data set, within one by `score` (default: its headline), best first; ties keep their
    order.

    Runs of other questions (`asked_otherwise`) come last.
    """
    values = [row.get(score or row["headline"]) for row in frame.to_dict("records")]
    table = frame.copy().assign(_value=pd.Series(values, index=frame.index, dtype="float64"))
    keys = ["dataset", "asked_otherwise", "_value"]
    table = table.sort_values(
        keys, ascending=[True, True, False], kind="stable", na_position="last"
    )
    return table.drop(columns="_value").reset_index(drop=True)


def pick_columns(
    frame: pd.DataFrame, columns: Sequence[str] | None = None, score: str | None = None
) -> pd.DataFrame:
    """The frame with the columns that fit a terminal, or with `columns` after those that say which
    run it is.

    score: the one shown where `columns` is None, by default the headlines. The interval of a column
    comes with it. Raises UnknownName for a column the frame does not have.
    """
    names = [str(name) for name in frame.columns]
    if columns is None:
        # A score of the user's own, "module:function", is shown beside the first one.
        user_scores = [c for c in names if ":" in c and not c.endswith((".low", ".high"))]
        scores = [score] if score else [*dict.fromkeys(frame["headline"]), *user_scores]
        for name in tuple(scores):
            of_repeats = re.compile(rf"{re.escape(name)}\.(vote|pass@\d+)")
            scores += filter(of_repeats.fullmatch, names)
        counts = [c for c in _NONZERO_COLUMNS if c in names and frame[c].any()]
        # Where FLOPs are unknown, as behind a server, money and time say what an answer costs.
        served = list(frame["tflops"].isna()) if "tflops" in names else []
        local = _SCORE_COLUMNS if served and all(served) else (*_SCORE_COLUMNS, *_COST_COLUMNS)
        short = [*local, *(_SERVER_COLUMNS if any(served) else ())]
        columns = [*(c for c in (*scores, *short) if c in names), *_COUNT_COLUMNS, *counts]
    columns = [as_printed(name, names) for name in columns]
    if unknown := [name for name in columns if name not in names]:
        whole = [name for name in names if not name.endswith((".low", ".high"))]
        hint = "--all prints every column; harness score RUN --scorers NAME adds a score"
        if any("," in name for name in whole):
            hint += "; a name with a comma goes in quotes: --columns '\"A,B\",n'"
        raise UnknownName("column", unknown[0], whole, hint)
    chosen = dict.fromkeys([*_RUN_COLUMNS, *settings(frame), *columns, *_HIDDEN_COLUMNS])
    with_ends = (f"{name}{end}" for name in chosen for end in ("", ".low", ".high"))
    return frame[list(dict.fromkeys(name for name in with_ends if name in names))]


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
    shown = {str(name) for name in table.columns if table[name].notna().any()}
    index = [name for name in ("tokens.index", "tflops.index") if name in shown]
    sentences = [f"costs are per question, {' and '.join(index)} per document"] if index else []
    with_flops = any(n == "printed" or n.split(".")[0] in ("tflops", "ratio") for n in shown)
    if "convention" in shown and with_flops:
        conventions = dict.fromkeys(table["convention"].dropna())
        sentences.append(f"FLOPs under the convention {', '.join(conventions)}")
    sentences += [sentence for name, sentence in _LEGENDS.items() if name in shown]
    if not sentences or "notes" not in table.columns:
        return table
    legend = "; ".join(sentences)
    return table.assign(notes=table["notes"].map(lambda notes: (legend, *notes)))


def shortened(frame: pd.DataFrame, column: str, longest: int = 46) -> pd.DataFrame:
    """The frame with the middle of long texts in `column` left out: "PECAN Attention … 8 queries
    per document"."""
    half = (longest - 3) // 2

    def shorten(text: str) -> str:
        return text if len(text) <= longest else f"{text[:half].rstrip()} … {text[-half:].lstrip()}"

    return frame.assign(**{column: [shorten(str(value)) for value in frame[column]]})
