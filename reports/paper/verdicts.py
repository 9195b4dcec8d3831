"""Printed and measured, side by side, with a verdict.

frame(runs)   one row for each printed value and each run that measures it, in the paper's units (scores times 100):

dataset  paper            row         metric  printed  method  ours  ours.low  ours.high  verdict
musique  GARLIC, Table 1  BM25 top-5  F1      28.7     bm25    29.4  28.6      30.2       equivalent …

A value that is a mean over data sets is measured by a run on each of them: its row names them all
and comes last. ours.low and ours.high are the ends of the 95 % interval.

equivalent (within 2 points)       our 90 % interval lies within the margin of the printed value
differs (by more than 2 points)    our 95 % interval lies outside
undecided (...)                    neither; in brackets the questions that would decide, were the difference to stay
not comparable                     a run differs in more than chance; `notes` say in what

Behind a verdict stands what could not be checked ("gold answers and rows not checked"); `notes`
have what a reader should weigh: another precision, uncommitted code, other versions or rows than
most of the runs, a chosen seed, and the notes of the run in any table.

The margin is in points for scores, and in percent of the printed value for costs and requests.
`notes` also say, after
"known difference:", what the project does otherwise than the paper as far as it knows; that forbids no
verdict.
"""

import math
import textwrap
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from harness.stats.paired_tests import equivalence
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.checks import Checks
from reports.columns import sections, shortened
from reports.comparability import other_versions, reasons_not_to_rank
from reports.gold_rows import other_texts
from reports.paper.comparable import differences, listed
from reports.paper.matching import Pair, incomplete, matches
from reports.paper.measured import (
    WORDING,
    Measured,
    mean_over_datasets,
    measure,
    score_of,
    scorer_of,
)
from reports.paper.preset import last_part
from reports.paper.printed import Value, load
from reports.paper.public_releases import Findings
from reports.rescored import rescored
from reports.settings import only_in_seed
from reports.table_formats import render, render_sections

KINDS = EQUIVALENT, DIFFERS, UNDECIDED, NOT_COMPARABLE = (
    "equivalent",
    "differs",
    "undecided",
    "not comparable",
)
MARGIN = 2.0
"""Points of a score, and percent of a cost or of a number of requests."""
COLUMNS = (
    "dataset", "paper", "row", "metric", "printed", "method", "model", "ours", "ours.low", "ours.high", "n",
    "ours minus printed", "verdict", "convention", "notes", "run",
)  # fmt: skip
_LEGEND = """\
equivalent: our 90 % interval lies within {margin} points of the printed value ({margin} % for costs and requests): \
two one-sided tests at 5 % reject a greater difference. differs: our 95 % interval lies outside.
A printed value stands for all that round to it. The papers print neither intervals nor scores of single questions: \
the error of a printed value is not known and in no verdict.
not checked: weights (their published hashes are not known here, and a run names its commit of the hub itself), what a \
server runs, rows of a file, gold answers of a data set that is not on this machine, scores without gold answers, \
costs, and code and packages that are not those here. Nothing proves that stored answers and indexes are what the \
program wrote.
Costs may differ by {wording} tokens a question more: the papers print no wording of most prompts.
"""
_MOST_QUESTIONS = (
    1_000_000  # questions; beyond, the difference stands on the margin as far as anybody can tell
)

_MeasuredCache = dict[tuple[Any, ...], Any]


def frame(
    runs: Sequence[StoredRun],
    values: Sequence[Value] | None = None,
    *,
    margin: float = MARGIN,
    convention: str | None = None,
) -> pd.DataFrame:
    """Printed values beside measured ones, with verdicts (columns: COLUMNS); no rows where no run
    measures one.

    values: by default those of paper_results.csv that mapping.yaml maps; margin: in points of 100
    for scores, in percent of the printed value for costs and requests; convention: another way to
    count FLOPs than the papers' own, as mapping.yaml has it. Raises UserError for no runs, or runs
    without records.
    """
    rows = [
        (several, row)
        for _, several, row in measured_rows(runs, values, margin=margin, convention=convention)
    ]
    rows.sort(key=lambda each: (each[0], each[1]["dataset"]))  # stable; means last
    return facts.as_floats(pd.DataFrame([row for _, row in rows], columns=list(COLUMNS)))


