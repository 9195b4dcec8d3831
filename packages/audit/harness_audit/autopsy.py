"""Where questions were lost, by substitution from stored runs: what would have had to be different
for a right answer.

    cases = cases_of(run, rows, siblings_of(run, runs), lost_below=0.5)      a Case for each question
    frame(cases_by_run(pairs)), table(...)                                  counts and shares with intervals

CLASSES are exclusive; the first that holds is taken. Causes that need no other run come first, then
those that the method could have avoided, then the reader's. docs/methods/scoring.md#autopsy has the
reasons for the order.

    siblings        the same questions, rows, task and reader: a run that was shown the evidence alone (oracle-evidence)
                    and one that was shown nothing (closed-book)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.config.schema import DatasetConfig
from harness.config.yaml_tree import dataset_of_run
from harness.engine.scoring import score_reply
from harness.scorers import ScoreError
from harness.storage.records import StoredRecord
from harness.storage.run_folder import StoredRun
from harness.types import parse_shown
from reports import facts
from reports.answer_recall import has_answer
from reports.comparability import question_set
from reports.figures.replay import Rule, own_stop_index
from reports.gold_rows import Rows
from reports.search_steps import STUDY

CLASSES = {
    "read": ("right, and wrong without any text", "#009E73"),
    "known": ("right, and right without any text: recalled, perhaps not read", "#7fcfb9"),
    "right": ("right; no run without any text to compare with", "#009E73"),
    "failed": ("no answer: the question failed", "#000000"),
    "scorer": ("right by another scorer, or the gold answer stands in the answer", "#999999"),
    "stopped too late": ("an earlier recorded stop is right", "#CC79A7"),
    "stopped too early": ("a later recorded stop is right", "#882255"),
    "beyond the model": ("wrong on the evidence alone too", "#d5dae1"),
    "cut by the window": (
        "right on the evidence alone; a part of it was cut off the context",
        "#F0E442",
    ),
    "not retrieved": ("right on the evidence alone; not all of it was shown", "#D55E00"),
    "misread": ("right on the evidence alone; all of it was shown", "#0072B2"),
    "unknown": ("no run on the evidence alone, or no evidence is marked", "#ffffff"),
}
"""Class of a question -> what it means, its colour in figures."""
LOST_BELOW = 0.5
"""A question is lost where its headline score is below this; graded scores (F1) have no natural
border."""


@dataclass(frozen=True)
class Case:
    """One question of a run. kind: of CLASSES; known: whether the run without any text is right,
    None without one."""

    question_id: str
    cluster: int
    score: float
    kind: str
    known: bool | None


@dataclass(frozen=True)
class Siblings:
    """Scores by question of the runs to compare with, None where there is no such run."""

    oracle: Mapping[str, float] | None
    closed_book: Mapping[str, float] | None

    @property
    def missing(self) -> list[str]:
        """Presets that would have to run for what is missing."""
        pairs = (("oracle-evidence", self.oracle), ("closed-book", self.closed_book))
        return [name for name, scores in pairs if scores is None]


def is_closed_book(run: StoredRun) -> bool:
    """Whether the reader was shown no text at all."""
    return not any(record.shown for record in run.records)


def siblings_of(run: StoredRun, runs: Sequence[StoredRun]) -> Siblings:
    """The siblings of `run` among `runs`: those with all its questions, the same rows, task, reader
    and first score."""
    asked, task, reader, name = (
        question_set(run),
        facts.task(run),
        facts.reader(run),
        facts.headline(run),
    )

    def sibling_scores(is_sibling: Callable[[StoredRun], bool]) -> Mapping[str, float] | None:
        """Question -> score of the first such sibling; None where there is none."""
        for other in runs:
            rows, questions = question_set(other)
            alike = rows == asked[0] and questions >= asked[1] and facts.task(other) == task
            if (
                alike
                and is_sibling(other)
                and facts.reader(other) == reader
                and name in facts.score_names(other)
            ):
                return {r.question_id: float(r.scores.get(name) or 0.0) for r in other.records}
        return None

    return Siblings(sibling_scores(facts.is_oracle), sibling_scores(is_closed_book))


def cases_by_run(
    pairs: Sequence[tuple[StoredRun, Rows]], lost_below: float = LOST_BELOW
) -> dict[tuple[str, str, str], list[Case]]:
    """The cases of each run that is no sibling itself, by (data set, label, model); lost_below: as
    in LOST_BELOW."""
    runs = [run for run, _ in pairs]
    cases = {}
    for (run, rows), label in zip(pairs, facts.labels(runs), strict=True):
        if not (facts.is_oracle(run) or is_closed_book(run)):
            key = str(run.config["dataset"]["name"]), label, str(run.config["model"]["name"])
            cases[key] = cases_of(run, rows, siblings_of(run, runs), lost_below)
    return cases


def cases_of(
    run: StoredRun, rows: Rows, siblings: Siblings, lost_below: float = LOST_BELOW
) -> list[Case]:
    """A case for each question, in the order of the records. rows: gold answers; lost_below: lower
    scores are lost."""
    name = facts.headline(run)
    dataset = dataset_of_run(run.config, str(run.path)).model_copy(update={"scorers": (name,)})
    cases = []
    for record, cluster in zip(run.records, facts.question_clusters(run), strict=True):
        question = record.question_id
        value = float(record.scores.get(name) or 0.0)
        known_without_documents = (
            None if siblings.closed_book is None else siblings.closed_book[question] >= lost_below
        )
        if record.error is not None:
            kind = "failed"
        elif value >= lost_below:
            kind = (
                "right"
                if known_without_documents is None
                else "known"
                if known_without_documents
                else "read"
            )
        else:
            oracle = None if siblings.oracle is None else siblings.oracle[question] >= lost_below
            kind = _loss_class(record, rows, dataset, oracle, lost_below)
        cases.append(Case(question, cluster, value, kind, known_without_documents))
    return cases


def _loss_class(
    record: StoredRecord,
    rows: Rows,
    dataset: DatasetConfig,
    oracle: bool | None,
    lost_below: float,
) -> str:
    """The class of a question with a wrong answer; oracle: whether the run on the evidence alone is
    right."""
    example = rows.examples.get(record.question_id)
    answer_scores = (
        v for name, v in record.scores.items() if not name.startswith("evidence_") and v is not None
    )
    if any(value >= lost_below for value in answer_scores):
        return "scorer"
    lettered = (
        example is not None and example.question.options
    )  # the letter of an option stands in any text
    if example is not None and not lettered and has_answer(record.prediction, example.gold.answers):
        return "scorer"
    if example is not None and (stop := _wrong_stop_class(record, dataset, example, lost_below)):
        return stop
    if oracle is None:
        return "unknown"
    if not oracle:
        return "beyond the model"
    recall = record.scores.get("evidence_recall")
    if recall is None:
        return "unknown"
    if recall >= 1:
        return "misread"
    return "cut by the window" if record.truncated else "not retrieved"


def _wrong_stop_class(
    record: StoredRecord, dataset: DatasetConfig, example: Any, lost_below: float
) -> str | None:
    """ "stopped too early" or "stopped too late" where the answer at another recorded stop is
    right; else None."""
    stop_index = own_stop_index(record)
    for place, step in enumerate(record.steps):
        if step.get("answer") is None or place == stop_index:
            continue
        seen = [parse_shown(part) for part in Rule.shown(record.steps[: place + 1])]
        try:
            scores = score_reply(dataset, str(step["answer"]), seen, example.gold).scores
        except ScoreError:
            continue
        if (scores.get(dataset.scorers[0]) or 0.0) >= lost_below:
            return (
                "stopped too early"
                if place > stop_index or step["action"] == STUDY
                else "stopped too late"
            )
    return None


def frame(cases: Mapping[tuple[str, str, str], Sequence[Case]]) -> pd.DataFrame:
    """One row a run and class that occurs; the keys are (data set, method, model).

    count; share, share.low, share.high: of all questions of the run, in [0, 1], 95 % interval, by
    cluster;
    known: how many of them the run without any text answers right (missing without one); examples:
    question ids.
    """
    rows = []
    for (dataset, method, model), run_cases in cases.items():
        clusters = [case.cluster for case in run_cases]
        for kind in CLASSES:
            members = [case for case in run_cases if case.kind == kind]
            if not members:
                continue
            known = None if members[0].known is None else sum(bool(case.known) for case in members)
            rows.append(
                {
                    "dataset": dataset,
                    "method": method,
                    "model": model,
                    "class": kind,
                    "count": len(members),
                    "n": len(run_cases),
                    **facts.mean_columns(
                        "share", [float(case.kind == kind) for case in run_cases], clusters, seed=0
                    ),
                    "known": known,
                    "examples": tuple(case.question_id for case in members),
                }
            )
    return pd.DataFrame(rows)


def table(cases: Mapping[tuple[str, str, str], Sequence[Case]]) -> list[tuple[str, pd.DataFrame]]:
    """For each data set and model a table for people: a row a class, a column a method, "12 (24 %)
    [15, 36]"."""
    sections = []
    for (dataset, model), group in frame(cases).groupby(["dataset", "model"], sort=False):
        cells = []
        for row in group.to_dict("records"):
            low, high = row["share.low"], row["share.high"]
            between = "" if pd.isna(low) else f" [{100 * low:.0f}, {100 * high:.0f}]"
            cells.append(f"{row['count']} ({100 * row['share']:.0f} %){between}")
        by_class = (
            group.assign(cell=cells)
            .pivot(index="class", columns="method", values="cell")
            .fillna("0")
        )
        kinds = [kind for kind in CLASSES if kind in by_class.index]
        lines = by_class.loc[kinds, list(dict.fromkeys(group["method"]))].rename_axis(columns=None)
        lines["what it means"] = [CLASSES[kind][0] for kind in kinds]
        sections.append(
            (f"{dataset} · {model} · {group['n'].iloc[0]} questions", lines.reset_index())
        )
    return sections
