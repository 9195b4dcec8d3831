"""Methods by data sets: one row a method, one column a data set and the mean over data sets, as
papers print it.

    wide_table(frame(runs))                       the headline of each data set (frame: reports.main_table)
    wide_table(frame(runs), "musique.answer_f1")        method model musique qasper mean notes
    sections(wide_table(frame(runs)))                   one table a model, best mean first

A cell is a mean in [0, 1], with .low and .high beside it where intervals are asked for; a missing
run is a gap. The mean over data sets is given only where a method has a value for every one of
them; the notes say what is missing.

Its interval takes the data sets as they are and their questions as independent of each other: the
distances of the ends are added in squares, L = mean - sqrt(sum (mean_i - low_i)^2) / k over k data
sets, U likewise (G. Y. Zou and A. Donner,
"Construction of confidence limits about effect measures: a general approach", Statistics in
Medicine 2008, section 2).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from harness.errors import UnknownName
from reports import costs, facts

MEAN = "mean"
_ENDS = (".low", ".high")
_NO_SET = ("method", "notes", "upper_bound", MEAN)


def wide_table(
    means: pd.DataFrame,
    score: str | None = None,
    *,
    intervals: bool = False,
    differences: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """A row a method and model, a column a data set, from `means` (reports.main_table.frame); best
    mean first.

    score: by default each data set's headline; differences: to a reference
    (reports.compare.compare), whose p-values become the columns `musique.p`. Raises UnknownName for
    a score that no run has.
    """
    with_interval = [
        n for n in means.columns if f"{n}.low" in means and not n.startswith("tflops")
    ]  # not costs
    if score is not None and score not in with_interval:
        raise UnknownName(
            "score", score, with_interval, "harness score RUN --scorers NAME adds a score"
        )
    datasets = list(dict.fromkeys(means["dataset"]))
    groups: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in facts.records(means):
        groups.setdefault((row["model"], row["method"]), {})[row["dataset"]] = row
    descriptions = []  # of each data set the headline, where `score` is None, and the number of questions
    for name, group in means.groupby("dataset", sort=False):
        least, most = int(group["n"].min()), int(group["n"].max())
        count = f"{least} questions" if least == most else f"{least} to {most} questions"
        descriptions.append(
            f"{name}: {'' if score else ', '.join(dict.fromkeys(group['headline'])) + ', '}{count}"
        )
    legend = ["; ".join(descriptions)]
    if len(datasets) > 1:
        legend.append(f"mean: over the {len(datasets)} data sets, each weighs the same")
    tested = (
        {}
        if differences is None
        else {(d["dataset"], d["run"]): d["p_holm"] for d in facts.records(differences)}
    )
    if differences is not None:
        against = ", ".join(dict.fromkeys(differences["reference"]))
        test = f"paired sign flips by document, Holm over {len(tested)} tests"
        legend.append(f"†: differs from {against}, p < 0.05 ({test})")
    rows: list[dict[str, Any]] = []
    for (model, method), part in groups.items():
        rows.append({"method": method, "model": model} | _method_row(part, score, datasets, legend))
        if tested:
            rows[-1] |= {f"{name}.p": tested.get((name, run["run"])) for name, run in part.items()}
    rows.sort(key=lambda row: (row["model"], row[MEAN] is None, -(row[MEAN] or 0.0), row["method"]))
    ends = {f"{name}{end}" for name in (*datasets, MEAN) for end in _ENDS}
    table = pd.DataFrame(rows)
    flags = [
        f"{name}.asked_otherwise" for name in (*datasets, MEAN)
    ]  # columns only where a run was asked other questions
    table = table if table[flags].to_numpy().any() else table.drop(columns=flags)
    if not intervals:
        table = table.drop(columns=[name for name in table.columns if name in ends])
    return facts.as_floats(table)


def sections(table: pd.DataFrame, score: str | None = None) -> list[tuple[str, pd.DataFrame]]:
    """A table for each model, titled by it and the score."""
    tables = []
    for model, rows in table.groupby("model", sort=False):
        title = " · ".join(filter(None, [score, str(model)]))
        rows = rows.drop(columns="model").reset_index(drop=True)
        sets = [
            name
            for name in rows.columns
            if name not in _NO_SET and not name.endswith((*_ENDS, ".p", ".asked_otherwise"))
        ]
        if len(sets) == 1:  # the mean of one data set is its own
            rows = rows.drop(
                columns=[name for name in rows.columns if name.partition(".")[0] == MEAN]
            )
        rows.attrs |= {"names": sets, "asked": ()}
        no_gaps = ("method", "notes", "upper_bound")
        rows.attrs["gaps"] = [
            n for n in rows.columns if n not in no_gaps and not n.endswith(".asked_otherwise")
        ]
        tables.append((title, rows))
    return tables


def _method_row(
    by_dataset: Mapping[str, Mapping[str, Any]],
    score: str | None,
    datasets: Sequence[str],
    legend: Sequence[str],
) -> dict[str, Any]:
    """The values of a method from its row of `means` by data set; legend: its first notes."""
    cells: dict[str, float | None] = {}
    for dataset in datasets:
        run = by_dataset.get(dataset, {})
        name = score or str(run.get("headline"))
        for end in ("", *_ENDS):
            value = run.get(f"{name}{end}")
            cells[f"{dataset}{end}"] = None if value is None or pd.isna(value) else float(value)
    missing = [dataset for dataset in datasets if dataset not in by_dataset]
    unscored = [dataset for dataset in datasets if dataset in by_dataset and cells[dataset] is None]
    lacks = [f"no run on {', '.join(missing)}"] if missing else []
    lacks += [f"no such score on {', '.join(unscored)}"] if unscored else []
    notes = [*legend, *([f"no mean: {' and '.join(lacks)}"] if lacks else [])]
    # Notes of every run stand once, others with the data set; those on probes and shares of 0 % in
    # its own table alone.
    for text in dict.fromkeys(note for run in by_dataset.values() for note in run["notes"]):
        if not text.startswith(costs.PROBES) and "(0 %)" not in text:
            shared = [dataset for dataset, run in by_dataset.items() if text in run["notes"]]
            notes.append(text if len(shared) == len(by_dataset) else f"{', '.join(shared)}: {text}")
    values = [value for name in datasets if (value := cells[name]) is not None]
    mean, ends = None, None  # where a data set has no value, or no interval
    if len(values) == len(datasets):
        bounds = [(cells[f"{name}.low"], cells[f"{name}.high"]) for name in datasets]
        mean, ends = facts.mean_of_samples(
            values, bounds
        )  # the formula of the ends: see the module
    low, high = ends or (None, None)
    row: dict[str, Any] = {**cells, MEAN: mean, f"{MEAN}.low": low, f"{MEAN}.high": high}
    otherwise = {name: bool(by_dataset.get(name, {}).get("asked_otherwise")) for name in datasets}
    row |= {
        f"{name}.asked_otherwise": other
        for name, other in {**otherwise, MEAN: any(otherwise.values())}.items()
    }
    return row | {
        "upper_bound": any(run["upper_bound"] for run in by_dataset.values()),
        "notes": tuple(notes),
    }
