import math
import re
from dataclasses import replace

import pytest
from harness_training.exam import ScoredProbe, area_under_roc, record_scene
from harness_training.tasks import Scene, SceneOutcome, Skill
from hypothesis import given, settings
from hypothesis import strategies as st
from pocket.eval import exam
from pocket.eval.exam import NEEDED_FACTS_ONLY, QUESTION_KINDS, cells, draw_sittings, examine
from pocket.eval.metrics import EXACT, LIKELIHOOD, Sitting, measure
from pocket.tasks.catalog import skills

from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.errors import WindowExceeded
from harness.llm.backend import load_model
from harness.llm.scripted import Script, ScriptedModel, ScriptedSession
from harness.models import MeteredModel
from harness.types import Question
from packages.pocket.tests.parrot import TASK, Parrots, knowing, skill
from packages.pocket.tests.reading import proves, read

LENGTHS = ["8 facts", "250 tokens", "500 tokens", "1000 tokens", "1500 tokens"]


def sit(played, questions=4):
    return examine(Parrots(), questions=questions, seed=3, progress=lambda _: None, skills=[played])


def test_the_cells_of_an_answer_and_full_marks_for_who_knows_it():
    rows = sit(skill("answer", "question", knowing))
    wanted = [
        (QUESTION_KINDS[a], t)
        for a in QUESTION_KINDS
        for t in [NEEDED_FACTS_ONLY, *LENGTHS]
        if (a, t) != ("nothing", NEEDED_FACTS_ONLY)
    ]
    assert [(r.asked, r.text) for r in rows] == wanted
    assert {(r.skill, r.measure, r.value, r.high, r.n, r.failed) for r in rows} == {
        ("answer", EXACT, 1, 1, 4, 0)
    }
    assert {r.floor for r in rows if r.asked == "compare"} == {0.5}
    assert {r.floor for r in rows if r.asked == "same (yes/no)"} <= {0.5, 0.75, 1.0}
    assert {r.floor for r in rows if r.asked not in ("compare", "same (yes/no)")} == {None}
    assert all(r.low is not None and 0 < r.low < 1 for r in rows), (
        "four right answers are no certainty"
    )


@pytest.mark.parametrize(
    ("says", "value"),
    [
        (lambda s: ["x" + s.replies[0]], 0.0),
        (lambda s: [], 0.0),
        (lambda s: [f"  {s.replies[0]}\n"], 1.0),
    ],
    ids=["wrong", "silent", "white space around it"],
)
def test_a_reply_is_compared_letter_for_letter(says, value):
    assert {r.value for r in sit(skill("choose", "choice", says), 2)} == {value}


@pytest.mark.parametrize(
    "cell",
    [c for c in cells(skill("answer", "question", knowing)) if c.needed],
    ids=lambda c: c.asked,
)
def test_needed_facts_only(cell):
    """Every sentence of the text is a sentence of a needed fact, and the answer is proved by
    them."""
    for sat in draw_sittings(skill("answer", "question", knowing), cell, 10, seed=0):
        assert proves(sat.asked, sat.asked.supports)
        assert sat.scene.replies == (sat.asked.answer,)
        (text,) = sat.scene.texts
        assert says_only(text, frozenset(sat.asked.supports))


def says_only(text, facts):
    """Whether the text can be cut into sentences that state these facts, each once, and nothing
    else."""
    if not text or not facts:
        return not text and not facts
    for end in [m.start() for m in re.finditer(" ", text)] + [len(text)]:
        read_as = {f for name in ("encyclopedia", "story", "paper") for f in read(name, text[:end])}
        if any(says_only(text[end + 1 :], facts - {fact}) for fact in read_as & facts):
            return True
    return False


def by_measure(rows):
    return {
        name: [r for r in rows if r.measure == name]
        for name in dict.fromkeys(r.measure for r in rows)
    }


def test_a_search_that_knows_and_ones_that_do_not():
    rows_of = by_measure(sit(skill("pecan search", "sufficiency", knowing), 20))
    assert list(rows_of) == ["AUC", "accuracy at 0.5", "exact match after yes"]
    assert all(r.value == 1 for rows in rows_of.values() for r in rows)
    assert len(rows_of["AUC"]) == 8
    assert all(0 < r.n <= 20 for r in rows_of["exact match after yes"])

    same = by_measure(
        sit(skill("pecan search", "sufficiency", lambda s: ["0.9"] * len(s.verdicts)), 20)
    )
    assert {r.value for r in same["AUC"]} == {0.5}
    assert {r.value for r in same["exact match after yes"]} == {0.0}
    # The floor is that of always saying the more frequent label.
    assert all(r.floor == pytest.approx(max(r.value, 1 - r.value)) for r in same["accuracy at 0.5"])

    counting = skill(
        "pecan search", "sufficiency", lambda s: [str(i / 100) for i in range(len(s.verdicts))]
    )
    counted = by_measure(sit(counting, 20))["AUC"]
    assert all(r.value == r.floor for r in counted), "the floor is that of counting the parts"
    assert all(r.floor > 0.6 for r in counted)


