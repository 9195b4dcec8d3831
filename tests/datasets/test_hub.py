"""Data sets from a hub: pinned at the first load, the same ever after, and clear when it cannot be reached."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from harness.datasets import load
from harness.errors import CannotRun, DataError
from harness.storage.hub import DATASETS
from tests.datasets.fake_hub import FakeHub, served
from tests.datasets.support import columns, config, hotpot, longbench, musique, parquet, qasper, story_row, tables

pytest.importorskip("huggingface_hub")
ONE, TWO, THREE = "1" * 40, "2" * 40, "3" * 40


def _lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _files(*numbers: int) -> dict[str, bytes]:
    return {
        "README.md": b"# about",
        "loader.py": b"raise SystemExit('never run')",
        "mu_dev.jsonl": _lines([musique(n) for n in numbers]),
        "mu_train.jsonl": _lines([musique(99)]),
    }


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A hub with one repository at commit ONE, and empty caches."""
    with served(tmp_path, monkeypatch) as server:
        server.add("me/mu", ONE, _files(1, 2))
        yield server


def test_first_load_pins_the_commit_and_later_loads_keep_it(hub: FakeHub) -> None:
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
    # Another split of the pinned commit is fetched from that commit, not from where the branch is now.
    train = load(config(hub="me/mu", split="train"))
    assert (train.revision, len(train)) == (ONE, 1)
    assert all(f"/resolve/{ONE}/" in path for path in hub.asked)


def test_a_revision_in_the_config_wins_over_the_lock_and_leaves_it_alone(hub: FakeHub) -> None:
    load(config(hub="me/mu"))
    before = DATASETS.lock_path.read_text(encoding="utf-8")
    hub.add("me/mu", TWO, _files(1, 2, 3))
    assert load(config(hub="me/mu", revision=ONE)).revision == ONE
    assert load(config(hub="me/mu", revision=TWO)).revision == TWO
    assert load(config(hub="me/mu", revision="main")).revision == TWO
    assert DATASETS.lock_path.read_text(encoding="utf-8") == before


def test_lock_file_keeps_other_entries_and_is_written_whole(hub: FakeHub) -> None:
    hub.add("me/other", THREE, {"rows.jsonl": _lines([musique(5)])})
    load(config(hub="me/mu"))
    load(config(hub="me/other"))
    assert set(json.loads(DATASETS.lock_path.read_text(encoding="utf-8"))) == {"me/mu", "me/other"}
    assert [path.name for path in DATASETS.lock_path.parent.iterdir()] == ["data-lock.json"]


def test_hotpot_parquet_of_a_subset(hub: FakeHub) -> None:
    def table(*numbers: int) -> bytes:
        return parquet([columns(hotpot(n)) for n in numbers])

    files = {
        "distractor/validation-00000-of-00002.parquet": table(1),
        "distractor/validation-00001-of-00002.parquet": table(2, 3),
        "fullwiki/validation-00000-of-00001.parquet": table(4),
    }
    hub.add("hp/hp", THREE, files)
    data = load(config("hotpotqa", hub="hp/hp", subset="distractor"), limit=2)
    assert [e.question.id for e in data.examples] == ["h1", "h2"]
    assert data.source.startswith("hp/hp (distractor/validation-00000-of-00002.parquet, distractor/validation-00001")


def _zip(files: dict[str, bytes | str]) -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def test_an_archive_holds_several_data_sets(hub: FakeHub) -> None:
    inside = {"data/musique.jsonl": _lines([longbench(1)]), "data/musique_e.jsonl": b"{", "data/qasper.jsonl": b"{"}
    hub.add("lb/lb", THREE, {"README.md": b"", "LongBench.py": b"", "data.zip": _zip({**inside})})
    data = load(config("longbench", hub="lb/lb", subset="musique", split="test"))
    assert ([e.question.id for e in data.examples], data.revision) == (["lb1"], THREE)
    assert data.source == "lb/lb (data.zip)"
    with pytest.raises(DataError, match="data.zip: the archive has no file that matches"):
        load(config("longbench", hub="lb/lb", split="test", options={"files": "*/triviaqa.jsonl"}))


