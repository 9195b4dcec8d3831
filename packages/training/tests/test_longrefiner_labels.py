"""LongRefiner's training data and measures: a page's headings, a teacher's labels, F1 by hand,
adapters by name."""

import json

import pytest
from harness_training.example_files import Item, read_scenes, scene_from_json, scene_to_json
from harness_training.labelling import LabelModels, LabelWriter
from harness_training.method_skills.longrefiner_labels import outline_items, parse_level, tasks
from harness_training.question_sets import TrainingQuestions
from harness_training.settings import Settings, read_settings
from harness_training.tasks import Scene, SceneOutcome

from harness.config.schema import ModelConfig
from harness.engine.runnable_presets import runnable_presets
from harness.errors import UserError
from harness.llm.adapters import with_bundled_adapters
from harness.llm.scripted import Script, ScriptedModel
from harness.method import Task
from harness.models import CAPABILITIES
from harness.types import Document, Example, Gold, Question
from methods.longrefiner.config import LongRefinerConfig
from methods.longrefiner.outline import Clip, Part, parse_outline, write_outline
from methods.longrefiner.pages import page_from_text
from tests.methods.conftest import FakeTools
from tests.methods.test_longrefiner import plan

LONG = "This paragraph has the twenty words that it takes to stand alone, so nothing at all is joined to it here."
SHORT = "A short one."


def words(text):
    found, at = [], 0
    for word in text.split():
        start = text.index(word, at)
        at = start + len(word)
        found.append((start, at))
    return found


CLIP = Clip("This paragraph has the twenty words that it", "nothing at all is joined to it here.")
PAGES = {
    "KILT": f"{LONG}\nSection::::Career.\n{LONG}\nBULLET::::- an item\nSection::::Career.:Early years.\n{LONG}\n"
    f"Section::::See also.\nBULLET::::- other",
    "wiki": f"{LONG}\n== Career ==\n{LONG}\n* an item\n=== Early years ===\n{LONG}\n== See also ==\nother",
    "Markdown": f"{LONG}\n\n# Career\n\n{LONG}\n\n- an item\n\n## Early years\n\n{LONG}\n\n# See also\n\nother",
}


@pytest.mark.parametrize("text", PAGES.values(), ids=PAGES)
def test_a_page_says_its_outline_itself(text):
    found = page_from_text(text, words)
    assert found.text == " ".join([LONG] * 3)
    early = Part("sub-section", "Early years", (CLIP,))
    assert found.outline == Part(
        "root", "", (Part("abstract", "", (CLIP,)), Part("section", "Career", (CLIP, early)))
    )
    assert parse_outline(write_outline(found.outline)) == found.outline


def test_short_paragraphs_join_and_the_last_one_is_not_lost():
    found = page_from_text(
        f"== A ==\n{SHORT}\n{LONG}\n{LONG}\n{SHORT}\n== Empty ==\n== B ==\n{LONG}", words
    )
    assert found.text == f"{SHORT} {LONG} {LONG} {SHORT} {LONG}"
    assert [(p.kind, p.title, len(p.children)) for p in found.outline.children] == [
        ("section", "A", 2),
        ("section", "B", 1),
    ]


@pytest.mark.parametrize(
    "text", ["", LONG, f"{LONG}\n{LONG}\n{LONG}", f"== A ==\n{LONG}\n{LONG}"], ids=range(4)
)
def test_a_page_that_says_too_little_is_none(text):
    assert page_from_text(text, words) is None


TASK = Task(instruction="x", max_answer_tokens=8)


def labels(reply, outline="", **more):
    """A teacher that always gives this reply, and a base that writes `outline`."""
    teacher, base = (
        ScriptedModel(Script(replies=[{"reply": text}], window=9000)) for text in (reply, outline)
    )
    return LabelModels(TASK, lambda: teacher, lambda: base, teacher.offsets, **more)


TEXT = "Mira Tal was a painter of Toren. She was born at the school. In 1719 she painted the bridge. She died there."
TOLD = "<abstract>Mira Tal was <skip> painter of Toren.</abstract><section: Work>She was born <skip> died there.</section: Work>"
DOCUMENT = Document("d", TEXT, "Mira Tal")
QUESTION = Question("q", "When was the bridge painted?", ("d",))
ANALYSIS, STRUCTURING, SELECTION = tasks(LongRefinerConfig())


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ('{"query_type": "local"}', "local"),
        ('Here it is: {"query_type": " Global "}.', "global"),
        ('{"query_type": "both"}', None),
        ("local", None),
        ("{", None),
        ("", None),
    ],
)
def test_levels(reply, found):
    assert parse_level(reply) == found
    scenes = ANALYSIS.label(QUESTION, [DOCUMENT], labels(reply))
    assert [scene.verdicts for scene in scenes] == ([(found == "local",)] if found else [])