def sat_of(written, right):
    return Sitting(Scene(Question("q", "", ("d",)), (), TASK, (right,)), SceneOutcome([written]))


@pytest.mark.parametrize(
    ("scene", "written", "right", "kept", "invented"),
    [
        ("points", "* a b.\n* c d.", "* a b.\n* c d.", 1.0, 0.0),
        ("points", "* c d.\n\n* a b.\n", "* a b.\n* c d.", 1.0, 0.0),
        ("points", "* a b.\n* x y.\n* a", "* a b.\n* c d.", 0.5, 2 / 3),
        ("points", "* a b.\n* a b.", "* a b.\n* c d.", 0.5, 0.0),
        ("points", "", "* a b.", 0.0, None),
        (
            "gathered",
            "* About A, B and C.\n* About D.",
            "* About A, B and C.\n* About D.",
            1.0,
            0.0,
        ),
        ("gathered", "* About A and X.", "* About A, B and C.\n* About D.", 0.25, 0.5),
        ("gathered", "* A, B and C", "* About A, B and C.", 0.0, 1.0),
        ("summary", "A is b. C is d! E", "A is b. C is d!", 1.0, 1 / 3),
        ("shortened", "About A and B. About C.", "About A, X and B. About D.", 0.5, 1 / 3),
        ("entities", "* Toren\n* Kelford", "* Toren\n* Belra", 0.5, 0.5),
        ("relations", "* A | B | A met B.\n* B | A | no", "* A | B | B was met by A.", 1.0, 0.5),
        (
            "outline",
            "<abstract>x</abstract><section: A>y</section: A>",
            "<section: A>z</section: A>",
            1.0,
            0.0,
        ),
        ("doubts", "* Who leads Toren?\n* When did it?", "* By whom is Toren led?", 1.0, 0.5),
        (
            "decomposed",
            "* Who leads Toren?\n* Who wed #1?",
            "* Toren is led by whom?\n* Whom did #1 marry?",
            0.5,
            0.5,
        ),
    ],
)
def test_points_and_names(scene, written, right, kept, invented):
    means = {
        name: value.mean for name, (value, _) in measure(scene, [sat_of(written, right)]).items()
    }
    assert means == {
        "kept": pytest.approx(kept),
        "invented": invented if invented is None else pytest.approx(invented),
    }


def test_a_choice_among_parts_and_what_follows_the_reasoning():
    scene = Scene(Question("q", "", ("d",)), ("", "a", "b", "c"), TASK, ("Action: 2",))
    right = Sitting(scene, SceneOutcome(["Action: 2"]))
    ((value, floor),) = measure(
        "triage", [right, replace(right, outcome=SceneOutcome(["Action: 1"]))]
    ).values()
    assert (value.mean, floor) == (0.5, pytest.approx(1 / 3))
    sitting = sat_of("Reasoning: x\nAction: -2\nAnswer: A", "Reasoning: y\nAction: -2\nAnswer: A")
    assert measure("reflection", [sitting])["exact match after the reasoning"][0].mean == 1.0


def test_how_likely_scored_tokens_are():
    """The geometric mean over scenes: of 1/2 and 1/8 it is 1/4; a scene that could not be scored
    has next to nothing."""
    scene = Scene(Question("q", "", ("d",)), ("x",), TASK)
    outcome = [SceneOutcome(scored=[math.log(0.5)]), SceneOutcome(scored=[math.log(0.125)])]
    value, _ = measure("guessed", [Sitting(scene, h) for h in outcome])[LIKELIHOOD]
    assert (value.n, value.mean) == (2, pytest.approx(0.25))
    assert (value.low, value.high) == (None, None), "two scenes have no interval"
    value, _ = measure(
        "followed", [Sitting(scene, h) for h in [outcome[0], SceneOutcome(failed=True)]]
    )[LIKELIHOOD]
    assert value.mean == pytest.approx(math.sqrt(0.5 * math.exp(-20)))


