"""Copies with other names, years and numbers: what is replaced, what stays, and that answers stay
where they are."""

import re
from itertools import pairwise

import pytest
from harness_audit import entity_swap
from harness_audit.entity_swap import TOKEN, swapped_copy
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.datasets import load
from harness.datasets.base import Dataset
from harness.datasets.rows import Row, example_and_document
from harness.datasets.ruler import BegunQuestion, ExampleQuestion
from harness.errors import CannotRun, UnknownName
from harness.types import Document, Example, Gold, Question, Support
from tests.datasets.support import config, musique
from tests.made_up import write_rows

DEAN = "Dr Ada Velmark founded Velmark Mill in 1815. She said that Ada's mill had 4,120 looms on 3 May 1843 (the 1840s)."


def contained(answer, text):
    """Whether `text` has `answer` as a run of whole words and numbers, whatever their case."""
    words, inside = (
        " ".join(m.group().casefold() for m in TOKEN.finditer(part)) for part in (answer, text)
    )
    return f" {words} " in f" {inside} "


def _dataset(*rows):
    examples, documents = zip(*(example_and_document(row) for row in rows), strict=True)
    return Dataset("t", examples, {d.id: d for d in documents}, "f" * 64, "rows")


def _row(text, question="Who?", answers=("yes",), **fields):
    paragraphs = (("Velmark Mill", text), ("Other", "Some text."))
    return Row("q1", question, paragraphs, answers, (0,), {"seen": "Velmark"} | fields)


def test_names_years_and_numbers_are_replaced_alike_everywhere():
    question = "Did Ada Velmark, not VELMARK or velmark, build it in 1815?"
    made = swapped_copy(
        _dataset(_row(DEAN, question, ("Velmark", "Ada Velmark", "4,120"))), "entities:rules", 0
    )
    (example,), document = made.examples, made.documents["q1"]
    ada, velmark = example.gold.answers[1].split()
    assert (ada, velmark) == (ada.title(), example.gold.answers[0])
    assert {ada, velmark}.isdisjoint({"Ada", "Velmark"})
    assert document.text.startswith(
        f"{velmark} Mill\nDr {ada} {velmark} founded {velmark} Mill in 1795. She said that {ada}'s "
        "mill had 4,140 looms "
        "on 3 May 1823 (the 1820s)."
    )
    assert document.passages[0].title == f"{velmark} Mill"
    text = f"Did {ada} {velmark}, not {velmark.upper()} or {velmark.lower()}, build it in 1795?"
    assert example.question.text == text
    assert example.gold.answers[2] == "4,140"
    assert example.gold.extra == {"seen": velmark}
    mark = example.gold.supporting[0]
    assert document.text[mark.start : mark.end].endswith("1820s).")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Ada Velmark wrote it.", "yes"),
        ("Ada Velmark wrote it.", "No"),
        ("Option B is right, says Ada Velmark.", "B"),
        ("It was a Monday in May.", "Monday"),
        ("A mill is no Mill.", "Mill"),  # also in small letters
        ("Originally there were 12.", "Originally"),  # only where a sentence opens
        ("They had 31 days.", "31"),
        ("The code is 007.", "007"),
    ],
)
def test_what_stays(text, answer):
    made = swapped_copy(_dataset(_row(text, answers=(answer,))), "entities:rules", 3)
    assert made.examples[0].gold.answers == (answer,)


def test_an_alias_that_the_text_lacks_is_replaced_too():
    """Else a remembered alias would still count as right."""
    made = swapped_copy(
        _dataset(_row(DEAN, answers=("Ada Velmark", "Countess Adelina"))), "entities:rules", 0
    )
    assert "Adelina" not in made.examples[0].gold.answers[1]
    assert made.examples[0].gold.answers[1].startswith("Countess ")


def test_the_first_word_of_a_question_is_no_name():
    made = swapped_copy(_dataset(_row(DEAN, "Name a member of Corin.")), "entities:rules", 0)
    assert re.fullmatch(r"Name a member of (?!Corin)\w+\.", made.examples[0].question.text)


