"""The reader adapter: which rows are trained on, what they teach, faster kernels, and a training
from end to end."""

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from harness_training.example_files import draw_scenes
from harness_training.lora_model import Base, load_teacher
from harness_training.reader import ReaderSettings, ReaderTraining
from harness_training.reader_examples import (
    LESSON_MAKERS,
    SKILL_OF_LESSON,
    asks_for_account,
    probe_scene,
)
from harness_training.real_rows import check_apart, load_rows
from harness_training.settings import read_settings
from harness_training.skills import declared_skills
from harness_training.token_rows import Row

from harness.cost.meter import Meter
from harness.errors import CannotRun, UserError
from harness.llm.adapters import adapter_folder
from harness.llm.backend import load_model, model_facts
from harness.llm.load import unload
from harness.stats.rng import Dice
from tests.datasets.support import needs_real, real

PEOPLE = ("Ann", "Bob", "Cem", "Dana", "Eli", "Fay")
SOURCES = {
    "hotpotqa": "hotpot*train*",
    "2wikimultihopqa": "2wiki*train*",
    "musique": "musique*train*",
}


def hotpot_row(number, split="train"):
    first, second, *others = PEOPLE[number % 6 :] + PEOPLE[: number % 6]
    context = [
        [name, [f"{name} is row {number}.", f" {name} was born in {name}ville."]] for name in others
    ]
    context += [
        [first, [f"{first} knows {second}."]],
        [second, [f"{second} was born in {second}ville {number}."]],
    ]
    return {
        "_id": f"{split}{number}", "type": "bridge", "level": "easy", "context": context,
        "question": f"Where was the one born whom {first} knows in {split} {number}?", "answer": f"{second}ville {number}",
        "supporting_facts": [[first, 0], [second, 0]],
    }  # fmt: skip


def musique_row(number):
    texts = ["Ann knows Bob.", "Bob lives in Rome.", "Cem lives in Oslo.", "Dana lives in Bonn."]
    paragraphs = [
        {"idx": i, "title": text.split()[0], "paragraph_text": text} for i, text in enumerate(texts)
    ]
    paragraphs = [{**one, "is_supporting": i < 2} for i, one in enumerate(paragraphs)]
    steps = [("Ann >> friend", "Bob", 0), ("Where does #1 live?", "Rome", 1)]
    return {
        "id": f"2hop__{number}", "question": f"Where does Ann's friend live, {number}?", "answer": "Rome", "answer_aliases": [],
        "answerable": True, "paragraphs": paragraphs,
        "question_decomposition": [
            {"id": n, "question": q, "answer": a, "paragraph_support_idx": i} for n, (q, a, i) in enumerate(steps)
        ],
    }  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    (folder / "hotpot_train.json").write_text(json.dumps([hotpot_row(i) for i in range(8)]))
    (folder / "hotpot_dev.json").write_text(json.dumps([hotpot_row(i, "dev") for i in range(4)]))
    (folder / "musique_train.jsonl").write_text(
        "\n".join(json.dumps(musique_row(i)) for i in range(4))
    )
    return folder


@pytest.fixture(scope="module")
def rows(data):
    return load_rows(SOURCES, data, training=True)


@pytest.mark.parametrize("name", ["hotpot_dev.json", "hotpot_train_dev.json"])
def test_a_file_of_another_split_is_never_trained_on(tmp_path, name):
    (tmp_path / name).write_text(json.dumps([hotpot_row(0)]))
    with pytest.raises(UserError, match=f"'{name}' should be a training file by its name"):
        load_rows({"hotpotqa": "hotpot*"}, tmp_path, training=True)


def test_a_training_file_is_never_measured_on(data):
    with pytest.raises(UserError, match="'hotpot_train.json' should be no training file"):
        load_rows({"hotpotqa": "hotpot*train*"}, data, training=False)


@pytest.mark.parametrize(
    ("key", "value"), [("_id", "train3"), ("question", hotpot_row(3)["question"])]
)
def test_a_row_that_is_in_both_is_refused(tmp_path, rows, key, value):
    (tmp_path / "hotpot_dev.json").write_text(json.dumps([{**hotpot_row(3, "dev"), key: value}]))
    with pytest.raises(
        UserError, match="is in the training and the evaluation files; remove it from one"
    ):
        check_apart(rows, load_rows({"hotpotqa": "hotpot*dev*"}, tmp_path, training=False))


@needs_real
def test_the_real_training_rows_are_apart_from_all_rows_that_are_measured_on():
    sources = {
        "hotpotqa": "hotpot_dev*",
        "2wikimultihopqa": "2wikimultihopqa/dev*",
        "musique": "musique*dev*",
    }
    wanted = {**SOURCES, "2wikimultihopqa": "2wikimultihopqa/train*"}
    training = load_rows(wanted, real("data"), training=True)
    others = load_rows(sources, real("data"), training=False)
    check_apart(training, others)
    assert {row.dataset for row in training} == {row.dataset for row in others}


