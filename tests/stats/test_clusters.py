"""Which questions are resampled as one, and what is said where nearly all of them are."""

import json
import random

import pytest

from harness.stats.bootstrap import interval
from harness.stats.question_clusters import question_labels
from harness.storage.run_folder import StoredRun, read_run
from harness.storage.run_summary import summarise
from reports.compare import compare
from reports.main_table import frame
from reports.run_notes import cluster_notes
from tests.reports.build import SCORE, record, write_run

CHAIN = [(f"p{i}", f"p{i + 1}") for i in range(4)]
SKEWED = [("a", f"b{i}") for i in range(15)] + [(f"c{i}",) for i in range(10)]
LINKED = "linked through documents that they share"
FEW = "this test cannot find a difference with fewer than 6"
TOO_MANY = "too many for a test or an interval of a difference"
RETRIEVED = {"dataset": {"name": "nq", "format": "retrieved", "scorers": [SCORE]}}


def passages(questions: int) -> list[tuple[str, ...]]:
    """8 of 1,500 passages for each question, as a retriever over one corpus would find them."""
    draw = random.Random(1)
    return [tuple(f"p{draw.randrange(1500)}" for _ in range(8)) for _ in range(questions)]


def two_runs(root, documents: list[tuple[str, ...]], ahead: float, **more) -> list[StoredRun]:
    """Full context, and a method that scores `ahead` more on each question."""

    def scored(shift: float):
        values = [min(1.0, (i * 7 % 10) / 10 + shift) for i in range(len(documents))]
        return [
            record(i, v, document_ids=list(ids))
            for i, (v, ids) in enumerate(zip(values, documents, strict=True))
        ]

    shifts = {"full-context": 0.0, "pecan": ahead}
    return [
        read_run(write_run(root, scored(shift), method=name, **more))
        for name, shift in shifts.items()
    ]


def test_questions_with_retrieved_passages_stand_alone() -> None:
    documents = passages(500)
    ids = [f"q{i}" for i in range(500)]
    assert len(set(question_labels("musique", ids, documents))) == 1
    assert question_labels("retrieved", ids, documents) == ids
    values = [i % 2 for i in range(500)]
    found = interval([float(v) for v in values], question_labels("retrieved", ids, documents))
    assert found.low == pytest.approx(0.456, abs=0.01)  # 0.5 - 1.96 * 0.5 / sqrt(500)


@pytest.mark.parametrize(
    ("documents", "sentences"),
    [
        ([], []),
        ([("a",)], ["all questions share one document: no interval", f"documents: 1; {FEW}"]),
        (
            [("a", "b"), ("c", "a")],
            ["all questions share one document: no interval", f"documents: 1; {FEW}"],
        ),
        (CHAIN, [f"all 4 questions are {LINKED}: no interval", f"documents: 1; {FEW}"]),
        ([*CHAIN, ("x",)], [f"documents: 2; {FEW}"]),
        ([(f"c{i}",) for i in range(5)], [f"documents: 5; {FEW}"]),
        ([(f"c{i}",) for i in range(6)], []),
        (SKEWED, [f"15 of 25 questions are {LINKED}, one of 11 clusters: intervals are wide"]),
        (SKEWED[:20], [f"15 of 20 questions are {LINKED}, one of 6 clusters: {TOO_MANY}"]),
        (SKEWED[5:], []),
    ],
)
def test_what_is_said_of_clusters_is_true(
    documents: list[tuple[str, ...]], sentences: list[str]
) -> None:
    labels = question_labels("musique", [f"q{i}" for i in range(len(documents))], documents)
    assert cluster_notes(documents, labels) == sentences


class TestReports:
    def test_retrieved_passages_give_intervals_and_a_test(self, tmp_path) -> None:
        runs = two_runs(tmp_path, passages(60), 0.2, dataset="nq", settings=RETRIEVED)
        table = frame(runs)
        assert (table[f"{SCORE}.low"] < table[SCORE]).all()
        assert (
            summarise(runs[0].records, [], runs[0].config).scores[SCORE].low
            == table[f"{SCORE}.low"][0]
        )
        row = compare(runs).iloc[0]
        assert (row["documents"], row["n"], table["documents"][0]) == (60, 60, 60)
        assert row["p"] < 0.001
        assert not [note for note in (*row["notes"], *table["notes"][0]) if "document" in note]

    def test_what_clusters_do_is_told_in_every_table(self, tmp_path) -> None:
        for documents, ending in (
            (CHAIN, "no interval"),
            (SKEWED, "one of 11 clusters: intervals are wide"),
        ):
            runs = two_runs(tmp_path / ending[:3], documents, 0.1)
            assert any(note.endswith(ending) for note in frame(runs)["notes"][0])
            assert (
                len([note for note in compare(runs).iloc[0]["notes"] if note.endswith(ending)]) == 2
            )

    def test_a_document_that_outweighs_the_others_gets_no_test_and_no_interval(
        self, tmp_path, command
    ) -> None:
        """All documents prefer one method; 15 of 20 questions are about one of six."""
        two_runs(tmp_path, SKEWED[:20], 0.2)
        chosen = ["--columns", "method,p,difference,difference.low,detectable,notes"]
        code, out, err = command("compare", str(tmp_path), "--format", "json", *chosen)
        assert code == 0, err
        row = next(row for row in json.loads(out) if row["method"] == "pecan")
        assert (row["p"], row["difference.low"], row["detectable"]) == (1.0, None, None)
        assert row["difference"] > 0
        assert any(TOO_MANY in note for note in row["notes"])
