"""Names that lead elsewhere, or that a file system or a URI cannot take as they are."""

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cli.main import main
from harness.config.layers import Choices
from harness.datasets.narrativeqa_stories import _StoriesInFolder
from harness.engine.plan import plan_choices
from harness.errors import HarnessError, UserError
from harness.storage.paths import path_inside
from harness.tracking import track as tracking
from harness.tracking.store import sqlite_path
from tests.reports.build import record, write_run

QUICK = ("--profile", "pocket", "--limit", "1", "--mlflow", "off")


@pytest.mark.parametrize("name", ["../secret", "..", "/etc/passwd", "a/../../b", "a\0b", "a\nb"])
def test_names_that_lead_elsewhere(tmp_path, name):
    with pytest.raises(UserError, match="not followed"):
        path_inside(tmp_path, name)


@given(st.lists(st.text(max_size=12), min_size=1, max_size=3))
def test_a_joined_path_stays_inside_or_is_refused(names):
    folder = Path("/srv/results")
    try:
        path = path_inside(folder, *names)
    except HarnessError:
        return
    assert Path(os.path.normpath(path)).is_relative_to(folder)


def test_a_document_id_reads_no_file_outside_the_stories(tmp_path):
    (tmp_path / "stories").mkdir()
    (tmp_path / "secret.content").write_text("secret")
    with pytest.raises(UserError, match="not followed"):
        _StoriesInFolder(tmp_path / "stories").read("../secret")


def test_a_data_set_name_keeps_runs_in_the_results_folder(tmp_path):
    sets = {"dataset.tokens": 200, "dataset.questions": 1, "dataset.kind": "musique"}
    file = tmp_path / "received.yaml"
    file.write_text(
        "dataset: {name: '..', format: pocket, instruction: Answer., max_answer_tokens: 4, "
        "scorers: [evidence_recall]}\n"
    )
    with pytest.raises(UserError, match="no name of a file below"):
        plan_choices(Choices(method="bm25", model="random", files=(str(file),), sets=sets))


@pytest.mark.parametrize("name", ["a%41b", "a?b", "a#b", "a b", "%3F?&x=1", "ü;:@"])
def test_the_database_is_in_the_results_folder_whatever_its_name(name, tmp_path):
    out = tmp_path / name
    uri = tracking.default_uri(out)
    assert sqlite_path(uri) == out / "mlflow.db"
    assert tracking.uri_problems(uri) == []


def test_nothing_is_written_beside_the_results_folder(tmp_path, empty_store):
    out = tmp_path / "a%41b?"
    run = write_run(out, [record(0, 0.5)])
    shutil.copy(empty_store, out / "mlflow.db")
    tracking.track(run)
    with contextlib.closing(sqlite3.connect(out / "mlflow.db")) as store:
        assert ("musique",) in store.execute("SELECT name FROM experiments").fetchall()
    assert list(tmp_path.iterdir()) == [out]


def test_a_folder_that_mlflow_cannot_open_is_told(tmp_path):
    (sentence,) = tracking.uri_problems(tracking.default_uri(tmp_path / os.fsdecode(b"a\xffb")))
    assert (
        sentence
        == "MLflow cannot open a folder whose name is not UTF-8; rename it, or use --mlflow off"
    )


def test_a_folder_name_that_is_too_long(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(
            [
                "run",
                "-m",
                "bm25",
                "-d",
                "pocket/musique",
                "--model",
                "random",
                *QUICK,
                "--out",
                "x" * 256,
            ]
        )
    assert end.value.code == 3
    assert (
        "File name too long; choose a folder you may write to with --out" in capsys.readouterr().err
    )


@pytest.mark.parametrize("command_name", ["report", "compare", "score", "track", "merge", "judge"])
def test_an_empty_name_is_not_the_current_folder(command, command_name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "results", [record(0, 1.0)])
    code, _, err = command(command_name, "")
    assert code == 2
    assert err.startswith("error: the name of a run folder is empty; name one")
