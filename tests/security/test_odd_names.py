"""Names that a file system or a URI cannot take as they are: one sentence, or MLflow's database in its place."""

import contextlib
import os
import shutil
import sqlite3

import pytest

from harness.cli.main import main
from harness.tracking import track as tracking
from harness.tracking.store import sqlite_path
from tests.reports.build import record, write_run

QUICK = ["run", "--method", "bm25", "--dataset", "pocket/musique", "--model", "random", "--profile", "pocket"]


@pytest.mark.parametrize("name", ["a%41b", "a?b", "a#b", "a b", "%3F?&x=1", "ü;:@"])
def test_the_database_is_in_the_results_folder_whatever_its_name(name, tmp_path):
    out = tmp_path / name
    uri = tracking.default_uri(out)
    assert sqlite_path(uri) == out / "mlflow.db"
    assert tracking.uri_problems(uri) == []


@pytest.mark.parametrize("name", ["a%41b", "a?b"])
def test_nothing_is_written_beside_the_results_folder(name, tmp_path, empty_store):
    run = write_run(tmp_path / name, [record(0, 0.5)])
    shutil.copy(empty_store, tmp_path / name / "mlflow.db")
    tracking.track(run)
    with contextlib.closing(sqlite3.connect(tmp_path / name / "mlflow.db")) as store:
        assert ("musique",) in store.execute("SELECT name FROM experiments").fetchall()
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_folder_that_mlflow_cannot_open_is_told(tmp_path):
    (sentence,) = tracking.uri_problems(tracking.default_uri(tmp_path / os.fsdecode(b"a\xffb")))
    assert sentence == "MLflow cannot open a folder whose name is not UTF-8; rename it, or use --mlflow off"


def test_a_folder_name_that_is_too_long(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main([*QUICK, "--limit", "1", "--out", "x" * 256, "--mlflow", "off"])
    assert end.value.code == 3
    assert "File name too long; choose a folder you may write to with --out" in capsys.readouterr().err
