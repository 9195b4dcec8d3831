"""What a stored run says of itself: the only place that knows the keys of run.yaml, manifest.json
and the records.

StoredRun ── run_key · fingerprint · reader · versions · notes             (one line about the run)
          └─ scored(run, name)  ids, values, clusters                      (one value a question)
          └─ corpus_scores(run) · corpus(run, name)                         (one value of all answers: BLEU)
          └─ head_columns(run, label), mean_columns("mean", values, ...)   (columns of a table's row)
"""

from __future__ import annotations

import functools
import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.config.applications import APPLICATION
from harness.config.schema import canonical
from harness.cost.usage import ENCODERS, add_usage, price_of, sum_phases, texts_and_cut
from harness.datasets.base import left_out_note
from harness.engine import model_warnings as embedded
from harness.errors import UnknownName, UserError
from harness.scorers import ScoreError, corpus_score, lookup
from harness.stats.bootstrap import LEVEL, Interval, Labels, interval
from harness.stats.corpus_interval import corpus_interval
from harness.stats.question_clusters import cluster_numbers
from harness.storage.run_folder import StoredRun
from harness.storage.run_summary import lacking_replies, reply_sentences
from harness.types import COUNTS, JUDGES, MISSING, NOT_FOLLOWED, PREFIX
from reports import costs
from reports.search_notes import search_notes
from reports.settings import labels as labels

if TYPE_CHECKING:
    import pandas as pd

ALPHA = 0.05  # of the tests between methods
_MANY = 20  # fewer questions are not worth a word about the size of their clusters


@dataclass(frozen=True, slots=True)
class Scored:
    """One score of a run: `values[i]` is of question `ids[i]` in cluster `clusters[i]`; missing:
    answers without it."""

    ids: Sequence[str]
    values: Sequence[float]
    clusters: NDArray[np.int32]
    missing: int = 0

    def by_question(self) -> dict[str, float]:
        """Question id -> value."""
        return dict(zip(self.ids, self.values, strict=True))

    def clusters_by_question(self) -> dict[str, int]:
        """Question id -> cluster."""
        return dict(zip(self.ids, self.clusters.tolist(), strict=True))


def hash8(run: StoredRun) -> str:
    """The hash at the end of the folder's name."""
    return run.path.name.rpartition("--")[2]


def reference_names(run: StoredRun) -> tuple[str, str, str]:
    """The names by which --reference may mean the run: the preset's, the folder's, the hash."""
    return run.config["method"]["name"], run.name, hash8(run)


def check_reference(runs: Sequence[StoredRun], reference: str) -> None:
    """Raise UnknownName, with the labels of all runs, for a reference that is no label or name of
    one of them."""
    known = labels(runs)
    if reference not in known and not any(reference in reference_names(run) for run in runs):
        raise UnknownName("reference", reference, list(dict.fromkeys(known)))


def run_key(run: StoredRun) -> tuple[str, str]:
    """Data set and folder name, which identify a run below one results folder."""
    return str(run.config["dataset"]["name"]), run.name


def datasets(runs: Sequence[StoredRun]) -> list[str]:
    """The data set of each run, with the hash of its rows where runs over other rows have the same
    name."""
    keys = dict.fromkeys((run_key(run)[0], fingerprint(run)) for run in runs)
    counts = Counter(name for name, _ in keys)
    return [
        f"{name} (rows {(fingerprint(run) or 'not recorded')[:7]})"
        if counts[name := run_key(run)[0]] > 1
        else name
        for run in runs
    ]


_OWN_FOLDER = "folder"
"""The format of folders of the user's own, two of which may be called alike."""


def dataset_names(runs: Sequence[StoredRun]) -> list[str]:
    """The data set of each run as tables call it: folders of the user's own that are called alike
    have the hash of their rows behind the name."""
    names: list[str] = []
    for run, name in zip(runs, datasets(runs), strict=True):
        if run.config["dataset"].get("format") == _OWN_FOLDER:
            names.append(name)
        else:
            names.append(run_key(run)[0])
    return names


