"""What only a GPU runs: one attention call for all contexts, and recorded decode steps."""

import pytest
import torch

from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.llm.backend import load_model
from harness.llm.batched_forward import ForwardRequest, run_packed
from harness.llm.load import unload
from harness.llm.network import ForwardQueue
from tests.llm.conftest import NODES
from tests.llm.test_hf_session import eager_attention

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


@pytest.fixture(scope="module")
def model(tiny_folder):
    yield load_model(ModelConfig(name="tiny", source=str(tiny_folder), dtype="bfloat16"))
    unload()


def test_attention_captured_in_one_call_is_that_of_the_eager_kernel(model):
    assert model.in_one_call
    with model.session(Meter()) as s:
        s.user("Question:\n")
        asked = s.feed("Where is the school of Mira Tal?")
        nodes = [s.feed(node, watch=[asked]) for node in NODES]
        s.flush()
        maps = eager_attention(model, s.ids)
    for node in nodes:
        wanted = maps[node.start : node.end, asked.start : asked.end].mean()
        assert node.attention == pytest.approx([wanted], rel=0.02)


def test_recorded_steps_give_the_logits_of_eager_ones_before_and_after_the_arena_grows(model):
    queue, pool = ForwardQueue(model, None), model.pool
    recorded, eager = ([pool.new_cache() for _ in range(3)] for _ in range(2))
    run_packed(
        model.net,
        model.device,
        [ForwardRequest([n, 5, 7], c) for both in (recorded, eager) for n, c in enumerate(both)],
        True,
    )
    others, capacities = [], set()
    for step in range(6):
        if step == 3:
            others = [pool.new_cache() for _ in range(9)]
            queue.run([ForwardRequest([4] * 300, other) for other in others])
        capacities.add(pool.capacity)
        found = queue.run(
            [ForwardRequest([step + n], cache, 1) for n, cache in enumerate(recorded)]
        )
        wanted = run_packed(
            model.net,
            model.device,
            [ForwardRequest([step + n], cache, 1) for n, cache in enumerate(eager)],
            True,
        )
        assert all((a - b).norm() < 0.02 * b.norm() for a, b in zip(found, wanted, strict=True))
    assert len(capacities) > 1
    assert queue._steps.problem is None
    assert list(queue._steps._recordings) == [4]
