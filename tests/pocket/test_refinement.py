"""Scenes of refining: local is one fact, an outline places every paragraph, a title helps that the question names."""

from collections import Counter
from collections.abc import Iterator

from harness.training.lessons import asks_for_account
from methods.longrefiner.config import LongRefinerConfig
from methods.longrefiner.grammar import parse, write
from methods.longrefiner.tree import build
from pocket.tasks import refinement
from tests.methods.conftest import FakeTools
from tests.pocket import made_scenes
from tests.pocket.made_scenes import Made


def shows() -> Iterator[Made]:
    for pieces in (1, 2, 3):
        yield from made_scenes.shows("refine", 21, (3, 14), (400, 900), pieces)


def test_a_question_is_local_whose_answer_is_fixed_however_many_facts_it_takes() -> None:
    kinds = Counter()
    for recipe, shown, dice in shows():
        for scene in refinement.breadth(recipe, shown, dice):
            assert scene.texts == scene.replies == ()
            assert scene.verdicts == (not asks_for_account(scene.question.text),)
            kinds[scene.verdicts] += 1
    assert kinds[(True,)] == kinds[(False,)] > 50


def test_an_outline_places_every_paragraph() -> None:
    model = FakeTools().model()
    seen = Counter()
    config = LongRefinerConfig(scoring="bm25", paragraph_words=1)
    for recipe, shown, dice in shows():
        for scene in refinement.outline(recipe, shown, dice):
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
