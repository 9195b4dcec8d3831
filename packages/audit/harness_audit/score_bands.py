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
_OTHERS = {"hf_bleu": "BLEU", "rouge_score": "ROUGE-L"}
"""Families of a run's own scorers that are in no list."""
JUDGES = "judges"
CLOSE = 1e-9  # means that differ by less are equal


@dataclass(frozen=True)
class Band:
    """The methods of one data set and model under every scorer, on the questions that all of them
    answered.

    Args:
        dataset: Name of the data set.
        model: The reader's name.
        headline: The score that orders the methods.
        n: Questions.
        columns: Scorer -> method -> values in [0, 1].
        clusters: Scorer -> the label of each value.
        families: Scorer -> family.
        same: Whether all methods answered the same questions.
        partial: Scorers, judges among them, of some methods only, which are left out.
    """

    dataset: str
    model: str
    headline: str
    n: int
    columns: Mapping[str, Mapping[str, Sequence[float]]]
    clusters: Mapping[str, Sequence[str]]
    families: Mapping[str, str]
    same: bool = True
    partial: tuple[str, ...] = ()

    @functools.cached_property
    def means(self) -> dict[str, dict[str, float]]:
        """Scorer -> method -> the method's mean in [0, 1] under that scorer."""
        means: dict[str, dict[str, float]] = {}
        for name, by_method in self.columns.items():
            means[name] = {m: sum(values) / len(values) for m, values in by_method.items()}
        return means

    @property
    def asked(self) -> str:
        """A phrase: on how many questions the methods are compared, and that these are only the
        common ones where the methods answered different questions."""
        if self.same:
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
    is left out.

    Args:
        run: The run.
        golds: The gold answers of its questions.
    """
    run_scores = [name for name in facts.score_names(run) if not name.startswith("evidence_")]
    language = "english"
    if "_zh" in " ".join(run_scores):
        language = "chinese"
    families: dict[str, str] = {}
    for family, names in _FAMILIES[language].items():
        families.update(dict.fromkeys(names, family))
    judges = set(facts.judge_names(run))
    chosen: dict[str, str] = {}
    for name in run_scores:
        prefix = name.partition(".")[0]
        chosen[name] = families.get(name) or _OTHERS.get(prefix, "other")
        if name in judges:
            chosen[name] = JUDGES
    gold_list = list(golds)
    if any("all_classes" in gold.extra for gold in gold_list):
        return chosen
    has_short_answers = all("short_answers" in gold.extra for gold in gold_list)
    for name, family in families.items():
        scorer = scorers.lookup(name)
        if scorer.kind == "short_answers" and not has_short_answers:
            continue
        if all(map(is_installed, scorer.packages)):
            chosen.setdefault(name, family)
    return chosen


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
    columns: dict[str, array[float]] = {}
    for name in names:
        columns[name] = array("d")
    questions: list[str] = []
    skip = run.config.skips_failed
    for record in run.records:
        if record.error is None:
            scores = _scores_of_answer(record, examples, names)
        elif skip:
            continue
        else:
            scores = dict.fromkeys(names, 0.0)
        questions.append(record.question_id)
        for name in names:
            columns[name].append(scores.get(name, math.nan))
    return pd.DataFrame(columns, index=questions).dropna(how="all")


def _scores_of_answer(
    record: StoredRecord, examples: Mapping[str, Example], names: Sequence[str]
) -> dict[str, float]:
    """Scorer -> score of an answered record: as stored, or computed where the record lacks it.
    Scorers that cannot score the answer are left out.

    Args:
        record: The record.
        examples: Question id -> question and gold.
        names: The scorers.
    """
    known = scorers.project_scorers()
    lacking = [name for name in names if name not in record.scores and name in known]
    gold = examples[record.question_id].gold
    computed = scorers.score_answer(lacking, record.scored_text, (), gold)
    return {**computed.scores, **record.scores}


@dataclass(frozen=True)
class _Entry:
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
    groups: dict[tuple[str, str], list[_Entry]] = {}
    runs = [run for run, _ in pairs]
    labels = facts.run_labels(runs)
    datasets = facts.dataset_names_with_rows(runs)
    for dataset, label, (run, rows) in zip(datasets, labels, pairs, strict=True):
        entry = _Entry(dataset, label, run, rows)
        groups.setdefault((dataset, entry.model), []).append(entry)
    return list(map(_band, groups.values()))


def _band(group: Sequence[_Entry]) -> Band:
    """The Band of the methods of one data set and model: every scorer that applies to all of them,
    on the questions that all of them answered. Raises UserError for no question in common."""
    first = group[0]
    dataset = first.dataset
    families, partial = _common_scorers(group)
    tables: dict[str, pd.DataFrame] = {}
    for entry in group:
        tables[entry.label] = score_table(entry.run, entry.rows.examples, list(families))
    documents = _documents_of_common(first.run, tables.values())
    order = list(documents)
    form = first.run.config.dataset.format or ""
    clusters = question_labels(form, order, list(documents.values()))
    all_scores = pd.concat(tables, axis=1).reindex(order)  # columns: (label, scorer)
    columns: dict[str, dict[str, list[float]]] = {}
    clusters_of: dict[str, list[str]] = {}
    for name in families:
        # A row for each common question, a column for each method.
        scores: pd.DataFrame = all_scores.xs(name, axis=1, level=1)  # type: ignore[assignment]
        complete = scores.notna().all(axis=1)  # questions that every method has a value for
        if complete.any():
            clusters_of[name] = list(itertools.compress(clusters, complete))
            columns[name] = scores[complete].to_dict("list")  # type: ignore[assignment]
    if not columns:
        raise UserError(
            f"the methods on {dataset} answered no question in common; name runs over the same "
            "questions"
        )
    headline = facts.headline_score(first.run)
    if headline not in columns:  # then the first scorer stands in for it
        headline = next(iter(columns))
    return Band(
        dataset=dataset,
        model=first.model,
        headline=headline,
        n=len(order),
        columns=columns,
        clusters=clusters_of,
        families=families,
        same=all(len(table) == len(order) for table in tables.values()),
        partial=partial,
    )


def _documents_of_common(
    run: StoredRun, tables: Iterable[pd.DataFrame]
) -> dict[str, Sequence[str]]:
    """Question id -> ids of its documents, for the questions that all tables have, in the order of
    the run's records.

    Args:
        run: One of the runs.
        tables: The `score_table` of each run, whose index has question ids.
    """
    questions_of_tables = [set(table.index) for table in tables]
    common = set.intersection(*questions_of_tables)
    documents: dict[str, Sequence[str]] = {}
    for record in run.records:
        if record.question_id in common:
            documents[record.question_id] = record.document_ids
    return documents


def _common_scorers(group: Sequence[_Entry]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The scorers that apply to the methods of a band.

    Returns:
        (scorer -> family for those that apply to all methods; scorers that apply to some only).
    """
    families: dict[str, str] = {}
    methods: Counter[str] = Counter()  # scorer -> methods that it applies to
    for entry in group:
        golds = [example.gold for example in entry.rows.examples.values()]
        applicable = applicable_scorers(entry.run, golds)
        families.update(applicable)
        methods.update(applicable.keys())
    partial = tuple(name for name in families if methods[name] < len(group))
    for name in partial:
        del families[name]
    return families, partial


