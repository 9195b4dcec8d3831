"""Curves out of recorded searches: means worked by hand, what is not covered, the drawing, and the
command."""

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from reports import main_table
from reports.facts import run_labels
from reports.figures import plot
from reports.figures.curves import frame, rows_to_draw, rules_to_show
from reports.figures.replay import Rule, Scored, recorded_rule, stops_to_score
from reports.figures.rule_table import STOP_SETTINGS
from tests.reports.build import SCORE, mistake, record
from tests.reports.figure_searches import F1, own_rows, searched, searched_run, settings, step

# Three questions, recorded until 3 Yes at t_p 0.5. Stops of t_n = 1, 2, 3:
#   q0   0.2 0.6 0.4 0.9 0.7      1, 3, 4       gold "c"     answers a b c d e
#   q1   0.9 0.8 0.7              0, 1, 2       gold "y"             x y z
#   q2   0.1 0.2                  1, 1, 1       gold "n"             m n           the graph ended
SEARCHES = [
    ([0.2, 0.6, 0.4, 0.9, 0.7], "abcde", 1),
    ([0.9, 0.8, 0.7], "xyz", 0),
    ([0.1, 0.2], "mn", 1),
]
GOLD = {"q0": "d", "q1": "y", "q2": "n"}
# Right by t_n: 1: b x n -> 1/3; 2: d y n -> 1; 3: e z n -> 1/3. TFLOPs of probe i: (i + 1) + 0.1.
MEANS = {1: 1 / 3, 2: 1.0, 3: 1 / 3}
TFLOPS = {1: (2.1 + 1.1 + 2.1) / 3, 2: (4.1 + 2.1 + 2.1) / 3, 3: (5.1 + 3.1 + 2.1) / 3}


def recording(root, extra=None, **changes):
    rows = []
    for i, (p, answers, stop) in enumerate(SEARCHES):
        scores = {SCORE: float(answers[stop] == GOLD[f"q{i}"])}
        rows.append(searched(i, p, list(answers), stop=stop, scores=scores, document_ids=[f"d{i}"]))
    made = settings(record_stops=3) | changes.pop("settings", {})
    return searched_run(root, [*rows, *(extra or [])], settings=made, **changes)


def rule_of(run):
    return recorded_rule(run, Rule)


def judged(run, *choices):
    rules = rules_to_show(rule_of(run), *choices)
    stops = stops_to_score(run, rule_of(run), rules)
    return Scored(
        run, rule_of(run), rules, {k: float(stop.answer == GOLD[k[0]]) for k, stop in stops.items()}
    )


def rows_of(run, *choices):
    table = frame([judged(run, *choices)])
    return {(row["t_n"], row["t_p"]): row for row in table.to_dict("records")}


def test_means_costs_and_nodes_worked_by_hand(tmp_path):
    found = rows_of(recording(tmp_path), 3, [0.5])
    assert {n: found[n, 0.5]["mean"] for n in (1, 2, 3)} == pytest.approx(MEANS)
    assert {n: found[n, 0.5]["tflops"] for n in (1, 2, 3)} == pytest.approx(TFLOPS)
    assert [found[n, 0.5]["nodes"] for n in (1, 2, 3)] == pytest.approx([5 / 3, 8 / 3, 10 / 3])
    assert [found[n, 0.5]["own"] for n in (1, 2, 3)] == [True, False, False]
    assert all(row["mean.low"] <= row["mean"] <= row["mean.high"] for row in found.values())
    assert all(math.isnan(row["tflops.low"] or math.nan) for row in found.values()), (
        "three documents"
    )


def test_the_runs_own_rule_is_the_row_of_the_runs_table(tmp_path):
    run = recording(tmp_path, extra=[record(7, None, document_ids=["d9"])])
    own = rows_of(run)[1, 0.5]
    (table,) = main_table.frame([run]).to_dict("records")
    for end in ("", ".low", ".high"):
        assert own[f"mean{end}"] == table[f"{SCORE}{end}"]
        assert own[f"tflops{end}"] == pytest.approx(table[f"tflops{end}"], nan_ok=True)
    assert (own["n"], own["failed"], own["covered"]) == (4, 1, 4)


def test_failed_questions_count_as_the_run_says(tmp_path):
    failed = [record(7, None, document_ids=["d9"])]
    zero = rows_of(recording(tmp_path / "a", extra=failed), 2, [0.5])[2, 0.5]
    skip = rows_of(recording(tmp_path / "b", extra=failed, settings={"failed": "skip"}), 2, [0.5])[
        2, 0.5
    ]
    assert (zero["mean"], skip["mean"]) == (pytest.approx(3 / 4), 1.0)
    assert zero["tflops"] == skip["tflops"] == pytest.approx(TFLOPS[2])


