import contextlib
import functools
import getpass
import json
import resource
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.engine.progress import Silent
from harness.errors import SaveError
from harness.scale.shard import ShardNumber, run_shard
from harness.storage.run_folder import find_runs, read_run
from harness.tracking import sqlite_store
from harness.tracking import track as tracking
from reports.main_table import frame
from tests.engine.fakes import World, go, make_plan
from tests.reports.build import built
from tests.tracking.store import (
    SCORE,
    append,
    artifacts,
    client,
    history,
    only_run,
    row,
    run_folder,
    runs_of,
    suite,
)

NO_MLFLOW = "the extra 'mlflow' is not installed"
mlflow_traces = pytest.importorskip("harness.tracking.mlflow_traces", reason=NO_MLFLOW)
track = functools.partial(tracking.track, traces=0)  # test_mlflow_traces.py has them


def half_made(path, tables):
    """Leave the first so many tables, as a process that was killed while it made them does."""
    with contextlib.closing(sqlite3.connect(path)) as store:
        query = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid"
        for (name,) in store.execute(query).fetchall()[tables:]:
            store.execute(f'DROP TABLE "{name}"')
        if tables:
            store.execute("UPDATE alembic_version SET version_num = '89d4b8295536'")
        store.commit()


class TestTrack:
    def test_what_a_run_looks_like(self, uri, tmp_path, drawn_page):
        ends = [{"state": "finished", "finished": "2026-01-02T04:04:05+00:00"}]
        folder = run_folder(tmp_path, manifest={"starts": ends})
        track(folder, uri)
        run = only_run(uri)
        assert (run.info.run_name, run.info.status) == ("pecan · tiny", "FINISHED")
        assert run.info.end_time - run.info.start_time == 3_600_000
        line = frame([read_run(folder)]).iloc[0]
        same = {"n": "n", "failed": "failed", "truncated": "truncated", "TFLOPs": "tflops"}
        same |= {"usage/tokens.answer": "tokens.answer", "usage/TFLOPs.search": "tflops.search"}
        for metric, column in same.items():
            assert run.data.metrics[metric] == line[column]
        assert run.data.metrics[SCORE] == 25.0, "percent, as in the tables"
        for end in ("low", "high"):
            expected = pytest.approx(100 * line[f"{SCORE}.{end}"], abs=0.005)
            assert run.data.metrics[f"uncertainty/{SCORE}.{end}"] == expected
        assert "usage/TFLOPs.index" not in run.data.metrics, (
            "no index was built: no cost, rather than a cost of 0"
        )
        parameters = {"method": "pecan", "method.view": "document", "method.k": "5"}
        assert run.data.params == parameters | {"dataset": "musique", "model": "tiny", "seed": "0"}
        expected = {
            "method": "pecan",
            "model": "tiny",
            "dataset": "musique",
            "hash8": "0123abcd",
            "embedded": "false",
        }
        expected |= {
            "git_commit": "c0ffee",
            "mlflow.source.git.commit": "c0ffee",
            "harness.run": folder.name,
        }
        expected |= {"git_dirty": "false", "state": "finished", "mlflow.user": getpass.getuser()}
        assert expected.items() <= run.data.tags.items()
        assert SCORE in run.data.tags["mlflow.note.content"]
        names = artifacts(uri, run)
        files = {"config.yaml", "manifest.json", "records.jsonl", "documents.jsonl", "summary.json"}
        assert names == files | {"table.md", "report.html"}
        assert find_runs(tmp_path) == [folder], "artifacts are not taken for runs"
        assert [(i.dataset.name, i.dataset.digest) for i in run.inputs.dataset_inputs] == [
            ("musique", "f" * 8)
        ]

    def test_a_run_is_finished_only_when_all_its_numbers_are_there(
        self, uri, tmp_path, monkeypatch
    ):
        seen = []

        def log(traces, run, *limits):
            seen.append(only_run(uri))
            return 0

        monkeypatch.setattr(mlflow_traces.MlflowTraces, "log", log)
        track(run_folder(tmp_path), uri)
        (before,) = seen
        assert (before.info.status, before.data.tags["state"], before.data.metrics[SCORE]) == (
            "RUNNING",
            "running",
            25.0,
        )
        after = only_run(uri)
        assert (after.info.status, after.data.tags["state"]) == ("FINISHED", "finished")

    def test_under_load_nothing_is_finished_with_unfinished_numbers(
        self, uri, tmp_path, monkeypatch
    ):
        """Six runs, four of them at a time, each read behind every one of its writes."""
        read, it = [], type(client(uri))

        def read_behind(write):
            def written(self, run_id, *words, **more):
                write(self, run_id, *words, **more)
                read.append(self.get_run(run_id))

            return written

        for name in ("log_batch", "set_tag", "update_run", "set_terminated"):
            monkeypatch.setattr(it, name, read_behind(getattr(it, name)))
        folders = [run_folder(tmp_path, hash8=f"{n:08}") for n in range(6)]
        track(folders[0], uri, running=True)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda folder: track(folder, uri), folders))
        done = [
            run for run in read if "FINISHED" in (run.info.status, run.data.tags["state"].upper())
        ]
        assert len({run.info.run_id for run in done}) == 6 < len(done) < len(read)
        assert {(run.data.metrics.get(SCORE), run.data.metrics.get("n")) for run in done} == {
            (25.0, 8.0)
        }

    def test_twice_is_one_run_and_adds_no_point(self, uri, tmp_path):
        folder = run_folder(tmp_path)
        track(folder, uri)
        before = {name: history(uri, name) for name in (SCORE, "TFLOPs", "failed", "n")}
        track(folder, uri)
        assert {name: history(uri, name) for name in before} == before
        assert len(before[SCORE]) == 8

    def test_a_continued_run_goes_on_in_its_mlflow_run(self, uri, tmp_path):
        folder = run_folder(tmp_path, 3, summary={"state": "interrupted"})
        track(folder, uri)
        first = only_run(uri).info
        assert first.status == "KILLED"
        append(folder, 3, 8)
        (folder / "summary.json").write_text('{"state": "finished"}')
        track(folder, uri)
        assert only_run(uri).info.run_id == first.run_id
        assert only_run(uri).info.status == "FINISHED"
        assert [step for step, _ in history(uri, SCORE)] == list(range(1, 9))
        assert only_run(uri).data.metrics["n"] == 8

    def test_new_scores_replace_old_ones(self, uri, tmp_path):
        folder = run_folder(tmp_path, 2)
        track(folder, uri)
        rows = [row(0, 0.2), row(1, 1.0)]
        (folder / "records.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
        track(folder, uri)
        assert only_run(uri).data.metrics[SCORE] == 60

    def test_a_store_that_was_lost_is_refilled(self, uri, tmp_path, capfd):
        folder = run_folder(tmp_path)
        track(folder, uri)
        before = only_run(uri).data
        path = tmp_path / "new" / "mlflow.db"  # neither the file nor its folder is there
        capfd.readouterr()
        track(folder, f"sqlite:///{path}")
        assert capfd.readouterr() == ("", "")
        after = only_run(f"sqlite:///{path}").data
        assert (after.metrics, after.params) == (before.metrics, before.params)

    def test_long_values_are_named_and_changed_ones_are_reported(self, uri, tmp_path):
        settings = {"encoder": {"name": "minilm", "prefix": "x" * 101}, "limit": 5}
        folder = run_folder(
            tmp_path, settings=settings, manifest={"models": {"reader": {}, "encoder": {}}}
        )
        track(folder, uri)
        run = only_run(uri).data
        assert "encoder.prefix" not in run.params
        assert "limit" not in run.params
        assert run.tags["harness.long_params"] == "see config.yaml: encoder.prefix"
        assert run.tags["limit"] == "5"
        text = (folder / "run.yaml").read_text()
        (folder / "run.yaml").write_text(text.replace("minilm", "other"))
        track(folder, uri)
        assert only_run(uri).data.tags["harness.changed_params"] == "encoder: other"

    def test_the_worst_end_of_its_runs_is_the_suites(self, uri, tmp_path):
        own = {"starts": [{"command": ["harness", "run", "--suite=first"], "state": "interrupted"}]}
        folder = run_folder(tmp_path, method="a")
        for _ in range(2):
            track(folder, uri, suite="first")
        track(run_folder(tmp_path, summary={"state": "interrupted"}, manifest=own), uri)
        parent, children = suite(uri)
        assert [child.data.tags["suite"] for child in children] == ["first"] * 2
        assert (parent.info.run_name, parent.info.status) == ("first", "KILLED")

    def test_runs_of_one_hash_and_second_are_two_and_shards_go_on_in_theirs(
        self, uri, tmp_path, monkeypatch, fake_model
    ):
        monkeypatch.setattr("harness.engine.manifest.utc_now", lambda: "2026-01-02T03:04:05+00:00")
        data = World(questions=6, documents=3).dataset()
        folders = [go(make_plan(data, limit=4), tmp_path / name).folder for name in "abcd"]
        for folder in folders:
            track(folder, uri)
        for number in (1, 2):
            run_shard(
                make_plan(data),
                tmp_path / "b",
                ShardNumber(number, 2),
                progress=Silent(),
                command=["harness", "run"],
            )
        track(folders[1], uri)
        found = sorted(runs_of(uri, data.name), key=lambda run: run.info.start_time)
        assert sorted(run.data.metrics["n"] for run in found) == [4, 4, 4, 6]
        assert len({run.info.run_name for run in found}) == 4

    def test_the_experiment_opens_on_its_runs_and_offers_the_comparison(self, uri, tmp_path):
        track(run_folder(tmp_path), uri)
        it = client(uri)
        found = it.get_experiment_by_name("musique")
        assert found.tags["mlflow.experimentKind"] == "custom_model_development"
        view = json.loads(found.tags["mlflow.sharedViewState.harness"])
        state = json.loads(view["state"])
        assert view["name"] == "Comparison"
        assert state["selectedColumns"][:4] == [
            f"metrics.`{c}`" for c in (SCORE, "TFLOPs", "failed", "n")
        ]
        assert state["orderByKey"] == f"metrics.`{SCORE}`"
        shown = it.search_runs([found.experiment_id], state["searchFilter"])
        assert [r.data.tags["method"] for r in shown] == ["pecan"]
        link = f"#/experiments/{found.experiment_id}/runs?viewStateShareKey=harness"
        assert link in found.tags["mlflow.note.content"]

    def test_settings_of_the_user_are_in_the_name_and_a_column_of_an_older_experiment_too(
        self, uri, tmp_path
    ):
        for key, name in (("method.params.k", "met k=5 · tiny"), ("seed", "see seed=0 · tiny")):
            origins = {key: "--set", "method.name": "--method", "method.view": "default"}
            track(run_folder(tmp_path, method=key[:3], hash8=key[:4], origins=origins), uri)
            assert name in {run.info.run_name for run in runs_of(uri)}
        view = client(uri).get_experiment_by_name("musique").tags["mlflow.sharedViewState.harness"]
        for columns in ("selectedColumns", "columnOrder"):
            shown = [
                name for name in json.loads(json.loads(view)["state"])[columns] if "params" in name
            ]
            assert shown == ["params.`method.k`", "params.`seed`"]

    def test_a_name_has_no_folder_of_this_machine(self, uri, tmp_path):
        dataset = {
            "name": "musique",
            "format": "musique",
            "scorers": [SCORE],
            "data": "/home/ann/rows.jsonl",
        }
        origins = {"dataset.data": "--data"}
        track(run_folder(tmp_path, settings={"dataset": dataset}, origins=origins), uri)
        assert only_run(uri).info.run_name == "pecan dataset.data=rows.jsonl · tiny"

    def test_runs_that_differ_in_what_made_them_never_look_alike(self, uri, tmp_path):
        changes = (
            {"packages": {"torch": "2.9"}},
            {"dataset": {"fingerprint": "a" * 64}},
            {"code": {"mine": "a"}},
        )
        for n, made in enumerate(({}, {}, *changes, {"git": {"commit": "c0ffee", "dirty": True}})):
            track(
                run_folder(
                    tmp_path / str(n),
                    manifest=made | {"started": f"2026-01-0{n + 1}T03:04:05+00:00"},
                ),
                uri,
            )
        found = sorted(runs_of(uri), key=lambda run: int(run.info.start_time))
        assert len({run.info.run_name for run in found}) == 6
        made_with = [run.data.tags["made_with"] for run in found]
        assert (len(set(made_with)), made_with[0]) == (5, made_with[1])
        view = client(uri).get_experiment_by_name("musique").tags["mlflow.sharedViewState.harness"]
        assert "tags.`made_with`" in json.loads(json.loads(view)["state"])["selectedColumns"]

    def test_the_note_of_tflops_is_what_they_are(self, uri, tmp_path):
        track(run_folder(tmp_path, documents=[built(f"d{n}", 8.0) for n in range(4)]), uri)
        assert only_run(uri).data.metrics["TFLOPs"] == 1.5 + 8.0 / 2
        note = client(uri).get_experiment_by_name("musique").tags["mlflow.note.content"]
        assert "TFLOPs: a question with its share of the index" in note

    def test_a_run_without_records_yet(self, uri, tmp_path):
        track(run_folder(tmp_path, 0, summary={}), uri)
        assert (only_run(uri).data.metrics, only_run(uri).info.status) == ({}, "KILLED")

    def test_a_deleted_experiment_is_reported(self, uri, tmp_path):
        it = client(uri)
        it.delete_experiment(it.create_experiment("musique"))
        with pytest.raises(SaveError, match="'musique' was deleted; restore it"):
            track(run_folder(tmp_path), uri)


class TestFaults:
    @pytest.mark.parametrize("bad_server", [500, 200], indirect=True)
    def test_a_server_that_answers_nonsense(self, bad_server, tmp_path, monkeypatch):
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")
        with pytest.raises(SaveError, match="tracking failed at http://127"):
            track(run_folder(tmp_path), bad_server)

    def test_a_file_that_is_no_database(self, tmp_path):
        (tmp_path / "mlflow.db").write_text("not a database " * 100)
        with pytest.raises(SaveError, match="tracking failed at sqlite:.*; move the damaged /"):
            track(run_folder(tmp_path), f"sqlite:///{tmp_path / 'mlflow.db'}")

    def test_a_full_disk_is_one_sentence(self, uri, tmp_path, capfd):
        folder = run_folder(tmp_path)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # the empty store has more
        try:
            with pytest.raises(SaveError, match="disk I/O error"):
                track(folder, uri)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert "Traceback" not in capfd.readouterr().err

    @pytest.mark.parametrize("tables", [0, 6, 20])
    def test_a_store_that_was_left_half_made_is_made_anew(
        self, uri, tables, tmp_path, empty_store, monkeypatch
    ):
        half_made(tmp_path / "mlflow.db", tables)
        monkeypatch.setattr(sqlite_store, "make_store", functools.partial(shutil.copy, empty_store))
        track(run_folder(tmp_path), uri)
        assert only_run(uri).info.status == "FINISHED"
        assert not list(tmp_path.glob(".mlflow.db*"))

    def test_a_half_made_store_that_holds_a_run_is_named(self, uri, tmp_path):
        folder = run_folder(tmp_path)
        track(folder, uri)
        half_made(tmp_path / "mlflow.db", 40)
        with pytest.raises(SaveError, match="; move the damaged /.*mlflow.db away, then fill"):
            track(folder, uri)