def sections(bands: Sequence[Band]) -> list[tuple[str, pd.DataFrame]]:
    """A titled table for each band: a row for each method with its mean by the headline, the lowest
    and highest mean in each family of scorers, and its ranks."""
    return list(map(_section, bands))


def _section(band: Band) -> tuple[str, pd.DataFrame]:
    """The title and the table of a band: ("musique · llama-8b", table)."""
    return f"{band.dataset} · {band.model}", _band_table(band)


def _band_table(band: Band) -> pd.DataFrame:
    """The table of a band: a row for each method, best first by the headline."""
    notes = (
        f"lowest and highest mean in points, {band.asked}",
        "harness report stability: what turns pairs around",
    )
    rows = []
    for method in band.methods:
        means_of_family: dict[str, list[float]] = {}
        for name, means in band.means.items():
            means_of_family.setdefault(band.families[name], []).append(means[method])
        row: dict[str, object] = {"method": method}
        row[band.headline] = _score_range([band.means[band.headline][method]])
        for family, own_means in means_of_family.items():
            row[family] = _score_range(own_means)
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
    ranks = {_rank(score_means, method) for score_means in means.values()}
    if len(ranks) == 1:
        return str(min(ranks))
    return f"{min(ranks)} to {max(ranks)}"


def _rank(means: Mapping[str, float], method: str) -> int:
    """The rank of a method by one scorer: 1 for the best; methods with equal means share a rank.

    Args:
        means: Method -> mean.
        method: The method.
    """
    rank = 1
    for value in means.values():
        if value > means[method] + CLOSE:
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
        for name, means in band.means.items():
            family = band.families[name]
            for method, mean in means.items():
                rank = _rank(means, method)
                rows.append((band.dataset, band.model, method, name, family, mean, rank, band.n))
    names = ("dataset", "model", "method", "scorer", "family", "score", "rank", "n")
    return pd.DataFrame(rows, columns=names)