def test_what_was_not_recorded_is_said_and_not_guessed(tmp_path):
    found = rows_of(recording(tmp_path), 4, [0.5, 0.75])
    empty = found[4, 0.5]
    # q2 ended with its graph, so a fourth Yes would have stopped it there too; q0 and q1 had all
    # they were asked for.
    assert empty["covered"] == 1
    assert all(
        pd.isna(empty[name]) for name in ("mean", "mean.low", "tflops", "tflops.high", "nodes")
    )
    assert empty["notes"][0] == (
        "not covered: t_n = 4, t_p = 0.5 would have searched on in 2 of 3 questions; run it with "
        "--record-stops 4 "
        "--record-t-p 0.5"
    )
    # Above the recorded t_p a rule may still be held by every question: 0.9 for q0, 0.9 for q1, the
    # end for q2.
    few = ("documents: 3; this test cannot find a difference with fewer than 6",)
    assert (found[1, 0.75]["covered"], found[1, 0.75]["notes"]) == (3, few)
    assert found[2, 0.75]["covered"] == 2  # q1 has 0.9 and 0.8; q0 only 0.9


def test_an_error_that_ended_a_recording_is_named(tmp_path):
    rows = list(recording(tmp_path / "whole").records)
    ended = step(
        9,
        action="study",
        node=None,
        note="recording ended after 2 probes: MemoryError: out of memory",
    )
    rows[2] = replace(rows[2], steps=[*rows[2].steps, ended])
    found = rows_of(searched_run(tmp_path / "ended", rows, settings=settings(record_stops=3)), 4)
    assert found[1, 0.5]["covered"] == 3
    notes = found[4, 0.5]["notes"]
    assert (
        notes[0]
        == "not covered: an error ended the recording before t_n = 4, t_p = 0.5 in 1 of 3 questions"
    )
    note = "not covered: t_n = 4, t_p = 0.5 would have searched on in 2 of 3 questions; run it with"
    assert notes[1].startswith(note)


@pytest.mark.parametrize(
    ("dtype", "parallel", "said"),
    [("bfloat16", 4, True), ("bfloat16", 1, False), ("float32", 4, False)],
)
def test_stops_recorded_in_half_precision_with_questions_in_flight_say_so(
    tmp_path, dtype, parallel, said
):
    manifest = {
        "models": {"searcher": {"dtype": dtype}},
        "starts": [{"command": []}, {"parallel": parallel}],
    }
    run = recording(tmp_path, manifest=manifest)
    for row in rows_of(run, 2).values():
        found = [
            note for note in row["notes"] if "bfloat16 with up to 4 questions in flight" in note
        ]
        assert bool(found) == (said and not row["own"])


def test_the_grid_of_a_run(tmp_path):
    one = rule_of(recording(tmp_path / "a"))
    assert {rule.t_p for rule in rules_to_show(one)} == {0.1, 0.2, 0.3, 0.4, 0.5}
    assert {rule.t_n for rule in rules_to_show(one)} == set(range(1, 9))
    assert rules_to_show(one, 2, [0.9]) == (Rule(1, 0.5), Rule(1, 0.9), Rule(2, 0.5), Rule(2, 0.9))
    wide = rule_of(recording(tmp_path / "b", settings=settings(record_stops=2, record_t_p=0.97)))
    assert max(rule.t_p or 0 for rule in rules_to_show(wide)) == 0.97
    assert rules_to_show(rule_of(recording(tmp_path / "c", settings=settings()))) == (Rule(1, 0.5),)
    greedy = rule_of(recording(tmp_path / "d", settings=settings(record_stops=2, verdict="greedy")))
    assert rules_to_show(greedy, 2) == (Rule(1, None), Rule(2, None))