def _tracked(solved=""):
    """A data set of one question as RULER's vt asks it, with a solved example if there is one."""
    begins = "5 variables are assigned the value 15564: "
    asked = "Find the variables of value 15564."
    question = BegunQuestion("q", asked, ("d",), begins=begins)
    if solved:
        question = ExampleQuestion("q", asked, ("d",), begins=begins, example=solved)
    document = Document("d", "VAR FGTFT = 15564 is here. The grass is green. VAR DDLWT = VAR FGTFT")
    example = Example(question, Gold(("FGTFT", "DDLWT")))
    return Dataset("t", (example,), {"d": document}, "f" * 64, "rows")


def test_a_solved_example_and_the_begun_reply_are_in_the_words_of_the_copied_text():
    solved = "Text: VAR CKZ = 46789\nAnswer: 46789 are CKZ"
    made = swapped_copy(_tracked(solved), "entities:rules", 0)
    question = made.examples[0].question
    mark = made.documents["d"].text.split()[0]
    assert mark not in ("VAR", "var")
    assert question.example == f"Text: {mark} CKZ = 46809\nAnswer: 46809 are CKZ"
    assert question.begins == "5 variables are assigned the value 15584: "


def test_only_a_copy_with_solved_examples_is_another_than_before_they_were_replaced():
    plain = swapped_copy(_tracked(), "entities:rules", 0)
    solved = swapped_copy(_tracked("VAR CKZ = 46789"), "entities:rules", 0)
    assert (plain.copy_facts["version"], solved.copy_facts["version"]) == (1, 2)
    assert plain.fingerprint != solved.fingerprint


def test_another_seed_makes_another_copy_and_the_same_one_the_same():
    original = _dataset(_row(DEAN))
    first, again, other = (swapped_copy(original, "entities:rules", seed) for seed in (0, 0, 1))
    assert first == again
    assert first.fingerprint != other.fingerprint != original.fingerprint
    assert first.documents["q1"].text != other.documents["q1"].text
    assert first.copy_facts is not None
    assert (first.copy_facts["of"], first.copy_facts["recogniser"]["name"]) == (
        original.fingerprint,
        "rules",
    )


def test_a_shared_document_has_one_copy_whatever_is_asked_about_it():
    document = Document("d", DEAN)
    asked = [
        Example(Question(q, f"Is it {q} Mill?", ("d",), ("Velmark", q)), Gold((q,)))
        for q in ("Ada", "Corin")
    ]
    whole = swapped_copy(
        Dataset("t", tuple(asked), {"d": document}, "f", "rows"), "entities:rules", 0
    )
    for number, example in enumerate(asked):
        one = swapped_copy(
            Dataset("t", (example,), {"d": document}, "f", "rows"), "entities:rules", 0
        )
        assert one.documents == whole.documents
        assert one.examples[0] == whole.examples[number]
        assert one.examples[0].gold.answers[0] == (one.examples[0].question.options or ())[1]


def test_retrieved_documents_that_are_read_together_share_their_names():
    documents = {
        "a": Document("a", "So says Corin. Corin met Ada."),
        "b": Document("b", "Corin! And Ada Velmark."),
    }
    example = Example(Question("q", "Who?", ("a", "b")), Gold(("Ada",), (Support("a", 3, 14),)))
    made = swapped_copy(Dataset("t", (example,), documents, "f", "rows"), "entities:rules", 0)
    first, second = (made.documents[name] for name in made.examples[0].question.document_ids)
    assert (first.id.partition("~")[0], second.id.partition("~")[0]) == ("a", "b")
    assert made.examples[0].gold.supporting[0].document_id == first.id
    corin = second.text.partition("!")[0]
    assert corin != "Corin"
    assert first.text.startswith(f"So says {corin}. {corin} met ")


NAMES = """
    Ada Velmark Corin VELMARK velmark the of mill Mill in The University May said Straße STRASSE İzmir 7 31 32 99 100 128
    999 1000 1,000 1815 1795 2099 2100 2,100 007 1840s B52 F1 O'Brien Jean-Luc yes B . , ( ' é 東京 _x ǅ
"""
WORDS = st.sampled_from(NAMES.split())
TEXT = st.lists(WORDS, min_size=1, max_size=30).map(" ".join)
LETTERS = st.text(st.sampled_from("AaBb .,1239-'\n_ß"), min_size=1, max_size=40)


def _skeleton(text):
    return TOKEN.sub("#", text)


