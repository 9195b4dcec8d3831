"""Labels of a teacher: many requests in flight, the same data whatever was faster, resumed after a
kill or a failure."""

import json
import threading

import pytest
from harness_training.example_files import Item, read_scenes
from harness_training.labelling import LabelModels, LabelWriter
from harness_training.method_skills.longrefiner_labels import tasks
from harness_training.question_sets import Labels

from harness.config.schema import ModelConfig
from harness.errors import CannotRun, UserError
from harness.llm.backend import load_model
from harness.llm.scripted import Script, ScriptedModel
from harness.types import Question
from methods.longrefiner.config import LongRefinerConfig
from packages.training.tests import small
from packages.training.tests.test_longrefiner_labels import (
    ANALYSIS,
    DOCUMENT,
    SELECTION,
    TASK,
    TOLD,
)
from tests.llm.endpoints import config, loaded
from tests.llm.loopback import Loopback, completion


def items(count):
    return [
        Item(f"q{n}", Question(f"q{n}", f"Who is {n}?", ("d",)), [DOCUMENT]) for n in range(count)
    ]


def scripted(reply):
    return ScriptedModel(Script(replies=[{"reply": reply}], window=9000))


def models(teacher, base=None):
    return LabelModels(TASK, lambda: teacher, lambda: base, scripted("").offsets)


def told_by(question):
    """Odd questions are global, even ones local."""
    text = question["messages"][-1]["content"]
    odd = int(text.partition("Who is ")[2].partition("?")[0]) % 2
    return completion(json.dumps({"query_type": "global" if odd else "local"}))


def test_an_endpoint_has_many_requests_in_flight_and_scenes_keep_the_order_of_items(tmp_path):
    path, reports = tmp_path / "analysis.jsonl", list[str]()
    together = threading.Barrier(4, timeout=20)

    def reply(body):
        together.wait()  # a server that is asked one by one never answers
        return told_by(body)

    with Loopback([reply]) as server:
        LabelWriter(path, ANALYSIS, models(loaded(server)), reports.append).write(
            items(8), {}, lambda: 4
        )
    assert (server.at_once, len(server.asked)) == (4, 8)
    scenes, empty = read_scenes(path, TASK)
    assert [scene.verdicts for scene in scenes] == [(n % 2 == 0,) for n in range(8)]
    assert [scene.question.text for scene in scenes] == [f"Who is {n}?" for n in range(8)]
    assert empty == 0
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert all((line["read"], line["written"]) == (50, 4) for line in lines), (
        "the server's own counts"
    )
    path.write_text(
        path.read_text().splitlines()[0]
        + "\n"
        + "".join(json.dumps(line) + "\n" for line in lines[::-1])
    )
    assert read_scenes(path, TASK)[0] == scenes, (
        "lines stand in the order of replies, scenes in that of items"
    )
    assert reports[-1].startswith("analysis: 8 of 8 labelled; ")
    assert reports[-1].endswith("left: about 0 s")


def test_what_a_server_did_not_answer_is_asked_again(tmp_path):
    path = tmp_path / "analysis.jsonl"
    bad = "503"

    def reply(body):
        return bad if "Who is 1?" in body["messages"][-1]["content"] else told_by(body)

    with Loopback([reply]) as server:
        teacher = load_model(config(server.url, retries=0, timeout=5.0))
        with pytest.raises(
            CannotRun, match=r"^1 requests about 'analysis' failed; the last: .*asks them again$"
        ):
            LabelWriter(path, ANALYSIS, models(teacher), lambda _: None).write(
                items(3), {}, lambda: 2
            )
        assert len(read_scenes(path, TASK)[0]) == 2
        server.moods = [told_by]
        LabelWriter(path, ANALYSIS, models(teacher), lambda _: None).write(items(3), {}, lambda: 2)
    assert [scene.verdicts for scene in read_scenes(path, TASK)[0]] == [(True,), (False,), (True,)]
    assert len(server.asked) == 4


def test_a_server_that_answers_nothing_ends_the_labelling(tmp_path):
    with Loopback(["503"]) as server:
        teacher = load_model(config(server.url, retries=0, timeout=5.0))
        with pytest.raises(CannotRun, match="^10 requests failed one after the other; the last: "):
            LabelWriter(tmp_path / "a.jsonl", ANALYSIS, models(teacher), lambda _: None).write(
                items(99), {}
            )
    assert len(server.asked) == 10


@pytest.mark.parametrize("places", [1, 4])
def test_a_stop_is_obeyed_and_the_same_call_goes_on(places, tmp_path):
    path, stop = tmp_path / "analysis.jsonl", threading.Event()
    stop.set()
    teacher = scripted('{"query_type": "local"}')
    with pytest.raises(KeyboardInterrupt):
        LabelWriter(path, ANALYSIS, models(teacher), lambda _: None, stop).write(
            items(40), {}, lambda: places
        )
    done = len(read_scenes(path, TASK)[0])
    assert done == 1 or places > 1, "several may have been answered before the first is written"
    LabelWriter(path, ANALYSIS, models(teacher), lambda _: None).write(
        items(40), {}, lambda: places
    )
    assert len(read_scenes(path, TASK)[0]) == 40
    assert len(teacher.prompts) == 40


def test_a_document_is_structured_once_by_many_at_a_time(tmp_path):
    path, teacher, base = tmp_path / "selection.jsonl", scripted('["work"]'), scripted(TOLD)
    LabelWriter(path, SELECTION, models(teacher, base), lambda _: None).write(
        items(12), {}, lambda: 4
    )
    assert {scene.replies for scene in read_scenes(path, TASK)[0]} == {("['Work']",)}
    assert (len(base.prompts), len(teacher.prompts)) == (1, 12)


def test_the_abstract_is_that_of_use(tmp_path):
    task = tasks(LongRefinerConfig(abstract_tokens=4))[2]
    path, teacher, base = tmp_path / "selection.jsonl", scripted('["work"]'), scripted(TOLD)
    LabelWriter(path, task, models(teacher, base), lambda _: None).write(items(1), {})
    (scene,) = read_scenes(path, TASK)[0]
    assert scene.texts[1] == "Mira Tal was a", "four tokens of the refiner"
    assert "Abstract: Mira Tal was a\n" in teacher.prompts[-1], "the teacher sees the same"


def test_what_is_asked_is_checked_before_anything_is_labelled(base, tmp_path):
    made = small.course(base, tmp_path / "out", ("analysis",), scenes=80, overlong="cut")
    made.labels = Labels(ModelConfig(name="wise"), (small.labelled({"d": DOCUMENT})[0],))
    made.settings.tasks["analysis"] = made.settings.tasks["analysis"].model_copy(
        update={"asked": "{question} {abstract}"}
    )
    with pytest.raises(
        UserError, match=r"asked has the placeholder {abstract}; those of its labels are {question}"
    ):
        made.labelling(made.tasks[0])
