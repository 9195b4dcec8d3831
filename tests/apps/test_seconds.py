"""Seconds of an application beside its own log, while other threads of the command are busy."""

import json
import subprocess
import sys

import numpy as np
import pytest

from tests import ROOT

QUESTIONS = [f"What is {number}?" for number in range(12)]
BUSY = """
import threading

def work():
    while True:
        sum(range(2000))

threading.Thread(target=work, daemon=True).start()

def answer(question):
    return "nothing"
"""


@pytest.fixture
def application(tmp_path):
    """(Address, file of the log) of an application that takes 0.17 seconds a question."""
    log = tmp_path / "log.jsonl"
    words = [sys.executable, "-m", "tests.apps.clocked_app", str(log), "0.17"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/ask", log
        process.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says when bytes came")
def test_seconds_are_those_of_the_applications_log_while_the_interpreter_is_busy(
    application, environment, configs, tmp_path
):
    address, log = application
    (configs / "busy.py").write_text(BUSY)
    (tmp_path / "wiki").mkdir()
    (tmp_path / "wiki" / "a.txt").write_text("A page.")
    rows = [{"id": question, "question": question} for question in QUESTIONS]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [
        sys.executable, "-m", "harness", "run", "--app", f"slow={address},busy=busy:answer",
        "--documents", "wiki", "--questions", "questions.jsonl", "--parallel", "4", "--mlflow", "off",
    ]  # fmt: skip
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    logged = {line["question"]: line["seconds"] for line in map(json.loads, log.open())}
    (file,) = (tmp_path / "results" / "wiki").glob("slow--*/records.jsonl")
    records = list(map(json.loads, file.open()))
    measured = {row["question_id"]: row["usage"]["answer"]["seconds"] for row in records}
    assert measured.keys() == logged.keys() == set(QUESTIONS)
    for share in (50, 95):
        ours = np.percentile(list(measured.values()), share)
        theirs = np.percentile(list(logged.values()), share)
        assert 0.95 < ours / theirs < 1.05
