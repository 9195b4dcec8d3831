"""Adapters are trained, kept, resumed to the byte, and named by their base."""

import json
import os
import shutil
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from harness_training import exam
from harness_training.lora_model import Base
from harness_training.question_sets import Labels
from harness_training.tasks import Scene
from harness_training.token_rows import Row
from safetensors.torch import load_file

from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.errors import CannotRun, UserError
from harness.llm.backend import load_model, model_facts
from harness.llm.scripted import Script, ScriptedModel
from harness.method import Task
from harness.types import Document, Question
from packages.training.tests import small
from tests.forked import start

TWO = ("analysis", "selection")


@pytest.fixture(scope="module")
def trained(base, tmp_path_factory):
    """All three adapters of a small base. Not to be written to."""
    made = small.course(base, tmp_path_factory.mktemp("trained"))
    return made, small.train(made)


def files(out):
    return {
        p.parent.name: p.read_bytes()
        for p in sorted(out.glob("adapters/*/adapter_model.safetensors"))
    }


def lines(out):
    found = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k != "tokens_per_s"} for line in found]


def of_two(out):
    """The adapters and the log of two tasks, which are those of a training of all three."""
    found = [
        {k: v for k, v in line.items() if k != "step"} for line in lines(out) if line["task"] in TWO
    ]
    return {name: files(out)[name] for name in TWO}, found


