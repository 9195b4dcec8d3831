import json
import platform

import pytest
from harness_training.progress import Hardware, PassedStage, Progress
from harness_training.tasks import Skill
from pocket.card import CHANGED, EMBEDDED, UNTRAINED, Card, Exam, Result, Training, check_weights
from pocket.eval import card as cards
from pocket.eval.card import (
    Origin,
    card_after_training,
    card_page,
    fingerprint,
    stale,
    tables,
    trained_skills,
)
from pocket.tasks import catalog
from pocket.tasks.catalog import skills

from harness.errors import CannotRun
from packages.pocket.tests import trainings

RIGHT = {
    "first": {"0 recall": 0.97},
    "second": {"0 pecan search": 0.5, "1 answer": 0.97},
    "third": {"0 answer": 0.97, "1 pecan points": 0.25},
}


def passed(*names):
    return [
        PassedStage(name, 5, RIGHT[name], mastered=True, minutes=1.5 * at, stage_minutes=1.5)
        for at, name in enumerate(names, 1)
    ]


def probing(scene="sufficiency", *, head="Enough?", labels=("Yes", "No"), **how):
    """A skill like PECAN's search with everything about its prompt a parameter."""

    def play(scene, tools):
        with tools.model().session() as s:
            s.user(head)
            for text in scene.texts[:: how.get("order", 1)]:
                s.feed(("" if how.get("whole") else "\n") + text)
                s.probe(labels, how.get("after", ""))
            if scene.replies:
                s.reply(how.get("taken", labels[0]))
                s.user(
                    how.get("second", "Now answer. ")
                    + (scene.task.instruction if how.get("task", True) else "")
                )
                s.write(8)

    return Skill(how.get("name", "s"), scene, play)


@pytest.mark.parametrize(
    "change",
    [
        {"head": "Enough? "}, {"labels": ("No", "Yes")}, {"order": -1}, {"whole": True}, {"after": "It is "},
        {"taken": "Sure"}, {"second": "Answer now. "}, {"task": False},
    ],
    ids=str,
)  # fmt: skip
def test_a_fingerprint_changes_with_prompt_order_and_label(change, tiny):
    before = fingerprint(probing(), tiny)
    assert len(before) == 64
    assert (
        before == fingerprint(probing(name="other"), tiny) != fingerprint(probing(**change), tiny)
    )


def test_a_fingerprint_changes_with_the_tokenizer(tiny, tmp_path):
    other = trainings.make_tiny(tmp_path / "other", texts=["a tokenizer of very few words"] * 3)
    assert fingerprint(probing(), tiny) != fingerprint(probing(), other)


def test_a_skill_of_a_scene_nothing_makes(tiny, monkeypatch):
    monkeypatch.setitem(catalog.SCENES, "never", lambda *_: iter(()))
    with pytest.raises(
        CannotRun, match="no text of the world makes a scene of kind 'never', which 's' declares"
    ):
        fingerprint(probing("never"), tiny)


def test_skills_are_those_of_passed_stages_whatever_the_course_is_now():
    right = {
        "10 choose": 0.1,
        "2 pecan points": 0.5,
        "0 recall": 1.0,
    }  # as JSON sorts them; in order it is 0, 2, 10
    stages = [PassedStage("of an earlier course", 5, right), *passed("second")]
    assert trained_skills(stages) == ["pecan points", "choose", "pecan search", "answer"], (
        "a drill is no skill"
    )
    assert trained_skills([]) == []


def test_stale(tiny):
    a, b, c = (probing(name=name) for name in "abc")
    card = Card(
        tiny,
        skills={
            "a": fingerprint(a, tiny),
            "b": fingerprint(probing(head="Before?"), tiny),
            "gone": "0",
        },
    )
    assert stale(card, [a, b, c]) == [("b", CHANGED), ("c", UNTRAINED)]
    assert stale(card, [a]) == []


def trained(folder):
    progress = Progress(step=700, seconds=90.4, tokens=5000, passed=passed("first", "second"))
    cards.write_card(card_after_training(folder, progress, 3, Hardware("cpu", 2), Origin()))
    return cards.read_card(folder)


