"""Runs of the command line against a loopback server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.conftest import Ended
from tests.llm.loopback import Loopback

POCKET = Path(__file__).resolve().parents[2] / "pocket" / "model"


def words(
    server: Loopback | str, *more: str, method: str = "keep-left", limit: int = 6, timeout: float = 5
) -> list[str]:
    url = server if isinstance(server, str) else server.url
    sets = [f"model.base_url={url}", "model.backend=endpoint", f"model.tokenizer={POCKET}", f"model.timeout={timeout}"]
    head = ["run", "--method", method, "--dataset", "pocket/musique", "--profile", "pocket", "--limit", str(limit)]
    tail = [] if "--mlflow" in more else ["--mlflow", "off"]
    return [*head, "--model", "some-chat", "--json", "--set", *sets, "model.retries=1", *more, *tail]


def last(done: Ended) -> dict[str, Any]:
    return dict(json.loads(done.stdout.rstrip("\n").rsplit("\n", 1)[-1]))


def records(done: Ended) -> list[dict[str, Any]]:
    lines = (Path(last(done)["run"]) / "records.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def content(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"])
