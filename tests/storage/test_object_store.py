"""Indexes in an object store: a real S3 server on the loopback, builders that race, damage, and a store that fails."""

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError

from harness.cost.meter import Meter
from harness.errors import UserError
from harness.storage.home import check_home
from harness.storage.index_cache import Entry, IndexCache, cache_root
from harness.storage.object_store import ObjectStore, shared_store

KEY = {"method": "words:Words", "document": "d0", "models": {"reader": "m"}, "seed": 0}


class Machine:
    """One machine with a cache of its own in front of the store."""

    def __init__(self, root, url):
        self.notes = []
        self.store = ObjectStore(url)
        self.cache = IndexCache(root, self.notes.append, shared=self.store)

    def put(self, value, key=KEY):
        self.cache.put(key, Entry.of(value, [], Meter("index")))

    def get(self, key=KEY):
        entry = self.cache.get(key)
        return None if entry is None else entry.value()


def test_an_index_is_built_once_for_two_machines(tmp_path, url):
    one, two = Machine(tmp_path / "one", url), Machine(tmp_path / "two", url)
    assert two.get() is None
    one.put({"words": [1, 2]})
    assert two.get() == {"words": [1, 2]}
    asked = two.store.requests
    shutil.rmtree(tmp_path / "one")
    assert (one.get(), two.get()) == ({"words": [1, 2]}, {"words": [1, 2]})
    assert two.store.requests == asked, "the second look asks the local tier only"
    assert one.notes == two.notes == []


def test_a_conditional_put(url, monkeypatch):
    store = ObjectStore(url)
    assert store.create("key", b"mine")
    assert store.create("key", b"mine"), "a request that was sent twice finds its own object"
    assert not store.create("key", b"yours")

    # Servers other than AWS do not name the condition that failed.
    def refused(*args, **kwargs):
        refusal = {"Error": {"Code": "PreconditionFailed"}}
        raise OSError("no") from ClientError(refusal, "PutObject")

    monkeypatch.setattr(store._files, "pipe_file", refused)
    assert not store.create("key", b"yours")


def test_a_folder_as_a_store(tmp_path):
    store = ObjectStore(f"file://{tmp_path}/new")
    assert store.create("place/key", b"mine")
    assert not store.create("place/key", b"yours")
    assert store.read("place/key") == b"mine"


def test_the_first_builder_s_entry_stands(tmp_path, url):
    machines = [Machine(tmp_path / str(n), url) for n in range(8)]
    gate = threading.Barrier(len(machines))

    def build(n):
        gate.wait()
        machines[n].put({"builder": n})

    with ThreadPoolExecutor(len(machines)) as pool:
        list(pool.map(build, range(len(machines))))
    machines[0].put({"builder": "late"}, {**KEY, "seed": 1})
    machines[1].put({"builder": "later"}, {**KEY, "seed": 1})
    assert Machine(tmp_path / "reader", url).get({**KEY, "seed": 1}) == {"builder": "late"}
    seen = [Machine(tmp_path / f"reader{n}", url).get() for n in range(2)]
    assert seen[0] == seen[1]
    assert seen[0]["builder"] in range(8)
    assert all(not machine.notes for machine in machines)


def _objects(store):
    names = store._files.find(store._root)
    return {name.rsplit("/")[-1].rsplit(".")[-1]: name for name in names}


@pytest.mark.parametrize("how", ["flipped", "cut", "missing", "no key", "another key", "its writer died"])
def test_a_damaged_entry_is_built_again(tmp_path, url, how):
    one, two = Machine(tmp_path / "one", url), Machine(tmp_path / "two", url)
    one.put({"words": [1]})
    objects, files = _objects(one.store), one.store._files
    data = files.cat_file(objects["zip"])
    if how in ("missing", "its writer died"):  # the key file is written last
        files.rm_file(objects["zip" if how == "missing" else "json"])
    elif "key" in how:
        files.pipe_file(objects["json"], b"[]" if how == "no key" else b'{"sha256": "%s"}' % (b"0" * 64))
    else:
        files.pipe_file(objects["zip"], data[:-9] if how == "cut" else bytes([data[0] ^ 1]) + data[1:])
    assert two.get() is None
    assert ["is damaged" in note for note in two.notes] == [True] * (how != "its writer died")
    two.put({"words": [2]})
    assert Machine(tmp_path / "three", url).get() == {"words": [2]}


def test_a_store_that_fails_on_the_way_is_reported_once(tmp_path, url, monkeypatch):
    one = Machine(tmp_path / "one", url)

    def full(*args, **kwargs):
        raise OSError("XMinioStorageFull: the disk is full")

    monkeypatch.setattr(one.store._files, "pipe_file", full)
    one.put({"words": [1]})
    one.put({"words": [2]}, {**KEY, "seed": 1})
    assert len(one.notes) == 1
    assert "the disk is full" in one.notes[0]
    assert one.get() == {"words": [1]}, "this machine keeps what it built"


def test_what_is_wrong_with_a_store_is_said_before_a_run(s3, tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path))
    monkeypatch.setenv("HARNESS_CACHE", "s3://indexes/runs")
    check_home()
    assert shared_store() is not None
    assert cache_root() == tmp_path / "cache"
    for value, words in (
        ("s3://nobody/x", "there is no bucket 'nobody'"),
        ("odd://x/y", "cannot be used"),
        ("s3://", "names no bucket; write it as s3://BUCKET/FOLDER"),
        ("s3:///x", "names no bucket"),
        ("file://", "names no bucket"),
    ):
        monkeypatch.setenv("HARNESS_CACHE", value)
        with pytest.raises(UserError, match=words):
            check_home()
