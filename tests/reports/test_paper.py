import re
from dataclasses import replace
from importlib import resources

import pytest
import yaml

from harness import scorers
from harness.config import presets
from harness.cost.flops import CONVENTIONS
from harness.storage.run_folder import read_run
from reports.paper import frame
from reports.paper.mapping import DatasetRule, parse_mapping
from reports.paper.printed import load
from reports.paper.verdicts import NOT_COMPARABLE
from tests.reports.build import built, record, usage, write_run
from tests.reports.paper_runs import answers, paper_run

F1 = "longbench.qa_f1_score"
QUESTIONS = 400
RESULTS = """source,table,method,dataset,metric,value
P,Table 1,BM25 top-5,MuSiQue,F1,28.7
P,Table 1,BM25 top-5,MuSiQue,TFLOPs,26.3
P,Table 1,BM25 top-5,MuSiQue,Other,5.1
P,Table 2,Build,MuSiQue,TFLOPs,66.7
P,Table 2,Build + search 2,MuSiQue,TFLOPs,64.3
"""
RULES = yaml.safe_load(f"""
papers: {{P: {{name: Paper, model: Llama-3.1-8B-Instruct}}}}
datasets:
  MuSiQue: {{dataset: musique, split: validation, questions: {QUESTIONS}, stand_ins: [pocket/musique]}}
metrics:
  F1: {{score: {F1}}}
  Other: {{problem: nobody says how it is measured}}
  TFLOPs: {{phases: [search, answer], convention: all-params}}
entries:
- {{source: P, table: Table 1, method: BM25 top-5, preset: bm25, metrics: [F1, TFLOPs, Other]}}
- {{source: P, table: Table 2, method: Build, preset: bm25, per_document: true, metrics: [TFLOPs]}}
- {{source: P, table: Table 2, method: Build + search 2, preset: bm25, questions_per_document: 2, metrics: [TFLOPs]}}
""")


EMBEDDED = {"model.embedded": True}


def values(**changes):
    return load(RESULTS, yaml.safe_dump({**RULES, **changes}))


def run(root, *, mean=0.287, tflops=26.3, n=QUESTIONS, settings=None, dataset="musique", **changes):
    """BM25 on `n` questions with F1 around `mean`; `tflops` are those of each question.

    settings: changes of run.yaml's config at dotted paths.
    """
    rows = answers(n, F1, mean, usage={"answer": usage(tflops, 100_000)}, **changes)
    documents = [built(d, 66.7) for d in ("d0", "d1")]
    return paper_run(root, "bm25", dataset, rows, config=settings, documents=documents)


def row(root, metric="F1", **changes):
    table = frame([run(root, **changes)], values())
    return {str(k): v for k, v in table[table["metric"] == metric].iloc[0].items()}


class TestVerdicts:
    def test_equivalent_within_the_margin(self, tmp_path):
        found = row(tmp_path, mean=0.289)
        assert found["verdict"] == "equivalent (within 2 points; weights and scores not checked)"
        assert (found["printed"], found["n"], found["notes"]) == (28.7, QUESTIONS, ())
        assert found["ours"] == pytest.approx(28.9)
        assert found["ours minus printed"] == pytest.approx(0.2)
        assert found["ours.low"] < 28.7 < found["ours.high"]
        assert found["paper"] == "Paper, Table 1"

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            (
                {"settings": EMBEDDED | {"model.backend": "random"}},
                "model: .* is a random model: its answers are",
            ),
            (
                {"settings": EMBEDDED | {"model.name": "pocket-llama"}},
                r"model: .* is trained on pocket/\* only",
            ),
            ({"n": 20}, f"sample: 20 questions, the paper has {QUESTIONS}"),
            (
                {"truncated": {"side": "middle"}},
                f"truncation: {QUESTIONS} of {QUESTIONS} contexts were cut",
            ),
            ({"settings": {"dataset.split": "train"}}, "split: train, the paper's is validation"),
            ({"dataset": "pocket/musique"}, "split: pocket/musique is made up"),
        ],
    )
    def test_not_comparable_says_why(self, tmp_path, changes, reason):
        found = row(tmp_path, **changes)
        assert found["verdict"] == NOT_COMPARABLE
        assert len(found["notes"]) == 1
        assert re.match(reason, found["notes"][0])

    def test_a_metric_that_is_not_here(self, tmp_path):
        found = row(tmp_path, "Other")
        assert found["verdict"] == NOT_COMPARABLE
        assert found["notes"] == ("metric: nobody says how it is measured",)
        lacking = values(metrics={**RULES["metrics"], "F1": {"score": "rouge_score.rougeLsum"}})
        table = frame([run(tmp_path / "b", settings={"dataset.scorers": [F1]})], lacking)
        line = f"harness score RUN --scorers {F1},rouge_score.rougeLsum"
        assert table["notes"][0] == (
            f"metric: the run has no rouge_score.rougeLsum; add it with: {line}",
        )

    def test_failed_questions_that_are_left_out(self, tmp_path):
        first = run(tmp_path, settings={"failed": "skip"})
        failed = replace(first.records[0], error={"type": "T", "message": "m"})
        first = replace(first, records=[failed, *first.records[1:]])
        assert (
            frame([first], values())["notes"][0][0]
            == "metric: failed questions are left out of the mean"
        )