@needs_real
@pytest.mark.parametrize(
    "file",
    ["hotpotqa/hotpot_dev_distractor_sample.json", "musique/musique_ans_v1.0_dev_sample.jsonl"],
)
def test_a_real_evaluation_file_that_is_called_train_is_caught_by_its_ids(tmp_path, file):
    copy = shutil.copy(real("data", file), tmp_path / f"train{Path(file).suffix}")
    with pytest.raises(UserError, match="has evaluation questions of"):
        load_rows({file.partition("/")[0]: copy.name}, tmp_path, training=True)


@needs_real
def test_local_and_global_agree_with_the_rows_that_longrefiners_authors_labelled():
    rows = json.loads(
        real("data", "longrefiner", "step1_query-analysis.json").read_text(encoding="utf-8")
    )
    assert [asks_for_account(row["input"]) for row in rows] == [
        row["output"] == "[Global]" for row in rows
    ]


def test_a_question_of_several_facts_is_local_and_one_for_reasons_is_not(rows):
    row = rows[0]
    scenes = [
        scene for n in range(9) for scene in LESSON_MAKERS["breadth"](row, rows, Dice("breadth", n))
    ]
    assert [scene.verdicts for scene in scenes] == [(True,)] * 9
    why = replace(row, questions=(replace(row.questions[0], text="Why does Ann know Bob?"),))
    assert LESSON_MAKERS["breadth"](why, rows, Dice("breadth"))[0].verdicts == (False,)


def test_single_steps_have_their_answers_put_in(rows):
    row = next(row for row in rows if row.dataset == "musique")
    assert [(a.text, a.answer, a.gold_passages) for a in row.questions[1:]] == [
        ("What is the friend of Ann?", "Bob", (0,)),
        ("Where does Bob live?", "Rome", (1,)),
    ]
    assert row.steps == ("What is the friend of Ann?", "Where does #1 live?")


def test_a_probe_is_yes_exactly_where_all_gold_passages_were_shown(rows):
    for number, row in enumerate(rows):
        gold = [" ".join(row.passages[i].split()) for i in row.questions[0].gold_passages]
        full, lacking = (
            probe_scene(row, Dice("probe", number), all_gold=all_gold) for all_gold in (True, False)
        )
        for scene in (full, lacking):
            right = tuple({*gold} <= {*scene.texts[: n + 1]} for n in range(len(scene.texts)))
            assert scene.verdicts == right
        assert full.verdicts[-1]
        assert not any(lacking.verdicts)


@pytest.mark.parametrize("kind", sorted(LESSON_MAKERS))
def test_every_kind_of_lesson_can_be_played_in_the_prompts_of_a_method(base, rows, kind):
    teacher = load_teacher(base, 2048)
    made = [
        scene
        for n, row in enumerate(rows)
        for scene in LESSON_MAKERS[kind](row, rows, Dice(kind, n))
    ]
    assert made
    for scene in made:
        transcript = teacher.play(declared_skills()[SKILL_OF_LESSON[kind]], scene)
        assert transcript.targets or transcript.probes


def test_an_unanswerable_lesson_lacks_a_gold_passage_and_an_answerable_one_does_not(rows):
    seen = set()
    for number in range(40):
        row = rows[number % len(rows)]
        (scene,) = LESSON_MAKERS["unanswerable"](row, rows, Dice("u", number))
        (asked,) = [a for a in row.questions if a.text == scene.question.text]
        complete = all(row.passages[i] in scene.texts[0] for i in asked.gold_passages)
        assert (scene.replies[0] == "Unanswerable") != complete
        seen.add(complete)
    assert seen == {True, False}


def _settings(**sets):
    few = {
        "dtype": "float32",
        "rank": 2,
        "scenes": 12,
        "batch": 2,
        "accumulation": 1,
        "rate": 0.01,
        "say": 1,
    }
    few |= {"save": 2, "length": 2000, "exam": 2, "exam_world": 1}
    few["recipes"] = [
        {"skill": name, "facts": [2, 6], "pieces": 2} for name in ("pecan points", "qrmem entities")
    ]
    return read_settings(ReaderSettings, "reader", "cpu", ["reader"], {**few, **sets}, None)


def test_every_recipe_of_the_profile_makes_a_scene():
    skills = declared_skills()
    for recipe in read_settings(ReaderSettings, "reader", "cpu", ["reader"], {}, None).recipes(
        "reader", "answer"
    ):
        dice = (Dice("profile", recipe.skill, number) for number in range(20))
        kind = skills[recipe.skill].scene
        assert any(next(draw_scenes(recipe, kind, one, "evaluation"), None) for one in dice), (
            recipe.skill
        )


