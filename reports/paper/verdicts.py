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
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pandas as pd

from harness.stats.paired_tests import equivalence
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.checks import Checks
from reports.columns import sections, with_short_texts
from reports.comparability import notes_on_versions, reasons_not_to_rank
from reports.gold_rows import dataset_inconsistencies
from reports.paper.comparable import differences
from reports.paper.mapping import Metric
from reports.paper.matching import Pair, incomplete_means, matches
from reports.paper.measured import (
    WORDING_TOKENS,
    Measured,
    counting_scorer,
    find_score_name,
    mean_over_datasets,
    measure,
)
from reports.paper.preset import last_part
from reports.paper.printed import Value, load
from reports.paper.public_releases import Findings
from reports.paper.setting_sentences import joined_names
from reports.rescored import rescore
from reports.run_notes import run_notes
from reports.settings import notes_on_seeds
from reports.table_cell import Row
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
_MAX_QUESTIONS = 1_000_000
"""Beyond, the difference stands on the margin as far as anybody can tell."""


@dataclass(frozen=True)
class MeasuredRow:
    """A printed value beside what runs measured."""

    value: Value
    is_mean_over_runs: bool
    """Whether it is a mean over several runs."""
    cells: Row
    """The row of `frame`."""


def frame(
    runs: Sequence[StoredRun],
    values: Sequence[Value] | None = None,
    *,
    margin: float = MARGIN,
    convention: str | None = None,
) -> pd.DataFrame:
    """Printed values beside measured ones, with verdicts, a row each; the columns are COLUMNS.

    There are no rows where no run measures one of the values.

    Args:
        runs: Stored runs.
        values: Printed values; by default those of paper_results.csv that mapping.yaml maps.
        margin: In points of 100 for scores, in percent of the printed value for costs and requests.
        convention: Another way to count FLOPs than the papers' own; None for theirs.

    Raises:
        UserError: There is no run, or a run without records.
    """
    rows = measured_rows(runs, values, margin=margin, convention=convention)
    rows.sort(key=_means_last_key)  # stable
    return facts.as_floats(pd.DataFrame([row.cells for row in rows], columns=list(COLUMNS)))


def _means_last_key(row: MeasuredRow) -> tuple[bool, str]:
    """A sort key: rows of one data set by its name, then rows that are means over several."""
    return row.is_mean_over_runs, str(row.cells["dataset"])


def measured_rows(
    runs: Sequence[StoredRun],
    values: Sequence[Value] | None = None,
    *,
    margin: float = MARGIN,
    convention: str | None = None,
) -> list[MeasuredRow]:
    """A row for each printed value and each run that measures it, in the order of the values.

    A mean over data sets is measured by several runs, one on each of them.

    Args:
        runs: Stored runs.
        values: Printed values; by default those of paper_results.csv that mapping.yaml maps.
        margin: In points of 100 for scores, in percent of the printed value for costs and requests.
        convention: Another way to count FLOPs than the papers' own; None for theirs.

    Raises:
        UserError: There is no run, or a run without records.
    """
    if values is None:
        values = load()
    facts.check_runs(runs)
    if convention is not None:
        values = [_under_convention(value, convention) for value in values]
    comparison = _Comparison(runs, values, margin)
    readers_by_table = _readers_by_table(values)
    rows = []
    for value in values:
        readers_of_table = readers_by_table[_table_key(value)]
        for pairs in matches(value, runs):
            if _belongs_to_another_row(value, pairs, readers_of_table):
                continue
            is_mean = len(pairs) > 1
            rows.append(MeasuredRow(value, is_mean, comparison.row(value, pairs)))
    return rows


def _readers_by_table(values: Sequence[Value]) -> "dict[_TableKey, set[str]]":
    """Paper, table and preset of a printed row -> the readers of all such rows, in lower case."""
    readers_by_table: dict[_TableKey, set[str]] = {}
    for value in values:
        readers_by_table.setdefault(_table_key(value), set()).add(value.paper.model.lower())
    return readers_by_table


