"""HELMET from files on disk: its layout, its two solved examples and its scores, by the command."""

import json
from pathlib import Path

import pytest

from harness.storage.run_folder import read_run
from tests.datasets.support import write_lines
from tests.datasets.test_helmet_shots import FILE, row

# The prompt as it is sent: the passages, and two examples with theirs in front of the question.
PROMPT = (
    "Text:\nDocument (Title: T x): Text 0.\n\nThe text ends here. Use the given documents to write a "
    "concise and short answer to the question. Write your answer in the following format:\nAnswer: "
    "[answer]\n\nExamples:\n\n"
    "Document (Title: T 6): Text 0.\n\nQuestion: Who is 6?\nAnswer: A 6\n\n"
    "Document (Title: T 8): Text 0.\n\nQuestion: Who is 8?\nAnswer: A 8\n\n\n"
    "Question: Who is x?\nAnswer:"
)
REPLIES = [{"when": PROMPT, "reply": "I think so. Answer: A x\nor"}, {"reply": "another\nA y"}]


def test_questions_of_helmet_have_two_examples_and_its_scores(here):
    write_lines(Path("nq.jsonl"), [row("x"), row("y")])
    write_lines(Path(FILE), [row(n) for n in range(9)])
    Path("replies.yaml").write_text(json.dumps({"replies": REPLIES}), encoding="utf-8")
    words = (
        "run",
        "-m",
        "full-context",
        "-d",
        "helmet/nq",
        "--data",
        "nq.jsonl",
        "--mlflow",
        "off",
    )
    reader = ("--model", "scripted", "--set", "model.script=replies.yaml", "--json")
    done = here(*words, *reader).checked()
    run = read_run(Path(json.loads(done.stdout.splitlines()[-1])["run"]))
    first, second = run.records
    # Of the whole line one word of five is right; the parsed one is right. A second line is no answer.
    names = ("substring_exact_match", "f1", "exact_match")
    assert first.scores == {f"helmet.{name}.first_line": 1.0 for name in names}
    assert set(second.scores.values()) == {0.0}


@pytest.mark.parametrize(
    ("sets", "code", "sentence"),
    [
        ((), 2, f"there is no file '{FILE}', and none of that name beside 'nq.jsonl'"),
        (("--set", "dataset.shots=0"), 0, ""),
    ],
)
def test_without_the_file_of_examples(here, sets, code, sentence):
    write_lines(Path("nq.jsonl"), [row("x")])
    words = ("run", "-m", "echo", "-d", "helmet/nq", "--data", "nq.jsonl", "--mlflow", "off")
    assert sentence in here(*words, *sets).checked(code).stderr
