"""The made-up application of docs/comparison.md: what it gets right, by hand and by the command."""

import json

import pytest

from bench import own_application
from tests.llm.loopback import Loopback


def test_25_of_30_are_right_by_hand_and_by_the_command(here, tmp_path, monkeypatch):
    monkeypatch.setattr(own_application, "_SECONDS", (0.0, 0.001))
    own_application.make(tmp_path)
    assert len(list((tmp_path / "wiki").iterdir())) == 60
    application = own_application.Application(tmp_path / "log.jsonl")

    def reply(body):
        return application.answer(body["question"]) or "500"

    with Loopback([reply]) as server:
        here(
            "run", "--app", f"wiki={server.url}", "--documents", "wiki", "--questions",
            "questions.jsonl", "--mlflow", "off", "--set", "app.retries=0",
        ).checked(3)  # fmt: skip
    (row,) = json.loads(here("report", "results", "--format", "json", "--all").checked().stdout)
    assert (row["right"], row["evidence_pages"]) == pytest.approx((25 / 30, 25 / 30))
    assert (row["n"], row["failed"], row["tokens"]) == (30, 1, 406)
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 30
