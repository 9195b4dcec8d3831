"""Two writers, a disk that fills, a folder that refuses. Kills: tests/security/test_faults.py."""

import os

import pytest

from harness.errors import RunLocked
from harness.storage.run_files import folder_lock
from tests.engine.fakes import go, make_plan

pytestmark = pytest.mark.usefixtures("fake_model")

FOLDER = make_plan().folder


def test_two_writers_are_refused_and_a_dead_one_is_not_waited_for(tmp_path):
    (tmp_path / FOLDER).mkdir(parents=True)
    refused = pytest.raises(RunLocked, match=f"process {os.getpid()} on .* is writing the run folder")
    with folder_lock(tmp_path / FOLDER), refused:
        go(make_plan(), tmp_path)
    assert go(make_plan(), tmp_path).summary["n_total"] == 6