def measured_rows(
    runs: Sequence[StoredRun],
    values: Sequence[Value] | None = None,
    *,
    margin: float = MARGIN,
    convention: str | None = None,
) -> list[tuple[Value, bool, dict[str, Any]]]:
    """(printed value, whether it is a mean over several runs, its row of `frame`), in the order of
    the values."""
    values = load() if values is None else values
    facts.check_runs(runs)
    if convention is not None:
        counted = {
            "asked": convention
        }  # comparable.py makes a reason of one that is not the printed FLOPs'
        values = [
            replace(value, metric=value.metric.model_copy(update=counted)) for value in values
        ]
    labels = {
        facts.run_key(run): label for run, label in zip(runs, facts.labels(runs), strict=True)
    }
    # (paper, data set) where the made-up data set stands in for several labels of the paper.
    places = {(value.paper.name, name, value.place) for value in values for name in value.stand_ins}
    ambiguous = {
        key for key, labels in Counter(place[:2] for place in places).items() if labels > 1
    }
    measured: _MeasuredCache = {}
    remarks: dict[tuple[str, str], list[str]] = {facts.run_key(run): [] for run in runs}
    checks = Checks()
    apart, versions = reasons_not_to_rank(runs, checks), other_versions(runs, checks)
    for run, *sentences in zip(runs, apart, versions, only_in_seed(runs), strict=True):
        misfits = [f"does not fit: {sentence}" for sentence in checks.misfits(run)]
        remarks[facts.run_key(run)] += [*misfits, *filter(None, sentences)]
    readers: dict[tuple[str, str, str], set[str]] = {}
    for value in values:
        readers.setdefault(_table_key(value), set()).add(value.paper.model.lower())
    return [
        (
            value,
            len(pairs) > 1,
            _verdict_row(value, pairs, runs, labels, ambiguous, measured, margin, remarks),
        )
        for value in values
        for pairs in matches(value, runs)
        if not any(_of_another_row(value, run, readers[_table_key(value)]) for _, run in pairs)
    ]


def legend(margin: float = MARGIN) -> list[str]:
    """Sentences to print below the table."""
    return _LEGEND.format(margin=f"{margin:g}", wording=WORDING).splitlines()


def text(
    runs: Sequence[StoredRun], form: str, margin: float = MARGIN, convention: str | None = None
) -> str:
    """The table of `frame` in a format of FORMATS; for people with its legend."""
    whole = frame(runs, margin=margin, convention=convention)
    if form in ("csv", "json"):
        return render(whole, form)
    if whole.empty:
        nothing = "None of these runs measures a printed value; reports/paper/mapping.yaml says which ones would."
        return with_lines(nothing, incomplete(runs), form)
    tables = render_sections(sections(shortened(whole, "row"), ()), form)
    return with_lines(tables, [*incomplete(runs), *legend(margin)], form)


def with_lines(text: str, sentences: Sequence[str], form: str) -> str:
    """Sentences in lines below a text, in LaTeX as comments."""
    mark = "% " if form == "latex" else ""
    lines = [f"{mark}{line}" for sentence in sentences for line in textwrap.wrap(sentence, 150)]
    return "\n".join([text.rstrip("\n"), "", *lines, ""]) if lines else text


def verdict(
    value: Value, measured: Measured, n: int, margin: float = MARGIN, unchecked: Sequence[str] = ()
) -> str:
    """EQUIVALENT, DIFFERS or UNDECIDED for what was measured over n questions, with the margin in
    brackets.

    The region is the printed value with half a unit of its last digit and the margin on both sides,
    and for a cost the tokens by which prompts may be worded otherwise. unchecked: what no file of
    the run proves ("weights", "rows").
    """
    assert measured.value is not None
    half = 0.5 * 10.0**-value.digits
    reach = half + (
        margin if value.metric.in_points else margin / 100 * abs(value.printed) + measured.wording
    )
    reached = f"{margin:g} {'points' if value.metric.in_points else '%'}"
    reached += f"; {listed(list(unchecked))} not checked" if unchecked else ""
    if measured.narrow is None or measured.wide is None:
        return f"{UNDECIDED} (no interval: too few documents, or no spread among them)"
    bounds = value.printed - reach, value.printed + reach
    decision = equivalence(measured.narrow, measured.wide, bounds)
    if decision == "equivalent":
        return f"{EQUIVALENT} (within {reached})"
    if decision == "different":
        return f"{DIFFERS} (by more than {reached})"
    # About how many questions would decide, were the difference to stay: half-widths shrink as 1 /
    # sqrt(n).
    to_edge = reach - abs(measured.value - value.printed)  # below 0 outside of what is equivalent
    low, high = measured.narrow if to_edge > 0 else measured.wide
    questions = n * ((high - low) / 2 / abs(to_edge)) ** 2 if to_edge else math.inf
    if questions > _MOST_QUESTIONS:
        return f"{UNDECIDED} (the difference is as great as the margin)"
    digits = max(len(str(int(questions))) - 2, 0)
    return (
        f"{UNDECIDED} (about {math.ceil(questions / 10**digits) * 10**digits:,} questions needed)"
    )


def _table_key(value: Value) -> tuple[str, str, str]:
    """(paper, table, preset): shared by printed rows that differ in the reader or the place of the
    evidence alone."""
    return value.entry.source, value.entry.table, value.entry.preset


def _of_another_row(value: Value, run: StoredRun, readers: Collection[str]) -> bool:
    """Whether the run belongs to another row of the table, by its reader (readers: of all rows) or
    its place."""
    model = run.config["model"]
    reader = last_part(str(model.get("source") or model["name"])).lower()
    row_place = value.entry.settings.get("place")
    place = (run.config["dataset"].get("options") or {}).get("place")
    other_place = None not in (row_place, place) and row_place != place
    return other_place or (reader in readers and reader != value.paper.model.lower())


