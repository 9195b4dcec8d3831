"""Runs whose requests go as batch files: the records of a plain run at half the price, whenever the
process is killed."""

import json
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.forked import start
from tests.llm.endpoints import answer_to, content, last, records, words
from tests.llm.loopback import Loopback, completion

PRICES = ("--set", "model.price.input=1000", "model.price.output=2000")
BATCH = ("model.batch=true", *PRICES)


class BatchServer(Loopback):
    """Answers batches by moods[0], each at the second look. seen(moment): called before each reply
    of the batch API.

    paid: requests of batches that were made, by their conversation; drops: lines of a file of
    replies that are lost.
    """

    def __post_init__(self):
        super().__post_init__()
        self.files, self.batches, self.looks = {}, {}, Counter()
        self.paid, self.seen, self.drops, self.ends = Counter(), lambda _: None, (), "completed"

    def posted(self, path, sent):
        if path == "/v1/files":
            name = f"file-{len(self.files)}"
            self.files[name] = sent.split(b"\r\n\r\n")[2].rpartition(b"\r\n--")[0]
            self.seen("file")
            return lambda _: {"id": name}
        if path == "/v1/batches":
            name, about = f"batch_{len(self.batches)}", json.loads(sent)
            self.batches[name] = {
                "id": name,
                "input_file_id": about["input_file_id"],
                "status": "in_progress",
            }
            self.paid.update(content(json.loads(line)["body"]) for line in self.lines(name))
            self.seen("batch")
            return lambda _: self.batches[name]
        return None

    def lines(self, name):
        return self.files[self.batches[name]["input_file_id"]].splitlines()

    def got(self, path):
        _, _, kind, *rest = path.partition("?")[0].split("/")
        if kind == "batches" and not rest:
            return ({"data": list(self.batches.values())},)
        if kind == "batches":
            self.looks[rest[0]] += 1
            self.seen("look")
            if self.looks[rest[0]] > 1:
                self.batches[rest[0]] |= {"status": self.ends, "output_file_id": f"out-{rest[0]}"}
            return (self.batches[rest[0]],)
        if kind == "files":
            self.seen("replies")
            lines = [
                self.answered(json.loads(line)) for line in self.lines(rest[0].removeprefix("out-"))
            ]
            kept = [line for n, line in enumerate(lines) if n not in self.drops]
            return "".join(
                json.dumps(line) + "\n" for line in reversed(kept)
            ), "application/octet-stream"
        return None

    def answered(self, line):
        self.asked.append(line["body"])
        reply, error = self.moods[0](line["body"]), None
        status = 200 if "choices" in reply else reply.pop("status")
        if status == 0:
            return {"custom_id": line["custom_id"], "response": None, "error": reply["error"]}
        return {
            "custom_id": line["custom_id"],
            "response": {"status_code": status, "body": reply},
            "error": error,
        }


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("harness.llm.endpoint_batch._FIRST_WAIT", 0.01)
    monkeypatch.setattr("harness.llm.endpoint_batch._LONGEST_WAIT", 0.02)


def same(row):
    """A record without times."""
    times = ("seconds", "queued")
    phases = {
        name: {k: v for k, v in phase.items() if k not in times}
        for name, phase in row["usage"].items()
    }
    return {
        **row,
        "usage": phases,
        "notes": {k: v for k, v in row["notes"].items() if k != "seconds"},
    }


@pytest.mark.parametrize("method", ["bm25", "sbert"])
def test_records_are_those_of_a_plain_run_at_half_the_money(method, here):
    with BatchServer([answer_to]) as server:
        plain = here(*words(server, *PRICES, "--out", "plain", method=method)).checked()
        asked, server.asked[:] = list(server.asked), []
        batched = here(
            *words(server, *BATCH, "--parallel", "4", "--out", "batched", method=method)
        ).checked()
    assert sorted(map(json.dumps, server.asked)) == sorted(map(json.dumps, asked))
    assert (len(server.batches), server.paid.total()) == (1, 6)
    ours, theirs = (list(map(same, records(done))) for done in (batched, plain))
    twice = [row["notes"].pop("earlier")["billed"] for row in ours if "earlier" in row["notes"]]
    assert twice == (
        [{}] * 6 if method == "sbert" else []
    )  # a question's vector, which no server was asked for
    assert ours == theirs
    paid = [
        json.loads(here("report", name, "--format", "json").stdout)[0]
        for name in ("plain", "batched")
    ]
    assert paid[1]["money.run"] == pytest.approx(paid[0]["money.run"] / 2) != 0
    assert "seconds.p95" in paid[0]
    assert paid[1].get("seconds.p95") is None
    assert not list(Path(last(batched)["run"]).glob("batches*"))


