"""--keep-prompts: the requests in the run folder are those that the model was sent, in order, each
with its reply."""

import json
import re
from pathlib import Path

import pytest

from harness.cost.flops import Request
from harness.errors import DataError
from harness.llm.endpoint import conversation_text
from harness.storage.json_lines import json_line
from harness.storage.kept_requests import read_requests, request_rows
from harness.storage.run_folder import read_run
from harness.storage.torn_lines import cut_torn_line
from tests.docs.test_run_folder import SCRIPT
from tests.llm.endpoints import words
from tests.llm.loopback import Loopback, completion

PECAN = [
    "run",
    "-m",
    "pecan",
    "-d",
    "pocket/musique",
    "--model",
    "scripted",
    "--mlflow",
    "off",
    "--json",
]
PECAN += ["--limit", "2"]
SETS = ("--set", "model.script=replies.yaml", "dataset.tokens=300")


def run(here, *more):
    done = here(*PECAN, *SETS, *more).checked()
    return Path(json.loads(done.stdout.splitlines()[-1])["run"])


def rows(folder):
    return [json.loads(line) for line in (folder / "requests.jsonl").read_bytes().splitlines()]


@pytest.fixture
def script(tmp_path):
    (tmp_path / "replies.yaml").write_text(SCRIPT, encoding="utf-8")
    return tmp_path


def test_as_many_as_were_counted_each_with_its_reply_and_trace_prints_them(here, script):
    folder = run(here, "--keep-prompts")
    stored = read_run(folder)
    counted(stored)
    index = [row for row in rows(folder) if "document_id" in row]
    assert {row["key"] for row in index} == {line.key for line in stored.index_lines}
    spent = [line.usage["index"] for line in stored.index_lines]
    assert len(index) == sum(usage["requests"] - usage["encoder_requests"] for usage in spent) > 0
    question = stored.records[0].question_id
    done = here("trace", str(folder), question, "--prompts")
    heads = re.findall(r"^request (\d+): (.*)$", done.stdout, re.M)
    assert [int(number) for number, _ in heads] == list(range(len(heads)))
    assert heads[-1][1].endswith("searcher, write")
    assert done.stdout.rstrip().endswith("-> Kelford")
    parsed = json.loads(here("trace", str(folder), question, "--prompts", "--json").stdout)
    assert len(parsed["requests"]) == len(heads)


def counted(stored):
    """Check that each record has as many requests as its usage counts, and that they end in its
    answer."""
    for record in stored.records:
        sent = stored.requests(record.question_id)
        for phase, usage in record.usage.items():
            count = sum(request.phase == phase for request in sent)
            assert count == usage["requests"] - usage["encoder_requests"]
            probes = [
                request for request in sent if (request.phase, request.kind) == (phase, "probe")
            ]
            assert len(probes) == usage.get("probes", {"requests": 0})["requests"]
        assert record.question in sent[-1].prompt
        assert (sent[-1].kind, sent[-1].reply) == ("write", record.prediction)
        assert json.loads(next(r.reply for r in sent if r.kind == "probe"))["Yes"] == 0.6


def test_without_the_option_there_is_no_file_and_none_where_texts_are_not_kept(here, script):
    folder = run(here)
    assert not (folder / "requests.jsonl").exists()
    done = here("trace", str(folder), read_run(folder).records[0].question_id, "--prompts").checked(
        2
    )
    assert "run it with --keep-prompts" in done.stderr
    assert run(here, "--keep-prompts") == folder, "it changes no answer, so it is the same run"
    done = here(*PECAN, *SETS, "--keep-prompts", "--keep-texts", "no").checked(2)
    assert (
        "--keep-prompts would store the data set's texts, which dataset.keep_texts forbids"
        in done.stderr
    )
    folder = run(here, "--keep-prompts", "--out", "other")
    run(here, "--keep-texts", "no", "--out", "other")
    assert not (folder / "requests.jsonl").exists()


