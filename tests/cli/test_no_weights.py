"""A row whose model is not there says so and is lost; the other rows run. Nothing is loaded,
nothing leaves here."""

import json

SIZES = ["--set", "dataset.questions=1", "--limit", "1", "--mlflow", "off"]
METHODS, MODEL = "naive-generation,longrefiner-rival-bm25", "qwen2.5-7b-instruct"
WEIGHTS = "not run: weights: the model 'Qwen/Qwen2.5-7B-Instruct' could not be fetched"


def test_a_suite_whose_reader_is_not_there(here):
    done = here(
        "run", "--suite", "pocket-longrefiner-table5", "--method", METHODS, "--model", MODEL, *SIZES
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        f"error: 2 runs (naive-generation on pocket/retrieved, ...): {WEIGHTS}"
    ), done.stderr
    assert "name a folder with `--model FOLDER`" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_plan_needs_no_weights_and_no_rows(here):
    named = [
        "run",
        "--method",
        "bm25,sbert",
        "--model",
        "llama-3.1-8b-instruct",
        "--set",
        "encoder=e5",
    ]
    named += ["--mlflow", "off"]
    done = here(*named, "--dataset", "musique", "--plan", "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert [(row["questions"], row["tokens"], row["tflops"]) for row in rows] == [
        (2417, None, None)
    ] * 2
    assert [line for line in done.stderr.splitlines() if line.startswith("missing")] == [
        "missing here: data set dgslibisey/MuSiQue",
        "missing here: weights of meta-llama/Llama-3.1-8B-Instruct",
        "missing here: weights of intfloat/e5-base-v2",
    ]
    done = here(*named, "--dataset", "musique")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: 3 things are missing:\n"), done.stderr
    done = here(*named, "--dataset", "musique", "--plan", "--set", "method.k=none")
    assert (done.returncode, "mistake" in done.stderr or "method.k" in done.stderr) == (2, True), (
        done.stderr
    )
