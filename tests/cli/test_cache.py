"""`harness run --cache replies` and `harness cache`: the second run sends no request to a server."""

import json
from pathlib import Path

import pytest

from harness.config.layers import Choices
from harness.engine.plan import plan_choices
from harness.errors import HarnessError
from tests.llm.endpoints import content, last, records, words
from tests.llm.loopback import Loopback, completion


def told(body):
    return completion(f"answer {sum(map(ord, content(body))) % 97}")


def same(row):
    usage = {k: {n: v for n, v in u.items() if n not in ("seconds", "recalled")} for k, u in row["usage"].items()}
    return {**row, "usage": usage, "notes": {}}


def test_a_second_run_sends_no_request_and_its_records_are_equal(here):
    with Loopback([told]) as server:
        first = here(*words(server, "--cache", "replies", "--out", "a"))
        sent = len(server.asked)
        second = here(*words(server, "--cache", "replies", "--out", "b", "--parallel", "3"))
        assert (sent, len(server.asked)) == (6, 6)
        here(*words(server, "--cache", "replies", "--out", "c", "--set", "model.revision=2"))
        assert len(server.asked) == 12
        here(*words(server, "--out", "d"))
        assert len(server.asked) == 18
    assert [same(r) for r in records(second)] == [same(r) for r in records(first)]
    assert [r["usage"]["answer"]["recalled"] for r in records(second)] == [1] * 6
    assert "as a server shows no weights" in first.stderr
    assert "6 replies came from earlier runs" in here("report", str(Path(last(second)["run"]))).stdout

    rows = [json.loads(line) for line in here("cache", "--json").stdout.splitlines()]
    assert [row["replies"] for row in rows] == [6, 6]
    assert here("cache", "--clear", "--model", "nobody").returncode == 2
    assert here("cache", "--clear").stdout.splitlines()[-1] == "deleted"
    assert here("cache").stdout == "no replies are kept\n"


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        ({"dataset.keep_texts": "false"}, "dataset.keep_texts forbids"),
        ({"model": "scripted", "model.script": "s.yaml"}, "keeps no replies of a table"),
        ({"cache": "indexes"}, "cache='indexes'"),
    ],
)
def test_what_cannot_be_kept_is_refused(sets, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text("replies: [{reply: Paris}]\n")
    with pytest.raises(HarnessError, match=said):
        plan_choices(Choices("closed-book", "pocket/musique", sets={"cache": "replies", **sets}))
