"""What a stored run says of itself: the only place that knows the keys of run.yaml, manifest.json
and the records.

    run_key(run)                        -> RunKey("musique", "bm25--llama-8b--0a1b2c3d")
    score_values(run, "f1").by_question()     -> {"q1": 1.0, "q2": 0.4}
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from harness.config.applications import APPLICATION
from harness.config.schema import canonical_json
from harness.cost.usage import texts_and_cut
from harness.errors import UnknownName, UserError
from harness.scorers import ScoreError, corpus_score, lookup
from harness.stats.bootstrap import LEVEL, Interval, Labels, interval
from harness.stats.corpus_interval import corpus_interval
from harness.stats.question_clusters import WHOLE_FOLDER
from harness.storage.manifest_file import GitState
from harness.storage.record_columns import SearchSummary
from harness.storage.record_notes import judgements_of, score_counts_of
from harness.storage.run_folder import StoredRun
from harness.storage.stored_config import StoredModel
from reports.run_records import index_usages
from reports.settings import NOT_RECORDED
from reports.settings import run_labels as run_labels
from reports.table_cell import Cell, Row

if TYPE_CHECKING:
    import pandas as pd

FOLDER_SCORE = "right"
"""First score of a folder of one's own, whose place a judge takes."""
ALPHA = 0.05
"""The level of the tests between methods."""
FLOORS = frozenset({"closed-book", "naive-generation", "random"})
"""Presets of methods that are floors."""


@dataclass(frozen=True, slots=True)
class ScoreValues:
    """One score of a run.

    Args:
        ids: The questions that have the score.
        values: The score of each of these.
        clusters: The cluster of each of these, a number.
        n_missing: How many answered questions lack the score.
    """

    ids: Sequence[str]
    values: Sequence[float]
    clusters: NDArray[np.int32]
    n_missing: int = 0

    def by_question(self) -> dict[str, float]:
        """Question id -> value."""
        return dict(zip(self.ids, self.values, strict=True))

    def clusters_by_question(self) -> dict[str, int]:
        """Question id -> cluster."""
        return dict(zip(self.ids, self.clusters.tolist(), strict=True))


def hash8(run: StoredRun) -> str:
    """The hash at the end of the run folder's name: "bm25--llama-8b--0a1b2c3d" -> "0a1b2c3d"."""
    return run.path.name.rpartition("--")[2]


def reference_names(run: StoredRun) -> tuple[str, str, str]:
    """The names besides its label by which --reference may mean the run: its preset, its folder,
    its hash."""
    return run.config.method.name, run.name, hash8(run)


def check_reference(runs: Sequence[StoredRun], reference: str) -> None:
    """Raise UnknownName, with the labels of all runs, for a reference that is no label or name of
    one of them."""
    known_labels = run_labels(runs)
    names_a_run = any(reference in reference_names(run) for run in runs)
    if reference not in known_labels and not names_a_run:
        raise UnknownName("reference", reference, list(dict.fromkeys(known_labels)))


class RunKey(NamedTuple):
    """What identifies a run below one results folder."""

    dataset: str
    run_name: str


def run_key(run: StoredRun) -> RunKey:
    """The data set and the folder name of a run, which identify it below one results folder."""
    return RunKey(run.config.dataset.name, run.name)


def dataset_names_with_rows(runs: Sequence[StoredRun]) -> list[str]:
    """The data set of each run; where runs of one name read other rows, with the hash of these:
    "musique (rows 0a1b2c3)"."""
    fingerprints_by_dataset: dict[str, set[str | None]] = {}
    for run in runs:
        fingerprints = fingerprints_by_dataset.setdefault(run.config.dataset.name, set())
        fingerprints.add(rows_fingerprint(run))
    names = []
    for run in runs:
        name = run.config.dataset.name
        if len(fingerprints_by_dataset[name]) > 1:
            fingerprint = rows_fingerprint(run) or NOT_RECORDED
            name += f" (rows {fingerprint[:7]})"
        names.append(name)
    return names


_USER_FOLDER_FORMAT = "folder"
"""The format of folders of the user's own, two of which may be called alike."""


