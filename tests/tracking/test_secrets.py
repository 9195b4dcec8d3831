"""What is secret in the address of a store: where it is masked, and that no process shows it."""

import time
from pathlib import Path

import pytest

from harness.storage.paths import masked
from harness.tracking.background import BackgroundTracking
from harness.tracking.store import expand_home, unreachable
from harness.tracking.track import StoreError, uri_problems

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
    ("not postgresql://bob:hunter2@db/x, nor http://h:1/y", "not postgresql://***@db/x, nor http://h:1/y"),
]
PLAIN = [
    "http://127.0.0.1:5000",
    "sqlite:////data/x.db",
    "databricks",
    "dataset.instruction=see http://x.org: write to a@b.org",
    "a@b: password=x",
]


@pytest.mark.parametrize(("text", "told"), SECRETS)
def test_masked(text, told):
    assert masked(text) == told
    assert masked(told) == told


@pytest.mark.parametrize("text", PLAIN)
def test_what_holds_no_secret_stays_as_it_is(text):
    assert masked(text) == text


def test_sentences_about_a_store_hold_no_secret():
    uri = "mysql://bob:hunter2@db/x?password=hunter3"
    error = StoreError([Path("results/a/b")], uri, f"no connection to {uri} (mysql+pymysql://bob:hunter2@db/x)")
    assert "hunter" not in str(error) + error.reason
    assert "harness track results/a/b --uri mysql://***@db/x?password=***" in str(error)
    assert "hunter" not in " ".join(uri_problems("file://bob:hunter2@h/x"))


def test_the_child_process_does_not_show_the_uri(tmp_path):
    pytest.importorskip("mlflow", reason="the extra 'mlflow' is not installed")
    trackers = BackgroundTracking(tmp_path, "postgresql://bob:hunter2@127.0.0.1:9/runs")
    trackers.add(tmp_path / "nothing")
    assert trackers.process is not None
    arguments = Path(f"/proc/{trackers.process.pid}/cmdline")
    while not (seen := arguments.read_bytes()) and trackers.process.poll() is None:
        time.sleep(0.01)  # it has just begun
    assert trackers.missed() == []
    assert b"harness.tracking.background" in seen
    assert b"hunter2" not in seen
    assert trackers.process.returncode == 0


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("http://127.0.0.1:9", "ConnectionRefusedError: nobody answers at 127.0.0.1:9"),
        ("mysql+pymysql://bob:hunter2@127.0.0.1:9/x", "ConnectionRefusedError: nobody answers at 127.0.0.1:9"),
        ("sqlite:///x.db", None),
        ("databricks", None),
        ("postgresql:///runs?host=/run/postgresql", None),
        ("http://h:port", None),
    ],
)
def test_unreachable(uri, told):
    assert unreachable(uri) == told


def test_a_host_behind_a_proxy_is_left_to_the_library(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert unreachable("http://store.invalid:1") is None
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert unreachable("http://127.0.0.1:9") is not None


def test_the_file_of_a_store_in_the_home_folder(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    assert expand_home("sqlite:///~/x.db") == "sqlite:////home/ann/x.db"
    assert expand_home("sqlite:///x.db") == "sqlite:///x.db"
    assert expand_home("http://h/~") == "http://h/~"
