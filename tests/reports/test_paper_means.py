"""A printed mean over data sets beside a run on each of them: which runs go together, the mean, its
interval."""

import math
from dataclasses import replace

import pytest
import yaml

from harness.config.schema import json_sha256
from reports import main_table
from reports.paper import frame, incomplete_means
from reports.paper.matching import matches
from reports.paper.measured import Measured, mean_over_datasets
from reports.paper.printed import load
from reports.paper.verdicts import NOT_COMPARABLE
from tests.reports.build import record
from tests.reports.paper_runs import paper_run

ACC = "flashrag.acc"
RESULTS = """source,table,method,dataset,metric,value
L,Table 4,Ours,Single,Acc,45.0
L,Table 2,Ours,Two,Acc,60.0
"""
RULES = yaml.safe_load(f"""
papers: {{L: {{name: Paper, model: Llama}}}}
datasets:
  One: {{dataset: nq, split: test, questions: 40, stand_ins: [pocket/retrieved]}}
  Two: {{dataset: popqa, split: test, questions: 20}}
  Single: {{mean_of: [One, Two], stand_ins: [pocket/retrieved]}}
metrics: {{Acc: {{score: {ACC}}}}}
entries:
- {{source: L, table: Table 4, method: Ours, preset: bm25, metrics: [Acc]}}
- {{source: L, table: Table 2, method: Ours, preset: bm25, metrics: [Acc]}}
""")


def values(**changes):
    return load(RESULTS, yaml.safe_dump({**RULES, **changes}))


def run(root, dataset, scores, **changes):
    """A question on a document of its own for each score; `k` and `name` of the method, `model`,
    `seed`."""
    rows = [record(2 * i, None, scores={ACC: score}, error=None) for i, score in enumerate(scores)]
    name, model = changes.get("name", "bm25"), changes.get("model", "Llama")
    config = {
        "method.name": name,
        "method.params.k": changes.get("k", 5),
        "seed": changes.get("seed", 0),
    }
    config |= {"model.name": model, "model.source": None, "dataset.scorers": [ACC]}
    config |= {"dataset.max_answer_tokens": changes.get("longest", 32)}
    config |= {"dataset.options": {"tokens": changes["tokens"]} if "tokens" in changes else {}}
    hash8 = json_sha256([dataset, sorted(changes.items())])[:8]
    return paper_run(
        root,
        "bm25",
        dataset,
        rows,
        config=config,
        manifest={"models.reader.seen": model},
        hash8=hash8,
    )


def halves(n, right):
    """n answers, a share `right` of them right."""
    return [float(i < n * right) for i in range(n)]


class TestMean:
    def test_by_hand(self):
        # Half-widths 3 and 4 below, 6 and 8 above: 5 and 10 in quadrature, halved as the mean is.
        two = [
            Measured(30.0, (27.0, 36.0), (29.0, 31.0)),
            Measured(60.0, (56.0, 68.0), (60.0, 60.0)),
        ]
        assert mean_over_datasets(two) == Measured(45.0, (42.5, 50.0), (44.5, 45.5))
        # Of three: sqrt(1 + 4 + 4) / 3.
        three = [
            Measured(10.0, (9.0, 11.0)),
            Measured(20.0, (18.0, 22.0)),
            Measured(60.0, (58.0, 62.0)),
        ]
        assert mean_over_datasets(three) == Measured(30.0, (29.0, 31.0))

    def test_what_is_not_known(self):
        assert mean_over_datasets([Measured(30.0, (27.0, 33.0)), Measured()]) == Measured()
        assert mean_over_datasets([Measured(30.0, (27.0, 33.0)), Measured(50.0)]) == Measured(40.0)
        assert mean_over_datasets([Measured(0.1, (0.07, 0.3))]) == Measured(0.1, (0.07, 0.3))