def dataset_names(runs: Sequence[StoredRun]) -> list[str]:
    """The data set of each run as tables call it: folders of the user's own that are called alike
    have the hash of their rows behind the name."""
    names: list[str] = []
    for run, name in zip(runs, dataset_names_with_rows(runs), strict=True):
        if run.config.dataset.format == _USER_FOLDER_FORMAT:
            names.append(name)
        else:
            names.append(run.config.dataset.name)
    return names


def is_imported(run: StoredRun) -> bool:
    """Whether another tool made the run (harness import); what its log lacks is then not known."""
    return run.manifest.imported is not None


NO_MODEL = "–"
"""In place of a model's name, for an application."""


def is_application(run: StoredRun) -> bool:
    """Whether an application of the user's own answered (--app): method and reader in one."""
    return run.config.model.backend == APPLICATION


def is_floor(run: StoredRun) -> bool:
    """Whether the run's method is a floor, which only marks what others must beat (closed-book): by
    `floor` of the manifest, or by its name where that comes from an older version or another tool."""
    return run.manifest.floor or run.config.method.name in FLOORS


def is_unfinished(run: StoredRun) -> bool:
    """Whether the run's summary does not call it finished, so that questions may be missing."""
    return not run.summary.is_finished


def is_upper_bound(run: StoredRun) -> bool:
    """Whether the method was given the supporting passages alone.

    It is an upper bound then, as only gold marks identify these passages.
    """
    return run.config.method.view == "evidence"


def is_oracle(run: StoredRun) -> bool:
    """Whether the reader was shown all supporting passages: none was cut, and no search chose among
    them."""
    if not is_upper_bound(run):
        return False
    columns = run.columns
    return not columns.truncated.any() and not columns.searches.count(_has_search)


def _has_search(search: SearchSummary | None) -> bool:
    """Whether a record has steps of a search, which RecordColumns then summarises."""
    return search is not None


def model_name(run: StoredRun) -> str:
    """The name in tables of the model that wrote the answers: "llama-8b".

    Of a server's model that has no preset of its own, it is what the server calls it: "qwen3", not
    the back end's "endpoint". It is a dash for an application, whose models are unknown.
    """
    if is_application(run):
        return NO_MODEL
    return model_or_server_name(run.config.model)


def model_or_server_name(model: StoredModel) -> str:
    """The name of a model; what its server calls it where the name is only that of the back end."""
    if model.name == model.backend and model.source:
        return model.source
    return model.name


def model_names(run: StoredRun) -> list[str]:
    """Names of the run's models, the reader's first: "llama", "llama-8b (builder)"."""
    reader = model_name(run)
    names_with_roles = [reader]
    for role, model in run.config.roles.items():
        name = model_or_server_name(model)
        if name != reader:
            names_with_roles.append(f"{name} ({role})")
    return names_with_roles


def code_version(run: StoredRun) -> str:
    """The code that made the run, "harness 0.1.0, commit 0a1b2c3d4e5f, changed" (uncommitted
    edits); "" if unknown."""
    parts = []
    version = _harness_version(run)
    if version:
        parts.append(f"harness {version}")
    git = run.manifest.git or GitState()
    if git.commit:
        parts.append(f"commit {git.commit[:12]}")
        if git.dirty:
            parts.append("changed")
    return ", ".join(parts)


def _harness_version(run: StoredRun) -> str | None:
    """The version of the harness that made the run; None where the manifest does not list it."""
    return run.manifest.packages.get("longdoc-harness")


def suite_name(run: StoredRun) -> str:
    """The name of the suite (--suite) in the newest of the commands that started the run; "" where
    none names one."""
    for start in reversed(run.manifest.run_and_starts):
        command = " ".join(start.command)
        named = re.search(r" --suite[ =](\S+)", command)
        if named is not None:
            return named[1]
    return ""


def count_left_out(run: StoredRun) -> int:
    """The number of questions without a record because the loader or an import left them out."""
    if run.summary.n_left_out is not None:
        return run.summary.n_left_out
    return sum(run.manifest.dataset.skipped.values())