def made_elsewhere(run: StoredRun) -> bool:
    """Whether another tool made the run (harness import); what its log lacks is then not known."""
    return "imported" in run.manifest


def is_application(run: StoredRun) -> bool:
    """Whether an application of the user's own answered (--app): method and reader in one."""
    return bool(run.config["model"].get("backend") == APPLICATION)


def is_floor(run: StoredRun) -> bool:
    """Whether the method only marks what others must beat, as its class says (Traits.floor)."""
    return bool(run.manifest.get("floor"))


def is_unfinished(run: StoredRun) -> bool:
    """Whether questions that the run was to ask may be missing."""
    return bool(run.summary.get("state", "running") != "finished")


def is_upper_bound(run: StoredRun) -> bool:
    """Whether the method was given the supporting passages alone: an upper bound, as only gold
    marks identify them."""
    return bool(run.config["method"].get("view") == "evidence")


def is_oracle(run: StoredRun) -> bool:
    """Whether the reader was shown all supporting passages: none was cut, and no search chose among
    them."""
    if not is_upper_bound(run):
        return False
    return not any(record.truncated or record.steps for record in run.records)


def models(run: StoredRun) -> list[str]:
    """Names of the run's models, the reader's first: "llama", "llama-8b (builder)"."""
    names = {role: str(model["name"]) for role, model in (run.config.get("roles") or {}).items()}
    reader = str(run.config["model"]["name"])
    return [reader, *(f"{name} ({role})" for role, name in names.items() if name != reader)]


def code(run: StoredRun) -> str:
    """The code that made the run, "harness 0.1.0, commit 0a1b2c3d4e5f, changed" (uncommitted
    edits); "" if unknown."""
    version = (run.manifest.get("packages") or {}).get("longdoc-harness")
    git = run.manifest.get("git") or {}
    parts = [f"harness {version}"] if version else []
    if git.get("commit"):
        parts.append(f"commit {str(git['commit'])[:12]}")
        parts += ["changed"] * bool(git.get("dirty"))
    return ", ".join(parts)


def suite(run: StoredRun) -> str:
    """Name of the suite (--suite) in the newest of the commands that started the run; "" where none
    has one."""
    for start in [run.manifest, *(run.manifest.get("starts") or ())][::-1]:
        if named := re.search(r" --suite[ =](\S+)", " ".join(map(str, start.get("command") or ()))):
            return named[1]
    return ""


def left_out(run: StoredRun) -> int:
    """Questions without a record because the loader or an import left them out."""
    skipped = (run.manifest.get("dataset") or {}).get("skipped") or {}
    return int(run.summary.get("n_left_out", sum(skipped.values())))


def headline(run: StoredRun) -> str:
    """Name of the score by which the run is judged where none is named: the first of its data set,
    or that of a judge of correctness where no question has the first, as no answer is known."""
    first = str(run.config["dataset"]["scorers"][0])
    asked: Mapping[str, Any] = run.manifest.get("judges") or {}
    judges = [name for name in asked if asked[name].get("kind", "correctness") == "correctness"]
    if not judges or first in run.keys[0]:
        return first
    return str(judges[0])


def fingerprint(run: StoredRun) -> str | None:
    """Content hash of the rows the run used; None where the manifest does not say."""
    value = (run.manifest.get("dataset") or {}).get("fingerprint")
    return str(value) if value else None


def task(run: StoredRun) -> dict[str, Any]:
    """What the data set asked of every answer: instruction, answer_prefix, demonstration,
    max_answer_tokens, answer_schema, answer_field, or None.

    They stand here as configured: a prefix changes what is scored too, even where an instruction
    says the same words.
    """
    dataset = run.config["dataset"]
    asked = ("instruction", "answer_prefix", "demonstration", "max_answer_tokens")
    schema = ("answer_schema", "answer_field")
    return {key: dataset.get(key) for key in (*asked, *schema)}


