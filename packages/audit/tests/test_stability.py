"""Rankings under every choice at once: planted judges and scorers that turn pairs around are
named."""

import json
import unittest.mock
from dataclasses import replace

import numpy as np
import pytest
from harness_audit import stability

from harness.storage.manifest_file import DatasetRows
from harness.storage.run_folder import read_run
from reports.gold_rows import runs_with_rows
from reports.page import page
from tests.reports.build import answered, write_run
from tests.reports.conftest import empty_drawing  # noqa: F401 - a fixture

F1 = "longbench.qa_f1_score"
GOLD = "Mira Toren"
LENIENT, STRICT, OTHER = "judge.lenient", "judge.strict", "judge.other"
JUDGED = {
    LENIENT: {"model": {"name": "big"}, "prompt_version": "1"},
    STRICT: {"model": {"name": "big"}, "prompt_version": "2"},
    OTHER: {"model": {"name": "small"}, "prompt_version": "2"},
}


def run(root, method, right, more=None, n=60):
    """A run with the first `right` of `n` questions right, and so many under each further score."""
    rows = []
    for k in range(n):
        scores = {F1: float(k < right)} | {
            name: float(k < count) for name, count in (more or {}).items()
        }
        notes = {
            "judges": {name: {"verdict": "yes"} for name in more or {} if name.startswith("judge.")}
        }
        text = GOLD if k < right else "Ardun"
        rows.append(answered(k, 0.0, [GOLD], prediction=text, scores=scores, notes=notes))
    dataset = {"name": "musique", "format": "retrieved", "scorers": [F1]}
    manifest = {
        "scorers": {F1: "1"},
        "judges": {name: JUDGED[name] for name in more or {} if name in JUDGED},
    }
    return read_run(
        write_run(root, rows, method=method, settings={"dataset": dataset}, manifest=manifest)
    )


def of(*runs):
    (found,) = stability.analyse_runs(runs_with_rows(runs, None, print))
    return found


@pytest.mark.parametrize(
    "judged", [{}, {STRICT: 0}], ids=["no judge", "one that says no to all, so it is left out"]
)
def test_a_ranking_that_survives(tmp_path, judged):
    found = of(run(tmp_path, "good", 55, judged), run(tmp_path, "bad", 5, judged))
    assert found.flips == {}
    assert found.sentence.startswith("1 of 1 pairs of methods keep their order by ")
    assert "judge" not in found.sentence
    ((_, table),) = stability.sections([found])
    assert (f"the same for all methods, so left out: {STRICT}" in table["notes"][0]) == bool(judged)
    assert table["rank by any choice"].tolist() == ["1", "2"]


def test_runs_over_other_rows_of_a_data_set_are_told_apart(tmp_path):
    runs = [run(tmp_path, "good", 55), run(tmp_path, "bad", 5)]
    rows = DatasetRows(fingerprint="a" * 64)
    runs[1] = replace(runs[1], manifest=runs[1].manifest.with_values(dataset=rows))
    found = stability.analyse_runs(runs_with_rows(runs, None, print))
    assert [title for title, _ in stability.sections(found)] == [
        "musique (rows fffffff) · tiny",
        "musique (rows aaaaaaa) · tiny",
    ]


def test_a_scorer_that_swaps_two_methods_is_named(tmp_path):
    swap = "mine.swap"
    found = of(
        run(tmp_path, "first", 55, {swap: 30}),
        run(tmp_path, "second", 30, {swap: 55}),
        run(tmp_path, "third", 5, {swap: 5}),
    )
    assert found.flips == {swap: 1}
    assert found.sentence.startswith("2 of 3 pairs of methods keep their order by ")
    assert "; 1 (33 %) change it, by mine.swap 1." in found.sentence
    _, (_, table) = stability.sections([found])
    assert table.drop(columns="notes").to_dict("records") == [
        {
            "choice": swap,
            "kind": "scorer",
            "pairs": "1",
            "in draws": "100 %",
            "which": "first, second",
        }
    ]


def test_a_lenient_judge_is_named_with_its_prompt(tmp_path):
    found = of(
        run(tmp_path, "short", 40, {STRICT: 40, OTHER: 41, LENIENT: 41}),
        run(tmp_path, "long", 10, {STRICT: 10, OTHER: 11, LENIENT: 60}),
    )
    assert found.flips == {LENIENT: 1}
    kinds = dict(zip(found.table["choice"], found.table["kind"], strict=True))
    assert {name: kinds[name] for name in JUDGED} == {
        LENIENT: "judge prompt",
        STRICT: "judge prompt",
        OTHER: "judge",
    }
    assert "1 judge, 2 judge prompts and" in found.sentence


@pytest.mark.parametrize(
    ("first", "second", "n", "flips"),
    [
        (31, 30, 60, 1),  # one question apart
        (30, 30, 60, 1),  # a tie has no order to keep
        (2, 0, 2, 1),  # two questions say nothing
        (40, 30, 60, 0),
    ],
)
def test_few_questions_are_flipped_by_their_draw(tmp_path, first, second, n, flips):
    found = of(run(tmp_path, "one", first, n=n), run(tmp_path, "two", second, n=n))
    assert found.flips.get(stability.DRAW, 0) == flips
    assert ("; 1 may change it with other questions" in found.sentence) == bool(flips)
    assert " change it, by" not in found.sentence


def test_equal_methods_are_rarely_called_settled():
    """Of 100 tables of six equal methods over 50 documents at most 5 % have a settled pair, and 3
    standard errors."""
    rng = np.random.default_rng(0)
    named, clusters = [f"m{n}" for n in range(6)], [str(n) for n in range(50)]

    def settled(means):
        columns = {
            name: list((rng.random(50) < mean).astype(float))
            for name, mean in zip(named, means, strict=True)
        }
        means = {name: sum(values) / 50 for name, values in columns.items()}
        band = unittest.mock.Mock(
            methods=named, means={F1: means}, headline=F1, family_by_scorer={F1: "own"}
        )
        band.values_by_scorer, band.cluster_labels_by_scorer = {F1: columns}, {F1: clusters}
        found = stability._compare_pairs(band, {})
        return not found.table["flips"][found.table["choice"] == stability.DRAW].all()

    assert sum(settled([0.5] * 6) for _ in range(100)) <= 0.05 * 100 + 6
    assert settled([0.05, 0.95, 0.5, 0.5, 0.5, 0.5])


def test_the_command_and_the_page(tmp_path, command):
    runs = run(tmp_path, "good", 55, {STRICT: 50}), run(tmp_path, "bad", 5)
    assert (
        f"not of all methods, so left out: {STRICT}"
        in command("report", "stability", str(tmp_path))[1]
    )
    rows = json.loads(command("report", "stability", str(tmp_path), "--format", "json")[1])
    assert {(row["a"], row["b"], row["flips"], row["model"]) for row in rows} == {
        ("good", "bad", False, "tiny")
    }
    assert f"tiny: {of(*runs).sentence}" in page(runs)


def test_a_big_page_leaves_it_to_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(stability, "_MAX_RESCORED_ANSWERS", 5)
    sentence = "tells whether the ranking of 120 answers is stable"
    assert sentence in page([run(tmp_path, "good", 55), run(tmp_path, "bad", 5)])
