"""How far the judges of a run agree: those of correctness with each other and the data set's first
score, all with hand labels.

    judge_agreements(run)   -> [Raters("judge.m", "musique.answer_f1", Agreement(198, 0.92, 0.84))]
    label_agreements(run, labels)      the same with "labels" as the second

A score that is no judge's counts as right from RIGHT on. Failed questions, which every score counts
as wrong, are left out: all would agree on them.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from harness.datasets.files import read_rows, read_text_file
from harness.datasets.row_places import BrokenRow
from harness.datasets.tables import sniffed_table
from harness.errors import UserError
from harness.stats.paired_tests import PairedTest, paired_test
from harness.storage.run_folder import StoredRun
from harness.types import JUDGES
from reports import facts

RIGHT = 0.5
LABELS = "labels"
_WORDS = {"true": "yes", "false": "no"}


@dataclass(frozen=True)
class Agreement:
    """How far two raters agree.

    Args:
        n: Items that both rated.
        share: Of these, those that both rate alike; None without items.
        kappa: J. Cohen's (1960), 1 for full agreement and 0 for that of chance,
            (share - chance) / (1 - chance), where chance is the share expected of independent
            raters who give each rating as often as these do. None where chance alone agrees always:
            both gave every item one rating.
    """

    n: int
    share: float | None
    kappa: float | None


@dataclass(frozen=True)
class Raters:
    """Two raters of a run's answers, judges or scores, and how far they agree."""

    first: str
    second: str
    agreement: Agreement

    def columns(self) -> dict[str, Any]:
        """The two as a row of a table."""
        found = self.agreement
        return {
            "a": self.first,
            "b": self.second,
            "n": found.n,
            "share": found.share,
            "kappa": found.kappa,
        }


def judge_agreements(run: StoredRun) -> list[Raters]:
    """Each judge of correctness with the data set's first score, then each with each other."""
    kinds = {}
    for name, entry in (run.manifest.get("judges") or {}).items():
        kinds[name] = entry.get("kind", "correctness")
    judges = [name for name in facts.judges(run) if kinds.get(name) == "correctness"]
    headline = facts.first_score(run)
    pairs = [(judge, headline) for judge in judges]
    pairs += combinations(judges, 2)
    return [Raters(one, other, _score_agreement(run, one, other)) for one, other in pairs]


def _score_agreement(run: StoredRun, one: str, other: str) -> Agreement:
    """How far two scores agree on which answers are right."""
    both = []
    for record in run.records:
        scores = record.scores
        if record.error is None and one in scores and other in scores:
            both.append((scores[one] >= RIGHT, scores[other] >= RIGHT))
    return agreement(both)


@dataclass(frozen=True)
class PairwiseResult:
    """What a judge prefers, of a run and another one.

    Args:
        other_run: Name of the other run's folder.
        wins: Questions on which the run's answer is preferred in both orders.
        ties: Those on which neither is.
        losses: Those on which the other is.
        test: Wins less losses as a share of these questions; None without any.
    """

    other_run: str
    wins: int
    ties: int
    losses: int
    test: PairedTest | None

    def columns(self) -> dict[str, Any]:
        """The result as a row of a table."""
        row: dict[str, Any] = {"other_run": self.other_run}
        row |= {"wins": self.wins, "ties": self.ties, "losses": self.losses}
        if self.test is not None:
            row |= {"difference": self.test.difference, "low": self.test.low}
            row |= {"high": self.test.high, "p": self.test.p, "documents": self.test.clusters}
        return row


def pairwise_result(run: StoredRun, judge: str) -> PairwiseResult:
    """The wins, ties and losses of a run by a judge of pairs, with the test by document."""
    scored = facts.scored(run, judge)
    values = list(scored.values)
    wins, ties = values.count(1.0), values.count(0.5)
    test = None
    if values:
        lost = [1.0 - value for value in values]
        test = paired_test(values, lost, scored.clusters)
    other_run = str(run.manifest["judges"][judge]["other_run"])
    return PairwiseResult(other_run, wins, ties, len(values) - wins - ties, test)


def label_agreements(run: StoredRun, labels: Mapping[str, str]) -> list[Raters]:
    """Each judge of the run beside labels given by hand.

    labels: question id -> verdict, as `read_labels` returns them; those of other questions are not
    counted in n. Without any there is no pair.
    """
    if not labels:
        return []
    return [
        Raters(judge, LABELS, _label_agreement(run, judge, labels)) for judge in facts.judges(run)
    ]


def _label_agreement(run: StoredRun, judge: str, labels: Mapping[str, str]) -> Agreement:
    """How far the verdicts of a judge are the labels."""
    verdicts = {}
    for record in run.records:
        judged = (record.notes.get(JUDGES) or {}).get(judge)
        if judged:
            verdicts[record.question_id] = judged["verdict"]
    labelled = labels.items()
    return agreement([(verdicts[name], label) for name, label in labelled if name in verdicts])


def read_labels(path: Path, note: Callable[[str], None]) -> dict[str, str]:
    """Read labels given by hand.

    Args:
        path: JSON lines or CSV with `question_id` and `label`: yes or no (true, false), or a number
            of a rubric.
        note: Gets a sentence where the file is not UTF-8 and its encoding was guessed.

    Returns:
        Question id -> "yes", "no" or the number, as a judge's verdict.

    Raises:
        UserError: The file cannot be read, or a row lacks one of the two.
    """
    try:
        rows = _label_rows(path, note)
    except OSError as error:
        raise UserError(f"--labels {path}: cannot be read ({error.strerror})") from None
    labels = {}
    for number, row in enumerate(rows, start=1):
        if isinstance(row, BrokenRow) or not _is_labelled(row):
            raise UserError(f"--labels {path}: row {number} needs question_id and label")
        text = str(row["label"]).strip().lower()
        labels[str(row["question_id"])] = _WORDS.get(text, text)
    return labels


def _label_rows(path: Path, note: Callable[[str], None]) -> list[Any]:
    """The rows of a file of labels; arguments as of `read_labels`."""
    if path.suffix.lower() != ".csv":
        return [row for _, row in read_rows(path)]
    decoded = read_text_file(path)
    if decoded.assumed:
        note(f"{path.name} is not UTF-8 and was read as {decoded.assumed}")
    return [row for _, row in sniffed_table(path.name, decoded.text)]


def _is_labelled(row: Mapping[str, Any]) -> bool:
    return bool(row.get("question_id")) and row.get("label") not in (None, "")


def agreement(pairs: Sequence[tuple[Hashable, Hashable]]) -> Agreement:
    """How far two raters agree; pairs: what both say of each item.

    >>> agreement([(True, True), (True, False), (False, False), (False, False)])
    Agreement(n=4, share=0.75, kappa=0.5)
    """
    n = len(pairs)
    if not n:
        return Agreement(0, None, None)
    alike = sum(one == other for one, other in pairs)
    ratings = Counter(one for one, _ in pairs)
    other_ratings = Counter(other for _, other in pairs)
    # Times n^2, so that full agreement is met exactly.
    chance = sum(count * other_ratings[rating] for rating, count in ratings.items())
    if chance == n * n:
        return Agreement(n, alike / n, None)
    return Agreement(n, alike / n, (alike * n - chance) / (n * n - chance))
