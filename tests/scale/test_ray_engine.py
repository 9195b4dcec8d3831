"""Ray: what a cluster lacks is said in one sentence, and a real run equals that of one process,
whatever dies."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.engine.manifest import program_versions
from harness.errors import UserError
from harness.llm.scripted import ScriptedModel
from harness.scale import ray_engine
from harness.scale.ray_engine import Workers, _check_versions, _WaitingQuestions, worker_count
from harness.storage.json_lines import read_lines
from tests.engine.fakes import Plain, World, comparable, make_plan


@pytest.mark.parametrize(
    ("has", "workers", "gpus", "expected"),
    [
        ({"CPU": 8.0}, None, 0, 8),
        ({"CPU": 8.0}, 3, 0, 3),
        ({"CPU": 8.0, "GPU": 2.0}, None, 1, 2),
        ({"CPU": 8.0, "GPU": 2.0}, None, 0.5, 4),
        (
            {"CPU": 8.0, "GPU": 2.0},
            3,
            1,
            "3 workers with 1 GPUs each need 3 GPUs, and the cluster has 2",
        ),
        ({"CPU": 8.0}, None, 1, "the cluster has 0; lower --workers or --gpus-per-worker"),
        ({"CPU": 2.0}, 4, 0, "4 workers need 4 CPUs, and the cluster has 2"),
    ],
)
def test_workers_that_fit(has, workers, gpus, expected):
    if isinstance(expected, int):
        assert worker_count(has, workers, gpus) == expected
    else:
        with pytest.raises(UserError, match=expected):
            worker_count(has, workers, gpus)


def test_a_worker_must_have_the_same_versions():
    there = {**program_versions().packages, "host": "gpu7"}
    _check_versions(there)
    with pytest.raises(
        UserError, match=r"gpu7 has other versions: numpy 1\.0 there, .* here; install the same"
    ):
        _check_versions({**there, "numpy": "1.0"})


def test_a_cluster_that_ended_is_an_error_after_a_while(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"127.0.0.1:{head.getsockname()[1]}"
        workers = SimpleNamespace(address=address, silent_since=1.0)
        Workers.check_cluster(workers)  # there again, so the while begins anew
    Workers.check_cluster(workers)
    monkeypatch.setattr(ray_engine, "_MAX_SILENT_SECONDS", 0.0)
    with pytest.raises(UserError, match=f"cluster at {address} has ended; start it"):
        Workers.check_cluster(workers)


def test_one_worker_indexes_a_document_and_idle_ones_help_once_it_did():
    plan = make_plan(World(questions=6, documents=2).dataset())  # q0, q2, q4 are about d0
    waiting = _WaitingQuestions(plan, plan.dataset.examples)
    assert [waiting.take_next_for(worker, is_idle=True) for worker in "abc"] == [0, 1, None]
    waiting.mark_as_ended(0)
    assert [waiting.take_next_for(worker, is_idle=True) for worker in "cab"] == [2, 4, None]
    waiting.put_back(2)
    assert [waiting.take_next_for("c", is_idle) for is_idle in (False, True, True)] == [
        None,
        2,
        None,
    ]
    waiting.mark_as_ended(1)
    assert [waiting.take_next_for("c", is_idle=True) for _ in range(3)] == [3, 5, None]
    assert waiting.n_left == 0
    pairs = [("d0", "d1"), ("d1", "d2"), ("d3",)]
    both = [
        replace(e, question=replace(e.question, document_ids=d))
        for e, d in zip(plan.dataset.examples, pairs, strict=False)
    ]
    waiting = _WaitingQuestions(plan, both)
    assert [waiting.take_next_for(worker, is_idle=True) for worker in "abc"] == [
        0,
        2,
        None,
    ]  # another one indexes d1
    waiting.mark_as_ended(0)
    assert waiting.take_next_for("c", is_idle=True) == 1
    apart = _WaitingQuestions(replace(plan, method=Plain(Plain.Config())), plan.dataset.examples)
    assert [apart.take_next_for(worker, is_idle=True) for worker in "abc"] == [0, 1, 2]


METHOD = """
import os, time
from pathlib import Path
from harness.llm.scripted import ScriptedModel
from harness.method import Method, MethodConfig
from harness.types import Answer
from methods.reading import PROMPTS, Reading, ask

class Fragile(Method):
    class Config(MethodConfig):
        pass

    scope = "document"

    def templates(self):
        return PROMPTS

    def index(self, document, tools):
        return {"words": document.text.split()}

    def answer(self, question, documents, indexes, tools):
        ScriptedModel.slow_paths = lambda self: ["a reason"]
        # A letter for each question that may be answered; the content of a file named literally would be in the hash.
        if (allowed := Path(f"{self.scope}.allowed")).exists():
            while not (letters := allowed.read_text()):
                time.sleep(0.02)
            allowed.write_text(letters[1:])
        deadly = Path(f"{question.id}.deaths")
        if deadly.exists() and (left := int(deadly.read_text())):
            deadly.write_text(str(left - 1))
            os.kill(os.getpid(), 9)
        text = " ".join(document.text for document in documents)
        reply = ask(question, [text], tools, tools.model(), Reading(tools.task, config=self.config))
        return Answer(f"{indexes[0]['words'][0]} {reply}")