def reader(run: StoredRun) -> str:
    """Identity of the model that wrote the answers: its manifest entry (weights, tokenizer,
    template) as JSON text.

    That is the reader, or whichever role the records name for the phase "answer": a PECAN search
    answers itself. Where the manifest does not say, the configuration of the reader.
    """
    models: dict[str, Any] = run.manifest.get("models") or {}
    answers = (record.usage.get("answer") or {} for record in run.records)
    answered = {role for usage in answers for role in usage.get("roles") or ()}
    identities = [canonical(models[role]) for role in sorted(answered & set(models))]
    if not identities and "reader" in models:
        identities = [canonical(models["reader"])]
    return " + ".join(dict.fromkeys(identities)) or canonical(run.config["model"])


def scorer_version(run: StoredRun, name: str) -> str | None:
    """Version of scorer or judge `name` that scored the run; None where the manifest does not
    say."""
    judges = run.manifest.get("judges") or {}
    scorers = run.manifest.get("scorers") or {}
    version = judges[name].get("version") if name in judges else scorers.get(name)
    return None if version is None else str(version)


def judges(run: StoredRun) -> list[str]:
    """Names of the scores that models gave (`harness judge`), in the order of their first
    judgement."""
    judged = (name for record in run.records for name in record.notes.get(JUDGES) or ())
    return list(dict.fromkeys(judged))


def versions(run: StoredRun) -> str:
    """Scorers with their versions, and the harness's own: "f1.longbench 1, em.squad 1; harness
    0.1.0"."""
    listed = run.config["dataset"]["scorers"]
    names = [
        n for n in score_names(run) if n in listed or n.rpartition(".")[0] not in listed
    ]  # no votes, no pass@k
    scorers = ", ".join(f"{n} {scorer_version(run, n) or '(version not recorded)'}" for n in names)
    harness = (run.manifest.get("packages") or {}).get("longdoc-harness")
    return f"{scorers}; harness {harness}" if harness else scorers


def score_names(run: StoredRun) -> list[str]:
    """Names of the run's scores: the configured ones in order, then any that only the records
    have."""
    return list(dict.fromkeys([*run.config["dataset"]["scorers"], *run.keys[0]]))


def scored(run: StoredRun, name: str, clusters: NDArray[np.int32] | None = None) -> Scored:
    """The values of score `name`, in the order of the records.

    A failed question scores 0.0, or is left out where the run's config says `failed: skip`, or
    where its record says that it does not count here (it belongs to another group, or has no
    supporting marks). An answered question without this score is left out and counted in `missing`.
    clusters: `question_clusters`, where they are known already. Raises UnknownName for a score the
    run does not have.
    """
    score_list = score_names(run)
    if name not in score_list:
        raise UnknownName("score", name, score_list, f"scores of {run.path.name}")
    skip = run.config.get("failed", "zero") == "skip"
    ids, values, rows, missing = (
        list[str](),
        array("d"),
        array("I"),
        0,
    )  # compact: a run may have a million questions
    for row, record in enumerate(run.records):
        value = record.scores.get(name)
        if record.error is not None:
            if skip or name not in record.scores:
                continue
            value = 0.0
        if value is None:
            missing += 1
            continue
        ids.append(record.question_id)
        values.append(value)
        rows.append(row)
    if is_application(run) and missing and missing == _answered(run):
        # No reply says it, so a failed question has no 0 either.
        return Scored([], array("d"), np.array([], dtype=np.int32), missing)
    clusters = question_clusters(run) if clusters is None else clusters
    return Scored(ids, values, clusters[np.array(rows)], missing)


def _answered(run: StoredRun) -> int:
    """The number of answered questions."""
    return sum(record.error is None for record in run.records)


def corpus_scores(run: StoredRun) -> dict[str, str]:
    """Score over all answers together (BLEU) -> the run's score whose counts it adds up, in the
    order of the scores.

    Only those whose counts every record holds that is scored: sums over a part would be another
    number.
    """
    names = dict[str, str]()
    first_counts = dict(next(_corpus_counts(run), ("", {}))[1])
    for name in filter(first_counts.__contains__, score_names(run)):
        counted = all(name in counts for _, counts in _corpus_counts(run))
        if counted and (count := lookup(name).counts) is not None:
            n_counts = len(count("", ("",)))  # an empty answer has as many as any
            # An imported run may hold counts of another length: they cannot be summed.
            if all(len(counts[name]) == n_counts for _, counts in _corpus_counts(run)):
                names[lookup(name).corpus] = name
    return names


