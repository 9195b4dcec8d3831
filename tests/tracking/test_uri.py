"""The address of a store: which can be used, and what is masked in it."""

import fcntl
import importlib.util
import os
from pathlib import Path

import pytest

from harness.errors import CannotRun, UserError
from harness.storage.paths import with_address_secrets_masked
from harness.tracking.background import BackgroundTracking
from harness.tracking.sqlite_store import sqlite_lock
from harness.tracking.store import connection_problem, expand_home, sqlite_uri
from harness.tracking.track import StoreError, default_uri, track, uri_problems
from tests.tracking.store import run_folder

pytest.importorskip("mlflow", reason="the extra 'mlflow' is not installed")


def test_one_process_makes_a_database_and_its_lock_leaves_no_file(tmp_path):
    uri = sqlite_uri(tmp_path / "mlflow.db")
    other = os.open(tmp_path, os.O_RDONLY)
    with sqlite_lock(uri), pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(other)
    assert list(tmp_path.iterdir()) == []


class TestVerb:
    def test_what_cannot_be_used_is_one_sentence_for_all_runs(self, tmp_path, here):
        run_folder(tmp_path)
        run_folder(tmp_path, method="bm25")
        done = here("track", str(tmp_path / "results"), "--uri", "carrier-pigeon://x")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("error: MLflow does not know 'carrier-pigeon://'")
        assert done.stderr.count("\n") == 1

    def test_a_dead_server_is_not_asked_for_every_run(self, tmp_path, here):
        for method in ("a", "b", "c", "d"):
            run_folder(tmp_path, method=method)
        done = here("track", str(tmp_path / "results"), "--uri", "http://127.0.0.1:9")
        assert (done.returncode, done.stdout) == (3, "")
        (sentence,) = done.stderr.splitlines()
        assert sentence.startswith(
            "error: tracking failed at http://127.0.0.1:9 (ConnectionRefusedError"
        )
        assert "The 4 runs themselves are on disk" in sentence


class TestUri:
    @pytest.mark.parametrize(
        ("uri", "sentence"),
        [
            ("file:///tmp/mlruns", "no longer writes to a folder"),
            ("./mlruns", "no longer writes to a folder"),
            ("ftp://x", "does not know 'ftp://'"),
            ("sqlite:///:memory:", "is lost when the process ends"),
            ("sqlite://", "is lost when the process ends"),
        ],
    )
    def test_refused_before_anything_runs(self, tmp_path, uri, sentence):
        assert len(uri_problems(uri)) == 1
        assert sentence in uri_problems(uri)[0]
        with pytest.raises(CannotRun, match=sentence):
            track(run_folder(tmp_path), uri)
        with pytest.raises(UserError, match=sentence):
            BackgroundTracking(tmp_path, uri)

    @pytest.mark.parametrize(
        "uri",
        [
            "sqlite:///a.db",
            "http://h:5000",
            "https://h",
            "databricks",
            "postgresql+psycopg2://u:p@h/d",
        ],
    )
    def test_accepted(self, uri):
        assert uri_problems(uri) == []

    def test_without_mlflow_the_install_line(self, tmp_path, monkeypatch):
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        with pytest.raises(CannotRun, match=r"pip install 'longdoc-harness\[mlflow\]'"):
            track(run_folder(tmp_path), "sqlite:///x.db")

    def test_without_a_databases_driver_its_name(self, tmp_path):
        with pytest.raises(CannotRun, match="MLflow needs the package 'psycopg2'"):
            track(run_folder(tmp_path), "postgresql+psycopg2://user:secret@127.0.0.1:9/db")

    def test_default_is_a_file_in_the_results(self, tmp_path, monkeypatch):
        monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
        assert default_uri(tmp_path) == f"sqlite:///{tmp_path}/mlflow.db"
        monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://h:1")
        assert default_uri(tmp_path) == "http://h:1"

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("longbench.qa_f1", "longbench.qa_f1"),
            ("f1@3 (a,b)", "f1_3 _a_b_"),
            ("/a//b/../c/", "a/b/c"),
            ("..", "_"),
            ("", "_"),
            ("x" * 300, "x" * 250),
        ],
    )
    def test_metric_names(self, name, expected):
        from mlflow.utils.validation import _validate_metric_name

        from harness.tracking.metrics import metric_name

        assert metric_name(name) == expected
        _validate_metric_name(metric_name(name))


SECRETS = [
    ("postgresql://bob:hunter2@db:5432/runs", "postgresql://***@db:5432/runs"),
    ("--mlflow=postgresql+psycopg2://bob:hunter2@db/x", "--mlflow=postgresql+psycopg2://***@db/x"),
    ("postgresql://bob:hun/t@er?2#@db/x", "postgresql://***@db/x"),
    ("postgresql://bob:hun ter2@db/x", "postgresql://***@db/x"),
    ("https://hunter2@h/x", "https://***@h/x"),
    ("mysql://db/x?user=bob&password=hunter2&ssl=1", "mysql://db/x?user=bob&password=***&ssl=1"),
    ("mysql://db/x?sslPassword=hunter2", "mysql://db/x?sslPassword=***"),
    ("https://h/x?access_token=hunter2", "https://h/x?access_token=***"),
    ("mssql+pyodbc:///?odbc_connect=DSN%3Dx;PWD=hunter2", "mssql+pyodbc:///?odbc_connect=***"),
    (
        "not postgresql://bob:hunter2@db/x, nor http://h:1/y",
        "not postgresql://***@db/x, nor http://h:1/y",
    ),
]
PLAIN = [
    "http://127.0.0.1:5000",
    "sqlite:////data/x.db",
    "databricks",
    "dataset.instruction=see http://x.org: write to a@b.org",
    "a@b: password=x",
]


@pytest.mark.parametrize(("text", "expected"), SECRETS)
def test_masked(text, expected):
    assert with_address_secrets_masked(text) == expected
    assert with_address_secrets_masked(expected) == expected


@pytest.mark.parametrize("text", PLAIN)
def test_what_holds_no_secret_stays_as_it_is(text):
    assert with_address_secrets_masked(text) == text


def test_sentences_about_a_store_hold_no_secret():
    uri = "mysql://bob:hunter2@db/x?password=hunter3"
    error = StoreError(
        [Path("results/a/b")], uri, f"no connection to {uri} (mysql+pymysql://bob:hunter2@db/x)"
    )
    assert "hunter" not in str(error) + error.reason
    assert "harness track results/a/b --uri mysql://***@db/x?password=***" in str(error)
    assert "hunter" not in " ".join(uri_problems("file://bob:hunter2@h/x"))


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("http://127.0.0.1:9", "ConnectionRefusedError: nobody answers at 127.0.0.1:9"),
        (
            "mysql+pymysql://bob:hunter2@127.0.0.1:9/x",
            "ConnectionRefusedError: nobody answers at 127.0.0.1:9",
        ),
        ("sqlite:///x.db", None),
        ("databricks", None),
        ("postgresql:///runs?host=/run/postgresql", None),
        ("http://h:port", None),
    ],
)
def test_unreachable(uri, expected):
    assert connection_problem(uri) == expected


def test_a_host_behind_a_proxy_is_left_to_the_library(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert connection_problem("http://store.invalid:1") is None
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert connection_problem("http://127.0.0.1:9") is not None


def test_the_file_of_a_store_in_the_home_folder(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    assert expand_home("sqlite:///~/x.db") == "sqlite:////home/ann/x.db"
    assert expand_home("sqlite:///x.db") == "sqlite:///x.db"
    assert expand_home("http://h/~") == "http://h/~"
