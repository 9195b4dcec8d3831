from __future__ import annotations

from typing import Any

import pytest

from harness import scorers
from harness.storage.run_folder import StoredRun
from harness.tracking.metrics import COLUMNS, first_columns, paper_columns, params, running_points, suite_of, tags
from tests.reports.build import SCORE, config, stored


def test_every_column_is_a_scorer_that_exists() -> None:
    named = [name for names in COLUMNS.values() for name in names]
    assert set(named) <= set(scorers.names())
    assert len(named) == len(set(named))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["longbench.qa_f1_score", "flashrag.f1"], {"F1": "longbench.qa_f1_score"}),
        (
            ["flashrag.acc", "flashrag.em", "flashrag.f1"],
            {"F1": "flashrag.f1", "EM": "flashrag.em", "Acc": "flashrag.acc"},
        ),
        (["alce.str_em"], {}),
    ],
)
def test_a_column_is_the_first_scorer_a_run_has(names: list[str], expected: dict[str, str]) -> None:
    assert paper_columns(names) == expected


class TestParams:
    def test_short_values_under_their_names_for_set(self) -> None:
        whole = config(
            "musique", "pecan", "tiny", {"encoder": {"name": "minilm", "prefix": "x" * 101, "revision": None}}
        )
        short, long = params(whole)
        assert short["method"] == "pecan"
        assert short["method.k"] == "5"
        assert short["encoder"] == "minilm"
        assert long == ["encoder.prefix"]
        assert not {"limit", "failed", "encoder.revision", "dataset.scorers", "method.implementation"} & short.keys()

    def test_no_value_is_longer_than_a_hundred_characters(self) -> None:
        short, long = params({"a": {"b": "y" * 100, "c": ["z" * 98]}, "d": {}})
        assert short == {"a.b": "y" * 100}
        assert long == ["a.c"]


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
def test_the_suite_of_a_run(tmp_path: Any, commands: list[list[str]], expected: str | None) -> None:
    run = stored(tmp_path, [1.0], manifest={"starts": [{"command": c} for c in commands]})
    assert suite_of(run) == expected


def changed(run: StoredRun, **settings: Any) -> StoredRun:
    run.config.update(settings)
    return run


def test_tags_leave_out_what_is_not_known(tmp_path: Any) -> None:
    run = changed(stored(tmp_path, [1.0], manifest={"git": None}), profile="pocket")
    found = tags(run, "demo")
    assert (found["profile"], found["suite"]) == ("pocket", "demo")
    assert not {"git_commit", "git_dirty", "columns"} & found.keys()
    assert "suite" not in tags(run, None)


def test_a_headline_that_no_paper_has_keeps_its_name_and_scale(tmp_path: Any) -> None:
    run = stored(tmp_path, [0.5])
    assert first_columns(run) == [f"scores/{SCORE}", "TFLOPs", "n", "failed"]
    assert running_points(run)[0] == (1, f"running/{SCORE}", 0.5)


class TestRunning:
    def test_a_mean_over_the_questions_so_far_at_each_step(self, tmp_path: Any) -> None:
        points = running_points(stored(tmp_path, [1.0, None, 0.5]))
        assert [p for p in points if p[1] == f"running/{SCORE}"] == [
            (1, f"running/{SCORE}", 1.0),
            (2, f"running/{SCORE}", 0.5),
            (3, f"running/{SCORE}", 0.5),
        ]
        assert points[-2:] == [(3, "running/TFLOPs", 1.5), (3, "running/failed", 1.0)]

    def test_skipped_failures_are_no_zeros(self, tmp_path: Any) -> None:
        run = changed(stored(tmp_path, [None, 0.5]), failed="skip")
        assert running_points(run)[:2] == [(1, "running/failed", 1.0), (2, f"running/{SCORE}", 0.5)]