def first_score(run: StoredRun) -> str:
    """Name of the first score of the run's data set."""
    return run.config.dataset.scorers[0]


def headline_score(run: StoredRun) -> str:
    """Name of the score by which the run is judged where none is named: the first of its data set.

    Where no record has that one, as no question has an accepted answer, it is the first judge that
    gave scores. In a folder of one's own, a judge of correctness that has scored every answer that
    the first score has takes its place.
    """
    first_name = first_score(run)
    judges = run.manifest.judges
    judges_with_scores = [name for name in judges if name in run.score_names]
    if first_name not in run.score_names:
        if not judges_with_scores:
            return first_name
        return judges_with_scores[0]
    if first_name != FOLDER_SCORE:
        return first_name
    for name in judges_with_scores:
        is_of_correctness = judges[name].kind == "correctness"
        if is_of_correctness and _judge_scored_all_answers(run, name):
            return name
    return first_name


def _judge_scored_all_answers(run: StoredRun, judge: str) -> bool:
    """Whether the judge has scored every answer that the data set's first score has."""
    scores = run.columns.scores
    has_first = ~np.isnan(scores[first_score(run)])
    return not np.isnan(scores[judge][has_first]).any()


def common_headline_score(runs: Sequence[StoredRun]) -> str:
    """The headline that runs of one data set share; where they have several, its first score."""
    name = headline_score(runs[0])
    if all(headline_score(run) == name for run in runs):
        return name
    return first_score(runs[0])


def common_headline_scores(runs: Sequence[StoredRun]) -> dict[str, str]:
    """Name of a data set -> the common headline of its runs."""
    return {name: common_headline_score(group) for name, group in runs_by_dataset(runs).items()}


def runs_by_dataset(runs: Sequence[StoredRun]) -> dict[str, list[StoredRun]]:
    """Name of a data set -> its runs, in their order."""
    groups: dict[str, list[StoredRun]] = {}
    for run in runs:
        groups.setdefault(run.config.dataset.name, []).append(run)
    return groups


def rows_fingerprint(run: StoredRun) -> str | None:
    """The hash of the content of the data set's rows that the run read; None where the manifest
    does not say."""
    return run.manifest.dataset.fingerprint or None


def task_settings(run: StoredRun) -> dict[str, object]:
    """The settings of the data set that shape each prompt and reply: instruction, answer_prefix,
    demonstration, max_answer_tokens, answer_schema, answer_field; None for one that is not set.

    They stand here as configured: a prefix changes what is scored too, even where an instruction
    says the same words.
    """
    dataset = run.config.dataset.to_json()
    prompt_keys = ("instruction", "answer_prefix", "demonstration", "max_answer_tokens")
    schema_keys = ("answer_schema", "answer_field")
    return {key: dataset.get(key) for key in (*prompt_keys, *schema_keys)}


def reader_identity(run: StoredRun) -> str:
    """Identity of the model that wrote the answers: its manifest entry (weights, tokenizer,
    template) as JSON text.

    That is the reader, or whichever role the records name for the phase "answer": a PECAN search
    answers itself. Where the manifest does not say, the configuration of the reader.
    """
    models = run.manifest.models
    answering_roles = set()
    for path in run.columns.usage:
        if path[:2] == ("answer", "roles"):  # ("answer", "roles", "reader"): what a role computed
            answering_roles.add(path[2])
    identities = [
        canonical_json(models[role]) for role in sorted(answering_roles) if role in models
    ]
    if identities:
        return " + ".join(dict.fromkeys(identities))
    if "reader" in models:
        return canonical_json(models["reader"])
    return canonical_json(run.config.model.to_json())


def scorer_version(run: StoredRun, name: str) -> str | None:
    """The version of the scorer or judge `name` that scored the run; None where the manifest does
    not say."""
    if name in run.manifest.judges:
        return run.manifest.judges[name].version
    return run.manifest.scorers.get(name)


def judge_names(run: StoredRun) -> list[str]:
    """Names of the scores that models gave (`harness judge`), in the order of their first
    judgement."""
    names: dict[str, None] = {}  # the keys serve as an ordered set
    for notes in run.columns.notes.values:
        judgement_by_name = judgements_of(notes)
        names.update(dict.fromkeys(judgement_by_name))
    return list(names)


