"""The workflow of the guide: its steps, run one after the other as GitHub runs them, against a server on this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from tests.docs.pages import ROOT, blocks
from tests.stand_in_server import StandIn

(WORKFLOW,) = (b for b in blocks(ROOT / "docs" / "guide.md") if b.file == ".github/workflows/answers.yml")
STEPS = yaml.safe_load(WORKFLOW.text)["jobs"]["answers"]["steps"]


@pytest.mark.parametrize("right", [True, False])
def test_the_steps_of_the_workflow_pass_and_fail_as_the_answers_do(right, tmp_path):
    """The report, which comes whether or not the answers are right, is made of the wrong ones."""
    (tmp_path / "wiki").mkdir()
    for n in range(4):
        (tmp_path / f"wiki/p{n}.md").write_text(f"# Room {n}\nThe code of room {n} is: word{n}\n")
    rows = [
        {
            "question": f"What is the code of room {n}?",
            "answer": f"word{n}" if right else "nothing",
            "document": f"p{n}",
        }
        for n in range(4)
    ]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    codes = {}
    with StandIn().server() as server:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        own = {
            "PATH": path,
            "PYTHONPATH": os.environ["PYTHONPATH"],
            "HARNESS_HOME": str(tmp_path / "home"),
            "MODEL_KEY": "k",
        }
        own |= {"MODEL_URL": server.url, "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
        for step in STEPS:
            if "run" in step and step["name"] != "Install" and (not codes or ("if" in step and not right)):
                done = subprocess.run(
                    ["bash", "-e", "-c", step["run"]],
                    cwd=tmp_path, env={**os.environ, **own}, capture_output=True, text=True, check=False,
                )  # fmt: skip
                codes[step["name"]] = done.returncode
                assert done.returncode in (0, 4), done.stderr
    assert codes == ({"Ask": 0} if right else {"Ask": 4, "Report": 0})
    assert right or "<h1>Answers of the wiki" in (tmp_path / "report.html").read_text()
    assert ("**FAILED**" in (tmp_path / "summary.md").read_text()) is not right
    suite = ElementTree.parse(tmp_path / "checks.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0" if right else "1")
