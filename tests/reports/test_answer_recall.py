"""Whether an answer stands in what was shown, worked by hand."""

import pytest

from harness import scorers
from harness.types import Document, Example, Gold, Question
from reports.answer_recall import (
    contains_answer,
    join_shown_texts,
    was_answer_shown,
    was_answer_shown_as_substring,
)
from reports.gold_rows import QuestionRows
from tests.reports.build import parsed, record, span

DOCUMENTS = {
    "a": Document("a", "Mira Tal lives in Orb."),
    "b": Document("b", "The party was in Paris-Sud."),
}
ROWS = QuestionRows(documents=DOCUMENTS)


def written(text):
    return {
        "kind": "generated",
        "document_id": "",
        "start": 0,
        "end": 0,
        "text": text,
        "sources": [["a", 0, 22]],
    }


@pytest.mark.parametrize(
    ("text", "answers", "found"),
    [
        ("Mira lives in Orb.", ["Orb"], True),
        ("mira tal orb", ["tal orb"], True),
        ("mira tal orb", ["tal sea"], False),
        ("Mira lives in Orb.", ["Tal", "orb!"], True),  # any of them, normalised
        ("The party was long.", ["art"], False),  # whole words
        ("It was a long party.", ["the long party"], True),  # articles do not count
        ("a b  c", ["b c"], True),
        ("no more", ["no"], None),
        ("no more", ["No.", "more"], True),
        *(("anything", answers, None) for answers in (["unanswerable"], ["..."], [])),
        ("", ["Orb"], False),
        ("本に三千円を使った。", ["三千円"], True),
        ("本に三万円を使った。", ["三千円"], False),
        ("“Orb”, she said.", ["Orb"], True),
        ("पुल मीरा ने", ["पल"], False),
        ("die Bru\u0308cke", ["Br\u00fccke"], True),
    ],
)
def test_by_hand(text, answers, found):
    assert contains_answer(text, answers) is found


def test_only_what_was_shown_counts_and_a_failed_question_was_shown_nothing():
    example = Example(Question("q0", "?", ("a", "b")), Gold(("Orb",)))
    whole = parsed(record(0, 1.0, shown=[span("a", 0, 22)]))
    assert was_answer_shown(whole, example, ROWS) is True
    assert (
        was_answer_shown(parsed(record(0, 1.0, shown=[span("a", 0, 17)])), example, ROWS) is False
    )
    assert (
        was_answer_shown(parsed(record(0, 1.0, shown=[written("in Orb")])), example, ROWS) is True
    )
    assert (
        was_answer_shown(parsed(record(0, None, shown=[span("a", 0, 22)])), example, ROWS) is False
    )


@pytest.mark.parametrize(
    ("answers", "shown", "words", "substring"),
    [
        (("art",), [span("b", 0, 26)], False, True),  # in "party"
        (("Paris Sud",), [span("b", 0, 26)], False, False),  # a hyphen goes without a space
        (("ParisSud",), [span("b", 0, 26)], True, True),
        (("yes",), [span("b", 0, 26)], None, False),  # every answer counts
        (
            ("Tal. The party",),
            [span("a", 0, 8), span("b", 0, 9)],
            True,
            False,
        ),  # each piece is a text of its own
        (("Orb",), [written("in Orbit")], False, True),
        (("Orb",), [], False, False),
        (("...",), [span("a", 0, 4)], None, True),  # nothing is left of it, and that is everywhere
    ],
)
def test_whole_words_and_flashrags_substring_side_by_side(answers, shown, words, substring):
    example = Example(Question("q0", "?", ("a", "b")), Gold(answers))
    one = parsed(record(0, 1.0, shown=shown))
    assert was_answer_shown(one, example, ROWS) is words
    assert was_answer_shown_as_substring(one, example, ROWS) is substring
    texts = [join_shown_texts([piece], ROWS) for piece in shown]
    for k in {1, 2, 3, 5, 10} if len(texts) == 1 else ():
        assert scorers.score(f"flashrag.retrieval_recall_top{k}", [texts], [answers]) == float(
            substring
        )
    failed = parsed(record(0, None, shown=shown))
    assert was_answer_shown_as_substring(failed, example, ROWS) is False