def test_every_task_has_an_adapter_and_a_card(trained):
    made, report = trained
    assert set(files(made.out)) == {"analysis", "structuring", "selection"}
    assert [line["step"] for line in lines(made.out)] == sorted(
        {line["step"] for line in lines(made.out)}
    )
    assert any(line.startswith("structuring: step 3 of 3  loss ") for line in report)
    assert [line for line in report if "labels are" in line] == [
        "analysis: 50.0% of 12 labels are Local",
        "analysis: 50.0% of 12 labels are Global",
    ]
    card = json.loads((made.folder(made.tasks[0]) / "card.json").read_text())
    assert (card["method"], card["base"]["name"], card["settings"]["rank"]) == (
        "longrefiner",
        "small",
        2,
    )
    assert (card["trained"]["rows"], card["trained"]["steps"], card["trained"]["left_out"]) == (
        12,
        3,
        0,
    )
    config = json.loads((made.folder(made.tasks[0]) / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "small"  # no path of a machine
    wanted = "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj"
    assert set(config["target_modules"]) == {*wanted.split()}


def test_training_lowers_the_loss(base, tmp_path):
    made = small.course(base, tmp_path, ("selection",), **{"selection.epochs": 6})
    small.train(made)
    losses = [line["loss"]["selection"] for line in lines(tmp_path)]
    assert losses[-1] < losses[0] - 1


def test_the_base_is_loaded_once_and_adapters_are_switched(trained):
    made, _ = trained
    model = made.with_adapters(made.tasks)

    def scores(adapter):
        with model.session(Meter(), adapter=adapter) as s:
            s.user("Where is the school of Mira Tal?")
            return s.score(" in Toren")

    found = {name: scores(name) for name in (None, "analysis", "structuring", "selection")}
    assert len({tuple(round(x, 4) for x in one) for one in found.values()}) == 4
    loaded = dict(model.net.named_parameters())
    for task in made.tasks:  # one that is loaded later must not touch those before it
        for key, value in load_file(made.folder(task) / "adapter_model.safetensors").items():
            name = key.removeprefix("base_model.model.").replace(".weight", f".{task.name}.weight")
            assert torch.equal(loaded[name].bfloat16(), value), name
    assert scores(None) == pytest.approx(found[None], abs=1e-5)
    bare = load_model(made.base)
    with bare.session(Meter()) as s:
        s.user("Where is the school of Mira Tal?")
        assert s.score(" in Toren") == pytest.approx(found[None], abs=1e-5)


def test_a_killed_training_goes_on_to_the_same_bytes(base, trained, folder, tmp_path):
    cut = tmp_path / "cut"
    training = start(
        "packages.training.tests.small",
        [str(folder), str(cut), "2"],
        tmp_path,
        tmp_path / "printed",
        os.environ,
    )
    code, _, messages = training.end()
    assert code == -signal.SIGKILL, messages
    assert not files(cut)
    report = small.train(small.course(base, cut, TWO))
    assert not any(
        "going on" in line for line in report
    )  # what was killed was the first checkpoint
    stop = threading.Event()
    again = tmp_path / "again"
    small.course(base, again, TWO).run(lambda _: None, stop, 5)  # in the middle of the second task
    report = small.train(small.course(base, again, TWO))
    assert "selection: going on from step 2 of 3" in report
    assert of_two(trained[0].out) == of_two(cut) == of_two(again)
    assert lines(cut) == lines(again)


def test_a_finished_training_does_nothing_more(trained, tmp_path):
    made, _ = trained
    copy = shutil.copytree(made.out, tmp_path / "copy")
    before = files(copy), lines(copy)
    small.train(small.course(made.base, copy))
    assert (files(copy), lines(copy)) == before


@pytest.mark.parametrize(
    ("sets", "says"),
    [
        ({"rank": 3}, "is of another training: settings"),
        ({"scenes": 13}, "analysis.jsonl .* is of other data: scenes"),
    ],
    ids=["rank", "scenes"],
)
def test_other_settings_are_another_training(sets, says, trained, tmp_path):
    copy = shutil.copytree(trained[0].out, tmp_path / "copy")
    with pytest.raises(UserError, match=says):
        small.train(small.course(trained[0].base, copy, **sets))


def test_before_and_after_are_measured_on_other_texts(trained, tmp_path):
    made, _ = trained
    copy = small.course(made.base, shutil.copytree(made.out, tmp_path / "copy"))
    held = {task.name: copy.scenes(task) for task in copy.tasks}
    for scenes in held.values():
        assert len(scenes.evaluation) == 2
        trained_on, measured_on = (
            {s.question.text + "".join(s.texts) for s in part}
            for part in (scenes.training, scenes.evaluation)
        )
        assert not trained_on & measured_on
    found = copy.examine(lambda _: None)
    heads = {one.task: one.name for one in reversed(found)}
    assert heads == {
        "analysis": "accuracy",
        "structuring": "outline F1",
        "selection": "selection F1",
    }
    card = json.loads((copy.folder(copy.tasks[0]) / "card.json").read_text())
    assert card["measures"]["rows"][0]["after"]["n"] == 2
    assert "| analysis | accuracy |" in (copy.out / "adapters" / "CARD.md").read_text()
    # The card of the same training keeps its measures.
    small.train(copy)
    assert "measures" in json.loads((copy.folder(copy.tasks[0]) / "card.json").read_text())


def test_a_task_alone_leaves_what_is_known_of_the_others(base, tmp_path):
    for task in TWO:
        made = small.course(base, tmp_path, (task,))
        small.train(made)
        made.examine(lambda _: None)
    assert {line["task"] for line in lines(tmp_path)} == {*TWO}, "one task's log is not another's"
    page = (tmp_path / "adapters" / "CARD.md").read_text()
    assert page.index("| selection | selection F1 |") < page.index("| analysis | accuracy |")
    assert "over 2 scenes a task, texts of evaluation seeds; they" in page
    small.train(small.course(base, tmp_path, ("analysis",)))
    assert {line["task"] for line in lines(tmp_path)} == {*TWO}


def test_a_gradient_that_is_no_number_never_reaches_the_weights(base, tmp_path, monkeypatch):
    clip, calls = torch.nn.utils.clip_grad_norm_, list[int]()

    def broken(parameters, *settings, **more):
        weights = list(parameters)
        calls.append(1)
        if len(calls) == 3:
            next(w for w in weights if w.grad is not None).grad[0, 0] = float("nan")
        return clip(weights, *settings, **more)

    monkeypatch.setattr("torch.nn.utils.clip_grad_norm_", broken)
    with pytest.raises(
        CannotRun,
        match="the gradient of 'analysis' is nan at step 2; begin again with a lower --set",
    ):
        small.train(small.course(base, tmp_path, ("analysis",), save=1))
    kept = (
        tmp_path
        / "checkpoint"
        / "analysis"
        / "checkpoint-2"
        / "analysis"
        / "adapter_model.safetensors"
    )
    assert all(torch.isfinite(value).all() for value in load_file(kept).values())


def test_a_scene_that_fails_twice_is_one_scene():
    task = small.course(ModelConfig(name="small"), Path()).tasks[0]
    asked = Task(instruction="x", max_answer_tokens=4)
    scene = Scene(Question("q", "Where was Mira born?", ("d",)), (), asked, verdicts=(True,))
    model = ScriptedModel(Script(replies=[], window=8))
    part = exam.task_part(task, [scene, scene])
    (measure,) = exam.examine(part, [(model, None), (model, None)], lambda _: None)
    assert (measure.failed, measure.before.mean, measure.after.n) == (2, 0.0, 2)


def test_labels_are_of_the_rows_and_asked_with_their_instruction(base, tmp_path, monkeypatch):
    made = small.course(base, tmp_path, ("analysis",), scenes=4)
    made.labels = Labels(ModelConfig(name="wise"), (small.labelled({})[0],))
    teacher = ScriptedModel(Script(replies=[{"reply": '{"query_type": "local"}'}]))
    monkeypatch.setattr("harness_training.course.load_model", lambda _: teacher)

    def rows(mark):
        made._loaded_questions = None
        monkeypatch.setattr(
            "harness_training.question_sets.load_once",
            lambda *_: small.labelled({"d": Document("d", "A text.")}, mark)[1],
        )

    rows("a")
    made._make_data(made.tasks[0], lambda _: None)
    scenes = made.scenes(made.tasks[0])
    train_on, measure_on = scenes.training, scenes.evaluation
    assert (len(train_on), len(measure_on)) == (3, 1), "one is held back at least"
    assert {scene.task.instruction for scene in (*train_on, *measure_on)} == {"Say it."}
    assert "never" not in made.data_file(made.tasks[0]).read_text()
    rows("b")
    with pytest.raises(
        UserError, match=r"is of other data: rows \(mine aaaa.* there, mine bbbb.* here\)"
    ):
        made._make_data(made.tasks[0], lambda _: None)
    rows("a")
    with pytest.raises(UserError, match="is of other data: asked"):
        made._make_data(
            replace(made.tasks[0], asked="The same in other words: {question}"), lambda _: None
        )


def test_the_loss_is_of_targets_alone_and_knows_no_padding(base, monkeypatch):
    net = Base(base, small.course(base, Path(), dtype="float32").settings, "cpu")
    rows = [Row((5, 6, 7, 8, 9, 10), (3, 5)), Row((11, 12, 13), (2,))]
    expected = 0.0
    for row in rows:
        logits = net.net(input_ids=torch.tensor([row.ids])).logits[0].float().log_softmax(-1)
        expected -= sum(float(logits[place - 1, row.ids[place]]) for place in row.targets)
    total, right = net.loss(rows)
    assert float(total) == pytest.approx(expected, rel=1e-4)
    assert right.shape == (3,)
    # In parts that are not kept.
    monkeypatch.setattr("harness_training.row_loss.MAX_TARGETS_AT_ONCE", 2)
    assert float(net.loss(rows)[0]) == pytest.approx(expected, rel=1e-4)


def test_the_loss_of_other_weights_has_their_gradient_also_in_parts(base, monkeypatch):
    loss = Base(base, small.course(base, Path(), dtype="float32").settings, "cpu").loss
    rows = [Row((5, 6, 7, 8, 9, 10), (1, 3, 5)), Row((11, 12, 13), (2,))]
    found = []
    for most in (1024, 2):
        monkeypatch.setattr("harness_training.row_loss.MAX_TARGETS_AT_ONCE", most)
        others = {
            name: (2 * weight).detach().requires_grad_() for name, weight in loss.named_parameters()
        }
        torch.func.functional_call(loss, others, (rows,))[0].backward()
        found.append(others["net.lm_head.weight"].grad)
    assert found[0].abs().max() > 0
    assert torch.allclose(found[0], found[1], atol=1e-5)


def facts(folder, adapter, name="small"):
    found = model_facts(
        ModelConfig(name=name, source=str(folder), adapters={"analysis": str(adapter)})
    )
    return found.problems, found.warnings


def test_an_adapter_of_another_base_is_refused_by_name_and_shape(trained, folder, tmp_path):
    adapter = trained[0].folder(trained[0].tasks[0])
    assert facts(folder, adapter) == ([], [])
    wide = small.save(tmp_path / "wide", hidden_size=48)
    (problem,), _ = facts(wide, adapter, "wide")
    assert (
        "is of another base than 'wide' (it was made for 'small'): it takes "
        "model.layers.0.mlp.down_proj" in problem
    )
    assert "outputs, there are 48; name an adapter of 'wide'" in problem
    with pytest.raises(CannotRun, match="of another base than 'wide'"):
        load_model(ModelConfig(name="wide", source=str(wide), adapters={"analysis": str(adapter)}))
    flat = small.save(tmp_path / "flat", num_hidden_layers=1)
    (problem,), _ = facts(flat, adapter, "flat")
    assert "it changes model.layers.1.mlp.down_proj, which is not there" in problem


def test_an_adapter_of_other_weights_is_stale_or_of_another_model(trained, folder, tmp_path):
    adapter = shutil.copytree(trained[0].folder(trained[0].tasks[0]), tmp_path / "adapter")
    card = json.loads((adapter / "card.json").read_text())
    card["base"]["where"] = {"files": "0" * 64}
    (adapter / "card.json").write_text(json.dumps(card))
    problems, (warning,) = facts(folder, adapter)
    assert not problems
    assert warning == (
        "the adapter 'analysis' is stale: it was trained on other weights of 'small'; train it "
        "again: "
        "harness train longrefiner"
    )
    (problem,), _ = facts(folder, adapter, "other")
    assert "it was made for 'small'): its card has the mark of other weights" in problem
    (adapter / "card.json").write_text("{")
    assert "card.json cannot be read" in facts(folder, adapter)[0][0]


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("adapter_model.safetensors", -10, "is damaged"),
        ("adapter_model.safetensors", b"\xff" * 64, "is damaged"),
        (
            "adapter_model.safetensors",
            None,
            "has no adapter_model.safetensors; other formats can run code",
        ),
        ("adapter_config.json", b"[", "is damaged"),
        ("adapter_config.json", None, "has no adapter_config.json, so it is no adapter"),
    ],
    ids=["cut off", "noise", "no weights", "torn settings", "no settings"],
)
def test_a_damaged_adapter_is_refused(file, content, says, trained, folder, tmp_path):
    adapter = shutil.copytree(trained[0].folder(trained[0].tasks[0]), tmp_path / "adapter")
    if content is None:
        (adapter / file).unlink()
    else:
        (adapter / file).write_bytes(
            (adapter / file).read_bytes()[:content] if isinstance(content, int) else content
        )
    (problem,), _ = facts(folder, adapter)
    assert says in problem
    assert facts(folder, tmp_path / "nowhere")[0][0].startswith("there is no folder")