def _under_convention(value: Value, convention: str) -> Value:
    """The printed value, to be measured with FLOPs counted by another convention than its own.

    Such a value is not comparable; reports/paper/comparable.py gives the reason.
    """
    return replace(
        value, metric=value.metric.model_copy(update={"requested_convention": convention})
    )


def legend(margin: float = MARGIN) -> list[str]:
    """Sentences to print below the table, on what its verdicts mean."""
    return _LEGEND.format(margin=f"{margin:g}", wording=WORDING_TOKENS).splitlines()


def text(
    runs: Sequence[StoredRun], form: str, margin: float = MARGIN, convention: str | None = None
) -> str:
    """The table of `frame` in a format; for people with its legend.

    Args:
        runs: Stored runs.
        form: One of FORMATS.
        margin: In points of 100 for scores, in percent of the printed value for costs and requests.
        convention: Another way to count FLOPs than the papers' own; None for theirs.
    """
    rows = frame(runs, margin=margin, convention=convention)
    if form in ("csv", "json"):
        return render(rows, form)
    if rows.empty:
        nothing = (
            "None of these runs measures a printed value; reports/paper/mapping.yaml says which "
            "ones would."
        )
        return with_lines(nothing, incomplete_means(runs), form)
    all_columns = ()
    tables = sections(with_short_texts(rows, "row"), all_columns)
    text_of_tables = render_sections(tables, form)
    return with_lines(text_of_tables, [*incomplete_means(runs), *legend(margin)], form)


def with_lines(text: str, sentences: Sequence[str], form: str) -> str:
    """A text with sentences in wrapped lines below it.

    Args:
        text: The text.
        sentences: The sentences.
        form: The format of the text; in LaTeX the lines are comments.
    """
    lines: list[str] = []
    for sentence in sentences:
        lines += textwrap.wrap(sentence, 150)
    if not lines:
        return text
    if form == "latex":
        lines = [f"% {line}" for line in lines]
    return "\n".join([text.rstrip("\n"), "", *lines, ""])


def verdict(
    value: Value,
    measured: Measured,
    n_questions: int,
    margin: float = MARGIN,
    unchecked: Sequence[str] = (),
) -> str:
    """The verdict on what was measured, in words.

        -> "equivalent (within 2 points)", "undecided (about 1,200 questions needed)"

    Args:
        value: The printed value.
        measured: What was measured.
        n_questions: The number of questions that it was measured over.
        margin: In points of a score, in percent of the printed value for costs and requests.
        unchecked: What no file of the run proves ("weights", "rows").
    """
    assert measured.value is not None
    allowed_distance = _allowed_distance(value, measured, margin)
    margin_text = f"{margin:g} %"
    if value.metric.in_points:
        margin_text = f"{margin:g} points"
    if unchecked:
        margin_text += f"; {joined_names(list(unchecked))} not checked"
    if measured.interval_90 is None or measured.interval_95 is None:
        return f"{UNDECIDED} (no interval: too few documents, or no spread among them)"
    bounds = value.printed - allowed_distance, value.printed + allowed_distance
    decision = equivalence(measured.interval_90, measured.interval_95, bounds)
    if decision == "equivalent":
        return f"{EQUIVALENT} (within {margin_text})"
    if decision == "different":
        return f"{DIFFERS} (by more than {margin_text})"
    distance_to_edge = allowed_distance - abs(measured.value - value.printed)
    interval = measured.interval_95  # would show that it differs
    if distance_to_edge > 0:
        interval = measured.interval_90  # would show that it is equivalent
    n_needed = _questions_needed(n_questions, interval, distance_to_edge)
    if n_needed is None:
        return f"{UNDECIDED} (the difference is as great as the margin)"
    return f"{UNDECIDED} (about {n_needed:,} questions needed)"


def _allowed_distance(value: Value, measured: Measured, margin: float) -> float:
    """How far from the printed value a measured one may be and still count as equivalent.

    That is half a unit of its last digit and the margin; for a cost also what prompts that are
    worded otherwise may cost (`measured.wording_tflops`, in the unit of the value, 0 for requests).

        a score printed as 41.3, a margin of 2 points      0.05 + 2
        a cost printed as 8.0 TFLOPs, a margin of 2 %
            0.05 + 0.02 * 8.0 + measured.wording_tflops

    Args:
        value: The printed value.
        measured: What was measured.
        margin: In points of a score, in percent of a cost or number of requests.
    """
    half_last_digit = 0.5 * 10.0**-value.digits
    if value.metric.in_points:
        return half_last_digit + margin
    return half_last_digit + (margin / 100 * abs(value.printed) + measured.wording_tflops)


