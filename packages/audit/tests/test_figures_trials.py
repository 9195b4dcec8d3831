"""Maxima of trials read out of searches made by hand, and the command on a stored run."""

import json
from functools import partial

import pytest
from harness_audit.trials import frame, panels, requests_at_stop, sections

from harness.storage.run_folder import read_run
from methods.qrmem.config import QRMeMConfig
from methods.qrmem.method import QRMeM
from reports.figures.replay import Recorded, Scored, Trials, recorded_rule, stops_to_score
from tests.reports.build import mistake, parsed, record, write_run
from tests.reports.figure_searches import TERA, own_rows, step
from tests.reports.trial_runs import F1, Q0, Q1, RECORDS, ask, found, settings, stored


def recorded_up_to(own, most):
    return Recorded(
        Trials(own), Trials(most), QRMeM(QRMeMConfig(max_trials=own, record_stops=most))
    )


TOLD = recorded_up_to(1, 2)


def rules(count):
    return [Trials(number) for number in range(count)]


def answers(row):
    asked = parsed(row)
    found_stops = [TOLD.stop(asked, rule) for rule in rules(4)]
    stops = [stop for stop in found_stops if stop is not None]
    return [
        (stop.answer, stop.is_own_stop, requests_at_stop(asked, stop), stop.flops) for stop in stops
    ]


def test_stops_by_hand():
    # Recorded: the requests so far and one to read; the run's own: what was booked, the study left
    # out.
    assert answers(RECORDS[0]) == [
        ("wrong", False, 2, 1.1 * TERA),
        *[("a", True, 2, 1.5 * TERA)] * 3,
    ]
    assert answers(RECORDS[1]) == [
        ("wrong", False, 2, 1.1 * TERA),
        ("wrong", True, 4, 1.5 * TERA),
        ("b", False, 3, 3.0 * TERA),
        ("b", False, 3, 3.0 * TERA),  # it ended by itself, so more trials change nothing
    ]


def test_what_was_not_recorded_is_not_guessed():
    cut = parsed({**RECORDS[1], "steps": [*Q1[:-1], ask(2, "b", action="study")]})
    assert TOLD.stop(cut, Trials(3)) is None
    silent = parsed({**RECORDS[1], "steps": [ask(0), ask(1)]})
    assert [recorded_up_to(1, 1).stop(silent, rule) is None for rule in rules(3)] == [
        True,
        False,
        True,
    ]
    assert TOLD.stop(parsed({**RECORDS[1], "steps": []}), Trials(1)) is None


def test_what_had_been_read_is_what_came_and_did_not_leave():
    span = {"kind": "span", "document_id": "d", "start": 0, "end": 5, "text": "", "sources": []}
    both = {**span, "document_id": "", "sources": [["d", 5, 9], ["e", 0, 3]]}
    steps = [
        step(1, shown=both),
        step(0, shown=span),
        step(0, node=None, shown=None, scores={"segment": 0.0}),
        ask(1),
    ]
    parts = [
        {**both, "document_id": d, "start": a, "end": b, "sources": []}
        for d, a, b in both["sources"]
    ]
    assert Trials.shown_after(steps[:2]) == [span, *parts]
    assert Trials.shown_after(steps) == parts


def test_runs_without_trials_are_told_apart(tmp_path):
    assert recorded_rule(stored(tmp_path / "a"), Trials) == TOLD
    assert recorded_rule(
        stored(tmp_path / "b", max_trials=5, record_stops=None), Trials
    ) == recorded_up_to(5, 5)
    assert recorded_rule(stored(tmp_path / "c", [record(0, 0.5)]), Trials) is None
    assert recorded_rule(read_run(write_run(tmp_path / "d", RECORDS)), Trials) is None


# q1's answer after two updates is right, all others that were recorded are not.
VALUES = {("q0", 0): 0.0, ("q2", 0): 0.0, ("q2", 3): 1.0}


