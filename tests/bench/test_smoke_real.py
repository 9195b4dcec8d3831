"""`make smoke-real` without a model: which rows it runs, in which order, and its table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import smoke_real
from bench.smoke_real import DATA, Cells, expected, go, source_of, stored, table
from harness.config import presets
from tests.datasets.support import needs_real, real
from tests.reports.build import record, usage, write_run

CUT = {"side": "middle", "tokens_before": 9000, "tokens_after": 8000}


def answered(out: Path, method: str, dataset: str, seconds: float, questions: int = 2) -> None:
    """Store a run with this many seconds in all."""
    each = {"answer": {**usage(0.5), "seconds": seconds / questions}}
    write_run(out, [record(n, 1.0, usage=each) for n in range(questions)], method=method, dataset=dataset)


def test_every_data_set_that_is_fetched_has_rows() -> None:
    assert set(DATA) == {name for name in presets.names("datasets") if not name.startswith("pocket/")}
    words = [rows.words for rows in DATA.values()]
    assert words == sorted(words)


@needs_real
def test_the_rows_are_there(tmp_path: Path) -> None:
    data = real("data")
    assert all((data / rows.file).exists() for rows in DATA.values())
    made = smoke_real.settings("eli5", data, tmp_path)
    documents = json.loads(Path(made["dataset.documents"]).read_text())
    assert all(row["text"] for rows in documents.values() for row in rows)
    assert Path(smoke_real.settings("triviaqa", data, tmp_path)["dataset.documents"]).is_file()


def test_quick_rows_come_first_and_a_second_start_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"bm25": 1.0, "pecan": 50.0}
    calls: list[tuple[str, list[str]]] = []

    def run(dataset: str, methods: list[str], data: Path, out: Path) -> None:
        calls.append((dataset, methods))
        for method in methods:
            answered(out, method, dataset, seconds[method] * DATA[dataset].words / 80)

    monkeypatch.setattr(smoke_real, "run", run)
    refused = {("bm25", "popqa"): "no"}
    monkeypatch.setattr(smoke_real, "refusal", lambda method, dataset, *_: refused.get((method, dataset), ""))
    go(["pecan", "bm25"], ["nq", "popqa", "asqa"], tmp_path, tmp_path)
    # 340 words take PECAN 212 s, 500 words 312 s: beyond the first round, and beyond the second.
    assert calls == [("nq", ["pecan", "bm25"]), ("asqa", ["bm25"]), ("popqa", ["pecan"]), ("asqa", ["pecan"])]
    go(["pecan", "bm25"], ["nq", "popqa", "asqa"], tmp_path, tmp_path)
    assert len(calls) == 4


def test_a_row_that_takes_a_number_runs_behind_its_source() -> None:
    assert source_of("bm25-topx") == ["pecan"]
    assert source_of("bm25") == []


def test_the_table_counts_what_is_stored(tmp_path: Path) -> None:
    answered(tmp_path, "bm25", "nq", 3.0)
    answered(tmp_path, "dragon[minilm]", "nq", 2.0, questions=1)
    write_run(tmp_path, [record(0, None), record(1, 1.0, truncated=CUT)], method="gist", dataset="nq")
    (tmp_path / smoke_real.REFUSED).write_text(
        json.dumps({"nq": {"oracle-evidence": "'oracle-evidence' is not for nq"}})
    )
    cells: Cells = stored(tmp_path)
    assert (cells["dragon", "nq"].done, cells["gist", "nq"].failed) == (1, 1)
    assert expected("bm25", "asqa", cells) == pytest.approx(3.0 * 500 / 80)
    text = table(["bm25", "dragon", "gist", "oracle-evidence", "pecan"], ["nq"], tmp_path)
    head, row, *rest = text.splitlines()
    assert dict(zip(head.split()[2:], row.split()[1:], strict=True)) == {
        "served": "4", "whole": "1", "failed": "1", "truncated": "1", "left": "2", "seconds": row.split()[-1],
    }  # fmt: skip
    assert "  WindowExceeded: too long\n    gist on nq" in text
    assert "not served: it is not for nq\n    oracle-evidence on nq" in text
    assert any(line.startswith("slowest: ") for line in rest)