def corpus(run: StoredRun, name: str, *, level: float = LEVEL) -> Interval:
    """The value of `name`, one of `corpus_scores`, in [0, 1] with its interval, by cluster.

    A failed question counts as an empty answer, or is left out where the run's config says `failed:
    skip`.
    """
    scorer = corpus_scores(run)[name]
    kept = {question: counts[scorer] for question, counts in _corpus_counts(run)}
    pairs = zip(run.records, question_clusters(run), strict=True)
    clusters = np.array([cluster for row, cluster in pairs if row.question_id in kept])

    def value(totals: Sequence[float]) -> float:
        """The score of summed counts; 0 where not a single token was written."""
        try:
            return corpus_score(scorer, totals)
        except ScoreError:
            return 0.0

    seed = int(run.config.get("seed") or 0)
    return corpus_interval(value, list(kept.values()), clusters, seed=seed, level=level)


def _corpus_counts(run: StoredRun) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (question id, score -> its stored counts); no failed questions where the config says
    `failed: skip`."""
    skip = run.config.get("failed", "zero") == "skip"
    rows = (row for row in run.records if row.error is None or not skip)
    return ((row.question_id, row.notes.get(COUNTS) or {}) for row in rows)


def question_clusters(run: StoredRun) -> NDArray[np.int32]:
    """A number for each record, the same for questions that are resampled as one."""
    questions = ((record.question_id, record.document_ids) for record in run.records)
    return cluster_numbers(run.config["dataset"].get("format", ""), questions)


def notes(run: StoredRun, clusters: NDArray[np.int32] | None = None) -> tuple[str, ...]:
    """What a reader of the run's numbers must know, a sentence each; clusters: as of `scored`."""
    sentences = [
        *_run_notes(run),
        *costs.probes(run),
        *search_notes(run.records),
        *_model_notes(run),
    ]
    clusters = question_clusters(run) if clusters is None else clusters
    sentences += cluster_notes((record.document_ids for record in run.records), clusters)
    # A score that was left out, as evidence recall where nothing is marked, counts as missing and
    # not as 0.
    rows = ((r.notes.get("flags") or (), r.scores) for r in run.records)
    flagged = Counter(name for flags, scores in rows for name in flags if name in scores)
    sentences += [
        f"{n} values of {name} could not be scored as they are and count 0"
        for name, n in flagged.items()
    ]
    changed = {
        key for start in run.manifest.get("starts") or () for key in start.get("changed") or ()
    }
    if changed:
        keys = ", ".join(sorted(changed))
        sentences.append(f"a part of the run was made after a change of {keys} (manifest.json)")
    if "shapes" in changed:
        sentences.append(
            "model.shape was changed on the way: FLOPs of earlier questions are counted by the old "
            "sizes"
        )
    sentences += [str(warning) for warning in run.manifest.get("warnings") or ()]
    return tuple(dict.fromkeys([*sentences, *run.notes]))


