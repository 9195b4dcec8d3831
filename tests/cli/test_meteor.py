"""METEOR by the command, with a made-up WordNet of one synset in the folder that NLTK_DATA names."""

import json
from pathlib import Path

import nltk
import pytest

from harness.storage.run_folder import read_run
from tests.nltk_data import nltk_data


@pytest.fixture
def words(tmp_path):
    """The arguments of a run of one question by a scripted model, scored by METEOR."""
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/a.txt").write_text("The doctor left.")
    asked = {"question": "Who left?", "answers": ["The doctor left", "A cat"]}
    (tmp_path / "asked.jsonl").write_text(json.dumps(asked))
    (tmp_path / "script.json").write_text(json.dumps({"replies": [{"reply": "A physician left"}]}))
    run = ["run", "-m", "full-context", "--documents", "texts", "--questions", "asked.jsonl"]
    run += ["--model", "scripted", "--set", "model.script=script.json", "--mlflow", "off"]
    return [*run, "--set", "dataset.scorers=[hf_meteor.meteor]", "--json"]


def test_a_synonym_matches_and_the_best_reference_counts(cli, words, tmp_path):
    """In a process of its own: NLTK keeps a WordNet that it has read."""
    done = cli(*words, NLTK_DATA=nltk_data(tmp_path / "nltk")).checked()
    found = read_run(tmp_path / Path(json.loads(done.stdout.splitlines()[-1])["run"]))
    # Two of three words match, in one chunk of two: 2/3 * (1 - 0.5 * (1 / 2) ** 3).
    assert found.records[0].scores["hf_meteor.meteor"] == pytest.approx(2 / 3 * (1 - 0.5**4))


def test_missing_data_is_named_with_the_command_that_fetches_it(here, words, monkeypatch):
    monkeypatch.setattr(nltk.data, "path", [])
    done = here(*words).checked(2)
    assert "python -m nltk.downloader wordnet punkt_tab" in done.stderr
