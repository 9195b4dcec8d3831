"""LongRefiner's tables beside ours: models of their own for roles, adapters, a reranker, retrieved documents, means."""

from __future__ import annotations

import csv
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from harness.store import StoredRun, read_run
from reports.paper import frame
from reports.paper.beside import NOT_COMPARABLE, OFF, REPRODUCED
from reports.paper.printed import Value, load
from tests.reports.build import record, write_run

ACC, F1 = "flashrag.acc", "flashrag.f1"
LLAMA = {"name": "Llama-3.1-8B-Instruct", "backend": "hf", "embedded": False}
QWEN = {"name": "qwen", "source": "Qwen/Qwen2.5-3B-Instruct", "backend": "hf", "embedded": False}
SEVEN = {"name": "Qwen2.5-7B-Instruct", "backend": "hf", "embedded": False}
PARAMS = {"scoring": "reranker", "budget": 2048, "titles": True, "selection_rule": "paper"}
TASKS = {"analysis": "a", "structuring": "b", "selection": "c"}
DATA = {
    "name": "nq", "format": "retrieved", "split": "test", "scorers": [ACC, F1], "max_answer_tokens": 500,
    "answer_prefix": "So the final answer is:", "options": {"top": 8, "documents": "found.json"},
}  # fmt: skip


def run(
    root: Path,
    *,
    mean: float = 0.544,
    n: int = 1000,
    preset: str = "longrefiner",
    params: dict[str, Any] | None = None,
    models: dict[str, Any] | None = None,
    data: dict[str, Any] | None = None,
    **settings: Any,
) -> StoredRun:
    """LongRefiner on NQ as the paper has it, Acc and F1 `mean`; `models`: roles of the method, as the manifest has them."""
    rows = [record(2 * i, None, scores=dict.fromkeys((ACC, F1), float(i < mean * n)), error=None) for i in range(n)]
    config: dict[str, Any] = {
        "model": LLAMA,
        "roles": {"refiner": QWEN},
        "method": {"name": preset, "implementation": "m:M", "view": "document", "params": PARAMS | (params or {})},
        "dataset": DATA | (data or {}),
        "reranker": {"name": "bge-reranker", "source": "BAAI/bge-reranker-v2-m3"},
    } | settings
    told = {"reader": {}, "refiner": {"adapters": TASKS}} if models is None else models
    dataset = str(config["dataset"]["name"])
    written = write_run(root, rows, dataset=dataset, method=preset, settings=config, manifest={"models": told})
    return read_run(written)


def values(table: str = "Table 2", method: str | None = "LongRefiner(Ours)", label: str = "Acc") -> list[Value]:
    """The shipped values of a table of LongRefiner's, of one row and one metric."""
    own = [v for v in load() if v.paper.name == "LongRefiner" and v.entry.table.startswith(table)]
    return [v for v in own if v.entry.method == (method or v.entry.method) and (v.metric.label == label)]


def row(found: StoredRun, **which: Any) -> dict[str, Any]:
    (only,) = frame([found], values(**which)).to_dict("records")
    return {str(key): value for key, value in only.items()}


