"""The suites for the papers' data have the papers' settings; a number taken from another run is
that of the paper's rule."""

from dataclasses import replace

import pytest

from harness.config import suites
from harness.config.layers import Choices
from harness.config.resolve import resolve
from harness.engine.completed_method import make_method
from harness.storage.stored_config import StoredConfig
from reports.paper.comparable import differences
from reports.paper.printed import load
from tests.reports.build import record
from tests.reports.paper_runs import changed_manifest, contents, paper_run

TABLE2 = suites.read_suite("longrefiner-table2").parts
PARTS = zip(TABLE2, ("nq", "hotpotqa", "asqa"), strict=True)
PAPERS = [(part, dataset, str(preset)) for part, dataset in PARTS for preset in part.methods]
OPEN = ("segments come from Jina's web service",)
"""What the documents say that the suites lack (docs/reproducing.md)."""


@pytest.mark.parametrize(("part", "dataset", "preset"), PAPERS, ids=str)
def test_the_suites_for_the_papers_data_have_the_papers_settings(part, dataset, preset, tmp_path):
    """With what each one asks the user to add."""
    sets = {"dataset.documents": "retrieved.jsonl", "dataset.top": 8}
    if dataset == "hotpotqa":
        sets["dataset.format"] = "retrieved"  # as the suite says
    r = resolve(Choices(method=preset, dataset=dataset, sets=sets, suite=part))
    method, config = make_method(r.method, r.origins), r.config.model_dump(mode="json")
    config["method"]["params"] = method.config.model_dump(mode="json")
    own = [
        v
        for v in load()
        if v.entry.table.startswith("Table 2 (generator") and v.entry.preset == preset
    ]
    one = next(v for v in own if v.rules[0].dataset == dataset)
    described = contents(config, method)
    for role, names in one.entry.adapters.items():
        described["models"][role]["adapters"] = dict.fromkeys(names, "x")
    run = paper_run(
        tmp_path,
        preset,
        dataset,
        [record(0, 0.5)],
        sets=sets,
        manifest={"prompts": method.prompts()},
    )
    run = replace(
        run,
        config=StoredConfig.from_json(config),
        manifest=changed_manifest(run.manifest, described),
    )
    found = [
        r
        for r in differences(one, run).reasons
        if not r.startswith(("sample: 1 questions", "metric: "))
    ]
    assert [reason for reason in found if not any(known in reason for known in OPEN)] == []


class TestNumbersOfAnotherRun:
    """GARLIC without progress control visits as many nodes as GARLIC, or the numbers that the paper
    prints."""

    NAME = "garlic-no-progress-control"
    OWN = {"value": 31, "source": "garlic", "dataset": "musique", "model": "Llama-3.1-8B-Instruct"}

    def found(self, root, preset=NAME, nodes=31, **amount):
        one = next(
            v for v in load() if v.entry.preset == preset and v.rules[0].dataset == "musique"
        )
        manifest = {"amounts": {"max_nodes": amount}} if amount else {}
        run = paper_run(
            root,
            preset,
            "musique",
            [record(0, 0.5)],
            sets={"method.max_nodes": nodes},
            manifest=manifest,
        )
        return [
            r
            for r in differences(one, run).reasons
            if not r.startswith(("sample: 1 questions", "metric: "))
        ]

    def test_a_mean_of_the_full_methods_run_is_the_papers_rule(self, tmp_path):
        assert self.found(tmp_path, **self.OWN) == []

    @pytest.mark.parametrize(
        "other",
        [
            {"source": "pecan"},
            {"dataset": "qasper"},
            {"model": "Llama-3.2-1B-Instruct"},
            {"source": None},
        ],
    )
    def test_any_other_is_not(self, other, tmp_path):
        expected = ["method: max_nodes is 31, the paper's is from:garlic"]
        assert self.found(tmp_path, **{**self.OWN, **other}) == expected
        assert self.found(tmp_path / "plain") == expected

    def test_the_printed_number_has_a_preset(self, tmp_path):
        preset = f"{self.NAME}-printed"
        assert self.found(tmp_path, preset, nodes=30) == []
        assert self.found(tmp_path / "b", preset) == ["method: max_nodes is 31, the paper's is 30"]
