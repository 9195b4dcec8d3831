"""Named entities by rules, and what is said where a library or its model is missing."""

import sys
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.entities import recogniser as entities
from harness.entities.recogniser import check_recogniser_name, load_recogniser
from harness.errors import CannotRun, UnknownName


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Toren was born in Kelford in 1907.", ["Toren", "Kelford", "1907"]),
        ("Dr. No met J. K. Rowling.", ["Dr. No", "J. K. Rowling"]),
        ("He read at the University of New York.", ["University of New York"]),
        ("Of the Lord of the Isles, of whom", ["Lord of the Isles"]),
        ("It ended on 3 May 1999, or May 4, 2001.", ["3 May 1999", "May 4, 2001"]),
        ("Letters came. He wrote letters to Mira.", ["Mira"]),  # "letters" is a word of this text
        (
            "Lanterns came. He wrote to Mira.",
            ["Lanterns", "Mira"],
        ),  # nothing in the text says otherwise
        ("The coach of Valencia CF's team", ["Valencia CF"]),
        ("Toren’s sister and Toren", ["Toren"]),
        ("In Kelford\nMira sang", ["Kelford", "Mira"]),  # a name does not cross a line
        ('"Never," said Ann-Marie. "Never, Bob!"', ["Ann-Marie", "Bob"]),
        ("Ångström saw Édith", ["Ångström", "Édith"]),
        ("I did. A B", []),
        ("在北京的人", []),
        ("", []),
    ],
)
def test_rules(text, names):
    assert load_recogniser("rules").names(text) == names


@given(st.text(alphabet="Ab .'\n-19é", max_size=60))
def test_names_stand_in_the_text(text):
    found = load_recogniser("rules").names(text)
    assert len(set(found)) == len(found)
    assert all(name and name in " ".join(text.split()) for name in found)


def pipeline(*names):
    def run(text):
        return types.SimpleNamespace(ents=[types.SimpleNamespace(text=name) for name in names])

    return run


def test_libraries_by_the_same_door(monkeypatch):
    monkeypatch.setattr(entities, "_make_recogniser", entities._make_recogniser.__wrapped__)
    asked = []
    spacy = types.SimpleNamespace(
        load=lambda name: (asked.append(name), pipeline("Toren", "New\n York", "Toren"))[1]
    )
    spacy.__version__ = "9"
    monkeypatch.setitem(sys.modules, "spacy", spacy)
    found = entities.load_recogniser("spacy:en_core_web_lg")
    assert found.names("any") == ["Toren", "New York"]
    assert found.identity == {"library": "spacy", "model": "en_core_web_lg", "version": "9"}
    stanza = types.SimpleNamespace(
        Pipeline=lambda **given: (asked.append(given), pipeline("Mira"))[1]
    )
    monkeypatch.setitem(sys.modules, "stanza", stanza)
    assert entities.load_recogniser("stanza").names("any") == ["Mira"]
    assert asked[0] == "en_core_web_lg"
    assert (asked[1]["lang"], asked[1]["processors"], asked[1]["download_method"]) == (
        "en",
        "tokenize,ner",
        None,
    )


def test_a_library_or_a_model_that_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(
        CannotRun, match="needs the package spacy, which is not installed; run: pip install spacy"
    ):
        load_recogniser("spacy")

    def load(name):
        raise OSError("[E050] no model")

    monkeypatch.setitem(sys.modules, "spacy", types.SimpleNamespace(load=load))
    with pytest.raises(
        CannotRun, match="no model 'en_core_web_sm' here; fetch it: python -m spacy download"
    ):
        load_recogniser("spacy")


@pytest.mark.parametrize("name", ["rule", "rules:2", "corenlp", ""])
def test_unknown_names(name):
    with pytest.raises(UnknownName, match="named-entity tool"):
        check_recogniser_name(name)
