# ruff: noqa: F811 - fixtures of another file are imported by name
"""Deterministic mode: what a context says is the same to the bit, whatever else is in flight."""

import pytest
import torch

from harness.api.run_request import RunRequest
from harness.config.schema import ModelConfig
from harness.llm import network, trial_passes
from harness.llm.backend import load_model, model_facts
from harness.llm.batched_forward import ForwardRequest
from harness.llm.kv import KVPool
from tests.llm.test_batched_forward import _no_early_pass, passes, scripts_of, side_by_side  # noqa: F401 - fixtures


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_contexts_in_flight_equal_themselves_alone_to_the_bit(tiny_folder, passes, dtype):
    model = load_model(
        ModelConfig(name="tiny", source=str(tiny_folder), dtype=dtype, deterministic=True)
    )
    rows = network._FIXED_ROWS[model.device.type]
    assert model.fixed_rows == rows
    jobs = scripts_of(model)
    alone = [job() for job in jobs]
    passes.clear()
    for count in (2, 4):
        together_ = [r for n in range(0, 4, count) for r in side_by_side(jobs[n : n + count])]
        for what in ("text", "events", "numbers"):
            assert [r[what] for r in together_] == [r[what] for r in alone]
    assert {sum(tokens) for tokens in passes} == {rows}
    assert max(map(len, passes)) > 3, "nothing was packed"


def test_it_does_not_matter_how_many_threads_another_library_left(tiny_folder):
    model = load_model(
        ModelConfig(name="tiny", source=str(tiny_folder), dtype="float32", deterministic=True)
    )
    job = scripts_of(model)[0]
    usual = job()
    torch.set_num_threads(network.THREADS + 1)
    try:
        assert job() == usual
    finally:
        torch.set_num_threads(network.THREADS)


@pytest.mark.parametrize("by_place", [True, False])
def test_a_trial_finds_rows_that_depend_on_their_pass(tiny, by_place):
    """A network whose logits see the row's place, or the other rows, in the last bit."""

    class Net:
        config, get_decoder = tiny.net.config, tiny.net.get_decoder

        def __call__(self, **given):
            out = tiny.net(**given)
            rows = out.logits.shape[1]
            noise = (
                torch.arange(rows, device=tiny.device)[None, :, None]
                if by_place
                else given["input_ids"].sum()
            )
            out.logits = out.logits + noise * 1e-4
            return out

    assert trial_passes.rows_are_independent(tiny.net, tiny.device, tiny.n_layers, 8)
    assert not trial_passes.rows_are_independent(Net(), tiny.device, tiny.n_layers, 8)


def test_a_pass_that_cannot_be_shared_runs_alone(tiny_folder, passes):
    model = load_model(
        ModelConfig(name="tiny", source=str(tiny_folder), attention="eager", deterministic=True)
    )
    assert model.fixed_rows == 0
    assert (
        model.forward(ForwardRequest([1, 2], KVPool(model.n_layers).new_cache(), 1), None).shape[0]
        == 1
    )
    assert not passes


def test_the_option_is_part_of_what_identifies_a_run(tiny_folder):
    assert RunRequest(deterministic=True).settings == {"model.deterministic": True}
    assert RunRequest().settings == {}
    usual = ModelConfig(name="tiny", source=str(tiny_folder))
    fixed = model_facts(usual.model_copy(update={"deterministic": True})).identity
    assert fixed == {**model_facts(usual).identity, "deterministic": True}
    server = ModelConfig(
        name="m", backend="endpoint", base_url="http://localhost:1/v1", deterministic=True
    )
    assert any(
        "model.deterministic says how a model is loaded here" in s
        for s in model_facts(server).problems
    )
