"""The Slurm file with servers in docs/scaling.md, run by bash with stand-ins for what it starts."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

SERVER = """
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"data": [{"id": sys.argv[2]}]}).encode())
HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""


def free_ports(count):
    """The first of `count` ports in a row that nobody uses."""
    for first in range(20_000, 40_000, 50):
        try:
            for port in range(first, first + count):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return first
    raise OSError("no ports are free")


def script(folder):
    """The second file of the section, with its programs in `folder` and ports that are free."""
    section = (ROOT / "docs" / "scaling.md").read_text().partition("## Slurm")[2]
    blocks = re.findall(r"(?m)^    #!/bin/bash\n(?:    .*\n|\n(?=    ))+", section)
    text = re.sub("(?m)^    ", "", blocks[1])
    first = free_ports(4)
    for number in range(4):
        text = text.replace(str(8001 + number), str(first + number))
    text = text.replace("source ~/harness/.venv/bin/activate", "true").replace(
        "sleep 5", "sleep 0.1"
    )
    return text.replace("~/vllm/.venv/bin/vllm", str(folder / "vllm"))


def program(path, text):
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("serves", [True, False])
def test_the_slurm_file_waits_for_its_servers_and_ends_with_one_that_ends(serves, tmp_path):
    (tmp_path / "server.py").write_text(SERVER)
    ends = "" if serves else '[ "$CUDA_VISIBLE_DEVICES" = 2 ] && exit 1; '
    program(tmp_path / "vllm", f"{ends}exec {sys.executable} {tmp_path}/server.py $@")
    program(tmp_path / "harness", f'echo "$HARNESS_CONFIGS: $@" >> {tmp_path}/calls')
    env = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "SCRATCH": str(tmp_path),
        "SLURM_JOB_ID": "7",
        "HARNESS_CONFIGS": "",
    }
    done = subprocess.run(["bash", "-c", script(tmp_path)], cwd=tmp_path, env=env, timeout=60)
    if not serves:
        assert done.returncode == 1
        assert not (tmp_path / "calls").exists()
        return
    suite, own = (tmp_path / "calls").read_text().splitlines()
    assert suite.startswith(": run --suite ruler --model endpoint")
    assert own.startswith("mine: run --method lead")
    (urls,) = re.findall(r"model\.base_url=(\S+)", suite)
    assert len(set(urls.split(","))) == 4
    assert all(re.fullmatch(r"http://127\.0\.0\.1:\d+/v1", url) for url in urls.split(","))
    assert {path.name for path in Path(tmp_path).glob("vllm-7-?.log")} == {
        f"vllm-7-{gpu}.log" for gpu in range(4)
    }