def test_an_outline_is_the_pages_own_or_the_teachers():
    (own,) = STRUCTURING.label(None, [Document("p", PAGES["wiki"])], labels(TOLD))
    assert own.texts == (" ".join([LONG] * 3),)
    (scene,) = STRUCTURING.label(None, [DOCUMENT], labels(TOLD))
    assert (scene.texts, scene.replies) == ((TEXT,), (TOLD,))
    for reply in ("No outline.", "<section: A>Nothing <skip> here.</section: A>", ""):
        assert STRUCTURING.label(None, [DOCUMENT], labels(reply)) == []


def test_titles_are_selected_from_the_trained_models_outline():
    models = labels('["work", "Nowhere"]', TOLD)
    (scene,) = SELECTION.label(QUESTION, [DOCUMENT], models)
    assert scene.texts == ("Mira Tal", "Mira Tal was a painter of Toren.", "\nSection1: Work")
    assert scene.replies == ("['Work']",)
    assert "Section1: Work" in models.load_teacher().prompts[-1]
    assert (
        SELECTION.asked.split("{")[0] in models.load_teacher().prompts[-1]
    )  # what the file of labels is bound to
    assert SELECTION.label(QUESTION, [DOCUMENT], labels("none", TOLD)) == []
    (none,) = SELECTION.label(QUESTION, [DOCUMENT], labels("[]", TOLD))
    assert none.replies == ("[]",)
    assert (
        SELECTION.label(QUESTION, [DOCUMENT], labels("[]", "no outline")) == []
    )  # nothing to select from


def test_labels_are_kept_and_gone_on_with(tmp_path):
    path, lines = tmp_path / "analysis.jsonl", list[str]()
    local, wide = (labels(json.dumps({"query_type": kind})) for kind in ("local", "global"))
    work = [Item(f"q{i}", Question(f"q{i}", f"Who is {i}?", ("d",)), [DOCUMENT]) for i in range(4)]
    LabelWriter(path, ANALYSIS, local, lines.append).write(work[:2], {"source": "t"})
    path.write_bytes(path.read_bytes() + b'{"id": "q2", "sce')  # torn by a kill
    LabelWriter(path, ANALYSIS, wide, lines.append).write(work, {"source": "t"})
    scenes, empty = read_scenes(path, TASK)
    assert [s.verdicts for s in scenes] == [(True,), (True,), (False,), (False,)]
    assert [s.question.text for s in scenes] == [f"Who is {i}?" for i in range(4)]
    assert empty == 0
    with pytest.raises(UserError, match="is of other data: source"):
        LabelWriter(path, ANALYSIS, wide, lines.append).write(work, {"source": "u"})
    same = scene_from_json(json.loads(json.dumps(scene_to_json(scenes[0]))), scenes[0].task)
    assert same == scenes[0]


@pytest.mark.parametrize(
    ("window", "length", "why"),
    [(40, 9000, "window"), (9000, 5, "the outline was not at its end after 5 tokens")],
)
def test_what_the_teacher_cannot_read_or_write_whole_is_left_out_and_said(
    window, length, why, tmp_path
):
    models, lines = labels(TOLD, length=length), []
    models.load_teacher().window = window
    LabelWriter(tmp_path / "s.jsonl", STRUCTURING, models, lines.append).write(
        [Item("d", None, [DOCUMENT])], {}
    )
    line = json.loads((tmp_path / "s.jsonl").read_text().splitlines()[1])
    assert (line["scenes"], why in line["left_out"]) == ([], True)
    assert lines[-1].startswith("structuring: 1 of 1 labelled, 1 without a usable reply; ")


def test_the_printed_prompts_ask_for_the_labels_of_the_paper():
    settings = read_settings(
        Settings, "longrefiner", "paper", ("analysis", "structuring", "selection"), {}
    )
    models = labels('{"query_type": "[Local]"}', asked=settings.tasks["analysis"].asked)
    (scene,) = ANALYSIS.label(QUESTION, [DOCUMENT], models)
    assert scene.verdicts == (True,)
    assert f"Query: {QUESTION.text}\nResults:" in models.load_teacher().prompts[-1]
    models = labels("['Work']", TOLD, asked=settings.tasks["selection"].asked)
    (scene,) = SELECTION.label(QUESTION, [DOCUMENT], models)
    assert scene.replies == ("['Work']",)
    assert f"**Question**:{QUESTION.text}\nOutput:" in models.load_teacher().prompts[-1]


def test_a_text_is_an_item_once_and_the_sets_take_turns():
    documents = {"a": Document("a", "one"), "b": Document("b", "one"), "c": Document("c", "two")}
    asked = {"x": ("a", "c"), "y": ("b", "c"), "z": ("c",)}
    x, y, z = (Example(Question(q, q, ids), Gold(("never",))) for q, ids in asked.items())
    merged = TrainingQuestions(
        {"one": [x, y], "two": [z]}, {"one": documents, "two": documents}, {}
    )
    assert [item.id for item in merged.items("document", 9)] == ["one/a", "one/c"]
    per_question = list(merged.items("question", 9))
    assert [(item.id, len(item.documents)) for item in per_question] == [
        ("one/x", 2),
        ("two/z", 1),
        ("one/y", 2),
    ]
    assert [item.id for item in merged.items("question", 1)] == ["one/x", "two/z"]
    assert "never" not in str(per_question)


