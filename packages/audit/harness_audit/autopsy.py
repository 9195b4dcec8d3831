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

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.config.schema import DatasetConfig
from harness.config.yaml_tree import dataset_of_run
from harness.engine.scoring import score_reply
from harness.scorers import ScoreError
from harness.storage.records import StoredRecord, parse_shown
from harness.storage.run_folder import StoredRun
from harness.types import Example
from reports import facts
from reports.answer_recall import contains_answer
from reports.comparability import question_set
from reports.figures.replay import Rule, own_stop_index
from reports.gold_rows import QuestionRows
from reports.search_steps import STUDY_ACTION


@dataclass(frozen=True)
class LossClass:
    """A class of questions: what it means, and its colour in figures."""

    meaning: str
    colour: str


CLASSES = {
    "read": LossClass("right, and wrong without any text", "#009E73"),
    "known": LossClass("right, and right without any text: recalled, perhaps not read", "#7fcfb9"),
    "right": LossClass("right; no run without any text to compare with", "#009E73"),
    "failed": LossClass("no answer: the question failed", "#000000"),
    "scorer": LossClass(
        "right by another scorer, or the gold answer stands in the answer", "#999999"
    ),
    "stopped too late": LossClass("an earlier recorded stop is right", "#CC79A7"),
    "stopped too early": LossClass("a later recorded stop is right", "#882255"),
    "beyond the model": LossClass("wrong on the evidence alone too", "#d5dae1"),
    "cut by the window": LossClass(
        "right on the evidence alone; a part of it was cut off the context", "#F0E442"
    ),
    "not retrieved": LossClass("right on the evidence alone; not all of it was shown", "#D55E00"),
    "misread": LossClass("right on the evidence alone; all of it was shown", "#0072B2"),
    "unknown": LossClass("no run on the evidence alone, or no evidence is marked", "#ffffff"),
}
"""Every class by its name."""
LOST_BELOW = 0.5
"""A question is lost where its headline score is below this; graded scores (F1) have no natural
border."""


@dataclass(frozen=True)
class Case:
    """One question of a run.

    Args:
        question_id: Its id.
        cluster: The number of the cluster of its documents.
        score: Its headline score.
        kind: Its class, one of CLASSES.
        known: Whether the run without any text is right; None without such a run.
    """

    question_id: str
    cluster: int
    score: float
    kind: str
    known: bool | None


RunKey = tuple[str, str, str]
"""What names a run in tables: its data set, its label, its model."""


@dataclass(frozen=True)
class Siblings:
    """Runs to compare a run with, as score by question; None where there is no such run.

    Args:
        oracle: Question id -> score of the run that was shown the evidence alone.
        closed_book: Question id -> score of the run that was shown no text.
    """

    oracle: Mapping[str, float] | None
    closed_book: Mapping[str, float] | None

    @property
    def missing(self) -> list[str]:
        """The presets of the siblings that are missing: "oracle-evidence", "closed-book"."""
        presets = []
        if self.oracle is None:
            presets.append("oracle-evidence")
        if self.closed_book is None:
            presets.append("closed-book")
        return presets


def is_closed_book(run: StoredRun) -> bool:
    """Whether the reader was shown no text at all, for any question."""
    return not any(record.shown for record in run.records)


def siblings_of(run: StoredRun, runs: Sequence[StoredRun]) -> Siblings:
    """Find the runs to compare `run` with: on the evidence alone, and without any text.

    Args:
        run: The run.
        runs: The runs to look among; one fits if it has all questions of `run`, and the same rows,
            task, reader and first score.
    """
    return Siblings(
        oracle=_sibling_scores(run, runs, facts.is_oracle),
        closed_book=_sibling_scores(run, runs, is_closed_book),
    )


def _is_comparable(run: StoredRun, other: StoredRun) -> bool:
    """Whether a run can stand beside another, question by question: it has all its questions, the
    same rows, task and reader, and its first score.

    Args:
        run: The run that is explained.
        other: The run that it is compared with.
    """
    rows, questions = question_set(run)
    other_rows, other_questions = question_set(other)
    return (
        other_rows == rows
        and other_questions >= questions
        and facts.task_settings(other) == facts.task_settings(run)
        and facts.reader_identity(other) == facts.reader_identity(run)
        and facts.headline_score(run) in facts.score_names(other)
    )


def _sibling_scores(
    run: StoredRun, runs: Iterable[StoredRun], is_sibling: Callable[[StoredRun], bool]
) -> dict[str, float] | None:
    """Question id -> score of the first sibling of one kind, by the first score of `run`, 0 where a
    question has none; None where there is no such sibling.

    Args:
        run: The run to compare with its siblings.
        runs: The runs to look among; one is a sibling only if it has the same rows, task, reader
            and score, and all questions of `run`.
        is_sibling: Whether a run is of the kind that is looked for.
    """
    headline = facts.headline_score(run)
    for other in runs:
        if is_sibling(other) and _is_comparable(run, other):
            return {
                record.question_id: float(record.scores.get(headline) or 0.0)
                for record in other.records
            }
    return None