def _run_notes(run: StoredRun) -> list[str]:
    """Sentences on where the run's numbers and answers come from, and whether every question was
    asked and answered."""
    total = len(run.records)
    notes: list[str] = [
        str(amount["note"]) for amount in (run.manifest.get("amounts") or {}).values()
    ]
    if made_elsewhere(run):
        imported = run.manifest["imported"]
        files = ", ".join(str(file["name"]) for file in imported["files"])
        source = f"imported from {imported['tool']}: answers, logged scores and costs are those of {files}"
        notes.append(f"{source} and not checked; how questions were asked is not known")
    for entry in run.manifest.get("corrected") or ():
        means = ", ".join(
            f"{name} {100 * mean:.1f}" for name, mean in entry["scores"].items() if mean is not None
        )
        notes.append(
            f"gold answers of {entry['questions']} questions were corrected on {entry['at'][:10]} "
            f"({entry['file']}); "
            f"the means before: {means}"
        )
    notes += left_out_note((run.manifest.get("dataset") or {}).get("skipped") or {})
    if is_unfinished(run):
        state = run.summary.get("state", "running")
        progress = f"{total} questions so far"
        if asked := run.summary.get("n_asked"):
            whole = run.whole or run
            n_missing = asked - len(whole.records) - left_out(whole)
            progress = f"{n_missing} of {asked} questions have no record yet"
        notes.append(f"the run is {state}, not finished: {progress}")
    if early := run.summary.get("stopped_early"):
        notes.append(
            f"a duel stopped the run early, after {early['questions']} of {early['of']} questions "
            "in random order of "
            f"documents (seed {early['seed']}): {'; '.join(early['verdicts'])}; tests that take n "
            "as fixed (harness "
            "compare) do not hold for it"
        )
    if failed := sum(r.error is not None for r in run.records):
        treatment = (
            "left out of the scores" if run.config.get("failed", "zero") == "skip" else "scored 0"
        )
        notes.append(f"{failed} of {total} questions failed ({treatment})")
    if cut := sum(r.truncated is not None for r in run.records):
        notes.append(f"{cut} of {total} questions were answered from a truncated context")
    if no_prefix := sum(r.notes.get(PREFIX) == MISSING for r in run.records):
        prefix = run.config["dataset"].get("answer_prefix")
        notes.append(
            f"{no_prefix} of {total} replies lacked the answer prefix '{prefix}' and were scored "
            "whole"
        )
    if unread := sum(NOT_FOLLOWED in r.notes for r in run.records):
        schema = (run.config["dataset"].get("answer_schema") or {}).get("name")
        notes.append(
            f"{unread} of {total} replies do not follow the answer schema '{schema}' and scored 0"
        )
    return notes


def _model_notes(run: StoredRun) -> list[str]:
    """Sentences on what the run's models and servers did that its scores and costs do not show."""
    notes = []
    spent: dict[str, Any] = {}  # by phase: a run may have a million questions
    for usage in run.usages():
        add_usage(spent, usage)
    lacking, total = Counter(lacking_replies(spent)), sum_phases([spent])
    notes += reply_sentences(lacking, run.config)
    unclosed = total.get("thinking", {}).get("unclosed", 0) - lacking["thought"]
    if unclosed > 0:
        notes.append(
            f"the thinking of {unclosed} replies reached its limit (model.thinking.tokens)"
        )
    used = run.manifest.get("models") or {}
    roles = run.config.get("roles") or {}
    models = [run.config["model"], *(m for role, m in roles.items() if role in used)]
    with_caveat = [model for model in models if model.get("embedded")]
    notes += [embedded.embedded_caveat(model, run.config["dataset"]) for model in with_caveat]
    notes += [embedded.small_model_note(model) for model in models if model.get("small")]
    texts, shortened = texts_cut(run)
    if shortened:
        of = f"of {texts} texts ({100 * shortened / texts:.0f} %)" if texts else "texts"
        notes.append(f"{shortened} {of} were longer than the encoder reads, and cut")
    if recounted := total.get("recounted"):
        notes.append(
            f"{recounted} token counts of the server are missing or cannot be true; those made "
            "here are used"
        )
    if recalled := total.get("recalled"):
        notes.append(
            f"{recalled} replies came from earlier runs (--cache replies); costs are those of "
            "sending them"
        )
    if total.get("uncounted"):
        notes.append("FLOPs unknown: a model of this run has no known sizes")
    billed = total.get("billed") or ()
    if unpriced := sorted(role for role in billed if price_of(run.config, role) is None):
        where = unpriced[0] if unpriced[0] in ENCODERS else "model"
        unset = f"{where}.price of the {unpriced[0]} is not set"
        notes.append(f"money unknown: {unset}; set it and run the same command again")
    return notes


def texts_cut(run: StoredRun) -> tuple[int | None, int]:
    """(texts that encoders and rerankers were given, None where that was not counted; how many of
    them they cut)."""
    built = [line.usage for line in run.documents if not line.failed]
    return texts_and_cut(chain(built, (record.usage for record in run.records)))


