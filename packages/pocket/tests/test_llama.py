"""Folders of the pocket model: a folder to begin from, first weights, and what is saved and
loaded."""

import pytest
import torch
from pocket.train import llama, model_folder

from harness.errors import CannotRun, UserError
from packages.pocket.tests import trainings


def small(seed=0, vocabulary=40, **sizes):
    return llama.new_network(vocabulary, seed, **{**trainings.TINY, **sizes})


@pytest.mark.parametrize("name", ["config.json", "chat_template.jinja"])
def test_a_missing_file_is_named(model, name):
    model_folder.check_folder(model, model.parent / "out" / "model")
    (model / name).unlink()
    with pytest.raises(
        CannotRun, match=f"' is no folder of a trained pocket model: it has no {name}$"
    ):
        model_folder.check_folder(model, model.parent / "out" / "model")


def test_its_tokenizer_is_taken_and_another_is_refused(model):
    to = model.parent / "out" / "model"
    model_folder.copy_tokenizer(model, to)
    assert sorted(path.name for path in to.iterdir()) == [
        "chat_template.jinja",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    model_folder.check_folder(model, to)
    (to / "tokenizer.json").write_text("another")
    model_folder.copy_tokenizer(model, to)
    assert (to / "tokenizer.json").read_text() == "another"
    with pytest.raises(
        UserError, match="the training in .*out has another tokenizer than '.*model'; name another"
    ):
        model_folder.check_folder(model, to)


def test_first_weights_are_seeded_and_smallest_where_a_layer_writes():
    one, again, other = (small(seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], weight) for name, weight in again.items())
    assert not torch.equal(one["lm_head.weight"], other["lm_head.weight"])
    assert all((weight == 1).all() for name, weight in one.items() if "norm" in name)
    found = {
        name: float(one[f"model.layers.0.{name}.weight"].std())
        for name in ("mlp.down_proj", "mlp.up_proj")
    }
    assert found["mlp.down_proj"] == pytest.approx(0.01, rel=0.2)
    assert found["mlp.up_proj"] == pytest.approx(0.06, rel=0.2)


def test_what_is_loaded_is_what_was_saved_in_bfloat16(tmp_path):
    from transformers import AutoModelForCausalLM

    llama.save_weights(small(3), tmp_path)
    loaded = small()
    llama.load_weights(loaded, tmp_path)
    theirs = AutoModelForCausalLM.from_pretrained(str(tmp_path)).state_dict()
    for name, weight in small(3).state_dict().items():
        assert torch.equal(loaded.state_dict()[name], weight.bfloat16().float())
        assert torch.equal(theirs[name], weight.bfloat16())


def test_weights_of_another_shape_are_refused(tmp_path):
    llama.save_weights(small(), tmp_path)
    with pytest.raises(CannotRun, match="the weights in .* are none of a pocket model"):
        llama.load_weights(small(num_hidden_layers=3), tmp_path)
