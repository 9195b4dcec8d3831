"""Score bands: stored answers under every scorer that applies.

    bands = analyse_runs(pairs)          pairs: (run, its rows); a Band for each data set and model
    bands[0].means["flashrag.em"]        {"bm25": 0.41, "pecan": 0.52}
    sections(bands), frame(bands)        tables for people; one row a run and scorer for programs

score_families.yaml says which scorers answer the same question: F1 of tokens under eight official
normalisations, exact match, containment, ROUGE-L. Precision and recall alone are left out, as each
rewards answers of one length. A run's own scores are taken as they are stored, a judge's too; the
others are computed from the stored answer and gold answers. All methods of a table are compared on
the questions that all of them answered. Which scorers turn a pair of methods around is said by
stability.py.
"""

import functools
import itertools
import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from harness import scorers
from harness.errors import UserError
from harness.scorers.base import is_installed
from harness.stats.question_clusters import question_labels
from harness.storage.records import StoredRecord
from harness.storage.run_folder import StoredRun
from harness.storage.yaml_text import parse_yaml
from harness.types import Example, Gold
from reports import facts
from reports.gold_rows import QuestionRows

_FAMILIES = parse_yaml(Path(__file__).with_name("score_families.yaml").read_bytes())
_FAMILY_BY_SCORER_PREFIX = {"hf_bleu": "BLEU", "rouge_score": "ROUGE-L"}
"""Families of a run's own scorers that are in no list."""
JUDGES = "judges"
EQUAL_MEANS_TOLERANCE = 1e-9  # means that differ by less are equal


@dataclass(frozen=True)
class Band:
    """The methods of one data set and model under every scorer, on the questions that all of them
    answered.

    Args:
        dataset: Name of the data set.
        model: The reader's name.
        headline: The score that orders the methods.
        n: Questions.
        values_by_scorer: Scorer -> method -> values in [0, 1].
        cluster_labels_by_scorer: Scorer -> the label of each value.
        family_by_scorer: Scorer -> family.
        all_answered_same_questions: Whether all methods answered the same questions.
        scorers_of_some_methods: Scorers, judges among them, of some methods only, which are left out.
    """

    dataset: str
    model: str
    headline: str
    n: int
    values_by_scorer: Mapping[str, Mapping[str, Sequence[float]]]
    cluster_labels_by_scorer: Mapping[str, Sequence[str]]
    family_by_scorer: Mapping[str, str]
    all_answered_same_questions: bool = True
    scorers_of_some_methods: tuple[str, ...] = ()

    @functools.cached_property
    def means(self) -> dict[str, dict[str, float]]:
        """Scorer -> method -> the method's mean in [0, 1] under that scorer."""
        means: dict[str, dict[str, float]] = {}
        for scorer, values_by_method in self.values_by_scorer.items():
            means[scorer] = {
                method: sum(values) / len(values) for method, values in values_by_method.items()
            }
        return means

    @property
    def question_count_note(self) -> str:
        """A phrase: on how many questions the methods are compared, and that these are only the
        common ones where the methods answered different questions."""
        if self.all_answered_same_questions:
            return f"n = {self.n}"
        return f"n = {self.n}; methods answered different questions, these are in common"

    @property
    def methods(self) -> list[str]:
        """Names of the methods, best first by the headline."""
        headline_means = self.means[self.headline]
        return sorted(headline_means, key=lambda name: -headline_means[name])


