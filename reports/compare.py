"""`harness compare`: means beside paired differences on the same questions, against one reference
per data set.

    both = side_by_side(runs, reference="full-context")
    both.means            reports.main_table.frame, best first
    both.differences      compare(runs); None where every data set has one run only
    both.joined()         one row a run with its difference: what csv and json hold
    both.render("text")

musique · Llama-3.1-8B-Instruct
method        longbench.qa_f1_score  evidence_recall  tokens  ratio  n     failed  truncated
full-context  35.8 [33.9, 37.7]      ...
bm25          28.7 [26.8, 30.6]      ...

musique: longbench.qa_f1_score minus that of full-context, on the same questions
method  n     documents mean  reference mean  difference         p       p_holm  detectable
bm25    2417      2417  28.7            35.8  -7.1 [-8.8, -5.4]  <0.001  <0.001         2.4

Columns of `compare`: dataset, score, method, model, reference, n (questions in common), documents
(clusters: harness.stats.question_clusters), mean, reference mean, difference with .low and .high
(95 %, by cluster), p (sign-flip permutation by cluster, two-sided), p_holm (Holm over all rows),
detectable (true difference that this test finds in 80 %, by simulation), changed (configuration keys in
which the two runs differ, without the place of the data, device and batch size), notes, run and
reference_run (the folders' names).

Runs that differ in data, questions, what was asked of the answers (instruction, answer_prefix,
demonstration, max_answer_tokens), sampling (temperature, top_p, max_tokens), seed, reader, scorer
version or the fate of failed questions, or whose scores are not those of their stored answers, are
refused: the difference would not be the method's. `force=True` compares them all the same and says
so in the notes.

Of a run made elsewhere (`harness import`) reader, seed and what was asked are not known, so these
are not compared, and a note says so. The questions in common are then those with the same id,
question and right answers; they must be at least 90 % of those of the larger run.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.config.registry import short_name
from harness.config.yaml_tree import flatten
from harness.cost.flops import DEFAULT
from harness.errors import UnknownName, UserError
from harness.stats.paired_tests import detectable_difference, holm, paired_test
from harness.storage.named_runs import with_distinct_names
from harness.storage.paths import without_home
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.checks import Checks
from reports.columns import PAIRED, Section, ordered, pick_columns, sections
from reports.comparability import answer_reasons, overlap, same_questions, text_reasons
from reports.copies import reproduction
from reports.main_table import REFERENCE, frame
from reports.settings import code_hash, made_with
from reports.table_formats import render, render_sections

_LEAST_SHARED = (
    0.9  # of the larger run's questions, at least, a run made elsewhere must share with another run
)
_LEGEND = (
    "difference with its 95 % interval (by document, by question where passages are retrieved)"
)
_UNSET = object()
NOT_CHECKED = "scores not checked: they could not all be computed again from the stored answers"
# Neither changes a prediction: a larger limit continues the same folder, origins tell where a value
# came from.
_NOT_COMPARED = ("origins", "limit", "keep_prompts")
# Where something lies, runs or is kept: the fingerprint says whether the rows are the same,
# wherever their file is.
_PLACES = re.compile(
    r"dataset\.(data|keep_texts)|(model|roles\.\w+|encoder|reranker)\.(device|device_map|batch_size)"
)


@dataclass(frozen=True)
class _Pair:
    """A run and the reference run of its data set: one row of the comparison. The labels are their
    names in tables."""

    run: StoredRun
    label: str
    base: StoredRun
    base_label: str

    @property
    def elsewhere(self) -> bool:
        """Whether one of the two was made by another tool."""
        return facts.made_elsewhere(self.run) or facts.made_elsewhere(self.base)


def compare(
    runs: Sequence[StoredRun],
    *,
    reference: str | None = None,
    score: str | None = None,
    force: bool = False,
    checks: Checks | None = None,
) -> pd.DataFrame:
    """Paired differences as a table (columns: see the module): a row for each run but its data
    set's reference.

    reference: a preset's name, or a run folder's name or hash; by default full-context where it was
    run, else the first run of each data set. score: by default the data set's headline. Differences
    are run minus reference. checks: what was found in the records, read
    for it by default. Raises UserError where nothing can be compared or (without `force`)
    must not be, UnknownName for a name.
    """
    facts.check_runs(runs)
    pairs = [
        (pair, _compared_score(pair, score)) for pair in _pairs_with_reference(runs, reference)
    ]
    checks = checks or Checks()
    reasons = [p for pair, name in pairs for p in _reasons_against_comparing(pair, name, checks)]
    if (problems := [f"  - {problem}" for problem in dict.fromkeys(reasons)]) and not force:
        head = "these runs differ in more than the method:"
        end = "Run them alike, or compare them as they are with --force."
        raise UserError("\n".join([head, *problems, end]))
    rows = [_comparison_row(pair, name, len(pairs), checks) for pair, name in pairs]
    return facts.as_floats(pd.DataFrame(rows).assign(p_holm=holm([row["p"] for row in rows])))


@dataclass(frozen=True)
class BesideBaseline:
    """A run's score minus that of an earlier run, on the questions of the earlier one.

    Args:
        score: Name of the score.
        difference: Mean of run minus baseline, in [-1, 1].
        low: Lower end of its 95 % interval; None: too few documents.
        high: Upper end, or None.
        questions: Questions that are compared.
        documents: Their clusters.
        left_out: Questions that the baseline has a score for and the run has not.
        objections: What would have stopped `compare`, a sentence each.
    """

    score: str
    difference: float
    low: float | None
    high: float | None
    questions: int
    documents: int
    left_out: int
    objections: Sequence[str]


def compare_with_baseline(
    run: StoredRun, base: StoredRun, score: str | None = None, allow_left_out: bool = False
) -> BesideBaseline:
    """The paired difference of two runs, also where they have one name, or models that differ.

    Args:
        run: The run that is judged.
        base: The run that it is compared with.
        score: Name of the score; None: the baseline's headline.
        allow_left_out: Leave questions out that only the baseline has a score for; else they count
            0 for the run.

    Raises:
        UserError: The two have no scored question in common.
        UnknownName: One of them does not have the score.
    """
    pair = _Pair(run, "this run", base, "the baseline")
    name = _compared_score(pair, score)
    ours, theirs = facts.scored(run, name), facts.scored(base, name)
    values = dict(zip(ours.ids, ours.values, strict=True))
    if values.keys().isdisjoint(theirs.ids):
        raise UserError("the two have no scored question in common")
    missing = [i for i in theirs.ids if i not in values]
    counted = [i for i in theirs.ids if i in values or not allow_left_out]
    base_values = dict(zip(theirs.ids, theirs.values, strict=True))
    clusters = dict(zip(theirs.ids, theirs.clusters, strict=True))
    test = paired_test(
        [values.get(i, 0.0) for i in counted],
        [base_values[i] for i in counted],
        [clusters[i] for i in counted],
    )
    checks = Checks()
    objections = [
        f"compared all the same: {reason}"
        for reason in _reasons_against_comparing(pair, name, checks)
    ]
    return BesideBaseline(
        name,
        test.difference,
        test.low,
        test.high,
        test.n,
        test.clusters,
        len(missing),
        objections,
    )


@dataclass(frozen=True)
class SideBySide:
    """The two tables of a comparison; `score` is the one asked for, None the headline of each data
    set."""

    means: pd.DataFrame
    differences: pd.DataFrame | None
    score: str | None = None
    runs: Sequence[StoredRun] = ()

    def joined(self) -> pd.DataFrame:
        """`means` with the columns of `differences` ("paired.n", "difference", "p", ...); a
        reference has none."""
        if self.differences is None:
            return self.means
        shared = ("score", "n", "documents", "mean", "reference mean", "notes")
        renamed = self.differences.rename(columns={name: f"paired.{name}" for name in shared})
        paired = renamed.drop(columns=["model", "method"])
        return self.means.merge(paired, on=["dataset", "run"], how="left")

    def render(
        self, form: str, columns: Sequence[str] | None = None, width: int | None = None
    ) -> str:
        """Both tables in a format of reports.table_formats.FORMATS; width: as in
        reports.table_formats.render.

        columns: of the means, as in reports.columns.sections; csv and json hold all of them by
        default.
        """
        if form in ("csv", "json"):
            table = self.joined()
            return render(pick_columns(table, columns, self.score) if columns else table, form)
        all_sections = [*sections(self.means, columns, self.score), *self.paired()]
        return render_sections(all_sections, form, width)

    def paired(self) -> list[Section]:
        """The differences, a section a data set, with a legend; notes that stand below the means
        are left out."""
        if self.differences is None:
            return []
        below = {
            f"{row['method']}: {note}" for row in facts.records(self.means) for note in row["notes"]
        }
        runs = {facts.run_key(run): run for run in self.runs}
        rows = len(self.differences)
        comparisons = f"{rows} comparison{'s' if rows > 1 else ''}"
        legend = (
            f"{_LEGEND}; p: sign flips of documents, below 0.05 where the interval leaves 0 out; "
        )
        legend += f"p_holm: Holm over {comparisons}"
        if self.differences["detectable"].notna().any():
            legend += "; detectable: a smaller true difference would be missed in more than 20 %"
        notes, changed = [], []
        for row in facts.records(self.differences):
            notes.append((legend, *(note for note in row["notes"] if note not in below)))
            both = [runs[row["dataset"], row[name]] for name in ("run", "reference_run")]
            settings = "; ".join(brief_difference(*both))
            sentence = f"{row['method']} differs from {row['reference']} in {settings}"
            changed.append((sentence,) if settings else ())
        table, tables = self.differences.copy(), []
        table["notes"], table["changed"] = notes, changed
        for _, group in table.groupby("dataset"):
            first = group.iloc[0]
            columns = [name for name in PAIRED if name != "model" or group["model"].nunique() > 1]
            with_notes = (*columns, "changed", "notes")
            names = [f"{name}{end}" for name in with_notes for end in ("", ".low", ".high")]
            title = f"{first['dataset']}: {first['score']} minus that of {first['reference']}, on the same questions"
            shown = group[[name for name in names if name in group.columns]].reset_index(drop=True)
            shown.attrs["asked"] = ()
            tables.append(Section(title, shown))
        return tables


def side_by_side(
    runs: Sequence[StoredRun],
    *,
    reference: str | None = None,
    score: str | None = None,
    force: bool = False,
    convention: str = DEFAULT,
) -> SideBySide:
    """Compare `runs`; arguments and errors are those of `compare`, `convention` is of the means'
    FLOPs.

    A single run, or one of each data set, has means only. One run in several folders is compared
    as a reproduction.
    """
    facts.check_runs(runs)
    score_names = list(dict.fromkeys(name for run in runs for name in facts.score_names(run)))
    if score is not None and score not in score_names:
        raise UnknownName(
            "score", score, score_names, "harness score RUN --scorers NAME adds a score"
        )
    runs = with_distinct_names(runs)
    datasets = {run.config["dataset"]["name"] for run in runs}
    differences, checks = None, Checks()
    if reference is not None or len(datasets) < len(runs):
        differences = compare(runs, reference=reference, score=score, force=force, checks=checks)
    means = frame(runs, convention=convention, reference=reference or REFERENCE, checks=checks)
    return SideBySide(ordered(means, score), differences, score, tuple(runs))


def config_difference(run: StoredRun, base: StoredRun) -> list[str]:
    """Settings and versions in which two runs differ, "method.params.k: 5, reference 10", or the
    hash of own code.

    Of an imported run only settings that both have.
    """
    ours, theirs = (_compared_settings(r.config) for r in (run, base))
    if facts.made_elsewhere(run) or facts.made_elsewhere(base):
        both = ours.keys() & theirs.keys() - {"dataset.scorers"}
        ours, theirs = (
            {key: value for key, value in one.items() if key in both} for one in (ours, theirs)
        )
    else:
        made = [made_with(one) for one in (run, base)]
        shared = made[0].keys() & made[1].keys()
        weights = {key for one in made for key in one if key.startswith("weights ")} - shared
        left_out = {"rows", *weights}
        made = [{f"made with {k}": one[k] for k in one if k not in left_out} for one in made]
        ours, theirs = ours | made[0], theirs | made[1]
        if ours["method.implementation"] == theirs["method.implementation"]:
            ours, theirs = (
                {**one, "code": code_hash(r)} for one, r in ((ours, run), (theirs, base))
            )
    lines = []
    for key in dict.fromkeys([*ours, *theirs]):
        values = [one.get(key, _UNSET) for one in (ours, theirs)]
        if values[0] != values[1]:
            ours_text, theirs_text = (
                "not set" if value is _UNSET else repr(value) for value in values
            )
            lines.append(f"{key}: {ours_text}, reference {theirs_text}")
    return lines


def brief_difference(run: StoredRun, base: StoredRun) -> list[str]:
    """`config_difference` in short: of two methods without parameters, and an encoder or reranker
    that only one has.

    For two runs of one method, its name is left out if anything else differs.
    """
    # Runs of the first edition hold the name of the class; it counts as today's name.
    method, base_method = (short_name(r.config["method"]["implementation"]) for r in (run, base))
    differences = config_difference(run, base)
    if method == base_method:
        return [line for line in differences if not line.startswith("method.name:")] or differences
    parts = [{part for part in ("encoder", "reranker") if r.config.get(part)} for r in (run, base)]
    in_one = parts[0] ^ parts[1]
    return [line for line in differences if line.partition(".")[0] not in ("method", *in_one)]


def _compared_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Dotted setting ("method.params.k") -> value, of those that are compared: no paths, devices or
    limits."""
    compared = {key: value for key, value in config.items() if key not in _NOT_COMPARED}
    settings = flatten(without_home(compared))
    if isinstance(settings.get("method.implementation"), str):
        settings["method.implementation"] = short_name(settings["method.implementation"])
    left_out = {"method.mark", *filter(_PLACES.fullmatch, settings)}
    return {key: value for key, value in settings.items() if key not in left_out}


