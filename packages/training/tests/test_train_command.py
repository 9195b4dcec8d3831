"""`harness train`: a small training runs through the command."""

import json

import pytest
from harness_training.cli.train import _trainable_method

from packages.training.tests.small import save

FEW = ("scenes=6", "batch=3", "rank=1", "exam=2", "length=2000", "say=1")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return save(tmp_path_factory.mktemp("bases") / "small")


def test_a_preset_is_trained_with_its_own_settings():
    name, method = _trainable_method("longrefiner-no-adapters")
    assert (name, method.config.analysis_adapter) == ("longrefiner-no-adapters", None)
    assert _trainable_method("longrefiner")[1].config.analysis_adapter == "auto"


def test_one_task_is_trained_stopped_and_gone_on_with(here, base, tmp_path):
    out = tmp_path / "out"
    chosen = ("--profile", "pocket", "--task", "analysis", "--out", str(out))
    words = ("train", "longrefiner", "--model", str(base), *chosen)
    first = here(*words, "--set", *FEW, "--steps", "1").checked()
    assert "stopped after 1 steps; the same command without --steps resumes" in first.stderr
    assert not (out / "adapters").exists()
    done = here(*words, "--set", *FEW, "--json").checked()
    assert "analysis: going on from step 1 of 2" in done.stderr
    assert (
        "use them: harness run --method longrefiner ... --set roles.refiner.adapters.analysis="
        in done.stderr
    )
    found = json.loads(done.stdout)
    assert [(one["task"], one["name"]) for one in found["measures"]] == [("analysis", "accuracy")]
    assert [json.loads(line)["step"] for line in (out / "log.jsonl").read_text().splitlines()] == [
        1,
        2,
    ]
    table = here(*words, "--set", *FEW, "--eval").stdout
    head, *_ = table.splitlines()
    assert " ".join(head.split()) == "task measure base alone with its adapter floor scenes"