def cases_by_run(
    pairs: Sequence[tuple[StoredRun, QuestionRows]], lost_below: float = LOST_BELOW
) -> dict[RunKey, list[Case]]:
    """(data set, label, model) -> the cases of that run, one a question. Runs that others are
    compared with are left out.

    Args:
        pairs: Each run with its rows.
        lost_below: Questions with a lower headline score are lost.
    """
    runs = [run for run, _ in pairs]
    cases = {}
    for (run, rows), label in zip(pairs, facts.run_labels(runs), strict=True):
        if not (facts.is_oracle(run) or is_closed_book(run)):
            run_key = run.config.dataset.name, label, run.config.model.name
            cases[run_key] = cases_of(run, rows, siblings_of(run, runs), lost_below)
    return cases


def cases_of(
    run: StoredRun, rows: QuestionRows, siblings: Siblings, lost_below: float = LOST_BELOW
) -> list[Case]:
    """A case for each question of a run, in the order of its records, with its class: "failed", for
    a right answer "read", "known" or "right" (by what the run without any text answered), else why
    it was lost.

    Args:
        run: The run.
        rows: The rows of its data set, with gold answers.
        siblings: The scores of the runs to compare with: on the evidence alone, and closed-book.
        lost_below: Questions with a lower headline score (the run's first) are lost; no score
            counts as 0.
    """
    headline = facts.headline_score(run)
    dataset = dataset_of_run(run.config, str(run.path))
    dataset_with_headline_alone = dataset.model_copy(update={"scorers": (headline,)})
    cases = []
    for record, cluster in zip(run.records, facts.question_clusters(run), strict=True):
        question_id = record.question_id
        score = float(record.scores.get(headline) or 0.0)
        closed_book_is_right = _is_sibling_right(siblings.closed_book, question_id, lost_below)
        oracle_is_right = _is_sibling_right(siblings.oracle, question_id, lost_below)
        if record.error is not None:
            kind = "failed"
        elif score >= lost_below:
            kind = _CLASS_BY_CLOSED_BOOK_BEING_RIGHT[closed_book_is_right]
        else:
            kind = _loss_class(
                record, rows, dataset_with_headline_alone, oracle_is_right, lost_below
            )
        cases.append(Case(question_id, cluster, score, kind, known=closed_book_is_right))
    return cases


def _is_sibling_right(
    scores: Mapping[str, float] | None, question_id: str, lost_below: float
) -> bool | None:
    """Whether a sibling run answers a question right; None without such a run.

    Args:
        scores: Question id -> score of the sibling; None where there is no such run.
        question_id: The question.
        lost_below: Lower scores are wrong.
    """
    if scores is None:
        return None
    return scores[question_id] >= lost_below


_CLASS_BY_CLOSED_BOOK_BEING_RIGHT: dict[bool | None, str] = {
    None: "right",
    True: "known",
    False: "read",
}
"""Whether the run without any text is right -> the class of a right answer."""


def _loss_class(
    record: StoredRecord,
    rows: QuestionRows,
    dataset: DatasetConfig,
    oracle_is_right: bool | None,
    lost_below: float,
) -> str:
    """Why the answer to a question is wrong: the name of the first of CLASSES that holds.

    Args:
        record: The record of the question.
        rows: The rows of the data set, with gold answers.
        dataset: The run's data set, with the first scorer alone.
        oracle_is_right: Whether the run on the evidence alone is right; None without one.
        lost_below: Lower scores are lost.
    """
    example = rows.examples.get(record.question_id)
    if _is_right_by_other_measure(record, example, lost_below):
        return "scorer"
    stop_class = None
    if example is not None:
        stop_class = _wrong_stop_class(record, dataset, example, lost_below)
    if stop_class is not None:
        return stop_class
    if oracle_is_right is None:
        return "unknown"
    if not oracle_is_right:
        return "beyond the model"
    evidence_recall = record.scores.get("evidence_recall")
    if evidence_recall is None:
        return "unknown"
    if evidence_recall >= 1:
        return "misread"
    if record.truncated:
        return "cut by the window"
    return "not retrieved"


def _is_right_by_other_measure(
    record: StoredRecord, example: Example | None, lost_below: float
) -> bool:
    """Whether an answer that the headline calls wrong is right by another score, or contains a gold
    answer.

    Args:
        record: The record of the question.
        example: The question with its gold answers, where they are at hand.
        lost_below: Lower scores are lost.
    """
    for name, score in record.scores.items():
        if name.startswith("evidence_") or score is None:
            continue
        if score >= lost_below:
            return True
    # The letter of an option stands in any text.
    if example is None or example.question.options:
        return False
    return bool(contains_answer(record.prediction, example.gold.answers))


