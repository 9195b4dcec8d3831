"""How far the judges of a run agree: those of correctness with each other and the headline score,
all with hand labels.

    judge_agreements(run)           [{"a": "judge.m", "b": "musique.answer_f1", "n": 198, "share": 0.92, "kappa": 0.84}]
    label_agreements(run, labels)   the same with "b": "labels"

A score that is no judge's counts as right from RIGHT on. Failed questions, which every score counts
as wrong, are left out: all would agree on them.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from harness.datasets.files import read_rows, read_text_file
from harness.datasets.row_places import BrokenRow
from harness.datasets.tables import sniffed_table
from harness.errors import UserError
from harness.storage.run_folder import StoredRun
from harness.types import JUDGES
from reports import facts

RIGHT = 0.5
LABELS = "labels"
_WORDS = {"true": "yes", "false": "no"}


def judge_agreements(run: StoredRun) -> list[dict[str, Any]]:
    """Each judge of correctness with the headline score, then each with each other: a, b, n, share,
    kappa."""
    kinds = {
        name: entry.get("kind", "correctness")
        for name, entry in (run.manifest.get("judges") or {}).items()
    }
    judges = [name for name in facts.judges(run) if kinds.get(name) == "correctness"]
    headline = facts.headline(run)
    scores = [record.scores for record in run.records if record.error is None]
    pairs = []
    with_headline = [(judge, headline) for judge in judges if judge != headline]
    for a, b in [*with_headline, *combinations(judges, 2)]:
        both = [(row[a] >= RIGHT, row[b] >= RIGHT) for row in scores if a in row and b in row]
        pairs.append({"a": a, "b": b, "n": len(both)} | agreement(both))
    return pairs


def label_agreements(run: StoredRun, labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """Each judge of the run beside labels given by hand: a, b, n, share, kappa.

    labels: question id -> verdict, as `read_labels` returns them; those of other questions are not
    counted in n.
    """
    pairs = []
    for judge in facts.judges(run):
        judged = {row.question_id: (row.notes.get(JUDGES) or {}).get(judge) for row in run.records}
        both = [
            (verdict["verdict"], label)
            for question, label in labels.items()
            if (verdict := judged.get(question))
        ]
        pairs.append({"a": judge, "b": LABELS, "n": len(both)} | agreement(both))
    return pairs


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
        if path.suffix.lower() == ".csv":
            decoded = read_text_file(path)
            if decoded.assumed:
                note(f"{path.name} is not UTF-8 and was read as {decoded.assumed}")
            rows = [row for _, row in sniffed_table(path.name, decoded.text)]
        else:
            rows = [row for _, row in read_rows(path)]
    except OSError as error:
        raise UserError(f"--labels {path}: cannot be read ({error.strerror})") from None
    labels = {}
    for number, row in enumerate(rows, start=1):
        label = None if isinstance(row, BrokenRow) else row.get("label")
        if isinstance(row, BrokenRow) or not row.get("question_id") or label in (None, ""):
            raise UserError(f"--labels {path}: row {number} needs question_id and label")
        text = str(label).strip().lower()
        labels[str(row["question_id"])] = _WORDS.get(text, text)
    return labels


def agreement(pairs: Sequence[tuple[Hashable, Hashable]]) -> dict[str, float | None]:
    """How far two raters agree; pairs: what both say of each item.

    share: of items that both rate alike (None without items); kappa: Cohen's, 1 for full agreement
    and 0 for that of chance, (share - chance) / (1 - chance), where chance is the share expected of
    independent raters who give each rating as often as these do (J. Cohen 1960). None where chance
    alone agrees always: both gave every item one rating.

    >>> agreement([(True, True), (True, False), (False, False), (False, False)])
    {'share': 0.75, 'kappa': 0.5}
    """
    n = len(pairs)
    if not n:
        return {"share": None, "kappa": None}
    alike = sum(a == b for a, b in pairs)
    counts, others = (Counter(ratings) for ratings in zip(*pairs, strict=True))
    chance = sum(
        count * others[rating] for rating, count in counts.items()
    )  # times n^2, so that 1 is met exactly
    return {
        "share": alike / n,
        "kappa": None if chance == n * n else (alike * n - chance) / (n * n - chance),
    }
