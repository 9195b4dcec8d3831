"""Run folders in an object store: another machine goes on, one writer at a time, and nothing is lost with the store."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.errors import RunLocked, SaveError, UserError
from harness.storage import remote_runs
from harness.storage.named_runs import read_runs, run_folders
from harness.storage.object_store import ObjectStore
from harness.storage.remote_runs import Remote, working_copy
from harness.storage.run_folder import read_run
from tests.engine.fakes import Words, comparable, go, make_plan

pytestmark = pytest.mark.usefixtures("fake_model")


class Machine:
    """A machine by its home folder and host name."""

    def __init__(self, root, url, patch):
        self.root, self.url, self.patch = root, url, patch

    def on(self):
        """Be this machine; the working copy of the results."""
        self.patch.setenv("HARNESS_HOME", str(self.root))
        self.patch.setattr(remote_runs.socket, "gethostname", lambda: self.root.name)
        return working_copy(self.url)


@pytest.fixture
def machines(tmp_path, url, monkeypatch):
    return Machine(tmp_path / "one", url, monkeypatch), Machine(tmp_path / "two", url, monkeypatch)


def test_another_machine_goes_on(tmp_path, machines):
    one, two = machines
    plain = go(make_plan(), tmp_path / "plain")
    asked = []
    go(make_plan(limit=2), one.on())
    out = two.on()
    (begun,) = run_folders([two.url])
    assert len(read_run(begun).records) == 2
    method = Words(Words.Config(), pause=lambda: asked.append("asked"))
    go(make_plan(method=method), out)
    one.on()
    (stored,) = read_runs(run_folders([one.url]))
    wanted = [comparable(row) for row in read_run(plain.folder).records]
    assert [comparable(row) for row in stored.records] == wanted
    assert len(asked) == len(wanted) - 2, "no question is paid for twice"


def _layout(store, place):
    return json.loads(store.read(f"{place}/layout.json") or b"{}")


def _begun(out, lines=1):
    folder = out / "set" / "run"
    folder.mkdir(parents=True)
    (folder / "run.yaml").write_text("config: {}\n")
    (folder / "records.jsonl").write_text('{"question_id": "q"}\n' * lines)
    return folder


def test_what_is_appended_is_sent_as_a_part_and_joined_at_the_end(machines):
    one, two = machines
    folder = _begun(one.on())
    remote = Remote.claim(folder)
    assert remote is not None
    store, place = ObjectStore(one.url), "set/run"
    for n in range(3):
        with open(folder / "records.jsonl", "a") as file:
            file.write(f'{{"question_id": "q{n}"}}\n')
        remote._send()
    assert len(_layout(store, place)["files"]["records.jsonl"]) == 3
    copy = two.on() / place / "records.jsonl"
    assert copy.read_bytes() == (folder / "records.jsonl").read_bytes()
    one.on()
    remote.close()
    files = _layout(store, place)["files"]
    assert {name: len(parts) for name, parts in files.items()} == {"records.jsonl": 1, "run.yaml": 1}
    assert len(store.names(f"{place}/parts")) == 2
    two.on()
    assert copy.read_bytes() == (folder / "records.jsonl").read_bytes()


def test_one_writer_at_a_time_and_a_dead_one_is_replaced(machines, monkeypatch):
    one, two = machines
    folder = _begun(one.on())
    first = Remote.claim(folder)
    first._send()
    copy = two.on() / "set" / "run"
    with pytest.raises(RunLocked, match="process .* on one writes s3://"):
        Remote.claim(copy)
    monkeypatch.setattr(remote_runs, "STALE", 0.0)
    second = Remote.claim(copy)
    first._send()  # one was only slow: it sees that it was replaced, and changes nothing
    with pytest.raises(SaveError, match="another machine took over"):
        first.check()
    with pytest.raises(SaveError):
        first.close()
    second.close()
    Remote.claim(copy).close()


def test_of_two_that_begin_at_once_one_writes(machines, monkeypatch):
    one, two = machines
    folders = [_begun(one.on()), _begun(two.on())]
    gate = threading.Barrier(2)
    create = ObjectStore.create

    def together(self, name, data):
        gate.wait()
        return create(self, name, data)

    monkeypatch.setattr(ObjectStore, "create", together)

    def begin(folder):
        try:
            return Remote.claim(folder)
        except RunLocked:
            return "refused"

    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(begin, folders))
    assert ends.count("refused") == 1
    next(end for end in ends if end != "refused").close()


def test_a_store_that_fails_loses_nothing(machines, monkeypatch):
    one, two = machines
    out = one.on()
    plan = make_plan()
    with monkeypatch.context() as patch:

        def refused(*args):
            raise remote_runs.StoreFailed("the object store cannot be used (the disk is full)")

        patch.setattr(ObjectStore, "write", refused)
        patch.setattr(remote_runs, "AWAY", 0.0)
        with pytest.raises(SaveError, match="the same command sends it"):
            go(plan, out)
    asked = []
    go(make_plan(method=Words(Words.Config(), pause=lambda: asked.append("asked"))), out)
    assert not asked
    two.on()
    (stored,) = read_runs(run_folders([two.url]))
    assert stored.summary["n_scored"] == len(stored.records)


def test_a_store_that_is_back_soon_is_waited_for(machines, monkeypatch):
    one, two = machines
    monkeypatch.setattr(remote_runs.time, "sleep", lambda seconds: None)
    write, failures = ObjectStore.write, [remote_runs.StoreFailed("away")] * 2

    def flaky(store, name, data):
        if failures:
            raise failures.pop()
        write(store, name, data)

    monkeypatch.setattr(ObjectStore, "write", flaky)
    go(make_plan(), one.on())
    assert not failures
    two.on()
    assert len(read_runs(run_folders([two.url]))) == 1


def test_a_run_that_never_began_leaves_nothing(machines):
    one, _ = machines

    def trouble():
        raise UserError("no such thing")

    with pytest.raises(UserError):
        go(make_plan(method=Words(Words.Config(), pause=trouble)), one.on(), fail_fast=True)
    names = ObjectStore(one.url).names()
    assert [name for name in names if "/writer/" not in name] == []