def _pairs_with_reference(runs: Sequence[StoredRun], reference: str | None) -> list[_Pair]:
    """Each other run with the reference of its data set: `reference`, else full-context or the
    first.

    Raises UnknownName for `reference`, UserError for no pair, or no reference or several in a data
    set.
    """
    names = dict(zip((id(r) for r in runs), facts.labels(runs), strict=True))
    if reference is not None:
        facts.check_reference(runs, reference)
    pairs: list[_Pair] = []
    for dataset in dict.fromkeys(r.config["dataset"]["name"] for r in runs):
        group = [r for r in runs if r.config["dataset"]["name"] == dataset]
        matching = [
            run for run in group if names[id(run)] == reference
        ]  # of "bm25" and "bm25 k=3" the first is meant
        if len(matching) != 1:
            matching = [
                run for run in group if (reference or REFERENCE) in facts.reference_names(run)
            ]
        if len(matching) > 1:
            options = ", ".join(f"'{names[id(run)]}' ({run.name})" for run in matching)
            problem = f"{dataset} has {len(matching)} runs of '{reference or REFERENCE}'"
            raise UserError(f"{problem}; choose one with --reference: {options}")
        if reference is not None and not matching:
            problem = f"data set {dataset} has no run of the reference '{reference}'"
            raise UserError(f"{problem}; run it, or leave {dataset} out")
        base = (matching or group)[0]
        pairs += [_Pair(r, names[id(r)], base, names[id(base)]) for r in group if r is not base]
    if not pairs:
        raise UserError("nothing to compare: give at least two runs of one data set")
    return pairs