def test_measures_by_hand():
    task = Task(instruction="x", max_answer_tokens=8)
    scene = Scene(QUESTION, (), task, ("['A', 'B']",), (True,))
    assert ANALYSIS.measure(scene, SceneOutcome(p_first=[0.6])) == {"accuracy": 1.0}
    assert ANALYSIS.measure(scene, SceneOutcome(p_first=[0.5])) == {"accuracy": 0.0}
    assert SELECTION.measure(scene, SceneOutcome(["['a']"])) == {
        "selection F1": pytest.approx(2 / 3),
        "exact": 0.0,
    }
    none = Scene(QUESTION, (), task, ("[]",))
    assert SELECTION.measure(none, SceneOutcome(["[]"])) == {"selection F1": 1.0, "exact": 1.0}
    assert SELECTION.measure(none, SceneOutcome(["nothing"])) == {"selection F1": 0.0, "exact": 0.0}
    # Right: abstract, its clip, section, its clip. Told: the section under another name, so only
    # the abstract's two.
    outline = Scene(QUESTION, (TEXT,), task, (TOLD,))
    found = STRUCTURING.measure(outline, SceneOutcome([TOLD.replace("Work", "Life")]))
    assert found == {"outline F1": 0.5, "title F1": 0.5, "exact": 0.0}
    assert STRUCTURING.measure(outline, SceneOutcome([TOLD]))["exact"] == 1.0
    assert outline_items(parse_outline(TOLD))[0] == ("abstract", "abstract")
    assert ANALYSIS.floor([scene, scene, Scene(QUESTION, (), task, (), (False,))]) == pytest.approx(
        2 / 3
    )


def test_auto_takes_what_the_model_has():
    config = LongRefinerConfig(selection_adapter="mine", structuring_adapter=None)
    assert config.adapters() == {"analysis": ("analysis", True), "selection": ("mine", True)}
    tools = FakeTools()
    for there, first in (({}, None), ({"analysis": "hash", "selection": "hash"}, "analysis")):
        tools.reader.identity = {"adapters": there}
        model = tools.model("refiner")
        found = [config.adapter(task, model) for task in ("analysis", "structuring", "selection")]
        assert found == [first, None, "mine"]


def test_a_named_adapter_must_be_there():
    with pytest.raises(
        UserError,
        match=r"of its refiner \(mine\), .* name them \(--set roles.refiner.adapters.mine=",
    ):
        plan("longrefiner-bm25", method__selection_adapter="mine")


REFUSED = (
    r"^'{preset}' needs trained adapters of its refiner \({tasks}\), which the model 'random-llama' does not have; name "
    r"them \(--set roles.refiner.adapters.\w+=FOLDER.*\), or train them \(harness train {preset} --model MODEL\), or "
    r"use longrefiner-no-adapters, which runs on the model as it is$"
)


@pytest.mark.parametrize(
    ("preset", "tasks"),
    [
        ("longrefiner-bm25", "analysis, structuring, selection"),
        ("longrefiner-no-analysis", "structuring, selection"),
        ("longrefiner-no-refinement", "structuring"),
    ],
)
def test_a_model_without_the_adapters_of_its_tasks_is_refused(preset, tasks):
    with pytest.raises(UserError, match=REFUSED.format(preset=preset, tasks=tasks)):
        plan(preset, roles__refiner="random")
    with pytest.raises(UserError, match=r"\(analysis, selection\), which"):
        plan("longrefiner-bm25", roles__refiner="random", method__structuring_adapter=None)


@pytest.mark.parametrize("preset", ["longrefiner-no-adapters", "longrefiner-no-structuring"])
def test_a_row_that_uses_no_adapters_runs_on_any_model(preset):
    assert plan(preset, roles__refiner="random").models["refiner"].adapters == {}


def test_a_model_is_not_told_to_try_a_method_that_it_has_no_adapters_for():
    found = [name for name in runnable_presets(CAPABILITIES) if name.startswith("longrefiner")]
    assert found == ["longrefiner-no-adapters", "longrefiner-rival-bge"]


def test_adapters_of_the_package_are_the_refiners_alone(tmp_path, monkeypatch):
    package = tmp_path / "carrier"
    for task in ("analysis", "selection"):
        (package / "lora" / task).mkdir(parents=True)
        (package / "lora" / task / "adapter_config.json").write_text("{}")
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    offers = {task: f"lora/{task}" for task in ("analysis", "structuring", "selection")}
    model = ModelConfig(name="m", package="carrier", offers=offers, adapters={"selection": "own"})
    found = with_bundled_adapters(model, ["analysis", "structuring", "selection"]).adapters
    assert found == {"analysis": str(package / "lora" / "analysis"), "selection": "own"}
    assert with_bundled_adapters(model, []).adapters == {"selection": "own"}
    assert with_bundled_adapters(
        model.model_copy(update={"package": None}), ["analysis"]
    ).adapters == {"selection": "own"}