def test_a_server_got_the_same_and_its_key_is_in_none(here, monkeypatch):
    monkeypatch.setenv("SOME_KEY", key := "sk-Very.Secret-0123")
    with Loopback(["ok", lambda _: completion(f"your key is {key}"), "500"]) as server:
        done = here(*words(server, "model.api_key_env=SOME_KEY", "--keep-prompts", limit=3))
        bodies = [conversation_text(body["messages"]) for body in server.asked]
        assert server.headers[0]["Authorization"].endswith(key)
    folder = Path(json.loads(done.stdout.rstrip().rsplit("\n", 1)[-1])["run"])
    stored = read_run(folder)
    sent = [request for record in stored.records for request in stored.requests(record.question_id)]
    assert [request.prompt for request in sent] == bodies[:3], (
        "a failed request is one, however often it was tried"
    )
    assert [request.reply for request in sent] == ["Paris", "your key is [key]", ""]
    assert key not in (folder / "requests.jsonl").read_text()
    counts = [
        sum(usage["requests"] for usage in record.usage.values())
        for record in read_run(folder).records
    ]
    assert counts == [1, 1, 1]


def test_a_resumed_run_has_the_requests_of_its_records(here, script):
    folder = run(here, "--keep-prompts")
    whole = [read_run(folder).requests(record.question_id) for record in read_run(folder).records]
    index = sum("document_id" in row for row in rows(folder))
    (folder / "records.jsonl").write_bytes(
        (folder / "records.jsonl").read_bytes().splitlines(keepends=True)[0]
    )
    assert run(here, "--keep-prompts", "--parallel", "2") == folder
    counted(read_run(folder))
    assert [
        read_run(folder).requests(record.question_id) for record in read_run(folder).records
    ] == whole
    assert sum("document_id" in row for row in rows(folder)) == index
    (folder / "records.jsonl").write_bytes(
        (folder / "records.jsonl").read_bytes().splitlines(keepends=True)[0]
    )
    run(here)
    left = [
        len(read_run(folder).requests(record.question_id)) for record in read_run(folder).records
    ]
    assert left == [len(whole[0]), 0], (
        "the second question's are those of a try whose answer is gone"
    )


def pack(folder, *tries):
    path = folder / "requests.jsonl"
    with open(path, "ab") as file:
        for question, prompts in tries:
            requests = [Request("reader", "answer", "write", prompt, "x") for prompt in prompts]
            file.writelines(map(json_line, request_rows(requests, {"question_id": question})))


def prompts(folder, *questions):
    return [[row.prompt for row in rows_] for rows_ in read_requests(folder, questions).values()]


def test_whole_prompts_of_several_questions_come_from_one_reading(tmp_path):
    pack(tmp_path, ("q", ["a", "ab"]), ("p", ["abc", "abcd", "b"]))
    assert prompts(tmp_path, "p", "q") == [["a", "ab"], ["abc", "abcd", "b"]]
    assert prompts(tmp_path, "other") == []
    data = (tmp_path / "requests.jsonl").read_bytes()
    (tmp_path / "requests.jsonl").write_bytes(data[:-3])
    assert cut_torn_line(tmp_path / "requests.jsonl", "kind")
    assert prompts(tmp_path, "p", "q") == [["a", "ab"], ["abc", "abcd"]]


@pytest.mark.parametrize(
    "change", [{"same": 9}, {"same": None}, {"same": -1}, {"prompt": 3}, {"reply": None}]
)
def test_a_row_that_somebody_changed_is_one_sentence(change, tmp_path):
    (row,) = request_rows([Request("reader", "answer", "write", "a", "x")], {"question_id": "q"})
    line = json.dumps({**row, **change}).encode() + b"\n"
    (tmp_path / "requests.jsonl").write_bytes(line)
    with pytest.raises(DataError, match="request 0 of 'q' does not fit"):
        read_requests(tmp_path, "q")
