"""What does not fit in the records of a run."""

import pytest

from harness.storage.run_folder import read_run
from reports.examined import examine
from tests.reports.build import record, usage, write_run

PROBES = {"probes": {"requests": 1, "tokens": 9, "flops": {}}}
PECAN = {"name": "pecan", "implementation": "pecan", "view": "document", "params": {}}


@pytest.mark.parametrize(
    ("search", "fits"),
    [
        ({}, False),
        (PROBES, True),  # the method took the answer from what a probe found likely
    ],
)
def test_an_answer_needs_a_written_token_or_a_probe(tmp_path, search, fits):
    costs = {
        "search": usage(1.0) | {"tokens_out": 0} | search,
        "answer": usage(0.5) | {"tokens_out": 0},
    }
    rows = [record(0, 1.0, prediction="Rome", usage=costs)]
    run = read_run(write_run(tmp_path, rows, settings={"method": PECAN}))
    found = examine(run).problems
    assert ("an answer without a token that was written" not in found) is fits
