"""Bad input to real methods: one clear message with what to do, and the exit code.

exit 2: nothing was run, and no results folder is left · exit 3: the run went on, what failed is recorded
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pocket.random_model import save
from tests.cli.conftest import Cli
from tests.made_up import musique_rows

Rows = list[dict[str, Any]]
BM25 = ["run", "--method", "bm25", "--mlflow", "off", "--limit", "3"]
SAMPLE = [*BM25, "--dataset", "pocket/musique"]
MINE = [*BM25, "--dataset", "musique", "--model", "small", "--data", "rows.jsonl"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """small: a whole model; no-tokenizer: without one; nan: the head gives no numbers."""
    from safetensors.torch import load_file, save_file

    folder = tmp_path_factory.mktemp("models")
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    save(folder / "small", num_key_value_heads=1, max_position_embeddings=2048, **sizes)
    for path in shutil.copytree(folder / "small", folder / "no-tokenizer").glob("token*"):
        path.unlink()
    weights = shutil.copytree(folder / "small", folder / "nan") / "model.safetensors"
    tensors = load_file(weights)
    tensors["lm_head.weight"][0] = float("nan")
    save_file(tensors, weights, metadata={"format": "pt"})
    return folder


@pytest.fixture
def run(here: Cli, models: Path, tmp_path: Path) -> Cli:
    """The command in a folder with the models."""
    for folder in models.iterdir():
        (tmp_path / folder.name).symlink_to(folder)
    return here


def write(path: Path, spoil: Callable[[Rows], Any], line: int = 0, text: str = "") -> None:
    rows = musique_rows()
    spoil(rows)
    lines = [json.dumps(row) for row in rows]
    if line:
        lines[line - 1] = text or lines[line - 1][:60]
    path.write_text("\n".join(lines) + "\n")


NAMES: list[tuple[list[str], str]] = [
    (["run", "--method", "bm52", "--dataset", "pocket/musique"], "unknown method 'bm52'. Did you mean 'bm25'"),
    ([*BM25, "--dataset", "pocket/musiqe"], "unknown data set 'pocket/musiqe'. Did you mean 'pocket/musique'"),
    ([*SAMPLE, "--model", "lama-3.1-8b"], "unknown model 'lama-3.1-8b'. Did you mean 'llama-3.1-8b-instruct'"),
    ([*SAMPLE, "--model", "./smal"], "no model folder './smal'"),
    ([*SAMPLE, "--model", "http://127.0.0.1:9/v1"], "--model endpoint --set model.base_url=http://127.0.0.1:9/v1"),
    (
        [*SAMPLE, "--set", "method.chunk_token=9"],
        "unknown key 'method.chunk_token' (--set). Did you mean 'chunk_tokens' or 'chunk_sentences'",
    ),
    ([*SAMPLE, "--set", "dataset.scorers=[flashrag.emm]"], "unknown scorer 'flashrag.emm'. Did you mean 'flashrag.em'"),
    (
        [*SAMPLE, "--model", "no-tokenizer"],
        "no tokenizer.json); put it there or name one with --set model.tokenizer=FOLDER",
    ),
    ([*SAMPLE, "--mlflow", "foo://bar"], "MLflow does not know 'foo://'; use one of http, https"),
]


@pytest.mark.parametrize(("arguments", "message"), NAMES, ids=[message[:40] for _, message in NAMES])
def test_a_wrong_name_is_one_sentence_and_runs_nothing(
    arguments: list[str], message: str, run: Cli, tmp_path: Path
) -> None:
    done = run(*arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "results").exists()


ROWS: list[tuple[str, Callable[[Rows], Any], int, str]] = [
    ("broken JSON", lambda rows: None, 7, "line 7: broken JSON: "),
    ("no object", lambda rows: rows.pop(), 2, "line 2: a row should be a JSON object"),
    ("no answer", lambda rows: (rows[2].pop("answer"), rows[2].pop("answer_aliases")), 0, "line 3, field 'answer': "),
    ("empty answers", lambda rows: rows[2].update(answer="", answer_aliases=[""]), 0, "line 3, field 'answer': "),
    (
        "empty document",
        lambda rows: [p.update(paragraph_text="") for p in rows[3]["paragraphs"]],
        0,
        "line 4: the document is",
    ),
    ("same id", lambda rows: rows[5].update(id=rows[0]["id"]), 0, "line 6, field 'id': "),
    ("wrong type", lambda rows: rows[4].update(question=7), 0, "line 5, field 'question': should be a string, is "),
]


@pytest.mark.parametrize(("spoil", "line", "message"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_a_bad_row_is_named_with_file_line_and_field(
    spoil: Callable[[Rows], Any], line: int, message: str, run: Cli, tmp_path: Path
) -> None:
    write(tmp_path / "rows.jsonl", spoil, line, "[1]" if line == 2 else "")
    done = run(*MINE)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"error: rows.jsonl, {message}")
    assert done.stderr.endswith("; mend or remove the row\n")
    assert done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("out", ["file/results", "/proc/results"])
def test_a_results_folder_that_cannot_be_written(out: str, run: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(*SAMPLE, "--model", "small", "--out", out)
    assert done.returncode == 3
    assert done.stderr.startswith(f"error: cannot write {out}/pocket~musique/bm25--small--")
    assert done.stderr.endswith("; choose a folder you may write to with --out.\n")
    assert done.stderr.count("\n") == 1


def test_a_question_longer_than_the_window_fails_and_the_run_goes_on(run: Cli, tmp_path: Path) -> None:
    write(tmp_path / "rows.jsonl", lambda rows: rows[1].update(question="why " * 3000))
    done = run(*MINE, "--json")
    assert done.returncode == 3
    told = json.loads(done.stdout)
    assert told["summary"]["errors"] == {"WindowExceeded": 1}
    assert told["summary"]["n_scored"] == 2
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert error.startswith("error: 1 of 3 questions failed; the first, '")
    assert "more than the window of 2048 of 'small'; raise model.window or use a model with a longer one" in error
    assert "--retry-failed" in error
    rows = [json.loads(line) for line in (tmp_path / told["run"] / "records.jsonl").read_text().splitlines()]
    assert [row["error"] is not None for row in rows] == [False, True, False]
    assert set(rows[1]["scores"].values()) == {0.0}


def test_a_model_whose_logits_are_no_numbers_fails_every_question(run: Cli) -> None:
    done = run(*SAMPLE, "--model", "nan", "--limit", "2")
    assert done.returncode == 3
    assert "2 questions, 2 failed (2 ModelOutputError)" in done.stdout
    assert "error: 2 of 2 questions failed; the first, " in done.stderr
    assert "'nan' gave NaN logits after " in done.stderr
    assert "try --set model.dtype=float32 or check the weights" in done.stderr


def test_an_mlflow_that_is_down_does_not_stop_the_run(run: Cli) -> None:
    done = run(*SAMPLE, "--model", "small", "--limit", "1", "--mlflow", "http://127.0.0.1:9")
    assert done.returncode == 3, done.stderr
    assert "1 question, 0 failed" in done.stdout
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert "http://127.0.0.1:9" in error
    assert "harness track 'results/pocket~musique/bm25--small--" in error
