"""Each command of docs/choose.md and the example of README.md with a server, as they are printed,
with a stand-in for the model's server."""

import re
import shlex
from glob import glob

import pytest

from tests.docs.pages import ROOT, blocks
from tests.llm.loopback import Loopback, completion

ADDRESS = "http://127.0.0.1:8000/v1"


def reader(body):
    """A reply: the three lines that have most words of the question, the last line with a question
    mark."""
    prompt = body["messages"][-1]["content"]
    lines = prompt.splitlines()
    question = [lines[-1], *(line for line in lines if "?" in line)][-1]
    asked = set(re.findall(r"\w+", question.lower()))
    others = [line for line in lines if "?" not in line]
    others.sort(key=lambda line: -len(asked.intersection(re.findall(r"\w+", line.lower()))))
    reply = " ".join(others[:3]) or "unknown"
    usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": len(reply.split())}
    return completion(reply) | {"usage": usage}


@pytest.fixture
def server():
    with Loopback([reader], served=["stand-in"]) as running:
        yield running


def _words(line, server):
    """The words of a command with the server's address and its patterns filled in."""
    words = []
    for word in shlex.split(line.replace(ADDRESS, server.url))[1:]:
        words += sorted(glob(word)) or [word]
    if words[0] == "run":
        words += ["--mlflow", "off"]
    return words


def test_each_command_of_the_page_runs(here, tmp_path, monkeypatch, server):
    monkeypatch.setenv("HARNESS_CONFIGS", "configs")
    monkeypatch.setenv("MODEL_KEY", "k")
    page = [block for block in blocks(ROOT / "docs" / "choose.md") if block.language == "console"]
    lines = [line for block in page for line, _ in block.commands()]
    assert len(lines) == 10
    printed = {}
    for line in lines:
        printed[line] = here(*_words(line, server)).checked().stdout
        if line == "harness init":
            model = tmp_path / "configs/models/wiki-model.yaml"
            model.write_text(model.read_text().replace(ADDRESS, server.url))
    asked = printed["harness run --suite wiki --parallel 8 --max-money 5"]
    assert re.search(r"^full-context .* 6 +3 +0 ", asked, re.MULTILINE)
    opening = (tmp_path / "report.html").read_text().partition("</header>")[0]
    assert "EUR per 1,000 questions" in opening
    assert "closed-book" in opening


def test_the_example_of_the_readme_runs(here, tmp_path, server):
    here("init").checked()
    (tmp_path / "documents").rename(tmp_path / "wiki")
    (block,) = [one for one in blocks(ROOT / "README.md") if "vllm serve" in one.text]
    lines = [line for line in block.lines() if line.startswith("harness ")]
    assert len(lines) == 2
    for line in lines:
        here(*_words(line, server)).checked()
    assert (tmp_path / "report.xlsx").exists()
