"""The keys that a row of a file of questions may have, and what is said of the others.

"answereable"   refused: is no key of a question; did you mean 'answerable'?
"topic"         noted: keys that are not read: topic (10 questions)
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from harness.assertions import ASSERTION_NAMES as ASSERTIONS
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
_PROPOSED_KEYS = tuple(
    name for name in (*FIELDS, "is_impossible") if name not in ("id", "question")
)
_SINGULAR = {"answers": "answer", "documents": "document"}
_LEAST_SIMILARITY = 0.8  # of difflib: that of "anwser" and "answer" is 0.83
_MAX_LISTED = 8  # keys in the note


@dataclass(slots=True)
class UnreadKeys:
    """The keys that are not read.

    Attributes:
        keys: Each key once, in the order in which they came: an ordered set, its values are None.
        n_questions: How many questions have such a key.
    """

    keys: dict[str, None] = field(default_factory=dict)
    n_questions: int = 0

    def add_question(self, unread_keys: Sequence[str]) -> None:
        """Add the unread keys of a question, and count the question if it has any.

        Args:
            unread_keys: Its keys that are not read; may be empty.
        """
        if unread_keys:
            self.keys.update(dict.fromkeys(unread_keys))
            self.n_questions += 1

    def notes(self) -> list[str]:
        """[a sentence on the keys that are not read], "keys that are not read: topic (10
        questions)".

        [] without any.
        """
        if not self.keys:
            return []
        first_keys = list(self.keys)[:_MAX_LISTED]
        listed = ", ".join(key[:40] for key in first_keys)
        if len(self.keys) > _MAX_LISTED:
            listed += f" and {len(self.keys) - _MAX_LISTED} more"
        noun = "questions"
        if self.n_questions == 1:
            noun = "question"
        return [f"keys that are not read: {listed} ({self.n_questions} {noun})"]


def find_unread_keys(row: RawRow, *, reads_names_of_ragas: bool) -> list[str]:
    """The keys of a row that nothing reads: {"question": .., "topic": ..} -> ["topic"].

    Args:
        row: The row with our names; "input" is read only beside an "output", as in KILT.
        reads_names_of_ragas: Whether the names of ragas are read too.

    Raises:
        RowError: A key looks like a misspelt one of ours that the row lacks.
    """
    read_keys = {*FIELDS, *_PUBLISHED}
    if reads_names_of_ragas:
        read_keys.update((*RAGAS, *GROUND_TRUTH))
    if "output" in row:
        read_keys.add("input")
    unread_keys = [str(key) for key in row if key not in read_keys]
    # "answer" and "answers" are one key here: a row with one of them does not lack the other.
    present_keys = {_SINGULAR.get(key, key) for key in row}
    for key in unread_keys:
        similar_key = _similar_known_key(key)
        if similar_key is None:
            continue
        if _SINGULAR.get(similar_key, similar_key) not in present_keys:
            question = f"did you mean '{similar_key}'? (--columns names others)"
            raise RowError(None, f"'{key}' is no key of a question; {question}")
    return unread_keys


def _similar_known_key(key: str) -> str | None:
    """The key of ours that a key looks like, perhaps misspelt: "anwser" -> "answer".

    None where it looks like none, and for a key of ours with a further word, "answer_id".
    """
    folded = key.strip().casefold()
    similar = get_close_matches(folded, _PROPOSED_KEYS, n=1, cutoff=_LEAST_SIMILARITY)
    if not similar or _has_further_word(key, similar[0]):
        return None
    return similar[0]


def _has_further_word(key: str, known_key: str) -> bool:
    """Whether a key is a known one and a further word, as "document_id" and "documentId" are.

    Args:
        key: The key in a row.
        known_key: The key of ours, "document".
    """
    beginning = key[: len(known_key)]
    rest = key[len(known_key) :]
    if beginning.casefold() != known_key or not rest:
        return False
    return rest[0] in "_-. " or rest[0].isupper()
