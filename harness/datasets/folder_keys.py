"""The keys that a row of a file of questions may have, and what is said of the others.

"answereable"   refused: is no key of a question; did you mean 'answerable'?
"topic"         noted: keys that are not read: topic (10 questions)
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches

from harness.assertions import NAMES as ASSERTIONS
from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import RowError

FIELDS = (
    "question", "answer", "answers", "document", "documents", "gold_pages", "id", "answerable",
    *ASSERTIONS,
)  # fmt: skip
RAGAS = {"user_input": "question", "reference": "answer"}
GROUND_TRUTH = ("ground_truth", "ground_truths")  # of ragas before 0.2, whose answer is a model's
# Of the published forms of open_rows.py, and of SQuAD.
_PUBLISHED = (
    "golden_answers", "possible_answers", "annotations", "Answer", "Question",
    "ambiguous_question", "output", "metadata", "prop", "qa_pairs", "gold_passages",
    "sample_id", "question_id", "QuestionId", "_id", "is_impossible",
)  # fmt: skip
# "idx" and "ids" are common names of columns, not misspelt ones. A row without a question is
# refused anyway.
_PROPOSED = tuple(name for name in (*FIELDS, "is_impossible") if name not in ("id", "question"))
_SINGULAR = {"answers": "answer", "documents": "document"}
_CLOSE = 0.8  # of difflib: "anwser" is 0.83 from "answer"
_LISTED = 8  # keys in the note


@dataclass(slots=True)
class UnreadKeys:
    """The keys that are not read.

    Attributes:
        names: Each key once, in the order in which they came: an ordered set, its values are None.
        questions: How many questions have such a key.
    """

    names: dict[str, None] = field(default_factory=dict)
    questions: int = 0

    def add(self, names: Iterable[str]) -> None:
        """Add the unread keys of a question, and count the question if it has any.

        Args:
            names: Its keys that are not read; may be empty.
        """
        new_names = dict.fromkeys(names)
        if new_names:
            self.names.update(new_names)
            self.questions += 1

    def notes(self) -> list[str]:
        """[a sentence on the keys that are not read], "keys that are not read: topic (10
        questions)".

        [] without any.
        """
        if not self.names:
            return []
        names = list(self.names)
        listed = ", ".join(name[:40] for name in names[:_LISTED])
        if len(names) > _LISTED:
            listed += f" and {len(names) - _LISTED} more"
        noun = "questions"
        if self.questions == 1:
            noun = "question"
        return [f"keys that are not read: {listed} ({self.questions} {noun})"]


def unread_keys(row: RawRow, other_tools: bool) -> list[str]:
    """The keys of a row that nothing reads.

    Args:
        row: The row with our names; "input" is read only beside an "output", as in KILT.
        other_tools: Whether the names of ragas are read too.

    Raises:
        RowError: A key looks like a misspelt one of ours that the row lacks.
    """
    read = {*FIELDS, *_PUBLISHED}
    if other_tools:
        read.update((*RAGAS, *GROUND_TRUTH))
    if "output" in row:
        read.add("input")
    unread = [str(name) for name in row if name not in read]
    present = {_SINGULAR.get(name, name) for name in row}
    for name in unread:
        meant = _meant(name)
        if meant is not None and _SINGULAR.get(meant, meant) not in present:
            question = f"did you mean '{meant}'? (--columns names others)"
            raise RowError(None, f"'{name}' is no key of a question; {question}")
    return unread


def _meant(name: str) -> str | None:
    """The key of ours that a name looks like: "anwser" -> "answer"; None where it looks like
    none.
    """
    close = get_close_matches(name.strip().casefold(), _PROPOSED, n=1, cutoff=_CLOSE)
    if not close or _is_compound(name, close[0]):
        return None
    return close[0]


def _is_compound(name: str, known: str) -> bool:
    """Whether a name is a known key and a further word, as "document_id" and "documentId" are.

    Args:
        name: The name in a row.
        known: The key, "document".
    """
    rest = name[len(known) :]
    if name[: len(known)].casefold() != known or not rest:
        return False
    return rest[0] in "_-. " or rest[0].isupper()
