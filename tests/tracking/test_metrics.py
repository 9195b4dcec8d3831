import pytest

from harness.storage.run_folder import read_run
from harness.tracking.metrics import final_metrics, run_params, run_tags, running_points
from reports.facts import suite_name
from reports.main_table import frame
from tests.reports.build import SCORE, built, record, stored, stored_config, usage, write_run


def test_settings_of_parts_that_the_run_did_not_use_and_defaults_are_left_out():
    asked = {"base_url": "http://h/v1", "timeout": 9.0, "logprobs": 5}
    builder = {"name": "far", "backend": "endpoint", "dtype": "auto", "timeout": 7.0}
    changes = {
        "model": {
            "name": "tiny",
            "backend": "hf",
            "dtype": "float32",
            "offers": {"a": "x", "b": "y"},
        }
        | asked,
        "roles": {"builder": builder, "searcher": {"name": "idle", "backend": "hf"}},
        "encoder": {"name": "minilm", "pooling": "mean"},
        "reranker": {"name": "bge", "max_length": 8, "batch_size": 4, "device": "cpu"},
    }
    models = {"reader": {"adapters": {"a": "0f"}}, "builder": {}, "reranker": {}}
    short, _ = run_params(stored_config(**changes), models)
    reader = {
        "": "tiny",
        ".dtype": "float32",
        ".base_url": "http://h/v1",
        ".timeout": "9.0",
        ".logprobs": "5",
    }
    expected = {f"model{key}": value for key, value in reader.items()} | {
        "reranker": "bge",
        "reranker.max_length": "8",
    }
    expected |= {
        "roles.builder": "far",
        "roles.builder.backend": "endpoint",
        "roles.builder.timeout": "7.0",
    }
    plain = ("method", "dataset", "seed")
    assert {name: value for name, value in short.items() if not name.startswith(plain)} == expected


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        ([["harness", "run", "--suite", "demo"]], "demo"),
        ([["harness", "run", "--suite=demo"], ["harness", "run"]], "demo"),
        ([["harness", "run", "--suite", "a"], ["harness", "run", "--suite", "b"]], "b"),
        ([["harness", "run", "--method", "bm25"]], None),
        ([["harness", "run", "--suite"]], None),
        ([], None),
    ],
)
def test_the_suite_of_a_run(tmp_path, commands, expected):
    run = stored(tmp_path, [1.0], manifest={"starts": [{"command": c} for c in commands]})
    assert suite_name(run) == (expected or "")


def test_tags_leave_out_what_is_not_known(tmp_path):
    run = stored(tmp_path, [1.0], manifest={"git": None}, settings={"profile": "pocket"})
    found = run_tags(run, "demo")
    assert (found["profile"], found["suite"]) == ("pocket", "demo")
    assert not {"git_commit", "git_dirty"} & found.keys()
    assert "suite" not in run_tags(run, None)


def test_a_mean_over_the_questions_so_far_at_each_step(tmp_path):
    points = running_points(stored(tmp_path, [1.0, None, 0.5]))
    assert [p for p in points if p[1] == SCORE] == [
        (1, SCORE, 100.0),
        (2, SCORE, 50.0),
        (3, SCORE, 50.0),
    ]
    assert points[-2:] == [(3, "TFLOPs", 1.5), (3, "failed", 1.0)]


def test_what_an_index_costs_is_part_of_the_mean(tmp_path):
    points = running_points(stored(tmp_path, [1.0, 0.5], documents=[built("d0", 4.0)]))
    assert [value for _, name, value in points if name == "TFLOPs"] == [3.5, 3.5]


def test_money_and_latency_are_metrics_of_a_servers_run(tmp_path):
    billed = usage(0.0, uncounted=1) | {
        "billed": {"reader": {"input": 1000, "cached": 0, "output": 100}}
    }
    model = {
        "name": "m",
        "backend": "endpoint",
        "price": {"input": 1.0, "cached": None, "output": 10.0},
    }
    rows = [
        record(n, 1.0, usage={"answer": billed | {"seconds": n + 1.0, "queued": 3.0}})
        for n in range(3)
    ]
    run = read_run(write_run(tmp_path, rows, settings={"model": model}))
    found = final_metrics(run, frame([run]))
    names = ("money", "money.run", "seconds", "seconds.p50", "seconds.p95", "seconds.queue")
    assert [found[f"usage/{name}"] for name in names] == [0.002, 0.006, 2.0, 2.0, 2.9, 3.0]
    assert "TFLOPs" not in found
