"""A system prompt and an answer format of the user's own, through the command on files on disk."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.llm.loopback import Loopback, completion

REPLIES = [
    {"when": "STRICT", "reply": "three years"},
    {"when": "JSON schema", "reply": '```json\n{"answer": "two years", "page": 1}\n```'},
    {"reply": "two years"},
]
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string"}, "page": {"type": "integer"}, "years": {}},
    "required": ["answer"],
}


@pytest.fixture
def ask(tmp_path, here):
    """Run methods on a folder of one page with a scripted model."""
    (tmp_path / "wiki").mkdir()
    (tmp_path / "wiki/a.txt").write_text("The warranty is two years.")
    question = {"question": "How long is the warranty?", "answer": "two years"}
    (tmp_path / "q.jsonl").write_text(json.dumps(question))
    (tmp_path / "script.yaml").write_text(json.dumps({"replies": REPLIES}))
    (tmp_path / "brief.txt").write_text("You are a clerk.\n")
    (tmp_path / "strict.txt").write_text("You are STRICT.\n")
    (tmp_path / "reply.json").write_text(json.dumps(SCHEMA))

    def call(method, *more, sets=("model=scripted", "model.script=script.yaml")):
        words = ["run", "-m", method, "--documents", "wiki", "--questions", "q.jsonl"]
        return here(*words, "--mlflow", "off", *more, "--set", *sets)

    return call


def records():
    """The records of all runs, by the name of the method."""
    found = {}
    for path in sorted(Path("results").glob("*/*/records.jsonl")):
        found[path.parent.name.partition("--")[0]] = json.loads(path.read_text())
    return found


def test_two_system_prompts_side_by_side_have_names_of_their_own(ask, here):
    ask("bm25", "--sweep", "system_prompt=brief.txt,strict.txt").checked()
    table = here("report", "results", "--columns", "method,flashrag.em").checked().stdout
    lines = table.partition("\n\n")[0].splitlines()
    rows = dict(line.rsplit(maxsplit=1) for line in lines if line.startswith("bm25"))
    assert rows == {"bm25 [system prompt brief]": "100.0", "bm25 [system prompt strict]": "0.0"}
    compared = here("compare", *map(str, Path("results/wiki").iterdir())).checked().stdout
    (line,) = [line for line in compared.split("\n\n")[-2].splitlines() if "differs from" in line]
    assert "in system prompt: '" in line
    assert "'strict: You are STRICT.'" in line
    assert "'brief: You are a clerk.'" in line
    assert "prompts.answer" not in compared
    table, _, standing = table.rpartition("\n\n")
    assert standing.startswith("not checked: questions, gold answers and evidence against")
    assert table.count("not checked") == table.count("as no first prompt is recorded")


@pytest.mark.parametrize("method", ["bm25", "closed-book", "ircot-reasoning", "memagent", "a-rag"])
def test_the_request_for_an_answer_has_the_system_prompt(ask, method):
    done = ask(method, "--system-prompt", "brief.txt", "--keep-prompts")
    done.checked()
    (path,) = Path("results/wiki").glob("*/requests*")
    requests = [json.loads(line)["prompt"] for line in path.read_text().splitlines()]
    assert any("You are a clerk." in request for request in requests)
    shared = [request for request in requests if "Updated memory:" in request]
    assert not any("You are a clerk." in request for request in shared)


@pytest.mark.parametrize(
    "words", [("--system-prompt", "brief.txt"), ("--sweep", "system_prompt=brief.txt,strict.txt")]
)
def test_an_application_stands_beside_methods_with_a_system_prompt_and_alone_refuses_it(
    ask, here, configs, words
):
    (configs / "own_answers.py").write_text("def answer(question):\n    return 'two years'\n")
    ask("closed-book", "--app", "mine=own_answers:answer", *words).checked()
    assert "mine" in records()
    place = ["--documents", "wiki", "--questions", "q.jsonl", "--mlflow", "off"]
    alone = here("run", "--app", "mine=own_answers:answer", *place, *words).checked(2)
    assert "sends no request of its own for an answer" in alone.stderr


def test_an_index_is_built_once_for_several_system_prompts(ask):
    ask("sbert", "--sweep", "system_prompt=brief.txt,strict.txt").checked()
    lines = [
        json.loads(path.read_text())["status"]
        for path in sorted(Path("results").glob("*/*/documents.jsonl"))
    ]
    assert sorted(lines) == ["built", "hit"]


def test_a_run_goes_on_from_its_own_settings_without_the_file(ask, here):
    ask("bm25", "--system-prompt", "brief.txt").checked()
    Path("brief.txt").unlink()
    (folder,) = Path("results/wiki").iterdir()
    again = here("run", "--config", str(folder / "run.yaml"), "--mlflow", "off", "--json")
    assert json.loads(again.checked().stdout)["run"] == str(folder)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("bm25", "--system-prompt", "nope.txt"), "nope.txt could not be read"),
        (("bm25", "--system-prompt", "empty.txt"), "empty.txt is empty"),
        (("bm25", "--answer-schema", "brief.txt"), "brief.txt is not JSON"),
        (("bm25", "--answer-schema", "wrong.json"), "wrong.json is no JSON schema"),
        (("bm25", "--answer-schema", "other.json"), "has no property 'answer'"),
        (("bm25", "--system-prompt", "brief.txt", "--sweep", "system_prompt=brief.txt"), "twice"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(ask, words, sentence):
    Path("empty.txt").write_text(" \n")
    Path("wrong.json").write_text('{"type": 3}')
    Path("other.json").write_text('{"type": "object", "properties": {"reply": {}}}')
    done = ask(*words).checked(2)
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not Path("results").exists()


def test_a_property_of_a_reply_is_scored(ask, here):
    ask("bm25", "--answer-schema", "reply.json").checked()
    record = records()["bm25"]
    assert record["notes"]["scored"] == "two years"
    assert record["scores"]["flashrag.em"] == 1
    assert "answer_schema" not in record["notes"]
    assert "not_parsed" not in here("report", "results").checked().stdout


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("two years", "it is no JSON"),
        ('{"answer": 2}', "$.answer: 2 is not of type 'string'"),
        ('{"page": 1}', "'answer' is a required property"),
        ('["two years"]', "is not of type 'object'"),
    ],
)
def test_a_reply_that_does_not_follow_the_schema_scores_0_and_is_counted(ask, here, reply, reason):
    Path("script.yaml").write_text(json.dumps({"replies": [{"reply": reply}]}))
    done = ask("bm25", "--answer-schema", "reply.json").checked()
    assert "1 question, 0 failed, 1 not as the answer schema says, scored 0" in done.stdout
    record = records()["bm25"]
    assert record["prediction"] == reply
    assert reason in record["notes"]["answer_schema"]
    assert set(record["scores"].values()) == {0}
    table = here("report", "results", "--columns", "method,not_parsed").checked().stdout
    assert table.splitlines()[2].split() == ["bm25", "1"]
    assert "1 of 1 replies do not follow the answer schema 'reply' and scored 0" in table
    # Scored again by the record alone, it is the same.
    (folder,) = Path("results/wiki").iterdir()
    here("score", str(folder)).checked()
    assert records()["bm25"] == record


def test_another_property_can_be_the_answer(ask):
    Path("script.yaml").write_text(
        '{"replies": [{"reply": "{\\"answer\\": \\"x\\", \\"years\\": [\\"two\\", \\"years\\"]}"}]}'
    )
    sets = ("model=scripted", "model.script=script.yaml", "dataset.answer_field=years")
    ask("bm25", "--answer-schema", "reply.json", sets=sets).checked()
    assert records()["bm25"]["notes"]["scored"] == "two, years"


@pytest.mark.parametrize("extra", [None, "model.extra.response_format=null"])
def test_a_server_gets_the_schema(ask, extra):
    served = ["model=reader", "model.backend=endpoint", "model.window=999"]
    with Loopback([lambda body: completion('{"answer": "two years"}')]) as server:
        sets = [*served, f"model.base_url={server.url}", *filter(None, [extra])]
        ask("bm25", "--answer-schema", "reply.json", sets=sets).checked()
        (body,) = server.asked
    sent = body.get("response_format")
    if extra:
        assert sent is None
    else:
        assert sent == {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": SCHEMA},
        }
    assert records()["bm25"]["scores"]["flashrag.em"] == 1


REQUEST = {
    "type": "object",
    "properties": {
        "model": {"type": "string"},
        "messages": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "role": {"enum": ["developer", "system", "user", "assistant", "tool"]},
                    "content": {"type": "string"},
                },
                "required": ["role", "content"],
                "additionalProperties": False,
            },
        },
        "max_tokens": {"type": "integer", "minimum": 1},
        "temperature": {"type": "number", "minimum": 0, "maximum": 2},
        "seed": {"type": "integer"},
        "stop": {"type": "array", "maxItems": 4},
        "response_format": {
            "type": "object",
            "properties": {
                "type": {"const": "json_schema"},
                "json_schema": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"},
                        "description": {"type": "string"},
                        "schema": {"type": "object"},
                        "strict": {"type": ["boolean", "null"]},
                    },
                    "required": ["name"],
                    "additionalProperties": False,
                },
            },
            "required": ["type", "json_schema"],
            "additionalProperties": False,
        },
    },
    "required": ["model", "messages", "response_format"],
    "additionalProperties": False,
}
"""What OpenAI's reference of chat completions allows of the keys that are sent here."""


def as_documented(body):
    """A reply that follows the schema of the request; a 400 for a request outside the reference."""
    for problem in Draft202012Validator(REQUEST).iter_errors(body):
        return f"says 400 {problem.message}"
    schema = body["response_format"]["json_schema"]["schema"]
    reply = {"answer": "two years", "page": 1}
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(reply)
    return completion(json.dumps(reply))


def test_the_request_with_a_schema_is_one_that_the_reference_of_openai_allows(ask):
    with Loopback([as_documented]) as server:
        served = ["model=reader", "model.backend=endpoint", "model.window=999"]
        sets = [*served, f"model.base_url={server.url}"]
        ask("bm25", "--answer-schema", "reply.json", sets=sets).checked()
    record = records()["bm25"]
    assert (record["error"], record["scores"]["flashrag.em"]) == (None, 1)