def scorer_versions(run: StoredRun) -> str:
    """Scorers with their versions, and the harness's own: "f1.longbench 1, em.squad 1; harness
    0.1.0"."""
    listed = run.config.dataset.scorers
    parts = []
    for name in score_names(run):
        if name not in listed and name.rpartition(".")[0] in listed:
            continue  # "f1.vote" or "f1.pass@4": scored by the scorer before the last dot
        parts.append(f"{name} {scorer_version(run, name) or '(version not recorded)'}")
    scorers = ", ".join(parts)
    harness = _harness_version(run)
    if not harness:
        return scorers
    return f"{scorers}; harness {harness}"


def score_names(run: StoredRun) -> list[str]:
    """Names of the run's scores: the configured ones in order, then any that only the records
    have."""
    return list(dict.fromkeys([*run.config.dataset.scorers, *run.score_names]))


def score_values(
    run: StoredRun, name: str, clusters: NDArray[np.int32] | None = None
) -> ScoreValues:
    """The values of the score `name`, in the order of the records.

    A failed question scores 0.0, or is left out where the run's config says `failed: skip`, or
    where its record says that it does not count here (it belongs to another group, or has no
    supporting marks). An answered question without this score is left out, and `n_missing` counts
    these.

    Args:
        run: The run.
        name: The name of the score.
        clusters: The cluster of each record, where the caller has them already.

    Raises:
        UnknownName: The run does not have the score.
    """
    score_list = score_names(run)
    if name not in score_list:
        raise UnknownName("score", name, score_list, f"scores of {run.path.name}")
    columns = run.columns
    scores = columns.scores.get(name, np.full(len(columns), np.nan))
    has_score = ~np.isnan(scores)
    is_counted = has_score.copy()
    if run.config.skips_failed:
        is_counted &= columns.answered
    values = np.where(columns.failed, 0.0, scores)[is_counted]
    n_missing = int((columns.answered & ~has_score).sum())
    all_lack_it = n_missing > 0 and n_missing == columns.answered.sum()
    if is_application(run) and all_lack_it:
        # No reply of the application has this score, so a failed question has no 0 either.
        return ScoreValues([], array("d"), np.array([], dtype=np.int32), n_missing)
    if clusters is None:
        clusters = columns.clusters
    ids = list(compress(columns.ids, is_counted.tolist()))
    return ScoreValues(ids, array("d", values.tobytes()), clusters[is_counted], n_missing)


def corpus_score_sources(run: StoredRun) -> dict[str, str]:
    """The scores over all answers together (BLEU) that the run's records give.

        -> {"hf_bleu.corpus_bleu4": "hf_bleu.bleu4"}

    A key is a score of the corpus, its value the score of single answers whose counts it sums. Only
    those whose counts every scored record holds: sums over a part would be another number.
    """
    without_counts = _QuestionCounts("", {})  # of a run without a record
    first_question = next(_stored_counts(run), without_counts)
    sources = {}
    for name in score_names(run):
        if name in first_question.counts_by_score and _has_all_counts(run, name):
            corpus_name = lookup(name).corpus
            sources[corpus_name] = name
    return sources


def _has_all_counts(run: StoredRun, name: str) -> bool:
    """Whether every scored record holds the counts of this score, and as many as its scorer makes.

    Records of an imported run may hold other counts, which cannot be summed.
    """
    all_hold_counts = all(name in question.counts_by_score for question in _stored_counts(run))
    if not all_hold_counts:
        return False
    count_answer = lookup(name).counts
    if count_answer is None:
        return False
    n_counts = len(count_answer("", ("",)))  # an empty answer has as many as any
    return all(len(question.counts_by_score[name]) == n_counts for question in _stored_counts(run))