def head_columns(run: StoredRun, label: str) -> dict[str, Any]:
    """The first columns of a run's row in any table; label: its method's name there."""
    return {"dataset": run_key(run)[0], "method": label, "model": run.config["model"]["name"]}


def mean_columns(
    name: str,
    values: Sequence[float],
    clusters: Labels,
    *,
    seed: int,
    bounds: tuple[float, float] | None = (0.0, 1.0),
) -> dict[str, float | None]:
    """A mean as columns name, name.low, name.high; seed, bounds: as in
    harness.stats.bootstrap.interval."""
    return interval_columns(name, interval(values, clusters, seed=seed, bounds=bounds))


def interval_columns(name: str, estimate: Interval) -> dict[str, float | None]:
    """A value and the ends of its interval as columns name, name.low, name.high; None for what it
    lacks."""
    return {name: estimate.mean, f"{name}.low": estimate.low, f"{name}.high": estimate.high}


def mean_of_samples(
    values: Sequence[float], intervals: Sequence[tuple[float | None, float | None] | None]
) -> tuple[float, tuple[float, float] | None]:
    """The mean of k independent samples' means m_i, each counting the same, with its interval.

    The errors add in quadrature: with m_i in [low_i, high_i], low = m - sqrt((m_1 - low_1)^2 + ...)
    / k, high likewise; None where a sample has no interval.
    """
    middle = sum(values) / len(values)
    ends = [bounds or (None, None) for bounds in intervals]
    below = [m - low for m, (low, _) in zip(values, ends, strict=True) if low is not None]
    above = [high - m for m, (_, high) in zip(values, ends, strict=True) if high is not None]
    if min(len(below), len(above)) < len(values):
        return middle, None
    lower = middle - math.hypot(*below) / len(values)
    upper = middle + math.hypot(*above) / len(values)
    return middle, (lower, upper)


def answered_clusters(
    run: StoredRun, clusters: NDArray[np.int32] | None = None
) -> NDArray[np.int32]:
    """The numbers of `question_clusters` for the questions answered, which costs are means over."""
    clusters = question_clusters(run) if clusters is None else clusters
    return clusters[[record.error is None for record in run.records]]


def as_floats(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with every column of numbers and None as floats, so that a column without values is
    a number column."""
    for name in frame.columns:
        if all(value is None or isinstance(value, float) for value in frame[name]):
            frame[name] = frame[name].astype("float64")
    return frame


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame by column name."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def check_runs(runs: Sequence[StoredRun]) -> None:
    """Raise UserError where there is no run at all, or a run has no record yet."""
    if not runs:
        raise UserError(
            "no runs found. Run something first: harness run --method bm25 --dataset musique"
        )
    if empty := [run.path.name for run in runs if not run.records]:
        raise UserError(
            f"no question is recorded yet in {', '.join(empty)}. Run the same command again to go "
            "on."
        )


def cluster_notes(document_ids: Iterable[Sequence[str]], labels: Labels) -> list[str]:
    """What few or unequal clusters do to intervals and tests, a sentence each; [] where they do no
    harm.

    labels: the clusters. A sign-flip test over G of them has no smaller p than 2 / 2^G.
    """
    sizes = np.unique(labels, return_counts=True)[1]
    largest, total = max(sizes, default=0), len(labels)
    few = len(sizes) > 0 and 2 / 2 ** len(sizes) > ALPHA
    notes = (
        [f"documents: {len(sizes)}; this test cannot find a difference with fewer than 6"]
        if few
        else []
    )
    if len(sizes) == 1:
        shared = functools.reduce(set.intersection, map(set, document_ids))
        linked = f"all {total} questions are linked through documents that they share"
        return [f"{'all questions share one document' if shared else linked}: no interval", *notes]
    if total < _MANY or 2 * largest <= total:
        return notes
    linked = f"{largest} of {total} questions are linked through documents that they share"
    return [f"{linked}, one of {len(sizes)} clusters: intervals are wide", *notes]
