"""The row of a method in tables has its plain name only where it is the preset's own method."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.config import presets
from harness.config.layers import Choices
from harness.config.run_label import table_label
from harness.config.yaml_tree import parse_assignments
from harness.engine.plan import PlannedRun, plan_choices
from harness.storage.manifest_file import RunManifest
from harness.storage.run_folder import StoredRun
from harness.storage.summary_file import RunSummary
from reports import facts
from reports.config_difference import config_difference
from reports.facts import run_labels
from reports.figures.rule_table import STOP_SETTINGS


def planned(method: str, *sets: str, dataset: str = "pocket/musique", **more) -> PlannedRun:
    """A planned run of a scripted model, whose window holds every method's sizes."""
    assignments = parse_assignments((f"model.script={SCRIPT}", *sets), "")
    return plan_choices(
        Choices(method=method, dataset=dataset, model="scripted", sets=assignments, **more)
    )


def told(plan: PlannedRun) -> str:
    return table_label(plan.config.method.model_dump(mode="json"))


SCRIPT = Path(__file__).with_name("label_script.yaml")
PROMPT = "method.prompts.second turn=Answer. {instruction}{options}"
LABELS = [
    ("pecan", (), None, "pecan"),
    ("pecan", (), "pocket", "pecan [pocket]"),
    ("closed-book", (), "pocket", "closed-book"),
    ("full-context", (), "pocket", "full-context"),
    ("raptor-ct", (), "pocket", "raptor-ct [pocket]"),  # its prompt alone
    ("dragon", (), "pocket", "dragon[minilm] [pocket]"),
    ("pecan", ("method.chunk_tokens=200",), None, "pecan [chunk_tokens=200]"),
    ("pecan", ("method.chunk_tokens=300",), None, "pecan"),  # what the preset has anyway
    ("pecan", ("method.chunk_tokens=200",), "pocket", "pecan [pocket, chunk_tokens=200]"),
    ("pecan", ("method.t_n=2", "method.attention=false"), None, "pecan [t_n=2, attention=false]"),
    ("pecan", ("method.t_n=2", "method.t_p=0.7", "method.attention=false"), None, "pecan [3 settings]"),
    ("pecan", (PROMPT,), None, "pecan [prompt second turn]"),
    # What is recorded beside the answer changes no prediction; nor do a limit, or the data set's
    # size.
    ("pecan", ("method.record_stops=3", "dataset.tokens=500", "limit=2"), None, "pecan"),
    # A preset is its own reference, on each data set.
    ("pecan-choice-repeats", (), None, "pecan-choice-repeats"),
    ("pecan-no-progress-control", ("method.max_nodes=9",), None, "pecan-no-progress-control [max_nodes=9]"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "sets", "profile", "wanted"), LABELS)
def test_a_row_says_what_is_not_the_presets(
    method: str, sets: tuple[str, ...], profile: str, wanted: str
) -> None:
    plan = planned(method, *sets, profile=profile)
    assert told(plan) == wanted
    # The folder keeps the plain name, and the hash does not know the mark.
    assert plan.folder.startswith(f"pocket~musique/{wanted.partition(' ')[0]}--scripted--")


def test_a_file_and_a_suite_count_as_the_users_settings(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("methods: {bm25: {k: 7}}")
    assert told(planned("bm25", files=(str(path),))) == "bm25 [k=7]"
    path.write_text("{profile: pocket, methods: {bm25: {k: 7}}}")
    assert told(planned("bm25", files=(str(path),))) == "bm25 [pocket, k=7]"


def test_profile_paper_is_the_reference_and_marks_nothing() -> None:
    sets = ("encoder=minilm",)
    assert told(planned("pecan", *sets, profile="paper")) in ("pecan", "pecan[minilm]")
    assert planned("pecan", *sets, profile="paper").config.method.mark == ""


def test_each_rival_asks_for_its_summaries_in_a_prompt_of_its_own() -> None:
    """No shared prompt that was chosen for the embedded model:
    docs/methods/raptor.md#raptor-summary, #memwalker-walk."""
    found = {
        name: planned(name).method
        for name in ("raptor-ct", "pecan-no-graph", "memwalker", "summary")
    }
    raptor, tree, walk, shared = (method.prompts() for method in found.values())
    assert "as many of its important details as you can" in raptor["summary"]
    assert tree["summary"] == raptor["summary"]  # "following RAPTOR"
    assert len({raptor["summary"], walk["segment summary"], shared["summary"]}) == 3
    triage = walk["triage, with reasons"]
    assert triage.index("{question}") < triage.index("{summaries}")
    assert found["memwalker"].config.model_dump()["summary_tokens"] is None


def test_no_method_of_profile_pocket_makes_a_choice_of_its_papers_otherwise() -> None:
    """Sizes and trained prompts only: a word or a switch is a choice, but for what stands in for
    missing weights."""
    ((_, values),) = presets.read("profiles", "pocket")
    said = [
        item
        for params in values["methods"].values()
        for item in params.items()
        if item[0] != "prompts"
    ]
    chosen = {
        key for key, value in said if isinstance(value, bool) or not isinstance(value, int | float)
    }
    # scoring, sigmoid: an encoder stands in for a reranker; reasoning: the prompt that the model
    # was trained on.
    assert chosen == {"scoring", "sigmoid", "reasoning"}


def run(plan: PlannedRun, name: str = "a"):
    config, path = plan.config.stored(), Path(f"{name}--{plan.hash8}")
    return StoredRun(path, config, RunManifest(), [], [], RunSummary(), plan.origins)


def test_reports_print_the_label_and_tell_two_rows_apart_by_it() -> None:
    own, pocket = run(planned("bm25")), run(planned("bm25", profile="pocket"))
    assert facts.run_labels([own, pocket]) == ["bm25", "bm25 [pocket]"]
    # A run from before there were marks.
    method = own.config.method.without("mark")
    old = replace(own, path=Path("b--0"), config=own.config.with_values(method=method))
    assert facts.run_labels([old, pocket]) == ["bm25", "bm25 [pocket]"]
    assert facts.reference_names(pocket)[0] == "bm25"  # a reference is still named by its preset
    assert not any("mark" in line for line in config_difference(own, pocket))


def test_a_curve_is_not_named_by_the_rule_it_is_drawn_over() -> None:
    plans = [planned("pecan", profile="pocket"), planned("pecan", "method.t_n=2", profile="pocket")]
    assert run_labels([run(plan) for plan in plans], STOP_SETTINGS) == ["pecan [pocket]"] * 2
