"""`harness report --paper` on runs that print the paper's number with other settings: refused, and the setting named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from harness.config import suites
from harness.config.layers import Choices
from harness.config.resolve import resolve
from harness.engine.plan import make_method
from reports.paper.comparable import reasons
from reports.paper.printed import load
from tests.reports.build import record
from tests.reports.paper_runs import answers, contents, paper_run

TUNED = {
    "method.position_factor": False,
    "method.similarity_scale": "raw",
    "method.window": 1600,
    "method.token_mean": "sum",
}
LONGBENCH = "longbench/musique"
RUNS: list[tuple[str, str, dict[str, Any], list[str]]] = [
    # preset, data set, --set KEY=VALUE beside --profile paper, reasons
    (
        "garlic",
        "musique",
        TUNED,
        [
            "method: window is 1600, the paper's is 8192",
            "method: token_mean is sum, the paper's is mean",
            "method: position_factor is false, the paper's is true",
            "method: similarity_scale is raw, the paper's is all",
        ],
    ),
    (
        "raptor-ct",
        "musique",
        {"method.reduction": "pca", "method.top_k": 3},
        ["method: reduction is pca, the paper's is umap", "method: top_k is 3, the paper's is 10"],
    ),
    ("bm25-topx", "musique", {"method.k": 20}, ["method: k is 20, the paper's is 7"]),
    ("memwalker", "musique", {"method.fallback": True}, ["method: fallback is true, the paper's is false"]),
    ("longllmlingua", "musique", {"method.rate": 0.9}, ["method: rate is 0.9, the paper's is 0.55"]),
    # Of other kinds: a summary's length, reflection, a prompt, an instruction, an encoder, a role, weights.
    ("raptor-ct", "musique", {"method.summary_tokens": 200}, ["method: summary_tokens is 200, the paper's is 100"]),
    ("qrmem", LONGBENCH, {"method.reflection": False}, ["method: reflection is false, the paper's is true"]),
    ("bm25", "musique", {"method.chunk_tokens": 100}, ["method: chunk_tokens is 100, the paper's is 300"]),
    (
        "bm25",
        "musique",
        {"method.prompts.answer": "Think first. {instruction} {text} {question}{options}"},
        ["prompts: 'answer' has 'Think first."],
    ),
    (
        "bm25",
        "musique",
        {"dataset.instruction": "Explain at length."},
        ["dataset: instruction is Explain at length., the paper's is Answer the question as concisely as you can."],
    ),
    ("garlic", "musique", {"encoder": "contriever"}, ["encoder: contriever, the paper's is multi-qa-mpnet-base-cos-v1"]),
    (
        "garlic",
        "musique",
        {"roles.builder": "llama-3.2-1b-instruct"},
        ["model: the builder is Llama-3.2-1B-Instruct, the paper's is Llama-3.1-8B-Instruct"],
    ),
    (
        "bm25",
        "musique",
        {"model.adapter": "/models/tuned"},
        ["model: the reader has the adapter tuned added to its weights, the paper's has none"],
    ),
    (
        "bm25",
        "musique",
        {"model.source": "/models/Llama-3.1-8B-Instruct", "model.shape.layers": 1},
        ["model: the reader has other sizes than Llama-3.1-8B-Instruct (layers 1 instead of 32)"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("preset", "dataset", "sets", "expected"), RUNS, ids=lambda v: ",".join(v) if isinstance(v, dict) else None
)
def test_a_fabricated_run_is_refused(
    preset: str,
    dataset: str,
    sets: dict[str, Any],
    expected: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = next(v for v in load() if v.entry.preset == preset and v.rules[0].dataset == dataset and v.metric.score)
    rows = answers(one.rules[0].questions, one.metric.score or "", one.printed / 100)
    named = {"source": f"x/{one.paper.model}", "backend": "hf"} if dataset == LONGBENCH else {}
    served = {f"model.{key}": text for key, text in named.items()}
    paper_run(tmp_path, preset, dataset, rows, sets={**served, **sets})
    with pytest.raises(SystemExit):
        main(["report", str(tmp_path), "--paper"])
    told = " ".join(capsys.readouterr().out.split())
    assert "not comparable" in told
    assert "equivalent (within" not in told
    assert all(reason in told for reason in expected)


TABLE2 = suites.read("longrefiner-table2").parts
PAPERS = [
    (part, dataset, str(preset))
    for part, dataset in enumerate(("nq", "hotpotqa", "asqa"))
    for preset in TABLE2[part].methods
]
OPEN = ("segments come from Jina's web service",)
"""What the documents say that the suites lack (docs/reproducing.md)."""


@pytest.mark.parametrize(("part", "dataset", "preset"), PAPERS)
def test_the_suites_for_the_papers_data_have_the_papers_settings(
    part: int, dataset: str, preset: str, tmp_path: Path
) -> None:
    """With what each one asks the user to add."""
    sets = {"dataset.documents": "retrieved.jsonl", "dataset.top": 8}
    if dataset == "hotpotqa":
        sets["dataset.format"] = "retrieved"  # as the suite says
    r = resolve(Choices(method=preset, dataset=dataset, sets=sets, suite=TABLE2[part]))
    method, config = make_method(r), r.config.model_dump(mode="json")
    config["method"]["params"] = method.config.model_dump(mode="json")
    own = [v for v in load() if v.entry.table.startswith("Table 2 (generator") and v.entry.preset == preset]
    one = next(v for v in own if v.rules[0].dataset == dataset)
    told = contents(config, method)
    for role, names in one.entry.adapters.items():
        told["models"][role]["adapters"] = dict.fromkeys(names, "x")
    run = paper_run(tmp_path, preset, dataset, [record(0, 0.5)], sets=sets, manifest={"prompts": method.prompts()})
    run.config.clear()
    run.config.update(config)
    run.manifest.update(told)
    found = [reason for reason in reasons(one, run) if not reason.startswith(("sample: 1 questions", "metric: "))]
    assert [reason for reason in found if not any(known in reason for known in OPEN)] == []


class TestNumbersOfAnotherRun:
    """GARLIC without progress control visits as many nodes as GARLIC, or the numbers that the paper prints."""

    NAME = "garlic-no-progress-control"
    OWN = {"value": 31, "source": "garlic", "dataset": "musique", "model": "Llama-3.1-8B-Instruct"}

    def found(self, root: Path, preset: str = NAME, nodes: int = 31, **amount: Any) -> list[str]:
        one = next(v for v in load() if v.entry.preset == preset and v.rules[0].dataset == "musique")
        manifest = {"amounts": {"max_nodes": amount}} if amount else {}
        run = paper_run(root, preset, "musique", [record(0, 0.5)], sets={"method.max_nodes": nodes}, manifest=manifest)
        return [r for r in reasons(one, run) if not r.startswith(("sample: 1 questions", "metric: "))]

    def test_a_mean_of_the_full_methods_run_is_the_papers_rule(self, tmp_path: Path) -> None:
        assert self.found(tmp_path, **self.OWN) == []

    @pytest.mark.parametrize(
        "other", [{"source": "pecan"}, {"dataset": "qasper"}, {"model": "Llama-3.2-1B-Instruct"}, {"source": None}]
    )
    def test_any_other_is_not(self, other: dict[str, Any], tmp_path: Path) -> None:
        expected = ["method: max_nodes is 31, the paper's is from:garlic"]
        assert self.found(tmp_path, **{**self.OWN, **other}) == expected
        assert self.found(tmp_path / "plain") == expected

    def test_the_printed_number_has_a_preset(self, tmp_path: Path) -> None:
        preset = f"{self.NAME}-printed"
        assert self.found(tmp_path, preset, nodes=30) == []
        assert self.found(tmp_path / "b", preset) == ["method: max_nodes is 31, the paper's is 30"]