def test_shards_send_batches_of_their_own_and_merge_into_a_plain_run(here):
    with BatchServer([answer_to]) as server:
        plain = here(*words(server, "--out", "plain", limit=12)).checked()
        server.asked.clear()
        shards = [here(*words(server, *BATCH, "--shard", f"{n}/2", limit=12)) for n in (1, 2)]
    assert (len(server.batches), server.paid.total(), max(server.paid.values())) == (2, 12, 1)
    assert list(map(same, records(shards[1].checked()))) == list(map(same, records(plain)))
    assert not list(Path(last(shards[1])["run"]).rglob("batches*"))


@pytest.mark.parametrize("moment", ["file", "batch", "replies"])
def test_a_process_that_is_killed_goes_on_and_pays_once(moment, here, tmp_path, environment):
    with BatchServer([answer_to]) as server:
        plain = here(*words(server, "--out", "plain")).checked()
        command = words(server, *BATCH)
        server.seen = lambda now: now == moment and run.signal(signal.SIGKILL)
        run = start("harness.cli.main", command, tmp_path, tmp_path / "printed", environment)
        assert run.end(300)[0] == -signal.SIGKILL
        server.seen = lambda _: None
        done = here(*command).checked()
    assert list(map(same, records(done))) == list(map(same, records(plain)))
    assert (len(server.batches), max(server.paid.values())) == (1, 1)


def test_lines_without_a_reply_fail_their_questions_and_only_they_are_sent_again(here):
    with BatchServer([answer_to]) as server:
        here(*words(server, *BATCH, "--out", "whole")).checked()
        errors = [
            {"status": 500, "error": {"message": "overloaded"}},
            {"status": 0, "error": {"code": "batch_expired", "message": "it expired"}},
            {"choices": []},
        ]
        wrong = dict(zip(map(content, server.asked), errors, strict=False))
        server.moods, server.drops, server.ends = (
            [lambda body: dict(wrong.get(content(body), answer_to(body)))],
            (5,),
            "expired",
        )
        done = here(*words(server, *BATCH)).checked(3)
        causes = ["overloaded", "it expired", "no choices", None, None, "ended without a reply"]
        found = [row["error"] and row["error"]["message"] for row in records(done)]
        assert [bool(a) and b in a for a, b in zip(found, causes, strict=True)] == list(
            map(bool, causes)
        ), found
        wrong.clear()
        server.drops, server.ends, before = (), "completed", Counter(server.paid)
        healed = here(*words(server, *BATCH, "--retry-failed")).checked()
    assert (server.paid - before).total() == 4
    assert last(healed)["summary"]["n_failed"] == 0


def test_a_refused_name_of_a_field_is_sent_again_under_the_other(here):
    def strict(body):
        refusal = {
            "status": 400,
            "error": {"message": "Unsupported parameter: 'max_tokens'", "param": "max_tokens"},
        }
        return dict(refusal) if "max_tokens" in body else completion("Paris")

    with BatchServer([strict]) as server:
        done = here(*words(server, *BATCH)).checked()
    assert [row["prediction"] for row in records(done)] == ["Paris"] * 6
    assert len(server.batches) == 2


def test_a_batch_that_the_server_refuses_is_one_sentence(here):
    with BatchServer([answer_to]) as server:
        server.ends = "failed"
        server.seen = lambda _: [
            b.update(errors={"data": [{"message": "no quota"}]}) for b in server.batches.values()
        ]
        stopped = here(*words(server, *BATCH)).checked(2)
        assert "the batch batch_0 failed: " in stopped.stderr
        server.ends = "completed"
        here(*words(server, *BATCH)).checked()


def test_a_server_that_goes_away_keeps_the_batch(here):
    with BatchServer([answer_to]) as server:
        server.seen = lambda moment: (
            moment == "look" and (server.http.shutdown(), server.http.server_close())
        )
        stopped = here(*words(server, *BATCH, timeout=0.5)).checked(3)
        url = server.url
    assert "the same command goes on with the batches that were sent" in stopped.stderr
    (state,) = Path("results").rglob("batches.json")
    assert json.loads(state.read_text()) == {"batches": [{"file": "file-0", "id": "batch_0"}]}
    assert url in stopped.stderr


@pytest.mark.parametrize(("flag", "most"), [("--max-money", "0.9"), ("--max-tokens", "900")])
def test_a_limit_leaves_requests_out_of_the_batch(flag, most, here):
    with BatchServer([answer_to]) as server:
        whole = here(*words(server, *BATCH, "--out", "whole")).checked()
        server.paid.clear()
        stopped = here(*words(server, *BATCH, flag, most)).checked(3)
        assert f"stopped at {flag}" in stopped.stderr
        assert 0 < server.paid.total() < 6
        done = here(*words(server, *BATCH)).checked()
    assert server.paid.total() == 6
    assert list(map(same, records(done))) == list(map(same, records(whole)))


def test_requests_that_depend_on_replies_are_refused(here):
    with BatchServer([answer_to]) as server:
        refused = here(*words(server, *BATCH, method="ircot")).checked(2)
        assert server.batches == {}
    assert (
        "requests of 'ircot' may depend on earlier replies, and a batch takes up to a day"
        in refused.stderr
    )