def _verdict_row(
    value: Value,
    pairs: tuple[Pair, ...],
    runs: Sequence[StoredRun],
    labels: dict[tuple[str, str], str],
    ambiguous: set[tuple[str, str]],
    measured: _MeasuredCache,
    margin: float,
    remarks: dict[tuple[str, str], list[str]],
) -> dict[str, Any]:
    """The row of `frame` for a value and the runs that measure it, one for each of its data sets.

    labels: run key -> method's name in tables; ambiguous: (paper, data set) that stands for several
    labels of a paper;
    measured: values worked out so far, by run and measure; remarks: run key -> how the run differs
    from the other runs.
    """
    entry, own_values = value.entry, list[Measured]()
    for _, run in pairs:
        key = (facts.run_key(run), value.metric, entry.per_document, entry.questions_per_document)
        if key not in measured:
            measured[key] = measure(value, run)
        own_values.append(measured[key])
    ours = mean_over_datasets(own_values)
    check = _differences_of_pairs(value, pairs, runs)
    n = sum(len(run.records) for _, run in pairs)
    reasons = check.reasons
    if ours.value is None and not any(reason.startswith("metric:") for reason in reasons):
        lacks = (
            "question that was answered"
            if value.metric.requests
            else "FLOPs, its model has no known sizes"
        )
        reasons.append(f"metric: the run has no {value.metric.score or lacks}")
    if not reasons:
        for _, run in pairs:
            check.add(_rescored_once(value, run, measured))
    names, first = [facts.run_key(run)[0] for _, run in pairs], pairs[0][1]
    label = f", {value.place}" if (value.paper.name, names[0]) in ambiguous else ""
    low, high = ours.wide or (None, None)
    notes = [
        (*(() if reasons else facts.notes(run)), *remarks[facts.run_key(run)]) for _, run in pairs
    ]
    marks = dict.fromkeys([*check.marks, *(note for of_run in notes for note in of_run)])
    return {
        "dataset": names[0] if len(pairs) == 1 else f"{value.place} (mean of {listed(names)})",
        "paper": f"{value.paper.name}, {entry.table}",
        "row": f"{entry.method}{label}",
        "metric": value.label,
        "printed": value.printed,
        "method": labels[facts.run_key(first)],
        "model": first.config["model"]["name"],
        "ours": ours.value,
        "ours.low": low,
        "ours.high": high,
        "n": n,
        "ours minus printed": None if ours.value is None else ours.value - value.printed,
        "verdict": NOT_COMPARABLE
        if reasons
        else verdict(value, ours, n, margin, list(dict.fromkeys(check.unchecked))),
        "convention": value.metric.asked or value.metric.convention
        if value.metric.phases
        else None,
        "notes": (*reasons, *marks, *(f"known difference: {note}" for note in value.deviations)),
        "run": ", ".join(dict.fromkeys(run.name for _, run in pairs)),
    }


def _rescored_once(value: Value, run: StoredRun, measured: _MeasuredCache) -> Findings:
    """What reports.rescored says of the value's score, and whether gold answers are the data set's,
    from `measured`.

    Costs are not computed again.
    """
    metric = value.metric
    if not metric.in_points:
        return Findings(unchecked=["costs"])
    name = score_of(metric, run) if metric.corpus is None else scorer_of(metric.corpus)
    key = (facts.run_key(run), name)
    if key not in measured:
        problem, all_checked = rescored(run, str(name))
        n_other = other_texts(run) if all_checked and problem is None else None
        if n_other:
            problem = f"{n_other} of {len(run.records)} questions or gold answers are not those of the data set"
        unchecked = ["scores"] if not all_checked else ["gold answers"] if n_other is None else []
        measured[key] = [] if problem is None else [f"metric: {problem}"], unchecked
    reasons, unchecked = measured[key]
    return Findings([*reasons], [*unchecked])


def _differences_of_pairs(
    value: Value, pairs: tuple[Pair, ...], runs: Sequence[StoredRun]
) -> Findings:
    """What differs between the runs and the value; each reason and mark with its data sets where
    not all have it."""
    checks = [(facts.run_key(run)[0], differences(value, run, rule, runs)) for rule, run in pairs]

    def with_datasets(part: str) -> list[str]:
        datasets: dict[str, list[str]] = {}
        for dataset, found in checks:
            for sentence in getattr(found, part):
                datasets.setdefault(sentence, []).append(dataset)
        return [
            text if len(names) == len(pairs) else f"{text} ({listed(names)})"
            for text, names in datasets.items()
        ]

    unchecked = dict.fromkeys(name for _, found in checks for name in found.unchecked)
    return Findings(with_datasets("reasons"), list(unchecked), with_datasets("marks"))