def test_the_card_of_a_training(model):
    card = trained(model)
    assert card.skills.keys() == {"pecan search", "answer"}
    assert card.skills["answer"] == fingerprint(skills()["answer"], model)
    assert card.sha256.keys() == {"model.safetensors", "tokenizer.json"}
    stages = tuple(passed("first", "second"))
    assert card.trained == Training(3, 700, 5000, 90, stages, Hardware("cpu", 2))
    assert card.results == []
    check_weights(model)
    text = (model / "card.json").read_text() + (model / "CARD.md").read_text()
    assert platform.node() not in text
    assert str(model) not in text
    assert "never to be mistaken for a real model" in text
    assert "- seed 3, 700 steps: first; second" in text
    assert "began" not in json.loads((model / "card.json").read_text())["trained"]
    others = [name for name in skills() if name not in ("pecan search", "answer")]
    assert stale(card, skills().values()) == [(name, UNTRAINED) for name in others]


def test_the_card_of_the_embedded_model_is_read_and_written_whole():
    written = json.loads((EMBEDDED / "card.json").read_text())
    assert json.loads(json.dumps(cards.read_card(EMBEDDED).as_json())) == written


def test_results_take_the_place_of_those_of_the_same_skill(model):
    def rows(skill, value):
        return [Result(skill, "one hop", "8 facts", "exact match", value, value - 0.1, value, 50)]

    card = cards.with_results(
        trained(model), [*rows("answer", 0.5), *rows("choose", 0.25)], Exam(50, 0)
    )
    card = cards.with_results(card, rows("answer", 0.75), Exam(50, 0))
    assert cards.write_card(card) == model
    again = cards.read_card(model)
    assert again == card
    assert [(r.skill, r.value) for r in again.results] == [("choose", 0.25), ("answer", 0.75)]
    another = cards.with_results(card, rows("answer", 0.5), Exam(50, 1))
    assert [r.skill for r in another.results] == ["answer"], "another exam"
    check_weights(model)


def _flip(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (
            lambda f: _flip(f / "model.safetensors"),
            "the weights in .* are damaged: model.safetensors has .* reinstall",
        ),
        (
            lambda f: (f / "model.safetensors").unlink(),
            "lacks model.safetensors .*reinstall the model",
        ),
        (lambda f: (f / "card.json").unlink(), "there is no card.json beside the weights"),
        (
            lambda f: (f / "card.json").write_text("{"),
            "card.json cannot be read .*reinstall the model",
        ),
    ],
    ids=["weights", "no weights", "no card", "torn card"],
)
def test_damage(harm, sentence, model):
    trained(model)
    check_weights(model)
    harm(model)
    with pytest.raises(CannotRun, match=sentence):
        check_weights(model)


RESULTS = [
    Result("answer", "one hop", "8 facts", "exact match", 0.97, 0.93, 0.99, 100),
    Result("answer", "one hop", "250 tokens", "exact match", 0.6, 0.5, 0.7, 100),
    Result("answer", "two hops", "8 facts", "exact match", 0.2, 0.1, 0.3, 100, failed=2),
    Result("choose", "one hop", "8 facts", "exact match", 0.3, 0.2, 0.6, 50, floor=0.25),
    Result("pecan search", "one hop", "points", "AUC", 0.9, 0.85, 0.95, 200, floor=0.8),
    Result("pecan search", "one hop", "chunks", "AUC", None, None, None, 0),
    Result("pecan points", "points", "100 tokens", "invented", 0.9, 0.85, 0.95, 40),
]


def test_the_tables_of_a_card():
    found = dict(tables(RESULTS))
    assert found["answer: exact match"] == [
        ["", "8 facts", "250 tokens"],
        ["one hop", "97 [93, 99] of 100", "60 [50, 70] of 100"],
        ["two hops", "20 [10, 30] of 100, 2 failed", ""],
    ]
    assert found["pecan search: AUC"] == [
        ["", "points", "chunks"],
        ["one hop", "90 [85, 95] of 200, floor 80", "-"],
    ]


def test_the_page_has_the_results(tmp_path):
    text = card_page(Card(tmp_path, results=RESULTS, exam=Exam(100, 0)))
    assert "Exam of seed 0, 100 questions a cell" in text
    line = "- **answer: exact match.** one hop: 8 facts = 97 [93, 99] of 100; 250 tokens = 60 [50, 70] of 100. two"
    assert line in text


def test_a_card_without_anything_has_a_page(tiny, tmp_path):
    card = cards.blank_card(tiny)
    cards.write_card(card, tmp_path / "elsewhere")
    text = (tmp_path / "elsewhere" / "CARD.md").read_text()
    assert "not examined yet" in text
    assert "Nothing is known of it." in text
    assert json.loads((tmp_path / "elsewhere" / "card.json").read_text())["sha256"] == dict(
        card.sha256
    )
    assert not (tiny / "card.json").exists()