def test_the_table_by_hand(tmp_path):
    run = stored(tmp_path)
    assert set(stops_to_score(run, TOLD, rules(3))) == set(VALUES)
    table = frame([Scored(run, TOLD, rules(3), VALUES)], F1)
    rows = table.to_dict("records")
    assert [(r["trials"], r["own"], r["n"], r["failed"], r["covered"]) for r in rows] == [
        (0, False, 3, 1, 3), (1, True, 3, 1, 3), (2, False, 3, 1, 3),
    ]  # fmt: skip
    assert [r["mean"] for r in rows] == pytest.approx([0.0, 1 / 3, 2 / 3])
    assert [r["requests"] for r in rows] == pytest.approx([2.0, 3.0, 2.5])
    assert [r["tflops"] for r in rows] == pytest.approx([1.1, 1.5, 2.25])
    ((title, shown),) = sections(table)
    assert title == "musique · qrmem · tiny · over max trials"
    assert list(shown["trials"]) == [0, 1, 2]
    (panel,) = panels(table)
    assert [p.y for p in panel.lines[0].points] == pytest.approx([0.0, 100 / 3, 200 / 3])
    assert [line.on_right_axis for line in panel.lines] == [False, True]


def test_one_question_that_is_not_covered_empties_the_row(tmp_path):
    run = stored(tmp_path, [RECORDS[0], {**RECORDS[1], "steps": Q1[:2]}])
    table = frame([Scored(run, TOLD, rules(4), VALUES)], F1)
    assert list(table["mean"].isna()) == [False, False, True, True]
    assert table["notes"][2][0] == (
        "not covered: what 1 of 2 questions answer after 2 updates was not recorded; run it with "
        "--record-stops 2"
    )
    assert "--record-stops 3" in table["notes"][3][0]
    (panel,) = panels(table)
    assert [p.x for p in panel.lines[0].points] == [0, 1]


def test_runs_that_differ_in_their_maximum_are_one_curve(tmp_path):
    first = stored(tmp_path / "a")
    other = [found(0, Q0, "a", 0.25), found(2, [ask(0), ask(1), ask(2)], "c", 0.75)]
    second = stored(tmp_path / "b", other, max_trials=2, record_stops=None)
    parts = [
        Scored(first, TOLD, rules(3), VALUES),
        Scored(second, recorded_up_to(2, 2), rules(3), {}),
    ]
    table = frame(parts, F1)
    ((_, shown),) = sections(table)
    # The second run's own maximum comes before what the first one recorded of it.
    assert list(shown["trials"]) == [0, 1, 2]
    assert list(shown[F1]) == pytest.approx([0.0, 1 / 3, 0.5])


@pytest.fixture
def call(tmp_path, monkeypatch, command):
    """Run the command beside results/ with a run over rows.jsonl."""
    monkeypatch.chdir(tmp_path)
    data, manifest = own_rows({"q0": "a", "q2": "b", "q4": "q4"})
    kept = [{**r, "document_ids": [r["question_id"]]} for r in RECORDS]
    write_run(
        tmp_path / "results",
        kept,
        dataset="mine",
        method="qrmem",
        settings=settings() | data,
        manifest=manifest,
    )
    write_run(tmp_path / "plain", [record(0, 0.5)])

    return partial(command, "study", "trials")


def test_the_command_scores_with_the_gold_of_the_rows(call, tmp_path):
    code, out, err = call("results", "plain", "--format", "json")
    assert (code, err) == (0, "")
    assert {row["trials"]: row["mean"] for row in json.loads(out)} == pytest.approx(
        {0: 0.0, 1: 1 / 3, 2: 2 / 3}
    )
    code, text, _ = call(
        "results",
    )
    assert code == 0
    assert text.startswith("mine · qrmem · tiny · over max trials\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["plain"], "no run here has trials, so there is no curve"),
        (["results", "--data", "gone.jsonl"], "recorded answers cannot be scored"),
    ],
)
def test_mistakes_are_one_sentence(arguments, sentence, call):
    assert sentence in mistake(call(*arguments))