def corpus_score_interval(run: StoredRun, name: str, *, level: float = LEVEL) -> Interval:
    """The value of a score over all answers together, in [0, 1], with its interval by cluster.

    The records hold what the scorer counted in each answer (for BLEU, its matching words), which is
    summed. A failed question counts as an empty answer, or is left out where the run's config says
    `failed: skip`.

    Args:
        run: The run.
        name: One of the keys of `corpus_score_sources`.
        level: Level of the interval, 0.95 for 95 %.
    """
    scorer = corpus_score_sources(run)[name]
    counts_by_question = {}
    for question in _stored_counts(run):
        counts_by_question[question.question_id] = question.counts_by_score[scorer]
    cluster_of_counted = []
    for question_id, cluster in zip(run.columns.ids, question_clusters(run), strict=True):
        if question_id in counts_by_question:
            cluster_of_counted.append(cluster)
    clusters = np.array(cluster_of_counted)

    def score_of_sums(totals: Sequence[float]) -> float:
        """The score of summed counts; 0 where not a single token was written."""
        try:
            return corpus_score(scorer, totals)
        except ScoreError:
            return 0.0

    seed = run.config.seed
    counts = list(counts_by_question.values())
    return corpus_interval(score_of_sums, counts, clusters, seed=seed, level=level)


class _QuestionCounts(NamedTuple):
    """What a question's record holds for scores of the corpus.

    Attributes:
        question_id: The question.
        counts_by_score: {"hf_bleu.bleu4": [5.0, 4.0, ...]}: counts that are summed over answers.
    """

    question_id: str
    counts_by_score: Mapping[str, list[float]]


def _stored_counts(run: StoredRun) -> Iterator[_QuestionCounts]:
    """Yield the stored counts of each question, in the order of the records.

    Failed questions are left out where the config says `failed: skip`.
    """
    columns = run.columns
    rows = zip(columns.ids, columns.notes.by_record(), columns.failed.tolist(), strict=True)
    for question_id, notes, has_failed in rows:
        if has_failed and run.config.skips_failed:
            continue
        yield _QuestionCounts(question_id, score_counts_of(notes))


def question_clusters(run: StoredRun) -> NDArray[np.int32]:
    """The cluster of each record as a number, the same for questions that are resampled as one."""
    return run.columns.clusters


def asks_whole_folder(run: StoredRun) -> bool:
    """Whether each question is about all pages of a folder of the user's own.

    These pages are searched as one, and the records hold the one document id WHOLE_FOLDER. Each
    question is then a cluster.
    """
    return (WHOLE_FOLDER,) in run.columns.documents.values


def count_documents(run: StoredRun, n_clusters: int) -> int | None:
    """The number of documents that the questions of a run are about.

    This is `n_clusters` in most runs. Where each question is about a whole folder, the number
    of the folder's documents; None for a run of an older version, which does not say it.

    Args:
        run: The run.
        n_clusters: The number of its clusters: questions about one document are a cluster.
    """
    if not asks_whole_folder(run):
        return n_clusters
    return run.manifest.dataset.folder_documents


def document_ids(run: StoredRun, questions: Collection[str]) -> set[str]:
    """The ids of the documents that some questions of a run are about.

    Args:
        run: The run.
        questions: The ids of the questions.
    """
    found: set[str] = set()
    for question_id, documents in zip(
        run.columns.ids, run.columns.documents.by_record(), strict=True
    ):
        if question_id in questions:
            found.update(documents)
    return found


class CutTexts(NamedTuple):
    """How many texts encoders and rerankers cut in a run.

    Attributes:
        given: The number of texts that they were given; None where it was not counted.
        cut: The number of these that they cut.
    """

    given: int | None
    cut: int


def count_cut_texts(run: StoredRun) -> CutTexts:
    """How many texts encoders and rerankers were given and cut, for all indexes and questions of a
    run.

    The number of texts given is None where some were cut and those given were not counted.
    """
    n_texts, n_cut = texts_and_cut(index_usages(run))
    columns = run.columns
    for phase in columns.phases:
        given_by_question = columns.cost(phase, "texts")
        cut_by_question = columns.cost(phase, "texts_cut")
        n_cut += int(cut_by_question.sum())
        lacks_given = ~columns.has_cost(phase, "texts")
        some_were_cut_of_unknown = (cut_by_question[lacks_given] > 0).any()
        if some_were_cut_of_unknown:
            n_texts = None
        elif n_texts is not None:
            n_texts += int(given_by_question.sum())
    return CutTexts(n_texts, n_cut)