def _compared_score(pair: _Pair, score: str | None) -> str:
    """`score`, by default the reference's headline. Raises UnknownName where one of the two lacks
    it."""
    name = score or facts.headline(pair.base)
    for run in (pair.run, pair.base):
        score_names = facts.score_names(run)
        if name not in score_names:
            raise UnknownName("score", name, score_names, f"scores of {run.path.name}")
    return name


def _reasons_against_comparing(pair: _Pair, name: str, checks: Checks) -> list[str]:
    """Why the difference of a pair in score `name` would not be the method's alone, a sentence
    each; [] where it is."""
    both, reasons = (pair.run, pair.base), list[str]()
    names = f"{pair.run.config['dataset']['name']}: {pair.label} and {pair.base_label}"

    def unlike(sentence: str, facts_of_both: Iterable[Any]) -> None:
        """Add `sentence` about two facts that differ."""
        a, b = facts_of_both
        reasons.extend([f"{names} {sentence.format(a, b)}"] * (a != b))

    if pair.elsewhere:
        number, larger, shared = overlap(*both)
        reasons += [f"{shared}, less than {_LEAST_SHARED:.0%}"] * (number < _LEAST_SHARED * larger)
    else:
        fingerprints = (facts.fingerprint(run) or "not recorded" for run in both)
        unlike("used different data (fingerprints {:.12} and {:.12})", fingerprints)
        ids, base_ids = ({r["question_id"] for r in run.records} for run in both)
        if ids != base_ids:
            counts = f"{len(ids)} and {len(base_ids)}, {len(ids & base_ids)} in common"
            remedy = "; --common compares those" if ids & base_ids else ""
            reasons.append(f"{names} answered different questions ({counts}{remedy})")
        reasons += [f"{names} have {text}" for text in text_reasons(*both, checks)]
        reasons += [f"{names} {sentence}" for sentence in answer_reasons(*both)]
    judged = name in facts.judges(pair.run)
    remedy = (
        "judge them again alike: harness judge" if judged else "score them again: harness score RUN"
    )
    versions = (facts.scorer_version(run, name) or "not recorded" for run in both)
    unlike(f"were scored by different versions of {name} ({{}} and {{}}); {remedy}", versions)
    treatments = (run.config.get("failed", "zero") for run in both)
    unlike("treat failed questions differently (failed: {} and {})", treatments)
    if number := checks.copied(*both):
        reasons.append(f"{names} have {number} answers of one cost, seconds included: copies")
    for run, label in zip(both, (pair.label, pair.base_label), strict=True):
        where = f"{run.config['dataset']['name']}: {label}"
        reasons += [f"{where}: does not fit: {sentence}" for sentence in checks.misfits(run)]
        problem, _ = checks.rescored(run, name)
        if problem is not None:
            reasons.append(f"{where}: {problem}")
    return reasons