def applicable_scorers(run: StoredRun, golds: Iterable[Gold]) -> dict[str, str]:
    """The scorers that apply to a run's answers, each with its family; those of the run itself come
    first.

        {"longbench.qa_f1_score": "F1", "judge": "judges", "flashrag.em": "exact match"}

    Chinese scorers go with Chinese ones; a question with options is scored by its own scorers
    alone, because a letter is an answer there; a scorer whose extra inputs or package are missing
    is left out, as are the run's scores of the evidence ("evidence_...").

    Args:
        run: The run.
        golds: The gold answers of its questions.
    """
    own_scorers = [name for name in facts.score_names(run) if not name.startswith("evidence_")]
    language = "english"
    if "_zh" in " ".join(own_scorers):
        language = "chinese"
    listed_families = _family_by_listed_scorer(language)
    judge_names = set(facts.judge_names(run))
    family_by_scorer: dict[str, str] = {}
    for name in own_scorers:
        scorer_prefix = name.partition(".")[0]
        family_of_prefix = _FAMILY_BY_SCORER_PREFIX.get(scorer_prefix, "other")
        family_by_scorer[name] = listed_families.get(name, family_of_prefix)
        if name in judge_names:
            family_by_scorer[name] = JUDGES
    gold_list = list(golds)
    has_options = any("all_classes" in gold.extra for gold in gold_list)
    if has_options:
        return family_by_scorer
    has_short_answers = all("short_answers" in gold.extra for gold in gold_list)
    for name, family in listed_families.items():
        scorer = scorers.lookup(name)
        if scorer.kind == "short_answers" and not has_short_answers:
            continue
        if all(map(is_installed, scorer.packages)):
            family_by_scorer.setdefault(name, family)
    return family_by_scorer


def _family_by_listed_scorer(language: str) -> dict[str, str]:
    """Scorer -> its family, of all scorers for a language: {"longbench.qa_f1_score": "F1", ...}.

    Args:
        language: "english" or "chinese".
    """
    family_by_scorer: dict[str, str] = {}
    for family, family_scorers in _FAMILIES[language].items():
        family_by_scorer.update(dict.fromkeys(family_scorers, family))
    return family_by_scorer


def score_table(
    run: StoredRun, examples: Mapping[str, Example], names: Sequence[str]
) -> pd.DataFrame:
    """The scores of a run: a row for each question, by its id, and a column for each scorer of
    `names`; NaN where there is no value. A question without any value has no row.

    Failed questions score 0, or are left out where the run's settings say `failed: skip`.

    Args:
        run: The run.
        examples: Question id -> question and gold, to compute the scores that records lack.
        names: The scorers.
    """
    values_by_scorer: dict[str, array[float]] = {}
    for name in names:
        values_by_scorer[name] = array("d")
    question_ids: list[str] = []
    skips_failed = run.config.skips_failed
    for record in run.records:
        if record.error is None:
            scores = _stored_or_computed_scores(record, examples, names)
        elif skips_failed:
            continue
        else:
            scores = dict.fromkeys(names, 0.0)
        question_ids.append(record.question_id)
        for name in names:
            values_by_scorer[name].append(scores.get(name, math.nan))
    return pd.DataFrame(values_by_scorer, index=question_ids).dropna(how="all")


def _stored_or_computed_scores(
    record: StoredRecord, examples: Mapping[str, Example], names: Sequence[str]
) -> dict[str, float]:
    """Scorer -> score of an answered record: as stored, or computed where the record lacks it.
    Scorers that cannot score the answer are left out.

    Args:
        record: The record.
        examples: Question id -> question and gold.
        names: The scorers.
    """
    computable = scorers.project_scorers()
    missing_names = [name for name in names if name not in record.scores and name in computable]
    gold = examples[record.question_id].gold
    computed = scorers.score_answer(missing_names, record.scored_text, (), gold)
    return {**computed.scores, **record.scores}


@dataclass(frozen=True)
class _MethodRun:
    """One method of a band.

    Args:
        dataset: Name of the data set, with a hash of its rows where two have the same name.
        label: The method's name in tables.
        run: The method's run.
        rows: The rows of the run's data set.
    """

    dataset: str
    label: str
    run: StoredRun
    rows: QuestionRows

    @property
    def model(self) -> str:
        """The name of the run's model."""
        return facts.model_name(self.run)


def analyse_runs(pairs: Sequence[tuple[StoredRun, QuestionRows]]) -> list[Band]:
    """A Band for each data set and model, in the order of the runs: the methods under every scorer.

    Args:
        pairs: Each run with its rows; runs over other rows are of another data set, whatever its
            name.

    Raises:
        UserError: The runs of one band have no question in common.
    """
    runs_by_dataset_and_model: dict[tuple[str, str], list[_MethodRun]] = {}
    runs = [run for run, _ in pairs]
    labels = facts.run_labels(runs)
    dataset_names = facts.dataset_names_with_rows(runs)
    for dataset, label, (run, rows) in zip(dataset_names, labels, pairs, strict=True):
        method_run = _MethodRun(dataset, label, run, rows)
        runs_by_dataset_and_model.setdefault((dataset, method_run.model), []).append(method_run)
    return list(map(_compare_methods, runs_by_dataset_and_model.values()))


