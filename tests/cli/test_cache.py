"""`harness run --cache replies` and `harness cache`: the second run sends no request to a
server."""

import json
import threading
from pathlib import Path

import pytest

from tests.llm.endpoints import answer_to, last, records, words
from tests.llm.loopback import Loopback


def same(row):
    usage = {
        k: {n: v for n, v in u.items() if n not in ("seconds", "queued", "recalled")}
        for k, u in row["usage"].items()
    }
    return {**row, "usage": usage, "notes": {}}


def test_a_second_run_sends_no_request_and_its_records_are_equal(here):
    with Loopback([answer_to]) as server:
        first = here(*words(server, "--cache", "replies", "--out", "a"))
        sent = len(server.asked)
        second = here(*words(server, "--cache", "replies", "--out", "b", "--parallel", "3"))
        assert (sent, len(server.asked)) == (6, 6)
        here(*words(server, "--cache", "replies", "--out", "c", "--set", 'model.revision="2"'))
        assert len(server.asked) == 12
        here(*words(server, "--out", "d"))
        assert len(server.asked) == 18
    assert [same(r) for r in records(second)] == [same(r) for r in records(first)]
    assert [r["usage"]["answer"]["recalled"] for r in records(second)] == [1] * 6
    assert "as a server shows no weights" in first.stderr
    assert (
        "6 replies came from earlier runs" in here("report", str(Path(last(second)["run"]))).stdout
    )

    rows = [json.loads(line) for line in here("cache", "--json").stdout.splitlines()]
    assert [row["replies"] for row in rows] == [6, 6]
    assert here("cache", "--clear", "--model", "nobody").returncode == 2
    assert here("cache", "--clear").stdout.splitlines()[-1] == "deleted"
    assert here("cache").stdout == "no replies are kept\n"


def test_threads_that_begin_a_cache_together_all_answer(here, monkeypatch):
    together = threading.Barrier(6, timeout=20)
    monkeypatch.setattr("os.fsync", lambda fd: threading.Event().wait(0.01))

    def answer(body):
        together.wait()
        return answer_to(body)

    with Loopback([answer]) as server:
        done = here(*words(server, "--cache", "replies", "--parallel", "6")).checked()
    assert len(server.asked) == 6
    assert "not cached" not in done.stderr


@pytest.mark.parametrize("broken", ["cache", "cache/replies"])
@pytest.mark.parametrize("parallel", ["1", "3"])
def test_a_cache_that_cannot_be_written_costs_a_warning(here, tmp_path, broken, parallel):
    (tmp_path / broken).parent.mkdir(exist_ok=True)
    (tmp_path / broken).write_text("a file where a folder should be")
    with Loopback([answer_to]) as server:
        done = here(*words(server, "--cache", "replies", "--parallel", parallel)).checked()
    assert len(server.asked) == 6
    assert [row["error"] for row in records(done)] == [None] * 6
    assert done.stderr.count("replies are not cached") == 1
    assert "choose a folder you may write to with HARNESS_CACHE" in done.stderr