class TestReasons:
    def test_reproduced(self, tmp_path: Path) -> None:
        found = row(run(tmp_path, mean=0.55))
        assert (found["verdict"], found["notes"]) == (REPRODUCED, ())
        assert (found["dataset"], found["printed"], found["ours"]) == ("nq", 54.4, pytest.approx(55.0))
        assert row(run(tmp_path / "b", mean=0.65))["verdict"] == OFF

    def test_another_reader_in_table_5(self, tmp_path: Path) -> None:
        found = run(tmp_path, mean=0.506, model=SEVEN)
        assert row(found, table="Table 5")["notes"] == ()
        assert row(found)["notes"] == (
            "model: the reader is Qwen2.5-7B-Instruct, the paper's is Llama-3.1-8B-Instruct",
        )

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            (
                {"roles": {}},
                "model: the refiner is Llama-3.1-8B-Instruct, the paper's is Qwen2.5-3B-Instruct",
            ),
            (
                {"roles": {"refiner": {"name": "pocket-llama", "embedded": True}}},
                "model: the refiner is pocket-llama, the paper's is Qwen2.5-3B-Instruct",
            ),
            (
                {"models": {"reader": {}, "refiner": {"adapters": {"analysis": "a"}}}},
                "model: the refiner has no adapter for structuring and selection, the paper trained them",
            ),
            (
                {"reranker": {"name": "pocket-reranker"}},
                "reranker: pocket-reranker, the paper's is most likely bge-reranker-v2-m3",
            ),
            ({"reranker": None}, "reranker: not recorded, the paper's is most likely bge-reranker-v2-m3"),
            ({"params": {"budget": 300}}, "method: budget is 300, the paper's is 2048"),
            ({"params": {"titles": False}}, "method: titles is false, the paper's is true"),
            ({"data": {"options": {}}}, "dataset: top is not set, the paper's is 8"),
            ({"data": {"max_answer_tokens": 32}}, "dataset: max_answer_tokens is 32, the paper's is 500"),
            (
                {"data": {"answer_prefix": None}},
                "dataset: answer_prefix is not set, the paper's is So the final answer is:",
            ),
            ({"n": 200}, "sample: 200 questions, the paper has 1000"),
            (
                {"data": {"name": "hotpotqa", "split": "validation", "format": "hotpotqa"}},
                "dataset: format is hotpotqa, the paper's is retrieved",
            ),
        ],
    )
    def test_not_comparable_says_why(self, tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
        found = row(run(tmp_path, **changes))
        assert (found["verdict"], found["notes"]) == (NOT_COMPARABLE, (reason,))

    def test_a_role_that_the_method_does_not_have(self, tmp_path: Path) -> None:
        """The suite sets the refiner for every row."""
        params = {"sentences": 6}
        found = run(tmp_path, mean=0.402, preset="longrefiner-rival-bge", params=params, models={"reader": {}})
        assert row(found, method="Bge-reranker")["notes"] == ()
        closed = run(tmp_path, mean=0.359, preset="naive-generation", models={"reader": {}}, data={"options": {}})
        assert row(closed, method="Naive Generation")["notes"] == ()

    @pytest.mark.parametrize(
        ("preset", "method", "params", "given", "reason"),
        [
            ("selective-context", "Selective-Context", {"level": "token", "target_tokens": 2000}, "gpt2", None),
            ("selective-context", "Selective-Context", {}, "phi-2", "compressor is phi-2, the paper's is gpt2"),
            ("longllmlingua-2k", "LongLLMLingua", {}, "phi-2", "compressor is phi-2, the paper's is Llama-2-7b-hf"),
            ("longllmlingua-2k", "LongLLMLingua", {}, None, "is Llama-3.1-8B-Instruct, the paper's is Llama-2-7b-hf"),
            (
                "meta-chunking",
                "Meta-Chunking",
                {},
                None,
                "the builder is Llama-3.1-8B-Instruct, the paper's is Qwen2-1",
            ),
        ],
    )
    def test_models_of_compression(
        self, tmp_path: Path, preset: str, method: str, params: dict[str, Any], given: str | None, reason: str | None
    ) -> None:
        role = "builder" if preset == "meta-chunking" else "compressor"
        roles = {role: {"name": given}} if given else {}
        found = run(tmp_path, preset=preset, params=params, models={"reader": {}, role: {}}, roles=roles)
        told = row(found, method=method)["notes"]
        assert len(told) == (reason is not None)
        assert reason is None or reason in told[0]

    def test_an_encoder_in_place_of_the_presets_own(self, tmp_path: Path) -> None:
        encoder = {"name": "minilm", "source": "sentence-transformers/all-MiniLM-L6-v2"}
        found = run(tmp_path, preset="longrefiner[minilm]", params={"scoring": "dense"}, encoder=encoder)
        assert row(found)["notes"] == ("method: scoring is dense, the paper's is reranker",)
        bare = run(tmp_path, preset="naive-generation[minilm]", models={"reader": {}})
        assert row(bare, method="Naive Generation")["notes"] == (
            "encoder: minilm stands in for that of naive-generation",
        )


class TestScoringModels:
    """Table 4 differs in what scores alone."""

    @pytest.mark.parametrize(
        ("preset", "method", "params", "used"),
        [
            ("longrefiner-bm25", "BM25", {"scoring": "bm25"}, {}),
            (
                "longrefiner-e5",
                "E5",
                {"scoring": "dense"},
                {"encoder": {"name": "e5", "source": "intfloat/e5-base-v2"}},
            ),
            (
                "longrefiner-sbert",
                "SBERT",
                {"scoring": "dense"},
                {"encoder": {"name": "multi-qa-mpnet-base-cos-v1", "source": "x"}},
            ),
            (
                "longrefiner-bce-reranker",
                "Bce-reranker",
                {"sigmoid": True},
                {"reranker": {"name": "bce-reranker", "source": "maidalun1020/bce-reranker-base_v1"}},
            ),
        ],
    )
    def test_is_checked(
        self, tmp_path: Path, preset: str, method: str, params: dict[str, Any], used: dict[str, Any]
    ) -> None:
        def notes(root: Path, **changes: Any) -> tuple[str, ...]:
            runs = [
                run(root, preset=preset, n=20, data={"name": name}, **{"params": params, "reranker": None, **changes})
                for name in ("nq", "triviaqa", "popqa")
            ]
            (only,) = frame(runs, values("Table 4", method)).to_dict("records")
            return tuple(note for note in only["notes"] if not note.startswith("sample"))

        assert notes(tmp_path, **used) == ()
        other = {kind: {"name": "other"} for kind in used} or {"params": {"scoring": "dense"}}
        assert len(notes(tmp_path / "b", **other)) == 1


def shipped() -> dict[tuple[str, str, str, str], float]:
    """(table, row, label, metric) -> value of the paper."""
    with resources.files("reports.paper").joinpath("paper_results.csv").open(encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file) if r["source"] == "002_LongRefiner"]
    return {(r["table"][:7], r["method"], r["dataset"], r["metric"]): float(r["value"]) for r in rows}


