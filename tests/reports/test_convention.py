"""Every command that shows FLOPs counts them by --convention; tests/reports/build.py has "full" at
twice the others."""

import json
import re

import pytest

from harness.cost.flops import DEFAULT_CONVENTION
from reports.costs import notes_on_steps_without_convention
from reports.figures.curves import frame, rules_to_show
from reports.figures.replay import Rule, Scored
from reports.page import Comparison, PageOptions, page
from tests.reports.build import flops, mistake, parsed, stored
from tests.reports.figure_searches import TERA, recording, searched, searched_run, settings, step
from tests.reports.test_page import Page
from tests.reports.trial_runs import ask, found
from tests.reports.trial_runs import stored as trials_run

SEARCHED = [searched(i, [0.2, 0.6], stop=1) for i in range(2)]


@pytest.fixture
def call(tmp_path, monkeypatch, command):
    """Run the command beside results/, which has a search that stops by t_n, and trials/."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    searched_run(tmp_path / "results", SEARCHED, settings=settings(t_n=1, record_stops=2))
    stored(tmp_path / "results", [0.5, 0.25], method="full-context")
    trials_run(tmp_path / "trials", [found(0, [ask(0), ask(1)], "a", 1.0)], record_stops=None)

    return command


COMMANDS = {
    "report": (["report", "results"], "tflops"),
    "compare": (["compare", "results", "--force"], "tflops"),
    "curves": (["report", "curves", "results"], "tflops"),
    "queries": (["report", "queries", "results"], "tflops.query"),
    "trials": (["study", "trials", "trials"], "tflops"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_default_is_the_papers_and_another_can_be_chosen(name, call):
    arguments, column = COMMANDS[name]
    shown = {}
    for chosen in ([], ["--convention", DEFAULT_CONVENTION], ["--convention", "full"]):
        code, out, err = call(*arguments, *chosen, "--format", "json")
        assert (code, err.count("error")) == (0, 0), err
        shown[" ".join(chosen)] = json.loads(out)
    assert shown[""] == shown[f"--convention {DEFAULT_CONVENTION}"]
    plain, full = (
        [row[column] for row in rows if row[column]]
        for rows in (shown[""], shown["--convention full"])
    )
    assert plain
    assert full == pytest.approx([2 * value for value in plain])
    assert {row["convention"] for row in shown["--convention full"]} == {"full"}
    for chosen in (DEFAULT_CONVENTION, "full"):
        text = " ".join(call(*arguments, "--convention", chosen)[1].split())
        assert f"FLOPs under the convention {chosen}" in text


@pytest.mark.parametrize("name", [*COMMANDS, "trace"])
def test_an_unknown_convention_is_a_usage_error(name, call):
    run = "results/musique/pecan--tiny--0123abcd"
    arguments = COMMANDS[name][0] if name in COMMANDS else ["trace", run, "q0"]
    assert "Did you mean 'full'" in mistake(call(*arguments, "--convention", "ful"))


def test_trace_counts_the_steps(call):
    for chosen, cost in (([], "2"), (["--convention", "full"], "4")):
        code, out, _ = call("trace", "results/musique/pecan--tiny--0123abcd", "q0", *chosen)
        head, _, line = out.splitlines()[2:5]
        assert (code, line.split()[head.split().index("TFLOPs")]) == (0, cost)
    said = mistake(
        call(
            "trace", "results/musique/pecan--tiny--0123abcd", "q0", "--json", "--convention", "full"
        )
    )
    assert "--json has the FLOPs under every convention" in said


def test_a_run_keeps_all_conventions_so_only_a_forecast_takes_one(call):
    said = mistake(
        call("run", "--method", "bm25", "--dataset", "pocket/musique", "--convention", "full")
    )
    assert "--convention is for a forecast (--plan)" in said


def test_the_plan_names_its_convention(call):
    run = ["run", "--method", "bm25", "--dataset", "pocket/musique", "--set", "dataset.tokens=300"]
    assert call(*run, "--limit", "1", "--mlflow", "off")[0] == 0
    plan = [*run, "--limit", "2", "--plan"]
    costs = {}
    for chosen in ("all-params", "full", "executed"):
        code, out, _ = call(*plan, "--convention", chosen)
        assert code == 0
        assert f"TFLOPs by convention {chosen}" in out
        costs[chosen] = json.loads(call(*plan, "--convention", chosen, "--json")[1])["tflops"]
    assert costs["all-params"] > costs["full"] > costs["executed"] > 0


def test_the_page_and_its_chart_are_under_one_convention(tmp_path, drawn):
    run = searched_run(tmp_path, SEARCHED, settings=settings(t_n=1, record_stops=2))
    for how, chosen, cost in (
        (Comparison(), DEFAULT_CONVENTION, 1.0),
        (Comparison(convention="full"), "full", 2.0),
    ):
        made = page([run], PageOptions(comparison=how))
        assert f"TFLOPs a question, with its index ({chosen}, log)" in made
        assert f"FLOPs under the convention {chosen}" in made
        (data,) = Page(made).data
        assert data["questions"][0]["answers"][0]["steps"][0]["tflops"] == cost


def test_steps_of_an_older_run_are_known_under_full_alone(tmp_path):
    old = [{**step(i, p_yes=p), "flops": (i + 1) * TERA, "answer": "a", "answer_flops": TERA / 10}
           for i, p in enumerate((0.2, 0.6, 0.9))]  # fmt: skip
    old[2]["action"] = "study"
    row = parsed({**searched(0, [0.2, 0.6], stop=1), "steps": old, "prediction": "a"})
    replay = recording(Rule(1, 0.5), Rule(2, 0.5))
    assert replay.stop(row, Rule(2, 0.5), "full").flops == pytest.approx(3.1 * TERA)
    later = replay.stop(row, Rule(2, 0.5))
    assert (later.answer, later.flops) == ("a", None)
    assert replay.stop(row, Rule(1, 0.5)).flops == pytest.approx(2.1 * TERA), (
        "measured, so under all four"
    )
    assert notes_on_steps_without_convention([row], "full") == []
    run = searched_run(tmp_path, [row], settings=settings(t_n=1, record_stops=2))
    table = frame([Scored(run, replay, rules_to_show(replay, 2, [0.5]), {("q0", 2): 1.0})])
    (note,) = {note for notes in table["notes"] for note in notes if "--convention full" in note}
    assert note.startswith("this run kept the FLOPs of its steps under the convention full alone")
    assert re.search("kept the FLOPs", page([run]))
    assert flops(1.0)["full"] == 2 * TERA
