"""LongRefiner's tables beside ours: models of their own for roles, adapters, a reranker, retrieved
documents, means."""

import csv
from importlib import resources

import pytest

from reports.paper import frame
from reports.paper.printed import load
from reports.paper.verdicts import NOT_COMPARABLE
from tests.reports.build import record
from tests.reports.paper_runs import REFINED, paper_run

ACC, F1 = "flashrag.acc", "flashrag.f1"
SEVEN = "qwen2.5-7b-instruct"
TASKS = {"analysis": "a", "structuring": "b", "selection": "c"}
HOTPOT = {"dataset": "hotpotqa", "sets": {"dataset.format": "retrieved"}}


def run(
    root,
    *,
    mean=0.544,
    n=1000,
    preset="longrefiner",
    dataset="nq",
    models=None,
    sets=None,
    config=None,
):
    """A preset on NQ as the paper's suite runs it, Acc and F1 `mean`.

    sets: as after --set; config: changes of run.yaml; models: changes of what the manifest has of a
    role.
    """
    rows = [
        record(2 * i, None, scores=dict.fromkeys((ACC, F1), float(i < mean * n)), error=None)
        for i in range(n)
    ]
    changed = {"refiner": {"adapters": TASKS}} if models is None else models
    manifest = {
        f"models.{role}.{key}": one
        for role, fields in changed.items()
        for key, one in fields.items()
    }
    return paper_run(
        root,
        preset,
        dataset,
        rows,
        sets={**REFINED, **(sets or {})},
        config=config,
        manifest=manifest,
    )


def values(table="Table 2", method="LongRefiner(Ours)", label="Acc"):
    """The shipped values of a table of LongRefiner's, of one row and one metric."""
    own = [v for v in load() if v.paper.name == "LongRefiner" and v.entry.table.startswith(table)]
    return [
        v for v in own if v.entry.method == (method or v.entry.method) and (v.metric.label == label)
    ]


def row(found, **which):
    """The row, its notes without what is known to differ."""
    (only,) = frame([found], values(**which)).to_dict("records")
    own = tuple(note for note in only["notes"] if not note.startswith("known difference: "))
    return {str(key): value for key, value in {**only, "notes": own}.items()}


class TestReasons:
    def test_the_suites_run(self, tmp_path):
        found = row(run(tmp_path, mean=0.545))
        assert (found["verdict"], found["notes"]) == (
            "undecided (about 1,800 questions needed)",
            (),
        )
        assert (found["dataset"], found["printed"], found["ours"]) == (
            "nq",
            54.4,
            pytest.approx(54.5),
        )
        far = row(run(tmp_path / "b", mean=0.65))["verdict"]
        assert (
            far
            == "differs (by more than 2 points; weights, retrieved documents and scores not checked)"
        )

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            (
                {"models": {"reader": {}, "refiner": {"adapters": {"analysis": "a"}}}},
                (
                    "model: the refiner has no adapter for structuring and selection, the paper "
                    "trained them"
                ),
            ),
            (
                {"config": {"reranker": {"name": "other"}}},
                "reranker: other, the paper's is bge-reranker-v2-m3",
            ),
            (
                {"config": {"reranker": None}},
                "reranker: not recorded, the paper's is bge-reranker-v2-m3",
            ),
            ({"config": {"dataset.options": {}}}, "dataset: top is not set, the paper's is 8"),
            (
                HOTPOT | {"config": {"dataset.format": "hotpotqa"}},
                "dataset: format is hotpotqa, the paper's is retrieved",
            ),
        ],
    )
    def test_not_comparable_says_why(self, tmp_path, changes, reason):
        found = row(run(tmp_path, **changes))
        assert (found["verdict"], found["notes"]) == (NOT_COMPARABLE, (reason,))

    def test_a_role_that_the_method_does_not_have(self, tmp_path):
        """The suite sets the refiner for every row."""
        found = run(tmp_path, mean=0.402, preset="longrefiner-rival-bge", models={"reader": {}})
        assert row(found, method="Bge-reranker")["notes"] == ()
        closed = run(
            tmp_path,
            mean=0.359,
            preset="naive-generation",
            models={"reader": {}},
            sets={"dataset.top": 3},
        )
        assert row(closed, method="Naive Generation")["notes"] == ()


@pytest.mark.parametrize(
    ("preset", "method"),
    [("bm25", "BM25"), ("e5", "E5"), ("sbert", "SBERT"), ("bce-reranker", "Bce-reranker")],
)
def test_table_4_differs_in_what_scores_alone(tmp_path, preset, method):
    runs = [
        run(tmp_path, preset=f"longrefiner-{preset}", n=20, dataset=name)
        for name in ("nq", "triviaqa", "popqa")
    ]
    (only,) = frame(runs, values("Table 4", method)).to_dict("records")
    assert [note for note in only["notes"] if not note.startswith(("sample", "known"))] == []


class TestShipped:
    @pytest.mark.parametrize(
        ("table", "row_", "of"),
        [
            ("Table 4", "Bge-reranker", "LongRefiner(Ours)"),
            ("Table 4", "Best Baseline", "LongLLMLingua"),
            ("Table 3", "w/o Doc. Structuring", "Bge-reranker"),
        ],
    )
    def test_means_are_those_of_table_2(self, table, row_, of):
        """So the labels mean what mapping.yaml says, and EM in table 3 is Acc."""
        printed = {(v.entry.method, v.rules[0].dataset, v.metric.score == F1): v.printed for v in load()
                if v.entry.table.startswith("Table 2 (generator")}  # fmt: skip
        places = [
            v for v in load() if v.paper.name == "LongRefiner" and v.entry.table.startswith(table)
        ]
        places = [value for value in places if value.entry.method == row_]
        assert len(places) >= 3
        for value in places:
            own = [printed[of, rule.dataset, value.metric.score == F1] for rule in value.rules]
            assert sum(own) / len(own) == pytest.approx(value.printed, abs=0.0501)

    def test_what_is_mapped_is_what_the_readme_says(self):
        with (
            resources.files("reports.paper")
            .joinpath("paper_results.csv")
            .open(encoding="utf-8") as file
        ):
            sources = [row["source"] for row in csv.DictReader(file)]
        lines: dict[str, set[int]] = {}
        for value in load():
            lines.setdefault(value.paper.name, set()).add(value.line)
        readme = resources.files("reports.paper").joinpath("README.md").read_text(encoding="utf-8")
        assert set(lines) == {"PECAN", "GARLIC", "LongRefiner", "QRMeM", "RULER"}
        for source in sorted(set(sources)):
            name = source.partition("_")[2]
            assert f"| {name} | {len(lines[name])} of {sources.count(source)} |" in readme
