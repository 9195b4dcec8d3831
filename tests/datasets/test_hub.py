"""Data sets from a hub: pinned at the first load, the same ever after, and clear when it cannot be
reached."""

import json
import re

import pytest

from harness.config.layers import Choices
from harness.datasets import load
from harness.engine.plan import plan_choices
from harness.errors import CannotRun, UserError
from harness.storage.hub_download import DATASETS
from tests.datasets.fake_hub import served
from tests.datasets.releases import lines
from tests.datasets.support import check_refused, config, musique, qasper, story_row, write_lines

pytest.importorskip("huggingface_hub")
ONE, TWO, THREE = "1" * 40, "2" * 40, "3" * 40


def _files(*numbers):
    return {
        "README.md": b"# about",
        "loader.py": b"raise SystemExit('never run')",
        "mu_dev.jsonl": lines([musique(n) for n in numbers]),
        "mu_train.jsonl": lines([musique(99)]),
    }


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with one repository at commit ONE, and empty caches."""
    with served(tmp_path, monkeypatch) as server:
        server.add("me/mu", ONE, _files(1, 2))
        yield server


def test_first_load_pins_the_commit_and_later_loads_keep_it(hub):
    first = load(config(hub="me/mu"))
    assert (first.revision, len(first)) == (ONE, 2)
    assert first.source == "me/mu (mu_dev.jsonl)"
    locked = json.loads(DATASETS.lock_path.read_text(encoding="utf-8"))["me/mu"]
    assert locked["revision"] == ONE
    assert locked["endpoint"] == hub.endpoint
    assert "mu_dev.jsonl" in locked["files"]

    hub.add("me/mu", TWO, _files(1, 2, 3))
    hub.asked.clear()
    again = load(config(hub="me/mu"))
    assert (again.revision, again.fingerprint) == (ONE, first.fingerprint)
    assert hub.asked == []
    # Another split of the pinned commit is fetched from that commit, not from where the branch is
    # now.
    train = load(config(hub="me/mu", split="train"))
    assert (train.revision, len(train)) == (ONE, 1)
    assert all(f"/resolve/{ONE}/" in path for path in hub.asked)


def test_a_revision_in_the_config_wins_over_the_lock_and_leaves_it_alone(hub):
    load(config(hub="me/mu"))
    before = DATASETS.lock_path.read_text(encoding="utf-8")
    hub.add("me/mu", TWO, _files(1, 2, 3))
    assert load(config(hub="me/mu", revision=ONE)).revision == ONE
    assert load(config(hub="me/mu", revision=TWO)).revision == TWO
    assert load(config(hub="me/mu", revision="main")).revision == TWO
    assert DATASETS.lock_path.read_text(encoding="utf-8") == before


def test_lock_file_keeps_other_entries_and_is_written_whole(hub):
    hub.add("me/other", THREE, {"rows.jsonl": lines([musique(5)])})
    load(config(hub="me/mu"))
    load(config(hub="me/other"))
    assert set(json.loads(DATASETS.lock_path.read_text(encoding="utf-8"))) == {"me/mu", "me/other"}
    assert [path.name for path in DATASETS.lock_path.parent.iterdir()] == ["data-lock.json"]


def test_another_branch_is_pinned_as_the_default_one_is(hub, monkeypatch):
    branch = "refs/convert/parquet"
    hub.add("me/qa", ONE, {"qasper.py": b"raise SystemExit"})
    hub.add(
        "me/qa",
        TWO,
        {"qasper/test/0000.json": lines([qasper(1)]), "qasper/train/0000.json": b"{"},
        branch,
    )
    wanted = config("qasper", hub=f"me/qa@{branch}", subset="qasper", split="test")
    data = load(wanted)
    assert (data.revision, len(data)) == (TWO, 2)
    assert (
        json.loads(DATASETS.lock_path.read_text(encoding="utf-8"))[f"me/qa@{branch}"]["revision"]
        == TWO
    )
    hub.add("me/qa", THREE, {"qasper/test/0000.json": lines([qasper(2)])}, branch)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert load(wanted).fingerprint == data.fingerprint
    monkeypatch.delenv("HF_HUB_OFFLINE")
    assert load(wanted.model_copy(update={"revision": THREE})).revision == THREE
    DATASETS.lock_path.write_text(json.dumps({f"me/qa@{branch}": {"revision": 3}}))
    with pytest.raises(CannotRun, match=r"no usable entry for 'me/qa@refs/convert/parquet'"):
        load(wanted)


def test_rows_beyond_the_limit_are_not_fetched(hub):
    parts = {
        f"test-0000{n}-of-00002.jsonl": lines([story_row(2 * n), story_row(2 * n + 1)])
        for n in range(2)
    }
    hub.add("dm/rows", THREE, parts)
    part = load(config("narrativeqa", hub="dm/rows", split="test"), 2)
    assert not any("test-00001" in path for path in hub.asked)
    whole = load(config("narrativeqa", hub="dm/rows", split="test"))
    assert (len(part), len(whole)) == (2, 4)
    assert part.fingerprint == whole.fingerprint


def test_offline_uses_what_the_lock_and_the_cache_know(hub, monkeypatch):
    first = load(config(hub="me/mu"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    hub.asked.clear()
    assert load(config(hub="me/mu")).fingerprint == first.fingerprint
    assert load(config(hub="me/mu", revision=ONE)).fingerprint == first.fingerprint
    with pytest.raises(
        CannotRun, match=r"HF_HUB_OFFLINE is set and the file is not in the cache.*--data FILE"
    ):
        load(config(hub="me/mu", split="train"))
    with pytest.raises(
        CannotRun, match=r"'me/new' could not be fetched.*HF_HUB_OFFLINE is set.*--data FILE"
    ):
        load(config(hub="me/new"))
    assert hub.asked == []


def test_unreachable_hub_is_one_sentence(hub):
    hub.close()
    with pytest.raises(CannotRun) as caught:
        load(config(hub="me/mu"))
    said = rf"the data set 'me/mu' could not be fetched from {hub.endpoint} \(.*\): "
    assert re.fullmatch(
        said + "check the connection, or give the rows with `--data FILE`", str(caught.value)
    )
    assert not DATASETS.lock_path.exists()


@pytest.fixture
def no_hub(hub, monkeypatch):
    """A hub that was closed, and nothing that this process loaded before."""
    hub.close()
    monkeypatch.setattr("harness.datasets.load_once._loaded_by_key", {})


def plan(dataset, data=None):
    return plan_choices(
        Choices(method="bm25", dataset=dataset, data=data, profile="pocket", limit=2)
    )


TWINS = [("musique", "pocket/musique"), ("nq", "pocket/retrieved"), ("ELI5", "pocket/retrieved")]


@pytest.mark.parametrize(("name", "twin"), TWINS)
def test_made_up_questions_are_offered_where_the_hub_cannot_be_reached(no_hub, name, twin):
    with pytest.raises(UserError, match=rf"made-up questions of its kind: --dataset {twin}$"):
        plan(name)


def test_none_are_offered_where_rows_are_given_or_there_are_none(no_hub, tmp_path):
    rows = write_lines(tmp_path / "r.jsonl", [{"question": "Who?", "answer": ["Ada"]}])
    with pytest.raises(UserError, match="without retrieved documents"):
        plan("nq", data=str(rows))
    with pytest.raises(UserError, match="could not be fetched") as refused:
        plan("longbench/triviaqa")
    assert "made-up" not in str(refused.value)


REFUSED = [
    ({"hub": "me/nothing"}, "there is no data set 'me/nothing' on"),
    ({"hub": "me/mu", "revision": "v9"}, "has no revision 'v9'"),
    ({"hub": "not a name"}, "'not a name' is not the id of a data set on the hub"),
    (
        {"hub": "me/mu", "split": "test"},
        "has no file for split 'test' among mu_dev.jsonl, mu_train.jsonl",
    ),
    ({"hub": "me/gated"}, "asks for consent first"),
    ({"hub": "me/unpinned"}, "names no commit for the data set 'me/unpinned'"),
    ({"hub": "me/scripts"}, "has no data file"),
]


@pytest.mark.parametrize(("fields", "message"), REFUSED)
def test_what_the_hub_does_not_have(hub, fields, message):
    hub.add("me/scripts", TWO, {"loader.py": b""})
    hub.add("me/gated", TWO, {})
    hub.repos["me/gated"]["gated"] = True
    hub.add("me/unpinned", "main", {})
    check_refused(config(**fields), message, CannotRun)


def test_a_page_that_is_no_hub_is_not_believed(hub):
    hub.garbage = True
    with pytest.raises(CannotRun, match="could not be fetched from"):
        load(config(hub="me/mu"))


@pytest.mark.parametrize(
    "content", ["{", "[1]", '{"me/mu": 3}', '{"me/mu": {"revision": "main", "files": []}}']
)
def test_a_lock_file_that_is_none_is_named_not_overwritten(hub, content):
    DATASETS.lock_path.parent.mkdir()
    DATASETS.lock_path.write_text(content)
    with pytest.raises(CannotRun, match=r"the lock file .*data-lock\.json"):
        load(config(hub="me/mu"))
    assert DATASETS.lock_path.read_text() == content


def test_a_lock_file_that_cannot_be_written(hub, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "file"))
    with pytest.raises(CannotRun, match=r"the lock file .* cannot be (read|written).*"):
        load(config(hub="me/mu"))
