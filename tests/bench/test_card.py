"""python -m bench.card: the card's time of a batch, by hand."""

import pytest

from bench.card import BYTES, FLOPS, LAUNCH, Batch, summary

LINEAR, HEAD = 6_979_321_856, 525_336_576  # multiply-adds of Llama-3.1-8B a token: layers, and head


def test_a_step_of_few_tokens_takes_as_long_as_its_bytes():
    batch = Batch()
    batch.add([(1, 999)])
    assert batch.work == pytest.approx((2 * (LINEAR + HEAD) + 131_072 * 1000) / BYTES)


def test_a_long_prompt_takes_as_long_as_its_flops():
    batch = Batch()
    batch.add([(2000, 0)])
    pairs = 2000 * 2001 / 2
    assert batch.work == pytest.approx((2 * (2000 * LINEAR + HEAD) + 4 * 32 * 4096 * pairs) / FLOPS)


def test_the_card_is_idle_while_it_waits_for_launches():
    batches = [
        Batch(contexts=2, tokens=2, launches=1000),
        Batch(contexts=4, tokens=4, launches=2000),
    ]
    found = summary(batches, 3)
    waiting, work = 3000 * LAUNCH, sum(batch.work for batch in batches)
    assert (found["contexts"], found["launches"]) == (3.0, 1500)
    assert found["idle"] == pytest.approx(waiting / (waiting + work), abs=1e-3)
    assert found["ms_question"] == pytest.approx(1e3 * (waiting + work) / 3, abs=0.05)
