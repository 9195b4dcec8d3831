"""Locks of a run folder; names from data that lead elsewhere."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.datasets.narrativeqa_stories import _Folder
from harness.errors import HarnessError, RunLocked, UserError
from harness.storage.lock import FolderLock
from harness.storage.paths import inside


@pytest.mark.parametrize("kind", ["link", "link to nothing", "hard link", "pipe", "folder", "text"])
def test_a_lock_that_is_not_ours_is_neither_emptied_nor_removed(tmp_path, kind):
    victim, lock = tmp_path / "victim", tmp_path / "run" / "lock"
    lock.parent.mkdir()
    victim.write_text("precious")
    make = {
        "link": lambda: lock.symlink_to(victim),
        "link to nothing": lambda: lock.symlink_to(tmp_path / "new"),
        "hard link": lambda: lock.hardlink_to(victim),
        "pipe": lambda: os.mkfifo(lock),
        "folder": lock.mkdir,
        "text": lambda: lock.write_text("precious"),
    }
    make[kind]()
    with pytest.raises(UserError, match="not a lock of this program"), FolderLock(lock.parent):
        pass
    assert victim.read_text() == "precious"
    assert not (tmp_path / "new").exists()
    assert os.path.lexists(lock)
    assert kind != "text" or lock.read_text() == "precious"


@pytest.mark.parametrize("content", ["", "{", '{"pid": 1', '{"pid": 4194309, "start": "1", "host": "elsewhere"}'])
def test_what_a_killed_run_left_is_ours_under_any_host_name(tmp_path, content):
    (tmp_path / "lock").write_text(content)
    with FolderLock(tmp_path):
        assert (tmp_path / "lock").read_text().startswith('{"pid":')


def test_a_lock_held_by_another_process_is_respected_whatever_its_content(tmp_path):
    with FolderLock(tmp_path):
        (tmp_path / "lock").write_text('{"pid": 4194309, "start": "1", "host": "elsewhere"}')
        with pytest.raises(RunLocked), FolderLock(tmp_path):
            pass


@pytest.mark.parametrize("name", ["../secret", "..", "/etc/passwd", "a/../../b", "a\0b", "a\nb"])
def test_names_that_lead_elsewhere(tmp_path, name):
    with pytest.raises(UserError, match="not followed"):
        inside(tmp_path, name)


@given(st.lists(st.text(max_size=12), min_size=1, max_size=3))
def test_a_joined_path_stays_inside_or_is_refused(names):
    folder = Path("/srv/results")
    try:
        path = inside(folder, *names)
    except HarnessError:
        return
    assert Path(os.path.normpath(path)).is_relative_to(folder)


def test_a_document_id_reads_no_file_outside_the_stories(tmp_path):
    (tmp_path / "stories").mkdir()
    (tmp_path / "secret.content").write_text("secret")
    with pytest.raises(UserError, match="not followed"):
        _Folder(tmp_path / "stories").read("../secret")


def test_a_data_set_name_keeps_runs_in_the_results_folder(tmp_path):
    from harness.config.layers import Choices
    from harness.engine.plan import plan_choices

    sets = {"dataset.tokens": 200, "dataset.questions": 1, "dataset.kind": "musique"}
    file = tmp_path / "received.yaml"
    file.write_text(
        "dataset: {name: '..', format: pocket, instruction: Answer., max_answer_tokens: 4, scorers: [evidence_recall]}\n"
    )
    with pytest.raises(UserError, match="no name of a file below"):
        plan_choices(Choices(method="bm25", model="random", files=(str(file),), sets=sets))
