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
from reports.gold_rows import QuestionRows

_UNCHECKABLE_ANSWERS = frozenset({"  ", " yes ", " no ", " noanswer ", " unanswerable "})


def join_shown_texts(shown: Sequence[StoredPiece], rows: QuestionRows) -> str:
    """The pieces that a record's reader was shown as one text, with a blank line between two of
    them; a piece whose text is not at hand is empty."""
    return GAP.join(rows.text(piece) or "" for piece in shown)


def contains_answer(text: str, answers: Sequence[str]) -> bool | None:
    """Whether any of the answers stands in `text` in whole words, both normalised.

        ("He came to the party.", ["Party"])    -> True
        ("He came to the party.", ["art"])      -> False
        ("He came to the party.", ["yes"])      -> None

    None where every answer is one like "yes", which says nothing.
    """
    checkable_answers = {spaced_words(answer) for answer in answers} - _UNCHECKABLE_ANSWERS
    if not checkable_answers:
        return None
    spaced_text = spaced_words(text)
    return any(answer in spaced_text for answer in checkable_answers)


def was_answer_shown(record: StoredRecord, example: Example, rows: QuestionRows) -> bool | None:
    """Whether an answer stands in what the reader of a question was shown, in whole words.

    A question that failed was shown nothing. None where no answer is one that can be looked for.

    Args:
        record: The record of the question.
        example: The question with its gold answers.
        rows: The texts of the run.
    """
    text = ""
    if record.error is None:
        text = join_shown_texts(record.shown, rows)
    return contains_answer(text, example.gold.answers)


def was_answer_shown_as_substring(
    record: StoredRecord, example: Example, rows: QuestionRows
) -> bool:
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
    recall = retrieval_recall([texts], [example.gold.answers], k=len(texts))  # of one question
    return recall == 1.0
