"""The adapters that come with the embedded model: they fit it, and each way in which one does not is a sentence."""

import importlib.util
import json
import shutil

import pytest
from pocket.card import EMBEDDED, NAME
from pocket.cli import check as command

from harness.config.resolve import resolved

TASKS = ("analysis", "structuring", "selection")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of the test's own with the adapters, their cards made for the weights as they are."""
    from harness.llm.model_info import hash_files

    root = tmp_path / "made_up_package"
    shutil.copytree(EMBEDDED.parent / "adapters", root / "adapters")
    (root / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    for task in TASKS:
        told = card(root, task)
        told["base"] = {"name": NAME, "where": {"files": hash_files(EMBEDDED)}}
        told["prompts"] = command.preset_digests(told["method"])
        write(root, task, told)
    config = resolved("models", model=NAME)
    return config.model_copy(update={"package": "made_up_package"})


def card(root, task):
    return json.loads((root / "adapters" / task / "card.json").read_text(encoding="utf-8"))


def write(root, task, told):
    (root / "adapters" / task / "card.json").write_text(json.dumps(told), encoding="utf-8")


def changed(**values):
    return lambda root: write(root, "selection", {**card(root, "selection"), **values})


BROKEN = [
    (lambda root: shutil.rmtree(root / "adapters" / "selection"), "the adapter 'selection' is not in the package"),
    (lambda root: (root / "adapters" / "selection" / "card.json").unlink(), "'selection' has no card that says which"),
    (changed(prompts="0" * 16), "the adapter 'selection' was trained on other prompts of 'longrefiner'"),
    (changed(method="longrefinr"), "the method that the adapter 'selection' was trained for cannot be made: unknown"),
    (changed(base={"name": NAME, "where": {"files": "0" * 64}}), "it was trained on other weights of 'pocket-llama'"),
]


def test_the_shipped_ones_fit_and_are_small():
    fit = command.adapter_problems(resolved("models", model=NAME), EMBEDDED)
    assert fit == dict.fromkeys(TASKS), "make adapters trains them again"
    assert sum(p.stat().st_size for p in (EMBEDDED.parent / "adapters").rglob("*.safetensors")) <= 1024**2


@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_done_better_with_its_adapter(task):
    first = card(EMBEDDED.parent, task)["measures"]["rows"][0]
    assert first["after"]["mean"] > first["before"]["mean"] or first["before"]["mean"] == 1
    assert first["floor"] is None or first["after"]["low"] > first["floor"]


def test_what_fits(package):
    assert command.adapter_problems(package, EMBEDDED) == dict.fromkeys(TASKS)
    assert command.adapter_problems(package.model_copy(update={"offers": {}}), EMBEDDED) == {}, "none came along"


@pytest.mark.parametrize(("spoil", "sentence"), BROKEN, ids=[sentence for _, sentence in BROKEN])
def test_what_does_not(spoil, sentence, package, tmp_path):
    spoil(tmp_path / "made_up_package")
    found = command.adapter_problems(package, EMBEDDED)
    assert (found["analysis"], found["structuring"]) == (None, None)
    assert sentence in (found["selection"] or "")


@pytest.mark.parametrize("skills_wrong", [False, True])
@pytest.mark.parametrize("sentence", [None, "the adapter 'selection' is stale"])
def test_the_command_says_both_and_fails_for_either(sentence, skills_wrong, monkeypatch, capsys):
    monkeypatch.setattr(command, "stale", lambda *_: [("answer", "never trained")] if skills_wrong else [])
    monkeypatch.setattr(command, "adapter_problems", lambda *_: {"selection": sentence})
    assert command.check(None) == (4 if sentence or skills_wrong else 0)
    told = capsys.readouterr()
    assert ("1 adapters fit the weights and the prompts" in told.out) is (sentence is None)
    assert ((sentence or "make adapters") in told.err, "make adapters" in told.err) == (sentence is not None,) * 2
    assert command.check(str(EMBEDDED)) == (4 if skills_wrong else 0), "no adapters are of a folder that is named"
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "peft" else find(name))
    assert command.check(None) == (4 if skills_wrong else 0)
    assert "the adapters are not checked: they need the package peft" in capsys.readouterr().err
