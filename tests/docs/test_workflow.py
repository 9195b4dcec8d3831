"""The workflow of the guide: its steps, run one after the other as GitHub runs them, against a
server on this machine."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from tests.docs.pages import ROOT, blocks
from tests.stand_in_server import StandIn

(WORKFLOW,) = (
    b for b in blocks(ROOT / "docs" / "guide.md") if b.file == ".github/workflows/answers.yml"
)
ASK, REPORT = (
    step
    for step in yaml.safe_load(WORKFLOW.text)["jobs"]["answers"]["steps"]
    if step.get("name") in ("Ask", "Report")
)


@pytest.fixture(params=[True, False])
def right(request, tmp_path, monkeypatch):
    """Whether the answers that the questions expect are those of the wiki; here, with the variables
    of the job."""
    (tmp_path / "wiki").mkdir()
    answers = [f"word{n}" if request.param else "nothing" for n in range(4)]
    rows = [
        {"question": f"What is the code of room {n}?", "answer": answer, "document": f"p{n}"}
        for n, answer in enumerate(answers)
    ]
    for n in range(4):
        (tmp_path / f"wiki/p{n}.md").write_text(f"# Room {n}\nThe code of room {n} is: word{n}\n")
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    variables = {
        "HARNESS_HOME": tmp_path / "home",
        "MODEL_KEY": "k",
        "GITHUB_STEP_SUMMARY": tmp_path / "summary.md",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    with StandIn().server() as server:
        monkeypatch.setenv("MODEL_URL", server.url)
        yield request.param


def test_the_steps_of_the_workflow_pass_and_fail_as_the_answers_do(right, command):
    """The report, which comes whether or not the answers are right, is made of the wrong ones, in a
    shell."""
    program, *words = shlex.split(os.path.expandvars(ASK["run"]))
    assert (program, command(*words)[0]) == ("harness", 0 if right else 4)
    if not right:
        assert "if" in REPORT
        subprocess.run(["bash", "-e", "-c", REPORT["run"]], check=True)
        assert "<h1>Answers of the wiki" in Path("report.html").read_text()
    assert ("**FAILED**" in Path("summary.md").read_text()) is not right
    suite = ElementTree.parse("checks.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0" if right else "1")