def first_cells(run: StoredRun, label: str) -> dict[str, Cell]:
    """The first cells of a run's row in any table: {"dataset": "musique", "method": label, "model":
    "llama-8b"}."""
    return {"dataset": run.config.dataset.name, "method": label, "model": model_name(run)}


def mean_columns(
    name: str,
    values: Sequence[float],
    clusters: Labels,
    *,
    seed: int,
    bounds: tuple[float, float] | None = (0.0, 1.0),
) -> dict[str, float | None]:
    """A mean and its interval as the columns NAME, NAME.low and NAME.high.

    Args:
        name: The name of the column.
        values: The values whose mean it is.
        clusters: The cluster of each value.
        seed: Seed of the resampling, as of harness.stats.bootstrap.interval.
        bounds: The lowest and highest possible value; None for any.
    """
    return interval_columns(name, interval(values, clusters, seed=seed, bounds=bounds))


def interval_columns(name: str, estimate: Interval) -> dict[str, float | None]:
    """A value and the ends of its interval as columns: {"f1": 0.4, "f1.low": 0.3, "f1.high": 0.5};
    None for what it lacks."""
    return {name: estimate.mean, f"{name}.low": estimate.low, f"{name}.high": estimate.high}


class MeanOfSamples(NamedTuple):
    """The mean of several samples' means, and (low, high) of it; None where that is not known."""

    mean: float
    bounds: tuple[float, float] | None


def mean_of_samples(
    values: Sequence[float], intervals: Sequence[tuple[float | None, float | None] | None]
) -> MeanOfSamples:
    """The mean of k independent samples' means m_i, each counting the same, with its interval.

    The errors add in quadrature: with m_i in [low_i, high_i], low = m - sqrt((m_1 - low_1)^2 + ...)
    / k, high likewise.

    Args:
        values: The means m_1 ... m_k.
        intervals: (low_i, high_i) of each; None for a sample without one.

    Returns:
        The mean with its bounds; None in place of these where a sample has no interval.
    """
    n_samples = len(values)
    mean = sum(values) / n_samples
    distances_below = []
    distances_above = []
    for value, bounds in zip(values, intervals, strict=True):
        low, high = bounds or (None, None)
        if low is None or high is None:
            return MeanOfSamples(mean, None)
        distances_below.append(value - low)
        distances_above.append(high - value)
    low_of_mean = mean - math.hypot(*distances_below) / n_samples
    high_of_mean = mean + math.hypot(*distances_above) / n_samples
    return MeanOfSamples(mean, (low_of_mean, high_of_mean))


def answered_clusters(
    run: StoredRun, clusters: NDArray[np.int32] | None = None
) -> NDArray[np.int32]:
    """The cluster of each answered question, over which costs are means.

    Args:
        run: The run.
        clusters: The cluster of each record, where the caller has them already.
    """
    if clusters is None:
        clusters = question_clusters(run)
    return clusters[run.columns.answered]


def as_floats(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with columns that hold only floats and None turned into columns of numbers.

    So a column without any value counts as one of numbers. Writes into the frame that it is given.
    """
    for name in frame.columns:
        if all(value is None or isinstance(value, float) for value in frame[name]):
            frame[name] = frame[name].astype("float64")
    return frame


def frame_rows(frame: pd.DataFrame) -> list[Row]:
    """The rows of a frame, each as a mapping from column name to cell."""
    return cast(list[Row], frame.rename(columns=str).to_dict("records"))


def check_runs(runs: Sequence[StoredRun]) -> None:
    """Raise UserError where there is no run at all, or a run has no record yet."""
    if not runs:
        raise UserError(
            "no runs found. Run something first: harness run --method bm25 --dataset musique"
        )
    empty = [run.path.name for run in runs if not run.records]
    if empty:
        raise UserError(
            f"no question is recorded yet in {', '.join(empty)}. Run the same command again to go "
            "on."
        )