@settings(max_examples=60)
@given(
    text=TEXT | LETTERS,
    question=TEXT,
    answers=st.lists(TEXT | WORDS, min_size=1, max_size=4),
    seed=st.integers(0, 9),
)
def test_a_text_holds_an_answer_exactly_where_it_did(text, question, answers, seed):
    row = Row("q", question, (("Velmark", text), ("", "Corin said 1815.")), tuple(answers), (0,))
    original = _dataset(row)
    made = swapped_copy(original, "entities:rules", seed)
    (before,), (after,) = original.examples, made.examples
    old, new = original.documents["q"], made.documents["q"]
    for a, b in zip(before.gold.answers, after.gold.answers, strict=True):
        assert contained(a, old.text) == contained(b, new.text)
        assert contained(a, before.question.text) == contained(b, after.question.text)
        assert contained(old.text, a) == contained(new.text, b)
    for a, b in zip(
        (*before.gold.supporting, *old.passages),
        (*after.gold.supporting, *new.passages),
        strict=True,
    ):
        assert _skeleton(old.text[a.start : a.end]) == _skeleton(new.text[b.start : b.end])


@given(
    st.lists(st.integers(0, 3000) | st.integers(28, 105), min_size=2, max_size=9, unique=True),
    st.integers(0, 40),
)
def test_no_two_numbers_become_one_and_years_keep_their_distance(values, seed):
    made = {value: int(entity_swap._replacement_number(str(value), seed)) for value in values}
    assert len(set(made.values())) == len(values)
    years = sorted(value for value in values if 1060 <= value < 2100)
    assert all(made[b] - made[a] == b - a for a, b in pairwise(years))


def test_what_stands_for_a_name_is_no_word_of_the_texts(monkeypatch):
    """With so few made-up words that some are in the texts: those are left out, or replaced
    themselves."""
    words = ("mill", "she", "dok", "rin", "lut", "pag")
    monkeypatch.setattr(entity_swap, "_pseudoword", lambda word, seed, number: words[number])
    made = swapped_copy(
        _dataset(_row(DEAN, "Is dok the mill?", ("Velmark", "dok"))), "entities:rules", 0
    )
    text, (velmark, dok) = made.documents["q1"].text, made.examples[0].gold.answers
    assert velmark not in ("Mill", "She")
    assert contained(velmark, text)
    assert not contained(dok, text)
    assert dok in made.examples[0].question.text


def test_a_mark_inside_a_word_covers_the_whole_word():
    swap = entity_swap._Swap({"ada": "kelsor"}, 0)
    offsets = swap.offset_map("So Ada Ada.")
    assert swap.text("So Ada Ada.") == "So Kelsor Kelsor."
    assert [offsets.of_start(4), offsets.of_end(5)] == [3, 9]
    assert [offsets.of_start(8), offsets.of_end(9)] == [10, 16]


def _config(path, **fields):
    return config("musique", data=str(path), **fields)


def test_loading_a_copy(tmp_path, monkeypatch):
    path = write_rows(tmp_path / "rows.jsonl", [musique(1), musique(2)])
    original, whole = load(_config(path)), load(_config(path, swap="entities:rules"))
    part = load(_config(path, swap="entities:rules"), limit=1)
    assert part.examples[0] == whole.examples[0]
    assert part.fingerprint == whole.fingerprint != original.fingerprint
    assert "entities swapped by rules" in whole.source
    monkeypatch.setattr(
        entity_swap, "install_problem", lambda name: "" if name == "stanza" else "not here"
    )
    assert entity_swap.recogniser_name("entities") == "stanza"
    monkeypatch.setattr(entity_swap, "install_problem", lambda name: "not here")
    assert entity_swap.recogniser_name("entities") == "rules"


def test_a_run_folder_names_no_package_to_import(tmp_path):
    """spaCy would import what is named as its model."""
    with pytest.raises(ValidationError):
        _config(tmp_path, swap="entities:spacy:evil")


@pytest.mark.parametrize(
    ("swap", "error"), [("entities:spcy", UnknownName), ("entities:spacy:no_such", CannotRun)]
)
def test_a_recogniser_that_is_not_there(swap, error):
    with pytest.raises(error):
        swapped_copy(_dataset(_row(DEAN)), swap, 0)
