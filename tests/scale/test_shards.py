"""Shards of a run, and their merge: the same records as one process writes, whatever happens in
between."""

import json
import os
from dataclasses import replace

import pytest

from harness.engine.progress import Silent
from harness.engine.runner import AskOptions
from harness.errors import RunLocked, UserError
from harness.scale.merge import merge
from harness.scale.shard import ShardNumber, parse_shard, partition, run_shard
from harness.storage.json_lines import json_line, read_lines
from harness.storage.run_files import DOCUMENTS, MANIFEST, RECORDS, folder_lock, part_folders
from harness.storage.run_folder import read_run
from reports.run_notes import run_notes
from tests.engine.fakes import World, comparable, go, make_plan

pytestmark = pytest.mark.usefixtures("fake_model")

WORLD = World(questions=12, documents=5)


def records(folder):
    return [comparable(row) for row in read_lines(folder / RECORDS, "question_id")]


def shard(out, number, of=3, **more):
    """Run a shard; returns the folder of the run, and whether it was merged."""
    plan = more.pop("plan", None) or make_plan(WORLD.dataset(), limit=more.pop("limit", None))
    ended = run_shard(
        plan,
        out,
        ShardNumber(number, of),
        command=["harness", "run"],
        progress=more.pop("progress", None) or Silent(),
        options=AskOptions(**more),
    )
    return out / plan.folder, ended.is_merged


def test_the_last_shard_merges_into_what_one_process_writes(tmp_path):
    plan = make_plan(replace(WORLD.dataset(), skipped={"unanswerable": 2}))
    alone = go(plan, tmp_path / "alone")
    for number in (2, 1):
        folder, merged = shard(tmp_path / "parts", number, plan=plan)
        assert not merged
        assert part_folders(folder)
    folder, merged = shard(tmp_path / "parts", 3, plan=plan)
    assert merged
    assert records(folder) == records(alone.folder)
    run = read_run(folder)
    for key in ("n_total", "n_failed", "n_asked", "n_left_out", "scores", "state"):
        assert getattr(run.summary, key) == getattr(alone.summary, key)
    assert {p.name for p in folder.iterdir()} == {p.name for p in alone.folder.iterdir()}
    assert [start.shard for start in run.manifest.starts] == ["1/3", "2/3", "3/3"]
    assert {line.document_id for line in run.index_lines} == {f"d{n}" for n in range(5)}
    assert (
        go(make_plan(WORLD.dataset()), tmp_path / "parts").summary.n_total == 12
    )  # resumes as a plain run


def test_an_index_is_built_in_one_shard_only():
    data = WORLD.dataset()
    shards = partition(data.examples, data.documents, 4)
    assert sorted(q for ids in shards for q in ids) == sorted(e.question.id for e in data.examples)
    homes = [
        {e.question.document_ids for e in data.examples if e.question.id in ids} for ids in shards
    ]
    assert sum(map(len, homes)) == 5
    assert max(map(len, homes)) - min(map(len, homes)) <= 1
    assert shards == partition(data.examples, data.documents, 4)
    assert [len(ids) for ids in partition(data.examples, data.documents, 9)].count(0) == 4


def test_more_shards_than_documents_and_shards_that_are_empty(tmp_path):
    for number in range(1, 9):
        folder, merged = shard(tmp_path, number, 8)
        assert merged == (number >= 5)  # those behind the fifth are empty
    assert read_run(folder).summary.n_total == 12
    assert len(records(folder)) == 12


def test_a_merge_in_the_middle_and_a_plain_run_beside_shards(tmp_path):
    folder = shard(tmp_path, 1)[0]
    with pytest.raises(
        UserError, match=r"shards that are not merged \(1-of-3\); first run: harness merge"
    ):
        go(make_plan(WORLD.dataset()), tmp_path)
    with pytest.raises(
        UserError, match=r"another division \(3 shards of 12 questions; now 4 of 12\)"
    ):
        shard(tmp_path, 2, 4)
    notes = []
    summary = merge(folder, notes.append)
    assert (summary.state, summary.n_asked) == ("interrupted", 12)
    assert "questions have a record" in notes[-1]
    shard(tmp_path, 3)
    assert shard(tmp_path, 2)[1]
    assert records(folder) == records(go(make_plan(WORLD.dataset()), tmp_path / "alone").folder)
    assert read_run(folder).summary.state == "finished"


def test_what_is_being_written_is_not_merged_nor_started_twice(tmp_path):
    folder = shard(tmp_path, 1)[0]
    with folder_lock(part_folders(folder)[0]):
        with pytest.raises(
            RunLocked, match=rf"process {os.getpid()} on .* is writing .*parts/1-of-3"
        ):
            merge(folder, print)
        with pytest.raises(RunLocked):
            shard(tmp_path, 1)
    with folder_lock(folder):
        with pytest.raises(RunLocked):
            shard(tmp_path, 2)
        with pytest.raises(RunLocked):
            go(make_plan(WORLD.dataset()), tmp_path)
    assert part_folders(folder) == [folder / "parts" / "1-of-3"]
    (folder / "lock").write_text("process 1 on another machine")
    shard(tmp_path, 2)  # it looks at the lock of the run, and holds that of its part
    assert (folder / "lock").read_text() == "process 1 on another machine"


def test_questions_that_are_recorded_or_answered_are_not_asked_again(tmp_path):
    data = WORLD.dataset()
    go(make_plan(data, limit=4), tmp_path)
    plan = make_plan(data)
    for number in (1, 2, 3):
        shard(tmp_path, number, plan=plan)
    assert sorted(q.id for q, _ in plan.method.seen) == sorted(f"q{n}" for n in range(4, 12))