def _questions_needed(
    n_questions: int, interval: tuple[float, float], distance_to_edge: float
) -> int | None:
    """About how many questions would decide, were the difference to stay.

    Half-widths of intervals shrink as 1 / sqrt(n). The number is rounded up to two digits.

    Args:
        n_questions: The number of questions that were measured.
        interval: The lower and upper end of the interval over them.
        distance_to_edge: From the measured value to the edge of what is equivalent; below 0
            outside.

    Returns:
        The number; None for more than a million.
    """
    if distance_to_edge == 0:
        return None
    low, high = interval
    n_needed = n_questions * ((high - low) / 2 / abs(distance_to_edge)) ** 2
    if n_needed > _MAX_QUESTIONS:
        return None
    rounding_unit: int = 10 ** max(len(str(int(n_needed))) - 2, 0)
    return math.ceil(n_needed / rounding_unit) * rounding_unit


class _TableKey(NamedTuple):
    """What printed rows share that differ only in the reader or the place of the evidence."""

    source: str
    table: str
    preset: str


def _table_key(value: Value) -> _TableKey:
    """Paper, table and preset of a printed value."""
    return _TableKey(value.entry.source, value.entry.table, value.entry.preset)


def _belongs_to_another_row(
    value: Value, pairs: tuple[Pair, ...], readers_of_table: Collection[str]
) -> bool:
    """Whether a run belongs to another row of the table, by its reader or the place of its
    evidence.

    Args:
        value: The printed value.
        pairs: The runs that may measure it, each with its rule.
        readers_of_table: The readers of all rows of the table, in lower case.
    """
    printed_reader = value.paper.model.lower()
    printed_evidence_place = value.entry.settings.get("place")
    for _, run in pairs:
        model = run.config.model
        reader = last_part(model.source or model.name).lower()
        evidence_place = run.config.dataset.options.get("place")
        both_known = None not in (printed_evidence_place, evidence_place)
        if both_known and printed_evidence_place != evidence_place:
            return True
        if reader in readers_of_table and reader != printed_reader:
            return True
    return False


_MeasuredKey = tuple[tuple[str, str], Metric, bool, int | None]
"""A run, and what of a printed value says how it is measured."""
_RescoredKey = tuple[tuple[str, str], str | None]
"""A run and the name of a score."""


