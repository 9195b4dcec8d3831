"""Scenes of a memory: what is right is proved by the facts, and the methods' own parsers understand every reply."""

from collections import Counter
from collections.abc import Iterator

import pytest

from harness.method.hooks import Scene
from methods.qrmem import replies
from methods.retry import numbers_in
from pocket.tasks import entity_memory as memory
from pocket.tasks.shown_text import Shown
from pocket.world.fact_graph import Asked
from pocket.world.facts import Path
from tests.pocket import made_scenes
from tests.pocket.reading import proves


def told(monkeypatch: pytest.MonkeyPatch, kind: str) -> Iterator[tuple[Shown, Asked | None, Scene]]:
    return made_scenes.told(monkeypatch, memory, kind, made_scenes.shows("memory", 63, (3, 12), (200, 400), pieces=3))


def test_entities_and_relations_stand_in_the_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()
    for _, _, scene in told(monkeypatch, "entities"):
        summary, guide, segment = scene.texts
        names = replies.parse_names(scene.replies[0])
        assert names
        assert all(name.casefold() in segment.casefold() for name in names)
        assert summary.startswith("About ")
        seen["guided"] += bool(guide)
        seen["not guided"] += not guide
    for shown, _, scene in told(monkeypatch, "relations"):
        _, names, _, segment = scene.texts
        triples = replies.parse_triples(scene.replies[0])
        pairs = {(f.subject, f.object) for f in shown.sentences}
        for a, b, text in triples:
            assert (a, b) in pairs
            assert {a, b} <= set(names.splitlines())
            assert text[1:] in segment, "but for the capital, where an opening was left out"
        seen["relations"] += len(triples)
    assert min(seen.values()) > 20, seen


def test_a_verdict_is_proved_by_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()
    for shown, asked, scene in told(monkeypatch, "reflection"):
        verdict = replies.parse_verdict(scene.replies[0])
        assert verdict is not None
        assert asked is not None
        text = "\n".join(scene.texts)
        there = [fact for fact, sentence in shown.sentences.items() if sentence in text]
        found = proves(asked, there)
        assert (verdict.answer == asked.answer) if found else verdict.answer is None
        assert ("The text does not say: " in verdict.reason) == (not found)
        if not found and asked.query in (q for q in (asked.query,) if isinstance(q, Path)):
            first = asked.supports[:1]
            known = bool(first) and first[0] in there
            seen["a known fact in the reason"] += known and verdict.reason.index("The text") > 0
        seen["answered" if found else "not answered"] += 1
    assert min(seen.values()) > 5, seen
    assert len(seen) == 3


def test_pages_hold_the_facts_that_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0
    for shown, asked, scene in told(monkeypatch, "lookup"):
        pages = numbers_in(scene.replies[0], "Pages")
        assert pages
        for fact in asked.supports:
            where = [i for i, text in enumerate(scene.texts) if shown.sentences[fact][-12:] in text]
            assert set(where) & set(pages)
        count += 1
    assert count > 40