def test_shards_of_other_code_or_packages_are_told(tmp_path):
    folder = shard(tmp_path, 1)[0]
    shard(tmp_path, 2)
    path = folder / "parts/2-of-3" / MANIFEST
    manifest = json.loads(path.read_text())
    path.write_text(
        json.dumps(
            manifest | {"git": {"commit": "e" * 40, "dirty": False}, "packages": {"torch": "1.0"}}
        )
    )
    shard(tmp_path, 3)
    run = read_run(folder)
    assert [sorted(start.changed_keys) for start in run.manifest.starts] == [
        [],
        ["git", "packages"],
        [],
    ]
    assert run.manifest.starts[1].changed.packages == {"torch": "1.0"}
    assert (
        "a part of the run was made after a change of git, packages (manifest.json)"
        in run_notes(run)
    )


def test_an_empty_first_shard_of_other_code_says_nothing_of_the_others(tmp_path):
    folder = shard(tmp_path, 1)[0]
    path = folder / "parts/1-of-3" / MANIFEST
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"git": {"commit": "e" * 40, "dirty": False}})
    )
    (path.parent / RECORDS).write_bytes(b"")
    shard(tmp_path, 2)
    merge(folder, lambda _: None)
    assert not any("a change of" in note for note in run_notes(read_run(folder)))


def test_an_answer_that_was_not_scored_survives_the_merge(tmp_path):
    folder = shard(tmp_path, 1)[0]
    rows = list(read_lines(folder / "parts/1-of-3/records.jsonl", "question_id"))
    (folder / "parts/1-of-3/records.jsonl").write_bytes(b"".join(map(json_line, rows[:-1])))
    (folder / "parts/1-of-3/answered.jsonl").write_bytes(json_line({**rows[-1], "scores": {}}))
    assert merge(folder, lambda _: None).n_total == len(rows) - 1
    plan = make_plan(WORLD.dataset())
    for number in (1, 2, 3):
        shard(tmp_path, number, plan=plan)
    assert rows[-1]["question_id"] not in {q.id for q, _ in plan.method.seen}
    assert len(records(folder)) == 12


def test_the_first_complete_record_wins(tmp_path):
    folder = shard(tmp_path, 1)[0]
    rows = list(read_lines(folder / "parts/1-of-3/records.jsonl", "question_id"))
    failed = {"prediction": "", "error": {"type": "WindowExceeded", "message": "long"}}
    (folder / RECORDS).write_bytes(b"".join(json_line({**row, **failed}) for row in rows))
    more = [{**rows[0], "prediction": "second"}, {**rows[1], **failed}]
    (folder / "parts/2-of-3").mkdir()
    (folder / "parts/2-of-3/records.jsonl").write_bytes(b"".join(map(json_line, more)) + b'{"torn')
    notes = []
    merge(folder, notes.append)
    assert records(folder) == [comparable(row) for row in rows]
    assert any("torn" in note for note in notes)


def test_shards_with_other_scorers_are_not_merged(tmp_path):
    path = shard(tmp_path, 1, 2)[0] / "parts/1-of-2" / MANIFEST
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "scorers": dict.fromkeys(manifest["scorers"], "0")}))
    with pytest.raises(UserError, match="shard 2/2 has other scorers .* run that shard again"):
        shard(tmp_path, 2, 2)
    assert part_folders(path.parents[2]) == [path.parent, path.parents[1] / "2-of-2"]


def test_a_merge_that_was_killed_is_repeated(tmp_path, monkeypatch):
    for number in (1, 2):
        folder = shard(tmp_path, number)[0]
    monkeypatch.setattr("shutil.rmtree", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        shard(tmp_path, 3)
    monkeypatch.undo()
    before = records(folder)
    (folder / "parts/1-of-3/manifest.json").unlink()
    assert merge(folder, lambda _: None).state == "finished"
    assert records(folder) == before
    assert not part_folders(folder)
    assert len(json.loads((folder / "manifest.json").read_text())["starts"]) == 3
    assert len(list(read_lines(folder / DOCUMENTS, "document_id"))) == 5


@pytest.mark.parametrize(
    "lost",
    [
        ("1-of-3/manifest.json", "2-of-3/manifest.json"),
        ("1-of-3/manifest.json", "1-of-3/documents.jsonl"),
    ],
)
def test_shards_whose_manifests_are_lost_are_merged_and_the_run_goes_on(lost, tmp_path):
    alone = go(make_plan(WORLD.dataset()), tmp_path / "alone")
    for number in (1, 2):
        folder = shard(tmp_path / "parts", number)[0]
    for name in lost:
        (folder / "parts" / name).unlink()
    merge(folder, lambda _: None)
    for number in (1, 2, 3):
        shard(tmp_path / "parts", number)
    merge(folder, lambda _: None)
    assert records(folder) == records(alone.folder)
    assert read_run(folder).manifest.starts
    go(make_plan(WORLD.dataset()), tmp_path / "parts")
    assert records(folder) == records(alone.folder)


@pytest.mark.parametrize("text", ["3", "0/4", "5/4", "a/b", "1/0", "-1/2", "1/2/3"])
def test_a_shard_is_k_of_n(text):
    assert parse_shard("3/16") == (3, 16)
    with pytest.raises(UserError, match="should be K/N"):
        parse_shard(text)