def _compare_methods(method_runs: Sequence[_MethodRun]) -> Band:
    """The Band of the methods of one data set and model: for every scorer that applies to all of
    them, each method's scores on the questions that all methods answered and it scores for all,
    with the clusters of these questions. Raises UserError for no question in common."""
    first_method = method_runs[0]
    dataset = first_method.dataset
    applicable = _common_scorers(method_runs)
    table_by_method: dict[str, pd.DataFrame] = {}
    for method_run in method_runs:
        table_by_method[method_run.label] = score_table(
            method_run.run, method_run.rows.examples, list(applicable.family_by_scorer)
        )
    documents_by_question = _documents_by_common_question(
        first_method.run, table_by_method.values()
    )
    question_ids = list(documents_by_question)
    dataset_format = first_method.run.config.dataset.format or ""
    cluster_labels = question_labels(
        dataset_format, question_ids, list(documents_by_question.values())
    )
    # A row for each common question; columns: (method, scorer).
    all_scores = pd.concat(table_by_method, axis=1).reindex(question_ids)
    values_by_scorer = _values_by_scorer(all_scores, applicable.family_by_scorer, cluster_labels)
    if not values_by_scorer:
        raise UserError(
            f"the methods on {dataset} answered no question in common; name runs over the same "
            "questions"
        )
    headline = facts.headline_score(first_method.run)
    if headline not in values_by_scorer:  # then the first scorer stands in for it
        headline = next(iter(values_by_scorer))
    return Band(
        dataset=dataset,
        model=first_method.model,
        headline=headline,
        n=len(question_ids),
        values_by_scorer={name: found.values for name, found in values_by_scorer.items()},
        cluster_labels_by_scorer={
            name: found.cluster_labels for name, found in values_by_scorer.items()
        },
        family_by_scorer=applicable.family_by_scorer,
        all_answered_same_questions=all(
            len(table) == len(question_ids) for table in table_by_method.values()
        ),
        scorers_of_some_methods=applicable.scorers_of_some_methods,
    )


class _CommonValues(NamedTuple):
    """The scores by one scorer, on the questions that it has a value of for every method.

    Attributes:
        values: Method -> its score of each of these questions.
        cluster_labels: The cluster of each of these questions.
    """

    values: dict[str, list[float]]
    cluster_labels: list[str]


def _values_by_scorer(
    all_scores: pd.DataFrame, scorer_names: Iterable[str], cluster_labels: Sequence[str]
) -> dict[str, _CommonValues]:
    """Scorer -> its scores on the questions that it has a value of for every method; a scorer
    without such a question is left out.

    Args:
        all_scores: A row for each question; columns: (method, scorer).
        scorer_names: The scorers.
        cluster_labels: The cluster of each question.
    """
    values_by_scorer: dict[str, _CommonValues] = {}
    for name in scorer_names:
        # The columns of this scorer: one for each method.
        scores: pd.DataFrame = all_scores.xs(name, axis=1, level=1)  # type: ignore[assignment]
        has_all_values = scores.notna().all(axis=1)  # of each question
        if has_all_values.any():
            values_by_scorer[name] = _CommonValues(
                values=scores[has_all_values].to_dict("list"),  # type: ignore[arg-type]
                cluster_labels=list(itertools.compress(cluster_labels, has_all_values)),
            )
    return values_by_scorer


def _documents_by_common_question(
    run: StoredRun, tables: Iterable[pd.DataFrame]
) -> dict[str, Sequence[str]]:
    """Question id -> ids of its documents, for the questions that all tables have, in the order of
    the run's records.

    Args:
        run: One of the runs.
        tables: The `score_table` of each run, whose index has question ids.
    """
    questions_of_tables = [set(table.index) for table in tables]
    common_ids = set.intersection(*questions_of_tables)
    documents: dict[str, Sequence[str]] = {}
    for record in run.records:
        if record.question_id in common_ids:
            documents[record.question_id] = record.document_ids
    return documents


