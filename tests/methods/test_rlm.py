"""Recursive Language Models: code over the text, questions of the code, and what code may not do."""

import pytest

from harness.errors import CannotRun
from harness.llm.scripted import Rule
from harness.types import Document, Question
from methods.rlm import RLM
from methods.rlm.repl import Limits, Repl, confinement_problem
from tests.methods.conftest import FakeTools

pytestmark = pytest.mark.skipif(bool(confinement_problem()), reason="needs Linux on x86-64")

TEXT = "Velindra is a novel by Toren. Toren lives in Kelford. Mira sold two boats."
QUESTION = Question("q", "Where lives the author of Velindra?", ("d",))
LOOK = "I look.\n```repl\nprint(context[:29])\nfound = context.find('Kelford')\n```"
ASK = '```repl\nplace = llm_query("Which town? " + context[30:53])\nprint(place)\n```'
DONE = '```repl\nanswer["content"] = place\nanswer["ready"] = True\n```'
RULES = [
    Rule(when="Which town? Toren lives in Kelford.", reply="Kelford"),
    Rule(when="REPL output:\nKelford", reply=DONE),
    Rule(when="REPL output:\nVelindra is a novel by Toren.", reply=ASK),
    Rule(when="look at it first", reply=LOOK),
]


def read(rules=RULES, window=8192, **params):
    tools = FakeTools(rules, window=window)
    settings = {"allow_code": True, "reply_tokens": 200, "asked_tokens": 50, "seconds": 20}
    method = RLM(RLM.Config(**{**settings, **params}))
    assert method.problems() == []
    return method.answer(QUESTION, [Document("d", TEXT)], [{}], tools), tools


def test_the_model_reads_by_code_that_asks_a_model():
    answer, tools = read()
    assert answer.text == "Kelford"
    assert answer.stop_reason == "answered in turn 3, 1 requests by code"
    assert [(step.action, step.note.split("\n")[0]) for step in answer.steps] == [
        ("code", "print(context[:29])"),
        ("ask", "Which town? Toren lives in Kelford. -> Kelford"),
        ("code", 'place = llm_query("Which town? " + context[30:53])'),
        ("code", 'answer["content"] = place'),
    ]
    assert [shown.text for shown in answer.shown] == [
        "Velindra is a novel by Toren.\n",
        "Which town? Toren lives in Kelford.",
        "Kelford\n",
    ]
    first, second, sub, third = tools.reader.prompts
    assert f"context is a str of {len(TEXT)} characters" in first
    assert TEXT[:20] not in first
    assert "Variables: found\n\nTurn 2 of 30:" in second
    assert sub == "\n[user]Which town? Toren lives in Kelford."
    assert "Variables: found, place\n\nTurn 3 of 30:" in third
    assert tools.meter.usage()["search"]["requests"] == 4


DEEP = [
    Rule(
        when="REPL output:\nKelford",
        reply='```repl\nanswer.update(content="It is " + town, ready=True)\n```',
    ),
    Rule(
        when="which says what to do",
        reply='```repl\nanswer["content"] = context[-8:-1]\nanswer["ready"] = True\n```',
    ),
    Rule(
        when="look at it first",
        reply='```repl\ntown = rlm_query("The town of: he lives in Kelford.")\nprint(town)\n```',
    ),
    Rule(when="The town of", reply="Kelford"),
]


def test_code_may_ask_a_model_with_a_session_of_its_own():
    answer, tools = read(DEEP, depth=2)
    assert (answer.text, len(tools.reader.prompts)) == ("It is Kelford", 3)
    assert "The town of" not in tools.reader.prompts[1]  # it is the variable of that session


def test_at_the_last_level_a_model_is_asked_without_a_session():
    answer, tools = read(DEEP)
    assert answer.text == "It is Kelford"
    assert tools.reader.prompts[1] == "\n[user]The town of: he lives in Kelford."


@pytest.mark.parametrize(
    ("params", "reason"),
    [({"max_turns": 2}, "max_turns"), ({"window": 670}, "window")],
)
def test_a_model_that_does_not_finish_is_told_to_answer(params, reason):
    rules = [Rule(when="Give the final answer now", reply="Kelford"), Rule(reply="I think.")]
    answer, _ = read(rules, **params)
    assert answer.text == "Kelford"
    assert answer.stop_reason == f"told to answer: {reason}, 0 requests by code"


def test_code_may_ask_so_often():
    many = '```repl\nprint(llm_query_batched(["a", "b", "c"]))\n```'
    rules = [Rule(when="code may ask 2 times", reply=DONE), Rule(reply=many)]
    answer, _ = read(rules, max_asked=2, max_turns=2)
    assert "0 requests by code" in answer.stop_reason


def test_code_is_off_unless_it_is_allowed():
    with pytest.raises(CannotRun, match=r"--set method\.allow_code=true"):
        RLM(RLM.Config()).problems()


def ran(*blocks, seconds=20, megabytes=512):
    with Repl("text", Limits(seconds, megabytes), lambda prompts, deep: ["reply"]) as repl:
        return [repl.run(block) for block in blocks]


SOCKET = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
if libc.socket(2, 1, 0) < 0:
    raise OSError(ctypes.get_errno(), "")
"""


@pytest.mark.parametrize(
    "code",
    [
        "open('/etc/passwd')",
        "open('made', 'w')",
        SOCKET,
        "import os\nos.fork()",
        "import os\nos.unlink('/tmp/none')",
        "import os\nos.kill(os.getppid(), 0)",
        "import os\nos.execv('/bin/sh', ['sh'])",
        "import os\nos.listdir('/')",
    ],
)
def test_code_may_only_compute(code):
    (result,) = ran(f"try:\n    exec({code!r})\nexcept OSError as error:\n    print(error.errno)")
    assert result.printed == "1\n"  # EPERM


def test_code_sees_no_environment(monkeypatch):
    monkeypatch.setenv("SOME_KEY", "secret")
    (result,) = ran("import os\nprint(dict(os.environ))")
    assert "secret" not in result.printed


@pytest.mark.parametrize(
    ("code", "limits", "said"),
    [
        ("while True: pass", {"seconds": 1}, "took too long"),
        ("import os\nos._exit(0)", {}, "ended the session"),
        (
            "import sys\nsys.__stdout__.write('[]\\n')\nsys.__stdout__.flush()",
            {},
            "broke the session",
        ),
        (
            "import sys\nsys.__stdout__.write('{}\\n')\nsys.__stdout__.flush()",
            {},
            "broke the session",
        ),
    ],
)
def test_a_block_beyond_its_limits_ends_the_session_alone(code, limits, said):
    _, result, after = ran("x = 1", code, "print(context, 'x' in globals())", **limits)
    assert said in result.printed
    assert after.printed == "text False\n"


def test_code_that_takes_too_much_memory_gets_an_error():
    first, after = ran("x = 'x' * 10**9", "print(1)", megabytes=256)
    assert (first.printed, after.printed) == ("MemoryError: \n", "1\n")


def test_modules_that_are_loaded_can_be_imported_and_others_cannot():
    first, other = ran("import re, json\nprint(re.findall('t', context))", "import socket")
    assert first.printed == "['t', 't']\n"
    assert other.printed.startswith("ModuleNotFoundError")
