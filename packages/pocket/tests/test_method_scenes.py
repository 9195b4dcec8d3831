"""Scenes of methods that walk trees, keep memories and refine documents: what is right is proved by
what is shown."""

from collections import Counter

import pytest
from pocket.tasks import entity_memory, refinement, shown_text, tree_walk
from pocket.tasks.recipes import SCHEMAS, Recipe
from pocket.tasks.scenes import make_text
from pocket.world.fact_proofs import Path

from harness.stats.rng import Dice
from methods.longrefiner.config import LongRefinerConfig
from methods.longrefiner.outline import parse_outline, write_outline
from methods.longrefiner.tree import build_tree
from methods.memwalker.replies import parse_verdict
from methods.qrmem import replies
from packages.pocket.tests.reading import proves
from tests.methods.conftest import FakeTools

KINDS = [*SCHEMAS]
ASK = {"one": 1.0, "two": 2.0, "compare": 1.0, "same": 1.0, "nothing": 0.5}


def scenes_of(monkeypatch, module, kind, pieces):
    """Scenes of `kind` about texts of each kind in turn, each with its text and the question it was
    made for."""
    asked = []
    question = module.scene_question
    monkeypatch.setattr(module, "scene_question", lambda a: (asked.append(a), question(a))[1])
    for n in range(84):
        size = {"facts": (2, 14)} if n % 2 else {"tokens": (200, 600)}
        recipe = Recipe(
            skill="x", kinds=(KINDS[n % len(KINDS)],), ask=ASK, questions=4, pieces=pieces, **size
        )
        dice = Dice("methods", n)
        shown = make_text(recipe, dice)
        for scene in getattr(module, kind)(recipe, shown, dice):
            yield shown, asked[-1] if asked else None, scene


def stated(text, shown):
    """The facts of the text whose sentence, with or without its opening, stands in `text`."""
    sentences = {
        fact: shown_text.without_opener(s, shown.schema) for fact, s in shown.sentences.items()
    }
    return [f for f, s in sentences.items() if s in text or shown.sentences[f] in text]


@pytest.mark.parametrize("pieces", [1, 4])
def test_a_segment_answers_where_it_and_the_memory_prove_it(monkeypatch, pieces):
    kinds = Counter()
    for shown, asked, scene in scenes_of(monkeypatch, tree_walk, "leaf", pieces):
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


def test_a_verdict_is_proved_by_what_is_shown(monkeypatch):
    seen = Counter()
    for shown, asked, scene in scenes_of(monkeypatch, entity_memory, "reflection", 3):
        verdict = replies.parse_verdict(scene.replies[0])
        text = "\n".join(scene.texts)
        there = [fact for fact, sentence in shown.sentences.items() if sentence in text]
        found = proves(asked, there)
        assert (verdict.answer == asked.answer) if found else verdict.answer is None
        assert ("The text does not say: " in verdict.reason) == (not found)
        if (
            not found
            and isinstance(asked.query, Path)
            and asked.supports
            and asked.supports[0] in there
        ):
            seen["a known fact in the reason"] += verdict.reason.index("The text") > 0
        seen["answered" if found else "not answered"] += 1
    assert min(seen.values()) > 5, seen
    assert len(seen) == 3


@pytest.mark.parametrize("pieces", [1, 3])
def test_an_outline_places_every_paragraph(monkeypatch, pieces):
    model = FakeTools().model()
    seen = Counter()
    config = LongRefinerConfig(scoring="bm25", paragraph_words=1)
    for _, _, scene in scenes_of(monkeypatch, refinement, "outline", pieces):
        (text,), (reply,) = scene.texts, scene.replies
        outline = parse_outline(reply)
        assert write_outline(outline) == reply
        tree = build_tree(text, outline, config, model)
        assert tree.placed == tree.structured == 1.0
        paragraphs = text.split("\n\n")
        parts = [node for node in tree.nodes if not node.is_leaf]
        assert [text[n.start : n.end] for n in parts] == paragraphs
        assert [n.kind for n in parts] == ["abstract"] + ["section"] * (len(paragraphs) - 1)
        assert all(n.title.lower() in text[n.start : n.end].lower() for n in parts)
        seen["headed" if paragraphs[-1].startswith(parts[-1].title + "\n") else "bare"] += 1
        seen["shortened"] += "<skip>" in reply
    assert min(seen["headed"], seen["bare"], seen["shortened"]) > 5, seen
