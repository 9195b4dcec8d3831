# ruff: noqa: F811 - fixtures of other folders are imported by name
"""`harness pocket train-reranker`: a training of two steps, and what it says when it is interrupted."""

import json
from pathlib import Path
from typing import Any

import pytest

from pocket.card import EMBEDDED
from pocket.reranker import exam as reranker_exam
from pocket.reranker import train as reranker_training
from pocket.train import llama
from tests.cli.conftest import Cli, configs, environment, here  # noqa: F401 - fixtures
from tests.pocket import tiny_model

TINY = ["--from", "model", "--layers", "1", "--steps", "2", "--questions", "2"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A random model of the pocket model's form, with the embedded one's tokenizer."""
    folder = tmp_path / "model"
    llama.copy_tokenizer(EMBEDDED, folder)
    llama.save(llama.new(llama.config_of(EMBEDDED).vocab_size, 0, **tiny_model.SIZES), folder)
    return folder


def test_it_trains_examines_and_knows_its_own_folder(
    here: Cli, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reranker_exam, "KINDS", ("musique",))
    monkeypatch.setattr(reranker_exam, "_minilm", lambda: None)
    done = here("pocket", "train-reranker", "--out", "o", *TINY)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "o/model"
    card = json.loads((tmp_path / "o" / "model" / "card.json").read_text())
    assert (card["trained"]["steps"], card["trained"]["layers"], card["exam"]["questions"]) == (2, 1, 2)
    assert {row["ranker"] for row in card["results"]} >= {"pocket-reranker", "bm25", "random"}
    again = here("pocket", "train-reranker", "--out", "o", *TINY)
    assert (again.returncode, again.stderr.splitlines()[0]) == (0, "going on from step 2")
    other = here("pocket", "train-reranker", "--out", "o", *TINY, "--seed", "1")
    assert other.returncode == 2
    assert "is of another training: seed (0 there, 1 here); name another folder with --out" in other.stderr


def test_an_interrupted_training_says_how_to_go_on(here: Cli, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stops(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(reranker_training, "train", stops)
    done = here("pocket", "train-reranker", "--out", "o", *TINY)
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1] == "harness pocket train-reranker --out o " + " ".join(TINY)
