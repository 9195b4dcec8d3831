"""Scenes of a walk: the right part has the first missing fact, and an answer is proved by what is shown."""

from collections import Counter
from collections.abc import Iterator

import pytest

from harness.method.hooks import Scene
from methods.memwalker.replies import parse_choice, parse_verdict
from pocket.tasks import shown_text, tree_walk
from pocket.tasks.shown_text import Shown
from pocket.world.fact_graph import Asked
from pocket.world.facts import Fact
from tests.pocket import made_scenes
from tests.pocket.reading import proves


def told(monkeypatch: pytest.MonkeyPatch, kind: str, pieces: int) -> Iterator[tuple[Shown, Asked | None, Scene]]:
    return made_scenes.told(monkeypatch, tree_walk, kind, made_scenes.shows("walk", 84, (2, 14), (200, 600), pieces))


def stated(text: str, shown: Shown) -> list[Fact]:
    """The facts of the text whose sentence, with or without its opening, stands in `text`."""
    sentences = {fact: shown_text.plain(s, shown.schema) for fact, s in shown.sentences.items()}
    return [f for f, s in sentences.items() if s in text or shown.sentences[f] in text]


@pytest.mark.parametrize("pieces", [1, 4])
def test_the_part_that_is_chosen_has_the_first_missing_fact(monkeypatch: pytest.MonkeyPatch, pieces: int) -> None:
    kinds: Counter[str] = Counter()
    for shown, asked, scene in told(monkeypatch, "triage", pieces):
        memory, *summaries = scene.texts
        number = parse_choice(scene.replies[0], len(summaries))
        assert number is not None
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
def test_a_segment_answers_where_it_and_the_memory_prove_it(monkeypatch: pytest.MonkeyPatch, pieces: int) -> None:
    kinds: Counter[str] = Counter()
    for shown, asked, scene in told(monkeypatch, "leaf", pieces):
        memory, segment = scene.texts
        found = parse_verdict(scene.replies[0])
        assert found is not None
        assert asked is not None
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


def test_a_fact_that_is_taken_out_leaves_the_text_around_it() -> None:
    fact, other = Fact("A", "r", "B"), Fact("C", "r", "D")
    shown = Shown("musique", (), (), {fact: "A is B.", other: "C is D."}, None)  # type: ignore[arg-type]
    without = shown_text.remove_fact
    assert without(fact, "One. A is B. Two.", (fact, other), shown) == ("One. Two.", (other,))
    assert without(fact, "A is B. Two.", (fact,), shown) == ("Two.", ())
    assert without(fact, "One. A is B.", (fact,), shown) == ("One.", ())
    assert without(fact, "One. A is B.", (other,), shown) == ("One. A is B.", (other,))
    assert without(fact, "A is B. A is B.", (fact,), shown) == ("A is B. A is B.", (fact,))
