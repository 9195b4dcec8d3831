"""Models behind a loopback server: a request, a loaded model, and whole runs of the command
line."""

import json
from pathlib import Path

from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.llm.backend import load_model
from harness.llm.endpoint_http import RetryPolicy
from tests.llm.loopback import Loopback, completion

POCKET = Path(__file__).resolve().parents[2] / "packages" / "pocket" / "pocket" / "model"
QUICK = RetryPolicy(timeout=0.4, retries=2, first_wait=0.01, max_wait=0.02)
KEY = "sk-Very.Secret-0123456789"
BODY = {"model": "m", "messages": [{"role": "user", "content": "caf\u00e9?"}]}


def config(url, **more):
    return ModelConfig(
        **{"name": "m", "backend": "endpoint", "base_url": url, "tokenizer": str(POCKET), **more}
    )


def loaded(loopback, **more):
    return load_model(config(loopback.url, retries=1, timeout=5.0, **more))


def asked(reply, text="?", most=9, stop=(), **more):
    """(The reply of a server to one question, what it cost, the model)."""
    with Loopback([reply if callable(reply) else lambda _: reply]) as server:
        meter, model = Meter(), loaded(server, **more)
        with model.session(meter) as s:
            s.user(text)
            written = s.write(most, stop=stop)
    return written, meter, model


def words(server, *more, method="keep-left", limit=6, timeout=5):
    url = server if isinstance(server, str) else server.url
    sets = [
        f"model.base_url={url}",
        "model.backend=endpoint",
        f"model.tokenizer={POCKET}",
        f"model.timeout={timeout}",
    ]
    head = [
        "run",
        "--method",
        method,
        "--dataset",
        "pocket/musique",
        "--profile",
        "pocket",
        "--limit",
        str(limit),
    ]
    tail = [] if "--mlflow" in more else ["--mlflow", "off"]
    return [
        *head,
        "--model",
        "some-chat",
        "--json",
        "--set",
        *sets,
        "model.retries=1",
        *more,
        *tail,
    ]


def last(done):
    return dict(json.loads(done.stdout.rstrip("\n").rsplit("\n", 1)[-1]))


def records(done, file="records.jsonl"):
    lines = (Path(last(done)["run"]) / file).read_text().splitlines()
    return [json.loads(line) for line in lines]


def content(body):
    return str(body["messages"][-1]["content"])


def answer_to(body):
    """A reply that depends on the request alone."""
    return completion(f"answer {sum(map(ord, content(body))) % 97}")
