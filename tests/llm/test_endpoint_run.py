"""Whole runs over a server on this machine: failures, resuming, questions in flight, Ctrl-C, and
where the key must not be."""

import json
import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest

from harness.errors import RequestFailed
from harness.llm.endpoint import complete
from harness.llm.endpoint_http import RetryPolicy, Server, Tries
from harness.storage.run_folder import read_run
from reports.run_notes import run_notes
from tests.forked import start
from tests.llm.endpoints import BODY, KEY, QUICK, answer_to, content, last, records, words
from tests.llm.loopback import Loopback, completion
from tests.stand_in_server import StandIn


@pytest.fixture(autouse=True)
def no_waits(monkeypatch):
    monkeypatch.setattr(RetryPolicy, "wait_before", lambda *_: 0.0)


def same(row):
    """A record without what an earlier or a slower try changes."""
    kept = {k: v for k, v in row.items() if k not in ("usage", "notes")}
    return kept | {"tokens": {k: v["tokens_in"] for k, v in row["usage"].items()}}


def test_failures_are_recorded_and_only_they_are_asked_again(here):
    with Loopback([answer_to]) as server:
        clean = here(*words(server, "--out", "clean"))
        asked = [content(body) for body in server.asked]
    assert clean.returncode == 0, clean.stderr
    assert len(asked) == len(set(asked)) == 6
    trouble = dict(zip(asked, ["500", "429;0", "hang", "cut", "html"], strict=False))
    with Loopback([lambda body: trouble.get(content(body)) or answer_to(body)]) as server:
        hurt = here(*words(server, "--parallel", "2", timeout=0.5)).checked(3)
        assert last(hurt)["summary"]["n_failed"] == 5
        assert [r["error"] and r["error"]["type"] for r in records(hurt)] == [
            "RequestFailed"
        ] * 5 + [None]
        assert [len([b for b in server.asked if content(b) == text]) for text in asked] == [
            2
        ] * 5 + [1]
        causes = ["status 500", "status 429", "nothing came back", "cut off", "text/html"]
        assert all(
            cause in r["error"]["message"] for cause, r in zip(causes, records(hurt), strict=False)
        )
        assert [r["usage"]["answer"]["requests"] for r in records(hurt)] == [1] * 6
        assert [r["usage"]["answer"]["retries"] for r in records(hurt)] == [1] * 5 + [0]

        trouble.clear()
        server.asked.clear()
        again = here(*words(server))
        assert (again.returncode, server.asked) == (3, [])
        healed = here(*words(server, "--retry-failed"))
    assert healed.returncode == 0, healed.stderr
    assert [content(body) for body in server.asked] == asked[:5]
    assert [same(r) for r in records(healed)] == [same(r) for r in records(clean)]
    starts = json.loads((Path(last(healed)["run"]) / "manifest.json").read_text())["starts"]
    assert len(starts) == 3


REFUSAL = completion(None)
REFUSAL["choices"][0]["message"]["refusal"] = "I cannot help with that."


@pytest.mark.parametrize(
    ("more", "thinking", "limit"),
    [
        ((), "set model.thinking.tokens=4096", "dataset.max_answer_tokens=32"),
        (
            ("model.thinking.tokens=9",),
            "raise model.thinking.tokens, now 9",
            "dataset.max_answer_tokens=32",
        ),
        (("model.max_tokens=8",), "set model.thinking.tokens=4096", "model.max_tokens=8"),
    ],
)
def test_replies_without_an_answer_are_in_the_last_lines_and_the_notes(more, thinking, limit, here):
    replies = [
        REFUSAL,
        completion("", "length"),
        completion(" "),
        completion("Paris i", "length"),
        completion("Paris"),
    ]
    with Loopback([(lambda body, reply=reply: reply) for reply in replies]) as server:
        done = here(*[word for word in words(server, "--set", "seed=0", *more) if word != "--json"])
    sentences = [
        "refusals: 1",
        f"replies whose limit went into thinking: 1; {thinking}",
        "empty replies: 1",
        f"replies cut at their limit ({limit}): 1",
    ]
    assert done.stdout.splitlines()[-4:] == [f"  {sentence}" for sentence in sentences]
    run = read_run(Path(done.stdout.splitlines()[0]))
    assert [note for note in run_notes(run) if note in sentences] == sentences


