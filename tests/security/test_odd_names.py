"""Names that a file system or a URI cannot take as they are: one sentence, or MLflow's database in its place."""

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.errors import SaveError
from harness.tracking import track as tracking
from harness.tracking.background import BackgroundTracking
from harness.tracking.uri import sqlite_path
from tests.reports.build import record, write_run

QUICK = ["run", "--method", "bm25", "--dataset", "pocket/musique", "--model", "random", "--profile", "pocket"]


@pytest.mark.parametrize("name", ["a%41b", "a?b", "a#b", "a b", "%3F?&x=1", "ü;:@"])
def test_the_database_is_in_the_results_folder_whatever_its_name(name: str, tmp_path: Path) -> None:
    out = tmp_path / name
    uri = tracking.default_uri(out)
    assert sqlite_path(uri) == out / "mlflow.db"
    assert tracking.problems(uri) == []


@pytest.mark.parametrize("name", ["a%41b", "a?b"])
def test_nothing_is_written_beside_the_results_folder(name: str, tmp_path: Path, empty_store: Path) -> None:
    run = write_run(tmp_path / name, [record(0, 0.5)])
    shutil.copy(empty_store, tmp_path / name / "mlflow.db")
    tracking.track(run)
    with contextlib.closing(sqlite3.connect(tmp_path / name / "mlflow.db")) as store:
        assert ("musique",) in store.execute("SELECT name FROM experiments").fetchall()
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_run_in_a_folder_that_is_not_utf8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its database and artifacts are in it like any other's; nothing is written beside it."""
    missed = BackgroundTracking.missed
    monkeypatch.setattr(
        BackgroundTracking, "missed", lambda self: missed(self, 600)
    )  # a busy machine may take its time
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    out = os.fsdecode(b"a\xffb")

    def call(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as end:
            main(list(arguments))
        return int(end.value.code or 0), capsys.readouterr().err

    code, printed = call(*QUICK, "--limit", "1", "--out", out)
    assert code == 0, printed
    assert "warning" not in printed
    assert call("track", out) == (0, "")
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=tracking.default_uri(Path(out)))
    (experiment,) = [e for e in client.search_experiments() if e.name == "pocket/musique"]
    (run,) = client.search_runs([experiment.experiment_id])
    assert any(run.info.run_id in path.parts for path in Path(out, "mlartifacts").rglob("*"))
    assert (Path(out) / "mlflow.db").is_file()
    assert {os.fsencode(path.name) for path in tmp_path.iterdir()} == {b"a\xffb", b"home"}


def test_a_link_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").write_text("a file")
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    with pytest.raises(SaveError, match="not UTF-8; rename the folder"):
        tracking.default_uri(tmp_path / os.fsdecode(b"a\xffb"))


@pytest.mark.parametrize("length", [256, 5000])
@pytest.mark.parametrize("mlflow", [["--mlflow", "off"], []])
def test_a_folder_name_that_is_too_long(
    length: int,
    mlflow: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main([*QUICK, "--limit", "1", "--out", "x" * length, *mlflow])
    said = capsys.readouterr().err
    assert end.value.code == 2, said
    assert "choose a shorter --out" in said
    assert "Traceback" not in said