def _comparison_row(pair: _Pair, name: str, tests: int, checks: Checks) -> dict[str, Any]:
    """The row of `compare` for a pair and score `name`, one of `tests`. Raises UserError: no
    question in common.

    checks: what was found in the records of both.
    """
    ours, theirs = facts.scored(pair.run, name), facts.scored(pair.base, name)
    values = dict(zip(ours.ids, ours.values, strict=True))
    base_values = dict(zip(theirs.ids, theirs.values, strict=True))
    # The reference's documents say which questions belong together; both runs saw the same ones
    # unless forced.
    clusters = dict(zip(theirs.ids, theirs.clusters, strict=True))
    comparable = same_questions(pair.run, pair.base) if pair.elsewhere else set(values)
    common = [i for i in theirs.ids if i in values and i in comparable]
    names_of_pair = f"{pair.label} and {pair.base_label} on {pair.run.config['dataset']['name']}"
    if not common:
        raise UserError(f"{names_of_pair} have no scored question in common: nothing to compare")
    a, b = [values[i] for i in common], [base_values[i] for i in common]
    groups = [clusters[i] for i in common]
    test = paired_test(a, b, groups)
    problems = _reasons_against_comparing(pair, name, checks)
    notes = [f"compared all the same: {problem}" for problem in problems]
    if same := reproduction(pair.run, pair.base):
        notes.append(f"{pair.label} and {pair.base_label}: {same}")
    if pair.elsewhere:
        shared = overlap(pair.run, pair.base)[2]
        notes.append(f"{shared}; prompt, seed and weights of an imported run are not compared")
    both = (pair.run, pair.label), (pair.base, pair.base_label)
    notes += [f"{label}: {note}" for run, label in both for note in facts.notes(run)]
    notes += [f"{label}: {NOT_CHECKED}" for run, label in both if not checks.rescored(run, name)[1]]
    records = [*pair.run.records, *pair.base.records]
    failed = {record["question_id"] for record in records if record["error"] is not None}
    apart = [values[i] - base_values[i] for i in common if i not in failed]
    if 0 < len(apart) < len(common):
        points = f"{100 * sum(apart) / len(apart):+.1f}"
        of = f"over the {len(apart)} of {len(common)} questions that both answered"
        notes.append(f"{pair.label} minus {pair.base_label}: {points} {of}")
    changed = config_difference(pair.run, pair.base)
    return {
        "dataset": pair.run.config["dataset"]["name"],
        "score": name,
        "method": pair.label,
        "model": pair.run.config["model"]["name"],
        "reference": pair.base_label,
        "n": test.n,
        "documents": test.clusters,
        "mean": sum(a) / len(a),
        "reference mean": sum(b) / len(b),
        "difference": test.difference,
        "difference.low": test.low,
        "difference.high": test.high,
        "p": test.p,
        "p_holm": None,
        "detectable": detectable_difference(
            [x - y for x, y in zip(a, b, strict=True)], groups, tests
        ),
        "changed": (f"{pair.label} differs from {pair.base_label} in {'; '.join(changed)}",)
        if changed
        else (),
        "notes": tuple(notes),
        "run": pair.run.name,
        "reference_run": pair.base.name,
    }