def test_limits_count_requests_that_failed_in_every_round(here):
    """Of each try of each round the conversation was sent, whether or not the server read it."""
    prices = ("--set", "model.price.input=1000", "model.price.output=1", "model.retries=2")

    def command(server, *more):
        return [word for word in words(server, *prices, *more) if word != "model.retries=1"]

    with Loopback(["500"]) as server:
        for number in range(3):
            done = here(*command(server, *(["--retry-failed"] if number else [])))
            assert last(done)["summary"]["n_failed"] == 6
        assert len(server.asked) == 3 * 6 * 3
        rows = records(done)
        each = [row["usage"]["answer"]["unanswered"]["tokens"] // 3 for row in rows]
        assert all(tokens > 100 for tokens in each)
        assert [row["notes"]["earlier"]["tokens"] for row in rows] == [
            6 * tokens for tokens in each
        ]
        sent = 9 * sum(each)
        for limit, more in (("--max-tokens", sent), ("--max-money", sent / 1000)):
            stopped = here(*command(server, "--retry-failed", limit, f"{more}")).checked(3)
            assert f"stopped at {limit}" in stopped.stderr
            assert len(server.asked) == 54, "what was sent before is all that the limit allows"
        here(*command(server, "--retry-failed", "--max-tokens", f"{sent + 1}")).checked(3)
        assert len(server.asked) == 57, "one question more, and its three tries"
    with Loopback([lambda body: "500" if len(server.asked) % 2 else answer_to(body)]) as server:
        done = here(*words(server, "--out", "half")).checked(0)
    assert all(
        row["usage"]["answer"]["unanswered"]["tokens"] == n
        for row, n in zip(records(done), each, strict=True)
    )
    assert last(done)["summary"]["usage"]["answer"]["tokens_in"] == 50, (
        "tables have what was answered"
    )


def test_nothing_is_counted_where_nothing_could_be_sent():
    with Loopback(["ok"]) as server:
        gone = server.url
    tries = Tries()
    with pytest.raises(RequestFailed):
        complete(Server(gone, None, QUICK), BODY, tries)
    assert (tries.made, tries.sent) == (3, 0)


def test_a_server_that_moved_goes_on_with_the_run_and_the_manifest_says_so(here):
    with Loopback([answer_to]) as server:
        first = here(*words(server, limit=1))
    with Loopback([answer_to]) as moved:
        sizes = {
            "layers": 2,
            "width": 64,
            "heads": 4,
            "kv_heads": 4,
            "head_size": 16,
            "mlp": 128,
            "vocab": 100,
        }
        shape = [f"model.shape.{name}={size}" for name, size in sizes.items()]
        second = here(*words(moved, "--set", *shape, limit=2))
        assert len(moved.asked) == 1
    assert last(first)["run"] == last(second)["run"]
    manifest = json.loads((Path(last(second)["run"]) / "manifest.json").read_text())
    assert manifest["servers"] == {"reader": server.url}
    assert manifest["starts"][1]["changed"]["servers"] == {"reader": moved.url}
    assert manifest["shapes"]["reader"]["layers"] == 6  # of the config.json beside the tokenizer
    assert manifest["starts"][1]["changed"]["shapes"] == {
        "reader": {**sizes, "gated": True, "tied": False}
    }
    assert any(
        "counted by the old sizes" in note
        for note in run_notes(read_run(Path(last(second)["run"])))
    )
    assert manifest["first_prompts"]["reader"]["text"].startswith("[user]\n")


def test_a_key_that_is_refused_in_mid_run_keeps_what_is_there(here):
    with Loopback([answer_to, answer_to, "401", answer_to]) as server:
        stopped = here(*words(server)).checked(3)
        assert (
            "refuses us (status 401); name its key: --set model.api_key_env=NAME" in stopped.stderr
        )
        done = here(*words(server)).checked()
        assert len(server.asked) == 3 + 4
        assert last(done)["summary"]["n_total"] == 6


def test_eight_questions_are_eight_requests_at_once_and_never_nine(here):
    # Nobody is answered before eight requests are there: one at a time, or seven, would break the
    # barrier.
    together = threading.Barrier(8)

    def held(body):
        together.wait(60)
        return answer_to(body)

    with Loopback([answer_to]) as server:
        alone = here(*words(server, "--out", "alone", limit=16))
        assert server.at_once == 1
    with Loopback([held]) as server:
        done = here(*words(server, "--parallel", "8", limit=16, timeout=90)).checked()
        assert (server.at_once, len(server.asked)) == (8, 16)
    assert [r["usage"]["answer"]["retries"] for r in records(done)] == [0] * 16
    assert [same(r) for r in records(done)] == [same(r) for r in records(alone)]


def test_ctrl_c_on_a_server_that_never_replies(tmp_path, environment):
    with Loopback(["hang"]) as loopback:
        command = words(loopback, "--parallel", "8", limit=12, timeout=60)
        run = start("harness.cli.main", command, tmp_path, tmp_path / "printed", environment)
        while len(loopback.asked) < 8:
            assert run.poll() is None, run.end()
            time.sleep(0.02)
        run.signal(signal.SIGINT)
        code, _, said = run.end(8)  # the server would hang for ten seconds
    assert code == 130, said
    assert "The same command resumes" in said


def test_what_cannot_work_is_refused_before_anything_is_asked(here, tmp_path):
    with Loopback() as server:
        refused = here(*words(server, method="pecan"))
        assert server.asked == []
    assert refused.returncode == 2
    one = "error: method 'pecan' needs attention, which the server of 'some-chat' cannot give; choose another model"
    assert one in refused.stderr, "a sentence for both of its roles"
    assert "or a method that this one can serve (" in refused.stderr
    assert "closed-book" in refused.stderr
    gone = here(*words(server.url)).checked(2)
    assert f"no server answers at {server.url}" in gone.stderr
    assert not list(tmp_path.rglob("run.yaml"))


def found(root, text):
    """Files below `root` that hold `text`, in their bytes or in their name."""
    files = [p for p in root.rglob("*") if p.is_file()]
    return [str(p) for p in files if text.encode() in p.read_bytes() or text in str(p)]


def test_the_key_is_in_no_file_and_in_no_message(here, uri, tmp_path, monkeypatch):
    pytest.importorskip(
        "mlflow", reason="MLflow is not installed; its files are not looked through"
    )
    monkeypatch.setenv("SOME_KEY", KEY)
    moods = ["500", "400", lambda body: completion(f"the key is {KEY}"), answer_to]
    with Loopback(moods) as server:
        done = here(*words(server, "model.api_key_env=SOME_KEY", limit=4))
        assert {h["Authorization"] for h in server.headers} == {f"Bearer {KEY}"}
    assert done.returncode == 3, done.stderr
    rows = records(done)
    assert "your key was Bearer [key]" in rows[0]["error"]["message"]
    assert rows[1]["prediction"] == "the key is [key]"
    tracked = here("track", str(last(done)["run"]), "--uri", uri).checked()
    assert found(tmp_path, KEY) == []
    assert KEY not in done.stdout + done.stderr + tracked.stdout + tracked.stderr
    # The same search finds what is there: the variable's name in the run's files and in MLflow's.
    names = [Path(p).name for p in found(tmp_path, "SOME_KEY")]
    assert {"run.yaml", "manifest.json", "mlflow.db"} <= set(names)
    assert os.environ["SOME_KEY"] == KEY


def test_money_and_latency_are_those_of_the_servers_own_account(here, tmp_path):
    """No tokenizer, a price, questions in flight, and moments in which the server is unwell."""
    (tmp_path / "wiki").mkdir()
    for n in range(6):
        (tmp_path / f"wiki/p{n}.md").write_text(f"# Page {n}\nThe code of room {n} is: {n}{n}.\n")
    rows = [
        {"question": f"What is the code of room {n}?", "answer": f"{n}{n}.", "document": f"p{n}"}
        for n in range(6)
    ]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = [
        "run",
        "--method",
        "bm25,full-context",
        "--documents",
        "wiki",
        "--questions",
        "q.jsonl",
    ]
    words += ["--model", "endpoint", "--parallel", "4", "--mlflow", "off"]
    stand_in = StandIn(delay=0.05)
    with stand_in.server() as server:
        prices = ["model.price.input=1", "model.price.cached=0.5", "model.price.output=2"]
        sets = [
            "--set",
            f"model.base_url={server.url}",
            "model.source=stand-in",
            "model.window=4000",
            *prices,
        ]
        here(*words, *sets).checked()
        billed, took = dict(stand_in.billed), list(stand_in.took)
        cut = here(*words, "--max-money", "1e-9", "--out", "cut", *sets).checked(3)
        assert re.search(r"--max-money 1e-09 \(0\.000\d+ spent\)", cut.stderr)
    found = json.loads(here("report", "results", "--format", "json").checked().stdout)
    own = (billed["input"] * 1 + billed["cached"] * 0.5 + billed["output"] * 2) / 1e6
    assert stand_in.refused
    assert sum(row["money.run"] for row in found) == pytest.approx(own)
    assert sum(row["money"] * row["n"] for row in found) == pytest.approx(own)
    assert max(row["seconds.p95"] for row in found) < max(took) + 0.1
    assert min(row["seconds.p50"] for row in found) >= min(took)
    assert " seconds.p95 " in here("report", "results").stdout


def test_a_server_keeps_its_chat_template_and_the_command_says_so(here):
    with Loopback([answer_to]) as server:
        done = here(*words(server, "dataset.chat=false", limit=1))
    assert (
        "is shown without a chat template, but the server of 'some-chat' always uses its own"
        in done.stderr
    )
