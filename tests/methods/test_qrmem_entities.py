"""What is an entity of QRMeM's memory: acronyms keep their capitals, pronouns are none, and which
tool profile paper has."""

import pytest

from harness.config import presets
from harness.config.layers import Choices
from harness.config.resolve import resolve
from harness.engine.plan import plan_choices
from harness.entities import recogniser as entities
from harness.errors import HarnessError
from methods.qrmem.build import _as_in_segment
from methods.qrmem.memory import Memory, SubGraph, join_names_to_entities


@pytest.mark.parametrize(
    ("mentions", "question", "named"),
    [
        (["US"], "Who led us there?", False),
        (["US"], "Who led the US there?", True),
        (["the US"], "Did it help US voters?", True),
        (["WHO"], "Who wrote it?", False),
        (["WHO"], "When was the WHO founded?", True),
        (["WHO", "World Health Organization"], "who leads the world health organization?", True),
        (["Toren"], "what of toren?", True),
        (["US Navy"], "what of the us navy?", True),
        (["İzmir", "US"], "İİ and US", True),
        (["İzmir", "US"], "İİ and us", False),
    ],
)
def test_case_matters_for_acronyms_in_a_question(mentions, question, named):
    memory = Memory([(0, 1)], [mentions[0]], [mentions], [[0]])
    assert memory.entities_named_in(question) == ([0] if named else [])


def test_a_mention_inside_a_longer_one_is_none_whatever_its_case():
    memory = Memory([(0, 1)], ["US", "us navy yard"], [["US"], ["us navy yard"]], [[0], [0]])
    assert memory.entities_named_in("at the US Navy Yard") == [1]


def test_an_acronym_is_no_pronoun_and_a_name_in_capitals_is_that_name():
    found = join_names_to_entities([SubGraph(["US", "us", "TOREN", "Toren"])], ["x"])
    assert found.mentions == [["US"], ["us"], ["TOREN", "Toren"]]


POEM = "The Who sang the poem of which nobody knew who wrote it."
PRONOUNS = "I You He She It We They My Your His Her Its Our Their Mine Hers Theirs This That These Those Us Me Him Them"


@pytest.mark.parametrize("before", ["", "Toren left. ", 'Toren said, "', "A line\n"])
def test_a_capitalised_pronoun_at_the_start_of_a_sentence_is_no_entity(before):
    for word in PRONOUNS.split():
        segment = f"{before}{word} came to Kelford, and {word.lower()} stayed."
        assert _as_in_segment(word, segment) == ""
        assert word not in entities.load_recogniser("rules").names(segment)
        assert _as_in_segment("Kelford", segment) == "Kelford"


@pytest.mark.parametrize(
    ("name", "segment", "kept"),
    [
        ("They're", "They're late.", ""),
        ("It", "He read It twice.", "It"),
        ("It", 'He read "It" twice.', "It"),
        ("It", "It is a novel. He read It twice.", "It"),
        ("US", "He left the US in May.", "US"),
        ("US", "They told us in May.", ""),
        ("US", "US voters told us.", "US"),
        ("I", "Then I left.", ""),
        ("The Who", "The Who sang.", "The Who"),
        ("which", POEM, ""),
        ("of which", POEM, ""),
        ("Which", POEM, ""),  # as the segment writes it
        ("who", POEM, ""),
        ("the poem", POEM, "the poem"),
        ("a poem by Toren", POEM, ""),  # not in the segment
    ],
)
def test_which_function_words_are_names(name, segment, kept):
    assert _as_in_segment(name, segment) == kept


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("He told us of the US. Then US voters left.", ["US"]),
        ("The US Navy and the WHO met.", ["US Navy", "WHO"]),
        ("HE SAID IT TO US ALL", []),
        ("Me and Toren went. Mine was lost.", ["Toren"]),
        ("They’re late.", []),
    ],
)
def test_the_rules_know_acronyms_from_pronouns(text, names):
    found = entities.load_recogniser("rules").names(text)
    assert [name for name in found if name.split()[0] not in ("SAID", "ALL")] == names


def test_profile_paper_finds_entities_with_stanza_and_the_default_with_rules():
    for preset in (name for name in presets.names("methods") if name.split("-")[0] == "qrmem"):
        plain, paper = (
            resolve(Choices(method=preset, dataset="pocket/musique", profile=profile))
            for profile in (None, "paper")
        )
        assert "recogniser" not in plain.config.method.params, preset
        assert paper.config.method.params.get("recogniser") == "stanza", preset
        assert paper.origins["method.params.recogniser"] == "profile paper", preset


def _said():
    """What the plan says of QRMeM with stanza."""
    sets = {"method.recogniser": "stanza", "encoder": "minilm"}
    with pytest.raises(HarnessError) as caught:
        plan_choices(
            Choices(method="qrmem", dataset="pocket/musique", model="random", limit=1, sets=sets)
        )
    return "\n".join(caught.value.sentences)


def test_the_plan_says_what_stanza_needs_before_anything_is_loaded(monkeypatch, tmp_path):
    here = set()
    monkeypatch.setattr(entities, "find_spec", lambda name: object() if name in here else None)
    monkeypatch.setenv("STANZA_RESOURCES_DIR", str(tmp_path))
    fetch = "python -c \"import stanza; stanza.download('en', processors='tokenize,ner')\""
    needs = "the named-entity tool 'stanza' needs the package stanza and its model 'en', and "
    rules = ", or use the rules: --set method.recogniser=rules"
    assert (
        f"{needs}stanza is not installed; run: pip install stanza, then {fetch}{rules}" in _said()
    )
    here.add("stanza")
    assert f"{needs}the model is not here; run: {fetch}{rules}" in _said()
    (tmp_path / "en" / "ner").mkdir(parents=True)
    assert entities.install_problem("stanza") == ""
    assert entities.install_problem("rules") == ""
    large = "spacy:en_core_web_lg"
    assert (
        "run: pip install spacy, then python -m spacy download en_core_web_lg"
        in entities.install_problem(large)
    )
    here |= {"spacy", "en_core_web_lg"}
    assert entities.install_problem(large) == ""
