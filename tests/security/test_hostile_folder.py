"""Names from data that lead elsewhere."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.datasets.narrativeqa_stories import _Folder
from harness.errors import HarnessError, UserError
from harness.storage.paths import inside


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