"""


@pytest.fixture(scope="module")
def cluster():
    """The address of a cluster on this machine."""
    pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", "/tmp")  # a socket's path has 107 bytes at most
        patch.setenv("RAY_AUTH_MODE", "disabled")
        from ray.cluster_utils import Cluster

        started = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False}
        )
        yield started.address
        started.shutdown()


@pytest.fixture
def words(tmp_path, monkeypatch):
    """The words of a command that asks eight questions of a method of the user's own, which is in
    no package."""
    monkeypatch.chdir(tmp_path)
    Path("own/methods").mkdir(parents=True)
    Path("own/methods/fragile.yaml").write_text("implementation: fragile:Fragile\n")
    Path("own/fragile.py").write_text(METHOD)
    Path("replies.yaml").write_text("replies: [{reply: 'an answer'}]\n")
    monkeypatch.setenv("HARNESS_CONFIGS", str(tmp_path / "own"))
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    row = ["run", "-m", "fragile", "-d", "pocket/musique", "--model", "scripted", "--mlflow", "off"]
    yield [*row, "--limit", "8", "--set", "dataset.tokens=300", "model.script=replies.yaml"]
    sys.modules.pop("fragile", None)
    if "slow_paths" in vars(ScriptedModel):  # the method sets it in this process, too
        del ScriptedModel.slow_paths


def records(out):
    (path,) = Path(out).rglob("records.jsonl")
    return [comparable(row) for row in read_lines(path, "question_id")]


def test_workers_that_die_lose_nothing_and_the_records_are_those_of_one_process(
    cluster, words, command, monkeypatch
):
    monkeypatch.setattr(ray_engine, "_MAX_TRIES", 2)
    code, _, err = command(*words, "--out", "alone")
    assert code == 0, err
    alone = records("alone")
    once, always = (alone[n]["question_id"] for n in (1, 4))
    Path(f"{once}.deaths").write_text("1")
    Path(f"{always}.deaths").write_text("99")
    over_ray = [
        *words,
        "--engine",
        "ray",
        "--ray-address",
        cluster,
        "--workers",
        "2",
        "--out",
        "ray",
    ]
    code, _, err = command(*over_ray, "--parallel", "2")
    assert code == 3, err
    assert "a worker ended; what it had is asked again" in err
    assert err.count("slower than it could be: a reason") == 1
    found = records("ray")
    assert found[4]["error"] == {
        "type": "WorkerLost",
        "message": "2 workers ended while they answered this question",
    }
    assert [row for n, row in enumerate(found) if n != 4] == [
        row for n, row in enumerate(alone) if n != 4
    ]
    Path(f"{always}.deaths").unlink()
    code, _, err = command(*over_ray, "--retry-failed")
    found = records("ray")
    found[4]["notes"].pop("earlier")
    assert (code, found) == (0, alone), err
    folders = [
        {path.name for path in next(Path(out).rglob("run.yaml")).parent.iterdir()}
        for out in ("ray", "alone")
    ]
    assert folders[0] == folders[1]
    manifests = [
        json.loads(next(Path(out).rglob("manifest.json")).read_text()) for out in ("ray", "alone")
    ]
    assert manifests[0].keys() == manifests[1].keys()
    assert "changed" not in manifests[0]["starts"][0]


def test_a_limit_or_a_signal_stops_the_driver_and_the_same_command_goes_on(
    cluster, words, command, monkeypatch
):
    code, _, err = command(*words, "--out", "alone")
    assert code == 0, err
    tokens = [
        sum(p["tokens_in"] + p["tokens_out"] for p in row["usage"].values())
        for row in records("alone")
    ]
    over_ray = [
        *words,
        "--engine",
        "ray",
        "--ray-address",
        cluster,
        "--workers",
        "1",
        "--out",
        "ray",
    ]
    code, _, err = command(*over_ray, "--max-tokens", str(sum(tokens[:3])))
    assert (code, "stopped at --max-tokens" in err) == (3, True), err
    assert 3 <= len(records("ray")) <= 4  # what the worker had begun
    paths = [str(Path(__file__).resolve().parents[2] / part) for part in ("", "packages/pocket")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    for number, code in ((signal.SIGTERM, 130), (signal.SIGKILL, -9)):
        Path("document.allowed").write_text("x")
        before = len(records("ray"))
        driver = subprocess.Popen([sys.executable, "-m", "harness", *over_ray])
        while len(records("ray")) == before:
            assert driver.poll() is None
            time.sleep(0.05)
        driver.send_signal(number)
        assert driver.wait(60) == code
        assert len(records("ray")) == before + 1
    Path("document.allowed").unlink()
    code, _, err = command(*over_ray)
    assert (code, records("ray")) == (0, records("alone")), err
