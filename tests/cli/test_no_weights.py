"""A row whose model is not there says so and is lost; the other rows run. Nothing is loaded, nothing leaves here."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.conftest import Cli

SIZES = ["--set", "dataset.questions=1", "--limit", "1", "--mlflow", "off"]
METHODS, MODEL = "naive-generation,longrefiner-rival-bm25", "qwen2.5-7b-instruct"
ROW = r"{} on pocket/retrieved: not run: weights: the model 'Qwen/Qwen2\.5-7B-Instruct' could not be fetched"


def test_a_suite_whose_reader_is_not_there(here: Cli) -> None:
    done = here("run", "--suite", "pocket-longrefiner-table5", "--method", METHODS, "--model", MODEL, *SIZES)
    assert (done.returncode, done.stdout) == (2, "")
    for row in ("naive-generation", "longrefiner-rival-bm25"):
        assert re.search(ROW.format(row), done.stderr), done.stderr
    assert "name a folder with `--model FOLDER`" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_row_whose_refiner_is_not_there_is_lost_alone(here: Cli) -> None:
    done = here(
        "run", "--suite", "pocket-longrefiner-table2", "--method", "naive-generation,longrefiner", *SIZES,
        "--set", "roles.refiner=qwen2.5-7b-instruct", "--plan",
    )  # fmt: skip
    assert done.returncode != 0
    assert "naive-generation" in done.stdout
    first, _, _ = done.stderr.partition("1 of 2 rows did not run whole:")
    assert len(re.findall("^error: " + ROW.format("longrefiner"), first, re.MULTILINE)) == 1, done.stderr


def test_a_folder_that_is_not_there(here: Cli) -> None:
    done = here("run", "--method", "bm25", "--dataset", "pocket/musique", "--model", "./nowhere", *SIZES)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: not run: weights: no model folder './nowhere' (and it is no hub id of the form owner/name)\n"
    )


def test_a_refiner_without_adapters_is_one_sentence_and_nothing_is_run(here: Cli, tmp_path: Path) -> None:
    done = here("run", "--method", "longrefiner", "--dataset", "pocket/retrieved", "--model", "random",
                "--profile", "pocket", *SIZES)  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert line.startswith(
        "error: 'longrefiner' needs trained adapters of its refiner (analysis, structuring, selection)"
    )
    assert "harness train longrefiner --model MODEL" in line
    assert "longrefiner-no-adapters" in line
    assert not (tmp_path / "results").exists()
