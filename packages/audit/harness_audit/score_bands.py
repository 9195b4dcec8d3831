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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from harness import scorers
from harness.errors import UserError
from harness.scorers.base import installed
from harness.stats.question_clusters import question_labels
from harness.storage.run_folder import StoredRun
from harness.storage.yaml_text import parse_yaml
from harness.types import Example, Gold
from reports import facts
from reports.gold_rows import Rows

_FAMILIES = parse_yaml(Path(__file__).with_name("score_families.yaml").read_bytes())
_OTHERS = {
    "hf_bleu": "BLEU",
    "rouge_score": "ROUGE-L",
}  # families of a run's own scorers that are in no list
JUDGES = "judges"
CLOSE = 1e-9  # means that differ by less are equal


@dataclass(frozen=True)
class Band:
    """The methods of one data set and model under every scorer, on the questions that all of them
    answered.

    columns: scorer -> method -> values in [0, 1]; clusters: scorer -> the label of each value;
    families: scorer -> family; n: questions; same: whether all methods answered the same; partial:
    scorers, judges among them, of some methods only, which are left out.
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
        """Scorer -> method -> mean in [0, 1]."""
        return {
            name: {m: sum(v) / len(v) for m, v in by_method.items()}
            for name, by_method in self.columns.items()
        }

    @property
    def asked(self) -> str:
        """A phrase: how many questions, and which, where the methods answered others too."""
        return f"n = {self.n}" + (
            "" if self.same else "; methods answered different questions, these are in common"
        )

    @property
    def methods(self) -> list[str]:
        """The methods, best first by the headline."""
        headline_means = self.means[self.headline]
        return sorted(headline_means, key=lambda name: -headline_means[name])


def applicable_scorers(run: StoredRun, golds: Iterable[Gold]) -> dict[str, str]:
    """Scorer -> family, for all that apply to the run's answers; those of the run itself come
    first.

    Chinese scorers go with Chinese ones; a question with options is scored by its own scorers
    alone, because a letter is an answer there; a scorer whose extra inputs or package are missing
    is left out.
    """
    run_scores = [name for name in facts.score_names(run) if not name.startswith("evidence_")]
    table = _FAMILIES["chinese" if any("_zh" in name for name in run_scores) else "english"]
    families = {name: family for family, names in table.items() for name in names}
    judged = set(facts.judges(run))
    family_of_own = {
        name: families.get(name) or _OTHERS.get(name.partition(".")[0], "other")
        for name in run_scores
    }
    chosen = {name: JUDGES if name in judged else family for name, family in family_of_own.items()}
    special_fields = [gold.extra.keys() & {"all_classes", "short_answers"} for gold in golds]
    if any("all_classes" in extra for extra in special_fields):
        return chosen
    for name, family in families.items():
        line = scorers.lookup(name)
        lacking = line.kind == "short_answers" and not all(
            "short_answers" in extra for extra in special_fields
        )
        if not lacking and all(map(installed, line.packages)):
            chosen.setdefault(name, family)
    return chosen


def score_table(
    run: StoredRun, examples: Mapping[str, Example], names: Sequence[str]
) -> pd.DataFrame:
    """A row a question, a column a scorer of `names`; NaN where there is no value.

    examples: by question id, to score what records lack. Failed questions: 0, or left out (failed:
    skip).
    """
    columns, questions = {name: array("d") for name in names}, []
    skip = run.config.get("failed", "zero") == "skip"
    for record in run.records:
        question, error = record.question_id, record.error
        if error is not None and skip:
            continue
        lacking = [name for name in names if name not in record.scores and name in scorers.table()]
        text = record.notes.get("scored", record.prediction)
        fresh = (
            {}
            if error is not None
            else scorers.score_answer(lacking, text, (), examples[question].gold).scores
        )
        questions.append(question)
        for name in names:
            value = 0.0 if error is not None else record.scores.get(name, fresh.get(name))
            columns[name].append(math.nan if value is None else value)
    return pd.DataFrame(columns, index=questions).dropna(how="all")


def analyse_runs(pairs: Sequence[tuple[StoredRun, Rows]]) -> list[Band]:
    """A Band (methods under every scorer) for each data set and model, in the order of the runs.

    pairs: each run with its rows; runs over other rows are of another data set (`facts.datasets`).
    Raises UserError for runs of one band without a question in common.
    """
    groups: dict[tuple[str, str], list[tuple[str, StoredRun, Rows]]] = {}
    runs = [run for run, _ in pairs]
    for label, dataset, (run, rows) in zip(
        facts.labels(runs), facts.datasets(runs), pairs, strict=True
    ):
        groups.setdefault((dataset, str(run.config["model"]["name"])), []).append(
            (label, run, rows)
        )
    return [_band(*key, group) for key, group in groups.items()]


def _band(dataset: str, model: str, group: Sequence[tuple[str, StoredRun, Rows]]) -> Band:
    """The Band of `group`, (label, run, rows) of one data set and model. Raises UserError for no
    question in common."""
    scorers_of_runs = [
        applicable_scorers(run, (example.gold for example in rows.examples.values()))
        for _, run, rows in group
    ]
    families = {name: family for family_of in scorers_of_runs for name, family in family_of.items()}
    partial = tuple(
        name for name in families if not all(name in applicable for applicable in scorers_of_runs)
    )
    families = {name: family for name, family in families.items() if name not in partial}
    tables = {label: score_table(run, rows.examples, list(families)) for label, run, rows in group}
    first = group[0][1]
    common = functools.reduce(lambda a, b: a & b, (set(table.index) for table in tables.values()))
    documents = {r.question_id: r.document_ids for r in first.records if r.question_id in common}
    order = list(documents)
    clusters = question_labels(
        first.config["dataset"].get("format", ""), order, list(documents.values())
    )
    columns: dict[str, dict[str, list[float]]] = {}
    own_clusters: dict[str, list[str]] = {}
    for name in families:
        held = pd.DataFrame({label: table[name].reindex(order) for label, table in tables.items()})
        kept = held.notna().all(axis=1)
        if kept.any():
            own_clusters[name] = list(itertools.compress(clusters, kept))
            columns[name] = {label: held[label][kept].tolist() for label in tables}
    if not columns:
        raise UserError(
            f"the methods on {dataset} answered no question in common; name runs over the same "
            "questions"
        )
    headline = facts.headline(first)
    headline = headline if headline in columns else next(iter(columns))
    same = all(len(table) == len(common) for table in tables.values())
    return Band(
        dataset, model, headline, len(order), columns, own_clusters, families, same, partial
    )


def sections(bands: Sequence[Band]) -> list[tuple[str, pd.DataFrame]]:
    """For each band a table of methods: the headline, the lowest and highest mean in each family,
    the ranks."""
    out = []
    for band in bands:
        notes = (
            f"lowest and highest mean in points, {band.asked}",
            "harness report stability: what turns pairs around",
        )
        rows = []
        for method in band.methods:
            held: dict[str, list[float]] = {}
            for name, means in band.means.items():
                held.setdefault(band.families[name], []).append(means[method])
            row = {
                "method": method,
                band.headline: _score_range([band.means[band.headline][method]]),
            }
            row |= {family: _score_range(means) for family, means in held.items()}
            rows.append({**row, "rank": rank_range(band.means, method), "notes": notes})
        out.append((f"{band.dataset} · {band.model}", pd.DataFrame(rows)))
    return out


def rank_range(means: Mapping[str, Mapping[str, float]], method: str) -> str:
    """The best and worst rank of a method in `means`, scorer -> method -> mean: "1 to 3", or "1" if
    they are equal."""
    ranks = {_rank(score_means, method) for score_means in means.values()}
    return str(min(ranks)) if len(ranks) == 1 else f"{min(ranks)} to {max(ranks)}"


def _rank(means: Mapping[str, float], method: str) -> int:
    """The rank of `method` in `means`, method -> mean: 1 for the best; methods with equal means
    share one."""
    return 1 + sum(value > means[method] + CLOSE for value in means.values())


def _score_range(held: Sequence[float]) -> str:
    """ "41.2", or "38.0 to 41.2" where the lowest and highest of the means `held` differ: in
    points, from [0, 1]."""
    low, high = f"{100 * min(held):.1f}", f"{100 * max(held):.1f}"
    return low if low == high else f"{low} to {high}"


def frame(bands: Sequence[Band]) -> pd.DataFrame:
    """One row a method and scorer: dataset, model, method, scorer, family, score (mean in [0, 1]),
    rank, n."""
    rows = [
        (
            band.dataset,
            band.model,
            method,
            name,
            band.families[name],
            mean,
            _rank(means, method),
            band.n,
        )
        for band in bands
        for name, means in band.means.items()
        for method, mean in means.items()
    ]
    return pd.DataFrame(
        rows, columns=("dataset", "model", "method", "scorer", "family", "score", "rank", "n")
    )
