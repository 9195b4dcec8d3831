"""What `harness watch` reads of run folders while they are written."""

import json
import os
from datetime import UTC, datetime, timedelta

from reports import live_progress as module
from reports.cells import Cells
from reports.live_progress import LiveRuns
from reports.main_table import frame
from tests.reports.build import SCORE, built, record, write_run


def running(root, *, begun=60.0, starts=1, **changes):
    """A run of eight questions that began `begun` seconds ago, none answered yet."""
    at = (datetime.now(UTC) - timedelta(seconds=begun)).isoformat(timespec="seconds")
    start = {"started": at, "starts": [{"started": at, "state": "running"}] * starts}
    dataset = {"fingerprint": "f" * 64, "questions": 8}
    return write_run(root, [], summary={}, manifest={**start, "dataset": dataset}, **changes)


def append(folder, *rows, name="records.jsonl"):
    with open(folder / name, "a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def test_rows_and_questions_follow_what_is_written(tmp_path):
    folder = running(tmp_path)
    live = LiveRuns([str(tmp_path)])
    (row,) = live.read_state().rows
    assert (row["state"], row["answered"], row["score"], row["time left"]) == (
        "running",
        "0 of 8",
        "–",
        "–",
    )
    append(folder, record(0, 1.0), record(1, 0.0), record(2, None))
    state = live.read_state()
    (row,) = state.rows
    assert (row["answered"], row["failed"], row["tokens"]) == ("3 of 8", "1", "210")
    assert row["time left"] == "1.7 min"  # 20 s a question, five are left
    assert [one["id"] for one in state.newest] == ["q1", "q0"]
    assert [(one["id"], one["answer"]) for one in state.failed] == [
        ("q2", "WindowExceeded: too long")
    ]


def test_numbers_are_those_of_the_table(tmp_path):
    rows = [record(i, s) for i, s in enumerate((1.0, 0.25, None, 0.5, 0.75))]
    write_run(tmp_path, rows, documents=[built("d0", 4.0)])
    live = LiveRuns([str(tmp_path)])
    (row,) = live.read_state().rows
    cells = Cells(
        frame(live.read_runs_with_answers())[
            [SCORE, f"{SCORE}.low", f"{SCORE}.high", "tflops.total"]
        ]
    )
    assert [row["score"], row["tflops"]] == [
        cells.rows[0][0],
        f"{float(cells.rows[0][1].split()[0]):.3g}",
    ]


def test_a_line_that_is_being_written_waits_for_its_end(tmp_path):
    folder = running(tmp_path)
    live = LiveRuns([str(tmp_path)])
    line = json.dumps(record(0, 1.0))
    with open(folder / "records.jsonl", "a") as file:
        file.write(line[:40])
        file.flush()
        assert live.read_state().answered == 0
        file.write(line[40:] + "\n")
    assert live.read_state().answered == 1


def test_sorted_records_are_no_new_answers_and_a_second_try_is(tmp_path):
    folder = running(tmp_path)
    rows = [record(1, 1.0), record(0, None)]
    append(folder, *rows)
    live = LiveRuns([str(tmp_path)])
    before = live.read_state()
    other = folder / "other"
    other.write_text("".join(json.dumps(row) + "\n" for row in rows[::-1]))
    os.replace(other, folder / "records.jsonl")
    after = live.read_state()
    assert after.answered == before.answered
    assert after.newest == before.newest
    assert after.failed == before.failed
    append(folder, record(0, 0.5))
    state = live.read_state()
    assert (state.failed, [one["id"] for one in state.newest]) == ([], ["q0", "q1"])


def test_shards_count_together_and_nothing_is_written(tmp_path):
    folder = running(tmp_path)
    for part in (1, 2):
        (folder / f"parts/{part}-of-2").mkdir(parents=True)
        append(folder, record(part, 1.0), name=f"parts/{part}-of-2/records.jsonl")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert LiveRuns([str(tmp_path)]).read_state().answered == 2
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_run_that_goes_on_is_timed_from_when_it_was_first_seen(tmp_path, monkeypatch):
    folder = running(tmp_path, begun=90_000, starts=2)
    append(folder, *(record(i, 1.0) for i in range(4)))
    live = LiveRuns([str(tmp_path)])
    assert live.read_state().rows[0]["time left"] == "–"
    append(folder, record(4, 1.0))
    now = module.time.time()
    monkeypatch.setattr(module.time, "time", lambda: now + 10)
    assert live.read_state().rows[0]["time left"] == "30 s"


def test_a_new_run_is_found_and_a_damaged_one_named(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_FOLDER_SEARCH_SECONDS", -1.0)
    live = LiveRuns([str(tmp_path)])
    assert live.read_state().note == "No run here yet."
    append(running(tmp_path), record(0, 1.0))
    broken = running(tmp_path, method="bm25")
    (broken / "records.jsonl").write_text("{}\n{}\n")
    state = live.read_state()
    assert len(live.read_runs_with_answers()) == 1
    assert "bm25--tiny--0123abcd" in state.note
