"""bench.heads: a list that a run takes."""

from pathlib import Path

import pytest
import yaml

from bench.heads import main

POCKET = ("--model", "pocket-llama", "--dataset", "pocket/musique", "--set", "dataset.tokens=300")


def test_a_list_that_was_found_is_used_by_a_run(here, capfd):
    main(["qrhead", *POCKET, "--sample", "2", "--top", "3", "--out", "heads.yaml"])
    assert "(2 questions, 0 left out)" in capfd.readouterr().out
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


def test_a_method_without_a_list_of_heads_is_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["bm25", *POCKET, "--out", "heads.yaml"])
    assert ended.value.code == 2
    assert (
        "'bm25' uses no list of attention heads; name a method that does" in capsys.readouterr().err
    )
