"""Scenes: verdicts turn true when the needed facts are shown, points have each fact once, seeds never mix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness.errors import UnknownName
from harness.method import Scene
from harness.stats.rng import Dice
from pocket.tasks import parts as scene_parts
from pocket.tasks import scenes
from pocket.tasks.catalog import SCENES, stage
from pocket.tasks.parts import SCHEMAS, Recipe, Shown
from pocket.tasks.scenes import show, task_of
from pocket.world.fact_graph import UNANSWERABLE, Asked
from pocket.world.facts import Fact, FactBase, prove
from pocket.world.sample import FIRST_TRAINING_SEED, Purpose
from pocket.world.sample import sample as real_sample
from tests.pocket.reading import read

EVERY = {"one": 1.0, "two": 1.0, "compare": 1.0, "same": 1.0, "nothing": 1.0}
KINDS = [*SCHEMAS]
PURPOSES: tuple[Purpose, ...] = ("training", "evaluation")


def recipes(pieces: int) -> Iterator[tuple[Recipe, Dice]]:
    for n in range(84):
        kind = (KINDS[n % len(KINDS)],)
        size = {"facts": (2, 12)} if n % 2 else {"tokens": (200, 500)}
        yield Recipe("x", kind, ask=EVERY, questions=4, pieces=pieces, **size), Dice("scenes", n)


def told(scene: str, pieces: int = 1) -> list[tuple[Shown, Scene]]:
    found = []
    for recipe, dice in recipes(pieces):
        shown = show(recipe, dice)
        found += [(shown, s) for s in SCENES[scene](recipe, shown, dice)]
    return found


# --- texts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [1, 4])
def test_the_parts_state_their_facts_whole_and_nothing_else(pieces: int) -> None:
    lengths = Counter()
    for recipe, dice in recipes(pieces):
        shown = show(recipe, dice)
        assert len(shown.texts) == len(shown.stated)
        lengths[len(shown.texts)] += 1
        for text, facts in zip(shown.texts, shown.stated, strict=True):
            for fact in shown.sentences:
                assert (shown.sentences[fact] in text) == (fact in facts), fact
        assert list(shown.sentences) == shown.asker.facts
        for fact, sentence in shown.sentences.items():
            assert fact in read(SCHEMAS[shown.kind], sentence)
        if recipe.facts is not None:
            assert recipe.facts[0] <= len(shown.sentences) <= recipe.facts[1]
            assert pieces == 1 or all(len(facts) == 1 for facts in shown.stated)
    assert len(lengths) > 1 or pieces == 1


def test_a_cut_document_loses_no_character(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(scenes, "sample", lambda *a, **k: made.append(real_sample(*a, **k)) or made[-1])
    for n in range(30):
        shown = show(Recipe("x", ("musique", "qasper", "narrativeqa"), tokens=(200, 800), pieces=5), Dice("cut", n))
        assert "".join(shown.texts) == made[-1].documents[0].text
        assert 2 <= len(shown.texts) <= 5
        assert max(map(len, shown.texts)) < 2 * min(map(len, shown.texts)) + 60


@pytest.mark.parametrize("kind", KINDS)
def test_some_parts_are_shown_in_random_order(kind: str) -> None:
    shares, orders = set(), set()
    for n in range(12):
        recipe, dice = Recipe("x", (kind,), tokens=(300, 700), pieces=6, ask=EVERY), ("some", kind, n)
        whole, part = show(recipe, Dice(*dice)), show(replace(recipe, some=True), Dice(*dice))
        stated = dict(zip(whole.texts, whole.stated, strict=True))
        places = [whole.texts.index(text) for text in part.texts]
        assert [stated[text] for text in part.texts] == list(part.stated)
        assert max(1, len(whole.texts) // 3) <= len(set(places)) == len(places) <= len(whole.texts)
        assert part.asker.facts == [fact for facts in part.stated for fact in facts]  # no other may be asked for
        shares.add(len(places) / len(whole.texts))
        orders.add(places == sorted(places))
    assert len(shares) > 2
    assert False in orders


# --- seeds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("purpose", PURPOSES)
def test_evaluation_and_training_never_share_a_seed(monkeypatch: pytest.MonkeyPatch, purpose: Purpose) -> None:
    seeds: list[int] = []

    def sample(kind: str, seed: int, **more: object) -> object:
        assert more["purpose"] == purpose
        seeds.append(seed)
        return real_sample(kind, seed, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(scenes, "sample", sample)
    for scene in SCENES:
        for n in range(20):
            list(stage(Recipe("x", ("musique",), facts=(3, 6), pieces=2), scene, Dice(scene, n), purpose))
    assert all((seed >= FIRST_TRAINING_SEED) == (purpose == "training") for seed in seeds)
    assert len(set(seeds)) > 0.99 * len(seeds) > 90


# --- every kind of scene ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scene", SCENES)
def test_the_same_dice_make_the_same_scenes(scene: str) -> None:
    recipe = Recipe("x", tuple(KINDS), facts=(4, 12), ask=EVERY, questions=3, pieces=2)
    one, two, other = ([s for n in range(8) for s in stage(recipe, scene, Dice(n, x))] for x in ("a", "a", "b"))
    assert one == two != other
    assert len(one) > 2


def test_answers() -> None:
    seen = Counter()
    for shown, scene in told("question"):
        assert scene.texts == shown.texts
        assert scene.task == task_of(shown.kind)
        assert not scene.verdicts
        (answer,) = scene.replies
        words = [t for f in shown.asker.facts for t in (f.subject, f.object)]
        seen[answer if answer in ("yes", "no", UNANSWERABLE) else "a thing of the text"] += 1
        assert answer in words or answer in ("yes", "no", UNANSWERABLE)
    assert all(seen[a] > 5 for a in ("yes", "no", UNANSWERABLE, "a thing of the text"))


def test_no_question_twice_about_a_text() -> None:
    for recipe, dice in recipes(1):
        texts = [s.question.text for s in stage(recipe, "question", dice)]
        assert len(texts) <= recipe.questions
        assert len(set(texts)) == len(texts)


def test_choices() -> None:
    found = told("choice")
    places = Counter()
    for shown, scene in found:
        (answer,) = scene.replies
        options = scene.question.options
        assert options is not None
        assert len(set(options)) == 4
        places[options.index(answer)] += 1
        assert any(answer in (f.subject, f.object) for f in shown.asker.facts)
        assert scene.task == task_of("quality")
    assert set(places) == {0, 1, 2, 3}
    assert max(places.values()) < 0.4 * len(found)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Asked]:
    """Question text -> what was asked, for everything drawn while the test runs."""
    found: dict[str, Asked] = {}
    before = scene_parts.drawn

    def draw(recipe: Recipe, shown: Shown, dice: Dice) -> Asked | None:
        asked = before(recipe, shown, dice)
        if asked is not None:
            found[asked.text] = asked
        return asked

    monkeypatch.setattr(scene_parts, "drawn", draw)
    return found


@pytest.mark.parametrize("pieces", [1, 4])
def test_a_verdict_is_true_exactly_from_when_the_needed_facts_are_shown(drawn: dict[str, Asked], pieces: int) -> None:
    runs = Counter()
    for recipe, dice in recipes(pieces):
        shown = show(recipe, dice)
        drawn.clear()
        line = {scenes._line(text): facts for text, facts in zip(shown.texts, shown.stated, strict=True)}
        line |= dict.fromkeys(scenes._headlines(shown), ())  # what a text is about proves nothing
        for scene in SCENES["sufficiency"](recipe, shown, dice):
            asked = drawn[scene.question.text]
            needed = {f for f in asked.supports if not prove(asked.query, shown.asker.base, without=f)}
            seen: set[Fact] = set()
            right = []
            for text in scene.texts:
                seen |= set(line[text])
                right.append(asked.kind != "unanswerable" and needed <= seen)
            assert scene.verdicts == tuple(right)
            assert sorted(scene.verdicts) == list(scene.verdicts)  # once true, it stays true
            assert scene.replies == ((asked.answer,) if right[-1] else ())
            runs[right[0], right[-1]] += 1
    assert runs[False, False] > 5
    assert runs[True, True] > 5
    assert pieces == 1 or runs[False, True] > 20


@pytest.mark.parametrize("some", [False, True])
def test_mixed_parts_are_shown_as_their_facts_and_verdicts_stay_proved(drawn: dict[str, Asked], some: bool) -> None:
    """What a line says is read back from the text alone, and the verdicts are proved anew from what was read."""
    ways = Counter()
    for n in range(42):
        recipe = Recipe(
            "x", (KINDS[n % 7],), tokens=(300, 700), pieces=6, some=some, mixed=True, ask=EVERY, questions=2
        )
        dice = Dice("mixed", n)
        shown = show(recipe, dice)
        drawn.clear()
        whole = {scenes._line(text): facts for text, facts in zip(shown.texts, shown.stated, strict=True)}
        heads = scenes._headlines(shown)
        for scene in SCENES["sufficiency"](recipe, shown, dice):
            asked, base = drawn[scene.question.text], FactBase()
            for text, verdict in zip(scene.texts, scene.verdicts, strict=True):
                facts = () if text in heads else whole.get(text)
                if facts is None:
                    facts = tuple(read(SCHEMAS[shown.kind], text) & shown.sentences.keys())
                    assert len(facts) == 1, text
                    ways["a line"] += 1
                elif facts:
                    ways["a part"] += 1
                for fact in facts:
                    base.add(fact)  # which refuses what was said before
                proved = asked.kind != "unanswerable" and prove(asked.query, base) == {asked.answer}
                assert verdict == proved
                ways[verdict] += 1
            assert scene.replies == ((asked.answer,) if scene.verdicts[-1] else ())
    assert min(ways[way] for way in ("a line", "a part", True, False)) > 30


@pytest.mark.parametrize("lacking", [None, 0.0, 1.0])
def test_the_share_of_searches_that_lack_a_fact(monkeypatch: pytest.MonkeyPatch, lacking: float | None) -> None:
    if lacking is not None:
        monkeypatch.setattr(scenes, "_LACKING", lacking)
    recipe = Recipe("x", ("musique", "narrativeqa"), facts=(6, 12), pieces=2, ask={"one": 1, "two": 1}, questions=4)
    found = [s for n in range(80 if lacking is None else 10) for s in stage(recipe, "sufficiency", Dice("lack", n))]
    share = sum(not s.replies for s in found) / len(found)
    # About 300 searches: 0.4 with a deviation of 0.03.
    assert share == lacking if lacking is not None else 0.31 < share < 0.49


@pytest.mark.parametrize("pieces", [1, 3])
def test_a_summary_is_the_points_in_one_paragraph(pieces: int) -> None:
    for recipe, dice in recipes(pieces):
        shown = show(recipe, dice)
        (points,), (summary,) = (list(SCENES[name](recipe, shown, dice)) for name in ("points", "summary"))
        assert summary.replies == (" ".join(line.removeprefix("* ") for line in points.replies[0].split("\n")),)
        assert (summary.texts, summary.task, summary.verdicts) == (points.texts, points.task, ())


@pytest.mark.parametrize("pieces", [1, 3])
def test_points_have_each_fact_once(pieces: int) -> None:
    for shown, scene in told("points", pieces):
        (reply,) = scene.replies
        lines = reply.split("\n")
        assert all(line.startswith("* ") for line in lines)
        assert len(lines) == len(shown.sentences)
        for line, fact in zip(lines, shown.sentences, strict=True):  # in the order of the text
            assert fact in read(SCHEMAS[shown.kind], line[2:])
        assert scene.question.text == ""
        assert all("\n" not in text for text in scene.texts)


def test_points_leave_out_opening_phrases() -> None:
    """The points of a text and those of the same text without its openings are the same."""
    openings = ("As far as", "By all accounts", "It is certain", "In truth", "As it happened", "In this work")
    texts, replies = "", ""
    for shown, scene in told("points"):
        texts, replies = texts + "".join(shown.texts), replies + scene.replies[0]
    assert sum(texts.count(o) for o in openings) > 20
    assert not any(o in replies for o in openings)


def of_line(line: str) -> list[str]:
    """The names in "* About A, B and C."."""
    assert line.startswith("* About ")
    return line.removeprefix("* About ").removesuffix(".").replace(" and ", ", ").split(", ")


@pytest.mark.parametrize("size", [{"facts": (2, 14)}, {"tokens": (300, 1700)}])
def test_gathered_points_name_every_subject_once_in_groups(size: dict[str, tuple[int, int]]) -> None:
    kinds: Counter[str] = Counter()
    for n in range(60):
        recipe, dice = Recipe("x", ("musique", "qasper"), pieces=2, **size), Dice("gathered", n)
        shown = show(recipe, dice)
        (scene,) = SCENES["gathered"](recipe, shown, dice)
        lines = [of_line(line) for line in scene.replies[0].split("\n")]
        named = [name for line in lines for name in line]
        assert len(named) == len(set(named))
        assert all(len(line) == 4 for line in lines[:-1])
        if scene.texts[0].startswith("About "):
            kinds["lines"] += 1
            assert named == list(dict.fromkeys(of_line(f"* {text}")[0] for text in scene.texts))
            continue
        subjects = {scene_parts.plain(s, shown.schema): f.subject for f, s in shown.sentences.items()}
        kinds["points"] += 1
        kinds["several of a subject"] += len(named) < len(scene.texts)
        assert named == list(dict.fromkeys(subjects[text] for text in scene.texts))
        if "tokens" in size:
            told = [text for text in subjects if text in scene.texts]
            assert list(scene.texts) == told, "the order of the document, nothing left out between"
    assert min(kinds["lines"], kinds["points"]) >= 6, kinds
    assert "facts" in size or kinds["several of a subject"] >= 10, kinds


def test_a_kind_of_scene_that_nobody_makes() -> None:
    with pytest.raises(UnknownName, match="unknown kind of scene 'pionts'. Did you mean 'points'"):
        next(stage(Recipe("x", ("musique",), facts=(2, 2)), "pionts", Dice("none")))


def test_a_text_that_states_nothing_has_no_gathered_points() -> None:
    shown = replace(show(Recipe("x", ("musique",), facts=(2, 2)), Dice("none")), texts=("Calm.",), stated=((),))
    assert list(SCENES["gathered"](Recipe("x", ("musique",)), shown, Dice("none"))) == []


def test_a_wrong_option_stands_on_the_same_side_of_the_relation(drawn: dict[str, Asked]) -> None:
    for n in range(150):
        recipe, dice = Recipe("x", ("quality",), facts=(10, 20), questions=3), Dice("side", n)
        shown = show(recipe, dice)
        drawn.clear()
        for scene in SCENES["choice"](recipe, shown, dice):
            asked = drawn[scene.question.text]
            kind = shown.asker.schema.ends(asked.query.steps[-1])[1]  # type: ignore[union-attr]
            named = {thing for f in shown.asker.facts for thing in (f.subject, f.object)}
            assert scene.question.options is not None
            assert named & set(scene.question.options) <= set(scenes._of_kind(shown, kind))
