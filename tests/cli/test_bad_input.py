"""Bad input to real methods: one clear message with what to do, and the exit code.

exit 2: nothing was run, and no results folder is left · exit 3: the run went on, what failed is
recorded
"""

import json
import shutil

import pytest

from tests.made_up import musique_rows, write_rows
from tests.random_model import save

BM25 = ["run", "--method", "bm25", "--mlflow", "off", "--limit", "3"]
SAMPLE = [*BM25, "--dataset", "pocket/musique"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """small: a whole model; nan: the head gives no numbers."""
    from safetensors.torch import load_file, save_file

    folder = tmp_path_factory.mktemp("models")
    sizes = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    save(folder / "small", num_key_value_heads=1, max_position_embeddings=2048, **sizes)
    weights = shutil.copytree(folder / "small", folder / "nan") / "model.safetensors"
    tensors = load_file(weights)
    tensors["lm_head.weight"][0] = float("nan")
    save_file(tensors, weights, metadata={"format": "pt"})
    return folder


@pytest.fixture
def run(here, models, tmp_path):
    """The command in a folder with the models."""
    for folder in models.iterdir():
        (tmp_path / folder.name).symlink_to(folder)
    return here


def test_a_question_longer_than_the_window_fails_and_the_run_goes_on(run, tmp_path):
    asked = musique_rows()
    asked[1]["question"] = "why " * 3000
    write_rows(tmp_path / "rows.jsonl", asked)
    done = run(*BM25, "--dataset", "musique", "--model", "small", "--data", "rows.jsonl", "--json")
    assert done.returncode == 3
    parsed = json.loads(done.stdout)
    assert parsed["summary"]["errors"] == {"WindowExceeded": 1}
    assert parsed["summary"]["n_scored"] == 2
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert error.startswith("error: 1 of 3 questions failed; the first, '")
    assert (
        "more than the window of 2048 of 'small'; raise model.window or use a model with a longer "
        "one" in error
    )
    assert "--retry-failed" in error
    rows = [
        json.loads(line)
        for line in (tmp_path / parsed["run"] / "records.jsonl").read_text().splitlines()
    ]
    assert [row["error"] is not None for row in rows] == [False, True, False]
    assert set(rows[1]["scores"].values()) == {0.0}


def test_a_model_whose_logits_are_no_numbers_fails_every_question(run):
    done = run(*SAMPLE, "--model", "nan", "--limit", "2")
    assert done.returncode == 3
    assert "2 questions, 2 failed (2 ModelOutputError)" in done.stdout
    assert "error: 2 of 2 questions failed; 2 of them like " in done.stderr
    assert "'nan' gave NaN or infinite logits after " in done.stderr
    assert "try --set model.dtype=float32 or check the weights" in done.stderr
