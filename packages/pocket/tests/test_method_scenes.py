"""Scenes of methods that walk trees, keep memories and refine documents: what is right is proved by what is shown."""

from collections import Counter

import pytest
from harness_training.reader_examples import asks_for_account
from pocket.tasks import entity_memory, refinement, shown_text, tree_walk
from pocket.tasks.recipes import SCHEMAS, Recipe
from pocket.tasks.scenes import make_text
from pocket.tasks.shown_text import Shown
from pocket.world.fact_proofs import Fact, Path

from harness.stats.rng import Dice
from methods.longrefiner.config import LongRefinerConfig
from methods.longrefiner.outline import parse, write
from methods.longrefiner.tree import build
from methods.memwalker.replies import parse_choice, parse_verdict
from methods.qrmem import replies
from methods.retry import numbers_in
from packages.pocket.tests.reading import proves
from tests.methods.conftest import FakeTools

KINDS = [*SCHEMAS]
ASK = {"one": 1.0, "two": 2.0, "compare": 1.0, "same": 1.0, "nothing": 0.5}


def told(monkeypatch, module, kind, pieces):
    """Scenes of `kind` about texts of each kind in turn, each with its text and the question it was made for."""
    asked = []
    question = module.question_of
    monkeypatch.setattr(module, "question_of", lambda a: (asked.append(a), question(a))[1])
    for n in range(84):
        size = {"facts": (2, 14)} if n % 2 else {"tokens": (200, 600)}
        recipe = Recipe(skill="x", kinds=(KINDS[n % len(KINDS)],), ask=ASK, questions=4, pieces=pieces, **size)
        dice = Dice("methods", n)
        shown = make_text(recipe, dice)
        for scene in getattr(module, kind)(recipe, shown, dice):
            yield shown, asked[-1] if asked else None, scene


def stated(text, shown):
    """The facts of the text whose sentence, with or without its opening, stands in `text`."""
    sentences = {fact: shown_text.plain(s, shown.schema) for fact, s in shown.sentences.items()}
    return [f for f, s in sentences.items() if s in text or shown.sentences[f] in text]


@pytest.mark.parametrize("pieces", [1, 4])
def test_the_part_that_is_chosen_has_the_first_missing_fact(monkeypatch, pieces):
    kinds = Counter()
    for shown, asked, scene in told(monkeypatch, tree_walk, "triage", pieces):
        memory, *summaries = scene.texts
        number = parse_choice(scene.replies[0], len(summaries))
        assert 2 <= len(summaries) <= 9
        known = stated(memory, shown)
        missing = next(f for f in asked.supports if f not in known)
        named = summaries[0].startswith("About ")
        kinds["names" if named else "facts"] += 1
        kinds["memory"] += bool(memory)
        kinds[f"part {number}"] += 1
        kinds["a later fact"] += missing != asked.supports[0]
        if named:
            assert missing.subject in summaries[number]
        else:
            assert [i for i, text in enumerate(summaries) if missing in stated(text, shown)] == [number]
    assert min(kinds[k] for k in ("names", "facts", "memory", "part 0", "part 1", "part 2", "a later fact")) >= 3, kinds


@pytest.mark.parametrize("pieces", [1, 4])
def test_a_segment_answers_where_it_and_the_memory_prove_it(monkeypatch, pieces):
    kinds = Counter()
    for shown, asked, scene in told(monkeypatch, tree_walk, "leaf", pieces):
        memory, segment = scene.texts
        found = parse_verdict(scene.replies[0])
        # A sentence that was cut proves nothing, also where only its opening is missing.
        whole = [fact for fact, sentence in shown.sentences.items() if sentence in segment]
        enough = proves(asked, [*stated(memory, shown), *whole])
        assert (found.answer is not None) == enough, (asked, scene)
        assert found.answer in (None, asked.answer)
        kinds["answer" if enough else "none"] += 1
        kinds["by memory"] += enough and not proves(asked, whole)
        kinds["memory"] += bool(memory)
    assert min(kinds["answer"], kinds["none"]) > 0.3 * (kinds["answer"] + kinds["none"])
    assert pieces == 1 or min(kinds["by memory"], kinds["memory"]) >= 3, kinds