@dataclass(frozen=True)
class _CommonScorers:
    """Which scorers apply to the methods of a band.

    Args:
        family_by_scorer: Scorer -> family, for those that apply to all methods.
        scorers_of_some_methods: Scorers that apply to some methods only.
    """

    family_by_scorer: dict[str, str]
    scorers_of_some_methods: tuple[str, ...]


def _common_scorers(method_runs: Sequence[_MethodRun]) -> _CommonScorers:
    """Which scorers apply to all methods of a band, and which to some only."""
    family_by_scorer: dict[str, str] = {}
    n_methods_by_scorer: Counter[str] = Counter()  # scorer -> methods that it applies to
    for method_run in method_runs:
        golds = [example.gold for example in method_run.rows.examples.values()]
        applicable = applicable_scorers(method_run.run, golds)
        family_by_scorer.update(applicable)
        n_methods_by_scorer.update(applicable.keys())
    partly_applicable = tuple(
        name for name in family_by_scorer if n_methods_by_scorer[name] < len(method_runs)
    )
    for name in partly_applicable:
        del family_by_scorer[name]
    return _CommonScorers(family_by_scorer, scorers_of_some_methods=partly_applicable)


def sections(bands: Sequence[Band]) -> list[tuple[str, pd.DataFrame]]:
    """A titled table for each band: a row for each method with its mean by the headline, the lowest
    and highest mean in each family of scorers, and its ranks."""
    return list(map(_section, bands))


def _section(band: Band) -> tuple[str, pd.DataFrame]:
    """The title and the table of a band: ("musique · llama-8b", table)."""
    return f"{band.dataset} · {band.model}", _band_table(band)


def _band_table(band: Band) -> pd.DataFrame:
    """The table of a band: a row for each method, best first by the headline, with its score by the
    headline, its lowest and highest mean by the scorers of each family ("41.0 to 52.3"), its best
    and worst rank, and notes."""
    notes = (
        f"lowest and highest mean in points, {band.question_count_note}",
        "harness report stability: what turns pairs around",
    )
    rows = []
    for method in band.methods:
        means_of_family: dict[str, list[float]] = {}
        for scorer, means in band.means.items():
            means_of_family.setdefault(band.family_by_scorer[scorer], []).append(means[method])
        row: dict[str, object] = {"method": method}
        row[band.headline] = _score_range([band.means[band.headline][method]])
        for family, family_means in means_of_family.items():
            row[family] = _score_range(family_means)
        row["rank"] = rank_range(band.means, method)
        row["notes"] = notes
        rows.append(row)
    return pd.DataFrame(rows)


def rank_range(means: Mapping[str, Mapping[str, float]], method: str) -> str:
    """The best and the worst rank of a method under several scorers: "1 to 3", or "1" if they are
    equal.

    Args:
        means: Scorer -> method -> mean.
        method: The method.
    """
    ranks = {_rank_by_scorer(score_means, method) for score_means in means.values()}
    if len(ranks) == 1:
        return str(min(ranks))
    return f"{min(ranks)} to {max(ranks)}"


def _rank_by_scorer(means: Mapping[str, float], method: str) -> int:
    """The rank of a method by one scorer: 1 for the best; methods with equal means share a rank.

    Args:
        means: Method -> mean.
        method: The method.
    """
    rank = 1
    for other_mean in means.values():
        if other_mean > means[method] + EQUAL_MEANS_TOLERANCE:
            rank += 1
    return rank


def _score_range(means: Sequence[float]) -> str:
    """The lowest and highest of means in [0, 1], in points: "38.0 to 41.2", or "41.2" where they
    are equal."""
    low = f"{100 * min(means):.1f}"
    high = f"{100 * max(means):.1f}"
    if low == high:
        return low
    return f"{low} to {high}"


def frame(bands: Sequence[Band]) -> pd.DataFrame:
    """A row for each band, scorer and method, with the columns dataset, model, method, scorer,
    family, score (mean in [0, 1]), rank, n."""
    rows = []
    for band in bands:
        for scorer, means in band.means.items():
            family = band.family_by_scorer[scorer]
            for method, mean in means.items():
                rank = _rank_by_scorer(means, method)
                rows.append((band.dataset, band.model, method, scorer, family, mean, rank, band.n))
    column_names = ("dataset", "model", "method", "scorer", "family", "score", "rank", "n")
    return pd.DataFrame(rows, columns=column_names)