def test_another_branch_is_pinned_as_the_default_one_is(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    branch = "refs/convert/parquet"
    hub.add("me/qa", ONE, {"qasper.py": b"raise SystemExit"})
    hub.add("me/qa", TWO, {"qasper/test/0000.json": _lines([qasper(1)]), "qasper/train/0000.json": b"{"}, branch)
    wanted = config("qasper", hub=f"me/qa@{branch}", subset="qasper", split="test")
    data = load(wanted)
    assert (data.revision, len(data)) == (TWO, 2)
    assert json.loads(DATASETS.lock_path.read_text(encoding="utf-8"))[f"me/qa@{branch}"]["revision"] == TWO
    hub.add("me/qa", THREE, {"qasper/test/0000.json": _lines([qasper(2)])}, branch)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert load(wanted).fingerprint == data.fingerprint
    monkeypatch.delenv("HF_HUB_OFFLINE")
    assert load(wanted.model_copy(update={"revision": THREE})).revision == THREE
    DATASETS.lock_path.write_text(json.dumps({f"me/qa@{branch}": {"revision": 3}}))
    with pytest.raises(CannotRun, match=r"no usable entry for 'me/qa@refs/convert/parquet'"):
        load(wanted)


def test_stories_come_from_the_two_archives(hub: FakeHub) -> None:
    rows = [story_row(n) for n in range(4)]
    texts: dict[str, bytes | str] = {f"{r['document']['id']}.content": r["document"]["text"] for r in rows[::2]}
    files = {
        "data/narrativeqa-master.zip": _zip({f"narrativeqa-master/{k}": v for k, v in tables(rows).items()}),
        "data/narrativeqa_full_text.zip": _zip(texts),
        "data/test-00000-of-00001.parquet": b"not needed",
    }
    hub.add("dm/nqa", THREE, files)
    data = load(config("narrativeqa", hub="dm/nqa", split="test"), 3)
    assert ([len(d.text) for d in data.documents.values()], len(data)) == ([23, 23], 3)
    assert data.revision == THREE
    assert not any("parquet" in path for path in hub.asked)
    assert load(config("narrativeqa", hub="dm/nqa", split="test")).fingerprint == data.fingerprint


def test_rows_beyond_the_limit_are_not_fetched(hub: FakeHub) -> None:
    parts = {f"test-0000{n}-of-00002.jsonl": _lines([story_row(2 * n), story_row(2 * n + 1)]) for n in range(2)}
    hub.add("dm/rows", THREE, parts)
    part = load(config("narrativeqa", hub="dm/rows", split="test"), 2)
    assert not any("test-00001" in path for path in hub.asked)
    whole = load(config("narrativeqa", hub="dm/rows", split="test"))
    assert (len(part), len(whole)) == (2, 4)
    assert part.fingerprint == whole.fingerprint


def test_offline_uses_what_the_lock_and_the_cache_know(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load(config(hub="me/mu"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    hub.asked.clear()
    assert load(config(hub="me/mu")).fingerprint == first.fingerprint
    assert load(config(hub="me/mu", revision=ONE)).fingerprint == first.fingerprint
    with pytest.raises(CannotRun, match=r"HF_HUB_OFFLINE is set and the file is not in the cache.*--data FILE"):
        load(config(hub="me/mu", split="train"))
    with pytest.raises(CannotRun, match=r"'me/new' could not be fetched.*HF_HUB_OFFLINE is set.*--data FILE"):
        load(config(hub="me/new"))
    assert hub.asked == []


def test_unreachable_hub_is_one_sentence(hub: FakeHub) -> None:
    hub.close()
    with pytest.raises(CannotRun) as caught:
        load(config(hub="me/mu"))
    message = str(caught.value)
    assert message.startswith(f"the data set 'me/mu' could not be fetched from {hub.endpoint} (")
    assert message.endswith("check the connection, or give the rows with `--data FILE`")
    assert "\n" not in message
    assert not DATASETS.lock_path.exists()


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"hub": "me/nothing"}, "there is no data set 'me/nothing' on"),
    ({"hub": "me/mu", "revision": "v9"}, "has no revision 'v9'"),
    ({"hub": "not a name"}, "'not a name' is not the id of a data set on the hub"),
    ({"hub": "me/mu", "split": "test"}, "has no file for split 'test' among mu_dev.jsonl, mu_train.jsonl"),
    ({"hub": "me/two"}, "several files for split 'validation' (a_dev.jsonl, b_dev.jsonl)"),
    ({"hub": "me/gated"}, "asks for consent first"),
    ({"hub": "me/unpinned"}, "names no commit for the data set 'me/unpinned'"),
    ({"hub": "me/scripts"}, "has no data file"),
]


@pytest.mark.parametrize(("fields", "message"), REFUSED)
def test_what_the_hub_does_not_have(hub: FakeHub, fields: dict[str, Any], message: str) -> None:
    hub.add("me/two", TWO, {"a_dev.jsonl": b"", "b_dev.jsonl": b""})
    hub.add("me/scripts", TWO, {"loader.py": b""})
    hub.add("me/gated", TWO, {})
    hub.repos["me/gated"]["gated"] = True
    hub.add("me/unpinned", "main", {})
    with pytest.raises(CannotRun) as caught:
        load(config(**fields))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_page_that_is_no_hub_is_not_believed(hub: FakeHub) -> None:
    hub.garbage = True
    with pytest.raises(CannotRun, match="could not be fetched from"):
        load(config(hub="me/mu"))


def test_several_files_can_be_named(hub: FakeHub) -> None:
    hub.add("me/two", TWO, {"a_dev.jsonl": _lines([musique(1)]), "b_dev.jsonl": _lines([musique(2)])})
    data = load(config(hub="me/two", options={"files": ["b_*", "a_*"]}))
    assert [e.question.id for e in data.examples] == ["2hop__1", "2hop__2"]


@pytest.mark.parametrize("content", ["{", "[1]", '{"me/mu": 3}', '{"me/mu": {"revision": "main", "files": []}}'])
def test_a_lock_file_that_is_none_is_named_not_overwritten(hub: FakeHub, content: str) -> None:
    DATASETS.lock_path.parent.mkdir()
    DATASETS.lock_path.write_text(content)
    with pytest.raises(CannotRun, match=r"the lock file .*data-lock\.json"):
        load(config(hub="me/mu"))
    assert DATASETS.lock_path.read_text() == content


def test_a_lock_file_that_cannot_be_written(hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "file"))
    with pytest.raises(CannotRun, match=r"the lock file .* cannot be (read|written).*"):
        load(config(hub="me/mu"))


def test_bad_rows_of_the_hub_name_file_and_line(hub: FakeHub) -> None:
    hub.add("me/bad", TWO, {"dev.jsonl": _lines([musique(1), musique(2, answer="")])})
    with pytest.raises(DataError, match=r"^dev\.jsonl, line 2, field 'answer'"):
        load(config(hub="me/bad"))


def test_offline_in_a_fresh_process(tmp_path: Path) -> None:
    """With nothing set up but HF_HUB_OFFLINE, the shipped config fails with one sentence and touches no network."""
    code = (
        "from harness.config.schema import DatasetConfig\n"
        "from harness.datasets import load\n"
        "from harness.errors import CannotRun\n"
        "config = DatasetConfig(name='m', format='musique', hub='me/mu', instruction='i', max_answer_tokens=1,"
        " scorers=('s',))\n"
        "try:\n    load(config)\nexcept CannotRun as error:\n    print(error)\n"
        "import sys\nassert not {'torch', 'datasets', 'transformers'} & set(sys.modules), 'heavy import'\n"
    )
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "HARNESS_HOME": str(tmp_path / "home")}
    env["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), env.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "HF_HUB_OFFLINE is set" in done.stdout
    assert "--data FILE" in done.stdout