class TestFrame:
    def test_every_member(self, tmp_path):
        runs = [run(tmp_path, "nq", halves(40, 0.3)), run(tmp_path, "popqa", halves(20, 0.6))]
        table = frame(runs, values()).set_index("dataset")
        assert list(table.index) == ["popqa", "Single (mean of nq and popqa)"]
        row = table.loc["Single (mean of nq and popqa)"]
        assert (row["ours"], row["n"], row["notes"]) == (pytest.approx(45.0), 60, ())
        assert row["verdict"].startswith("undecided (about ")
        (wide,) = frame(runs, values(), margin=30.0).query("dataset != 'popqa'").to_dict("records")
        assert wide["verdict"] == "equivalent (within 30 points; weights and scores not checked)"
        assert row["run"] == ", ".join(one.path.name for one in runs)
        own = main_table.frame(runs)
        widths = list(100 * (own[f"{ACC}.high"] - own[ACC]))
        assert row["ours.high"] - row["ours"] == pytest.approx(math.hypot(*widths) / 2)
        assert 0 < row["ours.high"] - row["ours"] < max(widths)
        assert incomplete_means(runs, values()) == []
        right = [run(tmp_path / "b", "nq", [1.0] * 40), run(tmp_path / "b", "popqa", [1.0] * 20)]
        (*_, verdict) = frame(right, values())["verdict"]
        assert verdict == "differs (by more than 2 points; weights and scores not checked)"

    def test_runs_at_another_length_are_of_another_label(self, tmp_path):
        datasets = {**RULES["datasets"], "Single": {"mean_of": ["One", "Two"], "tokens": 800}}
        (value, _) = values(datasets=datasets)
        runs = [
            run(tmp_path, name, [1.0], tokens=size)
            for name in ("nq", "popqa")
            for size in (400, 800)
        ]
        assert [[one for _, one in way] for way in matches(value, runs)] == [[runs[1], runs[3]]]
        assert incomplete_means([runs[0], runs[1]], [value]) == [
            (
                "Paper's Single is a mean over nq and popqa: no run of bm25 with Llama and these "
                "settings on popqa"
            )
        ]

    def test_lengths_of_answers_that_presets_say_may_differ(self, tmp_path):
        (value, *_) = values()
        presets = {"dataset.max_answer_tokens": "configs/datasets/nq.yaml"}
        runs = [run(tmp_path, "nq", [1.0]), run(tmp_path, "popqa", [1.0], longest=128)]
        assert matches(value, runs) == []
        assert len(matches(value, [replace(one, origins=presets) for one in runs])) == 1

    def test_a_member_is_missing(self, tmp_path):
        only = [run(tmp_path, "popqa", halves(20, 0.6))]
        assert list(frame(only, values())["dataset"]) == ["popqa"]
        assert incomplete_means(only, values()) == [
            (
                "Paper's Single is a mean over nq and popqa: no run of bm25 with Llama and these "
                "settings on nq"
            )
        ]

    @pytest.mark.parametrize(
        "other", [{"k": 7}, {"model": "Qwen"}, {"seed": 1}, {"name": "bm25[minilm]"}]
    )
    def test_members_are_of_the_same_settings(self, tmp_path, other):
        runs = [
            run(tmp_path, "nq", halves(40, 0.3), **other),
            run(tmp_path, "popqa", halves(20, 0.6)),
        ]
        assert list(frame(runs, values())["dataset"]) == ["popqa"]
        assert len(incomplete_means(runs, values())) == 2

    def test_each_setting_has_a_row_of_its_own(self, tmp_path):
        members = [(k, *member) for k in (5, 7) for member in (("nq", 40), ("popqa", 20))]
        runs = [run(tmp_path, dataset, halves(n, 0.5), k=k) for k, dataset, n in members]
        table = frame(runs, values())
        assert list(table["n"][table["dataset"].str.startswith("Single")]) == [60, 60]

    def test_a_reason_of_one_member_names_it(self, tmp_path):
        members = (("nq", halves(10, 0.3)), ("popqa", halves(20, 0.6)))
        runs = [run(tmp_path, name, scores, model="Qwen") for name, scores in members]
        row = frame(runs, values()).iloc[-1]
        assert row["verdict"] == NOT_COMPARABLE
        assert row["notes"] == (
            "model: the reader is Qwen, the paper's is Llama",
            "sample: 10 questions, the paper has 40 (nq)",
        )

    def test_one_run_stands_in_for_all(self, tmp_path):
        found = frame([run(tmp_path, "pocket/retrieved", halves(20, 0.5))], values())
        assert list(found["dataset"]) == ["pocket/retrieved"]
        assert found["notes"][0] == (
            "split: pocket/retrieved is made up, the paper has the mean of nq and popqa",
        )
        assert (found["ours"][0], found["n"][0]) == (50.0, 20)

    def test_a_stand_in_for_several_labels_says_for_which(self, tmp_path):
        csv = RESULTS + "L,Table 2,Ours,One,Acc,30.0\n"
        found = frame(
            [run(tmp_path, "pocket/retrieved", halves(20, 0.5))], load(csv, yaml.safe_dump(RULES))
        )
        assert list(found["row"]) == ["Ours, Single", "Ours, One"]
