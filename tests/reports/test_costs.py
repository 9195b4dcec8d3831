"""What a question cost with its share of the index: who shares it, and what makes it unknown."""

import pytest

from harness.storage.run_folder import read_run
from reports.costs import question_tflops
from reports.main_table import frame
from tests.reports.build import built as index
from tests.reports.build import record, stored, usage, write_run


@pytest.mark.parametrize(
    ("asked", "built", "whole"),
    [
        ({"q0": ["d0"]}, [index("d0", 10.0)], [11.5]),  # a document of its own: all of the index
        ({"q0": ["d0"], "q1": ["d0"]}, [index("d0", 10.0)], [6.5, 6.5]),
        ({"q0": ["d0"], "q1": ["d0"]}, [index("d0", 10.0, status="hit")], [6.5, 6.5]),  # from the cache: as if built
        ({"q0": ["d0"], "q1": ["d0"]}, [index("d0", 10.0), index("d0", 10.0, status="hit")], [6.5, 6.5]),  # resumed
        ({"q0": ["d0"]}, [index("d0", 99.0, status="failed"), index("d0", 10.0)], [11.5]),
        ({"q0": ["d0", "d1"], "q1": ["d1"]}, [index("d0", 4.0), index("d1", 6.0)], [8.5, 4.5]),
        ({"q0": ["d0", "d1"]}, [index("d0+d1", 4.0)], [5.5]),  # documents joined into one
        ({"q0": ["d0"], "q1": ["d0"]}, [index("d0", 4.0, question_id="q0"), index("d0", 6.0, question_id="q1")], [5.5, 7.5]),
        ({"q0": ["d0"], "failed": ["d0"]}, [index("d0", 10.0)], [6.5]),  # it was asked too
        ({"q0": ["d0"]}, [index("d0", 10.0, usage={"index": usage(0.0, uncounted=1)})], []),
        ({"q0": ["d0"]}, [], [1.5]),
    ],
)  # fmt: skip
def test_an_index_is_shared_by_the_questions_of_its_document(asked, built, whole, tmp_path):
    joined = {"joined": 2} if built and "+" in built[0]["document_id"] else {}
    scores = {name: None if name == "failed" else 1.0 for name in asked}
    rows = [
        record(0, scores[q], question_id=q, document_ids=ids, notes=joined)
        for q, ids in asked.items()
    ]
    run = read_run(write_run(tmp_path, rows, documents=built))
    assert list(question_tflops(run).values()) == whole
    assert set(question_tflops(run, with_index=False).values()) == {1.5}


def test_the_ratio_is_of_whole_costs_and_the_papers_beside_it(tmp_path):
    runs = [
        stored(tmp_path, [1.0], documents=[index("d0", 10.0)]),
        stored(tmp_path, [1.0], method="full-context"),
    ]
    table = frame(runs).set_index("method")
    assert table.loc["pecan", ["ratio", "ratio.search"]].tolist() == pytest.approx(
        [11.5 / 1.5, 1.0]
    )
    assert table.loc["full-context", ["ratio", "ratio.search"]].tolist() == [1.0, 1.0]


def test_indexes_that_the_folder_lost_make_the_ratio_unknown(tmp_path):
    summary = {"state": "finished", "index": {"documents": 1}}
    lost = read_run(write_run(tmp_path, [record(0, 1.0)], summary=summary))
    row = frame([lost]).iloc[0]
    assert (row["tflops"], str(row["tflops.total"])) == (1.5, "nan")
    assert "what an index cost is not known, so ratio is not" in row["notes"]
