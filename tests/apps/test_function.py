"""A function of the user's own as an application: by the command and in Python."""

import asyncio
import hashlib
import json

import pytest

import harness
from tests.apps.wiki import ANSWERS, WikiApp

CODE = """
import asyncio

async def answer(question):
    await asyncio.sleep(0.01)
    return {"answer": "two years", "sources": ["setup"]}
"""


def answer(question):
    return WikiApp().reply(question)


async def answer_slowly(question):
    await asyncio.sleep(0.05)
    return ANSWERS[question][0]


def test_a_function_in_a_file_is_called_and_its_code_is_part_of_the_run(
    run, wiki, configs, records
):
    (configs / "own_app.py").write_text(CODE)
    run("own_app:answer", "--parallel", "2").checked()
    assert records("answer")["q1"]["scores"]["evidence_pages"] == 1
    assert records("answer")["q1"]["scores"]["flashrag.em"] == 1
    (file,) = (wiki / "results" / "wiki").glob("answer--*/manifest.json")
    reader = json.loads(file.read_text())["models"]["reader"]
    assert reader["code"] == {"own_app": hashlib.sha256(CODE.encode()).hexdigest()}


def test_a_function_that_raises_fails_its_question_and_no_other(run, wiki, configs, records):
    (configs / "raises.py").write_text(
        "def answer(question):\n"
        "    if 'team' in question:\n"
        "        raise ValueError('no team')\n"
        "    return 'two years'\n"
    )
    run("raises:answer").checked(3)
    errors = {name: row["error"] for name, row in records("answer").items() if row["error"]}
    assert list(errors) == ["q3"]
    assert errors["q3"]["message"] == "no team"


@pytest.mark.parametrize("function", [answer, answer_slowly])
def test_python_takes_the_function_itself(wiki, here, function):
    made = harness.run(
        app=function,
        documents=wiki / "wiki",
        questions=wiki / "questions.jsonl",
        out=wiki / "results",
        mlflow="off",
        progress=False,
    )
    assert made.summary["scores"]["flashrag.em"]["mean"] == 1