def _filled(config):
    """A base with an adapter that changes what it writes."""
    made = Base(config, _settings(), "cpu")
    made.add("one", 2, 4, 0)
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in made.parameters("one").values():
            weight.normal_(std=0.1)
    return made


def test_a_row_with_branches_has_the_loss_of_its_parts(base):
    trunk, first, second = tuple(range(3, 40)), (50, 51, 52), (60, 61)
    whole = Row((*trunk, *first, *second), (10, 39, 41), ((37, 20), (40, 37)), (0.5, 2.0, 1.0))
    parts = [
        Row(trunk, (10,), (), (0.5,)),
        Row((*trunk[:20], *first), (22,), (), (2.0,)),
        Row((*trunk, *second), (38,), (), (1.0,)),
    ]
    made = _filled(base)
    assert whole.positions()[37:] == [20, 21, 22, 37, 38]
    with torch.no_grad():
        apart = sum(float(made.loss([part])[0]) for part in parts)
        assert float(made.loss([whole])[0]) == pytest.approx(apart, rel=1e-5)
        first = float(made.loss([parts[0]])[0])
        assert float(made.loss([parts[0], whole])[0]) == pytest.approx(apart + first, rel=1e-5)


def _training(base, data, out, seed=0, **more):
    settings = _settings(**{"sources.hotpotqa.measured": "hotpot*dev*", **more})
    return ReaderTraining(base, settings, data, out, seed, "cpu")


def _trained(made, steps=None):
    return made.run(lambda _: None, threading.Event(), steps)


def _card(made):
    return json.loads((made.folder / "card.json").read_text())


@pytest.fixture(scope="module")
def trained(base, data, tmp_path_factory):
    made = _training(base, data, tmp_path_factory.mktemp("reader"))
    assert _trained(made)
    return made


def test_a_merged_adapter_writes_what_a_switched_one_does(base, trained):
    unload()
    merged = load_model(base.model_copy(update={"adapter": str(trained.folder)}))
    switched = load_model(base.model_copy(update={"adapters": {"reader": str(trained.folder)}}))
    scores = []
    for model, adapter in ((merged, None), (switched, "reader"), (switched, None)):
        with model.session(Meter(), adapter=adapter) as s:
            s.user("Where does Bob live?")
            s.reply("")
            scores.append(torch.tensor(s.score(" In Rome, as Ann says.")))
    assert torch.allclose(scores[0], scores[1], atol=1e-4)
    assert not torch.allclose(scores[0], scores[2], atol=1e-3)
    assert merged.identity != load_model(base).identity


def test_an_adapter_that_cannot_be_merged_is_one_sentence(base, trained, tmp_path):
    shutil.copytree(trained.folder, tmp_path, dirs_exist_ok=True)
    settings = json.loads((tmp_path / "adapter_config.json").read_text())
    (tmp_path / "adapter_config.json").write_text(json.dumps({**settings, "use_dora": True}))
    with pytest.raises(
        CannotRun, match="is not plain LoRA, so it cannot be merged; use model.adapters"
    ):
        load_model(base.model_copy(update={"adapter": str(tmp_path)}))
    (problem,) = model_facts(base.model_copy(update={"adapter": str(tmp_path / "gone")})).problems
    assert "there is no folder" in problem
    with pytest.raises(CannotRun, match="there is no package 'nothing_here'"):
        adapter_folder("package:nothing_here/x")


def test_it_is_measured_before_and_after_on_rows_it_never_saw(trained):
    found = trained.examine(lambda _: None)
    names = {one.name for one in found}
    assert {
        "hotpotqa: token F1, gold passages",
        "hotpotqa: AUC of P(Yes), full against lacking",
    } <= names
    assert "made-up world: pecan points: token F1" in names
    card = _card(trained)
    assert card["trained"]["data"] == {"hotpotqa": 8, "musique": 4}
    skills = card["trained"]["skills"]
    assert card["trained"]["methods"]["pecan"] == sum(
        n for name, n in skills.items() if name.startswith("pecan ")
    )
    assert sum(card["trained"]["methods"].values()) < sum(skills.values()), (
        "answering is nobody's own"
    )
    assert len(card["measures"]["rows"]) == len(found)
    page = (trained.out / "adapters" / "CARD.md").read_text()
    assert "hotpotqa (8 questions, CC BY-SA 4.0), musique (4 questions, CC BY 4.0)" in page


def test_the_card_of_a_continued_adapter_has_all_courses_of_its_training(
    base, data, trained, tmp_path
):
    made = _training(base, data, tmp_path, 7, start=str(trained.folder))
    assert not _trained(made, 1)
    card = _card(made)["trained"]
    assert [(one["seed"], one["steps"]) for one in (*card["before"], card)] == [(0, 6), (7, 1)]
