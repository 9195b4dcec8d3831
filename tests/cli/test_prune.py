"""`harness prune`: what it lists, and what is gone after a yes."""

import sys

import pytest

from harness.storage.run_files import folder_lock
from tests.reports.build import record, write_run

ANSWERED = [record(n, 1.0) for n in range(4)]
INTERRUPTED = {"state": "interrupted", "n_asked": 4}


@pytest.fixture
def results(tmp_path):
    """A results folder: a finished run, an older version of it, one that ended early, one without
    a record, and one that failed throughout; name -> folder."""
    folders = {
        "kept": write_run(tmp_path, ANSWERED, method="lead", hash8="0000000a"),
        "superseded": write_run(
            tmp_path,
            ANSWERED,
            method="lead",
            hash8="0000000b",
            manifest={"started": "2026-01-01T00:00:00+00:00"},
        ),
        "unfinished": write_run(tmp_path, ANSWERED[:3], method="bm25", summary=INTERRUPTED),
        "empty": write_run(tmp_path, [], method="pecan", summary=INTERRUPTED),
        "failed": write_run(tmp_path, [record(0, None)], method="raptor"),
    }
    return tmp_path, folders


def left(folders):
    """The names of the folders that are still there."""
    return [name for name, folder in folders.items() if folder.exists()]


def test_it_lists_what_is_left_over_and_deletes_nothing_without_a_yes(results, command):
    root, folders = results
    code, out, err = command("prune", str(root))
    rows = [line.split(maxsplit=1)[0] for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert rows == [
        "state", "unfinished", "superseded", "unfinished", "failed", "nothing",
    ]  # fmt: skip
    assert str(folders["superseded"]) in out
    assert str(folders["kept"]) not in out
    assert left(folders) == [*folders]


def test_yes_deletes_them_and_nothing_else(results, command):
    root, folders = results
    code, out, _ = command("prune", str(root), "--yes")
    assert (code, left(folders), out.count("deleted: ")) == (0, ["kept"], 4)
    assert command("prune", str(root))[1] == "nothing to prune: 1 finished run of the newest code\n"


@pytest.mark.parametrize(("answer", "remain"), [("y", ["kept"]), ("n", None)])
def test_at_a_terminal_it_asks(answer, remain, results, command, monkeypatch):
    root, folders = results
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda question: answer == "y")
    command("prune", str(root))
    assert left(folders) == (remain or [*folders])


def test_a_run_that_is_being_written_stays(results, command):
    root, folders = results
    with folder_lock(folders["unfinished"]):
        code, _, err = command("prune", str(root), "--yes")
    assert (code, left(folders)) == (3, ["kept", "unfinished"])
    assert "is writing the run folder" in err


def test_an_old_run_stays_while_the_new_code_has_not_finished(tmp_path, command):
    old = write_run(
        tmp_path,
        ANSWERED,
        hash8="0000000b",
        manifest={"started": "2026-01-01T00:00:00+00:00"},
    )
    write_run(tmp_path, ANSWERED[:1], hash8="0000000a", summary=INTERRUPTED)
    command("prune", str(tmp_path), "--yes")
    assert [path.parent for path in tmp_path.rglob("run.yaml")] == [old]