class _Comparison:
    """Runs compared with printed values; what the rows of a run share is computed once."""

    def __init__(self, runs: Sequence[StoredRun], values: Sequence[Value], margin: float) -> None:
        """Name the runs and compare them with each other; nothing is measured yet.

        `_measured` and `_rescored` are filled as rows ask for them.

        Args:
            runs: Stored runs.
            values: The printed values that they are compared with.
            margin: In points of a score, in percent of the printed value for costs and requests.
        """
        self._runs = runs
        self._margin = margin
        keys = [facts.run_key(run) for run in runs]
        self._labels = dict(zip(keys, facts.run_labels(runs), strict=True))
        self._stand_ins_for_several = _stand_ins_for_several(values)
        self._remarks_by_run = _remarks_on_each_run(runs)
        # Filled by `_measure` and `_rescore_once`, as rows ask for them.
        self._measured: dict[_MeasuredKey, Measured] = {}
        self._rescored: dict[_RescoredKey, Findings] = {}

    def row(self, value: Value, pairs: tuple[Pair, ...]) -> Row:
        """The row of `frame` for a printed value.

        Args:
            value: The printed value.
            pairs: The runs that measure it, one for each of its data sets, each with its rule.
        """
        measured = mean_over_datasets([self._measure(value, run) for _, run in pairs])
        findings = self._findings(value, pairs, measured)
        dataset_names = [run.config.dataset.name for _, run in pairs]
        first_run = pairs[0].run
        dataset = dataset_names[0]
        if len(pairs) > 1:
            dataset = f"{value.place} (mean of {joined_names(dataset_names)})"
        row_label = value.entry.method
        # a made-up data set that stands in for several: which one is said in the row's name
        if (value.paper.name, dataset_names[0]) in self._stand_ins_for_several:
            row_label = f"{row_label}, {value.place}"
        difference = None
        if measured.value is not None:
            difference = measured.value - value.printed
        convention = None
        if value.metric.phases:
            convention = value.metric.requested_convention or value.metric.convention
        low, high = measured.interval_95 or (None, None)
        n_questions = sum(len(run.records) for _, run in pairs)
        return {
            "dataset": dataset,
            "paper": f"{value.paper.name}, {value.entry.table}",
            "row": row_label,
            "metric": value.label,
            "printed": value.printed,
            "method": self._labels[facts.run_key(first_run)],
            "model": first_run.config.model.name,
            "ours": measured.value,
            "ours.low": low,
            "ours.high": high,
            "n": n_questions,
            "ours minus printed": difference,
            "verdict": self._verdict(value, measured, n_questions, findings),
            "convention": convention,
            "notes": self._notes(value, pairs, findings),
            "run": ", ".join(dict.fromkeys(run.name for _, run in pairs)),
        }

    def _measure(self, value: Value, run: StoredRun) -> Measured:
        """What a run measured of a value; computed once for values that are measured alike."""
        entry = value.entry
        key = (facts.run_key(run), value.metric, entry.per_document, entry.questions_per_document)
        if key not in self._measured:
            self._measured[key] = measure(value, run)
        return self._measured[key]

    def _findings(self, value: Value, pairs: tuple[Pair, ...], measured: Measured) -> Findings:
        """What forbids a verdict on a value, or stands beside it.

        Only where nothing forbids one, scores are computed again from the stored answers, too.

        Args:
            value: The printed value.
            pairs: The runs that measure it, each with its rule.
            measured: What they measured.
        """
        findings = _differences_of_pairs(value, pairs, self._runs)
        has_metric_reason = any(reason.startswith("metric:") for reason in findings.reasons)
        if measured.value is None and not has_metric_reason:
            what_is_missing = "FLOPs, its model has no known sizes"
            if value.metric.score:
                what_is_missing = value.metric.score
            elif value.metric.requests:
                what_is_missing = "question that was answered"
            findings.reasons.append(f"metric: the run has no {what_is_missing}")
        if not findings.reasons:
            for _, run in pairs:
                findings.add(self._rescore_once(value, run))
        return findings

    def _verdict(
        self, value: Value, measured: Measured, n_questions: int, findings: Findings
    ) -> str:
        """The verdict on a value; "not comparable" where something forbids one.

        Args:
            value: The printed value.
            measured: What the runs measured of it.
            n_questions: The number of questions that it was measured over.
            findings: What forbids a verdict, or was not checked.
        """
        if findings.reasons:
            return NOT_COMPARABLE
        unchecked = list(dict.fromkeys(findings.unchecked))
        return verdict(value, measured, n_questions, self._margin, unchecked)

    def _notes(self, value: Value, pairs: tuple[Pair, ...], findings: Findings) -> tuple[str, ...]:
        """The notes of a row: why there is no verdict, what a reader should weigh, and what is
        known to be done otherwise than in the paper.

        Args:
            value: The printed value.
            pairs: The runs that measure it, each with its rule.
            findings: What forbids a verdict or stands beside it.
        """
        remarks = list(findings.remarks)
        for _, run in pairs:
            if not findings.reasons:
                remarks += run_notes(run)
            remarks += self._remarks_by_run[facts.run_key(run)]
        known_differences = [f"known difference: {note}" for note in value.deviations]
        return (*findings.reasons, *dict.fromkeys(remarks), *known_differences)

    def _rescore_once(self, value: Value, run: StoredRun) -> Findings:
        """What comparing a value's score with the run's answers and the data set's gold answers
        finds.

        Done once for each run and score. A cost is not computed again, and is called not checked.
        """
        metric = value.metric
        if not metric.in_points:
            return Findings(unchecked=["costs"])
        name = find_score_name(metric, run)
        if metric.corpus is not None:  # a score of all answers together, of the counts of each
            name = counting_scorer(metric.corpus)
        key = (facts.run_key(run), name)
        if key not in self._rescored:
            self._rescored[key] = _rescore_and_compare(run, str(name))
        return self._rescored[key]


