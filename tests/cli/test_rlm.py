"""A method that runs a model's code, through the command on files on disk."""

import json

import pytest

from methods.rlm.repl import confinement_problem

SCRIPT = """
replies:
  - {when: "REPL output", reply: "```repl\\nanswer['content'] = 'two years'\\nanswer['ready'] = True\\n```"}
  - {reply: "```repl\\nopen('made', 'w')\\n```\\n```repl\\nprint(context)\\n```"}
"""


@pytest.fixture
def ask(tmp_path, here):
    """Run the method on a folder of one page with a scripted model."""
    (tmp_path / "wiki").mkdir()
    (tmp_path / "wiki/a.txt").write_text("The warranty of all mills is two years.")
    question = {"question": "How long is the warranty?", "answer": "two years"}
    (tmp_path / "q.jsonl").write_text(json.dumps(question))
    (tmp_path / "script.yaml").write_text(SCRIPT)

    def call(*sets):
        words = ["run", "-m", "rlm", "--documents", "wiki", "--questions", "q.jsonl"]
        sets = ("model=scripted", "model.script=script.yaml", *sets)
        return here(*words, "--mlflow", "off", "--json", "--set", *sets)

    return call


def test_without_leave_nothing_is_run(ask, tmp_path):
    ended = ask().checked(2)
    assert "--set method.allow_code=true" in ended.stderr
    assert not (tmp_path / "results").exists()


@pytest.mark.skipif(bool(confinement_problem()), reason="needs Linux on x86-64")
def test_with_leave_the_code_reads_the_page_and_no_file(ask, tmp_path):
    ended = ask("method.allow_code=true").checked()
    run = tmp_path / json.loads(ended.stdout)["run"]
    (record,) = map(json.loads, (run / "records.jsonl").read_text().splitlines())
    assert (record["prediction"], record["error"]) == ("two years", None)
    assert record["usage"]["search"]["requests"] == 2
    assert not list(tmp_path.rglob("made"))
    assert any(shown["kind"] == "span" for shown in record["shown"])