def test_plain_runs_that_differ_in_their_rule_alone_are_one_curve(tmp_path):
    def plain(t_n, **more):
        rows = [searched(i, p[: s + 1], stop=s) for i, (p, _, s) in enumerate(SEARCHES)]
        return searched_run(
            tmp_path, rows, settings=settings(t_n=t_n, **more), hash8=f"0000000{t_n}"
        )

    runs = [plain(1), plain(2), recording(tmp_path, hash8="0000000a")]
    assert run_labels(runs, STOP_SETTINGS) == ["pecan"] * 3
    other = searched_run(
        tmp_path, runs[0].records, settings=settings(chunk_tokens=9), hash8="0000000b"
    )
    assert run_labels([*runs, other], STOP_SETTINGS) == ["pecan"] * 3 + ["pecan chunk_tokens=9"]
    (curve,) = rows_to_draw(frame([judged(run, 3) for run in runs]))
    assert list(curve.over_n["t_n"]) == [1, 2, 3]
    assert list(curve.over_n["own"]) == [
        True,
        True,
        False,
    ]  # a run that was made comes before a replayed one
    assert list(curve.over_p["t_p"]) == [0.1, 0.2, 0.3, 0.4, 0.5]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"manifest": {"dataset": {"fingerprint": "a" * 64}}}, "rows aaaaaaa"),
        ({"manifest": {"packages": {"longdoc-harness": "0.2"}}}, "longdoc-harness 0.2"),
        (
            {"manifest": {"models": {"reader": {"weights": "tiny", "template": "t"}}}},
            "2026-01-02 03:04, 0000000b",
        ),
        ({"extra": [record(7, 0.5)]}, "2026-01-02 03:04, 0000000b"),  # another question
        ({"settings": {"failed": "skip"}}, "2026-01-02 03:04, 0000000b"),
    ],
)
def test_runs_that_differ_in_what_made_them_are_two_curves(more, words, tmp_path):
    runs = [recording(tmp_path, hash8="0000000a"), recording(tmp_path, hash8="0000000b", **more)]
    curves = {row["method"] for row in frame([judged(run, 3) for run in runs]).to_dict("records")}
    assert len(curves) == 2
    assert f"pecan ({words})" in curves


@pytest.fixture
def call(tmp_path, monkeypatch, command):
    """Run the command beside results/ with a recording over rows.jsonl."""
    monkeypatch.chdir(tmp_path)
    dataset, manifest = own_rows(GOLD)
    found = [
        searched(
            i, p, list(a), stop=s, scores={F1: float(a[s] == GOLD[f"q{i}"])}, document_ids=[f"q{i}"]
        )
        for i, (p, a, s) in enumerate(SEARCHES)
    ]
    made = settings(record_stops=3) | dataset
    searched_run(tmp_path / "results", found, dataset="mine", settings=made, manifest=manifest)
    return partial(command, "report", "curves")


def test_the_command_scores_with_the_gold_of_the_rows(call, tmp_path):
    code, out, err = call("--format", "json", "--t-p", "0.5", "--t-n", "3")
    assert (code, err) == (0, "")
    rows = json.loads(out)
    assert {row["t_n"]: row["mean"] for row in rows} == pytest.approx(MEANS)
    assert {row["t_n"]: row["tflops"] for row in rows} == pytest.approx(TFLOPS)
    (run,) = (tmp_path / "results" / "mine").iterdir()
    code, text, _ = call(str(run), "--t-n", "4")
    assert code == 0
    assert text.startswith("mine · pecan · tiny · over t_n\n")
    assert "mine · pecan · tiny · over t_p" in text
    assert "[1] not covered: t_n = 4, t_p = 0.5" in text


def test_rows_that_changed_and_a_scorer_that_changed(call, tmp_path):
    (run,) = (tmp_path / "results" / "mine").iterdir()
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, "scorers": {F1: "0"}}))
    assert "harness score results/mine/" in mistake(call())
    (run / "manifest.json").write_text(json.dumps(manifest))
    Path("rows.jsonl").write_text('{"id": "q0", "gold": "other"}\n')
    assert "not those the run was made with" in mistake(call())


def test_runs_without_a_rule(call, tmp_path):
    searched_run(tmp_path / "other", [record(0, 0.5)])
    assert "--record-stops 8" in mistake(call("other"))
    searched_run(tmp_path / "plain", [searched(0, [0.2, 0.9], stop=1)], settings=settings())
    assert "no run here recorded other stops than its own: there is no curve" in mistake(
        call("plain")
    )


def test_the_axis_of_costs_begins_at_0(call, monkeypatch):
    ends, set_axis = {}, plot.set_axis

    def recorded(axis, spec):
        set_axis(axis, spec)
        ends[spec.name] = axis.get_view_interval()

    monkeypatch.setattr(plot, "set_axis", recorded)
    assert call("--out", "curves.svg")[0] == 0
    lows = [low for name, (low, _) in ends.items() if name.startswith("TFLOPs a question")]
    assert lows == [0.0]