@given(
    st.lists(
        st.builds(
            ScoredProbe,
            st.integers(0, 5),
            st.sampled_from([0.1, 0.4, 0.5, 0.9]),
            st.booleans(),
        ),
        max_size=30,
    )
)
@settings(deadline=None, max_examples=60)
def test_the_area_is_the_share_of_pairs_in_order(probes):
    found = area_under_roc(probes)
    right, wrong = ([p for _, p, r in probes if r is yes] for yes in (True, False))
    if not right or not wrong:
        assert (found.mean, found.low, found.high) == (None, None, None)
        return
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a in right for b in wrong]
    value, low, high = found.mean, found.low, found.high
    assert value == pytest.approx(sum(pairs) / len(pairs))
    assert 0 <= low <= high <= 1
    if value in (0.0, 1.0):
        assert high - low > 0.01, "few scenes are no certainty"


PROBED = ["AUC", "accuracy at 0.5", "exact match after yes"]
FOUND = ["kept", "invented"]
BY_KIND = {
    "question": [EXACT],
    "choice": [EXACT],
    "sufficiency": PROBED,
    "points": FOUND,
    "gathered": FOUND,
}


@pytest.mark.parametrize("scene", BY_KIND)
def test_a_skill_the_exam_does_not_know_has_one_cell_of_its_kind(scene):
    rows = sit(skill("brand new", scene, knowing), 8)
    assert [(r.measure, r.text) for r in rows] == [(name, "250 tokens") for name in BY_KIND[scene]]
    assert all(r.n >= 2 for r in rows)


@pytest.mark.parametrize("probes", [False, True])
def test_a_kind_of_scene_the_exam_does_not_know(probes, monkeypatch):
    def stranger(recipe, shown, dice):
        yield Scene(
            Question("q", "", ("d",)), shown.texts, TASK, ("a",), (True, False) if probes else ()
        )

    monkeypatch.setitem(exam.SCENES, "strange", stranger)
    rows = sit(skill("brand new", "strange", knowing), 3)
    assert [r.measure for r in rows] == (PROBED if probes else [EXACT])
    assert {r.value for r in rows} == {1.0}


@pytest.fixture(scope="module")
def model(tiny):
    return load_model(ModelConfig(name="tiny", source=str(tiny)))


def _search(scene, tools):
    with tools.model("searcher").session() as s:
        asked = s.user(scene.question.text)
        for text in scene.texts:
            span = s.feed(text, watch=[asked])
            assert len(span.attention) == 1
            s.probe(["Yes", "No"])
        s.write(500)


def test_what_is_heard_is_what_the_session_says(model):
    scene = Scene(
        Question("q", "Who?", ("d",)), ("Ann met Bob.", "Bob left."), TASK, ("Ann",), (False, True)
    )
    outcome = record_scene(model, Skill("s", "sufficiency", _search), scene)
    p = []
    with MeteredModel(model, Meter(), "reader").session() as s:
        s.user("Who?")
        for text in scene.texts:
            s.feed(text)
            p.append(s.probe(["Yes", "No"]).p["Yes"])
        most = 2 * model.count("Ann") + 16
        written = s.write(most)
    assert outcome.p_first == pytest.approx(p)
    assert outcome.written == [written.text.strip()]
    assert (written.finish, outcome.failed) == ("length", False), (
        "random weights go on and on, so the cap was met"
    )


def test_all_that_a_skill_asks_of_a_session_reaches_the_model(monkeypatch):
    begun = []
    monkeypatch.setattr(ScriptedSession, "begin_text", lambda _: begun.append("begun"))

    def played(_, tools):
        with tools.model("compressor").session() as s:
            s.begin_text()
            s.user()
            s.score("a b")
            s.score("")

    scene = Scene(Question("q", "", ("d",)), ("a b",), TASK)
    outcome = record_scene(ScriptedModel(Script(replies=[])), Skill("s", "guessed", played), scene)
    assert (begun, outcome.scored, outcome.failed) == (
        ["begun"],
        [-1.5],
        False,
    )  # the n-th token has -n


def test_a_scene_that_does_not_fit_is_wrong_and_counted(model):
    long = Scene(
        Question("q", "Who?", ("d",)),
        ("Ann met Bob.", "word " * 2000),
        TASK,
        ("Ann",),
        (False, True),
    )
    with pytest.raises(WindowExceeded), MeteredModel(model, Meter(), "reader").session() as s:
        s.user("word " * 2000)
    outcome = record_scene(model, Skill("s", "sufficiency", _search), long)
    assert outcome.failed
    assert (outcome.written, outcome.p_first[1]) == ([""], 0.5)


def test_an_exam_of_a_verdict_on_questions_alone_asks_for_both():
    skill = skills()["longrefiner analysis"]
    (cell,) = cells(skill)
    assert {sitting.scene.verdicts for sitting in draw_sittings(skill, cell, 20, 0)} == {
        (True,),
        (False,),
    }