def test_a_fact_that_is_taken_out_leaves_the_text_around_it():
    fact, other = Fact("A", "r", "B"), Fact("C", "r", "D")
    shown = Shown("musique", (), (), {fact: "A is B.", other: "C is D."}, None)
    without = shown_text.remove_fact
    assert without(fact, "One. A is B. Two.", (fact, other), shown) == ("One. Two.", (other,))
    assert without(fact, "A is B. Two.", (fact,), shown) == ("Two.", ())
    assert without(fact, "One. A is B.", (fact,), shown) == ("One.", ())
    assert without(fact, "One. A is B.", (other,), shown) == ("One. A is B.", (other,))
    assert without(fact, "A is B. A is B.", (fact,), shown) == ("A is B. A is B.", (fact,))


def test_entities_and_relations_stand_in_the_segment(monkeypatch):
    seen = Counter()
    for _, _, scene in told(monkeypatch, entity_memory, "entities", 3):
        summary, guide, segment = scene.texts
        names = replies.parse_names(scene.replies[0])
        assert names
        assert all(name.casefold() in segment.casefold() for name in names)
        assert summary.startswith("About ")
        seen["guided"] += bool(guide)
        seen["not guided"] += not guide
    for shown, _, scene in told(monkeypatch, entity_memory, "relations", 3):
        _, names, _, segment = scene.texts
        triples = replies.parse_triples(scene.replies[0])
        pairs = {(f.subject, f.object) for f in shown.sentences}
        for a, b, text in triples:
            assert (a, b) in pairs
            assert {a, b} <= set(names.splitlines())
            assert text[1:] in segment, "but for the capital, where an opening was left out"
        seen["relations"] += len(triples)
    assert min(seen.values()) > 20, seen


def test_a_verdict_is_proved_by_what_is_shown(monkeypatch):
    seen = Counter()
    for shown, asked, scene in told(monkeypatch, entity_memory, "reflection", 3):
        verdict = replies.parse_verdict(scene.replies[0])
        text = "\n".join(scene.texts)
        there = [fact for fact, sentence in shown.sentences.items() if sentence in text]
        found = proves(asked, there)
        assert (verdict.answer == asked.answer) if found else verdict.answer is None
        assert ("The text does not say: " in verdict.reason) == (not found)
        if not found and isinstance(asked.query, Path) and asked.supports and asked.supports[0] in there:
            seen["a known fact in the reason"] += verdict.reason.index("The text") > 0
        seen["answered" if found else "not answered"] += 1
    assert min(seen.values()) > 5, seen
    assert len(seen) == 3


def test_pages_hold_the_facts_that_are_needed(monkeypatch):
    count = 0
    for shown, asked, scene in told(monkeypatch, entity_memory, "lookup", 3):
        pages = numbers_in(scene.replies[0], "Pages")
        assert pages
        for fact in asked.supports:
            where = [i for i, text in enumerate(scene.texts) if shown.sentences[fact][-12:] in text]
            assert set(where) & set(pages)
        count += 1
    assert count > 40


@pytest.mark.parametrize("pieces", [1, 3])
def test_a_question_is_local_whose_answer_is_fixed_however_many_facts_it_takes(monkeypatch, pieces):
    kinds = Counter()
    for _, _, scene in told(monkeypatch, refinement, "breadth", pieces):
        assert scene.texts == scene.replies == ()
        assert scene.verdicts == (not asks_for_account(scene.question.text),)
        kinds[scene.verdicts] += 1
    assert kinds[(True,)] == kinds[(False,)] > 50


@pytest.mark.parametrize("pieces", [1, 3])
def test_an_outline_places_every_paragraph(monkeypatch, pieces):
    model = FakeTools().model()
    seen = Counter()
    config = LongRefinerConfig(scoring="bm25", paragraph_words=1)
    for _, _, scene in told(monkeypatch, refinement, "outline", pieces):
        (text,), (reply,) = scene.texts, scene.replies
        outline = parse(reply)
        assert write(outline) == reply
        tree = build(text, outline, config, model)
        assert tree.placed == tree.structured == 1.0
        paragraphs = text.split("\n\n")
        parts = [node for node in tree.nodes if not node.leaf]
        assert [text[n.start : n.end] for n in parts] == paragraphs
        assert [n.kind for n in parts] == ["abstract"] + ["section"] * (len(paragraphs) - 1)
        assert all(n.title.lower() in text[n.start : n.end].lower() for n in parts)
        seen["headed" if paragraphs[-1].startswith(parts[-1].title + "\n") else "bare"] += 1
        seen["shortened"] += "<skip>" in reply
    assert min(seen["headed"], seen["bare"], seen["shortened"]) > 5, seen
