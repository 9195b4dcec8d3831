"""`harness doctor --server URL`: each capability is told by what the server did, and each method by
what it needs."""

import json

import pytest

from harness.cli.main import main
from tests.llm.loopback import Loopback, completion

LIST = "lion, tiger, bear, wolf, fox, hare"
POOR = {
    "usage counts",
    "prefix cache",
    "seed",
    "stop strings",
    "log-probabilities",
    "raw completion",
}


class Able(Loopback):
    """Does what is asked of it; a field named in `lacks` it leaves out, and what is in `refuses`
    ends with status 400."""

    def __init__(self, lacks=(), refuses=()):
        super().__init__([self.reply], served=["m1", "m2"])
        self.lacks, self.refuses = lacks, refuses

    def posted(self, path, sent):
        if path.endswith("/completions") and not path.endswith("/chat/completions"):
            raw = {"choices": [{"text": "three"}]}
            return "404" if "raw" in self.lacks else lambda _: raw
        return None

    def reply(self, body):
        if refused := next((name for name in self.refuses if name in body), None):
            return f"says 400 Unsupported parameter: {refused}"
        has = {
            name: body[name]
            for name in ("stop", "seed", "logprobs")
            if name in body and name not in self.lacks
        }
        text = f"{LIST} {has.get('seed', len(self.asked) if 'seed' in body else '')}".strip()
        reply = completion(text.partition(has["stop"][0])[0] if "stop" in has else text)
        if "logprobs" in has:
            rows = [{"token": letter, "logprob": -1.0 - n} for n, letter in enumerate("abcde")]
            reply["choices"][0]["logprobs"] = {"content": [{"top_logprobs": rows}]}
        size = len(body["messages"][0]["content"]) // 4
        reply["usage"] |= {
            "prompt_tokens": size,
            "prompt_tokens_details": {"cached_tokens": size // 2},
        }
        if "usage" in self.lacks:
            del reply["usage"]
        return reply


def checked(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main(["doctor", "--json", *arguments])
    captured = capsys.readouterr()
    lines = json.loads(captured.out or "[]")
    return int(end.value.code or 0), {line["name"]: line for line in lines}, captured.err


@pytest.mark.parametrize(
    ("lacks", "refuses", "missing"),
    [
        ((), (), set()),
        (("stop",), (), {"stop strings"}),
        (("seed",), (), {"seed"}),
        (("raw",), (), {"raw completion"}),
        (("usage",), (), {"usage counts", "prefix cache"}),
        (("logprobs",), (), {"log-probabilities"}),
        ((), ("logprobs", "seed"), {"log-probabilities", "seed"}),
        (("stop", "seed", "raw", "usage", "logprobs"), (), POOR),
    ],
)
def test_what_a_server_lacks_is_told_by_its_replies(lacks, refuses, missing, capsys):
    with Able(lacks, refuses) as server:
        code, lines, _ = checked(capsys, "--server", server.url)
        assert {body["model"] for body in server.asked} == {"m1"}
    assert code == 0
    found = {
        name
        for name, line in lines.items()
        if line["part"] == "Server" and line["state"] == "missing"
    }
    assert found == missing
    text = lines["log-probabilities"]["text"]
    assert "takes no 'logprobs'" in text if refuses else text in ("of 5 tokens", "it gives none")
    methods = {
        name: line["text"].split(", ")
        for name, line in lines.items()
        if line["part"].startswith("Methods")
    }
    assert {"bm25", "raptor", "full-context"} <= set(methods["by a chat alone"])
    assert "pecan" in methods["loaded models only (attention, probe)"]
    with_probe = "with model.logprobs=5 model.tokenizer=FOLDER"
    if "log-probabilities" in missing:
        with_probe = "only with log-probabilities"
    assert "longrefiner-no-adapters" in methods[with_probe]


def test_a_server_that_gives_no_reply(capsys):
    """One that is gone is one sentence; one that refuses a chat is a problem; flags that do not
    fit."""
    with Loopback(["403"], served=["m"]) as server:
        gone = server.url
        code, lines, _ = checked(capsys, "--server", server.url, "--model", "other")
        assert (code, lines["chat"]["state"], server.asked[0]["model"]) == (4, "problem", "other")
        assert "status 403" in lines["chat"]["text"]
    code, lines, message = checked(capsys, "--server", gone)
    assert (code, lines, message.count("\n")) == (2, {}, 1)
    assert message.startswith(f"error: no server answers at {gone}")
    for flags, words in ((["--model", "m"], "--server URL"),):
        code, _, message = checked(capsys, *flags)
        assert code == 2
        assert words in message