def _wrong_stop_class(
    record: StoredRecord, dataset: DatasetConfig, example: Example, lost_below: float
) -> str | None:
    """Whether the search stopped at a wrong moment: "stopped too early" or "stopped too late" where
    the answer at a later or an earlier recorded stop is right; None where none is.

    With --record-stops the reader also answers at stops that the search did not make. Each such
    step has "answer"; where it was made after the search had ended, its action is STUDY_ACTION.

    Args:
        record: The record of the question, with the steps of its search.
        dataset: The run's data set, with the first scorer alone, by which the answers are scored.
        example: The question with its gold answers.
        lost_below: Lower scores are lost.
    """
    stop_index = own_stop_index(record)
    for step_index, step in enumerate(record.steps):
        if step.get("answer") is None or step_index == stop_index:
            continue
        steps_so_far = record.steps[: step_index + 1]
        shown_passages = [parse_shown(part) for part in Rule.shown_after(steps_so_far)]
        try:
            scores = score_reply(dataset, str(step["answer"]), shown_passages, example.gold).scores
        except ScoreError:
            continue
        if (scores.get(dataset.scorers[0]) or 0.0) < lost_below:
            continue
        if step_index > stop_index or step["action"] == STUDY_ACTION:
            return "stopped too early"
        return "stopped too late"
    return None


def frame(cases: Mapping[RunKey, Sequence[Case]]) -> pd.DataFrame:
    """A row for each run and class of questions that occurs in it.

        dataset, method, model             of the run, as in the keys of `cases`
        class, count, n                    a name in CLASSES, its questions, all of the run
        share, share.low, share.high       count / n in [0, 1] with its 95 % interval, by cluster
        known                              how many of them the run without any text answers right,
                                           None without such a run
        examples                           ids of all its questions

    Args:
        cases: (data set, method, model) -> a case for each question of that run.
    """
    rows = []
    for (dataset, method, model), run_cases in cases.items():
        for kind in CLASSES:
            class_cases = [case for case in run_cases if case.kind == kind]
            if not class_cases:
                continue
            row: dict[str, object] = {"dataset": dataset, "method": method, "model": model}
            row["class"] = kind
            row["count"] = len(class_cases)
            row["n"] = len(run_cases)
            row.update(_share_columns(run_cases, kind))
            row["known"] = _count_right_without_text(class_cases)
            row["examples"] = tuple(case.question_id for case in class_cases)
            rows.append(row)
    return pd.DataFrame(rows)


def _share_columns(cases: Sequence[Case], kind: str) -> dict[str, float | None]:
    """The columns share, share.low and share.high: how many of a run's questions are of a class.

    Args:
        cases: All questions of the run.
        kind: The class.
    """
    is_of_class = [float(case.kind == kind) for case in cases]
    clusters = [case.cluster for case in cases]
    return facts.mean_columns("share", is_of_class, clusters, seed=0)


def _count_right_without_text(cases: Sequence[Case]) -> int | None:
    """How many of the questions the run without any text answers right; None where there is no such
    run."""
    if cases[0].known is None:
        return None
    return sum(bool(case.known) for case in cases)


def table(cases: Mapping[RunKey, Sequence[Case]]) -> list[tuple[str, pd.DataFrame]]:
    """A titled table for people for each data set and model: a row for each class that occurs, a
    column for each method, with cells "12 (24 %) [15, 36]" ("0" for none), and last the column
    "what it means".

    Args:
        cases: (data set, method, model) -> a case for each question of that run.
    """
    titled_tables = []
    for (dataset, model), class_rows in frame(cases).groupby(["dataset", "model"], sort=False):
        method_names = class_rows["method"].unique().tolist()
        occurring_classes = set(class_rows["class"])
        class_names = [kind for kind in CLASSES if kind in occurring_classes]
        cells = pd.DataFrame("0", index=class_names, columns=method_names).rename_axis("class")
        for row in class_rows.to_dict("records"):
            cells.loc[row["class"], row["method"]] = _share_cell(row)
        cells["what it means"] = [CLASSES[kind].meaning for kind in class_names]
        title = f"{dataset} · {model} · {class_rows['n'].iloc[0]} questions"
        titled_tables.append((title, cells.reset_index()))
    return titled_tables


def _share_cell(row: Mapping[Hashable, Any]) -> str:
    """ "12 (24 %) [15, 36]": how many questions are of a class, their share, and its interval where
    it has one.

    Args:
        row: A row of `frame`.
    """
    cell = f"{row['count']} ({100 * row['share']:.0f} %)"
    low = row["share.low"]
    high = row["share.high"]
    if pd.isna(low):
        return cell
    return f"{cell} [{100 * low:.0f}, {100 * high:.0f}]"