def _rescore_and_compare(run: StoredRun, score: str) -> Findings:
    """Compare a score with what the run's answers and the gold answers of the data set give.

    Args:
        run: A stored run.
        score: The name of the score.
    """
    rescored = rescore(run, score)
    if rescored.problem is not None:
        findings = Findings([f"metric: {rescored.problem}"])
        if not rescored.all_checked:
            findings.unchecked.append("scores")
        return findings
    if not rescored.all_checked:
        return Findings(unchecked=["scores"])
    inconsistencies = dataset_inconsistencies(run)
    if inconsistencies is None:
        return Findings(unchecked=["gold answers"])
    return Findings([f"metric: {sentence}" for sentence in inconsistencies])


def _stand_ins_for_several(values: Sequence[Value]) -> set[tuple[str, str]]:
    """(paper, data set) of each made-up data set that stands in for several data sets of the
    paper."""
    places_by_stand_in: dict[tuple[str, str], set[str]] = {}
    for value in values:
        for name in value.stand_ins:
            places = places_by_stand_in.setdefault((value.paper.name, name), set())
            places.add(value.place)
    return {stand_in for stand_in, places in places_by_stand_in.items() if len(places) > 1}


def _remarks_on_each_run(runs: Sequence[StoredRun]) -> dict[tuple[str, str], list[str]]:
    """Key of a run (data set, folder) -> sentences on what does not fit in its records, and on how
    it differs from the other runs."""
    checks = Checks()
    remarks_by_run: dict[tuple[str, str], list[str]] = {facts.run_key(run): [] for run in runs}
    reasons = reasons_not_to_rank(runs, checks)
    versions = notes_on_versions(runs, checks)
    seeds = notes_on_seeds(runs)
    for run, not_ranked, version, seed in zip(runs, reasons, versions, seeds, strict=True):
        remarks = remarks_by_run[facts.run_key(run)]
        remarks += checks.inconsistency_notes(run)
        if not_ranked is not None:
            remarks.append(not_ranked.sentence)
        remarks += [sentence for sentence in (version, seed) if sentence]
    return remarks_by_run


def _differences_of_pairs(
    value: Value, pairs: tuple[Pair, ...], runs: Sequence[StoredRun]
) -> Findings:
    """What differs between the runs and the printed value.

    Each reason and remark names its data sets where not all have it.

    Args:
        value: The printed value.
        pairs: The runs that measure it, each with its rule.
        runs: All runs at hand, among which the sources of their numbers are looked for.
    """
    datasets_by_reason: dict[str, list[str]] = {}
    datasets_by_remark: dict[str, list[str]] = {}
    unchecked: dict[str, None] = {}  # an ordered set
    for rule, run in pairs:
        dataset = run.config.dataset.name
        findings = differences(value, run, rule, runs)
        for sentence in findings.reasons:
            datasets_by_reason.setdefault(sentence, []).append(dataset)
        for sentence in findings.remarks:
            datasets_by_remark.setdefault(sentence, []).append(dataset)
        unchecked.update(dict.fromkeys(findings.unchecked))
    n_datasets = len(pairs)
    return Findings(
        reasons=_with_datasets(datasets_by_reason, n_datasets),
        unchecked=list(unchecked),
        remarks=_with_datasets(datasets_by_remark, n_datasets),
    )


def _with_datasets(datasets_by_sentence: Mapping[str, Sequence[str]], n_datasets: int) -> list[str]:
    """The sentences, each with its data sets in brackets unless it holds for all.

    Args:
        datasets_by_sentence: Sentence -> the data sets for which it holds.
        n_datasets: The number of all data sets.
    """
    sentences = []
    for sentence, datasets in datasets_by_sentence.items():
        if len(datasets) == n_datasets:
            sentences.append(sentence)
        else:
            sentences.append(f"{sentence} ({joined_names(list(datasets))})")
    return sentences
