"""Whether a gold answer stands in what the reader was shown: LongRefiner's recall (LongRefiner,
figure 3).

The pieces of a record's `shown` are put together with a blank line between, and text and answer
normalised as SQuAD does it; the answer must stand there in whole words, so "art" is not in "party".
"yes", "no" and "unanswerable" are found in any long text, or never, and say nothing: a question
with no other answer is left out.

FlashRAG's evaluator asks another question of retrieved texts: whether the normalised text of any
piece contains a normalised answer as a string of characters. "art" is in "party", every answer
counts, and no question is left out. docs/methods/scoring.md#answer-recall has both.
"""

from collections.abc import Sequence

from harness.scorers.flashrag import retrieval_recall
from harness.scorers.squad import spaced_words
from harness.storage.records import StoredPiece, StoredRecord
from harness.types import GAP, Example
from reports.gold_rows import Rows

_SAY_NOTHING = frozenset({"  ", " yes ", " no ", " noanswer ", " unanswerable "})


def shown_text(shown: Sequence[StoredPiece], rows: Rows) -> str:
    """The pieces that a record's reader was shown as one text, with a blank line between two of
    them; a piece whose text is not at hand is empty."""
    return GAP.join(rows.text(piece) or "" for piece in shown)


def has_answer(text: str, answers: Sequence[str]) -> bool | None:
    """Whether any of the answers stands in `text` in whole words, both normalised.

        ("He came to the party.", ["Party"])    -> True
        ("He came to the party.", ["art"])      -> False
        ("He came to the party.", ["yes"])      -> None

    None where every answer is one like "yes", which says nothing.
    """
    checkable = {spaced_words(answer) for answer in answers} - _SAY_NOTHING
    if not checkable:
        return None
    words = spaced_words(text)
    return any(answer in words for answer in checkable)


def answer_shown(record: StoredRecord, example: Example, rows: Rows) -> bool | None:
    """Whether an answer stands in what the reader of a question was shown, in whole words.

    A question that failed was shown nothing. None where no answer is one that can be looked for.

    Args:
        record: The record of the question.
        example: The question with its gold answers.
        rows: The texts of the run.
    """
    text = ""
    if record.error is None:
        text = shown_text(record.shown, rows)
    return has_answer(text, example.gold.answers)


def answer_shown_as_substring(record: StoredRecord, example: Example, rows: Rows) -> bool:
    """FlashRAG's retrieval recall: whether a shown piece contains an answer as a part of its text,
    both normalised.

    A question that failed was shown nothing.

    Args:
        record: The record of the question.
        example: The question with its gold answers.
        rows: The texts of the run.
    """
    texts: list[str] = []
    if record.error is None:
        texts = [rows.text(piece) or "" for piece in record.shown]
    return retrieval_recall([texts], [example.gold.answers], k=len(texts)) == 1.0
