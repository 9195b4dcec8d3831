"""FLARE, worked by hand: the scripted model gives a sentence's words probabilities e^-1, e^-2 ..."""

from harness.llm.scripted import Rule
from harness.types import Document, Passage, Question
from methods.flare import Flare
from tests.methods.conftest import FakeTools, answered

PARAGRAPHS = ["Velindra\nThe novel by Toren.", "Toren\nToren lives in Kelford.", "Mira\nShe rows."]
TEXT = "\n\n".join(PARAGRAPHS)
STARTS = [TEXT.index(text) for text in PARAGRAPHS]
PASSAGES = tuple(
    Passage(text.partition("\n")[0], start, start + len(text))
    for start, text in zip(STARTS, PARAGRAPHS, strict=True)
)
DOCUMENT = Document("d", TEXT, passages=PASSAGES)
QUESTION = Question("q", "Where does the author of Velindra live?", ("d",))


def written(*sentences, **params):
    tools = FakeTools([Rule(reply=sentence, once=True) for sentence in sentences])
    answer, _ = answered(Flare(Flare.Config(k=1, **params)), tools, DOCUMENT, QUESTION)
    return answer, tools


def queries(tools):
    return [search.query for search in tools.meter.searches]


def test_a_sure_sentence_is_kept_and_no_more_is_searched():
    answer, tools = written(
        "It is Kelford. And more.", "So the answer is: Kelford.", search_below=0
    )
    assert (answer.text, answer.stop_reason) == ("Kelford", "answered")
    assert queries(tools) == [QUESTION.text]
    assert [s.note for s in answer.steps if s.action == "write"] == [
        "It is Kelford.",
        "So the answer is: Kelford.",
    ]
    assert "So far: It is Kelford.\n" in tools.reader.prompts[-1]


def test_an_unsure_sentence_is_searched_for_by_its_sure_words_and_written_again():
    answer, tools = written("Toren lives somewhere.", "So the answer is: Kelford.", mask_below=0.1)
    # e^-1 and e^-2 are above .1, e^-3 is not; the sentence written again ends the answer.
    assert queries(tools) == [QUESTION.text, "Toren lives"]
    assert answer.text == "Kelford"
    first, again = (text for text in tools.reader.prompts if "Next:" in text)
    assert PARAGRAPHS[0] in first
    assert PARAGRAPHS[1] in again
    assert PARAGRAPHS[0] not in again
    assert [(shown.start, shown.end) for shown in answer.shown] == [
        (passage.start, passage.end) for passage in PASSAGES[:2]
    ]


def test_the_question_is_the_query_where_no_word_is_sure():
    _, tools = written("Toren lives.", "So the answer is: Kelford.", mask_below=0.4)
    assert queries(tools) == [QUESTION.text, QUESTION.text]


def test_reading_the_sentence_for_its_probabilities_is_counted():
    _, tools = written("It is Kelford.", "", search_below=0)
    kinds = [event.kind for event in tools.meter.events]
    assert kinds.count("score") == 1
    assert kinds.count("search") == 1
    assert set(tools.meter.usage()) == {"search"}


def test_the_limit_of_sentences_ends_it():
    answer, _ = written("One.", "Two.", "Three.", search_below=0, max_sentences=2)
    assert (answer.text, answer.stop_reason) == ("One. Two.", "max_sentences")
