"""`harness heads`: a list that a run takes."""

from pathlib import Path

import yaml

POCKET = ("--model", "pocket-llama", "--dataset", "pocket/musique", "--set", "dataset.tokens=300")


def test_a_list_that_was_found_is_used_by_a_run(here):
    found = here(
        "heads", "qrhead", *POCKET, "--sample", "2", "--top", "3", "--out", "heads.yaml"
    ).checked()
    assert "(2 questions, 0 left out)" in found.stdout
    values = yaml.safe_load(Path("heads.yaml").read_text(encoding="utf-8"))
    assert (len(set(values["heads"])), values["found_on"]) == (3, "pocket/musique")
    assert values["scores"] == sorted(values["scores"], reverse=True)
    run = ("run", "--method", "qrhead", *POCKET, "--limit", "1", "--mlflow", "off")
    assert here(*run, "--set", "method.heads=heads.yaml").returncode == 0
    values["model"]["num_hidden_layers"] = 60
    Path("heads.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    refused = here(*run, "--set", "method.heads=heads.yaml").checked(2)
    assert (
        "belongs to another model, pocket-llama (num_hidden_layers is 60 there and 6 here)"
        in refused.stderr
    )