class TestShipped:
    @pytest.mark.parametrize(
        ("table", "row_", "of"),
        [
            ("Table 4", "Bge-reranker", "LongRefiner(Ours)"),
            ("Table 4", "Best Baseline", "LongLLMLingua"),
            ("Table 3", "w/o Doc. Structuring", "Bge-reranker"),
        ],
    )
    def test_means_are_those_of_table_2(self, table: str, row_: str, of: str) -> None:
        """So the labels mean what mapping.yaml says, and EM in table 3 is Acc."""
        told = shipped()
        places = [v for v in load() if v.paper.name == "LongRefiner" and v.entry.table.startswith(table)]
        labels = {rule.dataset: place for place, rule in single()}
        checked = 0
        for value in places:
            if value.entry.method != row_:
                continue
            metric = "F1" if value.metric.score == F1 else "Acc"
            own = [told["Table 2", of, labels[rule.dataset], metric] for rule in value.rules]
            assert sum(own) / len(own) == pytest.approx(value.printed, abs=0.0501)
            checked += 1
        assert checked >= 3

    def test_the_ablations_first_row_is_another(self) -> None:
        told = shipped()
        own = [told["Table 2", "LongRefiner(Ours)", place, "Acc"] for place in ("NQ", "TriviaQA", "PopQA")]
        assert told["Table 3", "LongRefiner", "Single-hop", "EM"] == 62.3
        assert sum(own) / 3 == pytest.approx(62.0)

    def test_what_is_mapped_is_what_the_readme_says(self) -> None:
        with resources.files("reports.paper").joinpath("paper_results.csv").open(encoding="utf-8") as file:
            sources = [row["source"] for row in csv.DictReader(file)]
        lines: dict[str, set[int]] = {}
        for value in load():
            lines.setdefault(value.paper.name, set()).add(value.line)
        readme = resources.files("reports.paper").joinpath("README.md").read_text(encoding="utf-8")
        assert set(lines) == {"PECAN", "GARLIC", "LongRefiner", "QRMeM"}
        for source in sorted(set(sources)):
            name = source.partition("_")[2]
            assert f"| {name} | {len(lines[name])} of {sources.count(source)} |" in readme

    def test_garlics_compressor(self) -> None:
        (of,) = {
            v.paper.roles["compressor"]
            for v in load()
            if v.paper.name == "GARLIC" and v.entry.method == "LongLLMLingua"
        }
        assert of == "phi-2"


def single() -> list[tuple[str, Any]]:
    """(label, data set) of the values of table 2."""
    return [(v.place, v.rules[0]) for v in load() if v.entry.table.startswith("Table 2 (generator")]
