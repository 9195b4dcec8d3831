"""`make smoke-real` without a model: which rows it runs, and its table."""

import json
from pathlib import Path

import pytest

from bench import smoke_real
from bench.smoke_real import Folders, Key, run_cells, stored, table
from bench.smoke_rows import (
    DATA,
    MADE,
    MADE_FOLDERS,
    QUESTIONS,
    row_settings,
    rows_file,
    shorten_file,
)
from harness.config import presets
from harness.config.layers import Choices
from harness.config.resolve import resolve_dataset
from harness.datasets import load
from tests.datasets.support import needs_real, real
from tests.reports.build import record, usage, write_run

CUT = {"side": "middle", "tokens_before": 9000, "tokens_after": 8000}


def answered(
    out: Path, method: str, dataset: str, seconds: float, questions: int = QUESTIONS
) -> Path:
    """Store a run with this many seconds in all."""
    each = {"answer": {**usage(0.5), "seconds": seconds / questions}}
    model = smoke_real.MODELS["smollm2-135m"]
    rows = [record(n, 1.0, usage=each) for n in range(questions)]
    return write_run(out, rows, method=method, dataset=dataset, model=model)


# Sets without rows at hand: of LongBench those whose licences are restrictive or not clear.
_RESTRICTED = ["gov_report", "qmsum", "multi_news", "vcsum", "samsum", "lsht", "lcc", "repobench-p"]
_OF_E = [
    "gov_report",
    "multi_news",
    "samsum",
    "lcc",
    "repobench-p",
]  # LongBench-E has these of them
NO_ROWS = {
    *(f"longbench/{n}" for n in _RESTRICTED),
    *(f"longbench/{n}_e" for n in _OF_E),
    "folder",
    "rows",
}  # folder and rows: the user's


def test_every_data_set_that_is_fetched_has_rows() -> None:
    fetched = {name for name in presets.names("datasets") if not name.startswith("pocket/")}
    same_rows = {
        "qasper-hints",
        "musique-full",
        "musique-shots",
        "musique-shots-ircot",
        "longmemeval/s-430",
    }
    assert set(DATA) == fetched - same_rows - NO_ROWS


@pytest.mark.parametrize("name", [*MADE, *MADE_FOLDERS])
def test_made_up_rows_load_in_the_official_layout(name: str, tmp_path: Path) -> None:
    file = rows_file(name, tmp_path, tmp_path, max_bytes=100)
    sets = row_settings(name, tmp_path, tmp_path, max_bytes=100)
    data = load(resolve_dataset(Choices(dataset=name, data=str(file), sets=sets)).value)
    assert len(data) == QUESTIONS
    if name.startswith("longmemeval/"):
        supporting = [bool(example.gold.supporting) for example in data.examples]
        assert supporting == [True, False, True]
    assert rows_file("ruler/vt", tmp_path, tmp_path, max_bytes=100) is None


@needs_real
def test_the_rows_are_there(tmp_path: Path) -> None:
    data = real("data")
    assert all((data / rows.file).exists() for rows in DATA.values())
    made = row_settings("eli5", data, tmp_path)
    documents = json.loads(Path(made["dataset.documents"]).read_text())
    assert all(row["text"] for rows in documents.values() for row in rows)
    assert Path(row_settings("triviaqa", data, tmp_path)["dataset.documents"]).is_file()


def test_a_second_start_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, str]] = []

    def run(key: Key, place: Folders, retry: bool) -> tuple[Path | None, str]:
        calls.append((key.dataset, key.method))
        if key[:2] == ("bm25", "popqa"):
            return None, "no"
        return answered(place.out, key.method, key.dataset, 1.0), ""

    monkeypatch.setattr(smoke_real, "run_cell", run)

    def start(retry: bool = False) -> None:
        run_cells(
            "smollm2-135m", ["pecan", "bm25"], ["nq", "popqa"], Folders(tmp_path, tmp_path), retry
        )

    start()
    assert calls == [
        (dataset, method) for dataset in ("nq", "popqa") for method in ("pecan", "bm25")
    ]
    start()
    assert len(calls) == 4
    start(retry=True)
    assert calls[4:] == [("popqa", "bm25")]


def test_long_texts_are_cut_to_their_beginnings(tmp_path: Path) -> None:
    folder = tmp_path / "longbench"
    folder.mkdir()
    rows = [{"context": "é" * 101, "input": "?"}, {"context": "short", "input": "?"}]
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    made = [
        json.loads(line)
        for line in shorten_file(folder / "a.jsonl", tmp_path, 101).read_text().splitlines()
    ]
    assert made == [{"context": "é" * 50, "input": "?"}, rows[1]]
    assert (shorten_file(folder, tmp_path, 101) / "a.jsonl").is_file()


def test_the_table_counts_what_is_stored(tmp_path: Path) -> None:
    model = "smollm2-135m"
    answered(tmp_path, "bm25", "nq", 3.0)
    answered(tmp_path, "dragon[minilm]", "nq", 2.0, questions=1)
    rows = [record(0, None), record(1, 1.0, truncated=CUT), record(2, 1.0)]
    write_run(tmp_path, rows, method="gist", dataset="nq", model=smoke_real.MODELS[model])
    sentence = "'oracle-evidence' is not for nq"
    (tmp_path / smoke_real.REFUSED).write_text(
        json.dumps([["oracle-evidence", "nq", model, sentence]])
    )
    cells = stored(tmp_path)
    assert (cells[Key("dragon", "nq", model)].done, cells[Key("gist", "nq", model)].failed) == (
        1,
        1,
    )
    text = table([model], ["bm25", "dragon", "gist", "oracle-evidence", "pecan"], ["nq"], tmp_path)
    head, row, *_ = text.splitlines()
    assert dict(zip(head.split()[2:], row.split()[1:], strict=True)) == {
        "model": model, "served": "4", "whole": "1", "failed": "1", "truncated": "1", "left": "2", "seconds": row.split()[-1],
    }  # fmt: skip
    assert "  WindowExceeded: too long\n    gist on nq" in text
    assert "not served: it is not for nq\n    oracle-evidence on nq" in text
