"""Run folders of earlier versions load in report, compare, trace, score and track: one folder of
each kind of method.

old_runs/ was written by these versions: `oldest`, the first commit (made-up rows that the project
no longer ships); `2026-11-first`, the last commit with names of classes as `method.implementation`
and FLOPs of steps as one number; `2026-11`, the last commit before the modules moved.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from harness.storage.named_runs import read_runs, run_folders
from harness.storage.run_folder import read_run
from reports import compare, main_table
from reports.config_difference import config_difference
from reports.figures import front, queries

OLD = Path(__file__).with_name("old_runs")
FOLDERS = sorted(path.parent.relative_to(OLD).as_posix() for path in OLD.glob("*/*/*/run.yaml"))


def test_there_is_one_of_each_kind():
    methods = {name.rpartition("/")[2].partition("--")[0].partition("[")[0] for name in FOLDERS}
    assert methods == {
        "bm25",
        "longrefiner",
        "memwalker",
        "oracle-evidence",
        "pecan",
        "qrmem",
        "raptor-ct",
    }


@pytest.mark.parametrize("version", ["oldest", "2026-11-first", "2026-11"])
def test_tables(here, version):
    names = {
        f.rpartition("/")[2].partition("--")[0] for f in FOLDERS if f.startswith(f"{version}/")
    }
    for verb in ("report", "compare"):
        done = here(verb, str(OLD / version), "--format", "csv").checked()
        assert "left out" not in done.stderr
        rows = [line.partition(",")[2] for line in done.stdout.splitlines()[1:]]
        assert len(rows) == len(names)


@pytest.mark.parametrize("version", ["oldest", "2026-11-first", "2026-11"])
def test_the_numbers_of_records_are_all_that_tables_read(version):
    folders = run_folders([str(OLD / version)])
    whole, numbers = read_runs(folders), read_runs(folders, hold="numbers")
    assert whole[0].records[0].shown
    assert not numbers[0].records[0].shown
    for table in (
        main_table.frame,
        queries.frame,
        lambda runs: pd.DataFrame(front.points(main_table.table_rows(runs))),
    ):
        pd.testing.assert_frame_equal(table(whole), table(numbers))
    texts = [compare.side_by_side(runs, force=True).render("csv") for runs in (whole, numbers)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("name", FOLDERS)
def test_one_folder(here, tmp_path, name):
    folder = tmp_path / "run"
    shutil.copytree(OLD / name, folder)
    run = read_run(folder)
    here("trace", str(folder), str(run.records[0].question_id)).checked()
    scored = here("score", str(folder))
    if name.startswith("oldest/"):  # the data set is gone, and these records hold no gold answers
        assert scored.returncode == 2
        assert scored.stderr.count("\n") == 1
        return
    assert scored.returncode == 0, scored.stderr
    stored = read_run(folder)  # which holds its questions, gold answers and texts from now on
    assert all(one.question and one.gold["answers"] for one in stored.records)
    texts = stored.texts(stored.records)
    pieces = [piece for one in stored.records for piece in one.shown]
    assert all(
        piece["text"] or piece["text_sha256"] in texts
        for piece in pieces
        if piece["end"] > piece["start"]
    )
    before, after = run.summary.scores, stored.summary.scores
    assert {k: (v.mean, v.n) for k, v in after.items()} == {
        k: (v.mean, v.n) for k, v in before.items()
    }


def test_tracking(here, tmp_path, empty_store):
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    versions = {name.partition("/")[0]: name for name in FOLDERS}.values()
    folders = [
        str(shutil.copytree(OLD / name, tmp_path / str(n))) for n, name in enumerate(versions)
    ]
    done = here("track", *folders, "--uri", f"sqlite:///{tmp_path}/mlflow.db").checked()
    assert done.stdout.splitlines() == folders


def test_a_class_of_an_old_run_is_the_name_of_today():
    old, new = (
        read_run(next(OLD / name for name in FOLDERS if name.startswith(v) and "/pecan-" in name))
        for v in ("2026-11-first/", "2026-11/")
    )
    assert old.config.method.implementation == "methods.pecan:Pecan"
    method = new.config.method.with_values(implementation="pecan")
    new = replace(new, config=new.config.with_values(method=method))
    assert not any("implementation" in line for line in config_difference(old, new))
