"""A real server on this machine: `transformers serve` with the embedded pocket model, asked as any endpoint is.

It needs what transformers[serving] brings (openai, fastapi, uvicorn); half a minute, most of it until it answers.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.llm.load import load_model

POCKET = Path(__file__).resolve().parents[2] / "pocket" / "model"
PATIENCE = 240.0


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    from transformers.utils.import_utils import is_serve_available

    if not is_serve_available():
        pytest.skip("transformers cannot serve here; what it needs: pip install 'longdoc-harness[serving]'")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    folder = tmp_path_factory.mktemp("serve")
    told = ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--dtype", "float32"]
    code = "import sys; from transformers.cli.transformers import main; sys.argv[0] = 'transformers'; sys.exit(main())"
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-c", code, "serve", str(POCKET), *told],
            cwd=folder,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hub")},
            stdout=log,
            stderr=log,
        )
        try:
            _wait(f"http://127.0.0.1:{port}/health", server, folder / "log")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()


def _wait(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + PATIENCE
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < end:
        if server.poll() is not None:
            pytest.fail(f"transformers serve ended with {server.returncode}: {log.read_text()[-800:]}")
        try:
            opener.open(address, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    pytest.fail(f"transformers serve did not answer within {PATIENCE:.0f} seconds")


def test_the_served_model_says_what_it_says_when_it_is_loaded_here(url: str) -> None:
    here = load_model(ModelConfig(name="here", source=str(POCKET)))
    there = load_model(
        ModelConfig(name="there", backend="endpoint", base_url=url, source=str(POCKET), tokenizer=str(POCKET))
    )
    told = []
    for model in (here, there):
        meter = Meter()
        s = model.session(meter)
        s.user("Mira Tal founded the school in 1902. Question: Who founded the school? Answer:")
        first = s.write(12)
        s.user("When was it founded?")
        second = s.write(12, stop=["."])
        told.append((first.text, second.text, meter.usage()["answer"]))
    (a, b, loaded), (c, d, served) = told
    assert (a, b) == (c, d)
    assert a
    # The server reads the whole conversation twice; the session that is loaded here goes on from its cache.
    assert loaded["tokens_in"] < served["tokens_in"] < 2 * loaded["tokens_in"]
    assert (loaded["requests"], served["requests"]) == (2, 2)
    assert (loaded["uncounted"], served["uncounted"] > 0) == (0, True)