class TestCosts:
    def test_tflops_in_the_papers_convention_within_the_margin(self, tmp_path):
        same = row(tmp_path, "TFLOPs")
        assert same["ours"] == pytest.approx(26.3)
        assert same["verdict"] == "equivalent (within 2 %; weights and costs not checked)"

    def test_building_alone_and_shared_among_questions(self, tmp_path):
        table = frame([run(tmp_path)], values()).set_index("row")
        assert table.loc["Build", "ours"] == pytest.approx(66.7)
        assert table.loc["Build + search 2", "ours"] == pytest.approx(66.7 / 2 + 26.3)

    def test_unknown_flops_are_not_comparable(self, tmp_path):
        rows = run(tmp_path)
        spent = {"answer": usage(0.0, uncounted=1)}
        records = [replace(one, usage=spent) for one in rows.records]
        table = frame([replace(rows, records=records)], values()).set_index(["row", "metric"])
        note = "metric: the run has no FLOPs, its model has no known sizes"
        assert table.loc[("BM25 top-5", "TFLOPs"), "notes"] == (note,)


def test_runs_that_nobody_printed_have_no_row(tmp_path):
    table = frame([read_run(write_run(tmp_path, [record(0, 0.5)], method="mine"))], values())
    assert (table.empty, "verdict" in table.columns) == (True, True)


class TestShippedData:
    def test_every_name_is_one_of_ours(self):
        rules = parse_mapping(resources.files("reports.paper").joinpath("mapping.yaml").read_text())
        known = set(scorers.names())
        for metric in rules.metrics.values():
            assert {metric.score, metric.corpus, *metric.instead} - {None} <= known
            assert metric.convention in CONVENTIONS
        for entry in rules.entries:
            assert entry.preset in presets.names("methods")
        known_data = presets.names("datasets")
        labelled = (rules.datasets, *(p.datasets for p in rules.papers.values()))
        for rule in [r for named in labelled for r in named.values()]:
            assert set(rule.stand_ins) <= set(known_data)
            assert not isinstance(rule, DatasetRule) or rule.dataset in known_data
        named, sources = (
            {entry.preset for entry in rules.entries},
            {entry.source for entry in rules.entries},
        )
        for deviation in rules.deviations:
            assert set(deviation.presets) <= named
            assert set(deviation.papers) <= sources
        for paper in rules.papers.values():
            labels = {**rules.datasets, **paper.datasets}
            means = [rule for rule in labels.values() if not isinstance(rule, DatasetRule)]
            assert all(
                isinstance(labels[member], DatasetRule) for mean in means for member in mean.mean_of
            )

    def test_values_are_those_of_the_csv(self):
        found = {
            (v.paper.name, v.entry.method, v.rules[0].dataset, v.label): v.printed for v in load()
        }
        assert found["GARLIC", "Llama3.1-8B", "musique", "F1"] == 35.8
        assert found["GARLIC", "BM25 top-5", "hotpotqa", "ROUGE-L"] == 40.9
        assert found["PECAN", "PECAN Graph Search", "musique", "TFLOPs"] == 30.9
        assert found["GARLIC", "w/o Attention Search", "qasper", "F1"] == 46.9
        # Four data sets: the thirteen rows of GARLIC's table 1, four ablations, its table 3, and
        # PECAN's table A4.
        assert len([key for key in found if key[0] in ("GARLIC", "PECAN")]) == 4 * (
            13 * 4 + 4 * 3 + 5 + 7
        )


def test_the_whole_document_is_the_one_that_is_cut_to_100_000_tokens():
    """Only NarrativeQA has longer ones, so a run of full-context stands beside the same rows."""
    rules = parse_mapping((resources.files("reports.paper") / "mapping.yaml").read_text("utf-8"))
    whole = [one for one in rules.entries if one.method in ("Llama3.1-8B", "Llama-3.1-8B")]
    assert [(one.preset, one.truncated) for one in whole] == [
        ("full-context", False),
        ("full-context-100k", True),
    ] * 2
